"""The turns in the state: accepted messages with their leases, their progress, their results and their held calls.

A process works on a turn under a lease, and only the holder of the lease writes to its row. A held call is a tool call
that waits for a person's approval, or waited for it.
"""

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict, astuple, replace
from datetime import datetime, timedelta
from typing import Any

from foreword.errors import ForewordError, InputError
from foreword.events.event import TracePosition, Usage
from foreword.events.tracer import make_id
from foreword.storage.database import format_moment
from foreword.storage.rows import fetch_all, fetch_cell, fetch_column, fetch_one, insert_row
from foreword.storage.sessions import SESSION_COLUMNS, WHERE_SESSION_KEY, Session, SessionKey
from foreword.storage.writer import is_dead_owner
from foreword.types import TextEnum, Trust, frozen

RETRY_WINDOW = timedelta(seconds=60)  # after the end of a turn; a later request is a new message
RUNNING_WINDOW = timedelta(days=1)  # no turn is retried for longer
RECENT_SESSIONS = 20  # of one person, searched for an interrupted session

TURNS_AND_SESSIONS = "turns JOIN sessions ON sessions.id = turns.session_id"
REPLY_COLUMNS = (
    "turns.id AS turn, turns.session_id, sessions.agent, turns.user_id, turns.state, turns.reply AS text,"
    " turns.received, turns.finished, turns.usage, iif(turns.usage IS NULL, 0.0, turns.cost_usd) AS cost_usd,"
    " turns.prompt_hash, turns.cut"
)
SELECT_EXCHANGES = f"SELECT turns.text AS asked, {REPLY_COLUMNS} FROM {TURNS_AND_SESSIONS}"
SELECT_CLAIMED = f"""
SELECT turns.id AS turn, turns.text, turns.request, turns.attempt, turns.place AS position, turns.received, turns.taken,
    turns.usage, iif(turns.usage IS NULL, 0.0, turns.cost_usd) AS cost_usd, {SESSION_COLUMNS}
FROM {TURNS_AND_SESSIONS} WHERE turns.id = ?"""
SELECT_DUE = """
SELECT 1 FROM turns WHERE finished IS NULL
AND (state IN ('waiting', 'queued') AND due <= ? OR state = 'running' AND lease_owner != ?) LIMIT 1"""
CLAIM_DUE = """
UPDATE turns SET state = 'running', attempt = attempt + 1, lease_owner = ?, lease_until = ? WHERE number IN (
    SELECT number FROM turns AS mine
    WHERE finished IS NULL AND (state IN ('waiting', 'queued') AND due <= ?
        OR state = 'running' AND (lease_until < ? AND lease_owner != ?
            OR lease_owner IN (SELECT value FROM json_each(?))))
    AND NOT EXISTS (
        SELECT 1 FROM turns AS other
        WHERE other.session_id = mine.session_id AND other.number < mine.number AND other.finished IS NULL)
    ORDER BY number LIMIT ?)
RETURNING id"""
WHERE_LEASE = "id = ? AND state = 'running' AND lease_owner = ? AND attempt = ?"  # the fields of a lease
NO_LEASE = {"lease_owner": "", "lease_until": 0}
# Only the newest message of a session can have lost its answer. The run of a held call is not a message.
SELECT_RETRIED = """
SELECT id AS turn, session_id, text, request FROM turns
WHERE user_id = ? AND channel = ? AND received > ? AND (finished IS NULL OR finished > ?
    AND NOT EXISTS (SELECT 1 FROM turns AS later WHERE later.session_id = turns.session_id
        AND later.number > turns.number AND coalesce(json_extract(later.request, '$.held'), '') = ''))
AND state NOT IN ('stopped', 'failed')
AND json_extract(request, '$.request.token') = ? AND json_extract(request, '$.request.digest') = ?
ORDER BY number DESC LIMIT 1"""
SELECT_NEWEST = f"""
SELECT sessions.id AS session, turns.id AS turn, turns.text, turns.reply, turns.finished,
    json_extract(turns.request, '$.beginning') AS beginning
FROM (SELECT id, used FROM sessions WHERE {WHERE_SESSION_KEY} ORDER BY used DESC LIMIT {RECENT_SESSIONS}) AS sessions
JOIN turns ON turns.number = (SELECT max(number) FROM turns WHERE session_id = sessions.id)
ORDER BY sessions.used DESC"""


class LeaseLost(ForewordError):
    """Another process has taken over this turn; the local state of it is invalid."""


class TurnState(TextEnum):
    """State of a turn."""

    WAITING = "waiting"  # an earlier turn of its session runs first
    RUNNING = "running"
    QUEUED = "queued"  # the provider was not available; it is retried later
    ANSWERED = "answered"
    CALLED = "called"
    """The client is to run tools; their results continue it."""
    REFUSED = "refused"  # a budget does not allow it
    FAILED = "failed"
    STOPPED = "stopped"

    @property
    def ended(self) -> bool:
        """Return whether the state is final."""
        return self not in (TurnState.WAITING, TurnState.RUNNING, TurnState.QUEUED)


@frozen
class TurnUsage:
    """Usage and cost of a turn, over all attempts."""

    usage: Usage = Usage()
    cost_usd: float | None = 0.0

    def add(self, usage: Usage, cost_usd: float | None) -> "TurnUsage":
        """Add another attempt; an unknown cost makes the sum unknown."""
        other = asdict(usage)
        total = Usage(**{name: mine + other[name] for name, mine in asdict(self.usage).items()})
        cost = None if self.cost_usd is None or cost_usd is None else self.cost_usd + cost_usd
        return TurnUsage(usage=total, cost_usd=cost)


@frozen
class TurnReply:
    """The current result of a turn."""

    turn: str
    session: str
    agent: str
    user: str
    state: TurnState
    text: str
    received: datetime
    finished: datetime | None = None
    usage: Usage = Usage()
    cost_usd: float | None = 0.0
    prompt_hash: str = ""
    cut: bool = False  # whether the reply was cut off at the length limit

    @property
    def silent(self) -> bool:
        """Return whether the agent answered with a suppressed reply."""
        return self.state is TurnState.ANSWERED and not self.text


@frozen
class Exchange:
    """A message and its current result."""

    asked: str
    reply: TurnReply


@frozen
class Lease:
    """The claim of a process on one attempt at a turn."""

    turn: str
    owner: str
    attempt: int


@frozen
class ClaimedRow:
    """The stored data of a turn to work on."""

    turn: str
    session: Session
    text: str
    request: str  # all fields of the message but its text, as JSON
    attempt: int
    position: TracePosition
    received: datetime
    taken: bytes | None  # the turn's own messages so far
    spent: TurnUsage


@frozen
class TurnMatch:
    """A stored turn that may be the first delivery of a message."""

    turn: str
    session: str
    text: str
    request: str


@frozen
class NewestTurn:
    """The newest turn of a session."""

    session: str
    turn: str
    text: str
    reply: str | None
    finished: str | None
    beginning: str | None  # hash of the conversation that the client sent before the message


def find_first_unfinished(state: sqlite3.Connection, session: str) -> tuple[TurnState, float] | None:
    """Find the state and the due time of the oldest unfinished turn of a session."""
    query = "SELECT state, due FROM turns WHERE session_id = ? AND finished IS NULL ORDER BY number LIMIT 1"
    row = state.execute(query, (session,)).fetchone()
    return (TurnState(row[0]), row[1]) if row else None


def may_be_due(state: sqlite3.Connection, owner: str, now: datetime) -> bool:
    """Return whether a turn is due, or is leased by another process."""
    return fetch_cell(int, state, SELECT_DUE, now.timestamp(), owner) is not None


def claim_due(state: sqlite3.Connection, owner: str, now: datetime, lease: timedelta, limit: int) -> list[str]:
    """Claim due turns, one per session, including those of dead processes; return their ids."""
    owners = fetch_column(state, "SELECT DISTINCT lease_owner FROM turns WHERE finished IS NULL AND lease_owner != ''")
    dead, moment = json.dumps([*filter(is_dead_owner, owners)]), now.timestamp()
    return fetch_column(state, CLAIM_DUE, owner, (now + lease).timestamp(), moment, moment, owner, dead, limit)


def read_claimed(state: sqlite3.Connection, identifier: str) -> ClaimedRow:
    """Read a turn to work on; raise ValueError, TypeError or KeyError for a damaged row."""
    claimed = fetch_one(ClaimedRow, state, SELECT_CLAIMED, identifier)
    assert claimed is not None
    return claimed


def read_message(state: sqlite3.Connection, turn: str) -> tuple[str, str]:
    """Read the text and the other fields of the message of a turn."""
    text, request = state.execute("SELECT text, request FROM turns WHERE id = ?", (turn,)).fetchone()
    return text, request


def read_taken(state: sqlite3.Connection, turn: str) -> bytes | None:
    """Read the own messages of a turn."""
    return fetch_cell(bytes, state, "SELECT taken FROM turns WHERE id = ?", turn) or None


def check_lease(state: sqlite3.Connection, lease: Lease) -> None:
    """Raise LeaseLost if another process works on the turn."""
    if fetch_cell(int, state, f"SELECT 1 FROM turns WHERE {WHERE_LEASE}", *astuple(lease)) is None:
        raise LeaseLost("another process works on this turn now")


def update_leased(state: sqlite3.Connection, lease: Lease, /, **columns: Any) -> None:
    """Update a turn under its lease; raise LeaseLost if another process works on it."""
    query = f"UPDATE turns SET {', '.join(f'{name} = ?' for name in columns)} WHERE {WHERE_LEASE}"
    if state.execute(query, (*columns.values(), *astuple(lease))).rowcount != 1:
        raise LeaseLost("another process works on this turn now")


def has_columns(state: sqlite3.Connection, lease: Lease, /, **columns: Any) -> bool:
    """Return whether this attempt has already stored these values, after a write whose fsync failed."""
    query = f"SELECT 1 FROM turns WHERE id = ? AND attempt = ? AND {' AND '.join(f'{name} = ?' for name in columns)}"
    return fetch_cell(int, state, query, lease.turn, lease.attempt, *columns.values()) is not None


def release_lease(state: sqlite3.Connection, lease: Lease) -> None:
    """Give up a claim, so that another process can take the turn at once."""
    update_leased(state, lease, state="waiting", due=0, **NO_LEASE)


def renew_leases(state: sqlite3.Connection, owner: str, until: datetime) -> list[str]:
    """Renew the leases of a process; return its turns that a person wants to stop."""
    mine = "finished IS NULL AND lease_owner = ? AND state = 'running'"
    state.execute(f"UPDATE turns SET lease_until = ? WHERE {mine}", (until.timestamp(), owner))
    return fetch_column(state, f"SELECT id FROM turns WHERE {mine} AND stop = 1", owner)


def fail_turn(state: sqlite3.Connection, turn: str, text: str, now: datetime) -> None:
    """End a turn whose row cannot be read, so that it does not block the others."""
    query = "UPDATE turns SET state = 'failed', reply = ?, finished = ? WHERE id = ?"
    state.execute(query, (text, format_moment(now), turn))


def begin_call(state: sqlite3.Connection, turn: str, call: str, name: str) -> None:
    """Record that a call with side effects begins."""
    insert_row(state, "begun", turn_id=turn, call_id=call, name=name)


def list_begun_calls(state: sqlite3.Connection, turn: str) -> frozenset[str]:
    """List the ids of the calls of a turn that began."""
    return frozenset(call for (call,) in state.execute("SELECT call_id FROM begun WHERE turn_id = ?", (turn,)))


@frozen
class CalledTurn:
    """A turn that called tools of its client."""

    session: str
    user: str
    state: TurnState
    text: str
    request: str
    taken: bytes | None
    """Its messages, until the results arrive or the conversation goes on without them."""


def find_called(state: sqlite3.Connection, turn: str) -> CalledTurn | None:
    """Find a turn by its id."""
    query = "SELECT session_id AS session, user_id AS user, state, text, request, taken FROM turns WHERE id = ?"
    return fetch_one(CalledTurn, state, query, turn)


def reopen_turn(state: sqlite3.Connection, turn: str, request: str, taken: bytes) -> None:
    """Make a turn due that waited for its client."""
    state.execute(
        "UPDATE turns SET state = 'waiting', finished = NULL, due = 0, stop = 0, request = ?, taken = ? WHERE id = ?",
        (request, taken, turn),
    )


def forget_called(state: sqlite3.Connection, session: str) -> bool:
    """Forget the messages of a turn that waits for its client; return whether there was one."""
    query = "UPDATE turns SET taken = NULL WHERE session_id = ? AND state = 'called' AND taken IS NOT NULL"
    return state.execute(query, (session,)).rowcount > 0


def forget_calls(state: sqlite3.Connection, turn: str) -> None:
    """Delete the records of the calls of a finished turn."""
    state.execute("DELETE FROM begun WHERE turn_id = ?", (turn,))


def queue_waiting(state: sqlite3.Connection, session: str, due: datetime) -> None:
    """Postpone the waiting turns of a session."""
    query = "UPDATE turns SET state = 'queued', due = ? WHERE session_id = ? AND finished IS NULL AND state = 'waiting'"
    state.execute(query, (due.timestamp(), session))


def hasten_queued(state: sqlite3.Connection, session: str = "") -> int:
    """Make the queued turns of a session, or of all sessions, due now; return their number."""
    query = "UPDATE turns SET due = 0 WHERE finished IS NULL AND state = 'queued' AND ? IN ('', session_id)"
    return state.execute(query, (session,)).rowcount


def stop_idle(state: sqlite3.Connection, turn: str, now: datetime) -> tuple[str, bytes | None] | None:
    """Stop a turn that is not running; return its session and its own messages, or None if it runs."""
    query = """
    UPDATE turns SET state = 'stopped', reply = '', finished = ? WHERE id = ? AND state IN ('waiting', 'queued')
    RETURNING session_id, taken"""
    row: tuple[str, bytes | None] | None = state.execute(query, (format_moment(now), turn)).fetchone()
    return row


def request_stop(state: sqlite3.Connection, turn: str) -> TurnState | None:
    """Ask the process that runs a turn to stop it; return the state of the turn."""
    state.execute("UPDATE turns SET stop = 1 WHERE id = ? AND state = 'running'", (turn,))
    return fetch_cell(TurnState, state, "SELECT state FROM turns WHERE id = ?", turn)


def find_by_key(state: sqlite3.Connection, key: str | None) -> TurnMatch | None:
    """Find the turn of a message by its idempotency key."""
    return fetch_one(TurnMatch, state, "SELECT id AS turn, session_id, text, request FROM turns WHERE key = ?", key)


def find_retried(
    state: sqlite3.Connection, now: datetime, *, user: str, channel: str, token: str, digest: str
) -> TurnMatch | None:
    """Find the first attempt of a request: same token and hash, running or finished within the retry window."""
    times = format_moment(now - RUNNING_WINDOW), format_moment(now - RETRY_WINDOW)
    return fetch_one(TurnMatch, state, SELECT_RETRIED, user, channel, *times, token, digest)


def list_newest(state: sqlite3.Connection, key: SessionKey) -> list[NewestTurn]:
    """List the newest turn of each recent session of a session key, the most recently used session first."""
    return fetch_all(NewestTurn, state, SELECT_NEWEST, *key.columns)


def find_newest_id(state: sqlite3.Connection, session: str) -> str:
    """Return the id of the newest turn of a session in any state; empty if there is none."""
    query = "SELECT id FROM turns WHERE session_id = ? ORDER BY number DESC LIMIT 1"
    return fetch_cell(str, state, query, session) or ""


def count_received(state: sqlite3.Connection, first: str, until: str, since: datetime) -> int:
    """Count the messages since a time from the users whose names are in the range from `first` to before `until`."""
    query = "SELECT count(*) FROM turns WHERE user_id >= ? AND user_id < ? AND received > ?"
    return fetch_cell(int, state, query, first, until, format_moment(since)) or 0


def find_reply(state: sqlite3.Connection, turn: str) -> TurnReply | None:
    """Find the current result of a turn."""
    return fetch_one(TurnReply, state, f"SELECT {REPLY_COLUMNS} FROM {TURNS_AND_SESSIONS} WHERE turns.id = ?", turn)


def list_unfinished(state: sqlite3.Connection, session: str) -> list[Exchange]:
    """List the unfinished messages of a session, the oldest first."""
    where = "turns.session_id = ? AND turns.finished IS NULL ORDER BY turns.number"
    return fetch_all(Exchange, state, f"{SELECT_EXCHANGES} WHERE {where}", session)


def list_missed(state: sqlite3.Connection, session: str, limit: int) -> list[Exchange]:
    """List the results that came after the last message of a session, and always the newest answer.

    The writer of the last message may have left before the others were answered. The oldest comes first. Stopped turns
    are left out.
    """
    ended = "turns.session_id = ?1 AND turns.finished IS NOT NULL AND turns.state != 'stopped'"
    later = "turns.finished > (SELECT max(received) FROM turns WHERE session_id = ?1)"
    newest = f"turns.number = (SELECT max(number) FROM turns WHERE {ended})"
    where = f"{ended} AND ({later} OR {newest}) ORDER BY turns.number DESC LIMIT ?2"
    return fetch_all(Exchange, state, f"{SELECT_EXCHANGES} WHERE {where}", session, limit)[::-1]


HELD_FOR = timedelta(hours=24)
MAX_HELD_CALLS = 20  # of one person, waiting at the same time
ID_BITS = 32

SELECT_HELD = """
SELECT held_calls.*, sessions.agent, sessions.channel, sessions.clearance
FROM held_calls JOIN sessions ON sessions.id = held_calls.session_id WHERE"""
SELECT_SAME = f"""{SELECT_HELD} (held_calls.turn_id = ?1 AND held_calls.call_id = ?2)
OR (held_calls.session_id = ?3 AND held_calls.user_id = ?4 AND held_calls.name = ?5
    AND held_calls.arguments = ?6 AND held_calls.state = 'waiting' AND held_calls.expires > ?7)
ORDER BY held_calls.turn_id = ?1 DESC LIMIT 1"""


class HeldState(TextEnum):
    """The state of a held call."""

    WAITING = "waiting"
    ALLOWED = "allowed"  # a turn runs it or has run it
    DENIED = "denied"
    EXPIRED = "expired"
    REFUSED = "refused"  # the person no longer has the clearance of the session


@frozen(eq=True)
class HeldCall:
    """A tool call that waits for approval, or waited for it."""

    id: str
    turn: str  # the newest turn that made it
    session: str
    agent: str
    channel: str
    user: str
    clearance: Trust
    name: str
    arguments: Mapping[str, Any]
    question: str  # the tool and its arguments, for a person
    state: HeldState
    created: datetime
    expires: datetime
    run: str = ""  # the turn that runs it
    result: str | None = None  # the answer of the tool


def hold_call(
    state: sqlite3.Connection,
    *,
    turn: str,
    session: str,
    user: str,
    call: str,
    name: str,
    arguments: Mapping[str, Any],
    question: str,
    now: datetime,
) -> HeldCall | None:
    """Store a call that needs approval, with the model's id of it; return None if too many wait.

    The same call of a session waits once. It moves to the newest turn that makes it, whose reply then announces it.
    """
    text, moment = json.dumps(arguments, ensure_ascii=False, sort_keys=True), now.timestamp()
    if held := fetch_one(HeldCall, state, SELECT_SAME, turn, call, session, user, name, text, moment):
        if held.turn != turn:
            state.execute("UPDATE held_calls SET turn_id = ?, call_id = ? WHERE id = ?", (turn, call, held.id))
        return replace(held, turn=turn)
    query = "SELECT count(*) >= ? FROM held_calls WHERE user_id = ? AND state = 'waiting' AND expires > ?"
    if fetch_cell(bool, state, query, MAX_HELD_CALLS, user, moment):
        return None
    identifier = make_id(ID_BITS)
    while find_held(state, identifier):
        identifier = make_id(ID_BITS)
    ids = {"id": identifier, "turn_id": turn, "call_id": call, "session_id": session, "user_id": user}
    facts = {"name": name, "arguments": text, "question": question, "state": HeldState.WAITING}
    insert_row(state, "held_calls", created=now, expires=(now + HELD_FOR).timestamp(), **ids, **facts)
    return find_held(state, identifier)


def mark_allowed(state: sqlite3.Connection, identifier: str, run: str, now: datetime) -> None:
    """Mark a held call as allowed, together with the acceptance of the turn that runs it."""
    query = """
    UPDATE held_calls SET state = 'allowed', run_id = ?, decided = ?
    WHERE id = ? AND state = 'waiting' AND expires > ?"""
    if not state.execute(query, (run, format_moment(now), identifier, now.timestamp())).rowcount:
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
    return fetch_one(HeldCall, state, f"{SELECT_HELD} held_calls.id = ?", identifier)


def list_waiting(state: sqlite3.Connection, user: str, clearance: Trust, now: datetime) -> list[HeldCall]:
    """List the waiting calls of a person at or below a clearance, the oldest first."""
    where = "held_calls.user_id = ? AND sessions.clearance <= ? AND held_calls.expires > ?"
    return list_held(state, where, user, clearance, now.timestamp())


def list_of_turn(state: sqlite3.Connection, turn: str) -> list[HeldCall]:
    """List the waiting calls of a turn, the oldest first."""
    return list_held(state, "held_calls.turn_id = ?", turn)


def list_overdue(state: sqlite3.Connection, now: datetime) -> list[HeldCall]:
    """List the waiting calls that have expired."""
    return list_held(state, "held_calls.expires <= ?", now.timestamp())


def list_held(state: sqlite3.Connection, where: str, *parameters: object) -> list[HeldCall]:
    """List the waiting calls that a condition selects, the oldest first."""
    order = "held_calls.state = 'waiting' ORDER BY held_calls.expires, held_calls.id"
    return fetch_all(HeldCall, state, f"{SELECT_HELD} {where} AND {order}", *parameters)


def find_newest_request(state: sqlite3.Connection, session: str) -> str:
    """Return the stored request of the newest turn of a session; empty if there is none."""
    query = "SELECT request FROM turns WHERE session_id = ? ORDER BY number DESC LIMIT 1"
    return fetch_cell(str, state, query, session) or ""
