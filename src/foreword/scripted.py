"""A loop whose model is a script: it fulfils the contract of `foreword.events.trace` as a real loop does.

It retries what a provider refuses after 1, 2 and 4 seconds, queues what still fails, and delivers it later under the
same turn. Nothing waits: its clock is moved instead.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from foreword.assembly import Assembly
from foreword.events.budget import Grant
from foreword.events.cost import Call, foresee, price_call, split
from foreword.events.event import EventType, Level, Place, Usage
from foreword.events.listening import Listeners
from foreword.events.reader import find_context
from foreword.events.reloads import Reloads
from foreword.events.trace import Step, Teller, Timepiece, Trace
from foreword.frozen import frozen
from foreword.prices import measure_prefix
from foreword.tools.answer import Answer
from foreword.tools.telling import tell_answer
from foreword.turn import Turn
from foreword.workspace import Workspace

WAITS = (1, 2, 4)  # seconds before each further try
BUSY = timedelta(minutes=5)  # in which the turns of a session are counted when one fails
MAX_TOKENS = 1_024
KEPT = 2  # messages of a conversation that a compaction leaves as they are
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@frozen(eq=True)
class Reply:
    """What the model answers: a text, or calls of tools and then the next line of the script."""

    text: str = ""
    usage: Usage = Usage(tokens_in=100, tokens_out=10)
    seconds: float = 1.0
    tools: tuple[str, ...] = ()
    answers: "Mapping[str, Answer | ToolFailed]" = field(default_factory=dict)
    """What tools answer, or fail with, by name; of those that search or change memory the log is told."""


class ToolFailed(Exception):
    """A tool could not do its work; the model is told, and goes on."""


class Refusal(Exception):
    """The provider refuses, with a status such as 429."""

    def __init__(self, status_code: int, message: str) -> None:
        super().__init__(f"{status_code} {message}")
        self.status_code = status_code


class OverBudget(Exception):
    """A budget refuses the call; its words are what may be told to the person who asked."""

    def __init__(self, grant: Grant) -> None:
        super().__init__(grant.told)


class MovedClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        """Return the moment that it shows."""
        return self.now

    def move(self, seconds: float) -> None:
        """Move it on."""
        self.now += timedelta(seconds=seconds)

    @property
    def timepiece(self) -> Timepiece:
        """The clock as a trace takes it."""
        return Timepiece(now=self, elapsed=self.count_seconds)

    def count_seconds(self) -> float:
        """Count the seconds since a moment long ago."""
        return (self.now - LONG_AGO).total_seconds()


@frozen
class Waiting:
    """A message that could not be answered yet, and the place in its turn from which it goes on."""

    turn: Turn
    place: Place
    schedule: str = ""


class ScriptedLoop:
    """Runs turns of a workspace with a model that follows a script, and a channel that may fail with an OSError."""

    def __init__(
        self,
        workspace: Workspace,
        listeners: Listeners,
        clock: MovedClock,
        send: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.queue: list[Waiting] = []
        """What waits to be delivered."""
        self.sent: list[str] = []
        """The replies that went out."""
        self._workspace = workspace
        self._listeners = listeners
        self._clock = clock
        self._send = send
        self._reloads = Reloads(workspace, listeners.recorder, clock.timepiece)
        self._script: list[Reply | Refusal] = []
        self._recent: list[tuple[str, datetime]] = []
        self._sessions: set[str] = set()

    def receive(self, turn: Turn, script: Iterable[Reply | Refusal]) -> Trace:
        """Answer a message by a script; return its trace, whatever came of it."""
        trace, assembly = self._begin(turn, script)
        self._run(trace.step(EventType.MESSAGE_RECEIVED, length=len(turn.message)), turn, assembly)
        return trace

    def fire(self, schedule: str, turn: Turn, script: Iterable[Reply | Refusal]) -> Trace:
        """Run the turn of a schedule, under its budget and name; return its trace, whatever came of it."""
        trace, assembly = self._begin(turn, script, schedule)
        self._run(trace.step(EventType.SCHEDULE_FIRED, name=schedule), turn, assembly)
        return trace

    def compact(self, turn: Turn) -> Turn:
        """Fold away all but the newest messages of a conversation, and tell how much shorter it became."""
        trace, assembly = self._begin(turn, ())
        count = assembly.terms.meter.count
        folded, kept = turn.history[:-KEPT], turn.history[-KEPT:]
        before, after = (sum(count(one.text) for one in some) for some in (turn.history, kept))
        with trace.step(EventType.SESSION_COMPACTED, turns=sum(one.role == "user" for one in folded)) as step:
            self._clock.move(1)
            step.note(tokens_before=before, tokens_after=after)
        return replace(turn, history=kept)

    def _begin(self, turn: Turn, script: Iterable[Reply | Refusal], schedule: str = "") -> tuple[Trace, Assembly]:
        """Begin a turn under the configuration of now."""
        self._reloads.look()
        self._script = list(script)
        assembly = self._workspace.assemble(turn)
        return Trace(self._listeners.recorder, find_context(assembly, schedule), self._clock.timepiece), assembly

    def _run(self, begun: Step, turn: Turn, assembly: Assembly) -> None:
        """Answer inside the step that began a turn; what cannot be answered yet waits."""
        with begun:
            self._greet(begun, assembly)
            if not self._answer(begun, assembly, attempt=1):
                self.queue.append(Waiting(turn=turn, place=begun.place, schedule=begun.trace.context.schedule))

    def deliver(self, script: Iterable[Reply | Refusal]) -> None:
        """Try what waits once more, each as a part of the turn that it belongs to, at the clearance of now."""
        self._reloads.look()
        self._script = list(script)
        waiting, self.queue = self.queue, []
        for one in waiting:
            assembly = self._workspace.assemble(one.turn)
            context = find_context(assembly, one.schedule)
            trace = Trace(self._listeners.recorder, context, self._clock.timepiece, goes_on=one.place)
            if not self._answer(trace, assembly, attempt=2):
                self.queue.append(one)

    def _greet(self, received: Step, assembly: Assembly) -> None:
        clearance = assembly.clearance
        received.tell(
            EventType.TRUST_RESOLVED,
            **clearance.describe(assembly.turn.situation),
        )
        if assembly.turn.session not in self._sessions:
            self._sessions.add(assembly.turn.session)
            received.tell(EventType.SESSION_CREATED)

    def _answer(self, place: Teller, assembly: Assembly, attempt: int) -> bool:
        """Run one attempt at a turn, and say whether its reply went out."""
        key = self._listeners.prompts.keep(assembly) if self._listeners.prompts else ""
        place.tell(
            EventType.PROMPT_BUILT,
            prompt_hash=key,
            layers=assembly.prompt.section_count,
            tokens=assembly.used,
            cached_tokens=measure_prefix(assembly),
            **assembly.count_losses(),
        )
        self._recent = [(session, moment) for session, moment in self._recent if moment > self._clock() - BUSY]
        try:
            with place.step(EventType.TURN_STARTED, model=assembly.turn.model, attempt=attempt) as turn:
                reply = self._work(turn, assembly, key)
        except Refusal:
            return False
        except OverBudget as error:
            reply = str(error)
        with suppress(OSError), place.step(EventType.MESSAGE_SENT, length=len(reply), attempt=attempt):
            self._send(reply)
            self.sent.append(reply)
            return True
        return False

    def _work(self, turn: Step, assembly: Assembly, key: str) -> str:
        """Answer, or say what becomes of the message."""
        try:
            return self._converse(turn, assembly, key)
        except Refusal:
            before = sum(session == assembly.turn.session for session, _ in self._recent)
            busy = {"turns_before": before, "minutes_before": BUSY.seconds // 60}
            turn.note(outcome="queued", calls_refused=len(WAITS) + 1, **busy)
            raise
        except OverBudget:
            turn.note(outcome="refused")
            raise
        finally:
            self._recent.append((assembly.turn.session, self._clock()))

    def _converse(self, turn: Step, assembly: Assembly, key: str) -> str:
        """Call the model until it answers without a tool."""
        while True:
            reply = self._persist(turn, assembly, key)
            for name in reply.tools:
                with suppress(ToolFailed), turn.step(EventType.TOOL_CALL, name=name) as call:
                    self._clock.move(0.1)
                    answer = reply.answers.get(name)
                    if isinstance(answer, ToolFailed):
                        raise answer
                    tell_answer(call, name, answer)
                    call.note(status="ok")
            if not reply.tools:
                return reply.text

    def _persist(self, turn: Step, assembly: Assembly, key: str) -> Reply:
        """Call the model, and again after each wait if the provider refuses."""
        for number, wait in enumerate((*WAITS, None), 1):
            retry = {"retry_in_s": wait} if wait is not None else {"retry": "none left"}
            try:
                with turn.step(EventType.API_CALL, model=assembly.turn.model, prompt_hash=key, attempt=number) as call:
                    return self._call(call, assembly, retry, turn.trace)
            except Refusal:
                if wait is None:
                    raise
                self._clock.move(wait)
        raise AssertionError("the last try returns or raises")

    def _call(self, call: Step, assembly: Assembly, retry: Mapping[str, Any], trace: Trace) -> Reply:
        """Make one call: reserve, ask, settle, and tell what it used."""
        models = self._workspace.config.models
        purse = self._listeners.purse
        grant = Grant(allowed=True)
        if purse:
            grant = purse.reserve(trace.context, trace.id, foresee(assembly, models, MAX_TOKENS))
            for sum_of_all in (*grant.sums, *filter(None, (grant.reason,))):
                call.confide(EventType.API_ERROR, level=Level.WARN, budget=sum_of_all)
            if not grant.allowed:
                raise OverBudget(grant)
        line = self._script.pop(0)
        if isinstance(line, Refusal):
            self._clock.move(0.2)
            call.note(**retry)
            if purse:
                purse.release(grant)
            raise line
        self._clock.move(line.seconds)
        done = Call(model=assembly.turn.model, usage=line.usage, time=self._clock())
        cost = price_call(done, models)
        if purse:
            purse.settle(grant, cost.usd)
        shares = [share.row for share in split(assembly, done, cost)]
        call.note(usage=line.usage, cost_usd=cost.usd, sections=shares)
        if cost.usd is None:
            call.note(unpriced=cost.reason)
        if grant.warnings:
            call.note(level=Level.WARN, budget="; ".join(grant.warnings))
        return line
