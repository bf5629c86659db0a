"""The agent loop: run one turn, from the assembled prompt to the reply, as a stream of events.

    async for event in AgentLoop(workspace, models, event_stream).run(TurnInput(assembly=assembly), received):
        ...  # show, store and log it; the last one is `Finished`

The prompt is assembled once; each round only appends to it. Events are recorded in the trace of `received`. Each
`StepDone` has the turn's messages so far; a later run that gets them as `taken` resumes after that step, and no
finished tool call runs twice.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import sha256

from foreword.agent.agent_events import (
    AgentEvent,
    CallSettled,
    Finished,
    PassagesRecalled,
    ProviderError,
    StepDone,
    ToolFinished,
    ToolStarted,
    TurnEnd,
    TurnEnded,
    TurnSpending,
    TurnUnfinished,
)
from foreword.agent.conversation import (
    Answer,
    CallPart,
    ImagePart,
    Messages,
    UserMessage,
    add_fenced_result,
    add_result,
    close_turn,
    count_fenced_results,
    find_answer,
    list_unanswered_calls,
    make_user_message,
    read_answers,
)
from foreword.agent.images import UNANSWERED_IMAGE, ImageFolder
from foreword.agent.model_call import STOPPED_REASON, CallContext, ModelCaller, TurnLedger, record_prompt
from foreword.agent.providers.model_clients import ModelClients
from foreword.agent.reply_stream import MalformedCall, ToolCall, find_suppression_reason, parse_calls
from foreword.agent.retry import DEFAULT_RETRY_POLICY, RetryPolicy
from foreword.agent.segments import HistorySegment
from foreword.agent.tool_calls import (
    MAX_CALLED_NAME_CHARS,
    ToolContext,
    ToolResult,
    parse_arguments,
    run_tool_call,
)
from foreword.agent.tools.registry import Toolbox
from foreword.assembly import Assembly
from foreword.envelope import Envelope
from foreword.errors import InputError
from foreword.events.event import EventType, Level, find_reader, sees_all
from foreword.events.sinks import EventStream
from foreword.events.tracer import TraceNode, TraceStep
from foreword.promptcache.ledger import LedgerState
from foreword.promptcache.rules import NO_CALIBRATION, Calibration
from foreword.turn import CLIENT_TOOL_KIND
from foreword.types import Mode, frozen
from foreword.workspace import Workspace

EMPTY_REPLY_NOTE = "nothing more to say"


@frozen
class TurnLimits:
    """Limits of a turn."""

    max_tokens: int = 8_192
    """Maximum output tokens of one call."""
    rounds: int = 40
    """Maximum model calls in one turn."""
    seconds: float = 600.0
    """Time limit of one call."""
    tool_seconds: float = 60.0
    """Time limit of a tool without its own."""


DEFAULT_TURN_LIMITS = TurnLimits()


@frozen
class TurnInput:
    """The input of a turn."""

    assembly: Assembly
    history: tuple[HistorySegment, ...] = ()
    """The messages of earlier turns, in their sent form."""
    taken: Messages = ()
    """The messages of this turn that were recorded before it was interrupted or queued."""
    ledger_state: LedgerState | None = None
    attempt: int = 1
    results: tuple[str, ...] = ()
    """Results of held calls that ran before the model is called; they follow the user's message."""
    is_side_request: bool = False
    """Whether this is a side request, such as a subagent's, that must not use the session's cache key."""
    images: tuple[ImagePart, ...] = ()
    """The images of the user's message."""
    response_format: str = ""
    """The required response format; empty for plain text."""
    max_tokens: int | None = None
    """Maximum output tokens, if lower than the default."""
    begun: Collection[str] = ()
    """The ids of tool calls that began before an interruption; they do not run again."""
    spending: TurnSpending | None = None
    """Adds up the calls of a larger turn that this one is part of."""


class TurnRun:
    """One running turn: holds its messages and takes the next step."""

    def __init__(self, context: CallContext, tools: ToolContext, work: TurnInput, rounds: int) -> None:
        self._context = context
        self._tools = tools
        self._rounds = rounds
        self._native = context.assembly.meter.facts.native_tools
        self._caller = ModelCaller(context, work.history)
        self._results = work.results
        self._images = work.images
        self.messages: Messages = work.taken or (make_first_message(context.envelope, work.results, work.images),)

    async def converse(self, turn: TraceStep) -> AsyncGenerator[AgentEvent]:
        """Call the model and run its tools until it answers without a tool call."""
        rounds = 0
        while True:
            if answer := find_answer(self.messages):
                async with aclosing(self._run_tools(turn, answer)) as events:
                    async for event in events:
                        yield event
                if passed := list_unanswered_calls(self.messages) if self._native else ():
                    yield self._pass_on(turn, answer, passed)
                    return
                if self.messages[-1] is answer:  # it called no tool
                    break
            if rounds == self._rounds:
                raise TurnUnfinished(f"I stopped after {rounds} rounds of tools without coming to an end.")
            rounds += 1
            async with aclosing(self._caller.call(turn, self.messages)) as answering:
                async for reply in answering:
                    yield reply
                    if isinstance(reply, CallSettled):
                        yield self._step((*self.messages, reply.answer))
        finished = self._finish(answer)
        if reason := find_suppression_reason(finished.text):
            turn.note(silent=reason)
        yield finished

    async def _run_tools(self, turn: TraceStep, newest: Answer) -> AsyncGenerator[AgentEvent]:
        """Run the calls of the newest answer that have no result yet, one after another."""
        for place, call in self._list_calls(newest):
            async with aclosing(self._run_tool(turn, call, place)) as events:
                async for event in events:
                    yield event

    def _list_calls(self, newest: Answer) -> Sequence[tuple[CallPart | int, ToolCall | MalformedCall]]:
        """List the calls of the newest answer that have no result yet, each with its place in the answer."""
        if self._native:
            calls = [
                (part, parse_arguments(part.name, part.arguments)) for part in list_unanswered_calls(self.messages)
            ]
            return [(part, call) for part, call in calls if not self._is_for_client(call)]
        return list(enumerate(parse_calls(newest.text)))[count_fenced_results(self.messages) :]

    def _is_for_client(self, call: ToolCall | MalformedCall) -> bool:
        """Return whether the client runs a call."""
        tool = self._tools.assembly.tools.find(call.name) if isinstance(call, ToolCall) else None
        return tool is not None and tool.kind == CLIENT_TOOL_KIND

    def _pass_on(self, turn: TraceStep, answer: Answer, calls: Sequence[CallPart]) -> Finished:
        """End the turn for now: the client runs the calls that are left, and the turn continues with their results."""
        for call in calls:
            with turn.step(EventType.TOOL_CALL, name=call.name) as step:
                step.note(status="passed to the client")
        return self._conclude(Finished(end=TurnEnd.CALLED, text=answer.text, messages=self.messages))

    async def _run_tool(
        self, turn: TraceStep, call: ToolCall | MalformedCall, place: CallPart | int
    ) -> AsyncGenerator[AgentEvent]:
        """Run a tool; its result is stored as a step before any event announces it."""
        name = call.name[:MAX_CALLED_NAME_CHARS] if isinstance(call, ToolCall) else ""
        yield ToolStarted(name=name)
        result = ToolResult(text="", done=False)
        async with aclosing(run_tool_call(turn, self._tools, call, self._identify(call, place))) as events:
            async for event in events:
                if isinstance(event, ToolResult):
                    result = event
                else:
                    yield event
        if isinstance(place, CallPart):
            yield self._step(add_result(self.messages, place, result.text, failed=not result.done))
        else:
            yield self._step(add_fenced_result(self.messages, f"Result of {name or 'your block'}:\n{result.text}"))
        yield ToolFinished(name=name, done=result.done)

    def _identify(self, call: ToolCall | MalformedCall, place: CallPart | int) -> str:
        """Return an id for a call that is unique in the turn and the same after an interruption."""
        answers = len(read_answers(self.messages))
        if isinstance(place, CallPart):
            return f"{answers}.{place.id}"
        said = [call.name, call.arguments] if isinstance(call, ToolCall) else []
        return f"{answers}.{place}.{sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]}"

    def _step(self, messages: Messages) -> StepDone:
        self.messages = messages
        return StepDone(messages=messages)

    def _finish(self, newest: Answer) -> Finished:
        text = newest.text
        if not text.strip():
            if len(read_answers(self.messages)) == 1:
                raise TurnUnfinished("The model answered nothing.")
            # The tools did the work; no reply is needed.
            self.messages, text = close_turn(self.messages, EMPTY_REPLY_NOTE), ""
        return self._conclude(Finished(end=TurnEnd.ANSWERED, text=text, messages=self.messages, cut=newest.cut))

    async def give_up(self, error: TurnEnded) -> AsyncGenerator[AgentEvent]:
        """End the turn early: keep it retryable after a transient error, else close it so the next turn can follow."""
        if isinstance(error, ProviderError) and error.passing:
            # Without an answer there is nothing to resume; the retry assembles a new prompt.
            taken = self.messages if find_answer(self.messages) else ()
            yield self._conclude(Finished(end=error.end, text=error.message, messages=taken, wait=error.wait))
            return
        if not find_answer(self.messages):  # no provider accepted the request: store only the person's text
            # An image that a provider refuses would break every later turn of the session.
            unanswered = [UNANSWERED_IMAGE] * len(self._images)
            self.messages = (make_user_message(self._context.assembly.message, *self._results, *unanswered),)
        yield self._step(close_turn(self.messages, error.message))
        too_long = isinstance(error, ProviderError) and error.too_long
        yield self._conclude(Finished(end=error.end, text=error.message, messages=self.messages, too_long=too_long))

    def _conclude(self, finished: Finished) -> Finished:
        usage, usd = self._context.spending.total()
        return replace(finished, usage=usage, cost_usd=usd, prompt_hash=self._context.prompt_hash)


def make_first_message(
    envelope: Envelope, results: Sequence[str] = (), images: Sequence[ImagePart] = ()
) -> UserMessage:
    """Return the first message of a turn: the envelope's newest user message, results that follow it, and images."""
    request = envelope.request
    conversation = list(request.get("messages") or request.get("input") or request.get("contents") or ())
    roles = [one.get("role") for one in conversation[-2:]]
    system = conversation.pop()["content"][0]["text"] if roles == ["user", "system"] else ""
    newest = conversation[-1] if conversation else {}
    parts = newest.get("content") or newest.get("parts") or ()
    if newest.get("role") != "user" or isinstance(parts, str):
        raise InputError("the turn has no message to send to the model")
    return make_user_message(*(part["text"] for part in parts), *results, system=system, images=images)


RECENT_PERIOD = timedelta(minutes=5)  # period in which recent turns are counted when a turn fails


class AgentLoop:
    """Runs the turns of a workspace; turns may run concurrently."""

    def __init__(
        self,
        workspace: Workspace,
        models: ModelClients,
        listeners: EventStream,
        *,
        toolbox: Toolbox | None = None,
        bounds: TurnLimits = DEFAULT_TURN_LIMITS,
        retrying: RetryPolicy = DEFAULT_RETRY_POLICY,
    ) -> None:
        self._workspace = workspace
        self._models = models
        self._event_stream = listeners
        self.toolbox = toolbox
        """The tools of every agent, for subagents."""
        self._bounds = bounds
        self._retry_policy = retrying
        self._recent: deque[tuple[str, datetime]] = deque()
        """The session and end of each recent turn."""

    async def run(self, work: TurnInput, node: TraceNode) -> AsyncGenerator[AgentEvent]:
        """Run a turn and yield its events, `Finished` last; raise InputError if the model cannot be opened."""
        assembly = work.assembly
        context = self._connect(work, node.trace.id)
        record_prompt(node, assembly, context.prompt_hash)
        self._forget_old_turns(node.trace.clock() - RECENT_PERIOD)
        run = TurnRun(context, self.make_tool_context(work, context.spending), work, self._bounds.rounds)
        if assembly.plan.mode is Mode.BRIEF:
            yield PassagesRecalled(passages=assembly.passages)
        try:
            with node.step(EventType.TURN_STARTED, model=assembly.turn.model, attempt=work.attempt) as turn:
                try:
                    async with aclosing(run.converse(turn)) as events:
                        async for event in events:
                            yield event
                except BaseException as error:
                    self._note_end(turn, error, assembly.turn.session)
                    raise
                finally:
                    self._recent.append((assembly.turn.session, turn.trace.clock()))
        except TurnEnded as error:
            async with aclosing(run.give_up(error)) as events:
                async for event in events:
                    yield event

    def _forget_old_turns(self, since: datetime) -> None:
        while self._recent and self._recent[0][1] <= since:
            self._recent.popleft()

    def _note_end(self, turn: TraceStep, error: BaseException, session: str) -> None:
        """Record on the turn how it ended early."""
        if isinstance(error, TurnEnded):
            turn.note(outcome=str(error.end))
            if isinstance(error, ProviderError):
                turn.note(calls_refused=error.tries)
            if error.end is TurnEnd.QUEUED:
                # Turns of other sessions, and turns without a session, may be of other people.
                before = sum(one == session for one, _ in self._recent) if session else 0
                turn.note(turns_before=before, minutes_before=RECENT_PERIOD.seconds // 60)
        elif isinstance(error, asyncio.CancelledError | GeneratorExit):
            turn.note(outcome="stopped", error=STOPPED_REASON, level=Level.WARN)

    def make_tool_context(self, work: TurnInput, spending: TurnSpending) -> ToolContext:
        """Make what the tool calls of a turn share."""
        return ToolContext(
            assembly=work.assembly,
            workspace=self._workspace,
            loop=self,
            seconds=self._bounds.tool_seconds,
            spending=spending,
            begun=work.begun,
            records_arguments=self._workspace.config.events.arguments,
        )

    async def ask(
        self,
        assembly: Assembly,
        above: TraceStep,
        spending: TurnSpending,
        *,
        response_format: str = "",
        max_tokens: int | None = None,
    ) -> str:
        """Call a model once outside any turn and return its text; run no tools."""
        work = TurnInput(
            assembly=assembly,
            is_side_request=True,
            response_format=response_format,
            max_tokens=max_tokens,
            spending=spending,
        )
        context, text = self._connect(work), ""
        async with aclosing(ModelCaller(context).call(above, (make_first_message(context.envelope),))) as events:
            async for event in events:
                if isinstance(event, CallSettled):
                    text = event.answer.text
        return text

    def _connect(self, work: TurnInput, turn: str = "") -> CallContext:
        """Find the model of a turn, record its prompt, and open its ledger."""
        assembly = work.assembly
        opened = self._models.find(assembly.turn.model)
        opened.check_format(assembly.turn.model, work.response_format, tools=bool(assembly.tools))
        # A side request under the conversation's key would replace the conversation in the provider's cache.
        opened = replace(opened, keyed=False) if work.is_side_request else opened
        provider = self._workspace.config.providers.get(assembly.turn.model.partition(":")[0])
        ledger = TurnLedger(
            assembly,
            opened,
            work.ledger_state,
            turn,
            diagnosed=provider is not None and provider.diagnostics,
            calibration=self._find_calibration(assembly),
        )
        return CallContext(
            assembly=assembly,
            opened=opened,
            # The envelope omits the history: stored messages are sent again byte for byte.
            envelope=replace(assembly, turn=replace(assembly.turn, history=())).envelope(opened.shape),
            ledger=ledger,
            prompt_hash=self._event_stream.prompts.keep(assembly) if self._event_stream.prompts else "",
            config=self._workspace.config,
            images=ImageFolder(self._workspace.state),
            event_stream=self._event_stream,
            spending=work.spending or TurnSpending(),
            retry_policy=self._retry_policy,
            max_tokens=min(self._bounds.max_tokens, work.max_tokens or self._bounds.max_tokens),
            seconds=self._bounds.seconds,
            response_format=work.response_format,
        )

    def _find_calibration(self, assembly: Assembly) -> Calibration:
        """Return the token calibration learned from all calls, if the reader may see all events; else the neutral one.

        The calibration includes other people's private turns and would leak them into this turn's events.
        """
        reader = find_reader(assembly.turn, assembly.clearance.level, self._workspace.config)
        return self._workspace.kept.find_calibration(assembly.meter.facts.name) if sees_all(reader) else NO_CALIBRATION


async def finish(events: AsyncGenerator[AgentEvent]) -> Finished:
    """Run a turn to its end without showing or storing anything; return its result."""
    finished: Finished | None = None
    async with aclosing(events):
        async for event in events:
            if isinstance(event, Finished):
                finished = event
    if finished is None:
        raise AssertionError("the last event of a turn is its result")
    return finished
