"""Held calls: tool calls that wait for a person's approval.

A held call has not run. It is stored with its exact arguments and belongs to the person whose turn made it. When that
person allows it, it becomes a turn of its session (`RoutedMessage.held`). The inbox marks it as allowed in the
transaction that accepts the turn, so it runs at most once.
"""

import json
import re
import sqlite3
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pydantic_ai.messages import ModelResponse, TextPart

from foreword.agent.agent_events import ApprovalNeeded
from foreword.agent.conversation import dump_messages, make_user_message
from foreword.engine.sources.documents import read_prompt
from foreword.errors import InputError
from foreword.events.event import Context, EventType, Recorder
from foreword.events.tracer import Clocks, Tracer, make_id
from foreword.gateway.history import HistoryKind, HistoryPiece, append_piece, find_newest_hash
from foreword.gateway.messages import AcceptedTurn, ClientRequest, NotFound, RoutedMessage, load_message
from foreword.gateway.session_lookup import CHARS_PER_TOKEN, make_event_context, resolve_session_key
from foreword.storage.database import format_moment, parse_moment
from foreword.storage.sessions import OutboundMessage, get_session, post_message
from foreword.storage.writer import Writer
from foreword.types import TextEnum, Trust, frozen
from foreword.workspace import Workspace

if TYPE_CHECKING:
    from foreword.gateway.inbox import ClaimedTurn


HELD_FOR = timedelta(hours=24)
MAX_HELD_CALLS = 20  # of one person, waiting at the same time
ID_BITS = 32

ALLOWED_TEXT = "I allow the call {id} of {name}, which was held."
DENIED_TEXT = "{name} was not run: {user} denied it (call {id})."
EXPIRED_TEXT = "{name} was not run: call {id} expired after 24 hours."
REVOKED_TEXT = "call {id} was not run: your access has changed since {name} was requested"
ALREADY_DECIDED_TEXT = "call {id} ({name}) is already {state}"
TOO_MANY_HELD_TEXT = "{name} was not called: {count} calls already await this person's approval."
HELD_TEXT = "{name} was not called: it needs approval. It is held as {id}. Do not retry; tell the person it is waiting."

HELD_COLUMNS = (
    "held_calls.id, held_calls.turn_id, held_calls.session_id, sessions.agent, sessions.channel, held_calls.user_id,"
    " sessions.clearance, held_calls.name, held_calls.arguments, held_calls.question, held_calls.state,"
    " held_calls.created, held_calls.expires, held_calls.run_id, held_calls.result"
)
HELD_TABLES = "held_calls JOIN sessions ON sessions.id = held_calls.session_id"


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


class HeldCalls:
    """The held calls of a gateway: listed, allowed, denied and expired."""

    def __init__(
        self,
        workspace: Workspace,
        writer: Writer,
        recorder: Recorder,
        clock: Callable[[], datetime],
        accept: Callable[[RoutedMessage], Awaitable[AcceptedTurn]],
    ) -> None:
        self._workspace = workspace
        self._writer = writer
        self._recorder = recorder
        self._clock = clock
        self._accept = accept

    async def list(self, user: str, clearance: Trust) -> Sequence[HeldCall]:
        """List the waiting calls of a person at or below a clearance, the oldest first."""
        now = self._clock()
        return await self._writer.look(lambda state: list_waiting(state, user, clearance, now))

    async def list_of_turn(self, turn: str) -> Sequence[HeldCall]:
        """List the waiting calls of a turn, the oldest first."""
        return await self._writer.look(lambda state: list_of_turn(state, turn))

    async def get(self, user: str, clearance: Trust, identifier: str) -> HeldCall:
        """Return a call of a person at or below a clearance; raise NotFound for any other."""
        held = await self._writer.look(lambda state: find_held(state, identifier.strip().lower()))
        if held is None or held.user != user or held.clearance > clearance:
            raise NotFound("held call")
        return held

    async def allow(
        self,
        user: str,
        clearance: Trust,
        identifier: str,
        *,
        asks: bool = False,
        answer_to: tuple[str, str] = ("", ""),
    ) -> AcceptedTurn:
        """Run a held call as a turn of its session; a second approval returns the same turn.

        `asks` is whether the person can be asked about further calls. The reply goes to `answer_to`, a channel and an
        address, if the session has no address.
        """
        held = await self.get(user, clearance, identifier)
        if held.state is HeldState.ALLOWED:
            return AcceptedTurn(turn=held.run, session=held.session, repeated=True)
        if held.state is not HeldState.WAITING or held.expires <= self._clock():
            state = held.state if held.state is not HeldState.WAITING else HeldState.EXPIRED
            raise InputError(ALREADY_DECIDED_TEXT.format(id=held.id, name=held.name, state=state))
        incoming = await self._writer.look(lambda state: make_incoming(state, held))
        incoming = replace(incoming, asks=asks)
        if not incoming.address:
            incoming = replace(incoming, through=answer_to[0], address=answer_to[1])
        if resolve_session_key(incoming, self._workspace.config).lane.clearance != held.clearance:
            await self._end(held, HeldState.REFUSED, "")
            raise InputError(REVOKED_TEXT.format(name=held.name, id=held.id))
        return await self._accept(incoming)

    async def deny(self, user: str, clearance: Trust, identifier: str) -> HeldCall:
        """Drop a held call, and record that in its session."""
        held = await self.get(user, clearance, identifier)
        words = DENIED_TEXT.format(name=held.name, user=held.user or "the person who asked", id=held.id)
        if held.state is HeldState.DENIED:
            return held
        if not await self._end(held, HeldState.DENIED, words):
            held = await self.get(user, clearance, identifier)
            raise InputError(ALREADY_DECIDED_TEXT.format(id=held.id, name=held.name, state=held.state))
        return replace(held, state=HeldState.DENIED)

    async def expire(self) -> None:
        """Drop the expired calls, and record that in their sessions."""
        now = self._clock()
        for held in await self._writer.look(lambda state: list_overdue(state, now)):
            words = EXPIRED_TEXT.format(name=held.name, id=held.id)
            await self._end(held, HeldState.EXPIRED, words, post_to_session=True)

    async def _end(self, held: HeldCall, became: HeldState, words: str, *, post_to_session: bool = False) -> bool:
        """End a waiting call without running it; return whether it was waiting."""
        now = self._clock()

        def work(state: sqlite3.Connection) -> bool:
            ended = state.execute(
                "UPDATE held_calls SET state = ?, decided = ? WHERE id = ? AND state = 'waiting'",
                (str(became), format_moment(now), held.id),
            ).rowcount
            if ended and words:
                add_note(state, held, words)
            if ended and post_to_session:
                post_note(state, held, words, now)
            return bool(ended)

        if not await self._writer.write_durable(work):
            return False
        await self._tell(held, became)
        return True

    async def _tell(self, held: HeldCall, became: HeldState) -> None:
        """Log the decision."""

        def find(state: sqlite3.Connection) -> Context | None:
            session = get_session(state, held.session)
            return make_event_context(session, read_origin(state, held)) if session else None

        if context := await self._writer.look(find):
            trace = Tracer(self._recorder, context, Clocks(now=self._clock))
            trace.tell(EventType.TOOL_CALL, name=held.name, status=str(became), held=held.id)


def hold_call(
    state: sqlite3.Connection,
    claimed: "ClaimedTurn",
    asking: ApprovalNeeded,
    arguments: Mapping[str, Any],
    now: datetime,
) -> HeldCall | None:
    """Store a call that needs approval; return None if too many wait.

    The same call of a session waits once. It moves to the newest turn that makes it, whose reply then announces it.
    """
    written = json.dumps(arguments, ensure_ascii=False, sort_keys=True)
    same = (
        f"SELECT {HELD_COLUMNS} FROM {HELD_TABLES} WHERE (held_calls.turn_id = ?1 AND held_calls.call_id = ?2)"
        " OR (held_calls.session_id = ?3 AND held_calls.user_id = ?4 AND held_calls.name = ?5"
        " AND held_calls.arguments = ?6 AND held_calls.state = 'waiting' AND held_calls.expires > ?7)"
        " ORDER BY held_calls.turn_id = ?1 DESC LIMIT 1"
    )
    user, session = claimed.incoming.user, claimed.session.id
    key = (claimed.turn, asking.id, session, user, asking.name, written, now.timestamp())
    if row := state.execute(same, key).fetchone():
        held = read_held(row)
        if held.turn != claimed.turn:
            moved = (claimed.turn, asking.id, held.id)
            state.execute("UPDATE held_calls SET turn_id = ?, call_id = ? WHERE id = ?", moved)
        return replace(held, turn=claimed.turn)
    count = "SELECT count(*) FROM held_calls WHERE user_id = ? AND state = 'waiting' AND expires > ?"
    if state.execute(count, (user, now.timestamp())).fetchone()[0] >= MAX_HELD_CALLS:
        return None
    identifier = make_id(ID_BITS)
    while find_held(state, identifier):
        identifier = make_id(ID_BITS)
    state.execute(
        "INSERT INTO held_calls (id, turn_id, call_id, session_id, user_id, name, arguments, question, state, created,"
        " expires) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'waiting', ?, ?)",
        (
            identifier,
            claimed.turn,
            asking.id,
            session,
            user,
            asking.name,
            written,
            asking.question,
            format_moment(now),
            (now + HELD_FOR).timestamp(),
        ),
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


def keep_result(state: sqlite3.Connection, identifier: str, text: str) -> None:
    """Store the answer of the tool for later attempts at the turn."""
    state.execute("UPDATE held_calls SET result = ? WHERE id = ?", (text, identifier))


def find_held(state: sqlite3.Connection, identifier: str) -> HeldCall | None:
    """Find a held call by its id."""
    row = state.execute(f"SELECT {HELD_COLUMNS} FROM {HELD_TABLES} WHERE held_calls.id = ?", (identifier,)).fetchone()
    return read_held(row) if row else None


def list_waiting(state: sqlite3.Connection, user: str, clearance: Trust, now: datetime) -> list[HeldCall]:
    """List the waiting calls of a person at or below a clearance, the oldest first."""
    asked = (
        f"SELECT {HELD_COLUMNS} FROM {HELD_TABLES} WHERE held_calls.user_id = ? AND sessions.clearance <= ?"
        " AND held_calls.state = 'waiting' AND held_calls.expires > ? ORDER BY held_calls.expires, held_calls.id"
    )
    return [read_held(row) for row in state.execute(asked, (user, int(clearance), now.timestamp()))]


def list_of_turn(state: sqlite3.Connection, turn: str) -> list[HeldCall]:
    """List the waiting calls of a turn, the oldest first."""
    asked = f"SELECT {HELD_COLUMNS} FROM {HELD_TABLES} WHERE held_calls.turn_id = ? AND held_calls.state = 'waiting'"
    return [read_held(row) for row in state.execute(f"{asked} ORDER BY held_calls.expires, held_calls.id", (turn,))]


def list_overdue(state: sqlite3.Connection, now: datetime) -> list[HeldCall]:
    """List the waiting calls that have expired."""
    asked = f"SELECT {HELD_COLUMNS} FROM {HELD_TABLES} WHERE held_calls.state = 'waiting' AND held_calls.expires <= ?"
    return [read_held(row) for row in state.execute(asked, (now.timestamp(),))]


def read_held(row: Sequence[Any]) -> HeldCall:
    """Make a held call from its row."""
    identifier, turn, session, agent, channel, user, clearance, name, arguments, question, became, *times = row
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
        state=HeldState(became),
        created=parse_moment(created),
        expires=datetime.fromtimestamp(expires, UTC),
        run=run or "",
        result=result,
    )


def read_origin(state: sqlite3.Connection, held: HeldCall) -> RoutedMessage:
    """Read the message of the turn that made a call."""
    text, request = state.execute("SELECT text, request FROM turns WHERE id = ?", (held.turn,)).fetchone()
    return load_message(text, request)


def make_incoming(state: sqlite3.Connection, held: HeldCall) -> RoutedMessage:
    """Make the message that runs a held call: by the same person, in the same session.

    It has an empty client request: a retry of the first request must not find the run.
    """
    return replace(
        read_origin(state, held),
        text=ALLOWED_TEXT.format(id=held.id, name=held.name),
        session=held.session,
        held=held.id,
        key=f"\x01held {held.id}",  # no channel has such a key
        before=None,
        beginning=None,
        traceparent="",
        asks=False,
        request=ClientRequest(),
    )


def add_note(state: sqlite3.Connection, held: HeldCall, words: str) -> None:
    """Record the end of a call in its session."""
    before = read_prompt("gateway/decided")
    messages = dump_messages([make_user_message(before), ModelResponse(parts=[TextPart(content=words)])])
    piece = HistoryPiece(
        kind=HistoryKind.ROOM,
        messages=messages,
        tokens=(len(before) + len(words)) // CHARS_PER_TOKEN,
        turn=held.turn,
        beginning=find_newest_hash(state, held.session),
    )
    append_piece(state, held.session, piece)


def post_note(state: sqlite3.Connection, held: HeldCall, words: str, now: datetime) -> None:
    """Send a note to the private address of a session, if it has one."""
    origin = read_origin(state, held)
    if origin.address and not origin.room:
        channel = origin.through or origin.channel
        key = f"held\x00{held.id}"
        post_message(
            state, OutboundMessage(key=key, channel=channel, address=origin.address, text=words, turn=held.turn), now
        )


def show_waiting(calls: Sequence[HeldCall], *, telegram: bool, room: bool) -> str:
    """Write the notice below a reply: the waiting calls, and the ways to decide about them."""
    user = calls[0].user
    decision = f"{user} can approve this in a private chat" if room and user else "You can approve this"
    parts = ["Waiting for your approval; nothing has run yet:"]
    for one in calls:
        ways = [f"`/allow {one.id}` or `/deny {one.id}` in `foreword chat`", f"`POST /api/held/{one.id}` in the API"]
        if telegram:
            ways.insert(0, f"/allow_{one.id} or /deny_{one.id} in a private Telegram chat")
        parts += [quote_as_code(one.question), f"{decision}, within 24 hours: {', '.join(ways)}."]
    return "\n\n".join(parts)


def quote_as_code(text: str) -> str:
    """Quote a text as a code block; no fence inside the text can end it."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"
