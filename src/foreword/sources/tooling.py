"""Sources that speak of tools: which there are, how to call them, how to use them well, and what their servers say."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from foreword.blueprint import Planned
from foreword.sources.builtin import read_builtin
from foreword.sources.document import normalise, one_line
from foreword.sources.outside import label
from foreword.sources.registry import source
from foreword.sources.section import Item, Missing, Section, absent
from foreword.sources.view import StaticView
from foreword.turn import Tool
from foreword.words import Pace

DESCRIPTION = 160  # characters of a tool's description; its schema travels beside the prompt


@source("tool_list", Pace.STATIC)
def list_tools(view: StaticView, entry: Planned) -> Item:
    """List the tools that this clearance may know of, one line each."""
    lines = [f"- {tool.name}: {shorten_description(tool)}".rstrip(": ") for tool in view.tools.tools]
    return Section(entry=entry, text="\n".join(lines), origin="tools") if lines else absent(entry, "there are no tools")


def shorten_description(tool: Tool) -> str:
    """Keep a tool's description within its limit."""
    text = one_line(tool.description)
    return text if len(text) <= DESCRIPTION else text[:DESCRIPTION] + "..."


@source("tool_schemas", Pace.STATIC)
def show_schemas(view: StaticView, entry: Planned) -> tuple[Item, ...] | Item:
    """Show every tool with its parameters, for a model that takes no schemas beside the prompt."""
    sections = [
        Section(entry=entry, name=tool.name, title=tool.name, text="\n".join(show_schema(tool)), origin="tools")
        for tool in view.tools.tools
    ]
    return tuple(sections) or absent(entry, "there are no tools")


def show_schema(tool: Tool) -> Iterator[str]:
    """Show one tool: what it does, its parameters in a line, and the schema where that line is not all of it."""
    if tool.description.strip():
        yield one_line(tool.description)
    properties = tool.parameters.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        return
    required = tool.parameters.get("required")
    needed = required if isinstance(required, (list, tuple)) else ()
    yield "Params: " + ", ".join(show_parameter(name, about, needed) for name, about in properties.items())
    if any(not isinstance(about, Mapping) or about.keys() - {"type"} for about in properties.values()):
        yield f"Schema: {json.dumps(tool.parameters, sort_keys=True, ensure_ascii=False, default=str)}"


def show_parameter(name: str, about: Any, needed: Any) -> str:
    """Show one parameter as `name (type, required)`."""
    kind = about.get("type", "any") if isinstance(about, Mapping) else "any"
    kinds = " or ".join(map(str, kind)) if isinstance(kind, (list, tuple)) else str(kind)
    return one_line(f"{name} ({kinds}{', required' if name in needed else ''})")


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
    items = [
        Section(
            entry=entry,
            name=one_line(one.name),
            title=one_line(one.name),
            text=text,
            origin=f"extension {one_line(one.name)}",
            before=warning,
            note=note,
        )
        for one in sorted(view.extensions, key=lambda one: one.name)
        if (text := normalise(one.instructions).replace("\0", "").strip())
        for warning, note in [label(text)]
    ]
    return tuple(items) or absent(entry, "no extension has instructions")
