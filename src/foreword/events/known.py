"""What the log knows by name: sessions, people and rooms, as far as the reader may know of them."""

import sqlite3

from foreword.errors import InputError, show_name
from foreword.events.event import Reader
from foreword.events.question import INDEXES
from foreword.events.visible import visible

LAST = "\U0010ffff"  # sorts behind every id that begins with what stands before it


class Unrecorded(InputError):
    """Nothing of this name is recorded, or nothing that the reader may see: both are told in the same words."""


def complete_session(connection: sqlite3.Connection, reader: Reader, named: str) -> str:
    """Complete the beginning of a session's id, as tables show it, among the sessions that the reader may see."""
    where, values = visible(reader)
    rows = connection.execute(
        "SELECT DISTINCT session_id FROM events INDEXED BY idx_events_session"  # noqa: S608
        f" WHERE session_id >= ? AND session_id < ? AND {where} ORDER BY session_id LIMIT 3",
        [named, f"{named}{LAST}", *values],
    )
    known = [session for (session,) in rows]
    if named in known:
        return named
    if not known:
        raise Unrecorded(f"no session {show_name(named)} is recorded")
    if len(known) > 1:
        raise InputError(f"several sessions begin so; write more of the id: {', '.join(known)}")
    return str(known[0])


def is_recorded(connection: sqlite3.Connection, reader: Reader, column: str, value: str) -> bool:
    """Tell whether an event with this value is recorded that the reader may see."""
    where, values = visible(reader)
    row = connection.execute(
        f"SELECT 1 FROM events INDEXED BY {INDEXES[column]} WHERE {column} = ? AND {where} LIMIT 1",  # noqa: S608
        [value, *values],
    ).fetchone()
    return row is not None
