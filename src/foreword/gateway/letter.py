"""A letter: what is on its way to somebody, whoever wrote it."""

import sqlite3
from datetime import datetime

from foreword.frozen import frozen


@frozen(eq=True)
class Letter:
    """A text for an address on a channel, with a key of its own: posted twice, it is one."""

    key: str
    channel: str
    address: str
    text: str
    turn: str = ""
    """The turn that it answers or comes from."""


def post(state: sqlite3.Connection, letter: Letter, now: datetime) -> None:
    """Put a letter into the outbox, with whatever else the transaction writes."""
    state.execute(
        "INSERT OR IGNORE INTO outbox (key, turn_id, channel, address, text, state, due)"
        " VALUES (?, ?, ?, ?, ?, 'pending', ?)",
        (letter.key, letter.turn or None, letter.channel, letter.address, letter.text, now.timestamp()),
    )
