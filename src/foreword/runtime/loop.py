"""The loop: one turn of an agent, from the assembled prompt to the reply.

    outcome = await Loop(workspace, models, listeners).run(Work(assembly=assembly, history=history), received, ears)

The prompt is assembled once; each round only appends. Everything is told through the trace that `received` belongs to,
and the turn's own messages are handed to `ears.step` after every step: handed in again as `taken`, the turn goes on
after the last one, and no finished call of a tool is made twice.
"""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol

from pydantic_ai.messages import ModelRequest, ModelResponse

from foreword.assembly import Assembly
from foreword.errors import InputError
from foreword.events.event import EventType, Level
from foreword.events.listening import Listeners
from foreword.events.trace import Step, Teller
from foreword.frozen import frozen
from foreword.prices import measure_prefix
from foreword.runtime.acting import BuiltIn, TimeLimits, Tools, act
from foreword.runtime.arguments import read
from foreword.runtime.calling import STOPPED, Caller, Line
from foreword.runtime.calls import Asked, Malformed, read_calls
from foreword.runtime.ears import DEAF, Calling, Ears, Returned
from foreword.runtime.history import (
    Messages,
    add_result,
    add_told,
    close,
    count_told,
    find_answer,
    list_calls,
    list_open,
    read_text,
    say,
)
from foreword.runtime.models import Opened
from foreword.runtime.outcome import End, GaveUp, Outcome, OverBudget, ProviderError
from foreword.runtime.retrying import PATIENT, Retrying
from foreword.wire import Envelope
from foreword.workspace import Workspace

BUSY = timedelta(minutes=5)  # in which turns are counted when one fails


class Finds(Protocol):
    """Where a turn finds its model."""

    def find(self, name: str) -> Opened:
        """Find a model by `provider:model`, or raise InputError."""


@frozen
class Bounds:
    """How far a turn may go."""

    max_tokens: int = 8_192
    """The longest answer of one call."""
    rounds: int = 40
    """How often the model is called in one turn."""
    seconds: float = 600.0
    """How long one call may take as a whole."""
    limits: TimeLimits = TimeLimits()
    """How long each tool may take."""


USUAL = Bounds()


@frozen
class Work:
    """A turn to be run."""

    assembly: Assembly
    history: Messages = ()
    """What was said in earlier turns, as it was sent."""
    taken: Messages = ()
    """The steps of this very turn that were recorded before it was interrupted or queued."""
    attempt: int = 1


class Loop:
    """Runs turns of a workspace, many at once."""

    def __init__(
        self,
        workspace: Workspace,
        models: Finds,
        listeners: Listeners,
        *,
        tools: Tools | None = None,
        bounds: Bounds = USUAL,
        retrying: Retrying = PATIENT,
    ) -> None:
        self._workspace = workspace
        self._models = models
        self._listeners = listeners
        self._tools = tools or BuiltIn(workspace)
        self._bounds = bounds
        self._retrying = retrying
        self._recent: list[datetime] = []

    async def run(self, work: Work, place: Teller, ears: Ears = DEAF) -> Outcome:
        """Run a turn, and say what came of it; a model that cannot be opened is an InputError."""
        assembly = work.assembly
        opened = self._models.find(assembly.turn.model)
        envelope = assembly.envelope(opened.shape)
        key = self._listeners.prompts.keep(assembly) if self._listeners.prompts else ""
        place.tell(
            EventType.PROMPT_BUILT,
            prompt_hash=key,
            layers=len(assembly.prompt.blocks),
            tokens=assembly.used,
            cached_tokens=measure_prefix(assembly),
        )
        now = place.trace.timepiece.now()
        self._recent = [moment for moment in self._recent if moment > now - BUSY]
        line = Line(
            assembly=assembly,
            opened=opened,
            envelope=envelope,
            key=key,
            config=self._workspace.config,
            listeners=self._listeners,
            ears=ears,
            retrying=self._retrying,
            max_tokens=self._bounds.max_tokens,
            seconds=self._bounds.seconds,
        )
        run = Run(line, work, self._tools, self._bounds)
        try:
            with place.step(EventType.TURN_STARTED, model=assembly.turn.model, attempt=work.attempt) as turn:
                return await self._work(turn, run)
        except ProviderError as error:
            if error.passing:
                return Outcome(end=End.QUEUED, text=error.told, messages=run.taken, wait=error.wait)
            return replace(await run.give_up(End.FAILED, error.told), too_long=error.too_long)
        except OverBudget as error:
            return await run.give_up(End.REFUSED, error.told)
        except GaveUp as error:
            return await run.give_up(End.FAILED, str(error))

    async def _work(self, turn: Step, run: "Run") -> Outcome:
        """Answer, or say what becomes of the message."""
        try:
            return await run.converse(turn)
        except ProviderError as error:
            busy = {"turns_before": len(self._recent), "minutes_before": BUSY.seconds // 60}
            outcome = {"outcome": str(End.QUEUED), **busy} if error.passing else {"outcome": str(End.FAILED)}
            turn.note(**outcome, calls_refused=error.tries)
            raise
        except OverBudget:
            turn.note(outcome=str(End.REFUSED))
            raise
        except asyncio.CancelledError:
            turn.note(outcome="stopped", error=STOPPED, level=Level.WARN)
            raise
        except GaveUp:
            turn.note(outcome=str(End.FAILED))
            raise
        finally:
            self._recent.append(turn.trace.timepiece.now())


class Run:
    """One turn on its way: its messages so far, and what comes next."""

    def __init__(self, line: Line, work: Work, tools: Tools, bounds: Bounds) -> None:
        self._line = line
        self._history = work.history
        self._tools = tools
        self._bounds = bounds
        self._native = line.assembly.terms.meter.facts.native_tools
        self.messages: Messages = work.taken or (open_turn(line.envelope),)
        """The turn's own messages."""

    async def converse(self, turn: Step) -> Outcome:
        """Call the model and run its tools until it answers without one."""
        caller = Caller(self._line)
        rounds = 0
        while True:
            answer = find_answer(self.messages)
            if answer and not await self._finish_tools(turn, answer):
                return self._end(answer)
            if rounds == self._bounds.rounds:
                raise GaveUp(f"I stopped after {rounds} rounds of tools without coming to an end.")
            rounds += 1
            response = await caller.call(turn, self._history, self.messages)
            await self._keep((*self.messages, response))

    def _end(self, newest: ModelResponse) -> Outcome:
        text = read_text(newest)
        if not text.strip():
            raise GaveUp("The model answered nothing.")
        cut = newest.finish_reason == "length"
        return Outcome(end=End.ANSWERED, text=text, messages=self.messages, cut=cut)

    @property
    def taken(self) -> Messages:
        """The steps that are worth going on from; where nothing was answered yet, the turn begins anew."""
        return self.messages if find_answer(self.messages) else ()

    async def give_up(self, end: End, words: str) -> Outcome:
        """End the turn with words to the person, so that the next one can follow."""
        await self._keep(close(self.messages, words))
        return Outcome(end=end, text=words, messages=self.messages)

    async def _finish_tools(self, turn: Step, newest: ModelResponse) -> bool:
        """Run the calls of the newest answer that have no result yet; return whether it had any calls."""
        if not self._native:
            return await self._finish_fenced(turn, newest)
        for call in list_open(self.messages):
            text = await self._act(turn, read(call.tool_name, call.args))
            await self._keep(add_result(self.messages, call, text))
        return bool(list_calls(newest))

    async def _finish_fenced(self, turn: Step, newest: ModelResponse) -> bool:
        calls = read_calls(read_text(newest))
        for asked in calls[count_told(self.messages) :]:
            text = await self._act(turn, asked)
            name = asked.name[:100] if isinstance(asked, Asked) else "your block"
            await self._keep(add_told(self.messages, f"Result of {name}:\n{text}"))
        return bool(calls)

    async def _act(self, turn: Step, asked: Asked | Malformed) -> str:
        ears, name = self._line.ears, asked.name if isinstance(asked, Asked) else ""
        await ears.delta(Calling(name=name))
        result = await act(turn, self._tools, self._line.assembly, asked, self._bounds.limits)
        await ears.delta(Returned(name=name, done=result.done))
        return result.text

    async def _keep(self, messages: Messages) -> None:
        self.messages = messages
        await self._line.ears.step(messages)


def open_turn(envelope: Envelope) -> ModelRequest:
    """Open a turn with its newest message, in the parts in which the envelope has it."""
    request = envelope.request
    conversation = request.get("messages") or request.get("input") or request.get("contents") or ()
    newest = conversation[-1] if conversation else {}
    parts = newest.get("content") or newest.get("parts") or ()
    if newest.get("role") != "user" or isinstance(parts, str):
        raise InputError("there is nothing to say to the model: the turn has no message")
    return say(*(part["text"] for part in parts))
