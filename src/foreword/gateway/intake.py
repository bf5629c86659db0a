"""Intake of channel messages: routes each message and stores the outcome before it returns."""

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from foreword.engine.signal import drop_correction_label
from foreword.engine.sources.documents import read_prompt
from foreword.errors import InputError
from foreword.events.event import Context, EventType, Level, Recorder
from foreword.events.tracer import Clocks, Tracer, make_id
from foreword.gateway import pairing
from foreword.gateway.channel import ChatKind, InboundMessage
from foreword.gateway.held_calls import HeldCall, HeldCalls, quote_as_code
from foreword.gateway.messages import AcceptedTurn, RoutedMessage, check_message
from foreword.gateway.messenger_commands import (
    HOW_TO_DROP,
    NOTHING_WAITS,
    PRIVATE_ONLY,
    MessengerCommand,
    list_unanswered,
    run_command,
)
from foreword.gateway.pairing import revoke_codes
from foreword.gateway.rate_limit import PairingAttempts, find_exceeded_limit, is_limited, post_limit_notice
from foreword.gateway.rooms import store_overheard
from foreword.gateway.router import Route, RoutingDecision, find_identity, route
from foreword.gateway.session_lookup import make_idempotency_key, resolve_session_key
from foreword.storage.sessions import OutboundMessage, post_message
from foreword.storage.writer import Writer
from foreword.types import frozen
from foreword.workspace import Workspace

ALREADY_PAIRED = "I already know you here as {}."
WELCOME = "Welcome, {}. From now on I know you here."
NO_CODE = "This code is not valid: it may be mistyped, used or expired. Ask the owner for a new one."
HOW_TO_PAIR = "Send the code that the owner gave you: /pair CODE. It works only in a private chat."
CODE_EXPOSED = (
    "Others can read this code here, so it is no longer valid. Ask the owner for a new one and send it in private."
)
HELP = "Write to me in your own words, and I answer."
STRANGER = "I do not know you yet. If the owner gave you a code, send it to me here: /pair CODE."
PAIR_IN_PRIVATE = "Pairing works only in a private chat. Write to me directly."
TOO_MANY_CODES = "Too many codes were tried. Wait an hour, and try again."

ALLOWED_NOW = "{name} is approved. The result will appear in its conversation."
ALLOWED_BEFORE = "{name} was already approved; it runs once."
DENIED_NOW = "{name} is denied. Nothing was done."

SELECT_LATEST_EDIT = """
SELECT text, received AS moment FROM turns WHERE key = ?1 OR key > ?2 AND key < ?3
UNION ALL SELECT text, heard FROM overheard WHERE key = ?1 OR key > ?2 AND key < ?3
ORDER BY moment DESC LIMIT 1"""


@frozen(eq=True)
class IntakeResult:
    """The outcome of a received message."""

    decision: RoutingDecision
    accepted: AcceptedTurn | None = None
    """The accepted turn, if the message became one."""
    repeated: bool = False
    """Whether the message was received before, so nothing more was done."""


class Intake:
    """Receives messages for a gateway."""

    def __init__(
        self,
        workspace: Workspace,
        writer: Writer,
        recorder: Recorder,
        clock: Callable[[], datetime],
        *,
        accept: Callable[[RoutedMessage], Awaitable[AcceptedTurn]],
        stop: Callable[[str], Awaitable[bool]],
        held: HeldCalls,
    ) -> None:
        self._workspace = workspace
        self._writer = writer
        self._recorder = recorder
        self._clock = clock
        self._accept = accept
        self._held = held
        self._stop = stop
        self._guesses = PairingAttempts()

    async def receive(self, heard: InboundMessage) -> IntakeResult:
        """Receive a message: it is stored when this returns, and not stored if this raises.

        If the channel delivers replies, an error in the message is answered through the outbox, because no client waits
        for it.
        """
        identity = find_identity(heard)
        paired = await self._writer.look(lambda state: pairing.find_paired(state, identity))
        decision = route(heard, self._workspace.config, paired)
        if not heard.address:
            return IntakeResult(decision=decision, accepted=await self._accept(decision.incoming))
        key = make_idempotency_key(decision.incoming)
        if key and (known := await self._writer.look(lambda state: find_earlier(state, key))):
            return IntakeResult(decision=decision, accepted=known.accepted, repeated=True)
        if await self._writer.look(lambda state: is_unchanged(state, heard, decision.incoming)):
            ignored = replace(decision, route=Route.IGNORED, reason="the edit does not change the text")
            self._tell(ignored)
            return IntakeResult(decision=ignored)
        try:
            check_message(decision.incoming)
            return await self._follow(heard, decision)
        except InputError as error:
            words = str(error)
            self._tell(decision, level=Level.WARN, error=words)
            await self._answer(decision, lambda _: words)
            return IntakeResult(decision=decision)

    async def _follow(self, heard: InboundMessage, decision: RoutingDecision) -> IntakeResult:
        """Carry out a routing decision."""
        incoming, codes = decision.incoming, decision.claim.codes
        private = heard.chat is ChatKind.PRIVATE
        if (
            codes
            and not private
            and await self._answer(decision, lambda state: CODE_EXPOSED if revoke_codes(state, codes) else "")
        ):
            self._tell(decision, level=Level.WARN, burned=True)
            return IntakeResult(decision=decision)
        if decision.route is Route.TURN and is_limited(incoming, self._workspace.config):
            decision = await self._bound(decision, private=private)
        if decision.route is Route.TURN:
            return IntakeResult(decision=decision, accepted=await self._accept(incoming))
        if decision.command:
            return await self._command(decision, decision.command, private=private)
        if decision.route is Route.PAIRING:
            await (self._pair(heard, decision) if private else self._answer(decision, lambda _: PAIR_IN_PRIVATE))
        elif decision.route is Route.HELP:
            await self._answer(decision, lambda _: self._explain(incoming, private=private))
        elif decision.route is Route.OVERHEARD:
            now, key = self._clock(), make_idempotency_key(incoming)
            await self._writer.write_durable(lambda state: store_overheard(state, incoming, heard.name, key, now))
        self._tell(decision)
        return IntakeResult(decision=decision)

    async def _decide(self, incoming: RoutedMessage, command: MessengerCommand) -> str:
        """Allow or deny the named held call, and return the answer; without an id, list the waiting calls."""
        clearance = resolve_session_key(replace(incoming, agent=""), self._workspace.config).lane.clearance
        if not command.rest:
            return show_choices(await self._held.list(incoming.user, clearance))
        found = await self._held.get(incoming.user, clearance, command.rest)
        if command.name == "deny":
            await self._held.deny(incoming.user, clearance, found.id)
            return DENIED_NOW.format(name=found.name)
        to = (incoming.channel, incoming.address)
        accepted = await self._held.allow(incoming.user, clearance, found.id, answer_to=to)
        return (ALLOWED_BEFORE if accepted.repeated else ALLOWED_NOW).format(name=found.name)

    async def _command(self, decision: RoutingDecision, command: MessengerCommand, *, private: bool) -> IntakeResult:
        """Run a messenger command, and answer it."""
        incoming, now = decision.incoming, self._clock()
        self._tell(decision)
        if not private:
            await self._answer(decision, lambda _: PRIVATE_ONLY)
        elif command.decides:
            words = await self._decide(incoming, command)
            await self._answer(decision, lambda _: words)
        elif command.name == "drop":
            words = await self._drop(incoming, command.rest)
            await self._answer(decision, lambda _: words)
        else:

            def work(state: sqlite3.Connection) -> str:
                return run_command(state, command, incoming, self._workspace, now)

            told = await self._answer(decision, work)
            if command.accepts and not told:
                accepted = replace(incoming, text=read_prompt("chat/accepted"))
                return IntakeResult(decision=decision, accepted=await self._accept(accepted))
        return IntakeResult(decision=decision)

    async def _drop(self, incoming: RoutedMessage, which: str) -> str:
        """Drop the newest unanswered message, or all of them; explain the command for any other text."""
        if which.lower() not in ("", "all"):
            return HOW_TO_DROP
        waiting = await self._writer.look(lambda state: list_unanswered(state, incoming, self._workspace))
        chosen = waiting if which else waiting[-1:]
        dropped = [one.asked for one in chosen if await self._stop(one.reply.turn)]
        if not dropped:
            return NOTHING_WAITS
        return f"Dropped: {dropped[0][:200]}" if len(dropped) == 1 else f"Dropped {len(dropped)} messages."

    async def _bound(self, decision: RoutingDecision, *, private: bool) -> RoutingDecision:
        """Ignore a stranger who exceeds the limit; in a group, store the message as overheard."""
        incoming, config, now = decision.incoming, self._workspace.config, self._clock()
        reason = await self._writer.look(lambda state: find_exceeded_limit(state, incoming, config, now))
        if not reason:
            return decision
        if private:
            await self._writer.write_durable(lambda state: post_limit_notice(state, incoming, now))
        return replace(decision, route=Route.IGNORED if private else Route.OVERHEARD, reason=reason)

    def _explain(self, incoming: RoutedMessage, *, private: bool) -> str:
        """Explain how to use the bot, and in private who the person is known as."""
        if not private:
            return HELP
        known = incoming.user in self._workspace.config.users
        return f"{HELP} {ALREADY_PAIRED.format(incoming.user) if known else STRANGER}"

    async def _pair(self, heard: InboundMessage, decision: RoutingDecision) -> None:
        """Redeem a code, and answer."""
        users, identity = self._workspace.config.users, find_identity(heard)
        who = pairing.PairedIdentity(identity=identity, user="", name=heard.name, since=self._clock())
        paired = ""

        def work(state: sqlite3.Connection) -> str:
            nonlocal paired
            paired = pairing.redeem_code(state, decision.claim.codes[0], who, users)
            return WELCOME.format(paired) if paired else NO_CODE

        if decision.incoming.user in users:
            await self._answer(decision, lambda _: ALREADY_PAIRED.format(decision.incoming.user))
        elif not identity or not (decision.claim.codes or len(heard.text.split()) > 1):
            await self._answer(decision, lambda _: HOW_TO_PAIR)  # the command has no code
        elif not self._guesses.take(identity):
            await self._answer(decision, lambda _: TOO_MANY_CODES)
        else:
            # A malformed code counts as a wrong one.
            await self._answer(decision, work if decision.claim.codes else lambda _: NO_CODE)
        if paired:
            incoming = replace(decision.incoming, user=paired)
            clearance = resolve_session_key(incoming, self._workspace.config).clearance
            self._make_trace(incoming).tell(
                EventType.TRUST_RESOLVED,
                **clearance.describe(incoming.situation),
                paired=identity,
            )

    async def _answer(self, decision: RoutingDecision, work: Callable[[sqlite3.Connection], str]) -> bool:
        """Answer a message through the outbox, with the writes of `work` in the same transaction.

        Return whether there was an answer.
        """
        incoming, now = decision.incoming, self._clock()
        key = f"answer\x00{make_idempotency_key(incoming) or make_id(128)}"

        def write(state: sqlite3.Connection) -> bool:
            if state.execute("SELECT 1 FROM outbox WHERE key = ?", (key,)).fetchone():
                return True
            if text := work(state):
                letter = OutboundMessage(key=key, channel=incoming.channel, address=incoming.address, text=text)
                post_message(state, letter, now)
            return bool(text)

        return await self._writer.write_durable(write)

    def _tell(self, decision: RoutingDecision, **said: Any) -> None:
        """Log a message that does not become a turn, and why."""
        self._make_trace(decision.incoming).tell(
            EventType.MESSAGE_RECEIVED,
            length=len(decision.incoming.text),
            route=str(decision.route),
            reason=decision.reason,
            **said,
        )

    def _make_trace(self, incoming: RoutedMessage) -> Tracer:
        lane = resolve_session_key(replace(incoming, agent=""), self._workspace.config).lane
        context = Context(
            trust=lane.clearance, agent=lane.agent, user=incoming.user, channel=incoming.channel, room=incoming.room
        )
        return Tracer(self._recorder, context, Clocks(now=self._clock))


def show_choices(waiting: Sequence[HeldCall]) -> str:
    """List the waiting calls, each with the commands that decide about it."""
    if not waiting:
        return "No calls are waiting for approval."
    return "\n\n".join(f"{quote_as_code(one.question)}\n\n/allow_{one.id} or /deny_{one.id}" for one in waiting)


def is_unchanged(state: sqlite3.Connection, heard: InboundMessage, incoming: RoutedMessage) -> bool:
    """Return whether an edit has the same text as its message or the previous edit."""
    if not heard.corrects:
        return False
    first = make_idempotency_key(replace(incoming, key=heard.corrects))
    row = state.execute(SELECT_LATEST_EDIT, (first, f"{first}:", f"{first};")).fetchone()
    return row is not None and drop_correction_label(row[0]) == drop_correction_label(heard.text)


@frozen
class EarlierMessage:
    """A message that was received before."""

    accepted: AcceptedTurn | None = None


def find_earlier(state: sqlite3.Connection, key: str) -> EarlierMessage | None:
    """Find the outcome of a message that was received before."""
    turn = state.execute("SELECT id, session_id FROM turns WHERE key = ?", (key,)).fetchone()
    if turn:
        return EarlierMessage(accepted=AcceptedTurn(turn=turn[0], session=turn[1], repeated=True))
    asked = "SELECT 1 FROM overheard WHERE key = ? UNION ALL SELECT 1 FROM outbox WHERE key = ? LIMIT 1"
    return EarlierMessage() if state.execute(asked, (key, f"answer\x00{key}")).fetchone() else None
