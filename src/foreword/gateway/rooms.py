"""Rooms: authors of messages, overheard messages, and what a session missed of its room.

Everyone in a room reads every message. So each session gets the plain messages of the others, but not the results of
their tools. Messages that do not address the agent are overheard, and stored for a day for the next turn of the room.
"""

import sqlite3
from datetime import datetime, timedelta
from itertools import groupby

from foreword.agent.reply_stream import NO_REPLY_TOKEN
from foreword.engine.sources.documents import read_prompt
from foreword.gateway.messages import RoutedMessage, prefix_author
from foreword.gateway.notifications import make_note
from foreword.gateway.pairing import clean_name
from foreword.storage import history
from foreword.storage.history import append_piece
from foreword.storage.sessions import Session

MAX_OVERHEARD_CHARS = 2_000  # characters per message
MAX_CATCH_UP = 20  # messages that a session catches up with
# How far the first session of a session key looks back; a later one starts at its creation.
CATCH_UP_PERIOD = timedelta(days=1)


def store_overheard(
    state: sqlite3.Connection, incoming: RoutedMessage, name: str, key: str | None, now: datetime
) -> None:
    """Store a message for its room, and delete old ones."""
    text = incoming.text if len(incoming.text) <= MAX_OVERHEARD_CHARS else f"{incoming.text[:MAX_OVERHEARD_CHARS]}…"
    place = (incoming.channel, incoming.room)
    history.store_overheard(state, place, user=incoming.user, name=clean_name(name), text=text, key=key, now=now)


def catch_up(state: sqlite3.Connection, session: Session) -> int:
    """Add the messages of the room since the last turn to a session; return the number of added pieces."""
    first = history.is_first_session(state, session)
    since = session.created - CATCH_UP_PERIOD if first else session.created
    found = [
        *history.list_answered(state, session, since, MAX_CATCH_UP),
        *history.take_overheard(state, session, since, MAX_CATCH_UP),
    ]
    newest = sorted(found, key=lambda message: message.moment)[-MAX_CATCH_UP:]
    runs = [list(run) for _, run in groupby(newest, key=lambda message: message.turn)]
    for run in runs:
        text = "\n".join(prefix_author(message.user, message.text) for message in run)
        turn = run[0].turn
        reply = run[0].reply or (NO_REPLY_TOKEN if turn else read_prompt("gateway/overheard"))
        append_piece(state, session.id, make_note(text, reply, turn=turn))
    return len(runs)
