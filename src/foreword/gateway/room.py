"""What was said in a room beside a session: plain messages of the other lanes, and nothing of what their tools found.

In a room everybody reads every message, whatever lane it was answered in; so each lane is told what the others said.
"""

import sqlite3
from datetime import timedelta

from pydantic_ai.messages import ModelResponse, TextPart

from foreword.gateway.message import Incoming
from foreword.gateway.moment import write_moment
from foreword.gateway.past import Kind, Piece, add_piece
from foreword.gateway.session import OF_LANE, Session
from foreword.runtime.history import dump, say

MOST = 20  # exchanges that a lane catches up with
BACK = timedelta(days=1)  # how far the first session of a lane looks back; one that is begun anew does not
ROUGHLY = 3  # characters to a token
BESIDE = """
SELECT turns.id, turns.user_id, turns.text, turns.reply FROM turns JOIN sessions ON sessions.id = turns.session_id
WHERE sessions.agent = ? AND sessions.channel = ? AND sessions.room = ? AND sessions.clearance != ?
    AND turns.state = 'answered' AND turns.received > ?
    AND NOT EXISTS (SELECT 1 FROM history WHERE history.session_id = ? AND history.turn_id = turns.id)
ORDER BY turns.number DESC LIMIT ?"""


def name_speaker(user: str, text: str) -> str:
    """Say who says something in a room; no further line of it can be taken for the words of another."""
    return f"{user or 'somebody'}: " + "\n  ".join(text.splitlines())


def find_words(incoming: Incoming) -> str:
    """Find the words of a message as the model hears them: in a room with the name of who speaks."""
    return name_speaker(incoming.user, incoming.text) if incoming.room else incoming.text


def catch_up(state: sqlite3.Connection, session: Session) -> int:
    """Add what the other lanes of a room said since; return how many exchanges that is."""
    lane = session.lane
    asked = f"SELECT 1 FROM sessions WHERE {OF_LANE} AND id != ? AND created <= ? LIMIT 1"
    anew = state.execute(asked, (*lane.key, session.id, write_moment(session.created))).fetchone()
    since = write_moment(session.created if anew else session.created - BACK)
    key = (lane.agent, lane.channel, lane.room, int(lane.clearance), since, session.id, MOST)
    for turn, user, text, reply in reversed(found := state.execute(BESIDE, key).fetchall()):
        told = name_speaker(user, text)
        messages = dump([say(told), ModelResponse(parts=[TextPart(content=reply)])])
        tokens = (len(told) + len(reply)) // ROUGHLY
        add_piece(state, session.id, Piece(kind=Kind.ROOM, messages=messages, tokens=tokens, turn=turn))
    return len(found)
