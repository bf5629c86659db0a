"""Sources that speak of tools: which there are, how to call them, how to use them well, and what their servers say."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from foreword.blueprint import Planned
from foreword.sources.builtin import read_builtin
from foreword.sources.document import normalise, one_line
from foreword.sources.outside import label
from foreword.sources.registry import source
from foreword.sources.section import Item, Missing, Section, absent, tell_apart
from foreword.sources.view import StaticView
from foreword.turn import Tool
from foreword.words import Pace

SCHEMAS = "tool_schemas"  # the source whose sections the budget serves before all others
LINE = {"type", "properties", "required"}  # what the line of parameters tells of a schema
DESCRIPTION = 160  # characters of a tool's description; its schema travels beside the prompt


@source("tool_list", Pace.STATIC)
def list_tools(view: StaticView, entry: Planned) -> Item:
    """List the tools that this clearance may know of, one line each."""
    lines = [": ".join(filter(None, (f"- {tool.name}", shorten_description(tool)))) for tool in view.tools.tools]
    return make_list(view, entry, lines)


def make_list(view: StaticView, entry: Planned, lines: Sequence[str]) -> Item:
    """Make a section of one line per tool, and one for the tools that are left out."""
    text = "\n".join([*lines, *name_left_out(view)])
    return Section(entry=entry, text=text, origin="tools") if text else absent(entry, "there are no tools")


def name_left_out(view: StaticView) -> Iterator[str]:
    """Name the tools that the model's window has no room for, so that the model does not promise them."""
    if view.left_out:
        yield f"(This model has no room for these tools: {', '.join(view.left_out)}.)"


def shorten_description(tool: Tool) -> str:
    """Keep a tool's description within its limit."""
    text = clean(tool.description)
    return text if len(text) <= DESCRIPTION else text[:DESCRIPTION] + "..."


def clean(text: str) -> str:
    """Put words from outside on one line of whole characters: half a character must not cost the other tools."""
    return one_line(normalise(text))


@source("tool_signatures", Pace.STATIC)
def list_signatures(view: StaticView, entry: Planned) -> Item:
    """List the tools that this clearance may know of, one line each, with their parameters."""
    lines = [
        ": ".join(filter(None, (f"- {tool.name}({sign_tool(tool)})", shorten_description(tool))))
        for tool in view.tools.tools
    ]
    return make_list(view, entry, lines)


def sign_tool(tool: Tool) -> str:
    """Write the parameters of a tool as `name: type`, an optional one with a question mark."""
    return ", ".join(f"{name}{'' if needed else '?'}: {kind}" for name, kind, needed in list_parameters(tool))


@source(SCHEMAS, Pace.STATIC)
def show_schemas(view: StaticView, entry: Planned) -> tuple[Item, ...] | Item:
    """Show every tool with its parameters, for a model that takes no schemas beside the prompt."""
    sections = [
        Section(entry=entry, name=tool.name, title=tool.name, text="\n".join(show_schema(tool)), origin="tools")
        for tool in view.tools.tools
    ]
    return tuple(sections) or absent(entry, "there are no tools")


def show_schema(tool: Tool) -> Iterator[str]:
    """Show one tool: what it does, its parameters in a line, and the schema where that line is not all of it."""
    if description := clean(tool.description):
        yield description
    if parameters := list(list_parameters(tool)):
        yield "Params: " + ", ".join(
            f"{name} ({kind}{', required' if needed else ''})" for name, kind, needed in parameters
        )
    if says_more(tool.parameters):
        yield f"Schema: {write_schema(tool.parameters)}"


def says_more(schema: Mapping[str, Any]) -> bool:
    """Whether a schema says more than the names and types of its parameters, and which must be given."""
    properties = schema.get("properties")
    described = properties.values() if isinstance(properties, Mapping) else ()
    further = any(not isinstance(about, Mapping) or about.keys() - {"type"} for about in described)
    return further or bool(schema.keys() - LINE)


def list_parameters(tool: Tool) -> Iterator[tuple[str, str, bool]]:
    """List the parameters of a tool: the name, the type, and whether it must be given; a broken schema has none."""
    properties = tool.parameters.get("properties")
    required = tool.parameters.get("required")
    for name, about in properties.items() if isinstance(properties, Mapping) else ():
        kind = about.get("type", "any") if isinstance(about, Mapping) else "any"
        kinds = " or ".join(map(str, kind)) if isinstance(kind, (list, tuple)) else str(kind)
        yield clean(str(name)), clean(kinds), isinstance(required, (list, tuple)) and name in required


def write_schema(parameters: Mapping[str, Any]) -> str:
    """Write a schema as JSON on one line."""
    text = json.dumps(parameters, sort_keys=True, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(parameters, sort_keys=True)


@source("tool_guidance", Pace.STATIC)
def guide_tools(view: StaticView, entry: Planned) -> Item:
    """Say once per class of tools how to use them well."""
    kinds: dict[str, list[str]] = {}
    for tool in view.tools.tools:
        kinds.setdefault(tool.kind, []).append(tool.name)
    lines = [
        f"- {', '.join(names)}: {one_line(text)}"
        for kind, names in sorted(kinds.items())
        if kind and (text := read_builtin(f"tools/{kind}"))
    ]
    lines += name_left_out(view)
    if not lines:
        return Missing(entry=entry, reason="the turn has no tools that need guidance")
    return Section(entry=entry, text="\n".join(lines), origin="built-in tools")


@source("tool_hints", Pace.STATIC)
def hint_tools(view: StaticView, entry: Planned) -> Item:
    """Give one built-in hint for each tool that has one."""
    hints = [read_builtin(f"{entry.text}/{tool.name}") for tool in view.tools.tools]
    text = "\n".join(filter(None, hints))
    return (
        Section(entry=entry, text=text, origin=f"built-in {entry.text}") if text else absent(entry, "no tool has one")
    )


@source("extensions", Pace.STATIC)
def show_extensions(view: StaticView, entry: Planned) -> tuple[Item, ...] | Item:
    """Give what each server of tools says of itself, in the order of their names, scanned."""
    speaking = [(clean(one.name), text) for one in view.extensions if (text := clean_text(one.instructions))]
    speaking.sort()
    names = tell_apart(name for name, _ in speaking)
    items = [
        Section(
            entry=entry,
            name=name,
            title=title,
            text=text,
            origin=f"extension {title}",
            before=warning,
            note=note,
        )
        for name, (title, text) in zip(names, speaking, strict=True)
        for warning, note in [label(text)]
    ]
    return tuple(items) or absent(entry, "no extension has instructions")


def clean_text(text: str) -> str:
    """Keep the whole characters and the lines of a text from outside."""
    return normalise(text).replace("\0", "").strip()
