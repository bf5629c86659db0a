"""The inbox in the state's own file, by the standard library; every method is one transaction."""

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any

from foreword.events.event import Place, Usage
from foreword.gateway.admission import CHARS_PER_TOKEN, find_repeated, write_key
from foreword.gateway.beginning import extend
from foreword.gateway.bookkeeping import Entry, keep_entry
from foreword.gateway.held_calls import HeldCall, find_held, hold_call, keep_result, list_of_turn, mark_allowed
from foreword.gateway.inbox import Arrival, Claimed, Ending, LeaseLost, Spent
from foreword.gateway.letter import Letter, post
from foreword.gateway.message import Accepted, Incoming, NotFound, State
from foreword.gateway.moment import read_moment, write_moment
from foreword.gateway.owner import is_dead, name_owner
from foreword.gateway.past import Kind, Piece, add_piece, find_newest_beginning
from foreword.gateway.remembered import Remembered
from foreword.gateway.request import read_request, write_request
from foreword.gateway.session import COLUMNS, read_session, touch
from foreword.gateway.telling import tell_shelves, tell_there
from foreword.gateway.writer import Writer
from foreword.runtime.ears import Asking
from foreword.runtime.history import Messages, close, dump, load, recount
from foreword.store.plans import add_plan
from foreword.turn import Message
from foreword.words import Delivery

LEASE = timedelta(seconds=30)
UNREADABLE = "What was kept of this message cannot be read any more. Please send it again."
MINE = "id = ? AND state = 'running' AND lease_owner = ? AND attempt = ?"
CLAIMED = (
    "turns.id, turns.text, turns.request, turns.attempt, turns.place, turns.received, turns.taken, turns.usage,"
    f" turns.cost_usd, {', '.join(f'sessions.{name.strip()}' for name in COLUMNS.split(','))}"
)
DUE = """
SELECT 1 FROM turns WHERE finished IS NULL
AND (state IN ('waiting', 'queued') AND due <= ? OR state = 'running' AND lease_owner != ?) LIMIT 1"""
CLAIM = """
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


class SqliteInbox:
    """Keeps accepted messages in a file."""

    def __init__(
        self,
        writer: Writer,
        clock: Callable[[], datetime],
        lease: timedelta = LEASE,
        remembered: Remembered | None = None,
    ) -> None:
        self._writer = writer
        self._remembered = remembered or Remembered()
        self._clock = clock
        self._lease = lease
        self._owner = name_owner()

    async def add(
        self, arrival: Arrival, begin: Callable[[Claimed], None], unsealed: Callable[[Exception], None]
    ) -> Claimed | Accepted:
        """Accept a message, and claim it at once where nothing of its session comes first."""

        def written(got: Claimed | Accepted) -> None:
            if isinstance(got, Claimed):
                begin(got)

        return await self._writer.seal(lambda state: self._add(state, arrival), written, unsealed)

    def _add(self, state: sqlite3.Connection, arrival: Arrival) -> Claimed | Accepted:
        incoming, session = arrival.incoming, arrival.session
        if known := find_repeated(state, incoming, session.lane, arrival.now):
            return Accepted(turn=known.turn, session=known.session.id, repeated=True)
        if incoming.held:
            mark_allowed(state, incoming.held, arrival.turn, arrival.now)
        first = state.execute(
            "SELECT state, due FROM turns WHERE session_id = ? AND finished IS NULL ORDER BY number LIMIT 1",
            (session.id,),
        ).fetchone()
        became, due = State.RUNNING, arrival.now.timestamp()
        if first:
            became = State.QUEUED if first[0] == "queued" else State.WAITING
            due = max(due, first[1]) if first[0] == "queued" else due
        held = became is State.RUNNING
        state.execute(
            "INSERT INTO turns (id, session_id, user_id, channel, text, request, state, attempt, due, lease_owner,"
            " lease_until, place, received, key) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                arrival.turn,
                session.id,
                incoming.user,
                incoming.channel,
                incoming.text,
                write_request(incoming),
                str(became),
                int(held),
                due,
                self._owner if held else "",
                (arrival.now + self._lease).timestamp() if held else 0.0,
                json.dumps(asdict(arrival.place)),
                write_moment(arrival.now),
                write_key(incoming),
            ),
        )
        touch(state, session.id, arrival.now)
        if not held:
            return Accepted(turn=arrival.turn, session=session.id)
        return Claimed(
            turn=arrival.turn,
            session=session,
            incoming=incoming,
            attempt=1,
            place=arrival.place,
            received=arrival.now,
        )

    async def claim(self, most: int) -> Sequence[Claimed]:
        """Claim turns that are due, one of each session, and those that a dead process left."""
        if not await self._writer.look(self._is_due):  # mostly there is nothing, and then nobody waits for the writer
            return []
        return await self._writer.do(lambda state: self._claim(state, most))

    def _is_due(self, state: sqlite3.Connection) -> bool:
        """Whether there may be anything to claim: something that waits, or that another process works on."""
        return state.execute(DUE, (self._clock().timestamp(), self._owner)).fetchone() is not None

    def _claim(self, state: sqlite3.Connection, most: int) -> list[Claimed]:
        now = self._clock()
        owners = state.execute("SELECT DISTINCT lease_owner FROM turns WHERE finished IS NULL").fetchall()
        dead = json.dumps([owner for (owner,) in owners if owner and is_dead(owner)])
        moment = now.timestamp()
        until = (now + self._lease).timestamp()
        got = state.execute(CLAIM, (self._owner, until, moment, moment, self._owner, dead, most)).fetchall()
        return [claimed for (turn,) in got if (claimed := self._get_sound(state, turn))]

    def _get_sound(self, state: sqlite3.Connection, turn: str) -> Claimed | None:
        """Get a turn that was claimed; one whose row cannot be read is ended, lest it hold up all others."""
        try:
            return get_claimed(state, turn)
        except (ValueError, TypeError, KeyError):
            state.execute(
                "UPDATE turns SET state = 'failed', reply = ?, finished = ? WHERE id = ?",
                (UNREADABLE, write_moment(self._clock()), turn),
            )
            return None

    async def keep(self, claimed: Claimed, messages: Messages, entry: Entry | None = None) -> None:
        """Keep the turn's own messages after a step, and what its session has sent by then, if that is more."""
        stored = dump(messages)

        def work(state: sqlite3.Connection) -> None:
            self._set(state, claimed, "taken = ?", (stored,))
            if entry:
                keep_entry(state, claimed.session.id, entry, self._remembered.keep_ledger)

        await self._writer.do(work)

    async def begin(self, claimed: Claimed, call: str, name: str) -> bool:
        """Note that a call begins which changes the world; False if it had begun before."""

        def work(state: sqlite3.Connection) -> bool:
            self._hold(state, claimed)
            asked = "INSERT OR IGNORE INTO begun (turn_id, call_id, name) VALUES (?, ?, ?)"
            return state.execute(asked, (claimed.turn, call, name)).rowcount == 1

        return await self._writer.seal(work)

    async def hold(self, claimed: Claimed, asking: Asking, arguments: Mapping[str, Any]) -> HeldCall | None:
        """Store a call that needs a person's yes; None where too many of that person wait already."""

        def work(state: sqlite3.Connection) -> HeldCall | None:
            self._hold(state, claimed)
            return hold_call(state, claimed, asking, arguments, self._clock())

        return await self._writer.seal(work)

    async def find_held(self, claimed: Claimed) -> HeldCall:
        """Find the held call that a turn runs."""
        held = await self._writer.look(lambda state: find_held(state, claimed.incoming.held))
        if held is None or held.run != claimed.turn:
            raise NotFound("held call")
        return held

    async def list_held(self, claimed: Claimed) -> Sequence[HeldCall]:
        """List the calls of a turn that wait for a yes."""
        return await self._writer.look(lambda state: list_of_turn(state, claimed.turn))

    async def keep_result(self, claimed: Claimed, text: str) -> None:
        """Keep what the held call of a turn answered, for every further attempt at the turn."""

        def work(state: sqlite3.Connection) -> None:
            self._hold(state, claimed)
            keep_result(state, claimed.incoming.held, text)

        await self._writer.seal(work)

    async def finish(self, claimed: Claimed, ending: Ending) -> None:
        """End a turn: its reply, and its place in the history, together or not at all."""
        stored = dump(ending.messages) if ending.messages else b""
        text = quote_asked(claimed.incoming, ending)
        posted = bool(claimed.incoming.address) and is_told(claimed.incoming, ending, text)

        def work(state: sqlite3.Connection) -> None:
            moment = write_moment(ending.now)
            if is_written(state, claimed, "state = ? AND finished = ?", (str(ending.state), moment)):
                return
            self._set(
                state,
                claimed,
                "state = ?, reply = ?, cut = ?, usage = ?, cost_usd = ?, prompt_hash = ?, finished = ?, taken = NULL,"
                " lease_owner = '', lease_until = 0",
                (
                    str(ending.state),
                    ending.text,
                    int(ending.cut),
                    json.dumps(asdict(ending.spent.usage)),
                    ending.spent.cost_usd,
                    ending.prompt_hash,
                    moment,
                ),
            )
            if stored:
                piece = Piece(
                    kind=Kind.TURN,
                    messages=stored,
                    tokens=ending.tokens,
                    turn=claimed.turn,
                    beginning=find_beginning(state, claimed, ending),
                )
                add_piece(state, claimed.session.id, piece)
            if ending.entry:
                keep_entry(state, claimed.session.id, ending.entry, self._remembered.keep_ledger)
            if ending.plan:
                add_plan(state, claimed.session.id, ending.text)
            state.execute("DELETE FROM begun WHERE turn_id = ?", (claimed.turn,))
            if posted:
                channel = claimed.incoming.through or claimed.incoming.channel
                address = claimed.incoming.address
                letter = Letter(key=claimed.turn, channel=channel, address=address, text=text, turn=claimed.turn)
                post(state, letter, ending.now)
                if claimed.incoming.errand:
                    tell_conversations(state, claimed, text, ending.now)
            touch(state, claimed.session.id, ending.now)

        # What the outbox delivers is sealed when that takes it, and nobody is told before.
        await (self._writer.do(work) if posted else self._writer.seal(work))

    async def postpone(self, claimed: Claimed, ending: Ending, due: datetime) -> None:
        """Leave a turn for later, and with it what waits behind it."""
        stored = dump(ending.messages) if ending.messages else None

        def work(state: sqlite3.Connection) -> None:
            if is_written(state, claimed, "state = 'queued' AND due = ?", (due.timestamp(),)):
                return
            self._set(
                state,
                claimed,
                "state = 'queued', due = ?, reply = ?, taken = ?, usage = ?, cost_usd = ?, prompt_hash = ?,"
                " lease_owner = '', lease_until = 0",
                (
                    due.timestamp(),
                    ending.text,
                    stored,
                    json.dumps(asdict(ending.spent.usage)),
                    ending.spent.cost_usd,
                    ending.prompt_hash,
                ),
            )
            state.execute(
                "UPDATE turns SET state = 'queued', due = ?"
                " WHERE session_id = ? AND finished IS NULL AND state = 'waiting'",
                (due.timestamp(), claimed.session.id),
            )

        await self._writer.seal(work)

    async def hasten(self, session: str = "") -> int:
        """Make the queued turns of a session due now, or all of them; return how many there are."""

        def work(state: sqlite3.Connection) -> int:
            asked = "UPDATE turns SET due = 0 WHERE finished IS NULL AND state = 'queued' AND ? IN ('', session_id)"
            return state.execute(asked, (session,)).rowcount

        return await self._writer.do(work)

    async def release(self, claimed: Claimed) -> None:
        """Leave a turn to whoever comes next, at once."""
        values = "state = 'waiting', due = 0, lease_owner = '', lease_until = 0"
        await self._write(claimed, values, ())

    async def renew(self) -> Sequence[str]:
        """Renew the leases of this process; return the turns that somebody wants stopped."""
        until = (self._clock() + self._lease).timestamp()

        def work(state: sqlite3.Connection) -> list[str]:
            mine = "finished IS NULL AND lease_owner = ? AND state = 'running'"
            state.execute(f"UPDATE turns SET lease_until = ? WHERE {mine}", (until, self._owner))
            found = state.execute(f"SELECT id FROM turns WHERE {mine} AND stop = 1", (self._owner,))
            return [turn for (turn,) in found]

        return await self._writer.do(work)

    async def stop(self, turn: str) -> State | None:
        """Stop a turn that nobody works on, or have it stopped by who does; return its state now."""
        return await self._writer.do(lambda state: self._stop(state, turn))

    def _stop(self, state: sqlite3.Connection, turn: str) -> State | None:
        idle = state.execute(
            "UPDATE turns SET state = 'stopped', reply = '', finished = ? WHERE id = ?"
            " AND state IN ('waiting', 'queued') RETURNING session_id, taken",
            (write_moment(self._clock()), turn),
        ).fetchall()
        for session, taken in idle:
            if taken:  # what its tools did before it was left for later was done
                messages = close(load(taken), "stopped before the end")
                weight = sum(len(message.text) for message in recount(messages)) // CHARS_PER_TOKEN
                add_piece(state, session, Piece(kind=Kind.TURN, messages=dump(messages), tokens=weight, turn=turn))
        state.execute("UPDATE turns SET stop = 1 WHERE id = ? AND state = 'running'", (turn,))
        row = state.execute("SELECT state FROM turns WHERE id = ?", (turn,)).fetchone()
        return State(row[0]) if row else None

    async def _write(self, claimed: Claimed, values: str, given: Sequence[Any]) -> None:
        await self._writer.do(lambda state: self._set(state, claimed, values, given))

    def _set(self, state: sqlite3.Connection, claimed: Claimed, values: str, given: Sequence[Any]) -> None:
        """Write to a turn that is still ours."""
        key = (claimed.turn, self._owner, claimed.attempt)
        if state.execute(f"UPDATE turns SET {values} WHERE {MINE}", (*given, *key)).rowcount != 1:
            raise LeaseLost("another process works on this turn now")

    def _hold(self, state: sqlite3.Connection, claimed: Claimed) -> None:
        key = (claimed.turn, self._owner, claimed.attempt)
        if state.execute(f"SELECT 1 FROM turns WHERE {MINE}", key).fetchone() is None:
            raise LeaseLost("another process works on this turn now")


def get_claimed(state: sqlite3.Connection, identifier: str) -> Claimed:
    """Get a turn that was claimed."""
    asked = f"SELECT {CLAIMED} FROM turns JOIN sessions ON sessions.id = turns.session_id WHERE turns.id = ?"
    row = state.execute(asked, (identifier,)).fetchone()
    turn, text, request, attempt, place, received, taken, usage, cost_usd, *session = row
    return Claimed(
        turn=turn,
        session=read_session(session),
        incoming=read_request(text, request),
        attempt=attempt,
        place=Place(**json.loads(place)),
        received=read_moment(received),
        taken=load(taken) if taken else (),
        spent=Spent(usage=Usage(**json.loads(usage)), cost_usd=cost_usd) if usage else Spent(),
    )


def tell_conversations(state: sqlite3.Connection, claimed: Claimed, text: str, now: datetime) -> None:
    """Add what a scheduled run said to the conversations where its reply goes."""
    incoming, lane = claimed.incoming, claimed.session.lane
    if not incoming.shelves:
        tell_there(state, replace(lane, channel=incoming.through or incoming.channel), claimed.turn, text)
    for channel in incoming.shelves:
        place, home = replace(lane, channel=channel), incoming.errand.home if incoming.errand else None
        tell_shelves(state, place, claimed.turn, text, now, home=home)


def is_written(state: sqlite3.Connection, claimed: Claimed, values: str, given: Sequence[Any]) -> bool:
    """Whether this attempt, which nobody else makes, has written its end before, and the disk did not take it then."""
    asked = f"SELECT 1 FROM turns WHERE id = ? AND attempt = ? AND {values}"
    return state.execute(asked, (claimed.turn, claimed.attempt, *given)).fetchone() is not None


def is_told(incoming: Incoming, ending: Ending, text: str) -> bool:
    """Whether what came of a turn is delivered: one that was stopped says nothing, and a run as needed no failure."""
    if (
        incoming.errand
        and not incoming.held
        and incoming.errand.delivery is not Delivery.ALWAYS
        and ending.state is not State.ANSWERED
    ):
        return False
    return bool(text)


def quote_asked(incoming: Incoming, ending: Ending) -> str:
    """Return what is delivered: the reply of a very small model is below a quote of what its schedule says.

    Such a model has the brief prompt, and its own words may not say what they are about. With `always` the quote is
    delivered also where the model says nothing.
    """
    errand = incoming.errand
    if not errand or not errand.asked or incoming.held or not ending.brief or ending.state is not State.ANSWERED:
        return ending.text
    if not ending.text and errand.delivery is not Delivery.ALWAYS:
        return ""
    quote = "\n".join(f"> {line}".rstrip() for line in errand.asked.splitlines())
    return f"{quote}\n\n{ending.text}".rstrip()


def find_beginning(state: sqlite3.Connection, claimed: Claimed, ending: Ending) -> str | None:
    """Hash the conversation up to the end of a turn, as a client that keeps no session will repeat it.

    A client that streams repeats all words it was shown, those before a tool among them; another one the reply. Such a
    client never sees the turn of a held call, so the hash stays what it was.
    """
    if claimed.incoming.held:
        return find_newest_beginning(state, claimed.session.id)
    before = claimed.incoming.beginning
    if before is None:
        return None
    streamed = claimed.incoming.request.streamed and ending.spoken.strip()
    asked = extend(before, Message(role="user", text=claimed.incoming.text))
    return extend(asked, Message(role="assistant", text=ending.spoken if streamed else ending.text))
