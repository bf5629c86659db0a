"""Receives what channels hear: has it routed, and sees to it that whatever was decided is kept when it returns."""

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from foreword.errors import InputError
from foreword.events.event import Context, EventType, Level, Recorder
from foreword.events.trace import Timepiece, Trace, make_id
from foreword.frozen import frozen
from foreword.gateway import pairing
from foreword.gateway.admission import write_key
from foreword.gateway.channel import Chat, Heard
from foreword.gateway.checking import check
from foreword.gateway.commands import HOW_TO_DROP, NOTHING_WAITS, PRIVATE_ONLY, Command, list_waiting, run_command
from foreword.gateway.guessing import Guesses
from foreword.gateway.held_calls import HeldCall, HeldCalls, quote
from foreword.gateway.lane import find_lane
from foreword.gateway.letter import Letter, post
from foreword.gateway.message import Accepted, Incoming
from foreword.gateway.overheard import keep
from foreword.gateway.pairing import burn
from foreword.gateway.router import Decision, Route, find_identity, route
from foreword.gateway.strangers import find_excess, is_bounded, post_notice
from foreword.gateway.writer import Writer
from foreword.signal.labels import drop_corrected
from foreword.sources.builtin import read_prompt
from foreword.workspace import Workspace

KNOWN = "You are known here as {} already."
WELCOME = "Welcome, {}. From now on I know you here."
NO_CODE = "That code is not good: it may be mistyped, used or too old. Ask the owner for a new one."
HOW = "Send the code that the owner gave you: /pair CODE. It is good here, in private."
SEEN = "Others can read that code here, so it is good no more. Ask the owner for a new one and send it in private."
HELP = "Write to me in your own words, and I answer."
STRANGER = "I do not know you yet. If the owner gave you a code, send it to me here: /pair CODE."
ELSEWHERE = "Pairing works in private alone. Write to me directly."
TOO_MANY = "Too many codes were tried. Wait an hour, and try again."

ALLOWED_NOW = "{name} is approved. The result will appear in its conversation."
ALLOWED_BEFORE = "{name} was already approved; it runs once."
DENIED_NOW = "{name} is denied. Nothing was done."

LATEST = """
SELECT text, received AS moment FROM turns WHERE key = ?1 OR key > ?2 AND key < ?3
UNION ALL SELECT text, heard FROM overheard WHERE key = ?1 OR key > ?2 AND key < ?3
ORDER BY moment DESC LIMIT 1"""


@frozen(eq=True)
class Received:
    """What became of what was heard."""

    decision: Decision
    accepted: Accepted | None = None
    """The turn that it is, where it is one."""
    repeated: bool = False
    """Whether it was heard before, so that nothing more was done."""


class Receiving:
    """Receives for a gateway."""

    def __init__(
        self,
        workspace: Workspace,
        writer: Writer,
        recorder: Recorder,
        clock: Callable[[], datetime],
        *,
        accept: Callable[[Incoming], Awaitable[Accepted]],
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
        self._guesses = Guesses()

    async def receive(self, heard: Heard) -> Received:
        """Receive a message: when this returns it is kept, and where it raises it is not.

        Where the reply is delivered, what is wrong with a message is told in a letter, since nobody waits to hear it.
        """
        identity = find_identity(heard)
        paired = await self._writer.look(lambda state: pairing.find_paired(state, identity))
        decision = route(heard, self._workspace.config, paired)
        if not heard.address:
            return Received(decision=decision, accepted=await self._accept(decision.incoming))
        key = write_key(decision.incoming)
        if key and (known := await self._writer.look(lambda state: find_known(state, key))):
            return Received(decision=decision, accepted=known.accepted, repeated=True)
        if await self._writer.look(lambda state: is_unchanged(state, heard, decision.incoming)):
            ignored = replace(decision, route=Route.IGNORED, reason="it is an edit that changes no words")
            self._tell(ignored)
            return Received(decision=ignored)
        try:
            check(decision.incoming)
            return await self._follow(heard, decision)
        except InputError as error:
            words = str(error)
            self._tell(decision, level=Level.WARN, error=words)
            await self._answer(decision, lambda _: words)
            return Received(decision=decision)

    async def _follow(self, heard: Heard, decision: Decision) -> Received:
        """Do what was decided."""
        incoming, codes = decision.incoming, decision.claim.codes
        private = heard.chat is Chat.PRIVATE
        if codes and not private and await self._answer(decision, lambda state: SEEN if burn(state, codes) else ""):
            self._tell(decision, level=Level.WARN, burned=True)
            return Received(decision=decision)
        if decision.route is Route.TURN and is_bounded(incoming, self._workspace.config):
            decision = await self._bound(decision, private=private)
        if decision.route is Route.TURN:
            return Received(decision=decision, accepted=await self._accept(incoming))
        if decision.command:
            return await self._command(decision, decision.command, private=private)
        if decision.route is Route.PAIRING:
            await (self._pair(heard, decision) if private else self._answer(decision, lambda _: ELSEWHERE))
        elif decision.route is Route.HELP:
            await self._answer(decision, lambda _: self._explain(incoming, private=private))
        elif decision.route is Route.OVERHEARD:
            now, key = self._clock(), write_key(incoming)
            await self._writer.seal(lambda state: keep(state, incoming, heard.name, key, now))
        self._tell(decision)
        return Received(decision=decision)

    async def _decide(self, incoming: Incoming, command: Command) -> str:
        """Allow or deny the held call that is named, and return the answer; without an id list those that wait."""
        clearance = find_lane(replace(incoming, agent=""), self._workspace.config).lane.clearance
        if not command.rest:
            return show_choices(await self._held.list(incoming.user, clearance))
        found = await self._held.get(incoming.user, clearance, command.rest)
        if command.name == "deny":
            await self._held.deny(incoming.user, clearance, found.id)
            return DENIED_NOW.format(name=found.name)
        to = (incoming.channel, incoming.address)
        accepted = await self._held.allow(incoming.user, clearance, found.id, answer_to=to)
        return (ALLOWED_BEFORE if accepted.repeated else ALLOWED_NOW).format(name=found.name)

    async def _command(self, decision: Decision, command: Command, *, private: bool) -> Received:
        """Run a command of the channel, and answer it."""
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
                return Received(decision=decision, accepted=await self._accept(accepted))
        return Received(decision=decision)

    async def _drop(self, incoming: Incoming, which: str) -> str:
        """Drop the newest unanswered message, or all of them; refuse any other words."""
        if which.lower() not in ("", "all"):
            return HOW_TO_DROP
        waiting = await self._writer.look(lambda state: list_waiting(state, incoming, self._workspace))
        chosen = waiting if which else waiting[-1:]
        dropped = [one.asked for one in chosen if await self._stop(one.reply.turn)]
        if not dropped:
            return NOTHING_WAITS
        return f"Dropped: {dropped[0][:200]}" if len(dropped) == 1 else f"Dropped {len(dropped)} messages."

    async def _bound(self, decision: Decision, *, private: bool) -> Decision:
        """Leave a stranger without an answer who has had enough of them; in company the room hears them later."""
        incoming, config, now = decision.incoming, self._workspace.config, self._clock()
        reason = await self._writer.look(lambda state: find_excess(state, incoming, config, now))
        if not reason:
            return decision
        if private:
            await self._writer.seal(lambda state: post_notice(state, incoming, now))
        return replace(decision, route=Route.IGNORED if private else Route.OVERHEARD, reason=reason)

    def _explain(self, incoming: Incoming, *, private: bool) -> str:
        """Explain how one talks here, and in private who one is taken for."""
        if not private:
            return HELP
        known = incoming.user in self._workspace.config.users
        return f"{HELP} {KNOWN.format(incoming.user) if known else STRANGER}"

    async def _pair(self, heard: Heard, decision: Decision) -> None:
        """Redeem a code, and answer in words."""
        users, identity = self._workspace.config.users, find_identity(heard)
        who = pairing.Paired(identity=identity, user="", name=heard.name, since=self._clock())
        paired = ""

        def work(state: sqlite3.Connection) -> str:
            nonlocal paired
            paired = pairing.redeem(state, decision.claim.codes[0], who, users)
            return WELCOME.format(paired) if paired else NO_CODE

        if decision.incoming.user in users:
            await self._answer(decision, lambda _: KNOWN.format(decision.incoming.user))
        elif not identity or not (decision.claim.codes or len(heard.text.split()) > 1):
            await self._answer(decision, lambda _: HOW)  # a command with nothing behind it asks how
        elif not self._guesses.take(identity):
            await self._answer(decision, lambda _: TOO_MANY)
        else:
            # Whatever is no code was never given to anybody; it is a wrong one like any other.
            await self._answer(decision, work if decision.claim.codes else lambda _: NO_CODE)
        if paired:
            incoming = replace(decision.incoming, user=paired)
            clearance = find_lane(incoming, self._workspace.config).clearance
            self._make_trace(incoming).tell(
                EventType.TRUST_RESOLVED,
                **clearance.describe(incoming.situation),
                paired=identity,
            )

    async def _answer(self, decision: Decision, work: Callable[[sqlite3.Connection], str]) -> bool:
        """Answer a message at once, with whatever else is written for it; return whether there was anything to say."""
        incoming, now = decision.incoming, self._clock()
        key = f"answer\x00{write_key(incoming) or make_id(128)}"

        def write(state: sqlite3.Connection) -> bool:
            if state.execute("SELECT 1 FROM outbox WHERE key = ?", (key,)).fetchone():
                return True
            if text := work(state):
                letter = Letter(key=key, channel=incoming.channel, address=incoming.address, text=text)
                post(state, letter, now)
            return bool(text)

        return await self._writer.seal(write)

    def _tell(self, decision: Decision, **said: Any) -> None:
        """Tell that something was heard that is no turn, and why it is none."""
        self._make_trace(decision.incoming).tell(
            EventType.MESSAGE_RECEIVED,
            length=len(decision.incoming.text),
            route=str(decision.route),
            reason=decision.reason,
            **said,
        )

    def _make_trace(self, incoming: Incoming) -> Trace:
        lane = find_lane(replace(incoming, agent=""), self._workspace.config).lane
        context = Context(
            trust=lane.clearance, agent=lane.agent, user=incoming.user, channel=incoming.channel, room=incoming.room
        )
        return Trace(self._recorder, context, Timepiece(now=self._clock))


def show_choices(waiting: Sequence[HeldCall]) -> str:
    """List the waiting calls, each with the commands that decide about it."""
    if not waiting:
        return "No calls are waiting for approval."
    return "\n\n".join(f"{quote(one.question)}\n\n/allow_{one.id} or /deny_{one.id}" for one in waiting)


def is_unchanged(state: sqlite3.Connection, heard: Heard, incoming: Incoming) -> bool:
    """Whether an edit says what its message, or the last edit of that, said already."""
    if not heard.corrects:
        return False
    first = write_key(replace(incoming, key=heard.corrects))
    row = state.execute(LATEST, (first, f"{first}:", f"{first};")).fetchone()
    return row is not None and drop_corrected(row[0]) == drop_corrected(heard.text)


@frozen
class Known:
    """Something that was heard before."""

    accepted: Accepted | None = None


def find_known(state: sqlite3.Connection, key: str) -> Known | None:
    """Find what became of a message that was heard before."""
    turn = state.execute("SELECT id, session_id FROM turns WHERE key = ?", (key,)).fetchone()
    if turn:
        return Known(accepted=Accepted(turn=turn[0], session=turn[1], repeated=True))
    asked = "SELECT 1 FROM overheard WHERE key = ? UNION ALL SELECT 1 FROM outbox WHERE key = ? LIMIT 1"
    return Known() if state.execute(asked, (key, f"answer\x00{key}")).fetchone() else None
