"""What was said in a room beside a session: what nobody said to the agent, and plain messages of the other lanes.

In a room everybody reads every message, whatever lane it was answered in; so each lane is told what the others said,
and nothing of what their tools found.
"""

import sqlite3
from datetime import timedelta
from hashlib import sha256
from itertools import groupby

from pydantic_ai.messages import ModelResponse, TextPart

from foreword.frozen import frozen
from foreword.gateway.admission import CHARS_PER_TOKEN
from foreword.gateway.message import Incoming
from foreword.gateway.moment import write_moment
from foreword.gateway.past import Kind, Piece, add_piece
from foreword.gateway.session import OF_LANE, Session
from foreword.runtime.history import dump, say
from foreword.runtime.silence import TOKEN
from foreword.sources.builtin import read_prompt

MOST = 20  # messages that a lane catches up with
BACK = timedelta(days=1)  # how far the first session of a lane looks back; one that is begun anew does not
BESIDE = """
SELECT turns.id, turns.user_id, turns.text, turns.reply, turns.received
FROM turns JOIN sessions ON sessions.id = turns.session_id
WHERE sessions.agent = ? AND sessions.channel = ? AND sessions.room = ? AND sessions.clearance != ?
    AND turns.state = 'answered' AND turns.received > ?
    AND NOT EXISTS (SELECT 1 FROM history WHERE history.session_id = ? AND history.turn_id = turns.id)
ORDER BY turns.number DESC LIMIT ?"""


OVERHEARD = """
SELECT id, user_id, text, heard FROM overheard WHERE channel = ? AND room = ? AND id > ? AND heard > ?
ORDER BY id DESC LIMIT ?"""


def name_speaker(user: str, text: str) -> str:
    """Say who says something in a room; no further line of it can be taken for the words of another."""
    return f"{label(user)}: " + "\n  ".join(text.splitlines())


def label(user: str) -> str:
    """Say who somebody is: a user by name, a stranger by what is theirs alone and can be no user's name."""
    if not user:
        return "a stranger"
    return f"stranger {sha256(user.encode()).hexdigest()[:8]}" if ":" in user else user


def find_words(incoming: Incoming) -> str:
    """Find the words of a message as the model hears them: in a room with the name of who speaks."""
    return name_speaker(incoming.user, incoming.text) if incoming.room else incoming.text


@frozen
class Beside:
    """Something that was said in a room beside a session."""

    moment: str
    told: str
    reply: str = ""
    turn: str | None = None
    """The turn that it was, where the agent answered."""


def catch_up(state: sqlite3.Connection, session: Session) -> int:
    """Add what was said in a room beside a session since; return how many pieces that is."""
    lane = session.lane
    asked = f"SELECT 1 FROM sessions WHERE {OF_LANE} AND id != ? AND created <= ? LIMIT 1"
    anew = state.execute(asked, (*lane.key, session.id, write_moment(session.created))).fetchone()
    since = write_moment(session.created if anew else session.created - BACK)
    found = [*list_answered(state, session, since), *list_overheard(state, session, since)]
    newest = sorted(found, key=lambda one: one.moment)[-MOST:]
    pieces = [list(run) for _, run in groupby(newest, key=lambda one: one.turn)]
    for run in pieces:
        told = "\n".join(one.told for one in run)
        reply = run[0].reply or (TOKEN if run[0].turn else read_prompt("gateway/overheard"))
        messages = dump([say(told), ModelResponse(parts=[TextPart(content=reply)])])
        tokens = (len(told) + len(reply)) // CHARS_PER_TOKEN
        add_piece(state, session.id, Piece(kind=Kind.ROOM, messages=messages, tokens=tokens, turn=run[0].turn))
    return len(pieces)


def list_answered(state: sqlite3.Connection, session: Session, since: str) -> list[Beside]:
    """List what was answered in the other lanes, the newest first."""
    lane = session.lane
    key = (lane.agent, lane.channel, lane.room, int(lane.clearance), since, session.id, MOST)
    return [
        Beside(moment=moment, told=name_speaker(user, text), reply=reply or "", turn=turn)
        for turn, user, text, reply, moment in state.execute(BESIDE, key)
    ]


def list_overheard(state: sqlite3.Connection, session: Session, since: str) -> list[Beside]:
    """List what nobody said to the agent, the newest first, and note that this session has heard it."""
    (heard,) = state.execute("SELECT overheard FROM sessions WHERE id = ?", (session.id,)).fetchone()
    key = (session.lane.channel, session.lane.room, heard, since, MOST)
    rows = state.execute(OVERHEARD, key).fetchall()
    if rows:
        state.execute("UPDATE sessions SET overheard = ? WHERE id = ?", (rows[0][0], session.id))
    return [Beside(moment=moment, told=name_speaker(user, text)) for _, user, text, moment in rows]
