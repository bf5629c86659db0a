"""Held calls in the state: tool calls that wait for a person's approval, or waited for it."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from foreword.errors import InputError
from foreword.events.tracer import make_id
from foreword.storage.database import format_moment, parse_moment
from foreword.types import TextEnum, Trust, frozen

HELD_FOR = timedelta(hours=24)
MAX_HELD_CALLS = 20  # of one person, waiting at the same time
ID_BITS = 32

SELECT_HELD = """
SELECT held_calls.id, held_calls.turn_id, held_calls.session_id, sessions.agent, sessions.channel, held_calls.user_id,
    sessions.clearance, held_calls.name, held_calls.arguments, held_calls.question, held_calls.state,
    held_calls.created, held_calls.expires, held_calls.run_id, held_calls.result
FROM held_calls JOIN sessions ON sessions.id = held_calls.session_id WHERE"""
SELECT_SAME = f"""{SELECT_HELD} (held_calls.turn_id = ?1 AND held_calls.call_id = ?2)
OR (held_calls.session_id = ?3 AND held_calls.user_id = ?4 AND held_calls.name = ?5
    AND held_calls.arguments = ?6 AND held_calls.state = 'waiting' AND held_calls.expires > ?7)
ORDER BY held_calls.turn_id = ?1 DESC LIMIT 1"""


class HeldState(TextEnum):
    """The state of a held call."""

    WAITING = "waiting"
    ALLOWED = "allowed"
    """A turn runs it or has run it."""
    DENIED = "denied"
    EXPIRED = "expired"
    REFUSED = "refused"
    """The person no longer has the clearance of the session."""


@frozen(eq=True)
class HeldCall:
    """A tool call that waits for approval, or waited for it."""

    id: str
    turn: str
    """The newest turn that made it."""
    session: str
    agent: str
    channel: str
    user: str
    clearance: Trust
    name: str
    arguments: Mapping[str, Any]
    question: str
    """The tool and its arguments, for a person."""
    state: HeldState
    created: datetime
    expires: datetime
    run: str = ""
    """The turn that runs it."""
    result: str | None = None
    """The answer of the tool."""


@frozen
class CallToHold:
    """A call that needs approval."""

    turn: str
    session: str
    user: str
    call: str
    """The model's id of the call."""
    name: str
    arguments: Mapping[str, Any]
    question: str


def hold_call(state: sqlite3.Connection, call: CallToHold, now: datetime) -> HeldCall | None:
    """Store a call that needs approval; return None if too many wait.

    The same call of a session waits once. It moves to the newest turn that makes it, whose reply then announces it.
    """
    arguments, moment = json.dumps(call.arguments, ensure_ascii=False, sort_keys=True), now.timestamp()
    key = (call.turn, call.call, call.session, call.user, call.name, arguments, moment)
    if row := state.execute(SELECT_SAME, key).fetchone():
        held = read_held(row)
        if held.turn != call.turn:
            query = "UPDATE held_calls SET turn_id = ?, call_id = ? WHERE id = ?"
            state.execute(query, (call.turn, call.call, held.id))
        return replace(held, turn=call.turn)
    query = "SELECT count(*) FROM held_calls WHERE user_id = ? AND state = 'waiting' AND expires > ?"
    if state.execute(query, (call.user, moment)).fetchone()[0] >= MAX_HELD_CALLS:
        return None
    identifier = make_id(ID_BITS)
    while find_held(state, identifier):
        identifier = make_id(ID_BITS)
    state.execute(
        "INSERT INTO held_calls (turn_id, call_id, session_id, user_id, name, arguments, id, question, state, created,"
        " expires) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'waiting', ?, ?)",
        (*key[:-1], identifier, call.question, format_moment(now), (now + HELD_FOR).timestamp()),
    )
    return find_held(state, identifier)


def mark_allowed(state: sqlite3.Connection, identifier: str, run: str, now: datetime) -> None:
    """Mark a held call as allowed, together with the acceptance of the turn that runs it."""
    allowed = state.execute(
        "UPDATE held_calls SET state = 'allowed', run_id = ?, decided = ?"
        " WHERE id = ? AND state = 'waiting' AND expires > ?",
        (run, format_moment(now), identifier, now.timestamp()),
    ).rowcount
    if not allowed:
        raise InputError(f"call {identifier} is no longer waiting")


def end_waiting(state: sqlite3.Connection, identifier: str, became: HeldState, now: datetime) -> bool:
    """End a waiting call without running it; return whether it was waiting."""
    query = "UPDATE held_calls SET state = ?, decided = ? WHERE id = ? AND state = 'waiting'"
    return state.execute(query, (str(became), format_moment(now), identifier)).rowcount == 1


def store_held_result(state: sqlite3.Connection, identifier: str, text: str) -> None:
    """Store the answer of the tool for later attempts at the turn."""
    state.execute("UPDATE held_calls SET result = ? WHERE id = ?", (text, identifier))


def find_held(state: sqlite3.Connection, identifier: str) -> HeldCall | None:
    """Find a held call by its id."""
    row = state.execute(f"{SELECT_HELD} held_calls.id = ?", (identifier,)).fetchone()
    return read_held(row) if row else None


def list_waiting(state: sqlite3.Connection, user: str, clearance: Trust, now: datetime) -> list[HeldCall]:
    """List the waiting calls of a person at or below a clearance, the oldest first."""
    query = (
        f"{SELECT_HELD} held_calls.user_id = ? AND sessions.clearance <= ?"
        " AND held_calls.state = 'waiting' AND held_calls.expires > ? ORDER BY held_calls.expires, held_calls.id"
    )
    return [read_held(row) for row in state.execute(query, (user, int(clearance), now.timestamp()))]


def list_of_turn(state: sqlite3.Connection, turn: str) -> list[HeldCall]:
    """List the waiting calls of a turn, the oldest first."""
    where = "held_calls.turn_id = ? AND held_calls.state = 'waiting' ORDER BY held_calls.expires, held_calls.id"
    return [read_held(row) for row in state.execute(f"{SELECT_HELD} {where}", (turn,))]


def list_overdue(state: sqlite3.Connection, now: datetime) -> list[HeldCall]:
    """List the waiting calls that have expired."""
    where = "held_calls.state = 'waiting' AND held_calls.expires <= ?"
    return [read_held(row) for row in state.execute(f"{SELECT_HELD} {where}", (now.timestamp(),))]


def read_held(row: Sequence[Any]) -> HeldCall:
    """Make a held call from its row."""
    identifier, turn, session, agent, channel, user, clearance, name, arguments, question, status, *times = row
    created, expires, run, result = times
    return HeldCall(
        id=identifier,
        turn=turn,
        session=session,
        agent=agent,
        channel=channel,
        user=user,
        clearance=Trust(clearance),
        name=name,
        arguments=json.loads(arguments),
        question=question,
        state=HeldState(status),
        created=parse_moment(created),
        expires=datetime.fromtimestamp(expires, UTC),
        run=run or "",
        result=result,
    )
