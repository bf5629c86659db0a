"""The toolkit of a turn: the tools it is offered, chosen before anything is read.

A tool is offered if the clearance allows it, if the prompt shows its effect, and if its schema fits into the part of
the budget that schemas may take. That part follows from blueprint and model, so no file and no message can move it.
"""

from collections.abc import Sequence

from foreword.blueprint import Plan
from foreword.frozen import frozen
from foreword.sources.form import read_form
from foreword.sources.tooling import SCHEMAS, show_schema
from foreword.tokens import Meter
from foreword.turn import NO_TOOLS, Tool, Toolset

# Which tools come first where not all of them fit, by their kind. Tools without one of these kinds come in the middle.
FIRST = ("reading", "memory", "instructions", "skills", "files", "shell", "web")
LAST = ("messages", "schedule", "tasks", "responsibilities", "workflow", "delegation", "introspection")


@frozen(eq=True)
class LeftOut:
    """A tool that does not fit, and the tokens of its schema."""

    tool: Tool
    tokens: int


@frozen(eq=True)
class Toolkit:
    """The tools of a turn, and those for which the budget has no room."""

    tools: Toolset
    tokens: int = 0
    """Tokens of the schemas that are sent as tools, not as text."""
    limit: int = 0
    """Tokens of the system budget that schemas may use."""
    left_out: tuple[LeftOut, ...] = ()

    @property
    def left_out_names(self) -> tuple[str, ...]:
        """The names of the tools that do not fit."""
        return tuple(one.tool.name for one in self.left_out)


NO_TOOLKIT = Toolkit(tools=NO_TOOLS)


def choose_tools(named: Toolset | None, plan: Plan, meter: Meter) -> Toolkit:
    """Choose the tools that a turn is offered."""
    allowed = named.allowed(plan.clearance.level) if named else NO_TOOLS
    shown = find_shown(plan)
    useful = tuple(tool for tool in allowed.tools if not tool.shown_in or not shown.isdisjoint(tool.shown_in))
    tools = allowed if len(useful) == len(allowed.tools) else Toolset.in_order(useful)
    native = meter.facts.native_tools
    if not tools or not (native or SCHEMAS in shown):
        return Toolkit(tools=tools)
    weights = [meter.count(tool.schema if native else write_schema_text(tool)) for tool in tools.tools]
    limit = plan.blueprint.budget.tool_limit(meter.facts.window)
    kept = fit_tools(tools.tools, weights, limit)
    left_out = [
        LeftOut(tool=tool, tokens=tokens)
        for at, (tool, tokens) in enumerate(zip(tools.tools, weights, strict=True))
        if at not in kept
    ]
    return Toolkit(
        tools=Toolset.in_order(tool for at, tool in enumerate(tools.tools) if at in kept) if left_out else tools,
        tokens=sum(weights[at] for at in kept) if native else 0,
        limit=limit,
        left_out=tuple(left_out),
    )


def find_shown(plan: Plan) -> frozenset[str]:
    """Name the sources and the form fields that the prompt of a plan has."""
    slots = [entry.slot for run in plan.runs for entry in run.entries if entry.verdict is None]
    fields = [name for slot in slots if slot.form for name in read_form(slot.form).names]
    return frozenset([*(slot.source for slot in slots), *fields])


def fit_tools(tools: Sequence[Tool], weights: Sequence[int], limit: int) -> frozenset[int]:
    """Choose the positions of the tools that fit: the most needed kinds first, then the order of the toolset."""
    kept: set[int] = set()
    for at in sorted(range(len(tools)), key=lambda at: rank_tool(tools[at])):
        if weights[at] <= limit:
            kept.add(at)
            limit -= weights[at]
    return frozenset(kept)


def rank_tool(tool: Tool) -> int:
    """Rank a tool by its kind."""
    if tool.kind in FIRST:
        return FIRST.index(tool.kind) - len(FIRST)
    return LAST.index(tool.kind) + 1 if tool.kind in LAST else 0


def write_schema_text(tool: Tool) -> str:
    """Write a tool as the prompt shows it to a model without native tools."""
    return "\n".join([f"### {tool.name}", *show_schema(tool), "", ""])
