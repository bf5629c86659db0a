"""The toolkit of a turn: the tools it offers, chosen before anything is read, and the sources about them.

A tool is offered if the clearance allows it, if the prompt shows its effect, and if its schema fits into the part of
the budget for schemas. That part depends only on blueprint and model, so no file and no message can change it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from foreword.engine.context import StaticView
from foreword.engine.selection import Plan, PlannedSlot
from foreword.engine.sources.documents import join_lines, normalise_lines, read_builtin
from foreword.engine.sources.forms import read_form
from foreword.engine.sources.injection import label_scan
from foreword.engine.sources.sections import Item, Missing, Section, make_text_item, number_duplicates, source
from foreword.tokens.count import Meter
from foreword.turn import NO_TOOLS, Tool, Toolset
from foreword.types import Pace, frozen

SCHEMAS_SOURCE = "tool_schemas"  # the source whose sections the budget charges first
LINE_KEYS = {"type", "properties", "required"}  # the schema keys that the line of parameters covers
MAX_TOOL_DESCRIPTION_CHARS = 160  # the maximum characters of a description in a list; the schema is sent separately


@source("tool_list", Pace.STATIC)
def list_tools(view: StaticView, entry: PlannedSlot) -> Item:
    """List the tools that this clearance may use, one line each."""
    lines = [": ".join(filter(None, (f"- {tool.name}", shorten_description(tool)))) for tool in view.tools.tools]
    return make_tool_list(view, entry, lines)


def make_tool_list(view: StaticView, entry: PlannedSlot, lines: Sequence[str]) -> Item:
    """Build a section with one line per tool, and one for the tools that are left out."""
    return make_text_item(entry, "\n".join([*lines, *name_left_out(view)]), "tools", "there are no tools")


def name_left_out(view: StaticView) -> Iterator[str]:
    """Name the tools that do not fit into the model's window, so that the model does not promise them."""
    if view.left_out:
        yield f"(This model has no room for these tools: {', '.join(view.left_out)}.)"


def shorten_description(tool: Tool) -> str:
    """Shorten a tool's description to its limit."""
    text = clean_line(tool.description)
    return text if len(text) <= MAX_TOOL_DESCRIPTION_CHARS else text[:MAX_TOOL_DESCRIPTION_CHARS] + "..."


def clean_line(text: str) -> str:
    """Put text from outside on one line of valid Unicode: a lone surrogate must not break the other tools."""
    return join_lines(normalise_lines(text))


@source("tool_signatures", Pace.STATIC)
def list_signatures(view: StaticView, entry: PlannedSlot) -> Item:
    """List the tools that this clearance may use, one line each, with their parameters."""
    lines = []
    for tool in view.tools.tools:
        parameters = [f"{name}{'' if needed else '?'}: {kind}" for name, kind, needed in list_parameters(tool)]
        lines.append(": ".join(filter(None, (f"- {tool.name}({', '.join(parameters)})", shorten_description(tool)))))
    return make_tool_list(view, entry, lines)


@source(SCHEMAS_SOURCE, Pace.STATIC)
def show_schemas(view: StaticView, entry: PlannedSlot) -> tuple[Item, ...] | Item:
    """Describe every tool with its parameters, for a model without native tool schemas."""
    sections = [
        Section(entry=entry, name=tool.name, title=tool.name, text="\n".join(show_schema(tool)), origin="tools")
        for tool in view.tools.tools
    ]
    return tuple(sections) or Missing(entry=entry, reason="there are no tools")


def show_schema(tool: Tool) -> Iterator[str]:
    """Describe one tool: its description, its parameters in a line, and the schema if that line omits something."""
    if description := clean_line(tool.description):
        yield description
    if parameters := list(list_parameters(tool)):
        yield "Params: " + ", ".join(
            f"{name} ({kind}{', required' if needed else ''})" for name, kind, needed in parameters
        )
    if exceeds_line(tool.parameters):
        schema = json.dumps(tool.parameters, sort_keys=True, ensure_ascii=False)
        yield f"Schema: {schema if schema.isprintable() else json.dumps(tool.parameters, sort_keys=True)}"


def exceeds_line(schema: Mapping[str, Any]) -> bool:
    """Return whether a schema holds more than parameter names, types and the required list."""
    properties = schema.get("properties")
    described = properties.values() if isinstance(properties, Mapping) else ()
    further = any(not isinstance(about, Mapping) or about.keys() - {"type"} for about in described)
    return further or bool(schema.keys() - LINE_KEYS)


def list_parameters(tool: Tool) -> Iterator[tuple[str, str, bool]]:
    """Yield name, type and whether it is required for each parameter; a broken schema has none."""
    properties = tool.parameters.get("properties")
    required = tool.parameters.get("required")
    for name, about in properties.items() if isinstance(properties, Mapping) else ():
        kind = about.get("type", "any") if isinstance(about, Mapping) else "any"
        kinds = " or ".join(map(str, kind)) if isinstance(kind, (list, tuple)) else str(kind)
        yield clean_line(str(name)), clean_line(kinds), isinstance(required, (list, tuple)) and name in required


@source("tool_guidance", Pace.STATIC)
def guide_tools(view: StaticView, entry: PlannedSlot) -> Item:
    """Return the guidance for each kind of tool once, and that of single tools."""
    kinds: dict[str, list[str]] = {}
    for tool in view.tools.tools:
        kinds.setdefault(tool.kind, []).append(tool.name)
    lines = [
        f"- {', '.join(names)}: {join_lines(text)}"
        for kind, names in sorted(kinds.items())
        if kind and (text := read_builtin(f"tools/{kind}"))
    ]
    lines += [f"- {tool.name}: {clean_line(tool.guidance)}" for tool in view.tools.tools if tool.guidance]
    lines += name_left_out(view)
    absence = "the turn has no tools that need guidance"
    return make_text_item(entry, "\n".join(lines), "built-in tools", absence)


@source("tool_hints", Pace.STATIC)
def hint_tools(view: StaticView, entry: PlannedSlot) -> Item:
    """Return the built-in hint of each tool that has one."""
    hints = [read_builtin(f"{entry.text}/{tool.name}") for tool in view.tools.tools]
    return make_text_item(entry, "\n".join(filter(None, hints)), f"built-in {entry.text}", "no tool has one")


@source("extensions", Pace.STATIC)
def show_extensions(view: StaticView, entry: PlannedSlot) -> tuple[Item, ...] | Item:
    """Return the scanned instructions of each tool server, sorted by name."""
    texts = [
        (clean_line(one.name), normalise_lines(one.instructions).replace("\0", "").strip()) for one in view.extensions
    ]
    speaking = sorted((name, text) for name, text in texts if text)
    names = number_duplicates(name for name, _ in speaking)
    items = [
        Section(entry=entry, name=name, title=title, text=text, origin=f"extension {title}", before=warning, note=note)
        for name, (title, text) in zip(names, speaking, strict=True)
        for warning, note in [label_scan(text)]
    ]
    return tuple(items) or Missing(entry=entry, reason="no extension has instructions")


# The order of tools by kind where not all of them fit. Tools of other kinds are in the middle.
FIRST_KINDS = ("reading", "memory", "instructions", "skills", "files", "shell", "web")
LAST_KINDS = ("messages", "schedule", "tasks", "responsibilities", "workflow", "delegation", "introspection")


@frozen(eq=True)
class OmittedTool:
    """A tool that does not fit, and the tokens of its schema."""

    tool: Tool
    tokens: int


@frozen(eq=True)
class Toolkit:
    """The tools of a turn, and those that do not fit into the budget."""

    tools: Toolset
    tokens: int = 0
    """The tokens of the schemas that are sent as tools, not as text."""
    limit: int = 0
    """The tokens of the system budget that schemas may use."""
    left_out: tuple[OmittedTool, ...] = ()

    @property
    def left_out_names(self) -> tuple[str, ...]:
        """The names of the tools that do not fit."""
        return tuple(one.tool.name for one in self.left_out)


NO_TOOLKIT = Toolkit(tools=NO_TOOLS)


def choose_tools(named: Toolset | None, plan: Plan, meter: Meter) -> Toolkit:
    """Choose the tools that a turn offers."""
    allowed = named.allowed(plan.clearance.level) if named else NO_TOOLS
    slots = [entry.slot for run in plan.runs for entry in run.entries if entry.verdict is None]
    shown = {slot.source for slot in slots}  # the sources and the form fields that the prompt has
    shown |= {name for slot in slots if slot.form for name in read_form(slot.form).names}
    useful = tuple(tool for tool in allowed.tools if not tool.shown_in or not shown.isdisjoint(tool.shown_in))
    tools = allowed if len(useful) == len(allowed.tools) else Toolset.in_order(useful)
    native = meter.facts.native_tools
    if not tools or not (native or SCHEMAS_SOURCE in shown):
        return Toolkit(tools=tools)
    # A model without native tools gets the schemas as sections.
    texts = [
        tool.schema if native else "\n".join([f"### {tool.name}", *show_schema(tool), "", ""]) for tool in tools.tools
    ]
    weights = [meter.count(text) for text in texts]
    limit = left = plan.blueprint.budget.tool_limit(meter.facts.window)
    kept: set[int] = set()  # the most needed kinds first, then in toolset order
    for at in sorted(range(len(weights)), key=lambda at: rank_tool(tools.tools[at])):
        if weights[at] <= left:
            kept.add(at)
            left -= weights[at]
    left_out = [
        OmittedTool(tool=tool, tokens=tokens)
        for at, (tool, tokens) in enumerate(zip(tools.tools, weights, strict=True))
        if at not in kept
    ]
    return Toolkit(
        tools=Toolset.in_order(tool for at, tool in enumerate(tools.tools) if at in kept) if left_out else tools,
        tokens=sum(weights[at] for at in kept) if native else 0,
        limit=limit,
        left_out=tuple(left_out),
    )


def rank_tool(tool: Tool) -> int:
    """Rank a tool by its kind."""
    if tool.kind in FIRST_KINDS:
        return FIRST_KINDS.index(tool.kind) - len(FIRST_KINDS)
    return LAST_KINDS.index(tool.kind) + 1 if tool.kind in LAST_KINDS else 0
