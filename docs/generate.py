"""Generates reference pages in docs/: commands, tools, JSON Schemas and the HTTP API. Run: python -m docs.generate.

It also writes `data/tools.json`: the descriptions and parameters of the tools, so that a start needs no pydantic.
"""

import argparse
import json
import os
import re
from functools import cache
from typing import Any

from foreword.agent.tools.declaration import PythonFunction
from foreword.agent.tools.log_tools import LOG_TOOL_KIND
from foreword.agent.tools.registry import make_workspace_tools
from foreword.cli.main import COMMANDS, CommandParser, load_command, make_parsers
from foreword.config.json_schema import make_json_schema
from foreword.config.schema import Config
from foreword.engine.blueprint import Blueprint
from foreword.gateway.gateway_tools import GATEWAY_TOOLSETS
from foreword.http.app import make_app
from foreword.turn import Tool
from foreword.types import Trust

INTRODUCTION = """\
Every command of `foreword`, generated from its parsers by `make docs`. `foreword COMMAND --help` has more examples.

Exit codes: 0 done; 1 `lint` or `doctor` found an error, or the required slots do not fit the budget; 2 bad input;
130 interrupted; 141 the reader of the output has gone. Warnings and errors go to stderr."""
CONFIGURED = """\
A folder with a `foreword.yaml` is a workspace. This page lists its keys; only `owner` and its entry under `users` are
required. An edit applies within a second; an invalid one leaves the previous configuration in force, and every error is
reported with its line.

```yaml
owner: alice
agents:
  reid: {model: "anthropic:claude-sonnet-5", directories: [~/notes]}
users:
  alice: {trust: full, timezone: Europe/Paris, identities: ["telegram:1001"]}
  bob: {trust: familiar}
budgets: {daily_usd: 5}
```"""
COMMON = "These may be before or after the command. The last column lists the commands that take each."
FOLDER = os.path.dirname(os.path.abspath(__file__))
TOOL_DATA = "../src/foreword/data/tools.json"


def render() -> dict[str, str]:
    """Render every generated file, by its name in docs/."""
    return {
        "commands.md": render_commands(),
        "configuration.md": render_configuration(),
        "tools.md": render_tools(),
        "foreword.schema.json": render_schema(Config),
        "blueprint.schema.json": render_schema(Blueprint),
        "openapi.json": render_api(),
        TOOL_DATA: render_declarations(),
    }


def name_change(tool: Tool) -> str:
    """Name whether a tool changes something, and whether a person is asked."""
    return ("yes" if tool.confirm else "yes, unasked") if tool.changes else "no"


def list_own_tools() -> dict[str, Tool]:
    """List the tools of this package by name."""
    sets = [make_workspace_tools(Trust.PUBLIC), *GATEWAY_TOOLSETS]
    return {tool.name: tool for tool in sorted((tool for one in sets for tool in one.tools), key=lambda one: one.name)}


def render_declarations() -> str:
    """Render the descriptions and parameters of the tools from their functions."""
    declared = {}
    for name, tool in list_own_tools().items():
        assert isinstance(tool.function, PythonFunction)
        description, parameters = tool.function.describe()
        # These schemas are older than the generator; other bytes would cost every session its cached prefix.
        if tool.kind == LOG_TOOL_KIND:
            del parameters["additionalProperties"]
        if "additionalProperties" not in parameters:
            parameters = {**parameters, "required": parameters.get("required", [])}
        declared[name] = {"description": description, "parameters": parameters}
    return json.dumps(declared, indent=1, ensure_ascii=False) + "\n"


def render_tools() -> str:
    """Render the table of all tools into the page about them."""
    with open(os.path.join(FOLDER, "tools.md"), encoding="utf-8") as file:
        page = file.read()
    rows = [
        f"`{name}` | {re.split(r'[.:] ', tool.description.rstrip('.'))[0]} | {tool.trust} | {name_change(tool)}"
        for name, tool in list_own_tools().items()
    ]
    table = "\n".join(["tool | does | least trust | changes", "---|---|---|---", *rows])
    return re.sub(
        r"(<!-- tools -->\n).*(\n<!-- /tools -->)", lambda found: found[1] + table + found[2], page, flags=re.DOTALL
    )


@cache
def render_api() -> str:
    """Render the OpenAPI document of the HTTP API."""
    return json.dumps(make_app().openapi(), indent=1, ensure_ascii=False) + "\n"


def render_schema(kind: type) -> str:
    """Render the JSON Schema of a file that people write."""
    return json.dumps(make_json_schema(kind), indent=2, ensure_ascii=False) + "\n"


def render_configuration() -> str:
    """Render every key of foreword.yaml from its schema."""
    schema = make_json_schema(Config)
    parts = [
        "# Configuration",
        CONFIGURED,
        render_keys(schema),
    ]
    for name, kind in sorted(schema["$defs"].items()):
        if "properties" in kind:
            parts += [f"## {name}", render_keys(kind)]
    return "\n\n".join(filter(None, parts)) + "\n"


def render_keys(kind: dict[str, Any]) -> str:
    """Render the keys of one mapping as a table."""
    needed = kind.get("required", [])
    rows = []
    for name, shape in kind["properties"].items():
        notes = [name_type(shape), "required" if name in needed else name_default(shape)]
        words = ", ".join(filter(None, [f"`{name}`", *notes]))
        rows.append(f"{words} | {shape.get('description', '')}")
    return "\n".join(["key | meaning", "---|---", *rows])


def name_default(shape: dict[str, Any]) -> str:
    """Name the default of a key; omit empty ones and false."""
    value = shape.get("default")
    if isinstance(value, bool):
        return "default true" if value else ""
    if isinstance(value, int | float):
        return f"default `{value:g}`"
    return f"default `{value}`" if value and isinstance(value, str) else ""


def name_type(shape: dict[str, Any]) -> str:
    """Name a type as a person would; a string needs no name."""
    if "$ref" in shape:
        name = shape["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in shape:
        choices = [choice for choice in shape["enum"] if choice is not None]
        return "[trust](trust.md)" if choices == list(Trust) else " \\| ".join(f"`{choice}`" for choice in choices)
    if "anyOf" in shape:
        return " or ".join(name_type(one) or "string" for one in shape["anyOf"] if one.get("type") != "null")
    if shape.get("type") == "array":
        return f"list of {name_type(shape['items']) or 'strings'}"
    if isinstance(shape.get("additionalProperties"), dict):
        return f"map of {name_type(shape['additionalProperties']) or 'strings'}"
    kinds = [shape["type"]] if isinstance(shape.get("type"), str) else shape.get("type", [])
    return " or ".join(kind for kind in kinds if kind not in ("null", "string"))


def render_commands() -> str:
    """Render the reference of the command line from its parsers; options of several commands appear once."""
    parser, parsers = make_parsers()
    rows = {name: list_options(parsers[name]) for name in COMMANDS}
    users: dict[str, list[str]] = {}
    for row in sum(rows.values(), list_options(parser)):
        users[row] = [name for name in COMMANDS if row in rows[name]]
    common = [row for row, names in users.items() if len(names) > 2 or not names]
    parts = ["# Commands", INTRODUCTION, "## Common options", COMMON, "option | meaning | commands\n---|---|---"]
    for row in common:
        parts[-1] += f"\n{row} | {' '.join(users[row]) if len(users[row]) < len(COMMANDS) else 'all'}"
    for command in map(load_command, COMMANDS):
        inherited = {*common, *(rows["build"] if command.name == "explain" else ())}
        own = [row for row in rows[command.name] if row not in inherited]
        parts += [
            f"## foreword {command.name}",
            shorten(command.description)
            + (" Takes the options of `foreword build`." if command.name == "explain" else ""),
            "\n".join(["option | meaning", "---|---", *own]) if own else "",
            f"`{command.examples[-1]}`",
        ]
    return "\n\n".join(filter(None, parts)) + "\n"


def shorten(description: str) -> str:
    """Keep the first sentence of a description, and its list of actions."""
    text, mark, actions = description.partition(" Actions: ")
    first = re.split(r"(?<=\.) (?=[A-Z`])", text)[0]
    return first + (f"\n\nActions: {actions}" if mark else "")


def list_options(parser: CommandParser) -> list[str]:
    """List the options and arguments of a parser as rows of a table."""
    return [
        f"`{name_action(action)}` | {(action.help or '').replace('|', '/')}"
        for action in parser.arguments
        if action.help and action.help != argparse.SUPPRESS and not is_command(action)
    ]


def is_command(action: argparse.Action) -> bool:
    """Return whether the action is the subcommand itself."""
    return action.dest == "command"


def name_action(action: argparse.Action) -> str:
    """Name an option or an argument as one writes it."""
    value = "\\|".join(map(str, action.choices)) if action.choices else str(action.metavar or "")
    takes = action.nargs != 0
    names = ", ".join(action.option_strings)
    return f"{names} {value}".strip() if names and takes else names or value


def main() -> None:
    """Write every generated file."""
    for name, text in render().items():
        with open(os.path.join(FOLDER, name), "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
