"""Deciding in a view whether the conditions of a slot hold."""

from dataclasses import fields

from foreword.blueprint.condition import NOT, TOOL
from foreword.config.schema import Identity
from foreword.sources.facts import find_shell
from foreword.sources.view import SessionView, StaticView, TurnView, View

UNMET = {
    "tools": "the turn has no tools",
    "not tools": "the turn has tools",
    "native_tools": "the model takes no tool schemas beside the prompt",
    "not native_tools": "the model takes tool schemas beside the prompt",
    "shell": "the turn has no tool that runs commands",
    "not shell": "the turn has a tool that runs commands",
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
        if holds(one.removeprefix(NOT), static, view) == one.startswith(NOT):
            return UNMET.get(one) or name_tool(one)
    return ""


def name_tool(condition: str) -> str:
    """Say which tool there is not, or is."""
    name = condition.removeprefix(NOT)
    there = "a" if condition.startswith(NOT) else "no"
    wanted = name.partition(":")[2]
    return f"the turn has {there} tool {wanted}" if name.startswith(TOOL) else f"the turn has {there} {wanted} tool"


def holds(name: str, static: StaticView, view: View) -> bool:
    """Decide one condition."""
    kind, colon, wanted = name.partition(":")
    if colon:
        return wanted in (static.tools.names if f"{kind}:" == TOOL else {tool.kind for tool in static.tools.tools})
    session = view.session if isinstance(view, TurnView) else view
    known = {
        "tools": bool(static.tools),
        "native_tools": static.meter.facts.native_tools,
        "shell": bool(find_shell(static.tools)),
        "identity": has_identity(static.settings.identity),
        "sandbox": isinstance(session, SessionView) and session.sandbox is not None,
        "plan": isinstance(view, TurnView) and view.plan,
    }
    return known[name]


def has_identity(identity: Identity | str | None) -> bool:
    """Whether an identity says anything."""
    if identity is None or isinstance(identity, str):
        return bool(identity and identity.strip())
    return any(getattr(identity, field.name).strip() for field in fields(identity))
