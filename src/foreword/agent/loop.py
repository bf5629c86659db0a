"""The agent loop: run one turn, from the assembled prompt to the reply.

    outcome = await AgentLoop(workspace, models, event_stream).run(TurnInput(assembly=assembly), received, callbacks)

The prompt is assembled once; each round only appends to it. Events are recorded in the trace of `received`. After every
step the loop passes the turn's messages to `callbacks.step`. A later run that gets them as `taken` resumes after the
last step, and no finished tool call runs twice.
"""

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart

from foreword.agent.agent_events import (
    NO_CALLBACKS,
    Outcome,
    PassagesRecalled,
    ProviderError,
    ToolFinished,
    ToolStarted,
    TurnCallbacks,
    TurnEnd,
    TurnEnded,
    TurnUnfinished,
    guard_callback,
)
from foreword.agent.conversation import (
    HistorySegment,
    Messages,
    add_fenced_result,
    add_result,
    close_turn,
    count_fenced_results,
    find_answer,
    list_tool_calls,
    list_unanswered_calls,
    make_user_message,
    read_answers,
    read_text,
)
from foreword.agent.model_call import STOPPED_REASON, CallContext, ModelCaller, TurnLedger
from foreword.agent.providers.model_clients import ModelClients
from foreword.agent.providers.transport import find_unsupported_format
from foreword.agent.reply_stream import MalformedCall, ToolCall, find_suppression_reason, parse_calls
from foreword.agent.retry import DEFAULT_RETRY_POLICY, RetryPolicy
from foreword.agent.tool_calls import (
    CURRENT_CALL,
    MAX_CALLED_NAME_CHARS,
    Toolbox,
    ToolContext,
    ToolResult,
    ToolRunner,
    parse_arguments,
    run_tool_call,
)
from foreword.agent.tools.registry import DELEGATE_TOOL
from foreword.agent.tools.state_tools import TASKS, WORKFLOW
from foreword.assembly import Assembly
from foreword.envelope import Envelope
from foreword.errors import InputError, ToolError, UnknownName
from foreword.events.event import EventType, Level, find_reader, sees_all
from foreword.events.sinks import EventStream
from foreword.events.tracer import TraceNode, TraceStep
from foreword.promptcache.ledger import Action, LedgerState
from foreword.promptcache.ledger_json import decision_to_json
from foreword.promptcache.rules import NO_CALIBRATION, Calibration
from foreword.turn import ToolAnswer, Toolset, Turn
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
    response_format: str = ""
    """The required response format; empty for plain text."""
    max_tokens: int | None = None
    """Maximum output tokens, if lower than the default."""


class TurnRun:
    """One running turn: holds its messages and takes the next step."""

    def __init__(self, context: CallContext, tools: ToolContext, work: TurnInput, rounds: int) -> None:
        self._context = context
        self._tools = tools
        self._rounds = rounds
        self._native = context.assembly.meter.facts.native_tools
        self._caller = ModelCaller(context, work.history)
        self._results = work.results
        self.messages: Messages = work.taken or (make_first_message(context.envelope, work.results),)

    async def converse(self, turn: TraceStep) -> Outcome:
        """Call the model and run its tools until it answers without a tool call."""
        rounds = 0
        while not (answer := find_answer(self.messages)) or await self._run_tools(turn, answer):
            if rounds == self._rounds:
                raise TurnUnfinished(f"I stopped after {rounds} rounds of tools without coming to an end.")
            rounds += 1
            response = await self._caller.call(turn, self.messages)
            await self._store((*self.messages, response))
        outcome = self._end(answer)
        if reason := find_suppression_reason(outcome.text):
            turn.note(silent=reason)
        return outcome

    def _end(self, newest: ModelResponse) -> Outcome:
        text = read_text(newest)
        if not text.strip():
            if len(read_answers(self.messages)) == 1:
                raise TurnUnfinished("The model answered nothing.")
            # The tools did the work; no reply is needed.
            self.messages, text = close_turn(self.messages, EMPTY_REPLY_NOTE), ""
        cut = newest.finish_reason == "length"
        return self._conclude(Outcome(end=TurnEnd.ANSWERED, text=text, messages=self.messages, cut=cut))

    async def give_up(self, error: TurnEnded) -> Outcome:
        """End the turn early: keep it retryable after a transient error, else close it so the next turn can follow."""
        if isinstance(error, ProviderError) and error.passing:
            # Without an answer there is nothing to resume; the retry assembles a new prompt.
            taken = self.messages if find_answer(self.messages) else ()
            return self._conclude(Outcome(end=error.end, text=error.message, messages=taken, wait=error.wait))
        if not find_answer(self.messages):  # no provider accepted the request: store only the person's message
            self.messages = (make_user_message(self._context.assembly.message, *self._results),)
        await self._store(close_turn(self.messages, error.message))
        too_long = isinstance(error, ProviderError) and error.too_long
        return self._conclude(Outcome(end=error.end, text=error.message, messages=self.messages, too_long=too_long))

    def _conclude(self, outcome: Outcome) -> Outcome:
        usage, usd = self._caller.add_up()
        return replace(outcome, usage=usage, cost_usd=usd, prompt_hash=self._context.prompt_hash)

    async def _run_tools(self, turn: TraceStep, newest: ModelResponse) -> bool:
        """Run the calls of the newest answer that have no result yet; return whether the answer had any calls."""
        if self._native:
            for part in list_unanswered_calls(self.messages):
                await self._run_tool(turn, parse_arguments(part.tool_name, part.args), part)
            return bool(list_tool_calls(newest))
        calls = parse_calls(read_text(newest))
        for place, call in list(enumerate(calls))[count_fenced_results(self.messages) :]:
            await self._run_tool(turn, call, place)
        return bool(calls)

    async def _run_tool(self, turn: TraceStep, call: ToolCall | MalformedCall, place: ToolCallPart | int) -> None:
        """Run a tool and persist its result before any event announces it."""
        callbacks = self._context.callbacks
        name = call.name[:MAX_CALLED_NAME_CHARS] if isinstance(call, ToolCall) else ""
        await callbacks.emit(ToolStarted(name=name))
        result = await run_tool_call(turn, self._tools, call, self._identify(call, place))
        if isinstance(place, ToolCallPart):
            await self._store(add_result(self.messages, place, result.text, failed=not result.done))
        else:
            await self._store(add_fenced_result(self.messages, f"Result of {name or 'your block'}:\n{result.text}"))
        await callbacks.emit(ToolFinished(name=name, done=result.done))

    def _identify(self, call: ToolCall | MalformedCall, place: ToolCallPart | int) -> str:
        """Return an id for a call that is unique in the turn and the same after an interruption."""
        answers = len(read_answers(self.messages))
        if isinstance(place, ToolCallPart):
            return f"{answers}.{place.tool_call_id}"
        said = [call.name, call.arguments] if isinstance(call, ToolCall) else []
        return f"{answers}.{place}.{sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]}"

    async def _store(self, messages: Messages) -> None:
        self.messages = messages
        await guard_callback(self._context.callbacks.step(messages))


def make_first_message(envelope: Envelope, results: Sequence[str] = ()) -> ModelRequest:
    """Return the first message of a turn: the envelope's newest user message and the results that follow it."""
    request = envelope.request
    conversation = list(request.get("messages") or request.get("input") or request.get("contents") or ())
    roles = [one.get("role") for one in conversation[-2:]]
    system = conversation.pop()["content"][0]["text"] if roles == ["user", "system"] else ""
    newest = conversation[-1] if conversation else {}
    parts = newest.get("content") or newest.get("parts") or ()
    if newest.get("role") != "user" or isinstance(parts, str):
        raise InputError("the turn has no message to send to the model")
    return make_user_message(*(part["text"] for part in parts), *results, system=system)


RECENT_PERIOD = timedelta(minutes=5)  # period in which recent turns are counted when a turn fails


class AgentLoop:
    """Runs the turns of a workspace; turns may run concurrently."""

    def __init__(
        self,
        workspace: Workspace,
        models: ModelClients,
        listeners: EventStream,
        *,
        tools: ToolRunner | None = None,
        bounds: TurnLimits = DEFAULT_TURN_LIMITS,
        retrying: RetryPolicy = DEFAULT_RETRY_POLICY,
    ) -> None:
        self._workspace = workspace
        self._models = models
        self._event_stream = listeners
        self._tools = tools or Toolbox(workspace)
        self._bounds = bounds
        self._retry_policy = retrying
        self._recent: deque[tuple[str, datetime]] = deque()
        """The session and end of each recent turn."""

    async def run(self, work: TurnInput, node: TraceNode, callbacks: TurnCallbacks = NO_CALLBACKS) -> Outcome:
        """Run a turn and return its outcome; raise InputError if the model cannot be opened."""
        context = self._connect(work, callbacks, node.trace.id)
        decision = work.assembly.prefix_decision
        node.emit(
            EventType.PROMPT_BUILT,
            prompt_hash=context.prompt_hash,
            layers=work.assembly.prompt.section_count,
            tokens=work.assembly.used,
            cached_tokens=work.assembly.count_cached_tokens(),
            **work.assembly.count_losses(),
            **({} if decision.action is Action.REUSE else {"ledger": decision_to_json(decision)}),
        )
        now = node.trace.clock()
        while self._recent and self._recent[0][1] <= now - RECENT_PERIOD:
            self._recent.popleft()
        run = TurnRun(context, self._make_tool_context(work.assembly, callbacks), work, self._bounds.rounds)
        if work.assembly.plan.mode is Mode.BRIEF:
            await callbacks.emit(PassagesRecalled(passages=work.assembly.passages))
        try:
            with node.step(EventType.TURN_STARTED, model=work.assembly.turn.model, attempt=work.attempt) as turn:
                return await self._work(turn, run, work.assembly.turn.session)
        except TurnEnded as error:
            return await run.give_up(error)

    async def call_tool(
        self, assembly: Assembly, call: ToolCall, node: TraceNode, callbacks: TurnCallbacks, call_id: str
    ) -> ToolResult:
        """Run one tool for a turn before its model is called, under a stable call id."""
        return await run_tool_call(node, self._make_tool_context(assembly, callbacks), call, call_id)

    def _make_tool_context(self, assembly: Assembly, callbacks: TurnCallbacks) -> ToolContext:
        return ToolContext(
            assembly=assembly,
            tools=self._tools,
            seconds=self._bounds.tool_seconds,
            callbacks=callbacks,
            records_arguments=self._workspace.config.events.arguments,
        )

    async def ask(
        self, assembly: Assembly, above: TraceStep, *, response_format: str = "", max_tokens: int | None = None
    ) -> str:
        """Call a model once outside any turn and return its text; run no tools."""
        work = TurnInput(
            assembly=assembly, is_side_request=True, response_format=response_format, max_tokens=max_tokens
        )
        context = self._connect(work, NO_CALLBACKS)
        return read_text(await ModelCaller(context).call(above, (make_first_message(context.envelope),)))

    def _connect(self, work: TurnInput, callbacks: TurnCallbacks, turn: str = "") -> CallContext:
        """Find the model of a turn, record its prompt, and open its ledger."""
        assembly = work.assembly
        opened = self._models.find(assembly.turn.model)
        if work.response_format:
            tools = bool(assembly.tools)
            if why := find_unsupported_format(opened, work.response_format, assembly.turn.model, tools=tools):
                raise InputError(why)
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
            event_stream=self._event_stream,
            callbacks=callbacks,
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

    async def _work(self, turn: TraceStep, run: TurnRun, session: str) -> Outcome:
        """Run the conversation; record the outcome on the turn if it ends early."""
        try:
            return await run.converse(turn)
        except TurnEnded as error:
            turn.note(outcome=str(error.end))
            if isinstance(error, ProviderError):
                turn.note(calls_refused=error.tries)
            if error.end is TurnEnd.QUEUED:
                # Turns of other sessions, and turns without a session, may be of other people.
                before = sum(one == session for one, _ in self._recent) if session else 0
                turn.note(turns_before=before, minutes_before=RECENT_PERIOD.seconds // 60)
            raise
        except asyncio.CancelledError:
            turn.note(outcome="stopped", error=STOPPED_REASON, level=Level.WARN)
            raise
        finally:
            self._recent.append((session, turn.trace.clock()))


@frozen
class SubagentMeans:
    """What subagents run with."""

    loop: AgentLoop
    toolbox: Toolbox
    assemble: Callable[[Turn], Awaitable[Assembly]]


class Delegation:
    """Runs subagents with the minimal prompt, the caller's clearance and no history.

    The subagent's steps appear below the tool call in the trace, and its cost counts towards the turn. It has the tools
    of its agent, except those that change something, the caller's tasks and workflow, and delegation itself.
    """

    def __init__(self, workspace: Workspace, choose: Callable[[str], Awaitable[str]]) -> None:
        self._workspace = workspace
        self._choose = choose
        self.means: SubagentMeans | None = None
        """Set after construction, because the loop also runs this tool."""

    async def call(self, assembly: Assembly, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Run a subagent on a task; return its report."""
        task, agents = str(arguments["task"]).strip(), self._workspace.config.agents
        agent = str(arguments.get("agent") or assembly.turn.agent)
        if not task:
            raise InputError("say what is to be done")
        if agent not in agents:
            raise UnknownName("agent", agent, agents)
        means = self.means
        if means is None or CURRENT_CALL.get(None) is None:
            raise InputError(f"{name} works within a turn only")
        tools, extensions = await means.toolbox.find(agent)
        excluded = {*TASKS.functions, *WORKFLOW.functions, DELEGATE_TOOL}
        caller = assembly.turn
        turn = Turn(
            agent=agent,
            user=caller.user,
            channel=caller.channel,
            room=caller.room,
            situation=caller.situation,
            ceiling=caller.ceiling,
            session=caller.session,
            message=task,
            mode=Mode.MINIMAL,
            now=caller.now,
            model=await self._choose(agent),
            tools=Toolset(tool for tool in tools.tools if not tool.changes and tool.name not in excluded),
            extensions=extensions,
        )
        sub = await means.assemble(turn)
        outcome = await means.loop.run(TurnInput(assembly=sub, is_side_request=True), CURRENT_CALL.get())
        if outcome.end is not TurnEnd.ANSWERED:
            raise ToolError(f"the helper came to no end: {outcome.text}")
        return ToolAnswer(text=outcome.text, tokens=assembly.meter.count(outcome.text))
