"""The inbox: accepted messages, their leases and their progress.

A process works on a turn under a lease. The turn's own messages are stored after every step, and only by the holder of
the lease. After a crash, another process continues after the last stored step, and no step is written twice.

The inbox in SQLite; every method is one transaction.
"""

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any

from foreword.agent.agent_events import ApprovalNeeded
from foreword.agent.conversation import Messages, close_turn, convert_to_texts, dump_messages, load_messages
from foreword.errors import ForewordError
from foreword.events.event import TracePosition, Usage
from foreword.gateway.held_calls import HeldCall, find_held, hold_call, keep_result, list_of_turn, mark_allowed
from foreword.gateway.history import HistoryKind, HistoryPiece, append_piece, extend_hash, find_newest_hash
from foreword.gateway.messages import AcceptedTurn, NotFound, RoutedMessage, TurnState, dump_message, load_message
from foreword.gateway.notifications import add_to_current_conversations, add_to_private_conversation
from foreword.gateway.session_lookup import CHARS_PER_TOKEN, find_duplicate, make_idempotency_key
from foreword.gateway.session_state import LedgerEntry, SessionCache, store_ledger_entry
from foreword.storage.database import format_moment, parse_moment
from foreword.storage.profiles import learn_style
from foreword.storage.sessions import (
    SESSION_COLUMNS,
    OutboundMessage,
    Session,
    is_own,
    post_message,
    read_session,
    touch_session,
)
from foreword.storage.tasks import add_plan
from foreword.storage.writer import Writer, is_dead_owner, make_lease_owner
from foreword.turn import Message
from foreword.types import Delivery, frozen


class LeaseLost(ForewordError):
    """Another process has taken over this turn; the local state of it is invalid."""


@frozen
class NewTurn:
    """A message to be accepted."""

    turn: str
    session: Session
    incoming: RoutedMessage
    place: TracePosition
    """Where the turn continues in its trace."""
    now: datetime


@frozen
class TurnUsage:
    """Usage and cost of a turn, over all attempts."""

    usage: Usage = Usage()
    cost_usd: float | None = 0.0

    def add(self, usage: Usage, cost_usd: float | None) -> "TurnUsage":
        """Add another attempt; an unknown cost makes the sum unknown."""
        mine = self.usage
        return TurnUsage(
            usage=Usage(
                tokens_in=mine.tokens_in + usage.tokens_in,
                tokens_out=mine.tokens_out + usage.tokens_out,
                cache_read=mine.cache_read + usage.cache_read,
                cache_write=mine.cache_write + usage.cache_write,
            ),
            cost_usd=None if self.cost_usd is None or cost_usd is None else self.cost_usd + cost_usd,
        )


@frozen
class ClaimedTurn:
    """A turn that this process works on."""

    turn: str
    session: Session
    incoming: RoutedMessage
    attempt: int
    place: TracePosition
    received: datetime
    taken: Messages = ()
    """The turn's own messages from earlier attempts."""
    spent: TurnUsage = TurnUsage()


@frozen
class TurnResult:
    """The result of a turn, or of one attempt."""

    state: TurnState
    text: str
    messages: Messages
    spent: TurnUsage
    now: datetime
    prompt_hash: str = ""
    tokens: int = 0
    """Tokens of the messages in the history."""
    cut: bool = False
    """Whether the reply was cut off at the length limit."""
    plan: bool = False
    """Whether the reply is a plan, which is stored as one."""
    entry: LedgerEntry | None = None
    """The session's ledger after the turn; None if the turn has sent nothing."""
    wait: float | None = None
    """Seconds after which the provider asked for a retry."""
    spoken: str = ""
    """The text as streamed, including text before tool calls."""
    brief: bool = False
    """Whether the model had the brief prompt of very small models; its reply may not say what it refers to."""


TURN_LEASE = timedelta(seconds=30)
UNATTENDED_SITUATION = "system"  # situation without a person: its text is not a person's message
UNREADABLE_TEXT = "The stored message cannot be read any more. Please send it again."
WHERE_OWN_LEASE = "id = ? AND state = 'running' AND lease_owner = ? AND attempt = ?"
CLAIMED_COLUMNS = (
    "turns.id, turns.text, turns.request, turns.attempt, turns.place, turns.received, turns.taken, turns.usage,"
    f" turns.cost_usd, {', '.join(f'sessions.{name.strip()}' for name in SESSION_COLUMNS.split(','))}"
)
SELECT_DUE_TURN = """
SELECT 1 FROM turns WHERE finished IS NULL
AND (state IN ('waiting', 'queued') AND due <= ? OR state = 'running' AND lease_owner != ?) LIMIT 1"""
CLAIM_TURNS = """
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


class Inbox:
    """Stores accepted messages in the state until they are answered."""

    def __init__(
        self,
        writer: Writer,
        clock: Callable[[], datetime],
        lease: timedelta = TURN_LEASE,
        remembered: SessionCache | None = None,
    ) -> None:
        self._writer = writer
        self._remembered = remembered or SessionCache()
        self._clock = clock
        self._lease = lease
        self._owner = make_lease_owner()

    async def add(
        self, arrival: NewTurn, begin: Callable[[ClaimedTurn], None], unsealed: Callable[[Exception], None]
    ) -> ClaimedTurn | AcceptedTurn:
        """Accept a message, and claim it if no earlier turn of its session is unfinished.

        `begin` is called with the claimed turn as soon as it survives a crash of the process. When this returns, it
        also survives a power loss, unless `unsealed` was called with the error. If this raises, nothing is stored.
        """

        def written(got: ClaimedTurn | AcceptedTurn) -> None:
            if isinstance(got, ClaimedTurn):
                begin(got)

        return await self._writer.write_durable(lambda state: self._add(state, arrival), written, unsealed)

    def _add(self, state: sqlite3.Connection, arrival: NewTurn) -> ClaimedTurn | AcceptedTurn:
        incoming, session = arrival.incoming, arrival.session
        if known := find_duplicate(state, incoming, session.lane, arrival.now):
            return AcceptedTurn(turn=known.turn, session=known.session.id, repeated=True)
        if incoming.held:
            mark_allowed(state, incoming.held, arrival.turn, arrival.now)
        first = state.execute(
            "SELECT state, due FROM turns WHERE session_id = ? AND finished IS NULL ORDER BY number LIMIT 1",
            (session.id,),
        ).fetchone()
        became, due = TurnState.RUNNING, arrival.now.timestamp()
        if first:
            became = TurnState.QUEUED if first[0] == "queued" else TurnState.WAITING
            due = max(due, first[1]) if first[0] == "queued" else due
        held = became is TurnState.RUNNING
        state.execute(
            "INSERT INTO turns (id, session_id, user_id, channel, text, request, state, attempt, due, lease_owner,"
            " lease_until, place, received, key) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                arrival.turn,
                session.id,
                incoming.user,
                incoming.channel,
                incoming.text,
                dump_message(incoming),
                str(became),
                int(held),
                due,
                self._owner if held else "",
                (arrival.now + self._lease).timestamp() if held else 0.0,
                json.dumps(asdict(arrival.place)),
                format_moment(arrival.now),
                make_idempotency_key(incoming),
            ),
        )
        touch_session(state, session.id, arrival.now)
        if not held:
            return AcceptedTurn(turn=arrival.turn, session=session.id)
        return ClaimedTurn(
            turn=arrival.turn,
            session=session,
            incoming=incoming,
            attempt=1,
            place=arrival.place,
            received=arrival.now,
        )

    async def claim(self, most: int) -> Sequence[ClaimedTurn]:
        """Claim due turns, one per session, including those of dead processes."""
        if not await self._writer.look(self._is_due):  # usually nothing is due; do not wait for the writer
            return []
        return await self._writer.do(lambda state: self._claim(state, most))

    def _is_due(self, state: sqlite3.Connection) -> bool:
        """Return whether a turn may be due, or is leased by another process."""
        return state.execute(SELECT_DUE_TURN, (self._clock().timestamp(), self._owner)).fetchone() is not None

    def _claim(self, state: sqlite3.Connection, most: int) -> list[ClaimedTurn]:
        now = self._clock()
        owners = state.execute("SELECT DISTINCT lease_owner FROM turns WHERE finished IS NULL").fetchall()
        dead = json.dumps([owner for (owner,) in owners if owner and is_dead_owner(owner)])
        moment = now.timestamp()
        until = (now + self._lease).timestamp()
        got = state.execute(CLAIM_TURNS, (self._owner, until, moment, moment, self._owner, dead, most)).fetchall()
        return [claimed for (turn,) in got if (claimed := self._get_sound(state, turn))]

    def _get_sound(self, state: sqlite3.Connection, turn: str) -> ClaimedTurn | None:
        """Read a claimed turn; end one whose row cannot be read, so that it does not block the others."""
        try:
            return get_claimed(state, turn)
        except (ValueError, TypeError, KeyError):
            state.execute(
                "UPDATE turns SET state = 'failed', reply = ?, finished = ? WHERE id = ?",
                (UNREADABLE_TEXT, format_moment(self._clock()), turn),
            )
            return None

    async def keep(self, claimed: ClaimedTurn, messages: Messages, entry: LedgerEntry | None = None) -> None:
        """Store the turn's own messages after a step, and the session's ledger if it changed."""
        stored = dump_messages(messages)

        def work(state: sqlite3.Connection) -> None:
            self._set(state, claimed, "taken = ?", (stored,))
            if entry:
                store_ledger_entry(state, claimed.session.id, entry, self._remembered.cache_ledger)

        await self._writer.do(work)

    async def begin(self, claimed: ClaimedTurn, call: str, name: str) -> bool:
        """Record that a call with side effects begins; return False if it had begun before."""

        def work(state: sqlite3.Connection) -> bool:
            self._hold(state, claimed)
            asked = "INSERT OR IGNORE INTO begun (turn_id, call_id, name) VALUES (?, ?, ?)"
            return state.execute(asked, (claimed.turn, call, name)).rowcount == 1

        return await self._writer.write_durable(work)

    async def hold(self, claimed: ClaimedTurn, asking: ApprovalNeeded, arguments: Mapping[str, Any]) -> HeldCall | None:
        """Store a call that needs approval; return None if too many calls of that person wait."""

        def work(state: sqlite3.Connection) -> HeldCall | None:
            self._hold(state, claimed)
            return hold_call(state, claimed, asking, arguments, self._clock())

        return await self._writer.write_durable(work)

    async def find_held(self, claimed: ClaimedTurn) -> HeldCall:
        """Find the held call that a turn runs."""
        held = await self._writer.look(lambda state: find_held(state, claimed.incoming.held))
        if held is None or held.run != claimed.turn:
            raise NotFound("held call")
        return held

    async def list_held(self, claimed: ClaimedTurn) -> Sequence[HeldCall]:
        """List the calls of a turn that wait for approval."""
        return await self._writer.look(lambda state: list_of_turn(state, claimed.turn))

    async def keep_result(self, claimed: ClaimedTurn, text: str) -> None:
        """Store the result of a turn's held call for later attempts."""

        def work(state: sqlite3.Connection) -> None:
            self._hold(state, claimed)
            keep_result(state, claimed.incoming.held, text)

        await self._writer.write_durable(work)

    async def finish(self, claimed: ClaimedTurn, ending: TurnResult) -> None:
        """End a turn: store its reply and its history row in one transaction; a second call has no effect."""
        stored = dump_messages(ending.messages) if ending.messages else b""
        text = write_delivered_text(claimed.incoming, ending)
        posted = bool(claimed.incoming.address) and is_delivered(claimed.incoming, ending, text)

        def work(state: sqlite3.Connection) -> None:
            moment = format_moment(ending.now)
            if is_stored(state, claimed, "state = ? AND finished = ?", (str(ending.state), moment)):
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
                piece = HistoryPiece(
                    kind=HistoryKind.TURN,
                    messages=stored,
                    tokens=ending.tokens,
                    turn=claimed.turn,
                    beginning=hash_finished_turn(state, claimed, ending),
                )
                append_piece(state, claimed.session.id, piece)
            if ending.entry:
                store_ledger_entry(state, claimed.session.id, ending.entry, self._remembered.cache_ledger)
            if ending.plan:
                add_plan(state, claimed.session.id, ending.text)
            state.execute("DELETE FROM begun WHERE turn_id = ?", (claimed.turn,))
            if posted:
                channel = claimed.incoming.through or claimed.incoming.channel
                address = claimed.incoming.address
                letter = OutboundMessage(
                    key=claimed.turn, channel=channel, address=address, text=text, turn=claimed.turn
                )
                post_message(state, letter, ending.now)
                if claimed.incoming.errand:
                    add_to_conversations(state, claimed, text, ending.now)
            touch_session(state, claimed.session.id, ending.now)
            if is_private_message(claimed):
                lane = claimed.session.lane
                with suppress(ValueError, TypeError):  # a damaged profile must not fail the turn
                    learn_style(state, lane.user, lane.clearance, claimed.incoming.text)

        # The outbox makes a posted reply durable when it claims it, before anything is sent.
        await (self._writer.do(work) if posted else self._writer.write_durable(work))

    async def postpone(self, claimed: ClaimedTurn, ending: TurnResult, due: datetime) -> None:
        """Postpone a turn, and the turns that wait behind it."""
        stored = dump_messages(ending.messages) if ending.messages else None

        def work(state: sqlite3.Connection) -> None:
            if is_stored(state, claimed, "state = 'queued' AND due = ?", (due.timestamp(),)):
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

        await self._writer.write_durable(work)

    async def hasten(self, session: str = "") -> int:
        """Make the queued turns of a session, or of all sessions, due now; return their number."""

        def work(state: sqlite3.Connection) -> int:
            asked = "UPDATE turns SET due = 0 WHERE finished IS NULL AND state = 'queued' AND ? IN ('', session_id)"
            return state.execute(asked, (session,)).rowcount

        return await self._writer.do(work)

    async def release(self, claimed: ClaimedTurn) -> None:
        """Give up a claim, so that another process can take the turn at once."""
        values = "state = 'waiting', due = 0, lease_owner = '', lease_until = 0"
        await self._writer.do(lambda state: self._set(state, claimed, values, ()))

    async def renew(self) -> Sequence[str]:
        """Renew the leases of this process; return the turns that a person wants to stop."""
        until = (self._clock() + self._lease).timestamp()

        def work(state: sqlite3.Connection) -> list[str]:
            mine = "finished IS NULL AND lease_owner = ? AND state = 'running'"
            state.execute(f"UPDATE turns SET lease_until = ? WHERE {mine}", (until, self._owner))
            found = state.execute(f"SELECT id FROM turns WHERE {mine} AND stop = 1", (self._owner,))
            return [turn for (turn,) in found]

        return await self._writer.do(work)

    async def stop(self, turn: str) -> TurnState | None:
        """Stop a turn that is not running, or ask its process to stop it; return its new state."""
        return await self._writer.do(lambda state: self._stop(state, turn))

    def _stop(self, state: sqlite3.Connection, turn: str) -> TurnState | None:
        idle = state.execute(
            "UPDATE turns SET state = 'stopped', reply = '', finished = ? WHERE id = ?"
            " AND state IN ('waiting', 'queued') RETURNING session_id, taken",
            (format_moment(self._clock()), turn),
        ).fetchall()
        for session, taken in idle:
            if taken:  # keep what its tools did before it was postponed
                messages = close_turn(load_messages(taken), "stopped before the end")
                kept, tokens = dump_messages(messages), estimate_tokens(messages)
                append_piece(
                    state, session, HistoryPiece(kind=HistoryKind.TURN, messages=kept, tokens=tokens, turn=turn)
                )
        state.execute("UPDATE turns SET stop = 1 WHERE id = ? AND state = 'running'", (turn,))
        row = state.execute("SELECT state FROM turns WHERE id = ?", (turn,)).fetchone()
        return TurnState(row[0]) if row else None

    def _set(self, state: sqlite3.Connection, claimed: ClaimedTurn, values: str, given: Sequence[Any]) -> None:
        """Update a turn if this process still has its lease; raise LeaseLost otherwise."""
        key = (claimed.turn, self._owner, claimed.attempt)
        if state.execute(f"UPDATE turns SET {values} WHERE {WHERE_OWN_LEASE}", (*given, *key)).rowcount != 1:
            raise LeaseLost("another process works on this turn now")

    def _hold(self, state: sqlite3.Connection, claimed: ClaimedTurn) -> None:
        key = (claimed.turn, self._owner, claimed.attempt)
        if state.execute(f"SELECT 1 FROM turns WHERE {WHERE_OWN_LEASE}", key).fetchone() is None:
            raise LeaseLost("another process works on this turn now")


def is_private_message(claimed: ClaimedTurn) -> bool:
    """Return whether a known person wrote the message of a turn in private."""
    incoming = claimed.incoming
    return is_own(claimed.session.lane) and not incoming.errand and incoming.situation != UNATTENDED_SITUATION


def estimate_tokens(messages: Messages) -> int:
    """Estimate the tokens of messages without a model."""
    return sum(len(message.text) for message in convert_to_texts(messages)) // CHARS_PER_TOKEN


def get_claimed(state: sqlite3.Connection, identifier: str) -> ClaimedTurn:
    """Read a claimed turn."""
    asked = f"SELECT {CLAIMED_COLUMNS} FROM turns JOIN sessions ON sessions.id = turns.session_id WHERE turns.id = ?"
    row = state.execute(asked, (identifier,)).fetchone()
    turn, text, request, attempt, place, received, taken, usage, cost_usd, *session = row
    return ClaimedTurn(
        turn=turn,
        session=read_session(session),
        incoming=load_message(text, request),
        attempt=attempt,
        place=TracePosition(**json.loads(place)),
        received=parse_moment(received),
        taken=load_messages(taken) if taken else (),
        spent=TurnUsage(usage=Usage(**json.loads(usage)), cost_usd=cost_usd) if usage else TurnUsage(),
    )


def add_to_conversations(state: sqlite3.Connection, claimed: ClaimedTurn, text: str, now: datetime) -> None:
    """Add the reply of a scheduled run to the conversations at its destination."""
    incoming, lane = claimed.incoming, claimed.session.lane
    if not incoming.shelves:
        add_to_current_conversations(
            state, replace(lane, channel=incoming.through or incoming.channel), claimed.turn, text
        )
    for channel in incoming.shelves:
        place, home = replace(lane, channel=channel), incoming.errand.home if incoming.errand else None
        add_to_private_conversation(state, place, claimed.turn, text, now, home=home)


def is_stored(state: sqlite3.Connection, claimed: ClaimedTurn, values: str, given: Sequence[Any]) -> bool:
    """Return whether this attempt has already stored its end, after a write whose fsync failed."""
    asked = f"SELECT 1 FROM turns WHERE id = ? AND attempt = ? AND {values}"
    return state.execute(asked, (claimed.turn, claimed.attempt, *given)).fetchone() is not None


def is_delivered(incoming: RoutedMessage, ending: TurnResult, text: str) -> bool:
    """Return whether the result of a turn is delivered: not a stopped turn, and no failure of an `as_needed` run."""
    if (
        incoming.errand
        and not incoming.held
        and incoming.errand.delivery is not Delivery.ALWAYS
        and ending.state is not TurnState.ANSWERED
    ):
        return False
    return bool(text)


def write_delivered_text(incoming: RoutedMessage, ending: TurnResult) -> str:
    """Return the text to deliver: for a very small model, the reply below a quote of its schedule's text.

    Such a model has the brief prompt, and its reply may not say what it refers to. With `always`, the quote is
    delivered even if the reply is empty.
    """
    errand = incoming.errand
    if not errand or not errand.asked or incoming.held or not ending.brief or ending.state is not TurnState.ANSWERED:
        return ending.text
    if not ending.text and errand.delivery is not Delivery.ALWAYS:
        return ""
    quote = "\n".join(f"> {line}".rstrip() for line in errand.asked.splitlines())
    return f"{quote}\n\n{ending.text}".rstrip()


def hash_finished_turn(state: sqlite3.Connection, claimed: ClaimedTurn, ending: TurnResult) -> str | None:
    """Hash the conversation up to the end of a turn, as a client without a session will resend it.

    A streaming client resends all text it was shown, including text before tool calls; others resend the reply. A
    client never sees the turn of a held call, so the hash does not change for it.
    """
    if claimed.incoming.held:
        return find_newest_hash(state, claimed.session.id)
    before = claimed.incoming.beginning
    if before is None:
        return None
    streamed = claimed.incoming.request.streamed and ending.spoken.strip()
    asked = extend_hash(before, Message(role="user", text=claimed.incoming.text))
    return extend_hash(asked, Message(role="assistant", text=ending.spoken if streamed else ending.text))
