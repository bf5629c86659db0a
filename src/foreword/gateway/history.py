"""The history of a session: one row per turn with the messages as sent, and summaries that replace compacted rows.

Compacted rows are not deleted, so a session can be forked before them.

Hash chain of a conversation: identifies the session of a client that resends its history.
"""

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from foreword.agent.conversation import HistorySegment, convert_segments_to_texts
from foreword.turn import Message
from foreword.types import TextEnum, frozen

EMPTY_HASH = ""


def extend_hash(beginning: str, message: Message) -> str:
    """Extend the hash of a conversation by one message."""
    text = f"{beginning}\x00{message.role}\x00{message.text.strip()}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def hash_prefixes(messages: Iterable[Message]) -> Iterator[str]:
    """Hash each prefix of a conversation, the shortest first."""
    beginning = EMPTY_HASH
    for message in messages:
        beginning = extend_hash(beginning, message)
        yield beginning


class HistoryKind(TextEnum):
    """Kind of a history row."""

    TURN = "turn"
    SUMMARY = "summary"
    """Summary of everything before it."""
    OUTSIDE = "outside"
    """History sent by a client."""
    ROOM = "room"
    """Messages of the room outside this session."""


@frozen
class HistoryRow:
    """One row of the history."""

    position: int
    kind: HistoryKind
    stretch: HistorySegment
    tokens: int
    turn: str = ""


StoredRow = tuple[int, str, bytes, int, str | None]
"""A row as stored: position, kind, messages, tokens, turn."""
KnownRows = Mapping[tuple[Any, ...], tuple[StoredRow, HistoryRow]]
"""Parsed rows by position and kind, each with the stored row it was made from."""


def load_history(state: sqlite3.Connection, session: str) -> list[HistoryRow]:
    """Read the active history of a session."""
    return [row for _, row in load_history_rows(state, session, {}).values()]


def load_history_rows(state: sqlite3.Connection, session: str, known: KnownRows) -> KnownRows:
    """Read the active history of a session; reuse a known row if its stored bytes are unchanged."""
    asked = (
        "SELECT position, kind, messages, tokens, turn_id FROM history"
        " WHERE session_id = ? AND folded = 0 ORDER BY position, kind"
    )
    read: dict[tuple[Any, ...], tuple[StoredRow, HistoryRow]] = {}
    for found in state.execute(asked, (session,)):
        key = found[:2]
        before = known.get(key)
        read[key] = before if before and before[0] == found else (found, parse_history_row(found))
    return read


def parse_history_row(found: StoredRow) -> HistoryRow:
    """Parse a stored row."""
    position, kind, stored, tokens, turn = found
    return HistoryRow(
        position=position, kind=HistoryKind(kind), stretch=HistorySegment(stored), tokens=tokens, turn=turn or ""
    )


def list_plain_messages(past: Sequence[HistoryRow]) -> tuple[Message, ...]:
    """Return a history as plain messages."""
    return convert_segments_to_texts([row.stretch for row in past])


@frozen
class HistoryPiece:
    """A piece to add to the history."""

    kind: HistoryKind
    messages: bytes
    tokens: int
    turn: str | None = None
    beginning: str | None = None
    """Hash of the conversation up to here, for clients that resend it."""


def append_piece(state: sqlite3.Connection, session: str, piece: HistoryPiece) -> int:
    """Append a piece to the history of a session; return its position."""
    (last,) = state.execute("SELECT max(position) FROM history WHERE session_id = ?", (session,)).fetchone()
    position = (last or 0) + 1
    write_piece(state, session, position, piece)
    return position


def find_newest_hash(state: sqlite3.Connection, session: str) -> str | None:
    """Return the newest conversation hash, for a piece that clients which resend the history never see."""
    asked = "SELECT beginning FROM history WHERE session_id = ? ORDER BY position DESC LIMIT 1"
    row = state.execute(asked, (session,)).fetchone()
    return row[0] if row else None


def write_piece(state: sqlite3.Connection, session: str, position: int, piece: HistoryPiece) -> None:
    """Write a piece at a position."""
    state.execute(
        "INSERT INTO history (session_id, position, turn_id, kind, messages, tokens, folded, beginning)"
        " VALUES (?, ?, ?, ?, ?, ?, 0, ?)",
        (session, position, piece.turn, str(piece.kind), piece.messages, piece.tokens, piece.beginning),
    )


def compact_history(state: sqlite3.Connection, session: str, upto: int, summary: HistoryPiece) -> None:
    """Replace all rows up to a position with a summary."""
    state.execute("UPDATE history SET folded = 1 WHERE session_id = ? AND position <= ?", (session, upto))
    state.execute(
        "DELETE FROM history WHERE session_id = ? AND position = ? AND kind = ?",
        (session, upto, str(HistoryKind.SUMMARY)),
    )
    write_piece(state, session, upto, summary)


def copy_history(state: sqlite3.Connection, session: str, upto: int, into: str) -> None:
    """Copy the history of a session up to a position into another; the newest summary in it stays active."""
    state.execute(
        "INSERT INTO history (session_id, position, turn_id, kind, messages, tokens, folded, beginning)"
        " SELECT ?, position, turn_id, kind, messages, tokens, 0, beginning FROM history"
        " WHERE session_id = ? AND position <= ?",
        (into, session, upto),
    )
    (newest,) = state.execute(
        "SELECT max(position) FROM history WHERE session_id = ? AND kind = ?", (into, str(HistoryKind.SUMMARY))
    ).fetchone()
    if newest is not None:
        state.execute(
            "UPDATE history SET folded = 1 WHERE session_id = ? AND (position < ? OR position = ? AND kind != ?)",
            (into, newest, newest, str(HistoryKind.SUMMARY)),
        )
