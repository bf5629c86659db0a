"""Writes what is generated in docs/: commands, tools, JSON Schemas and the HTTP API. Run: python -m docs.generate."""

import argparse
import json
import os
import re
from functools import cache
from typing import Any

from foreword.agent.tools import registry
from foreword.cli.main import COMMANDS, DESCRIPTION, EXAMPLES, CommandParser, load_command, make_parsers
from foreword.config.json_schema import make_json_schema
from foreword.config.schema import Config
from foreword.engine.blueprint import Blueprint
from foreword.http.app import make_app
from foreword.turn import Tool
from foreword.types import Trust

CODES = """\
Exit codes: 0 done; 1 an error was found by `lint` or `doctor`, or the required slots do not fit the budget; 2 bad
input; 130 interrupted; 141 the reader of the output has gone. Warnings and complaints go to stderr."""
CONFIGURED = """\
A folder with a `foreword.yaml` is a workspace. Only `owner` and its entry under `users` are required. An edit applies
within a second; an invalid one leaves the previous configuration in force, and every error is reported with its line.

```yaml
owner: alice
agents:
  reid: {model: "anthropic:claude-sonnet-5", directories: [~/notes]}
users:
  alice: {trust: full, timezone: Europe/Paris, identities: ["telegram:1001"]}
  bob: {trust: familiar}
budgets: {daily_usd: 5}
```

`make docs` generates this page from the schema."""
FOLDER = os.path.dirname(os.path.abspath(__file__))


def render() -> dict[str, str]:
    """Render every generated file, by its name in docs/."""
    return {
        "commands.md": render_commands(),
        "configuration.md": render_configuration(),
        "tools.md": render_tools(),
        "foreword.schema.json": render_schema(Config),
        "blueprint.schema.json": render_schema(Blueprint),
        "openapi.json": render_api(),
    }


def tell_change(tool: Tool) -> str:
    """Tell whether a tool changes something, and whether a person is asked."""
    return ("yes" if tool.confirm else "yes, unasked") if tool.changes else ""


def render_tools() -> str:
    """Render the table of all tools into the page about them."""
    with open(os.path.join(FOLDER, "tools.md"), encoding="utf-8") as file:
        page = file.read()
    sets = [registry.make_workspace_tools(Trust.PUBLIC), *registry.GATEWAY_TOOLSETS]
    known = {tool.name: tool for one in sets for tool in one.tools}
    rows = [
        f"| `{name}` | {tool.description} | {tool.trust} | {tell_change(tool)} | {tool.seconds or 60:g} s |"
        for name, tool in sorted(known.items())
    ]
    table = "\n".join(["| tool | does | least trust | changes | time |", "|---|---|---|---|---|", *rows])
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
            parts += [f"## {name}", kind.get("description", ""), render_keys(kind)]
    return "\n\n".join(filter(None, parts)) + "\n"


def render_keys(kind: dict[str, Any]) -> str:
    """Render the keys of one mapping as a table."""
    needed = kind.get("required", [])
    rows = [
        f"| `{name}` | {name_type(shape)}{', required' if name in needed else name_default(shape)}"
        f" | {shape.get('description', '')} |"
        for name, shape in kind["properties"].items()
    ]
    return "\n".join(["| key | type | meaning |", "|---|---|---|", *rows])


def name_default(shape: dict[str, Any]) -> str:
    """Name the default of a key; omit empty ones and false."""
    value = shape.get("default")
    if isinstance(value, bool):
        return ", default true" if value else ""
    if isinstance(value, int | float):
        return f", default `{value:g}`"
    return f", default `{value}`" if value and isinstance(value, str) else ""


def name_type(shape: dict[str, Any]) -> str:
    """Name a type as a person would."""
    if "$ref" in shape:
        name = shape["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in shape:
        return " \\| ".join(f"`{word}`" for word in shape["enum"] if word is not None)
    if "anyOf" in shape:
        return " or ".join(name_type(one) for one in shape["anyOf"] if one.get("type") != "null")
    if shape.get("type") == "array":
        return f"list of {name_type(shape['items'])}"
    if isinstance(shape.get("additionalProperties"), dict):
        return f"names, each with {name_type(shape['additionalProperties'])}"
    kind = shape.get("type", "")
    return " or ".join(one for one in kind if one != "null") if isinstance(kind, list) else str(kind)


def render_commands() -> str:
    """Render the reference of the command line from its parsers."""
    parser, commands = make_parsers()
    parts = [
        "# Commands",
        "Generated by `make docs` from the parsers; a test fails when this page is stale.",
        DESCRIPTION,
        render_block(EXAMPLES),
        CODES,
        "## Everywhere",
        "These may stand before or after the command.",
        render_options(parser),
    ]
    shared = {max(action.option_strings, key=len) for action in parser.arguments if action.option_strings}
    for command in map(load_command, COMMANDS):
        parts += [
            f"## foreword {command.name}",
            command.description,
            render_block([str(commands[command.name].usage)]),
            render_options(commands[command.name], shared),
            render_block(command.examples),
        ]
    return "\n\n".join(filter(None, parts)) + "\n"


def render_block(lines: list[str] | tuple[str, ...]) -> str:
    """Render lines as they are typed."""
    return "```\n" + "\n".join(lines) + "\n```"


def render_options(parser: CommandParser, shared: set[str] | frozenset[str] = frozenset()) -> str:
    """Render what a parser takes as a table, without what is shared by all."""
    rows = [
        f"| `{name_action(action)}` | {(action.help or '').replace('|', '/')} |"
        for action in parser.arguments
        if action.help and not shared.intersection(action.option_strings) and not is_command(action)
    ]
    return "\n".join(["| option | meaning |", "|---|---|", *rows]) if rows else ""


def is_command(action: argparse.Action) -> bool:
    """Tell whether this is the place where the command stands."""
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
