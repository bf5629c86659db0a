"""What an agent sends to a place by itself is part of the conversation there: who answers it is understood."""

import sqlite3
from dataclasses import replace
from datetime import datetime

from pydantic_ai.messages import ModelResponse, TextPart

from foreword.gateway.admission import CHARS_PER_TOKEN
from foreword.gateway.lane import Lane
from foreword.gateway.past import Kind, Piece, add_piece
from foreword.gateway.session import add_session, find_current
from foreword.runtime.history import dump, say
from foreword.sources.builtin import read_prompt
from foreword.words import Trust

SITUATION = "dm"
THERE = """
SELECT id FROM sessions WHERE agent = ? AND channel = ? AND room = ? AND user_id = ? AND current = 1
    AND (clearance >= ? OR room != '')"""


def tell_shelves(
    state: sqlite3.Connection, place: Lane, turn: str, text: str, now: datetime, *, home: Trust | None = None
) -> None:
    """Add what was sent to the private conversation of a person, which is begun if there is none.

    It is begun at the person's own clearance: their chat does not show a conversation below it.
    """
    own = replace(place, clearance=max(place.clearance, home or place.clearance))
    if find_current(state, own) is None:
        add_session(state, own, SITUATION, now)
    tell_there(state, place, turn, text)


def find_key(place: Lane) -> tuple[str, str, str, str, int]:
    """Return what the conversations at a place are found by."""
    return (place.agent, place.channel, place.room, place.user, int(place.clearance))


def tell_there(state: sqlite3.Connection, place: Lane, turn: str, text: str) -> None:
    """Add what was sent to the conversations that go on at a place; everybody in a room has read it."""
    before = read_prompt("gateway/planned")
    messages = dump([say(before), ModelResponse(parts=[TextPart(content=text)])])
    piece = Piece(
        kind=Kind.ROOM, messages=messages, tokens=(len(before) + len(text)) // CHARS_PER_TOKEN, turn=turn or None
    )
    for (session,) in state.execute(THERE, find_key(place)).fetchall():
        add_piece(state, session, piece)
