"""Reads what came of turns."""

import json
import sqlite3

from foreword.events.event import Usage
from foreword.gateway.inbox import Claimed, Ending
from foreword.gateway.message import Exchange, Reply, State
from foreword.gateway.moment import read_moment

COLUMNS = (
    "turns.id, turns.session_id, sessions.agent, turns.user_id, turns.state, turns.reply, turns.received,"
    " turns.finished, turns.usage, turns.cost_usd, turns.prompt_hash, turns.cut"
)
TURNS = "turns JOIN sessions ON sessions.id = turns.session_id"


def find_reply(state: sqlite3.Connection, turn: str) -> Reply | None:
    """Find what came of a turn so far."""
    row = state.execute(f"SELECT {COLUMNS} FROM {TURNS} WHERE turns.id = ?", (turn,)).fetchone()
    return read_reply(row) if row else None


def list_unfinished(state: sqlite3.Connection, session: str) -> list[Exchange]:
    """List the messages of a session that something more will come of, the oldest first."""
    which = "turns.session_id = ? AND turns.finished IS NULL ORDER BY turns.number"
    found = state.execute(f"SELECT turns.text, {COLUMNS} FROM {TURNS} WHERE {which}", (session,))
    return [Exchange(asked=asked, reply=read_reply(tuple(row))) for asked, *row in found]


def list_missed(state: sqlite3.Connection, session: str, most: int) -> list[Exchange]:
    """List what came of a session's messages after the last of them, and the newest answer at any rate.

    Whoever wrote the last one may have gone before the others were answered. The oldest comes first; nobody waits for
    a stopped one.
    """
    ended = "turns.session_id = ?1 AND turns.finished IS NOT NULL AND turns.state != 'stopped'"
    later = "turns.finished > (SELECT max(received) FROM turns WHERE session_id = ?1)"
    newest = f"turns.number = (SELECT max(number) FROM turns WHERE {ended})"
    asked = (
        f"SELECT turns.text, {COLUMNS} FROM {TURNS} WHERE {ended} AND ({later} OR {newest})"
        " ORDER BY turns.number DESC LIMIT ?2"
    )
    found = state.execute(asked, (session, most)).fetchall()
    return [Exchange(asked=asked, reply=read_reply(tuple(row))) for asked, *row in reversed(found)]


def make_reply(claimed: Claimed, ending: Ending) -> Reply:
    """Make what came of a turn that is not written yet."""
    return Reply(
        turn=claimed.turn,
        session=claimed.session.id,
        agent=claimed.session.lane.agent,
        user=claimed.incoming.user,
        state=ending.state,
        text=ending.text,
        received=claimed.received,
        finished=ending.now if ending.state.ended else None,
        usage=ending.spent.usage,
        cost_usd=ending.spent.cost_usd,
        prompt_hash=ending.prompt_hash,
        cut=ending.cut,
    )


def read_reply(row: tuple[object, ...]) -> Reply:
    """Read a row."""
    turn, session, agent, user, state, text, received, finished, usage, cost, prompt, cut = row
    return Reply(
        turn=str(turn),
        session=str(session),
        agent=str(agent),
        user=str(user),
        state=State(state),
        text=str(text or ""),
        received=read_moment(str(received)),
        finished=read_moment(str(finished)) if finished else None,
        usage=Usage(**json.loads(str(usage))) if usage else Usage(),
        cost_usd=float(str(cost)) if cost is not None else (None if usage else 0.0),
        prompt_hash=str(prompt or ""),
        cut=bool(cut),
    )
