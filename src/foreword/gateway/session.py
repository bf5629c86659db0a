"""A session: one conversation in one lane, with its history as it was sent."""

import sqlite3
from collections.abc import Sequence
from datetime import datetime

from foreword.events.trace import make_id
from foreword.frozen import frozen
from foreword.gateway.lane import Lane
from foreword.gateway.moment import read_moment, write_moment
from foreword.words import Trust

COLUMNS = "id, agent, channel, room, clearance, user_id, situation, created, used, parent, plan, model, project"
OF_LANE = "agent = ? AND channel = ? AND room = ? AND clearance = ? AND user_id = ?"


@frozen(eq=True)
class Session:
    """A conversation, with one clearance for life."""

    id: str
    lane: Lane
    situation: str
    created: datetime
    used: datetime
    parent: str = ""
    """The session that it was forked from."""
    plan: bool = False
    """Whether the agent only plans."""
    model: str = ""
    """The model that was chosen for it, where another than the agent's."""
    project: str = ""
    """The directory of the project that it works in."""


def read_session(row: Sequence[object]) -> Session:
    """Read a row."""
    identifier, agent, channel, room, clearance, user, situation, created, used, parent, plan, model, project = row
    return Session(
        id=str(identifier),
        lane=Lane(
            agent=str(agent),
            channel=str(channel),
            room=str(room),
            clearance=Trust(int(str(clearance))),
            user=str(user),
        ),
        situation=str(situation),
        created=read_moment(str(created)),
        used=read_moment(str(used)),
        parent=str(parent or ""),
        plan=bool(plan),
        model=str(model),
        project=str(project),
    )


def get_session(state: sqlite3.Connection, identifier: str) -> Session | None:
    """Get a session by its id."""
    row = state.execute(f"SELECT {COLUMNS} FROM sessions WHERE id = ?", (identifier,)).fetchone()
    return read_session(row) if row else None


def find_current(state: sqlite3.Connection, lane: Lane) -> Session | None:
    """Find the session that a lane goes on with."""
    asked = f"SELECT {COLUMNS} FROM sessions WHERE {OF_LANE} AND current = 1 ORDER BY used DESC LIMIT 1"
    row = state.execute(asked, lane.key).fetchone()
    return read_session(row) if row else None


def add_session(
    state: sqlite3.Connection, lane: Lane, situation: str, now: datetime, parent: Session | None = None
) -> Session:
    """Begin a session; from now on its lane goes on with it."""
    state.execute(f"UPDATE sessions SET current = 0 WHERE {OF_LANE} AND current = 1", lane.key)
    session = Session(
        id=make_id(128),
        lane=lane,
        situation=situation,
        created=now,
        used=now,
        parent=parent.id if parent else "",
        plan=parent.plan if parent else False,
        model=parent.model if parent else "",
        project=parent.project if parent else "",
    )
    moment = write_moment(now)
    state.execute(
        f"INSERT INTO sessions ({COLUMNS}, current) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)",
        (
            session.id,
            *lane.key,
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


def touch(state: sqlite3.Connection, session: str, now: datetime) -> None:
    """Note that a session was used."""
    state.execute("UPDATE sessions SET used = ? WHERE id = ?", (write_moment(now), session))
