"""What was said in rooms without being said to the agent: kept for a day, for the next turn of the room to hear."""

import sqlite3
from datetime import datetime, timedelta

from foreword.gateway.message import Incoming
from foreword.gateway.moment import write_moment
from foreword.gateway.pairing import clean_name

KEPT = timedelta(days=1)
MOST = 200  # messages of one room that are kept
LONGEST = 2_000  # characters of a message


def keep(state: sqlite3.Connection, incoming: Incoming, name: str, key: str | None, now: datetime) -> None:
    """Keep a message for its room, and let go of what is too old."""
    place = (incoming.channel, incoming.room)
    text = incoming.text if len(incoming.text) <= LONGEST else f"{incoming.text[:LONGEST]}…"
    state.execute(
        "INSERT OR IGNORE INTO overheard (channel, room, user_id, name, text, heard, key) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*place, incoming.user, clean_name(name), text, write_moment(now), key),
    )
    state.execute(
        "DELETE FROM overheard WHERE channel = ?1 AND room = ?2 AND (heard < ?3 OR id <= (SELECT id FROM overheard"
        " WHERE channel = ?1 AND room = ?2 ORDER BY id DESC LIMIT 1 OFFSET ?4))",
        (*place, write_moment(now - KEPT), MOST),
    )
