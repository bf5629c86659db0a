"""What was said in a room beside a session: plain messages of the other lanes, and nothing of what their tools found.

In a room everybody reads every message, whatever lane it was answered in; so each lane is told what the others said.
"""

import sqlite3
from datetime import timedelta

from pydantic_ai.messages import ModelResponse, TextPart

from foreword.gateway.moment import write_moment
from foreword.gateway.past import Kind, Piece, add_piece
from foreword.gateway.session import Session
from foreword.runtime.history import dump, say

MOST = 20  # exchanges that a lane catches up with
BACK = timedelta(days=1)  # how far a lane that begins looks back
ROUGHLY = 3  # characters to a token
BESIDE = """
SELECT turns.id, turns.user_id, turns.text, turns.reply FROM turns JOIN sessions ON sessions.id = turns.session_id
WHERE sessions.agent = ? AND sessions.channel = ? AND sessions.room = ? AND sessions.id != ?
    AND turns.state = 'answered' AND turns.received > ?
    AND NOT EXISTS (SELECT 1 FROM history WHERE history.session_id = ? AND history.turn_id = turns.id)
ORDER BY turns.number DESC LIMIT ?"""


def name_speaker(user: str, text: str) -> str:
    """Say who spoke, since in a room it may be anybody."""
    return f"{user or 'somebody'}: {text}"


def catch_up(state: sqlite3.Connection, session: Session) -> int:
    """Add what the other lanes of a room said since; return how many exchanges that is."""
    lane = session.lane
    since = write_moment(session.created - BACK)
    found = state.execute(BESIDE, (lane.agent, lane.channel, lane.room, session.id, since, session.id, MOST)).fetchall()
    for turn, user, text, reply in reversed(found):
        told = name_speaker(user, text)
        messages = dump([say(told), ModelResponse(parts=[TextPart(content=reply)])])
        tokens = (len(told) + len(reply)) // ROUGHLY
        add_piece(state, session.id, Piece(kind=Kind.ROOM, messages=messages, tokens=tokens, turn=turn))
    return len(found)
