"""Commands of a messenger (/plan, /project, /drop, /allow, /deny): answered by the gateway, not said to the agent."""

import re
import sqlite3
from datetime import datetime

from foreword.errors import InputError
from foreword.frozen import frozen
from foreword.gateway.lane import find_lane
from foreword.gateway.message import Exchange, Incoming
from foreword.gateway.projects import list_roots, open_project
from foreword.gateway.replies import list_unfinished
from foreword.gateway.session import Session, add_session, find_current
from foreword.gateway.sessions import set_project, settle_plan, switch_plan
from foreword.store.plans import PlanState, find_newest
from foreword.workspace import Workspace

_TYPED = re.compile(r"/(plan|project|drop)(?:@\w+)?(?:\s+(.*?))?\s*", re.IGNORECASE | re.DOTALL)
_DECISION = re.compile(r"/(allow|deny)(?:_([0-9a-f]+))?(?:@\w+)?(?:\s+([0-9a-f]+))?", re.IGNORECASE)
PRIVATE_ONLY = "This command works only in a private chat."
NOTHING_WAITS = "You have no unanswered messages."
HOW_TO_DROP = "Write /drop for the newest unanswered message, or /drop all."


@frozen(eq=True)
class Command:
    """A command as it was typed."""

    name: str
    rest: str = ""

    @property
    def accepts(self) -> bool:
        """Whether it accepts the plan, which the agent then carries out."""
        return self.name == "plan" and self.rest.lower() == "accept"

    @property
    def decides(self) -> bool:
        """Whether it decides about a held call, whose id is the rest; `/allow_ID` is one that a tap sends."""
        return self.name in ("allow", "deny")


def read_command(text: str) -> Command | None:
    """Read a command; any other text is none."""
    if decision := _DECISION.fullmatch(text.strip()):
        return Command(name=decision[1].lower(), rest=decision[2] or decision[3] or "")
    found = _TYPED.fullmatch(text.strip())
    return Command(name=found[1].lower(), rest=(found[2] or "").strip()) if found else None


def run_command(
    state: sqlite3.Connection, command: Command, incoming: Incoming, workspace: Workspace, now: datetime
) -> str:
    """Run /plan or /project in the current session of a message, and return what the person is told."""
    lane = find_lane(incoming, workspace.config).lane
    session = find_current(state, lane)
    try:
        if not command.rest:
            return show_plan(state, session) if command.name == "plan" else show_project(session, incoming, workspace)
        session = session or add_session(state, lane, incoming.situation, now)
        return RUNS[command.name](state, session, command.rest, workspace)
    except InputError as error:
        return f"{error}."


def show_plan(state: sqlite3.Connection, session: Session | None) -> str:
    """Say whether plan mode is on, and show the stored plan."""
    on = bool(session and session.plan)
    said = f"Plan mode is {'on: I plan and do nothing' if on else 'off'}. /plan {'off' if on else 'on'} switches it."
    plan = find_newest(state, session.id) if session else None
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


def show_project(session: Session | None, incoming: Incoming, workspace: Workspace) -> str:
    """Say which project is open, and which can be."""
    lane = find_lane(incoming, workspace.config).lane
    roots = list_roots(lane.agent, lane.clearance, workspace.config, workspace.files.root)
    if not roots:
        return "No project can be opened here."
    now = f"The project is {session.project}." if session and session.project else "No project is open."
    return f"{now} /project DIR opens one in {' or '.join(roots)}, /project off closes it."


def change_project(state: sqlite3.Connection, session: Session, rest: str, workspace: Workspace) -> str:
    """Open a project, or close it."""
    if rest.lower() == "off":
        set_project(state, session.id, "")
        return "No project is open."
    lane = session.lane
    project = open_project(rest, lane.agent, lane.clearance, workspace.config, workspace.files.root)
    set_project(state, session.id, project.path)
    return f"The project is {project.path}."


def list_waiting(state: sqlite3.Connection, incoming: Incoming, workspace: Workspace) -> list[Exchange]:
    """List the messages of a person in their current session that are not answered yet."""
    session = find_current(state, find_lane(incoming, workspace.config).lane)
    found = list_unfinished(state, session.id) if session else []
    return [one for one in found if one.reply.user == incoming.user]


RUNS = {"plan": change_plan, "project": change_project}
