"""Messenger commands (/plan, /project, /drop, /allow, /deny), answered by the gateway without the agent."""

import re
import sqlite3
from datetime import datetime

from foreword.errors import InputError
from foreword.gateway.equipment import list_roots, open_project
from foreword.gateway.messages import RoutedMessage
from foreword.gateway.session_manager import resolve_session_key, set_field, settle_plan, switch_plan
from foreword.storage.sessions import PlanState, Session, add_session, find_current_session, find_newest_plan
from foreword.storage.turns import Exchange, list_unfinished
from foreword.types import frozen
from foreword.workspace import Workspace

_TYPED = re.compile(r"/(plan|project|drop)(?:@\w+)?(?:\s+(.*?))?\s*", re.IGNORECASE | re.DOTALL)
_DECISION = re.compile(r"/(allow|deny)(?:_([0-9a-f]+))?(?:@\w+)?(?:\s+([0-9a-f]+))?", re.IGNORECASE)
PRIVATE_ONLY = "This command works only in a private chat."
NOTHING_WAITS = "You have no unanswered messages."
HOW_TO_DROP = "Write /drop for the newest unanswered message, or /drop all."


@frozen(eq=True)
class MessengerCommand:
    """A command as typed."""

    name: str
    rest: str = ""

    @property
    def accepts(self) -> bool:
        """Return whether it accepts the plan, which the agent then carries out."""
        return self.name == "plan" and self.rest.lower() == "accept"

    @property
    def decides(self) -> bool:
        """Return whether it decides about a held call, whose id is `rest`; `/allow_ID` is the form that a tap sends."""
        return self.name in ("allow", "deny")


def read_command(text: str) -> MessengerCommand | None:
    """Read a command; return None for any other text."""
    if decision := _DECISION.fullmatch(text.strip()):
        return MessengerCommand(name=decision[1].lower(), rest=decision[2] or decision[3] or "")
    found = _TYPED.fullmatch(text.strip())
    return MessengerCommand(name=found[1].lower(), rest=(found[2] or "").strip()) if found else None


def run_command(
    state: sqlite3.Connection, command: MessengerCommand, incoming: RoutedMessage, workspace: Workspace, now: datetime
) -> str:
    """Run /plan or /project in the current session of a message; return the answer for the person."""
    key = resolve_session_key(incoming, workspace.config).key
    session = find_current_session(state, key)
    try:
        if not command.rest:
            return show_plan(state, session) if command.name == "plan" else show_project(session, incoming, workspace)
        session = session or add_session(state, key, incoming.situation, now)
        return COMMAND_FUNCTIONS[command.name](state, session, command.rest, workspace)
    except InputError as error:
        return f"{error}."


def show_plan(state: sqlite3.Connection, session: Session | None) -> str:
    """Describe whether plan mode is on, and show the stored plan."""
    on = bool(session and session.plan)
    said = f"Plan mode is {'on: I plan and do nothing' if on else 'off'}. /plan {'off' if on else 'on'} switches it."
    plan = find_newest_plan(state, session.id) if session else None
    if plan is None:
        return said
    how = "" if plan.state is PlanState.ACCEPTED else "; /plan accept runs it"
    return f"{said}\n\nThe newest plan ({plan.state}){how}:\n\n{plan.text}"


def change_plan(state: sqlite3.Connection, session: Session, rest: str, _: Workspace) -> str:
    """Switch plan mode, or accept the newest plan."""
    word = rest.lower()
    if word == "accept":
        settle_plan(state, session.id, PlanState.ACCEPTED)
        return ""
    if word not in ("on", "off"):
        return "Write /plan, /plan on, /plan off or /plan accept."
    switch_plan(state, session.id, on=word == "on")
    return "Plan mode is on: I plan and do nothing." if word == "on" else "Plan mode is off."


def show_project(session: Session | None, incoming: RoutedMessage, workspace: Workspace) -> str:
    """Describe which project is open and which can be opened."""
    key = resolve_session_key(incoming, workspace.config).key
    roots = list_roots(key.agent, key.clearance, workspace.config, workspace.files.root)
    if not roots:
        return "No project can be opened here."
    now = f"The project is {session.project}." if session and session.project else "No project is open."
    return f"{now} /project DIR opens one in {' or '.join(roots)}, /project off closes it."


def change_project(state: sqlite3.Connection, session: Session, rest: str, workspace: Workspace) -> str:
    """Open a project, or close it."""
    if rest.lower() == "off":
        set_field(state, session.id, "project", "")
        return "No project is open."
    key = session.key
    project = open_project(rest, key.agent, key.clearance, workspace.config, workspace.files.root)
    set_field(state, session.id, "project", project.path)
    return f"The project is {project.path}."


def list_unanswered(state: sqlite3.Connection, incoming: RoutedMessage, workspace: Workspace) -> list[Exchange]:
    """List the unanswered messages of a person in their current session."""
    session = find_current_session(state, resolve_session_key(incoming, workspace.config).key)
    found = list_unfinished(state, session.id) if session else []
    return [one for one in found if one.reply.user == incoming.user]


COMMAND_FUNCTIONS = {"plan": change_plan, "project": change_project}
