"""The past of a session: a row for each turn, as it was sent, and summaries in the place of what was folded.

Nothing is deleted: a folded row stays, and a session can be forked before it.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from foreword.frozen import frozen
from foreword.runtime.stretch import Stretch, tell
from foreword.turn import Message
from foreword.words import Word


class Kind(Word):
    """What a row of the past holds."""

    TURN = "turn"
    SUMMARY = "summary"
    """What was said up to here, in short."""
    OUTSIDE = "outside"
    """What a client says was said before."""
    ROOM = "room"
    """What was said in the room, beside this session."""


@frozen
class Row:
    """One row of the past."""

    position: int
    kind: Kind
    stretch: Stretch
    tokens: int
    turn: str = ""


Found = tuple[int, str, bytes, int, str | None]
"""A row as it stands in the table: position, kind, messages, tokens, turn."""
Known = Mapping[tuple[Any, ...], tuple[Found, Row]]
"""Rows by place and kind, with what stood in the table when they were read."""


def read_past(state: sqlite3.Connection, session: str) -> list[Row]:
    """Read what a session goes on from."""
    return [row for _, row in read_known(state, session, {}).values()]


def read_known(state: sqlite3.Connection, session: str, known: Known) -> Known:
    """Read what a session goes on from; a row that stands there as it did, byte for byte, is the one that is known."""
    asked = (
        "SELECT position, kind, messages, tokens, turn_id FROM history"
        " WHERE session_id = ? AND folded = 0 ORDER BY position, kind"
    )
    read: dict[tuple[Any, ...], tuple[Found, Row]] = {}
    for found in state.execute(asked, (session,)):
        key = found[:2]
        before = known.get(key)
        read[key] = before if before and before[0] == found else (found, make_row(found))
    return read


def make_row(found: Found) -> Row:
    """Make a row."""
    position, kind, stored, tokens, turn = found
    return Row(position=position, kind=Kind(kind), stretch=Stretch(stored), tokens=tokens, turn=turn or "")


def tell_past(past: Sequence[Row]) -> tuple[Message, ...]:
    """Tell a past as plain texts."""
    return tell([row.stretch for row in past])


@frozen
class Piece:
    """What is added to the past."""

    kind: Kind
    messages: bytes
    tokens: int
    turn: str | None = None
    beginning: str | None = None
    """The hash of everything said up to here, for clients that repeat it."""


def add_piece(state: sqlite3.Connection, session: str, piece: Piece) -> int:
    """Add to the past of a session; return where it stands."""
    (last,) = state.execute("SELECT max(position) FROM history WHERE session_id = ?", (session,)).fetchone()
    position = (last or 0) + 1
    write_piece(state, session, position, piece)
    return position


def find_newest_beginning(state: sqlite3.Connection, session: str) -> str | None:
    """Find the hash of everything said so far, for a piece that a client which repeats the conversation never sees."""
    asked = "SELECT beginning FROM history WHERE session_id = ? ORDER BY position DESC LIMIT 1"
    row = state.execute(asked, (session,)).fetchone()
    return row[0] if row else None


def write_piece(state: sqlite3.Connection, session: str, position: int, piece: Piece) -> None:
    """Write a piece at a place."""
    state.execute(
        "INSERT INTO history (session_id, position, turn_id, kind, messages, tokens, folded, beginning)"
        " VALUES (?, ?, ?, ?, ?, ?, 0, ?)",
        (session, position, piece.turn, str(piece.kind), piece.messages, piece.tokens, piece.beginning),
    )


def fold(state: sqlite3.Connection, session: str, upto: int, summary: Piece) -> None:
    """Put a summary in the place of everything up to a position."""
    state.execute("UPDATE history SET folded = 1 WHERE session_id = ? AND position <= ?", (session, upto))
    state.execute(
        "DELETE FROM history WHERE session_id = ? AND position = ? AND kind = ?", (session, upto, str(Kind.SUMMARY))
    )
    write_piece(state, session, upto, summary)


def copy_past(state: sqlite3.Connection, session: str, upto: int, into: str) -> None:
    """Copy the past of a session up to a position into another; of its summaries the newest before it counts."""
    state.execute(
        "INSERT INTO history (session_id, position, turn_id, kind, messages, tokens, folded, beginning)"
        " SELECT ?, position, turn_id, kind, messages, tokens, 0, beginning FROM history"
        " WHERE session_id = ? AND position <= ?",
        (into, session, upto),
    )
    (newest,) = state.execute(
        "SELECT max(position) FROM history WHERE session_id = ? AND kind = ?", (into, str(Kind.SUMMARY))
    ).fetchone()
    if newest is not None:
        state.execute(
            "UPDATE history SET folded = 1 WHERE session_id = ? AND (position < ? OR position = ? AND kind != ?)",
            (into, newest, newest, str(Kind.SUMMARY)),
        )
