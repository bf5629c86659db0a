"""A turn of a session while it waits for replies, and its steps: each is one request and its reply."""

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from foreword.agent.agent_events import ApprovalNeeded, BudgetExceeded, CallSettled
from foreword.agent.conversation import (
    Answer,
    CallPart,
    Messages,
    UserMessage,
    add_fenced_result,
    add_result,
    make_user_message,
)
from foreword.agent.model_call import RequestInputs, RequestWriter, check_reservation, record_prompt
from foreword.agent.model_reply import RequestedCall
from foreword.agent.providers.provider import AnswerDone
from foreword.agent.reply_stream import MalformedCall, ToolCall, parse_calls
from foreword.agent.tool_calls import MAX_CALLED_NAME_CHARS, ToolContext, ToolResult, parse_arguments, run_tool_call
from foreword.assembly import Assembly
from foreword.envelope import Envelope
from foreword.errors import InputError, suggest_name
from foreword.events.cost import Reservation
from foreword.events.event import EventType, Level
from foreword.events.sinks import EventStream
from foreword.events.tracer import TraceNode, Tracer, TraceStep
from foreword.turn import Tool
from foreword.types import Placement

if TYPE_CHECKING:
    from foreword.agent.session import OpenSession
    from foreword.agent.session_dump import OpenTurnDump
    from foreword.workspace import Workspace

TOOL_SECONDS = 60.0  # the time limit of a tool without its own

Approve = Callable[[RequestedCall], bool | Awaitable[bool]]
"""Decides whether a call that changes something may run."""


class OpenTurn:
    """A turn of a session while it waits for replies."""

    def __init__(
        self,
        session: "OpenSession",
        workspace: "Workspace",
        inputs: RequestInputs,
        requests: RequestWriter,
        events: EventStream,
    ) -> None:
        self.session = session
        self.workspace = workspace
        self.inputs = inputs
        self.messages: Messages = ()
        self.stack = ExitStack()
        """The open steps of its trace."""
        self._requests = requests
        self._events = events
        self._envelope: Envelope | None = None
        """The written request of its newest step."""

    def start(self, trace: Tracer, taken: Messages, stored: "OpenTurnDump | None") -> None:
        """Open the trace, and make the first step."""
        assembly = self.inputs.assembly
        turn, message = assembly.turn, assembly.message
        above: TraceNode = trace
        if stored is None:
            above = self.stack.enter_context(trace.step(EventType.MESSAGE_RECEIVED, length=len(message)))
            self._record_prompt(above)
        self.position = above.position
        attempt = 2 if stored else 1
        self.node = self.stack.enter_context(above.step(EventType.TURN_STARTED, model=turn.model, attempt=attempt))
        self.messages = taken or (make_first_user_message(assembly),)
        self.step = SessionStep(self, find_calls(self.messages, native=self.is_native))
        self.step.results.update(stored.results if stored else {})

    def _record_prompt(self, received: TraceNode) -> None:
        """Record the clearance, the prompt and the decision of the ledger."""
        assembly = self.inputs.assembly
        received.emit(EventType.TRUST_RESOLVED, **assembly.clearance.describe(assembly.turn.situation))
        record_prompt(received, assembly, self.inputs.prompt_hash)

    @property
    def is_native(self) -> bool:
        """Whether the model has native tool calls."""
        return self.inputs.assembly.meter.facts.native_tools

    def write(self) -> Envelope:
        """Write the request of the newest step once: add its results, reserve its cost, and set the breakpoints."""
        if self._envelope is None:
            messages = self.step.add_results(self.messages)
            self._call = self.node.step(
                EventType.API_CALL, model=self.inputs.assembly.turn.model, prompt_hash=self.inputs.prompt_hash
            )
            self._call.__enter__()
            try:
                self._reservation = self._reserve(self._call, messages)
            except BudgetExceeded as error:
                self._call.__exit__(BudgetExceeded, error, None)
                raise
            self._sent, self._envelope = messages, self._requests.write(messages, self.workspace.clock(), stream=False)
        return self._envelope

    def _reserve(self, call: TraceStep, messages: Messages) -> Reservation:
        """Reserve the maximum cost of the request."""
        guard = self._events.budgets
        if guard is None or not guard.has_limits(call.trace.context):
            return Reservation(allowed=True)
        most = self._requests.estimate_max_cost(messages)
        reservation = guard.reserve(call.trace.context, call.trace.id, most)
        check_reservation(call, reservation)
        return reservation

    def settle(self, done: AnswerDone) -> CallSettled:
        """Account for the reply to the newest step, and make the next one."""
        settled = self._requests.settle(self._call, done)
        if self._events.budgets:
            self._events.budgets.settle(self._reservation, settled.usd)
        if self._reservation.warnings:
            self._call.note(level=Level.WARN, budget="; ".join(self._reservation.warnings))
        self._call.__exit__(None, None, None)
        self.messages, self._envelope = (*self._sent, done.answer), None
        self.step = SessionStep(self, find_calls(self.messages, native=self.is_native))
        return settled

    def give_up(self, reason: str) -> None:
        """Release what the newest step holds: no reply comes."""
        if self._envelope:
            if self._events.budgets:
                self._events.budgets.release(self._reservation)
            self._call.note(error=reason, level=Level.WARN)
            self._call.__exit__(None, None, None)
            self._envelope = None
        self.messages = self.step.add_known_results(self.messages)
        self.node.note(outcome="stopped", error=reason, level=Level.WARN)

    def refuse(self, error: BudgetExceeded) -> None:
        """Close the trace of a turn that a budget refuses."""
        self.node.note(outcome=str(error.end))
        self.stack.close()


class SessionStep:
    """One request of a session and its reply."""

    def __init__(self, turn: OpenTurn, calls: tuple[RequestedCall, ...]) -> None:
        self._turn = turn
        self._calls = calls
        self.results: dict[str, tuple[str, bool]] = {}
        """The results of its calls by id, each with whether the call failed."""

    @property
    def request(self) -> dict[str, Any]:
        """The complete body of the request, in the shape of the model: `client.messages.create(**step.request)`."""
        self._check_open()
        body: dict[str, Any] = json.loads(self._turn.write().encode())
        return body

    @property
    def assembly(self) -> Assembly:
        """The assembled prompt of the turn, for `explain` and counts."""
        return self._turn.inputs.assembly

    @property
    def system(self) -> str:
        """The system prompt; its bytes stay equal through a session unless the ledger rebases them."""
        return self._join(Placement.SYSTEM)

    @property
    def tail(self) -> str:
        """What precedes the user's words in the newest message: the clock, recalled memory, changes of the prompt."""
        return self._join(Placement.TAIL)

    @property
    def inserted(self) -> str:
        """A system message that follows the user's; only some models accept one, for any other it is empty."""
        return self.assembly.prefix_decision.inserted

    @property
    def message(self) -> str:
        """The user's words."""
        return self.assembly.message

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that the request offers; none if the model has no native tool calls."""
        return self.assembly.tools.tools if self._turn.is_native else ()

    @property
    def tool_calls(self) -> tuple[RequestedCall, ...]:
        """The calls of the newest answer that have no result yet; the request needs all of them."""
        return tuple(call for call in self._calls if call.id not in self.results)

    def answered(self, reply: object) -> "SessionStep | None":
        """Take the reply to this step; return the next step, or None if the turn has ended."""
        self._check_open()
        return self._turn.session.answered(reply)

    def tool_results(self, results: Mapping[str, str | Exception]) -> "SessionStep":
        """Set the results of calls by id; an exception marks the call as failed."""
        self._check_open()
        for call, result in results.items():
            if not isinstance(result, str | Exception):
                raise InputError(f"the result of call {call} must be a text or an exception, not {result!r}")
        for call, result in results.items():
            self.results[self._find_call(call).id] = (str(result) or "(nothing)", isinstance(result, Exception))
        return self

    def run_tools(self, approve: Approve | None = None) -> "SessionStep":
        """Run the calls of tools that have a function, each at the clearance of the turn; others stay in `tool_calls`.

        A call that changes something runs only if `approve` returns true for it.
        """
        if not self.tool_calls:
            return self
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.run_tools_async(approve))
        raise InputError("an event loop is running; use await step.run_tools_async()")

    async def run_tools_async(self, approve: Approve | None = None) -> "SessionStep":
        """Run the calls as `run_tools` does, in the running event loop."""
        for call in self.tool_calls:
            tool = self.assembly.tools.find(call.name)
            if tool is None or tool.function or call.problem:
                await self.run_call(call.id, approve)
        return self

    async def run_call(self, call_id: str, approve: Approve | None = None) -> str:
        """Run one call and return its result, for frameworks that call tools themselves."""
        self._check_open()
        call, turn = self._find_call(call_id), self._turn
        known = ToolCall(name=call.name, arguments=call.arguments)
        wanted = MalformedCall(reason=call.problem) if call.problem else known
        context = ToolContext(
            assembly=self.assembly,
            workspace=turn.workspace,
            loop=None,
            seconds=TOOL_SECONDS,
            spending=turn.inputs.spending,
            records_arguments=turn.inputs.config.events.arguments,
        )
        async for event in run_tool_call(turn.node, context, wanted, call.id):
            if isinstance(event, ToolResult):
                self.results[call.id] = (event.text, not event.done)
            elif isinstance(event, ApprovalNeeded) and approve:
                allowed = approve(call)
                event.decide(allowed=bool(await allowed if inspect.isawaitable(allowed) else allowed))
        return self.results[call.id][0]

    def add_results(self, messages: Messages) -> Messages:
        """Add the results to messages, in the order of the calls; raise InputError if one is missing."""
        if missing := self.tool_calls:
            names = ", ".join(f"{call.name} ({call.id})" for call in missing)
            raise InputError(f"no result for {names}; call step.run_tools() or step.tool_results({{id: text}})")
        return self.add_known_results(messages)

    def add_known_results(self, messages: Messages) -> Messages:
        """Add the results that there are."""
        answer = messages[-1]
        parts = {part.id: part for part in answer.calls} if isinstance(answer, Answer) else {}
        for call in self._calls:
            if call.id not in self.results:
                continue
            text, failed = self.results[call.id]
            if self._turn.is_native:
                part = parts.get(call.id) or CallPart(id=call.id, name=call.name)
                messages = add_result(messages, part, text, failed=failed)
            else:
                messages = add_fenced_result(messages, f"Result of {call.name or 'your block'}:\n{text}")
        return messages

    def _find_call(self, call: str) -> RequestedCall:
        """Return a call that has no result yet."""
        found = next((one for one in self._calls if one.id == call), None)
        if found is None:
            raise InputError(
                f"this step has no tool call {call!r}{suggest_name(call, [one.id for one in self._calls])}"
            )
        if call in self.results:
            raise InputError(f"the tool call {call} has a result already")
        return found

    def _join(self, placement: Placement) -> str:
        blocks = self.assembly.prompt.blocks
        return "".join(block.text for block in blocks if block.placement is placement)

    def _check_open(self) -> None:
        """Raise InputError if the session has moved on."""
        if self._turn.session.step is not self:
            raise InputError("this step is over: it has its reply, or a later say() has closed it; use session.step")


def find_calls(messages: Messages, *, native: bool) -> tuple[RequestedCall, ...]:
    """Return the tool calls of the newest message."""
    answer = messages[-1]
    if not isinstance(answer, Answer):
        return ()
    if native:
        return tuple(
            make_requested_call(part.id, part.name, parse_arguments(part.name, part.arguments)) for part in answer.calls
        )
    return tuple(make_requested_call(f"call_{at}", "", call) for at, call in enumerate(parse_calls(answer.text), 1))


def make_requested_call(call: str, name: str, parsed: ToolCall | MalformedCall) -> RequestedCall:
    """Make a tool call for the caller."""
    if isinstance(parsed, MalformedCall):
        return RequestedCall(id=call, name=name, problem=parsed.reason)
    return RequestedCall(id=call, name=parsed.name[:MAX_CALLED_NAME_CHARS], arguments=parsed.arguments)


def make_first_user_message(assembly: Assembly) -> UserMessage:
    """Make the first message of a turn: the tail, the user's words, and a system message after them."""
    tail = "".join(block.text for block in assembly.prompt.blocks if block.placement is Placement.TAIL)
    texts = filter(None, (tail, assembly.message))
    return make_user_message(*texts, system=assembly.prefix_decision.inserted)
