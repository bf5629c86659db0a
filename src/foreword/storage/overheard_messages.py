"""Room messages in the state: overheard ones, and those that sessions of other clearances have answered."""

import sqlite3
from datetime import datetime, timedelta

from foreword.storage.database import format_moment
from foreword.storage.sessions import WHERE_SESSION_KEY, Session
from foreword.types import frozen

OVERHEARD_PERIOD = timedelta(days=1)
MAX_OVERHEARD = 200  # messages per room
# Sessions store the highest number they have read, so the number of a deleted message must not be reused.
NEXT_NUMBER = (
    "1 + max((SELECT coalesce(max(id), 0) FROM overheard), (SELECT coalesce(max(overheard), 0) FROM sessions))"
)
SELECT_ANSWERED = """
SELECT turns.id, turns.user_id, turns.text, turns.reply, turns.received
FROM turns JOIN sessions ON sessions.id = turns.session_id
WHERE sessions.agent = ? AND sessions.channel = ? AND sessions.room = ? AND sessions.clearance != ?
    AND turns.state = 'answered' AND turns.received > ?
    AND NOT EXISTS (SELECT 1 FROM history WHERE history.session_id = ? AND history.turn_id = turns.id)
ORDER BY turns.number DESC LIMIT ?"""
SELECT_OVERHEARD = """
SELECT id, user_id, text, heard FROM overheard WHERE channel = ? AND room = ? AND id > ? AND heard > ?
ORDER BY id DESC LIMIT ?"""
SELECT_LATEST_EDIT = """
SELECT text, received AS moment FROM turns WHERE key = ?1 OR key > ?2 AND key < ?3
UNION ALL SELECT text, heard FROM overheard WHERE key = ?1 OR key > ?2 AND key < ?3
ORDER BY moment DESC LIMIT 1"""


@frozen
class RoomMessage:
    """A message in a room outside a session."""

    moment: str
    user: str
    text: str
    reply: str = ""
    turn: str | None = None
    """The turn, if the agent answered it."""


def store_overheard(
    state: sqlite3.Connection,
    place: tuple[str, str],
    *,
    user: str,
    name: str,
    text: str,
    key: str | None,
    now: datetime,
) -> None:
    """Store a message for its room, which is a channel and a name, and delete old ones."""
    state.execute(
        "INSERT OR IGNORE INTO overheard (id, channel, room, user_id, name, text, heard, key)"
        f" VALUES ({NEXT_NUMBER}, ?, ?, ?, ?, ?, ?, ?)",
        (*place, user, name, text, format_moment(now), key),
    )
    state.execute(
        "DELETE FROM overheard WHERE channel = ?1 AND room = ?2 AND (heard < ?3 OR id <= (SELECT id FROM overheard"
        " WHERE channel = ?1 AND room = ?2 ORDER BY id DESC LIMIT 1 OFFSET ?4))",
        (*place, format_moment(now - OVERHEARD_PERIOD), MAX_OVERHEARD),
    )


def is_overheard(state: sqlite3.Connection, key: str) -> bool:
    """Return whether a message with this idempotency key was overheard."""
    return state.execute("SELECT 1 FROM overheard WHERE key = ?", (key,)).fetchone() is not None


def find_latest_edit(state: sqlite3.Connection, key: str) -> str | None:
    """Find the newest text of the message with this key: its own, or that of its last edit."""
    row = state.execute(SELECT_LATEST_EDIT, (key, f"{key}:", f"{key};")).fetchone()
    return str(row[0]) if row else None


def has_expired_overheard(state: sqlite3.Connection, now: datetime) -> bool:
    """Return whether any message is too old; rooms without new messages need this check."""
    query = "SELECT EXISTS (SELECT 1 FROM overheard WHERE heard < ?)"
    return bool(state.execute(query, (format_moment(now - OVERHEARD_PERIOD),)).fetchone()[0])


def delete_expired_overheard(state: sqlite3.Connection, now: datetime) -> None:
    """Delete old messages in every room."""
    state.execute("DELETE FROM overheard WHERE heard < ?", (format_moment(now - OVERHEARD_PERIOD),))


def is_first_session(state: sqlite3.Connection, session: Session) -> bool:
    """Return whether a session is the first one of its session key."""
    query = f"SELECT 1 FROM sessions WHERE {WHERE_SESSION_KEY} AND id != ? AND created <= ? LIMIT 1"
    return state.execute(query, (*session.key.columns, session.id, format_moment(session.created))).fetchone() is None


def list_answered(state: sqlite3.Connection, session: Session, since: datetime, limit: int) -> list[RoomMessage]:
    """List the messages answered in sessions of other clearances, the newest first."""
    key = session.key
    columns = (key.agent, key.channel, key.room, int(key.clearance), format_moment(since), session.id, limit)
    return [
        RoomMessage(moment=moment, user=user, text=text, reply=reply or "", turn=turn)
        for turn, user, text, reply, moment in state.execute(SELECT_ANSWERED, columns)
    ]


def take_overheard(state: sqlite3.Connection, session: Session, since: datetime, limit: int) -> list[RoomMessage]:
    """List the overheard messages, the newest first, and mark them as read by this session."""
    (last,) = state.execute("SELECT overheard FROM sessions WHERE id = ?", (session.id,)).fetchone()
    columns = (session.key.channel, session.key.room, last, format_moment(since), limit)
    rows = state.execute(SELECT_OVERHEARD, columns).fetchall()
    if rows:
        state.execute("UPDATE sessions SET overheard = ? WHERE id = ?", (rows[0][0], session.id))
    return [RoomMessage(moment=moment, user=user, text=text) for _, user, text, moment in rows]
