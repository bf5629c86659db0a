"""Intake of channel messages: routes each message and stores the outcome before it returns."""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from foreword.config.schema import Config
from foreword.engine.signal import drop_correction_label
from foreword.engine.sources.documents import read_prompt
from foreword.errors import InputError
from foreword.events.event import Context, EventType, Level
from foreword.events.tracer import Tracer, make_id
from foreword.gateway.channel import ChatKind, InboundMessage
from foreword.gateway.held_calls import quote_as_code
from foreword.gateway.messages import AcceptedTurn, RoutedMessage, check_message
from foreword.gateway.pairing import redeem_code
from foreword.gateway.rooms import store_overheard
from foreword.gateway.router import (
    HOW_TO_DROP,
    NOTHING_WAITS,
    PRIVATE_ONLY,
    MessengerCommand,
    Route,
    RoutingDecision,
    find_family,
    find_identity,
    list_unanswered,
    route,
    run_command,
)
from foreword.gateway.session_manager import make_idempotency_key, resolve_session_key
from foreword.storage import history, turns
from foreword.storage.deliveries import OutboundMessage, is_posted, post_message
from foreword.storage.pairings import PairedIdentity, find_paired, revoke_codes
from foreword.storage.turns import HeldCall
from foreword.types import frozen

if TYPE_CHECKING:
    from foreword.gateway.service import Gateway

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

STRANGER_PERIOD = timedelta(hours=1)
LIMIT_NOTICE = "I answer only a limited number of messages from people I do not know. Please write again in an hour."


@frozen(eq=True)
class IntakeResult:
    """The outcome of a received message."""

    decision: RoutingDecision
    accepted: AcceptedTurn | None = None
    """The accepted turn, if the message became one."""
    repeated: bool = False
    """Whether the message was received before, so nothing more was done."""


async def receive_message(gateway: "Gateway", message: InboundMessage) -> IntakeResult:
    """Receive a message: it is stored when this returns, and not stored if this raises.

    If the channel delivers replies, an error in the message is answered through the outbox, because no client waits
    for it.
    """
    identity = find_identity(message)
    paired = await gateway.writer.read(lambda state: find_paired(state, identity))
    decision = route(message, gateway.workspace.config, paired)
    incoming = decision.incoming
    if not message.address:
        return IntakeResult(decision=decision, accepted=await gateway.accept(incoming, message.images))
    key = make_idempotency_key(incoming)
    if key:
        earlier, accepted = await gateway.writer.read(lambda state: find_earlier(state, key))
        if earlier:
            return IntakeResult(decision=decision, accepted=accepted, repeated=True)
    edited = bool(message.corrects)
    if edited and await gateway.writer.read(lambda state: is_unchanged(state, message, incoming)):
        ignored = replace(decision, route=Route.IGNORED, reason="the edit does not change the text")
        log_message(gateway, ignored)
        return IntakeResult(decision=ignored)
    try:
        check_message(incoming)
        return await follow_decision(gateway, message, decision)
    except InputError as error:
        log_message(gateway, decision, level=Level.WARN, error=str(error))
        await post_answer(gateway, decision, str(error))
        return IntakeResult(decision=decision)


async def follow_decision(gateway: "Gateway", message: InboundMessage, decision: RoutingDecision) -> IntakeResult:
    """Carry out a routing decision."""
    incoming, codes = decision.incoming, decision.claim.codes
    private = message.chat is ChatKind.PRIVATE
    if (
        codes
        and not private
        and await post_answer(gateway, decision, lambda state: CODE_EXPOSED if revoke_codes(state, codes) else "")
    ):
        log_message(gateway, decision, level=Level.WARN, burned=True)
        return IntakeResult(decision=decision)
    if decision.route is Route.TURN and is_limited(incoming, gateway.workspace.config):
        decision = await limit_stranger(gateway, decision, private=private)
    if decision.route is Route.TURN:
        return IntakeResult(decision=decision, accepted=await gateway.accept(incoming, message.images))
    if decision.command:
        return await answer_command(gateway, decision, decision.command, private=private)
    if decision.route is Route.PAIRING:
        await (
            pair_identity(gateway, message, decision) if private else post_answer(gateway, decision, PAIR_IN_PRIVATE)
        )
    elif decision.route is Route.HELP:
        await post_answer(gateway, decision, explain_usage(gateway, incoming, private=private))
    elif decision.route is Route.OVERHEARD:
        now, key = gateway.clock(), make_idempotency_key(incoming)
        await gateway.writer.write_durable(lambda state: store_overheard(state, incoming, message.name, key, now))
    log_message(gateway, decision)
    return IntakeResult(decision=decision)


async def decide_held_call(gateway: "Gateway", incoming: RoutedMessage, command: MessengerCommand) -> str:
    """Allow or deny the named held call, and return the answer; without an id, list the waiting calls."""
    user = incoming.user
    clearance = resolve_session_key(replace(incoming, agent=""), gateway.workspace.config).key.clearance
    if not command.rest:
        return show_choices(await gateway.held.list(user, clearance))
    if command.name == "deny":
        return DENIED_NOW.format(name=(await gateway.held.deny(user, clearance, command.rest)).name)
    call = await gateway.held.get(user, clearance, command.rest)
    to = (incoming.channel, incoming.address)
    run = await gateway.held.make_run(user, clearance, call.id, answer_to=to)
    accepted = run if isinstance(run, AcceptedTurn) else await gateway.accept(run)
    return (ALLOWED_BEFORE if accepted.repeated else ALLOWED_NOW).format(name=call.name)


async def answer_command(
    gateway: "Gateway", decision: RoutingDecision, command: MessengerCommand, *, private: bool
) -> IntakeResult:
    """Run a messenger command, and answer it."""
    incoming, now = decision.incoming, gateway.clock()
    log_message(gateway, decision)
    if not private:
        await post_answer(gateway, decision, PRIVATE_ONLY)
    elif command.decides:
        await post_answer(gateway, decision, await decide_held_call(gateway, incoming, command))
    elif command.name == "drop":
        await post_answer(gateway, decision, await drop_messages(gateway, incoming, command.rest))
    else:
        answered = await post_answer(
            gateway, decision, lambda state: run_command(state, command, incoming, gateway.workspace, now)
        )
        if command.accepts and not answered:
            accepted = replace(incoming, text=read_prompt("chat/accepted"))
            return IntakeResult(decision=decision, accepted=await gateway.accept(accepted))
    return IntakeResult(decision=decision)


async def drop_messages(gateway: "Gateway", incoming: RoutedMessage, which: str) -> str:
    """Drop the newest unanswered message, or all of them; explain the command for any other text."""
    if which.lower() not in ("", "all"):
        return HOW_TO_DROP
    waiting = await gateway.writer.read(lambda state: list_unanswered(state, incoming, gateway.workspace))
    chosen = waiting if which else waiting[-1:]
    dropped = [message.asked for message in chosen if await gateway.stop(message.reply.turn)]
    if not dropped:
        return NOTHING_WAITS
    return f"Dropped: {dropped[0][:200]}" if len(dropped) == 1 else f"Dropped {len(dropped)} messages."


async def limit_stranger(gateway: "Gateway", decision: RoutingDecision, *, private: bool) -> RoutingDecision:
    """Ignore a stranger who exceeds the limit; in a group, store the message as overheard."""
    incoming, config, now = decision.incoming, gateway.workspace.config, gateway.clock()
    reason = await gateway.writer.read(lambda state: find_exceeded_limit(state, incoming, config, now))
    if not reason:
        return decision
    if private:  # once per period
        period = int(now.timestamp() // STRANGER_PERIOD.total_seconds())
        key = f"answer\x00strangers\x00{incoming.user}\x00{period}"
        notice = OutboundMessage(key=key, channel=incoming.channel, address=incoming.address, text=LIMIT_NOTICE)
        await gateway.writer.write_durable(lambda state: post_message(state, notice, now))
    return replace(decision, route=Route.IGNORED if private else Route.OVERHEARD, reason=reason)


def explain_usage(gateway: "Gateway", incoming: RoutedMessage, *, private: bool) -> str:
    """Explain how to use the bot, and in private who the person is known as."""
    if not private:
        return HELP
    known = incoming.user in gateway.workspace.config.users
    return f"{HELP} {ALREADY_PAIRED.format(incoming.user) if known else STRANGER}"


async def pair_identity(gateway: "Gateway", message: InboundMessage, decision: RoutingDecision) -> None:
    """Redeem a code, and answer."""
    users, identity = gateway.workspace.config.users, find_identity(message)
    codes, user = decision.claim.codes, decision.incoming.user
    if user in users:
        await post_answer(gateway, decision, ALREADY_PAIRED.format(user))
    elif not identity or not (codes or len(message.text.split()) > 1):
        await post_answer(gateway, decision, HOW_TO_PAIR)  # the command has no code
    elif not gateway.pairing_attempts.take(identity):
        await post_answer(gateway, decision, TOO_MANY_CODES)
    elif not codes:  # a malformed code counts as a wrong one
        await post_answer(gateway, decision, NO_CODE)
    else:
        await redeem_pairing_code(gateway, message, decision, identity)


async def redeem_pairing_code(
    gateway: "Gateway", message: InboundMessage, decision: RoutingDecision, identity: str
) -> None:
    """Redeem a code, and record the sender's new clearance."""
    config = gateway.workspace.config
    new = PairedIdentity(identity=identity, user="", name=message.name, since=gateway.clock())
    paired = ""

    def redeem(state: sqlite3.Connection) -> str:
        nonlocal paired
        paired = redeem_code(state, decision.claim.codes[0], new, config.users)
        return WELCOME.format(paired) if paired else NO_CODE

    await post_answer(gateway, decision, redeem)
    if paired:
        incoming = replace(decision.incoming, user=paired)
        clearance = resolve_session_key(incoming, config).clearance
        make_message_trace(gateway, incoming).emit(
            EventType.TRUST_RESOLVED, **clearance.describe(incoming.situation), paired=identity
        )


async def post_answer(
    gateway: "Gateway", decision: RoutingDecision, answer: str | Callable[[sqlite3.Connection], str]
) -> bool:
    """Answer a message through the outbox, with the writes of `answer` in the same transaction.

    Return whether there was an answer.
    """
    incoming, now = decision.incoming, gateway.clock()
    key = f"answer\x00{make_idempotency_key(incoming) or make_id(128)}"

    def write(state: sqlite3.Connection) -> bool:
        if is_posted(state, key):
            return True
        if text := answer if isinstance(answer, str) else answer(state):
            reply = OutboundMessage(key=key, channel=incoming.channel, address=incoming.address, text=text)
            post_message(state, reply, now)
        return bool(text)

    return await gateway.writer.write_durable(write)


def log_message(gateway: "Gateway", decision: RoutingDecision, **details: Any) -> None:
    """Log a message that does not become a turn, and why."""
    make_message_trace(gateway, decision.incoming).emit(
        EventType.MESSAGE_RECEIVED,
        length=len(decision.incoming.text),
        route=str(decision.route),
        reason=decision.reason,
        **details,
    )


def make_message_trace(gateway: "Gateway", incoming: RoutedMessage) -> Tracer:
    """Begin the trace of a message that becomes no turn."""
    key = resolve_session_key(replace(incoming, agent=""), gateway.workspace.config).key
    context = Context(
        trust=key.clearance, agent=key.agent, user=incoming.user, channel=incoming.channel, room=incoming.room
    )
    return gateway.context.trace(context)


def show_choices(waiting: Sequence[HeldCall]) -> str:
    """List the waiting calls, each with the commands that decide about it."""
    if not waiting:
        return "No calls are waiting for approval."
    return "\n\n".join(f"{quote_as_code(call.question)}\n\n/allow_{call.id} or /deny_{call.id}" for call in waiting)


def is_limited(incoming: RoutedMessage, config: Config) -> bool:
    """Return whether a message is from a stranger, in private or in a place that is not a configured room."""
    return incoming.user not in config.users and incoming.room not in config.rooms


def find_exceeded_limit(state: sqlite3.Connection, incoming: RoutedMessage, config: Config, now: datetime) -> str:
    """Return why a stranger is not answered now; empty if they are. The owner pays for answers to strangers."""
    limits, since, user = config.strangers, now - STRANGER_PERIOD, incoming.user
    if turns.count_received(state, user, f"{user}\x00", since) >= limits.turns:
        return f"a stranger gets at most {limits.turns:,} answers an hour"
    family = find_family(incoming.channel)  # the names of strangers are identities
    if turns.count_received(state, f"{family}:", f"{family};", since) >= limits.all_turns:
        return f"all strangers together get at most {limits.all_turns:,} answers an hour"
    return ""


def is_unchanged(state: sqlite3.Connection, message: InboundMessage, incoming: RoutedMessage) -> bool:
    """Return whether an edit has the same text as its message or the previous edit."""
    first = make_idempotency_key(replace(incoming, key=message.corrects))
    text = history.find_latest_edit(state, first) if first else None
    return text is not None and drop_correction_label(text) == drop_correction_label(message.text)


def find_earlier(state: sqlite3.Connection, key: str) -> tuple[bool, AcceptedTurn | None]:
    """Return whether a message was received before, and the turn that it became."""
    if turn := turns.find_by_key(state, key):
        return True, AcceptedTurn(turn=turn.turn, session=turn.session, repeated=True)
    return history.is_overheard(state, key) or is_posted(state, f"answer\x00{key}"), None
