"""Sessions, and the transcripts that archive them."""

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from foreword.engine.trust import ArchivedSession
from foreword.events.tracer import make_id
from foreword.storage.database import format_moment, parse_moment
from foreword.types import Trust, frozen

COLUMNS = "path, session_id, agent, channel, room, user_id, clearance, people, upto"
RESERVE_PATH = f"INSERT OR IGNORE INTO archives ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, '[]', 0)"


@frozen(eq=True)
class Archive:
    """A transcript and the attributes of its session."""

    path: str
    """Path in the workspace."""
    session: str
    agent: str
    channel: str
    room: str
    user: str
    """The user of the session; empty in a room."""
    clearance: Trust
    people: tuple[str, ...] = ()
    """The speakers."""
    upto: int = 0
    """The position in the session's history up to which it is written."""

    @property
    def is_own(self) -> bool:
        """Whether it is a private transcript of one user."""
        return bool(self.user)


def convert_archive_row(row: Sequence[object]) -> Archive:
    """Convert a row."""
    path, session, agent, channel, room, user, clearance, people, upto = row
    return Archive(
        path=str(path),
        session=str(session),
        agent=str(agent),
        channel=str(channel),
        room=str(room),
        user=str(user),
        clearance=Trust(int(str(clearance))),
        people=tuple(json.loads(str(people))),
        upto=int(str(upto)),
    )


def find_archive_access(state: sqlite3.Connection, path: str) -> ArchivedSession | None:
    """Return the access attributes of a transcript, or None if the file is not an archive."""
    asked = "SELECT clearance, channel, room, user_id FROM archives WHERE path = ?"
    row = state.execute(asked, (path,)).fetchone()
    if row is None:
        return None
    clearance, channel, room, user = row
    return ArchivedSession(clearance=Trust(clearance), channel=channel, room=room, user=user)


def reserve_path(state: sqlite3.Connection, archive: Archive, other: str) -> str:
    """Reserve a path for a session's transcript: the existing one, else `archive.path`, else `other`."""
    for path in (archive.path, other):
        state.execute(
            RESERVE_PATH,
            (path, archive.session, archive.agent, archive.channel, archive.room, archive.user, int(archive.clearance)),
        )
        row = state.execute("SELECT path FROM archives WHERE session_id = ?", (archive.session,)).fetchone()
        if row:
            return str(row[0])
    raise sqlite3.IntegrityError(f"no path is free for the transcript of {archive.session}")


def record_written(state: sqlite3.Connection, archive: Archive, moment: str) -> None:
    """Record that a transcript is written, up to which position, and who speaks in it."""
    state.execute(
        "UPDATE archives SET people = ?, upto = ?, written = ? WHERE path = ?",
        (json.dumps(archive.people, ensure_ascii=False), archive.upto, moment, archive.path),
    )


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
    user: str
    """Empty in a room: all people with the same clearance share a session there."""

    @property
    def person(self) -> str:
        """Return the person of a private conversation; empty if others read the reply."""
        return "" if self.room else self.user

    @property
    def columns(self) -> tuple[str, str, str, int, str]:
        """Return the key as the columns of a row."""
        return (self.agent, self.channel, self.room, int(self.clearance), self.user)


def is_own(key: SessionKey) -> bool:
    """Return whether a session key belongs to one known person in private."""
    return key.user != "" and key.room == "" and key.clearance > Trust.PUBLIC


SessionField = Literal["plan", "model", "project"]
SESSION_COLUMNS = "id, agent, channel, room, clearance, user_id, situation, created, used, parent, plan, model, project"
WHERE_SESSION_KEY = "agent = ? AND channel = ? AND room = ? AND clearance = ? AND user_id = ?"


@frozen(eq=True)
class Session:
    """A conversation with a fixed clearance."""

    id: str
    key: SessionKey
    situation: str
    created: datetime
    used: datetime
    parent: str = ""
    """The session it was forked from."""
    plan: bool = False
    """Whether plan mode is on."""
    model: str = ""
    """The model chosen for this session; empty for the agent's model."""
    project: str = ""
    """The directory of the open project."""


def read_session(row: Sequence[object]) -> Session:
    """Make a session from its row."""
    identifier, agent, channel, room, clearance, user, situation, created, used, parent, plan, model, project = row
    return Session(
        id=str(identifier),
        key=SessionKey(
            agent=str(agent),
            channel=str(channel),
            room=str(room),
            clearance=Trust(int(str(clearance))),
            user=str(user),
        ),
        situation=str(situation),
        created=parse_moment(str(created)),
        used=parse_moment(str(used)),
        parent=str(parent or ""),
        plan=bool(plan),
        model=str(model),
        project=str(project),
    )


def get_session(state: sqlite3.Connection, identifier: str) -> Session | None:
    """Return a session by its id."""
    row = state.execute(f"SELECT {SESSION_COLUMNS} FROM sessions WHERE id = ?", (identifier,)).fetchone()
    return read_session(row) if row else None


def find_current_session(state: sqlite3.Connection, key: SessionKey) -> Session | None:
    """Find the current session of a session key."""
    asked = (
        f"SELECT {SESSION_COLUMNS} FROM sessions WHERE {WHERE_SESSION_KEY} AND current = 1 ORDER BY used DESC LIMIT 1"
    )
    row = state.execute(asked, key.columns).fetchone()
    return read_session(row) if row else None


def add_session(
    state: sqlite3.Connection, key: SessionKey, situation: str, now: datetime, parent: Session | None = None
) -> Session:
    """Create a session and make it the current one of its session key."""
    state.execute(f"UPDATE sessions SET current = 0 WHERE {WHERE_SESSION_KEY} AND current = 1", key.columns)
    session = Session(
        id=make_id(128),
        key=key,
        situation=situation,
        created=now,
        used=now,
        parent=parent.id if parent else "",
        plan=parent.plan if parent else False,
        model=parent.model if parent else "",
        project=parent.project if parent else "",
    )
    moment = format_moment(now)
    state.execute(
        f"INSERT INTO sessions ({SESSION_COLUMNS}, current) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)",
        (
            session.id,
            *key.columns,
            situation,
            moment,
            moment,
            session.parent or None,
            int(session.plan),
            session.model,
            session.project,
        ),
    )
    return session


def touch_session(state: sqlite3.Connection, session: str, now: datetime) -> None:
    """Record that a session was used."""
    state.execute("UPDATE sessions SET used = ? WHERE id = ?", (format_moment(now), session))


def list_sessions_of(state: sqlite3.Connection, user: str, limit: int) -> list[Session]:
    """List the private sessions of a person, the most recently used first."""
    query = f"SELECT {SESSION_COLUMNS} FROM sessions WHERE user_id = ? AND user_id != '' ORDER BY used DESC LIMIT ?"
    return [read_session(row) for row in state.execute(query, (user, limit))]


def list_sessions(state: sqlite3.Connection, key: SessionKey, limit: int) -> list[Session]:
    """List the sessions of one session key, the most recently used first."""
    query = f"SELECT {SESSION_COLUMNS} FROM sessions WHERE {WHERE_SESSION_KEY} ORDER BY used DESC LIMIT ?"
    return [read_session(row) for row in state.execute(query, (*key.columns, limit))]


def list_current_ids(state: sqlite3.Connection, place: SessionKey) -> list[str]:
    """List the current sessions at a place: at or above its clearance in private, and of any clearance in a room."""
    query = (
        "SELECT id FROM sessions WHERE agent = ? AND channel = ? AND room = ? AND user_id = ? AND current = 1"
        " AND (clearance >= ? OR room != '')"
    )
    columns = (place.agent, place.channel, place.room, place.user, int(place.clearance))
    return [session for (session,) in state.execute(query, columns)]


def make_current(state: sqlite3.Connection, session: Session) -> None:
    """Make a session the current one of its session key."""
    state.execute(f"UPDATE sessions SET current = 0 WHERE {WHERE_SESSION_KEY} AND current = 1", session.key.columns)
    state.execute("UPDATE sessions SET current = 1 WHERE id = ?", (session.id,))


def set_session_field(state: sqlite3.Connection, session: str, name: SessionField, value: str | int) -> bool:
    """Change a setting of a session; return whether the session exists."""
    return state.execute(f"UPDATE sessions SET {name} = ? WHERE id = ?", (value, session)).rowcount == 1
