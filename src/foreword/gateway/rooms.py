"""Catch-up in rooms: overheard messages, and messages answered in sessions of other clearances.

Everyone in a room reads every message. So each session gets the plain messages of the others, but not the results of
their tools.

Overheard messages: room messages that do not address the agent, stored for a day for the next turn of the room.
"""

import sqlite3
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import groupby

from pydantic_ai.messages import ModelResponse, TextPart

from foreword.agent.conversation import dump_messages, make_user_message
from foreword.agent.reply_stream import NO_REPLY_TOKEN
from foreword.engine.sources.documents import read_prompt
from foreword.gateway.history import HistoryKind, HistoryPiece, append_piece
from foreword.gateway.messages import RoutedMessage
from foreword.gateway.pairing import clean_name
from foreword.gateway.session_lookup import CHARS_PER_TOKEN
from foreword.storage.database import format_moment
from foreword.storage.sessions import WHERE_SESSION_KEY, Session
from foreword.types import frozen

OVERHEARD_PERIOD = timedelta(days=1)
MAX_OVERHEARD = 200  # messages per room
MAX_OVERHEARD_CHARS = 2_000  # characters per message
# Sessions store the highest number they have read, so the number of a deleted message must not be reused.
NEXT_NUMBER = (
    "1 + max((SELECT coalesce(max(id), 0) FROM overheard), (SELECT coalesce(max(overheard), 0) FROM sessions))"
)


def store_overheard(
    state: sqlite3.Connection, incoming: RoutedMessage, name: str, key: str | None, now: datetime
) -> None:
    """Store a message for its room, and delete old ones."""
    place = (incoming.channel, incoming.room)
    text = incoming.text if len(incoming.text) <= MAX_OVERHEARD_CHARS else f"{incoming.text[:MAX_OVERHEARD_CHARS]}…"
    state.execute(
        "INSERT OR IGNORE INTO overheard (id, channel, room, user_id, name, text, heard, key)"
        f" VALUES ({NEXT_NUMBER}, ?, ?, ?, ?, ?, ?, ?)",
        (*place, incoming.user, clean_name(name), text, format_moment(now), key),
    )
    state.execute(
        "DELETE FROM overheard WHERE channel = ?1 AND room = ?2 AND (heard < ?3 OR id <= (SELECT id FROM overheard"
        " WHERE channel = ?1 AND room = ?2 ORDER BY id DESC LIMIT 1 OFFSET ?4))",
        (*place, format_moment(now - OVERHEARD_PERIOD), MAX_OVERHEARD),
    )


def has_expired_overheard(state: sqlite3.Connection, now: datetime) -> bool:
    """Return whether any message is too old; rooms without new messages need this check."""
    asked = "SELECT EXISTS (SELECT 1 FROM overheard WHERE heard < ?)"
    return bool(state.execute(asked, (format_moment(now - OVERHEARD_PERIOD),)).fetchone()[0])


def delete_expired_overheard(state: sqlite3.Connection, now: datetime) -> None:
    """Delete old messages in every room."""
    state.execute("DELETE FROM overheard WHERE heard < ?", (format_moment(now - OVERHEARD_PERIOD),))


MAX_CATCH_UP = 20  # messages that a session catches up with
CATCH_UP_PERIOD = timedelta(
    days=1
)  # how far the first session of a session key looks back; a later one starts at its creation
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


def prefix_author(user: str, text: str) -> str:
    """Prefix a text with its author; no further line of it can look like another author's."""
    return f"{name_author(user)}: " + "\n  ".join(text.splitlines())


def name_author(user: str) -> str:
    """Name an author: a user by name, a stranger by a hash that cannot be a user's name."""
    if not user:
        return "a stranger"
    return f"stranger {sha256(user.encode()).hexdigest()[:8]}" if ":" in user else user


def write_model_text(incoming: RoutedMessage) -> str:
    """Return the text of a message for the model; in a room, with its author."""
    return prefix_author(incoming.user, incoming.text) if incoming.room else incoming.text


@frozen
class RoomMessage:
    """A message in a room outside a session."""

    moment: str
    told: str
    reply: str = ""
    turn: str | None = None
    """The turn, if the agent answered it."""


def catch_up(state: sqlite3.Connection, session: Session) -> int:
    """Add the messages of the room since the last turn to a session; return the number of added pieces."""
    lane = session.lane
    asked = f"SELECT 1 FROM sessions WHERE {WHERE_SESSION_KEY} AND id != ? AND created <= ? LIMIT 1"
    anew = state.execute(asked, (*lane.key, session.id, format_moment(session.created))).fetchone()
    since = format_moment(session.created if anew else session.created - CATCH_UP_PERIOD)
    found = [*list_answered(state, session, since), *list_overheard(state, session, since)]
    newest = sorted(found, key=lambda one: one.moment)[-MAX_CATCH_UP:]
    pieces = [list(run) for _, run in groupby(newest, key=lambda one: one.turn)]
    for run in pieces:
        told = "\n".join(one.told for one in run)
        reply = run[0].reply or (NO_REPLY_TOKEN if run[0].turn else read_prompt("gateway/overheard"))
        messages = dump_messages([make_user_message(told), ModelResponse(parts=[TextPart(content=reply)])])
        tokens = (len(told) + len(reply)) // CHARS_PER_TOKEN
        append_piece(
            state, session.id, HistoryPiece(kind=HistoryKind.ROOM, messages=messages, tokens=tokens, turn=run[0].turn)
        )
    return len(pieces)


def list_answered(state: sqlite3.Connection, session: Session, since: str) -> list[RoomMessage]:
    """List the messages answered in sessions of other clearances, the newest first."""
    lane = session.lane
    key = (lane.agent, lane.channel, lane.room, int(lane.clearance), since, session.id, MAX_CATCH_UP)
    return [
        RoomMessage(moment=moment, told=prefix_author(user, text), reply=reply or "", turn=turn)
        for turn, user, text, reply, moment in state.execute(SELECT_ANSWERED, key)
    ]


def list_overheard(state: sqlite3.Connection, session: Session, since: str) -> list[RoomMessage]:
    """List the overheard messages, the newest first, and mark them as read by this session."""
    (heard,) = state.execute("SELECT overheard FROM sessions WHERE id = ?", (session.id,)).fetchone()
    key = (session.lane.channel, session.lane.room, heard, since, MAX_CATCH_UP)
    rows = state.execute(SELECT_OVERHEARD, key).fetchall()
    if rows:
        state.execute("UPDATE sessions SET overheard = ? WHERE id = ?", (rows[0][0], session.id))
    return [RoomMessage(moment=moment, told=prefix_author(user, text)) for _, user, text, moment in rows]
