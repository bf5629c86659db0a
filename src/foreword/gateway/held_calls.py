"""Held calls: tool calls that wait for a person's approval.

A held call has not run. It is stored with its exact arguments and belongs to the person whose turn made it. When that
person allows it, it becomes a turn of its session (`RoutedMessage.held`). The inbox marks it as allowed in the
transaction that accepts the turn, so it runs at most once.
"""

import re
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from foreword.engine.sources.documents import read_prompt
from foreword.errors import InputError
from foreword.events.event import EventType
from foreword.gateway.gateway_context import GatewayContext
from foreword.gateway.messages import AcceptedTurn, ClientRequest, NotFound, RoutedMessage, load_message
from foreword.gateway.notifications import make_note
from foreword.gateway.session_manager import make_event_context, resolve_session_key
from foreword.storage import history, turns
from foreword.storage.deliveries import OutboundMessage, post_message
from foreword.storage.sessions import get_session
from foreword.storage.turns import HeldCall, HeldState
from foreword.types import Trust, frozen

ALLOWED_TEXT = "I allow the call {id} of {name}, which was held."
DENIED_TEXT = "{name} was not run: {user} denied it (call {id})."
EXPIRED_TEXT = "{name} was not run: call {id} expired after 24 hours."
REVOKED_TEXT = "call {id} was not run: your access has changed since {name} was requested"
ALREADY_DECIDED_TEXT = "call {id} ({name}) is already {state}"
TOO_MANY_HELD_TEXT = "{name} was not called: {count} calls already await this person's approval."
HELD_TEXT = "{name} was not called: it needs approval. It is held as {id}. Do not retry; tell the person it is waiting."


@frozen
class HeldCalls:
    """The held calls of a gateway: listed, allowed, denied and expired."""

    context: GatewayContext

    async def list(self, user: str, clearance: Trust) -> Sequence[HeldCall]:
        """List the waiting calls of a person at or below a clearance, the oldest first."""
        now = self.context.clock()
        return await self.context.writer.read(lambda state: turns.list_waiting(state, user, clearance, now))

    async def list_of_turn(self, turn: str) -> Sequence[HeldCall]:
        """List the waiting calls of a turn, the oldest first."""
        return await self.context.writer.read(lambda state: turns.list_of_turn(state, turn))

    async def get(self, user: str, clearance: Trust, identifier: str) -> HeldCall:
        """Return a call of a person at or below a clearance; raise NotFound for any other."""
        held = await self.context.writer.read(lambda state: turns.find_held(state, identifier.strip().lower()))
        if held is None or held.user != user or held.clearance > clearance:
            raise NotFound("held call")
        return held

    async def make_run(
        self, user: str, clearance: Trust, identifier: str, *, asks: bool = False, answer_to: tuple[str, str] = ("", "")
    ) -> RoutedMessage | AcceptedTurn:
        """Return the message that runs a held call in its session, or the turn that ran it.

        `asks` is whether the person can be asked about further calls. The reply goes to `answer_to`, a channel and an
        address, if the session has no address.
        """
        held = await self.get(user, clearance, identifier)
        if held.state is HeldState.ALLOWED:
            return AcceptedTurn(turn=held.run, session=held.session, repeated=True)
        if held.state is not HeldState.WAITING or held.expires <= self.context.clock():
            state = held.state if held.state is not HeldState.WAITING else HeldState.EXPIRED
            raise InputError(ALREADY_DECIDED_TEXT.format(id=held.id, name=held.name, state=state))
        origin = await self.context.writer.read(lambda state: read_origin(state, held))
        incoming = make_run_message(origin, held, asks=asks)
        if not incoming.address:
            incoming = replace(incoming, through=answer_to[0], address=answer_to[1])
        if resolve_session_key(incoming, self.context.workspace.config).key.clearance != held.clearance:
            await self._end(held, HeldState.REFUSED)
            raise InputError(REVOKED_TEXT.format(name=held.name, id=held.id))
        return incoming

    async def deny(self, user: str, clearance: Trust, identifier: str) -> HeldCall:
        """Drop a held call, and record that in its session."""
        held = await self.get(user, clearance, identifier)
        note = DENIED_TEXT.format(name=held.name, user=held.user or "the person who asked", id=held.id)
        if held.state is HeldState.DENIED:
            return held
        if not await self._end(held, HeldState.DENIED, note):
            held = await self.get(user, clearance, identifier)
            raise InputError(ALREADY_DECIDED_TEXT.format(id=held.id, name=held.name, state=held.state))
        return replace(held, state=HeldState.DENIED)

    async def expire(self) -> None:
        """Drop the expired calls, and record that in their sessions."""
        now = self.context.clock()
        for held in await self.context.writer.read(lambda state: turns.list_overdue(state, now)):
            await self._end(held, HeldState.EXPIRED, EXPIRED_TEXT.format(name=held.name, id=held.id), post=True)

    async def _end(self, held: HeldCall, became: HeldState, note: str = "", *, post: bool = False) -> bool:
        """End a waiting call without running it, and log that; return whether it was waiting."""
        now = self.context.clock()

        def work(state: sqlite3.Connection) -> bool:
            if not turns.end_waiting(state, held.id, became, now):
                return False
            if note:
                beginning = history.find_newest_hash(state, held.session)
                piece = make_note(read_prompt("gateway/decided"), note, turn=held.turn, beginning=beginning)
                history.append_piece(state, held.session, piece)
            if post:
                post_note(state, held, note, now)
            return True

        if not await self.context.writer.write_durable(work):
            return False
        session = await self.context.writer.read(lambda state: get_session(state, held.session))
        if session:
            origin = await self.context.writer.read(lambda state: read_origin(state, held))
            trace = self.context.trace(make_event_context(session, origin))
            trace.emit(EventType.TOOL_CALL, name=held.name, status=str(became), held=held.id)
        return True


def read_origin(state: sqlite3.Connection, held: HeldCall) -> RoutedMessage:
    """Read the message of the turn that made a call."""
    return load_message(*turns.read_message(state, held.turn))


def make_run_message(origin: RoutedMessage, held: HeldCall, *, asks: bool) -> RoutedMessage:
    """Make the message that runs a held call: by the same person, in the same session.

    It has an empty client request: a retry of the first request must not find the run.
    """
    return replace(
        origin,
        text=ALLOWED_TEXT.format(id=held.id, name=held.name),
        session=held.session,
        held=held.id,
        key=f"\x01held {held.id}",  # no channel has such a key
        before=None,
        beginning=None,
        traceparent="",
        asks=asks,
        request=ClientRequest(),
    )


def post_note(state: sqlite3.Connection, held: HeldCall, note: str, now: datetime) -> None:
    """Send a note to the private address of a session, if it has one."""
    origin = read_origin(state, held)
    if origin.address and not origin.room:
        channel, key = origin.through or origin.channel, f"held\x00{held.id}"
        message = OutboundMessage(key=key, channel=channel, address=origin.address, text=note, turn=held.turn)
        post_message(state, message, now)


def show_waiting(calls: Sequence[HeldCall], *, telegram: bool, room: bool) -> str:
    """Write the notice below a reply: the waiting calls, and the ways to decide about them."""
    user = calls[0].user
    decision = f"{user} can approve this in a private chat" if room and user else "You can approve this"
    parts = ["Waiting for your approval; nothing has run yet:"]
    for call in calls:
        ways = [f"`/allow {call.id}` or `/deny {call.id}` in `foreword chat`", f"`POST /api/held/{call.id}` in the API"]
        if telegram:
            ways.insert(0, f"/allow_{call.id} or /deny_{call.id} in a private Telegram chat")
        parts += [quote_as_code(call.question), f"{decision}, within 24 hours: {', '.join(ways)}."]
    return "\n\n".join(parts)


def quote_as_code(text: str) -> str:
    """Quote a text as a code block; no fence inside the text can end it."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"
