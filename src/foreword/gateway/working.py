"""Works on one turn that was claimed: prepares it, runs it, and writes down what came of it."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Protocol

from pydantic_ai.messages import ModelResponse, TextPart

from foreword.assembly import Assembly
from foreword.errors import BudgetError, InputError, UnusableRules
from foreword.events.event import EventType, Level
from foreword.events.trace import Trace, describe_error
from foreword.frozen import frozen
from foreword.gateway.bookkeeping import Entry, Lesson
from foreword.gateway.held_calls import HELD, MAX_HELD_CALLS, TOO_MANY, show_waiting
from foreword.gateway.inbox import Claimed, Ending, Inbox, LeaseLost, Spent
from foreword.gateway.message import State
from foreword.gateway.preparing import Changed, Prepared, Preparing
from foreword.gateway.room import find_words
from foreword.gateway.spoken import SEPARATOR, Spoken
from foreword.ledger import Frozen
from foreword.runtime.accounting import Settled
from foreword.runtime.calling import SPENT, STOPPED
from foreword.runtime.calls import Asked, read_calls
from foreword.runtime.ears import Anew, Asking, Calling, Delta, Ears, ListenerFailed, Returned, Words
from foreword.runtime.history import Messages, close, find_answer, list_calls, read_text, say
from foreword.runtime.loop import Loop, Work
from foreword.runtime.outcome import End, Outcome
from foreword.runtime.silence import cut_silence
from foreword.turn import Turn
from foreword.words import Mode, Trust

TOO_LATE = "The model could not be reached for a day, so this message stays unanswered. Please send it again."
TOLD = (InputError, BudgetError)  # whose words are for the person
BROKEN = "Something went wrong here, and not with you. The log has the details."
RESULT = "What came of {name} (held call {id}; the text comes from the tool, not from the person):\n{text}"
ENDS = {End.ANSWERED: State.ANSWERED, End.REFUSED: State.REFUSED, End.FAILED: State.FAILED, End.QUEUED: State.QUEUED}


@frozen
class Patience:
    """How long is waited for a provider that does not answer, and for a disk that takes nothing."""

    later: tuple[float, ...] = (60.0, 120.0, 300.0, 600.0, 900.0)
    """Seconds after which a queued turn is tried again; the last ones again and again."""
    give_up: timedelta = timedelta(days=1)
    disk: tuple[float, ...] = (0.2, 1.0, 2.0, 5.0)
    """Seconds after which an ending that could not be written is written again."""


USUAL = Patience()


class Aside(Protocol):
    """Who is told that an ending could not be written yet."""

    def __call__(self, claimed: Claimed, ending: Ending) -> None:
        """Take note of what came of the turn, so that nobody waits for the disk."""


def ignore(_: Claimed) -> None:
    """Do nothing more with a turn that has ended."""


class Steps:
    """The steps of one turn as they are kept."""

    def __init__(self, claimed: Claimed, inbox: Inbox, preparing: Preparing, ears: Ears) -> None:
        self.messages: Messages = claimed.taken
        self.held = claimed.attempt > 1
        """Whether calls of the turn may wait for approval: some do, or an earlier attempt may have held some."""
        self.results: tuple[str, ...] = ()
        """What the held call that the turn runs has answered."""
        self._began: Frozen | None = None
        self._frozen: Frozen | None = None
        self._lessons: tuple[Lesson, ...] = ()
        self._sent = False
        self._recorded = self._says = True
        self._claimed = claimed
        self._inbox = inbox
        self._preparing = preparing
        self._hear = ears.delta
        self.spoken = Spoken()
        """The words as a stream shows them."""
        self._words: list[str] = []
        self.ears = replace(ears, delta=self._pass_on, step=self._keep, hold=self._hold, advance=self._advance)

    async def _pass_on(self, delta: Delta) -> None:
        """Pass on a piece; before each tool, check whether the person may still see what it would show."""
        if isinstance(delta, Calling) and (fault := await self._preparing.find_change(self._claimed)):
            raise Changed(fault)
        self.spoken.add(delta)
        if isinstance(delta, Words):
            self._words.append(delta.text)
        elif isinstance(delta, Anew):
            self._words.clear()
        await self._hear(delta)

    async def _hold(self, asking: Asking, arguments: Mapping[str, Any]) -> str:
        """Hold a call until its person decides, and return what the model is told."""
        held = await self._inbox.hold(self._claimed, asking, arguments)
        if held is None:
            return TOO_MANY.format(name=asking.name, count=MAX_HELD_CALLS)
        self.held = True
        return HELD.format(name=held.name, id=held.id)

    async def _keep(self, messages: Messages) -> None:
        """Keep a step; an answer that calls no tool is the end, which is written with all that belongs to it."""
        if not is_last(messages):
            await self._inbox.keep(self._claimed, messages, self.enter(messages))
            self._lessons = ()
        self.messages = messages
        self._words.clear()

    def begin(self, prepared: Prepared) -> None:
        """Begin with what the session has sent before."""
        self._began = self._frozen = prepared.frozen
        self._recorded, self._says = prepared.recorded, prepared.assembly.standing.says

    def _advance(self, settled: Settled) -> None:
        """Take what a provider has accepted as sent."""
        sent = settled.frozen.last
        self._frozen, self._sent = settled.frozen, True
        if settled.account:
            lesson = Lesson(model=sent.model, counted=settled.counted, reported=settled.account.reported.total)
            self._lessons = (*self._lessons, lesson)

    def enter(self, messages: Messages) -> Entry | None:
        """Say what is kept of the calls with these messages: without any, the session is told nothing by the turn."""
        if not self._sent or not self._recorded:
            return None
        anew = bool(self._began and not self._began.base.blocks)
        return Entry(
            frozen=self._frozen if messages or not self._says else self._began, lessons=self._lessons, anew=anew
        )

    def close(self, words: str) -> Messages:
        """Close the turn where it is, with what was said of an unfinished answer, so that the next one can follow."""
        messages = self.messages or (say(find_words(self._claimed.incoming), *self.results),)
        if said := "".join(self._words).strip():
            messages = (*messages, ModelResponse(parts=[TextPart(content=f"{said}{SEPARATOR}({words})")]))
        return close(messages, words)


class Working:
    """Works on turns; whoever stops one cancels the task that runs it."""

    def __init__(
        self,
        inbox: Inbox,
        preparing: Preparing,
        loop: Loop,
        aside: Aside,
        patience: Patience = USUAL,
        *,
        after: Callable[[Claimed], None] = ignore,
    ) -> None:
        self._inbox = inbox
        self._preparing = preparing
        self._loop = loop
        self._aside = aside
        self._patience = patience
        self._after = after

    async def work(self, trace: Trace, claimed: Claimed, ears: Ears, stopped: Callable[[], bool]) -> Ending:
        """Work on a turn to its end, or as far as it goes now; a process that ends leaves it to the next one."""
        SPENT.set([])
        steps = Steps(claimed, self._inbox, self._preparing, ears)
        if stopped():  # before it began
            return await self._settle(trace, claimed, self._stop(trace, claimed, steps))
        try:
            ending = await self._answer(trace, claimed, steps)
        except asyncio.CancelledError as error:
            if not stopped():
                raise
            ending = self._stop(trace, claimed, steps, error)
        except LeaseLost:
            raise
        except Exception as error:  # noqa: BLE001 - whatever happens, the person is answered
            ending = self._fail(trace, claimed, steps, error)
        late = not stopped()
        settling = asyncio.ensure_future(self._settle(trace, claimed, ending))
        try:
            return await asyncio.shield(settling)
        except asyncio.CancelledError:
            if late and stopped():  # it had come to its end before, and that is what is written
                return await settling
            settling.cancel()
            raise

    async def _settle(self, trace: Trace, claimed: Claimed, ending: Ending) -> Ending:
        """Write down what came of a turn, or at least that it failed."""
        try:
            return await self._write(trace, claimed, ending)
        except LeaseLost:
            raise
        except Exception as error:  # noqa: BLE001 - what cannot be written must not block its session for ever
            trace.tell(EventType.TURN_COMPLETED, outcome="failed", level=Level.ERROR, **describe_error(error))
            return await self._write(trace, claimed, self._end(claimed, State.FAILED, BROKEN, ()))

    def _stop(self, trace: Trace, claimed: Claimed, steps: Steps, error: BaseException | None = None) -> Ending:
        """End a turn that a person has stopped, and tell it unless the loop has."""
        if error is None or trace.failure is not error:
            trace.tell(EventType.TURN_COMPLETED, outcome="stopped", level=Level.WARN, error=STOPPED)
        return self._end(claimed, State.STOPPED, "", steps.close(STOPPED), steps)

    def _fail(self, trace: Trace, claimed: Claimed, steps: Steps, error: Exception) -> Ending:
        """End a turn that went wrong, and tell it unless the loop has; one that was taken over is nobody's here."""
        if isinstance(error, ListenerFailed) and isinstance(error.__cause__, LeaseLost):
            raise error.__cause__ from error
        changed = isinstance(error, ListenerFailed) and isinstance(error.__cause__, Changed)
        if trace.failure is not error:
            trace.tell(EventType.TURN_COMPLETED, outcome="failed", level=Level.ERROR, **describe_error(error))
        told = str(error.__cause__ if changed else error) if changed or isinstance(error, TOLD) else BROKEN
        if isinstance(error, UnusableRules) and claimed.session.lane.clearance is not Trust.FULL:
            told = error.public
        # What was refused before any model saw it stays out of the history: it may be what is too long.
        unseen = told is not BROKEN and not steps.messages
        return self._end(claimed, State.FAILED, told, () if unseen else steps.close("the turn failed"), steps)

    async def foresee(self, claimed: Claimed) -> Assembly:
        """Assemble what a turn would begin with."""
        return await self._preparing.foresee(claimed)

    async def assemble(self, turn: Turn) -> Assembly:
        """Assemble a turn that nobody sends, such as one that stands for what a person may see."""
        return await self._preparing.assemble(turn)

    async def _answer(self, trace: Trace, claimed: Claimed, steps: Steps) -> Ending:
        prepared = await self._preparing.prepare(trace, claimed)
        if claimed.incoming.held:
            steps.results = (await self._run_held(trace, claimed, prepared, steps),)
        outcome = await self._run(trace, claimed, prepared, steps)
        if outcome.too_long and prepared.history:
            # The last message says that it was too long; what the tools did before it is not done again.
            taken = outcome.messages[:-1] if find_answer(outcome.messages[:-1]) else ()
            prepared = await self._preparing.prepare(trace, replace(claimed, taken=taken), fold=True)
            outcome = await self._run(trace, claimed, prepared, steps)
        state, text = ENDS[outcome.end], cut_silence(outcome.text)
        if state.ended and (fault := await self._preparing.find_change(claimed)):
            state, text = State.FAILED, fault
        if state in (State.FAILED, State.REFUSED):  # no model reports what the held call did
            text = "\n\n".join((*steps.results, text))
        formatted = state is State.ANSWERED and claimed.incoming.request.response_format
        if state.ended and steps.held and not formatted:  # a notice would break the format; the client gets a list
            text = await self._add_waiting(claimed, steps, text)
        # A run that had nothing to say leaves nothing for the next one to read.
        idle = claimed.incoming.errand and state is State.ANSWERED and not text
        messages = () if idle else outcome.messages
        weight = self._preparing.weigh(prepared, messages)
        return Ending(
            state=state,
            text=text,
            messages=messages,
            spent=add_up(claimed),
            now=self._preparing.now(),
            prompt_hash=outcome.prompt_hash,
            tokens=weight,
            cut=outcome.cut,
            entry=steps.enter(messages),
            plan=state is State.ANSWERED and bool(text) and prepared.assembly.turn.plan,
            wait=outcome.wait,
            spoken=cut_silence(steps.spoken.text),
            brief=prepared.assembly.plan.mode is Mode.BRIEF,
        )

    async def _run_held(self, trace: Trace, claimed: Claimed, prepared: Prepared, steps: Steps) -> str:
        """Run the held call that the turn is about, once, and return what came of it for the model."""
        held = await self._inbox.find_held(claimed)
        if held.result is not None:
            return held.result
        await steps.ears.hear(Calling(name=held.name))
        asked = Asked(name=held.name, arguments=held.arguments)
        ears = replace(steps.ears, ask=allow)
        result = await self._loop.call_tool(prepared.assembly, asked, trace, ears, held.id)
        text = RESULT.format(name=held.name, id=held.id, text=result.text)
        await self._inbox.keep_result(claimed, text)
        await steps.ears.hear(Returned(name=held.name, done=result.done))
        return text

    async def _add_waiting(self, claimed: Claimed, steps: Steps, text: str) -> str:
        """Add the notice about waiting calls to a reply, and send it to the clients that stream the turn."""
        waiting = await self._inbox.list_held(claimed)
        if not waiting:
            return text
        telegram = self._preparing.has_telegram()
        words = show_waiting(waiting, telegram=telegram, room=bool(claimed.incoming.room))
        words = f"\n\n{words}" if text else words
        await steps.ears.hear(Words(text=words))
        return f"{text}{words}"

    async def _run(self, trace: Trace, claimed: Claimed, prepared: Prepared, steps: Steps) -> Outcome:
        steps.begin(prepared)
        work = Work(
            assembly=prepared.assembly,
            history=prepared.history,
            taken=prepared.taken,
            attempt=claimed.attempt,
            frozen=prepared.frozen,
            results=steps.results,
            response_format=claimed.incoming.request.response_format,
        )
        return await self._loop.run(work, trace, steps.ears)

    def _end(self, claimed: Claimed, state: State, text: str, messages: Messages, steps: Steps | None = None) -> Ending:
        """End a turn without a prompt to weigh it by."""
        return Ending(
            state=state,
            text=text,
            messages=messages,
            spent=add_up(claimed),
            now=self._preparing.now(),
            tokens=self._preparing.weigh_roughly(messages),
            entry=steps.enter(messages) if steps else None,
        )

    async def _write(self, trace: Trace, claimed: Claimed, ending: Ending) -> Ending:
        """Write down what came of a turn, however long the disk takes nothing."""
        if ending.state is State.QUEUED and ending.now - claimed.received > self._patience.give_up:
            closed = close(ending.messages or (say(find_words(claimed.incoming)),), "not answered")
            ending = self._end(claimed, State.FAILED, TOO_LATE, closed)
        if ending.state is State.QUEUED:
            due = ending.now + timedelta(seconds=self._choose_wait(claimed.attempt, ending.wait))
            await self._insist(trace, claimed, ending, lambda: self._inbox.postpone(claimed, ending, due))
            return ending
        await self._insist(trace, claimed, ending, lambda: self._inbox.finish(claimed, ending))
        self._after(claimed)
        if not claimed.incoming.address and claimed.incoming.errand is None and not is_silent(ending):
            trace.tell(EventType.MESSAGE_SENT, length=len(ending.text), attempt=claimed.attempt)
        return ending

    def _choose_wait(self, attempt: int, asked: float | None) -> float:
        later = self._patience.later
        longest = self._patience.give_up.total_seconds()
        return min(max(later[min(attempt, len(later)) - 1], asked or 0.0), longest)

    async def _insist(
        self, trace: Trace, claimed: Claimed, ending: Ending, write: Callable[[], Awaitable[None]]
    ) -> None:
        tries = 0
        while True:
            try:
                await write()
            except sqlite3.Error as error:
                if tries == 0:
                    self._aside(claimed, ending)
                    trace.tell(EventType.CHANNEL_ERROR, **describe_error(error))
                await asyncio.sleep(self._patience.disk[min(tries, len(self._patience.disk) - 1)])
                tries += 1
            else:
                return


async def allow(_: Asking) -> bool:
    """Say yes: the person has allowed the held call."""
    return True


def is_silent(ending: Ending) -> bool:
    """Whether the agent has answered that it has nothing to say."""
    return ending.state is State.ANSWERED and not ending.text


def add_up(claimed: Claimed) -> Spent:
    """Add up what a turn has used, earlier attempts and all that it led to included."""
    spent = claimed.spent
    for usage, usd in SPENT.get([]):
        spent = spent.add(usage, usd)
    return spent


def is_last(messages: Messages) -> bool:
    """Whether a turn ends with its newest message: an answer without a call, native or written out."""
    newest = messages[-1]
    return isinstance(newest, ModelResponse) and not list_calls(newest) and not read_calls(read_text(newest))
