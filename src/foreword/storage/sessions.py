"""Sessions with their tasks, plans and workflow, and the transcripts that archive them."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Literal

from foreword.engine.trust import ArchivedSession
from foreword.errors import InputError
from foreword.events.tracer import make_id
from foreword.storage.database import check_text, format_moment, stamp
from foreword.storage.rows import fetch_all, fetch_cell, fetch_column, fetch_one, fetch_rows, insert_row, list_columns
from foreword.turn import Step, Task
from foreword.types import TextEnum, Trust, frozen


@frozen(eq=True)
class Archive:
    """A transcript and the attributes of its session."""

    path: str  # path in the workspace
    session: str
    agent: str
    channel: str
    room: str
    user: str  # the user of the session; empty in a room
    clearance: Trust
    people: tuple[str, ...] = ()  # the speakers
    upto: int = 0  # the position in the session's history up to which it is written


def find_archive_access(state: sqlite3.Connection, path: str) -> ArchivedSession | None:
    """Return the access attributes of a transcript, or None if the file is not an archive."""
    query = "SELECT clearance, channel, room, user_id FROM archives WHERE path = ?"
    return fetch_one(ArchivedSession, state, query, path)


def reserve_path(state: sqlite3.Connection, archive: Archive, other: str) -> str:
    """Reserve a path for a session's transcript: the existing one, else `archive.path`, else `other`."""
    for path in (archive.path, other):
        insert_row(
            state, "archives", "INSERT OR IGNORE", **list_columns(archive) | {"path": path, "people": "[]", "upto": 0}
        )
        if found := fetch_cell(str, state, "SELECT path FROM archives WHERE session_id = ?", archive.session):
            return found
    raise sqlite3.IntegrityError(f"no path is free for the transcript of {archive.session}")


def record_written(state: sqlite3.Connection, archive: Archive, moment: str) -> None:
    """Record that a transcript is written, up to which position, and who speaks in it."""
    people = json.dumps(archive.people, ensure_ascii=False)
    query = "UPDATE archives SET people = ?, upto = ?, written = ? WHERE path = ?"
    state.execute(query, (people, archive.upto, moment, archive.path))


def drop_archive(state: sqlite3.Connection, path: str) -> None:
    """Delete the row of a transcript. Its file then needs full trust until it is removed."""
    state.execute("DELETE FROM archives WHERE path = ?", (path,))


@frozen(eq=True)
class SessionKey:
    """Key of a session: agent, place, clearance and, in private, the person. Another clearance is another session."""

    agent: str
    channel: str
    room: str
    clearance: Trust
    user: str  # empty in a room: all people with the same clearance share a session there

    @property
    def person(self) -> str:
        """Return the person of a private conversation; empty if others read the reply."""
        return "" if self.room else self.user

    @property
    def columns(self) -> tuple[str, str, str, int, str]:
        """Return the key as the parameters of `WHERE_SESSION_KEY`."""
        return (self.agent, self.channel, self.room, self.clearance, self.user)

    @property
    def is_own(self) -> bool:
        """Whether the key belongs to one known person in private."""
        return self.user != "" and self.room == "" and self.clearance > Trust.PUBLIC


SessionField = Literal["plan", "model", "project"]
SESSION_FIELDS = "id agent channel room clearance user_id situation created used parent plan model project"
SESSION_COLUMNS = ", ".join(f"sessions.{name}" for name in SESSION_FIELDS.split())
SELECT_SESSIONS = f"SELECT {SESSION_COLUMNS} FROM sessions"
WHERE_SESSION_KEY = "agent = ? AND channel = ? AND room = ? AND clearance = ? AND user_id = ?"


@frozen(eq=True)
class Session:
    """A conversation with a fixed clearance."""

    id: str
    key: SessionKey
    situation: str
    created: datetime
    used: datetime
    parent: str = ""  # the session it was forked from
    plan: bool = False  # whether plan mode is on
    model: str = ""  # the model chosen for this session; empty for the agent's model
    project: str = ""  # the directory of the open project


def get_session(state: sqlite3.Connection, identifier: str) -> Session | None:
    """Return a session by its id."""
    return fetch_one(Session, state, f"{SELECT_SESSIONS} WHERE id = ?", identifier)


def find_current_session(state: sqlite3.Connection, key: SessionKey) -> Session | None:
    """Find the current session of a session key."""
    where = f"{WHERE_SESSION_KEY} AND current = 1 ORDER BY used DESC LIMIT 1"
    return fetch_one(Session, state, f"{SELECT_SESSIONS} WHERE {where}", *key.columns)


def add_session(
    state: sqlite3.Connection, key: SessionKey, situation: str, now: datetime, parent: Session | None = None
) -> Session:
    """Create a session and make it the current one of its session key."""
    settings: dict[str, Any] = {"plan": parent.plan, "model": parent.model, "project": parent.project} if parent else {}
    identifier, origin = make_id(128), parent.id if parent else ""
    session = Session(id=identifier, key=key, situation=situation, created=now, used=now, parent=origin, **settings)
    insert_row(state, "sessions", **list_columns(session) | {"parent": origin or None})
    make_current(state, session)
    return session


def make_current(state: sqlite3.Connection, session: Session) -> None:
    """Make a session the current one of its session key."""
    state.execute(f"UPDATE sessions SET current = 0 WHERE {WHERE_SESSION_KEY} AND current = 1", session.key.columns)
    state.execute("UPDATE sessions SET current = 1 WHERE id = ?", (session.id,))


def touch_session(state: sqlite3.Connection, session: str, now: datetime) -> None:
    """Record that a session was used."""
    state.execute("UPDATE sessions SET used = ? WHERE id = ?", (format_moment(now), session))


def list_sessions_of(state: sqlite3.Connection, user: str, limit: int) -> list[Session]:
    """List the private sessions of a person, the most recently used first."""
    query = f"{SELECT_SESSIONS} WHERE user_id = ? AND user_id != '' ORDER BY used DESC LIMIT ?"
    return fetch_all(Session, state, query, user, limit)


def list_sessions(state: sqlite3.Connection, key: SessionKey, limit: int) -> list[Session]:
    """List the sessions of one session key, the most recently used first."""
    query = f"{SELECT_SESSIONS} WHERE {WHERE_SESSION_KEY} ORDER BY used DESC LIMIT ?"
    return fetch_all(Session, state, query, *key.columns, limit)


def list_current_ids(state: sqlite3.Connection, place: SessionKey) -> list[str]:
    """List the current sessions at a place: at or above its clearance in private, and of any clearance in a room."""
    where = "agent = ? AND channel = ? AND room = ? AND (clearance >= ? OR room != '') AND user_id = ? AND current = 1"
    return fetch_column(state, f"SELECT id FROM sessions WHERE {where}", *place.columns)


def set_session_field(state: sqlite3.Connection, session: str, name: SessionField, value: str | int) -> bool:
    """Change a setting of a session; return whether the session exists."""
    return state.execute(f"UPDATE sessions SET {name} = ? WHERE id = ?", (value, session)).rowcount == 1


class PlanState(TextEnum):
    """The state of a plan."""

    PROPOSED = "proposed"
    ACCEPTED = "accepted"
    DROPPED = "dropped"


@frozen(eq=True)
class SessionPlan:
    """One plan of a session."""

    id: int
    session: str
    created: str
    text: str
    state: PlanState


def add_plan(state: sqlite3.Connection, session: str, text: str) -> None:
    """Store a plan of a session."""
    if not text.strip():
        raise InputError("a plan without words is not a plan")
    insert_row(state, "plans", session_id=session, created=stamp(), text=text.strip(), state=str(PlanState.PROPOSED))


def list_plans(state: sqlite3.Connection, session: str) -> list[SessionPlan]:
    """List the plans of a session, newest first."""
    query = "SELECT id, session_id, created, text, state FROM plans WHERE session_id = ? ORDER BY id DESC"
    return fetch_all(SessionPlan, state, query, session)


def find_newest_plan(state: sqlite3.Connection, session: str) -> SessionPlan | None:
    """Return the newest plan of a session."""
    return next(iter(list_plans(state, session)), None)


def set_plan_state(state: sqlite3.Connection, number: int, became: PlanState) -> bool:
    """Set the state of a plan. Return whether the plan exists."""
    return state.execute("UPDATE plans SET state = ? WHERE id = ?", (str(became), number)).rowcount == 1


ACTIVE_STATUS = "active"


def read_tasks(state: sqlite3.Connection, session: str) -> tuple[Task, ...]:
    """Return the tasks of a session in order."""
    query = "SELECT id, title, description, status, steps FROM tasks WHERE session_id = ? ORDER BY position"
    found = fetch_rows(state, query, session)
    return tuple(Task(**row | {"steps": tuple(Step(**step) for step in json.loads(row["steps"]))}) for row in found)


def find_active_task(tasks: Sequence[Task]) -> Task | None:
    """Return the active task of a session."""
    return next((task for task in tasks if task.status == ACTIVE_STATUS), None)


def replace_tasks(state: sqlite3.Connection, session: str, tasks: Sequence[Task]) -> None:
    """Replace all tasks of a session, within the caller's transaction."""
    state.execute("DELETE FROM tasks WHERE session_id = ?", (session,))
    for position, task in enumerate(tasks):
        steps = json.dumps([asdict(step) for step in task.steps], ensure_ascii=False)
        insert_row(state, "tasks", session_id=session, position=position, **list_columns(task) | {"steps": steps})


def copy_tasks(state: sqlite3.Connection, session: str, into: str) -> None:
    """Copy the tasks and the workflow of a session to another one."""
    replace_tasks(state, into, read_tasks(state, session))
    replace_workflow(state, into, find_workflow(state, session))


MAX_WORKFLOW_CHARS = 2_000  # characters; a longer text would displace other parts of the tail


def find_workflow(state: sqlite3.Connection, session: str) -> str:
    """Return the workflow of a session, or an empty string."""
    return fetch_cell(str, state, "SELECT text FROM workflows WHERE session_id = ?", session) or ""


def replace_workflow(state: sqlite3.Connection, session: str, text: str) -> str:
    """Store the workflow of a session and return it. A blank text ends the workflow; an invalid one changes nothing."""
    kept = text.strip()
    check_text("the workflow has", kept, MAX_WORKFLOW_CHARS)
    if kept:
        insert_row(state, "workflows", "INSERT OR REPLACE", session_id=session, text=kept, updated=stamp())
    else:
        state.execute("DELETE FROM workflows WHERE session_id = ?", (session,))
    return kept


def list_sessions_with_ledgers(state: sqlite3.Connection) -> list[Session]:
    """List the sessions that have sent something, the most recently used first."""
    query = f"{SELECT_SESSIONS} WHERE id IN (SELECT session_id FROM ledgers) ORDER BY used DESC"
    return fetch_all(Session, state, query)


def list_used_agents(state: sqlite3.Connection, since: datetime) -> list[tuple[str, Trust]]:
    """List the agents used since a time above public clearance, with their clearances."""
    query = "SELECT DISTINCT agent, clearance FROM sessions WHERE used >= ? AND clearance > ? ORDER BY agent, clearance"
    return [(agent, Trust(level)) for agent, level in state.execute(query, (format_moment(since), Trust.PUBLIC))]
