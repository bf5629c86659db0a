"""What an agent sends to a place by itself is part of the conversation there: who answers it is understood."""

import sqlite3

from pydantic_ai.messages import ModelResponse, TextPart

from foreword.gateway.admission import ROUGHLY
from foreword.gateway.lane import Lane
from foreword.gateway.past import Kind, Piece, add_piece
from foreword.runtime.history import dump, say
from foreword.sources.builtin import read_prompt

THERE = """
SELECT id FROM sessions WHERE agent = ? AND channel = ? AND room = ? AND user_id = ? AND current = 1
    AND (clearance >= ? OR room != '')"""


def tell_there(state: sqlite3.Connection, place: Lane, turn: str, text: str) -> None:
    """Add what was sent to the conversations that go on at a place; everybody in a room has read it."""
    before = read_prompt("gateway/planned")
    messages = dump([say(before), ModelResponse(parts=[TextPart(content=text)])])
    piece = Piece(kind=Kind.ROOM, messages=messages, tokens=(len(before) + len(text)) // ROUGHLY, turn=turn or None)
    found = (place.agent, place.channel, place.room, place.user, int(place.clearance))
    for (session,) in state.execute(THERE, found).fetchall():
        add_piece(state, session, piece)
