"""A minimal gateway around the real agent loop, a scripted model without a network, and a night with both.

One night: twelve busy turns, then a message that the provider refuses four times, delivered a minute later.
"""

import asyncio
from datetime import UTC, datetime

from foreword.agent.agent_events import TextDelta, TurnEnd
from foreword.agent.conversation import Answer, CallPart, TextPart
from foreword.agent.loop import AgentLoop, TurnInput, TurnLimits, finish
from foreword.agent.providers.model_clients import OpenModel
from foreword.agent.providers.provider import AnswerDone, make_provider_error
from foreword.agent.providers.wire_shapes import WIRE_SHAPES
from foreword.agent.retry import RetryPolicy
from foreword.events.event import EventType, Usage, find_context
from foreword.events.tracer import Tracer
from foreword.testing import ManualClock, make_workspace
from foreword.turn import Turn
from foreword.types import frozen

CONFIG = """\
owner: alice
agents: {reid: {model: "anthropic:claude-sonnet-4-5"}}
users:
  alice: {trust: full, timezone: UTC}
  bob: {trust: familiar}
"""
LONG = {"AGENTS.md": "Answer first, then say why.\n" * 400}
USAGE = Usage(tokens_in=5_200, tokens_out=120, cache_read=3_100, cache_write=600)
LIMITS = TurnLimits(max_tokens=1_024)


@frozen(eq=True)
class Reply:
    """A reply of the model: a text, tool calls without arguments, or both."""

    text: str = ""
    usage: Usage = Usage(tokens_in=100, tokens_out=10)
    seconds: float = 1.0
    tools: tuple[str, ...] = ()

    def make_answer(self):
        """Return the reply as a provider does."""
        parts = [TextPart(text=self.text)] if self.text else []
        parts += [CallPart(id=f"call{at}", name=name, arguments="{}") for at, name in enumerate(self.tools)]
        return AnswerDone(answer=Answer(parts=tuple(parts), provider="anthropic"), usage=self.usage)


@frozen(eq=True)
class Refusal:
    """A refusal of the provider with a status such as 429."""

    status: int
    kind: str
    message: str
    seconds: float = 0.2


BUSY = Refusal(status=429, kind="rate_limit_error", message="too many requests")


class ScriptedModel:
    """A model in the test process that follows a script; each line advances the clock by its seconds."""

    def __init__(self, clock):
        self._clock = clock
        self.script = []

    def find(self, _):
        """Return this model for every name, as `ModelClients` opens one."""
        return OpenModel(provider=self, wire=WIRE_SHAPES["anthropic"], family="anthropic")

    async def stream(self, _envelope):
        """Answer one request with the next line of the script."""
        line = self.script.pop(0)
        self._clock.move(line.seconds)
        if isinstance(line, Refusal):
            raise make_provider_error({"error": {"type": line.kind, "message": line.message}}, line.status)
        if line.text:
            yield TextDelta(text=line.text)
        yield line.make_answer()


class Night:
    """A minimal gateway: it receives messages, queues those that fail, and delivers them later."""

    def __init__(self, workspace, models, listeners, clock, **options):
        self.workspace, self.clock = workspace, clock
        self.queue, self.sent = [], []
        self._recorder = listeners.recorder
        self._sessions = set()
        retrying = RetryPolicy(sleep=self.sleep, chance=lambda: 0.0)
        self._loop = AgentLoop(workspace, models, listeners, retrying=retrying, **options)

    async def sleep(self, seconds):
        """Advance the clock instead of waiting."""
        self.clock.move(seconds)

    async def receive(self, turn):
        """Receive a message; return its trace and its outcome."""
        assembly = self.workspace.assemble(turn)
        trace = Tracer(self._recorder, find_context(assembly), self.clock, elapsed=self.clock.elapsed)
        with trace.step(EventType.MESSAGE_RECEIVED, length=len(turn.message)) as received:
            received.emit(EventType.TRUST_RESOLVED, **assembly.clearance.describe(turn.situation))
            if turn.session not in self._sessions:
                self._sessions.add(turn.session)
                received.emit(EventType.SESSION_CREATED)
            outcome = await self._answer(received, assembly, 1)
        return trace, outcome

    async def deliver(self):
        """Retry the queued messages, each within its turn and with the current clearance."""
        queue, self.queue = self.queue, []
        for turn, position in queue:
            assembly = self.workspace.assemble(turn)
            trace = Tracer(self._recorder, find_context(assembly), self.clock, position, elapsed=self.clock.elapsed)
            await self._answer(trace, assembly, 2)

    async def _answer(self, node, assembly, attempt):
        outcome = await finish(self._loop.run(TurnInput(assembly=assembly, attempt=attempt), node))
        if outcome.end is TurnEnd.QUEUED:
            self.queue.append((assembly.turn, node.position))
        else:
            with node.step(EventType.MESSAGE_SENT, length=len(outcome.text), attempt=attempt):
                self.sent.append(outcome.text)
        return outcome


class ScriptedNight(Night):
    """A gateway whose model follows a script; each call runs until it is answered."""

    def __init__(self, workspace, listeners, clock, runner=None, **options):
        self._model = ScriptedModel(clock)
        self._run = runner.run if runner else asyncio.run
        super().__init__(workspace, self._model, listeners, clock, bounds=LIMITS, **options)

    def say(self, turn, *script):
        """Receive a message that the model answers from a script; return its trace."""
        self._model.script = list(script)
        trace, _ = self._run(self.receive(turn))
        return trace

    def deliver_by(self, *script):
        """Deliver the queue with a script."""
        self._model.script = list(script)
        self._run(self.deliver())


def make_turn(**changes):
    """Make a turn of alice on Signal."""
    known = {"user": "alice", "channel": "signal", "situation": "dm", "session": "abc", "message": "Are you there?"}
    return Turn(**known | changes)


def make_clock():
    """Make a clock set to 2:42 at night."""
    return ManualClock(datetime(2026, 11, 16, 2, 42, 10, tzinfo=UTC))


def make_night(folder, listeners, config=CONFIG, files=LONG, clock=None, **options):
    """Make a gateway for a workspace, at 2:42 at night."""
    workspace = make_workspace(folder, {"foreword.yaml": config, **files})
    return ScriptedNight(workspace, listeners, clock or make_clock(), **options)


def live_through(night):
    """Run the night of the specification's example; return the trace of the message that failed."""
    for _ in range(12):
        night.say(make_turn(), Reply(text="Yes.", usage=USAGE))
        night.clock.move(22)
    night.clock.now = datetime(2026, 11, 16, 2, 47, 3, tzinfo=UTC)
    trace = night.say(make_turn(message="Did the backup run?"), *[BUSY] * 4)
    night.clock.now = datetime(2026, 11, 16, 2, 48, tzinfo=UTC)
    night.deliver_by(Reply(text="It did.", usage=USAGE, seconds=3))
    return trace
