"""A turn on its way: what it is given, how far it may go, its messages so far, and what comes next."""

import json
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart

from foreword.assembly import Assembly
from foreword.errors import InputError
from foreword.events.trace import Step
from foreword.frozen import frozen
from foreword.ledger import Frozen
from foreword.runtime.acting import LONGEST_NAME, Bench, TimeLimits, Tools, act
from foreword.runtime.arguments import read
from foreword.runtime.calling import Caller, Line
from foreword.runtime.calls import Asked, Malformed, read_calls
from foreword.runtime.ears import Calling, Returned
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
from foreword.runtime.outcome import End, Ended, GaveUp, Outcome, ProviderError
from foreword.runtime.silence import find_silence
from foreword.runtime.stretch import Stretch
from foreword.wire import Envelope

NOTHING = "nothing more to say"


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
    history: tuple[Stretch, ...] = ()
    """What was said in earlier turns, as it was sent."""
    taken: Messages = ()
    """The steps of this very turn that were recorded before it was interrupted or queued."""
    frozen: Frozen | None = None
    """What its session has sent before, as its ledger has it."""
    attempt: int = 1
    results: tuple[str, ...] = ()
    """What a held call answered before the model is asked; it follows the person's message."""
    apart: bool = False
    """Whether it stands apart from the conversation of its session, as a subagent's, and has no part in its cache."""
    response_format: str = ""
    """The format that the answer must have; nothing for plain text."""
    max_tokens: int | None = None
    """The longest answer, where that is less than usual."""


class Run:
    """One turn on its way: its messages so far, and what comes next."""

    def __init__(self, line: Line, work: Work, tools: Tools, bounds: Bounds) -> None:
        self._line = line
        self._bench = Bench(
            assembly=line.assembly,
            tools=tools,
            limits=bounds.limits,
            ears=line.ears,
            records_arguments=line.config.events.arguments,
        )
        self._bounds = bounds
        self._native = line.assembly.terms.meter.facts.native_tools
        self._caller = Caller(line, work.history)
        self._results = work.results
        self.messages: Messages = work.taken or (open_turn(line.envelope, work.results),)
        """The turn's own messages."""

    async def converse(self, turn: Step) -> Outcome:
        """Call the model and run its tools until it answers without one."""
        rounds = 0
        while True:
            answer = find_answer(self.messages)
            if answer and not await self._finish_tools(turn, answer):
                outcome = self._end(answer)
                if reason := find_silence(outcome.text):
                    turn.note(silent=reason)
                return outcome
            if rounds == self._bounds.rounds:
                raise GaveUp(f"I stopped after {rounds} rounds of tools without coming to an end.")
            rounds += 1
            response = await self._caller.call(turn, self.messages)
            await self._keep((*self.messages, response))

    def _end(self, newest: ModelResponse) -> Outcome:
        text = read_text(newest)
        if not text.strip():
            if len([one for one in self.messages if isinstance(one, ModelResponse)]) == 1:
                raise GaveUp("The model answered nothing.")
            self.messages, text = close(self.messages, NOTHING), ""  # it did what there was to do
        cut = newest.finish_reason == "length"
        return self._conclude(Outcome(end=End.ANSWERED, text=text, messages=self.messages, cut=cut))

    async def give_up(self, error: Ended) -> Outcome:
        """End the turn early, so that it can be tried again if that may help, or else be followed by the next one."""
        if isinstance(error, ProviderError) and error.passing:
            # Where nothing was answered yet there is nothing to go on from, and the prompt is better made anew.
            taken = self.messages if find_answer(self.messages) else ()
            return self._conclude(Outcome(end=error.end, text=error.told, messages=taken, wait=error.wait))
        if not find_answer(self.messages):  # no provider has taken it, so only the person's own words were said
            self.messages = (say(self._line.assembly.message, *self._results),)
        await self._keep(close(self.messages, error.told))
        too_long = isinstance(error, ProviderError) and error.too_long
        return self._conclude(Outcome(end=error.end, text=error.told, messages=self.messages, too_long=too_long))

    def _conclude(self, outcome: Outcome) -> Outcome:
        usage, usd = self._caller.add_up()
        return replace(outcome, usage=usage, cost_usd=usd, prompt_hash=self._line.key)

    async def _finish_tools(self, turn: Step, newest: ModelResponse) -> bool:
        """Run the calls of the newest answer that have no result yet; return whether it had any calls."""
        if not self._native:
            return await self._finish_fenced(turn, newest)
        for call in list_open(self.messages):
            await self._act(turn, read(call.tool_name, call.args), call)
        return bool(list_calls(newest))

    async def _finish_fenced(self, turn: Step, newest: ModelResponse) -> bool:
        calls = read_calls(read_text(newest))
        for place, asked in list(enumerate(calls))[count_told(self.messages) :]:
            await self._act(turn, asked, place)
        return bool(calls)

    async def _act(self, turn: Step, asked: Asked | Malformed, call: ToolCallPart | int) -> None:
        """Run a tool and keep its result at once, before anybody else hears of it."""
        ears, name = self._line.ears, asked.name[:LONGEST_NAME] if isinstance(asked, Asked) else ""
        await ears.hear(Calling(name=name))
        result = await act(turn, self._bench, asked, self._identify(asked, call))
        if isinstance(call, ToolCallPart):
            await self._keep(add_result(self.messages, call, result.text, failed=not result.done))
        else:
            await self._keep(add_told(self.messages, f"Result of {name or 'your block'}:\n{result.text}"))
        await ears.hear(Returned(name=name, done=result.done))

    def _identify(self, asked: Asked | Malformed, call: ToolCallPart | int) -> str:
        """Name a call so that it is known again after an interruption, and no other call of the turn has its name."""
        answers = sum(isinstance(message, ModelResponse) for message in self.messages)
        if isinstance(call, ToolCallPart):
            return f"{answers}.{call.tool_call_id}"
        said = [asked.name, asked.arguments] if isinstance(asked, Asked) else []
        return f"{answers}.{call}.{sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]}"

    async def _keep(self, messages: Messages) -> None:
        self.messages = messages
        await self._line.ears.keep(messages)


def open_turn(envelope: Envelope, results: Sequence[str] = ()) -> ModelRequest:
    """Open a turn with its newest message, in the parts in which the envelope has it, and what follows it."""
    request = envelope.request
    conversation = list(request.get("messages") or request.get("input") or request.get("contents") or ())
    roles = [one.get("role") for one in conversation[-2:]]
    told = conversation.pop()["content"][0]["text"] if roles == ["user", "system"] else ""
    newest = conversation[-1] if conversation else {}
    parts = newest.get("content") or newest.get("parts") or ()
    if newest.get("role") != "user" or isinstance(parts, str):
        raise InputError("there is nothing to say to the model: the turn has no message")
    return say(*(part["text"] for part in parts), *results, told=told)
