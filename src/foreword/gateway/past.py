"""The past of a session: a row for each turn, as it was sent, and summaries in the place of what was folded.

Nothing is deleted: a folded row stays, and a session can be forked before it.
"""

import sqlite3
import threading
from collections import OrderedDict

from foreword.frozen import frozen
from foreword.runtime.history import Messages, load
from foreword.words import Word

REMEMBERED = 2_048  # rows that are remembered once they were read, all sessions together
LARGEST = 16_000_000  # bytes of them as they are stored


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
    messages: Messages
    tokens: int
    turn: str = ""


def read_past(state: sqlite3.Connection, session: str) -> list[Row]:
    """Read what a session goes on from."""
    found = state.execute(
        "SELECT position, kind, messages, tokens, turn_id FROM history"
        " WHERE session_id = ? AND folded = 0 ORDER BY position, kind",
        (session,),
    )
    return [
        Row(position=position, kind=Kind(kind), messages=recall(messages), tokens=tokens, turn=turn or "")
        for position, kind, messages, tokens, turn in found
    ]


class Remembered:
    """Messages that were read lately: a conversation reads all of its past in every turn, while others wait."""

    def __init__(self, rows: int = REMEMBERED, largest: int = LARGEST) -> None:
        self._rows = rows
        self._largest = largest
        self._known: OrderedDict[bytes, Messages] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()  # the one who writes reads, too

    def recall(self, stored: bytes) -> Messages:
        """Read messages that were stored, or remember them; what was not asked for longest is forgotten first."""
        with self._lock:
            if (known := self._known.get(stored)) is not None:
                self._known.move_to_end(stored)
                return known
        messages = load(stored)
        with self._lock:
            if stored not in self._known:
                self._known[stored] = messages
                self._size += len(stored)
            while len(self._known) > self._rows or self._size > self._largest:
                forgotten, _ = self._known.popitem(last=False)
                self._size -= len(forgotten)
        return messages


recall = Remembered().recall


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
