"""The history in the state: one row per turn with its messages, summaries of compacted rows, and room messages.

Compacted rows are not deleted, so a session can be forked before them. A hash chain over the messages identifies the
session of a client that resends its history.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from foreword.storage.database import format_moment
from foreword.storage.rows import fetch_all, fetch_cell, fetch_column, insert_row, list_columns
from foreword.storage.sessions import SESSION_COLUMNS, WHERE_SESSION_KEY, Session, SessionKey
from foreword.turn import Message
from foreword.types import TextEnum, Trust, frozen

EMPTY_HASH = ""
HASHES_PER_QUERY = 400
# The turn of a notification belongs to another session; the note about a held call has a turn of its session.
SELECT_NOTIFICATIONS = """
SELECT history.rowid AS number, history.session_id, history.position, history.messages, sessions.agent,
    turns.finished AS moment, json_extract(turns.request, '$.errand.schedule') AS schedule,
    schedules.name, schedules.say
FROM history JOIN sessions ON sessions.id = history.session_id LEFT JOIN turns ON turns.id = history.turn_id
LEFT JOIN schedules ON schedules.id = json_extract(turns.request, '$.errand.schedule')
WHERE history.kind = 'room' AND turns.session_id IS NOT history.session_id
AND (sessions.room = '' OR json_extract(turns.request, '$.errand') IS NOT NULL)"""
NOTIFICATIONS_OF_SESSION = f"""{SELECT_NOTIFICATIONS} AND history.session_id = ?1
    AND history.position > (SELECT coalesce(max(position), 0)
FROM history AS spoken WHERE spoken.session_id = ?1 AND spoken.kind != 'room') ORDER BY history.position"""
# A fork has a copy of every row of its parent; a copy is no new notification. A run that was added to several
# conversations is one notification, in the conversation with the highest clearance.
NOTIFICATIONS_OF_PERSON = f"""{SELECT_NOTIFICATIONS} AND history.rowid > ?1 AND sessions.user_id = ?2
AND sessions.room = '' AND sessions.channel = ?3 AND sessions.clearance <= ?4
AND NOT EXISTS (SELECT 1 FROM history AS original
    WHERE original.session_id = sessions.parent AND original.position = history.position
    AND original.kind = 'room' AND original.messages = history.messages)
AND NOT EXISTS (SELECT 1 FROM history AS other JOIN sessions AS higher ON higher.id = other.session_id
    WHERE other.turn_id = history.turn_id AND other.kind = 'room' AND higher.user_id = ?2 AND higher.room = ''
    AND higher.channel = ?3 AND higher.clearance > sessions.clearance AND higher.clearance <= ?4)
ORDER BY history.rowid"""


class HistoryKind(TextEnum):
    """Kind of a history row."""

    TURN = "turn"
    SUMMARY = "summary"  # summary of everything before it
    OUTSIDE = "outside"  # history sent by a client
    ROOM = "room"  # messages of the room outside this session


StoredRow = tuple[int, str, bytes, int, str | None]  # position, kind, messages, tokens, turn


@frozen
class HistoryPiece:
    """A piece to add to the history."""

    kind: HistoryKind
    messages: bytes
    tokens: int
    turn: str | None = None
    beginning: str | None = None  # hash of the conversation up to here, for clients that resend it


@frozen
class NotificationRow:
    """A message that an agent added to a conversation on its own."""

    number: int  # the number of its row; newer rows have higher numbers
    session: str
    position: int
    messages: bytes
    agent: str
    moment: datetime | None  # the time at which it was sent
    schedule: str  # the id of its schedule, if any
    name: str  # the name of that schedule
    say: str  # the text of that schedule


def extend_hash(beginning: str, message: Message) -> str:
    """Extend the hash of a conversation by one message."""
    text = f"{beginning}\x00{message.role}\x00{message.text.strip()}"
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def hash_prefixes(messages: Iterable[Message]) -> Iterator[str]:
    """Hash each prefix of a conversation, the shortest first."""
    beginning = EMPTY_HASH
    for message in messages:
        beginning = extend_hash(beginning, message)
        yield beginning


def read_rows(state: sqlite3.Connection, session: str) -> list[StoredRow]:
    """Read the active history of a session."""
    columns, where = "position, kind, messages, tokens, turn_id", "session_id = ? AND folded = 0"
    query = f"SELECT {columns} FROM history WHERE {where} ORDER BY position, kind"
    return state.execute(query, (session,)).fetchall()


def find_turn_messages(state: sqlite3.Connection, session: str, turn: str) -> bytes | None:
    """Find the messages of a turn in the history of a session."""
    query = "SELECT messages FROM history WHERE session_id = ? AND turn_id = ? AND kind = 'turn'"
    return fetch_cell(bytes, state, query, session, turn)


def list_turn_positions(state: sqlite3.Connection, session: str) -> list[int]:
    """List the positions of the turns of a session."""
    query = "SELECT position FROM history WHERE session_id = ? AND kind = 'turn' ORDER BY position"
    return fetch_column(state, query, session)


def find_last_position(state: sqlite3.Connection, session: str) -> int:
    """Return the last position in the history of a session; 0 if it is empty."""
    return fetch_cell(int, state, "SELECT max(position) FROM history WHERE session_id = ?", session) or 0


def find_newest_hash(state: sqlite3.Connection, session: str) -> str | None:
    """Return the newest conversation hash, for a piece that clients which resend the history never see."""
    query = "SELECT beginning FROM history WHERE session_id = ? ORDER BY position DESC LIMIT 1"
    return fetch_cell(str, state, query, session)


def find_longest_prefix(
    state: sqlite3.Connection, messages: Iterable[Message], key: SessionKey
) -> tuple[str, int, int] | None:
    """Find the session of a key that begins with the most of these messages.

    Return its id, the position where the common beginning ends, and the number of common messages.
    """
    lengths = {beginning: number for number, beginning in enumerate(hash_prefixes(messages), 1)}
    hashes = list(lengths)
    for start in range(len(hashes), 0, -HASHES_PER_QUERY):
        part = hashes[max(0, start - HASHES_PER_QUERY) : start]
        query = f"""
        SELECT history.session_id, history.position, history.beginning
        FROM history JOIN sessions ON sessions.id = history.session_id
        WHERE history.beginning IN ({", ".join("?" * len(part))}) AND {WHERE_SESSION_KEY}
        ORDER BY sessions.current DESC, sessions.used DESC, history.position DESC"""
        if found := state.execute(query, (*part, *key.columns)).fetchall():
            session, position, beginning = max(found, key=lambda row: lengths[row[2]])  # the first was used last
            return session, position, lengths[beginning]
    return None


def append_piece(state: sqlite3.Connection, session: str, piece: HistoryPiece) -> int:
    """Append a piece to the history of a session; return its position."""
    position = find_last_position(state, session) + 1
    write_piece(state, session, position, piece)
    return position


def write_piece(state: sqlite3.Connection, session: str, position: int, piece: HistoryPiece) -> None:
    """Write a piece at a position."""
    insert_row(state, "history", session_id=session, position=position, **list_columns(piece))


def compact_history(state: sqlite3.Connection, session: str, upto: int, summary: HistoryPiece) -> None:
    """Replace all rows up to a position with a summary."""
    state.execute("UPDATE history SET folded = 1 WHERE session_id = ? AND position <= ?", (session, upto))
    state.execute("DELETE FROM history WHERE session_id = ? AND position = ? AND kind = 'summary'", (session, upto))
    write_piece(state, session, upto, summary)


def copy_history(state: sqlite3.Connection, session: str, upto: int, into: str) -> None:
    """Copy the history of a session up to a position into another; the newest summary in it stays active."""
    copy = """
    INSERT INTO history (session_id, position, turn_id, kind, messages, tokens, beginning)
    SELECT ?, position, turn_id, kind, messages, tokens, beginning FROM history
    WHERE session_id = ? AND position <= ?"""
    state.execute(copy, (into, session, upto))
    newest = fetch_cell(int, state, "SELECT max(position) FROM history WHERE session_id = ? AND kind = 'summary'", into)
    if newest is not None:
        older = "position < ?2 OR position = ?2 AND kind != 'summary'"
        state.execute(f"UPDATE history SET folded = 1 WHERE session_id = ?1 AND ({older})", (into, newest))


def list_notifications(state: sqlite3.Connection, session: str) -> list[NotificationRow]:
    """List the notifications in a session since its last turn, the oldest first."""
    return fetch_all(NotificationRow, state, NOTIFICATIONS_OF_SESSION, session)


def list_notifications_of(
    state: sqlite3.Connection, user: str, channel: str, clearance: Trust, after: int = 0
) -> tuple[list[NotificationRow], int]:
    """List the notifications in a person's private conversations on a channel, the oldest first.

    Only rows behind the cursor `after` are read. The second value is the cursor for the next call.
    """
    newest = fetch_cell(int, state, "SELECT max(rowid) FROM history") or 0
    if not user or newest == after:
        return [], newest
    # An erasure can remove the newest rows, whose numbers are then given again.
    parameters = (min(after, newest), user, channel, int(clearance))
    found = fetch_all(NotificationRow, state, NOTIFICATIONS_OF_PERSON, *parameters)
    return found, max([newest, *(row.number for row in found)])


OVERHEARD_PERIOD = timedelta(days=1)
MAX_OVERHEARD = 200  # messages per room
# Sessions store the highest number they have read, so the number of a deleted message must not be reused.
STORE_OVERHEARD = """
INSERT OR IGNORE INTO overheard (id, channel, room, user_id, name, text, heard, key) VALUES (1 + max(
    (SELECT coalesce(max(id), 0) FROM overheard), (SELECT coalesce(max(overheard), 0) FROM sessions)),
    ?, ?, ?, ?, ?, ?, ?)"""
DELETE_OLD_OVERHEARD = """
DELETE FROM overheard WHERE channel = ?1 AND room = ?2 AND (heard < ?3 OR id <= (
    SELECT id FROM overheard WHERE channel = ?1 AND room = ?2 ORDER BY id DESC LIMIT 1 OFFSET ?4))"""
SELECT_ANSWERED = """
SELECT turns.id AS turn, turns.user_id, turns.text, turns.reply, turns.received AS moment
FROM turns JOIN sessions ON sessions.id = turns.session_id
WHERE sessions.agent = ? AND sessions.channel = ? AND sessions.room = ? AND sessions.clearance != ?
    AND turns.state = 'answered' AND turns.received > ?
    AND NOT EXISTS (SELECT 1 FROM history WHERE history.session_id = ? AND history.turn_id = turns.id)
ORDER BY turns.number DESC LIMIT ?"""
SELECT_OVERHEARD = """
SELECT id, user_id, text, heard AS moment FROM overheard WHERE channel = ? AND room = ? AND id > ? AND heard > ?
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
    turn: str | None = None  # the turn, if the agent answered it


def store_overheard(
    state: sqlite3.Connection,
    place: tuple[str, str],
    now: datetime,
    *,
    user: str,
    name: str,
    text: str,
    key: str | None,
) -> None:
    """Store a message for its room, which is a channel and a name, and delete old ones."""
    state.execute(STORE_OVERHEARD, (*place, user, name, text, format_moment(now), key))
    state.execute(DELETE_OLD_OVERHEARD, (*place, format_moment(now - OVERHEARD_PERIOD), MAX_OVERHEARD))


def is_overheard(state: sqlite3.Connection, key: str) -> bool:
    """Return whether a message with this idempotency key was overheard."""
    return fetch_cell(int, state, "SELECT 1 FROM overheard WHERE key = ?", key) is not None


def find_latest_edit(state: sqlite3.Connection, key: str) -> str | None:
    """Find the newest text of the message with this key: its own, or that of its last edit."""
    return fetch_cell(str, state, SELECT_LATEST_EDIT, key, f"{key}:", f"{key};")


def has_expired_overheard(state: sqlite3.Connection, now: datetime) -> bool:
    """Return whether any message is too old; rooms without new messages need this check."""
    query = "SELECT 1 FROM overheard WHERE heard < ? LIMIT 1"
    return fetch_cell(int, state, query, format_moment(now - OVERHEARD_PERIOD)) is not None


def delete_expired_overheard(state: sqlite3.Connection, now: datetime) -> None:
    """Delete old messages in every room."""
    state.execute("DELETE FROM overheard WHERE heard < ?", (format_moment(now - OVERHEARD_PERIOD),))


def is_first_session(state: sqlite3.Connection, session: Session) -> bool:
    """Return whether a session is the first one of its session key."""
    query = f"SELECT 1 FROM sessions WHERE {WHERE_SESSION_KEY} AND id != ? AND created <= ? LIMIT 1"
    return fetch_cell(int, state, query, *session.key.columns, session.id, format_moment(session.created)) is None


def list_answered(state: sqlite3.Connection, session: Session, since: datetime, limit: int) -> list[RoomMessage]:
    """List the messages answered in sessions of other clearances, the newest first."""
    key = session.key
    columns = (key.agent, key.channel, key.room, key.clearance, format_moment(since), session.id, limit)
    return fetch_all(RoomMessage, state, SELECT_ANSWERED, *columns)


def take_overheard(state: sqlite3.Connection, session: Session, since: datetime, limit: int) -> list[RoomMessage]:
    """List the overheard messages, the newest first, and mark them as read by this session."""
    last = fetch_cell(int, state, "SELECT overheard FROM sessions WHERE id = ?", session.id)
    key = (session.key.channel, session.key.room, last, format_moment(since), limit)
    rows = state.execute(SELECT_OVERHEARD, key).fetchall()
    if rows:
        state.execute("UPDATE sessions SET overheard = ? WHERE id = ?", (rows[0][0], session.id))
    return [RoomMessage(moment=moment, user=user, text=text) for _, user, text, moment in rows]


def is_added(state: sqlite3.Connection, turn: str, channel: str) -> bool:
    """Return whether the text of a turn was added to a session on a channel."""
    query = """
    SELECT 1 FROM history JOIN sessions ON sessions.id = history.session_id
    WHERE history.turn_id = ? AND sessions.channel = ? AND history.kind = 'room'"""
    return fetch_cell(int, state, query, turn, channel) is not None


# A transcript has the messages of turns, and none that were only overheard in a room.
TRANSCRIPT_ROWS = "history JOIN turns ON turns.id = history.turn_id AND history.kind IN ('turn', 'room')"
SELECT_TRANSCRIPT = f"""
SELECT history.position, iif(history.kind = 'room', history.messages, NULL),
    turns.user_id, turns.text, turns.reply, turns.state, turns.received, turns.finished
FROM {TRANSCRIPT_ROWS} WHERE history.session_id = ? ORDER BY history.position"""
SELECT_DUE_SESSIONS = f"""
SELECT {SESSION_COLUMNS}
FROM sessions LEFT JOIN archives ON archives.session_id = sessions.id
WHERE sessions.used >= ? AND (sessions.user_id != '' OR sessions.room != '')
    AND (SELECT max(position) FROM {TRANSCRIPT_ROWS} WHERE history.session_id = sessions.id)
    > coalesce(archives.upto, 0)
    AND (sessions.current = 0 OR sessions.used < ? OR EXISTS (
        SELECT 1 FROM history
        WHERE session_id = sessions.id AND folded = 1 AND position > coalesce(archives.upto, 0)))
    AND NOT EXISTS (SELECT 1 FROM turns WHERE session_id = sessions.id AND finished IS NULL)
ORDER BY sessions.used"""
# The history of a fork has the turns of its parent. A failed or waiting turn is in no history.
SELECT_TURNS_OF_SESSION = f"""
SELECT turns.id AS turn, turns.number AS place, NULL AS added FROM turns WHERE turns.session_id = ?1
UNION
SELECT turns.id, turns.number, iif(history.kind = 'room', history.messages, NULL)
FROM {TRANSCRIPT_ROWS} WHERE history.session_id = ?1"""
SELECT_SHOWN_TURNS = f"""
SELECT said.added, turns.user_id, turns.text, turns.reply, turns.state, turns.received, turns.finished
FROM ({SELECT_TURNS_OF_SESSION}) AS said JOIN turns ON turns.id = said.turn
WHERE ?2 = '' OR turns.user_id = ?2 AND said.added IS NULL ORDER BY said.place"""


def list_transcript_rows(state: sqlite3.Connection, session: str) -> list[Any]:
    """List the messages of a session with their positions, including those that a summary replaces."""
    return state.execute(SELECT_TRANSCRIPT, (session,)).fetchall()


def list_sessions_to_archive(state: sqlite3.Connection, since: str, idle_since: datetime) -> list[Session]:
    """List the finished sessions whose transcript is incomplete; an idle session is finished."""
    return fetch_all(Session, state, SELECT_DUE_SESSIONS, since, format_moment(idle_since))


def list_visible_sessions(
    state: sqlite3.Connection, clearance: Trust, room: str, user: str, *, everything: bool
) -> list[Session]:
    """List the sessions of a user, or all, up to a clearance and in a room, the most recently used first."""
    query = f"""
    SELECT {SESSION_COLUMNS} FROM sessions WHERE clearance <= ?1 AND (?2 = '' OR room = ?2)
        AND (?3 OR ?4 != '' AND (user_id = ?4
            OR EXISTS (SELECT 1 FROM turns WHERE turns.session_id = sessions.id AND turns.user_id = ?4)))
    ORDER BY used DESC, id"""
    return fetch_all(Session, state, query, int(clearance), room, everything, user)


def list_shown_rows(state: sqlite3.Connection, session: str, user: str) -> list[Any]:
    """List the turns of a session in every state; with a user, only theirs."""
    return state.execute(SELECT_SHOWN_TURNS, (session, user)).fetchall()
