"""The inbox: accepted messages, their leases and their progress; every method is one transaction.

The messages of a turn are stored after every step. After a crash, another process continues after the last stored
step, and no step is written twice.
"""

import json
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any

from foreword.agent.agent_events import ApprovalNeeded, CallBegins
from foreword.agent.conversation import (
    Messages,
    close_turn,
    convert_to_texts,
    dump_messages,
    list_images,
    list_unanswered_calls,
    load_messages,
    read_answers,
)
from foreword.errors import InputError
from foreword.events.event import TracePosition
from foreword.gateway.client_tools import CallReference, ClientCall, add_client_results, list_client_calls
from foreword.gateway.messages import (
    AcceptedTurn,
    ClientRequest,
    LateResults,
    NotFound,
    RoutedMessage,
    dump_message,
    load_message,
)
from foreword.gateway.notifications import CHARS_PER_TOKEN, add_to_current_conversations, add_to_private_conversation
from foreword.gateway.session_manager import find_duplicate, find_session_by_id, make_idempotency_key
from foreword.gateway.session_state import LedgerEntry, SessionCache
from foreword.storage import history, turns
from foreword.storage.database import format_moment, parse_moment
from foreword.storage.deliveries import OutboundMessage, post_message
from foreword.storage.history import HistoryKind, HistoryPiece
from foreword.storage.profiles import learn_style
from foreword.storage.rows import insert_row
from foreword.storage.sessions import Session, SessionKey, add_plan, touch_session
from foreword.storage.turns import HeldCall, TurnState, TurnUsage
from foreword.storage.writer import Writer, make_lease_owner
from foreword.tokens.image_tokens import estimate_image_tokens
from foreword.turn import Message
from foreword.types import Delivery, frozen

TURN_LEASE = timedelta(seconds=30)
UNATTENDED_SITUATION = "system"  # situation without a person: its text is not a person's message
LATE_RESULTS_TEXT = "these results come too late: the conversation has gone on without them"
UNREADABLE_TEXT = "The stored message cannot be read any more. Please send it again."


@frozen
class ClaimedTurn:
    """A turn that this process works on."""

    turn: str
    session: Session
    incoming: RoutedMessage
    attempt: int
    position: TracePosition
    """Where the turn continues in its trace."""
    received: datetime
    taken: Messages = ()
    """The turn's own messages from earlier attempts."""
    spent: TurnUsage = TurnUsage()

    @property
    def asked(self) -> datetime:
        """The time since which somebody waits: of the message, or of the client's newest results."""
        return parse_moment(self.incoming.resumed) if self.incoming.resumed else self.received


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
    pending: Messages = ()
    """The messages of a turn that waits for its client; the history has them closed."""
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


class Inbox:
    """Stores accepted messages in the state until they are answered."""

    def __init__(
        self,
        writer: Writer,
        clock: Callable[[], datetime],
        lease: timedelta = TURN_LEASE,
        cache: SessionCache | None = None,
    ) -> None:
        self._writer = writer
        self._cache = cache or SessionCache()
        self._clock = clock
        self._lease = lease
        self._owner = make_lease_owner()

    async def add(
        self, new: ClaimedTurn, begin: Callable[[ClaimedTurn], None], on_sync_error: Callable[[Exception], None]
    ) -> ClaimedTurn | AcceptedTurn:
        """Accept a message as the first attempt at a turn; return the turn if no earlier one of its session is open.

        `begin` is called with the claimed turn as soon as it survives a crash of the process. When this returns, it
        also survives a power loss, unless `on_sync_error` was called. If this raises, nothing is stored.
        """

        def written(added: ClaimedTurn | AcceptedTurn) -> None:
            if isinstance(added, ClaimedTurn):
                begin(added)

        return await self._writer.write_durable(lambda state: self._add(state, new), written, on_sync_error)

    def _add(self, state: sqlite3.Connection, new: ClaimedTurn) -> ClaimedTurn | AcceptedTurn:
        incoming, session, now = new.incoming, new.session, new.received
        if known := find_duplicate(state, incoming, session.key, now):
            return AcceptedTurn(turn=known.turn, session=known.session.id, repeated=True)
        if incoming.held:
            turns.mark_allowed(state, incoming.held, new.turn, now)
        status, due = TurnState.RUNNING, now.timestamp()
        if first := turns.find_first_unfinished(state, session.id):
            queued = first[0] is TurnState.QUEUED
            status, due = (TurnState.QUEUED, max(due, first[1])) if queued else (TurnState.WAITING, due)
        claimed = status is TurnState.RUNNING
        turns.forget_called(state, session.id)
        insert_row(
            state,
            "turns",
            id=new.turn,
            session_id=session.id,
            user_id=incoming.user,
            channel=incoming.channel,
            text=incoming.text,
            request=dump_message(incoming),
            state=str(status),
            attempt=int(claimed),
            due=due,
            lease_owner=self._owner if claimed else "",
            lease_until=(now + self._lease).timestamp() if claimed else 0.0,
            place=json.dumps(asdict(new.position)),
            received=format_moment(now),
            key=make_idempotency_key(incoming),
        )
        touch_session(state, session.id, now)
        return new if claimed else AcceptedTurn(turn=new.turn, session=session.id)

    async def claim(self, limit: int) -> Sequence[ClaimedTurn]:
        """Claim due turns, one per session, including those of dead processes."""
        # Usually nothing is due, so do not wait for the writer.
        if not await self._writer.read(lambda state: turns.may_be_due(state, self._owner, self._clock())):
            return []
        return await self._writer.write(lambda state: self._claim(state, limit))

    def _claim(self, state: sqlite3.Connection, limit: int) -> list[ClaimedTurn]:
        now, claimed = self._clock(), []
        for turn in turns.claim_due(state, self._owner, now, self._lease, limit):
            try:
                claimed.append(get_claimed(state, turn))
            except (ValueError, TypeError, KeyError):
                turns.fail_turn(state, turn, UNREADABLE_TEXT, now)
        return claimed

    async def store_step(self, claimed: ClaimedTurn, messages: Messages, entry: LedgerEntry | None = None) -> None:
        """Store the turn's own messages after a step, and the session's ledger if it changed."""
        stored = dump_messages(messages)

        def work(state: sqlite3.Connection) -> None:
            turns.update_leased(state, self._get_lease(claimed), taken=stored)
            if entry:
                self._cache.store_ledger(state, claimed.session.id, entry)

        await self._writer.write(work)

    async def begin_call(self, claimed: ClaimedTurn, call: CallBegins) -> None:
        """Record that a call with side effects begins."""

        def work(state: sqlite3.Connection) -> None:
            turns.check_lease(state, self._get_lease(claimed))
            turns.begin_call(state, claimed.turn, call.id, call.name)

        await self._writer.write_durable(work)

    async def list_begun(self, claimed: ClaimedTurn) -> Collection[str]:
        """List the ids of the calls that earlier attempts at a turn began."""
        return await self._writer.read(lambda state: turns.list_begun_calls(state, claimed.turn))

    async def hold(self, claimed: ClaimedTurn, question: ApprovalNeeded) -> HeldCall | None:
        """Store a call that needs approval; return None if too many calls of that person wait."""

        def work(state: sqlite3.Connection) -> HeldCall | None:
            turns.check_lease(state, self._get_lease(claimed))
            return turns.hold_call(
                state,
                turn=claimed.turn,
                session=claimed.session.id,
                user=claimed.incoming.user,
                call=question.id,
                name=question.name,
                arguments=question.arguments,
                question=question.question,
                now=self._clock(),
            )

        return await self._writer.write_durable(work)

    async def find_held(self, claimed: ClaimedTurn) -> HeldCall:
        """Find the held call that a turn runs."""
        held = await self._writer.read(lambda state: turns.find_held(state, claimed.incoming.held))
        if held is None or held.run != claimed.turn:
            raise NotFound("held call")
        return held

    async def list_held(self, claimed: ClaimedTurn) -> Sequence[HeldCall]:
        """List the calls of a turn that wait for approval."""
        return await self._writer.read(lambda state: turns.list_of_turn(state, claimed.turn))

    async def store_held_result(self, claimed: ClaimedTurn, text: str) -> None:
        """Store the result of a turn's held call for later attempts."""

        def work(state: sqlite3.Connection) -> None:
            turns.check_lease(state, self._get_lease(claimed))
            turns.store_held_result(state, claimed.incoming.held, text)

        await self._writer.write_durable(work)

    async def finish(self, claimed: ClaimedTurn, result: TurnResult) -> None:
        """End a turn: store its reply and its history row in one transaction; a second call has no effect."""
        stored = dump_messages(result.messages) if result.messages else b""
        pending = dump_messages(result.pending) if result.pending else None
        text = write_delivered_text(claimed.incoming, result)
        posted = bool(claimed.incoming.address) and is_delivered(claimed.incoming, result, text)
        ended = {"state": str(result.state), "finished": format_moment(result.now)}

        def work(state: sqlite3.Connection) -> None:
            lease, session = self._get_lease(claimed), claimed.session
            if turns.has_columns(state, lease, **ended):
                return
            columns = describe_result(result) | ended | turns.NO_LEASE
            turns.update_leased(state, lease, cut=int(result.cut), taken=pending, **columns)
            if stored:
                piece = HistoryPiece(
                    kind=HistoryKind.TURN,
                    messages=stored,
                    tokens=result.tokens,
                    turn=claimed.turn,
                    beginning=hash_finished_turn(state, claimed, result),
                )
                history.append_piece(state, session.id, piece)
            if result.entry:
                self._cache.store_ledger(state, session.id, result.entry)
            if result.plan:
                add_plan(state, session.id, result.text)
            turns.forget_calls(state, claimed.turn)
            if posted:
                post_reply(state, claimed, text, result.now)
            touch_session(state, session.id, result.now)
            if result.state is not TurnState.CALLED and is_private_message(claimed):
                with suppress(ValueError, TypeError):  # a damaged profile must not fail the turn
                    learn_style(state, session.key.user, session.key.clearance, claimed.incoming.text)

        # The outbox makes a posted reply durable when it claims it, before anything is sent.
        await (self._writer.write(work) if posted else self._writer.write_durable(work))

    async def resume(
        self, call: CallReference, results: Mapping[int, str], key: SessionKey, request: ClientRequest
    ) -> AcceptedTurn:
        """Continue a turn with the results of its client's tools; a repeated request finds the same turn."""

        def work(state: sqlite3.Connection) -> AcceptedTurn:
            found = turns.find_called(state, call.turn)
            if found is None:
                raise NotFound("tool call")
            try:
                find_session_by_id(state, found.session, key)
            except InputError as error:
                raise NotFound("tool call") from error
            incoming, messages = load_message(found.text, found.request), load_pending(found.taken)
            if not incoming.request.tools:
                raise NotFound("tool call")
            if found.state is not TurnState.CALLED or (messages and len(read_answers(messages)) != call.answers):
                return AcceptedTurn(turn=call.turn, session=found.session, repeated=True)
            if not messages or turns.find_newest_id(state, found.session) != call.turn:
                raise LateResults(LATE_RESULTS_TEXT)
            if max(results) >= len(list_unanswered_calls(messages)):
                raise NotFound("tool call")
            beginning = history.take_back_turn(state, found.session, call.turn)
            incoming = replace(
                incoming,
                continued=beginning or "",
                resumed=format_moment(self._clock()),
                request=replace(
                    incoming.request,
                    streamed=request.streamed,
                    tools=request.tools,
                    response_format=request.response_format,
                ),
            )
            taken = dump_messages(add_client_results(messages, results))
            turns.reopen_turn(state, call.turn, dump_message(incoming), taken)
            return AcceptedTurn(turn=call.turn, session=found.session)

        return await self._writer.write_durable(work)

    async def forget_called(self, session: str) -> bool:
        """Wait no longer for the client of a session's turn; return whether one waited."""
        return await self._writer.write(lambda state: turns.forget_called(state, session))

    async def list_client_calls(self, turn: str) -> Sequence[ClientCall]:
        """List the calls that the client of a turn is to run."""
        taken = await self._writer.read(lambda state: turns.read_taken(state, turn))
        return list_client_calls(turn, load_pending(taken))

    async def postpone(self, claimed: ClaimedTurn, result: TurnResult, due: datetime) -> None:
        """Postpone a turn, and the turns that wait behind it."""
        stored = dump_messages(result.messages) if result.messages else None
        queued = {"state": "queued", "due": due.timestamp()}

        def work(state: sqlite3.Connection) -> None:
            lease = self._get_lease(claimed)
            if turns.has_columns(state, lease, **queued):
                return
            columns = describe_result(result) | queued | turns.NO_LEASE
            turns.update_leased(state, lease, taken=stored, **columns)
            turns.queue_waiting(state, claimed.session.id, due)

        await self._writer.write_durable(work)

    async def hasten(self, session: str = "") -> int:
        """Make the queued turns of a session, or of all sessions, due now; return their number."""
        return await self._writer.write(lambda state: turns.hasten_queued(state, session))

    async def release(self, claimed: ClaimedTurn) -> None:
        """Give up a claim, so that another process can take the turn at once."""
        await self._writer.write(lambda state: turns.release_lease(state, self._get_lease(claimed)))

    async def renew(self) -> Sequence[str]:
        """Renew the leases of this process; return the turns that a person wants to stop."""
        until = self._clock() + self._lease
        return await self._writer.write(lambda state: turns.renew_leases(state, self._owner, until))

    async def stop(self, turn: str) -> TurnState | None:
        """Stop a turn that is not running, or ask its process to stop it; return its new state."""

        def work(state: sqlite3.Connection) -> TurnState | None:
            if idle := turns.stop_idle(state, turn, self._clock()):
                session, taken = idle
                if taken:  # keep what its tools did before it was postponed
                    messages = close_turn(load_messages(taken), "stopped before the end")
                    stored, tokens = dump_messages(messages), estimate_tokens(messages)
                    piece = HistoryPiece(kind=HistoryKind.TURN, messages=stored, tokens=tokens, turn=turn)
                    history.append_piece(state, session, piece)
            return turns.request_stop(state, turn)

        return await self._writer.write(work)

    def _get_lease(self, claimed: ClaimedTurn) -> turns.Lease:
        return turns.Lease(turn=claimed.turn, owner=self._owner, attempt=claimed.attempt)


def load_pending(taken: bytes | None) -> Messages:
    """Return the messages of a turn that waits for its client; empty if there are none that can be read."""
    with suppress(ValueError):
        return load_messages(taken or b"[]")
    return ()


def get_claimed(state: sqlite3.Connection, identifier: str) -> ClaimedTurn:
    """Read a turn to work on."""
    row = turns.read_claimed(state, identifier)
    return ClaimedTurn(
        turn=row.turn,
        session=row.session,
        incoming=load_message(row.text, row.request),
        attempt=row.attempt,
        position=row.position,
        received=row.received,
        taken=load_messages(row.taken) if row.taken else (),
        spent=row.spent,
    )


def describe_result(result: TurnResult) -> dict[str, Any]:
    """Return the columns of a turn that every attempt stores."""
    return {
        "reply": result.text,
        "usage": json.dumps(asdict(result.spent.usage)),
        "cost_usd": result.spent.cost_usd,
        "prompt_hash": result.prompt_hash,
    }


def is_private_message(claimed: ClaimedTurn) -> bool:
    """Return whether a known person wrote the message of a turn in private."""
    incoming = claimed.incoming
    return claimed.session.key.is_own and not incoming.scheduled_run and incoming.situation != UNATTENDED_SITUATION


def estimate_tokens(messages: Messages) -> int:
    """Estimate the tokens of messages without a model."""
    images = sum(estimate_image_tokens("", image.width, image.height) for image in list_images(messages))
    return sum(len(message.text) for message in convert_to_texts(messages)) // CHARS_PER_TOKEN + images


def post_reply(state: sqlite3.Connection, claimed: ClaimedTurn, text: str, now: datetime) -> None:
    """Add a reply to the outbox; add that of a scheduled run to the conversations at its destination as well."""
    incoming, key, turn = claimed.incoming, claimed.session.key, claimed.turn
    channel = incoming.through or incoming.channel
    message = OutboundMessage(key=turn, channel=channel, address=incoming.address, text=text, turn=turn)
    post_message(state, message, now)
    if incoming.scheduled_run is None:
        return
    if not incoming.pull_channels:
        add_to_current_conversations(state, replace(key, channel=channel), turn, text)
    for pull_channel in incoming.pull_channels:
        place = replace(key, channel=pull_channel)
        add_to_private_conversation(state, place, turn, text, now, home=incoming.scheduled_run.home)


def is_delivered(incoming: RoutedMessage, result: TurnResult, text: str) -> bool:
    """Return whether the result of a turn is delivered: not a stopped turn, and no failure of an `as_needed` run."""
    run = incoming.scheduled_run if not incoming.held else None
    quiet = run and run.delivery is not Delivery.ALWAYS and result.state is not TurnState.ANSWERED
    return bool(text) and not quiet


def write_delivered_text(incoming: RoutedMessage, result: TurnResult) -> str:
    """Return the text to deliver: for a very small model, the reply below a quote of its schedule's text.

    Such a model has the brief prompt, and its reply may not say what it refers to. With `always`, the quote is
    delivered even if the reply is empty.
    """
    run = incoming.scheduled_run
    if not run or not run.asked or incoming.held or not result.brief or result.state is not TurnState.ANSWERED:
        return result.text
    if not result.text and run.delivery is not Delivery.ALWAYS:
        return ""
    quote = "\n".join(f"> {line}".rstrip() for line in run.asked.splitlines())
    return f"{quote}\n\n{result.text}".rstrip()


def hash_finished_turn(state: sqlite3.Connection, claimed: ClaimedTurn, result: TurnResult) -> str | None:
    """Hash the conversation up to the end of a turn, as a client without a session will resend it.

    A streaming client resends all text it was shown, including text before tool calls; others resend the reply. A
    client never sees the turn of a held call, so the hash does not change for it.
    """
    incoming = claimed.incoming
    if incoming.held:
        return history.find_newest_hash(state, claimed.session.id)
    if incoming.beginning is None:
        return None
    streamed = incoming.request.streamed and result.spoken.strip()
    question = Message(role="user", text=incoming.text)
    before = incoming.continued or history.extend_hash(incoming.beginning, question)
    answer = Message(role="assistant", text=result.spoken if streamed else result.text)
    # A client resends no empty message, such as one that only calls its tools.
    return history.extend_hash(before, answer) if answer.text.strip() else before
