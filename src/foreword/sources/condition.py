"""Deciding in a view whether the conditions of a slot hold."""

from foreword.blueprint.condition import NOT, TOOL
from foreword.sources.view import SessionView, StaticView, TurnView, View

UNMET = {
    "tools": "the turn has no tools",
    "not tools": "the turn has tools",
    "native_tools": "the model takes no tool schemas beside the prompt",
    "not native_tools": "the model takes tool schemas beside the prompt",
    "identity": "the agent has no identity",
    "not identity": "the agent has an identity",
    "sandbox": "no sandbox is known",
    "not sandbox": "there is a sandbox",
    "plan": "plan mode is off",
    "not plan": "plan mode is on",
}


def find_unmet(conditions: tuple[str, ...], view: View) -> str:
    """Say why the first condition that is not met is not met, or nothing."""
    static = view if isinstance(view, StaticView) else view.static
    for one in conditions:
        name = one.removeprefix(NOT)
        if holds(name, static, view) == one.startswith(NOT):
            return UNMET.get(one) or f"the turn has {'a' if one.startswith(NOT) else 'no'} tool of {name}"
    return ""


def holds(name: str, static: StaticView, view: View) -> bool:
    """Decide one condition."""
    kind, _, wanted = name.rpartition(":")
    if kind:
        return wanted in (static.tools.names if f"{kind}:" == TOOL else {tool.kind for tool in static.tools.tools})
    session = view.session if isinstance(view, TurnView) else view
    known = {
        "tools": bool(static.tools),
        "native_tools": static.meter.facts.native_tools,
        "identity": bool(static.settings.identity),
        "sandbox": isinstance(session, SessionView) and session.sandbox is not None,
        "plan": isinstance(view, TurnView) and view.plan,
    }
    return known[name]
