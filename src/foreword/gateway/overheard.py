"""What was said in rooms without being said to the agent: kept for a day, for the next turn of the room to hear."""

import sqlite3
from datetime import datetime, timedelta

from foreword.gateway.message import Incoming
from foreword.gateway.moment import write_moment
from foreword.gateway.pairing import clean_name

KEPT = timedelta(days=1)
MOST = 200  # messages of one room that are kept
LONGEST = 2_000  # characters of a message
# Sessions know by the number what they have heard, so that of one which was let go is given to no other.
NEXT = "1 + max((SELECT coalesce(max(id), 0) FROM overheard), (SELECT coalesce(max(overheard), 0) FROM sessions))"


def keep(state: sqlite3.Connection, incoming: Incoming, name: str, key: str | None, now: datetime) -> None:
    """Keep a message for its room, and let go of what is too old."""
    place = (incoming.channel, incoming.room)
    text = incoming.text if len(incoming.text) <= LONGEST else f"{incoming.text[:LONGEST]}…"
    state.execute(
        "INSERT OR IGNORE INTO overheard (id, channel, room, user_id, name, text, heard, key)"
        f" VALUES ({NEXT}, ?, ?, ?, ?, ?, ?, ?)",
        (*place, incoming.user, clean_name(name), text, write_moment(now), key),
    )
    state.execute(
        "DELETE FROM overheard WHERE channel = ?1 AND room = ?2 AND (heard < ?3 OR id <= (SELECT id FROM overheard"
        " WHERE channel = ?1 AND room = ?2 ORDER BY id DESC LIMIT 1 OFFSET ?4))",
        (*place, write_moment(now - KEPT), MOST),
    )


def is_kept_too_long(state: sqlite3.Connection, now: datetime) -> bool:
    """Whether something is too old, as in a room where nobody says anything any more."""
    asked = "SELECT EXISTS (SELECT 1 FROM overheard WHERE heard < ?)"
    return bool(state.execute(asked, (write_moment(now - KEPT),)).fetchone()[0])


def let_go(state: sqlite3.Connection, now: datetime) -> None:
    """Let go of what is too old, in every room."""
    state.execute("DELETE FROM overheard WHERE heard < ?", (write_moment(now - KEPT),))
