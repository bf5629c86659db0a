"""Tool calls of a model: approval, time limits, dispatch to the runner of each tool, and errors as text."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from foreword.agent.agent_events import ApprovalNeeded, CallBegins, TurnSpending
from foreword.agent.reply_stream import MalformedCall, ToolCall
from foreword.agent.tools.declaration import TextExcerpt, ToolRun
from foreword.agent.tools.registry import record_memory_event
from foreword.assembly import Assembly
from foreword.engine.trust import hide_own_paths
from foreword.errors import Forbidden, InputError, ToolError, suggest_name
from foreword.events.event import EventType, Level
from foreword.events.tracer import TraceNode, TraceStep, describe_error
from foreword.storage.database import StorageError
from foreword.turn import Tool, ToolAnswer, ToolFunction
from foreword.types import frozen
from foreword.workspace import Workspace

if TYPE_CHECKING:
    from foreword.agent.loop import AgentLoop


def parse_arguments(name: str, written: str | Mapping[str, Any] | None) -> ToolCall | MalformedCall:
    """Parse the arguments that a model wrote."""
    if isinstance(written, Mapping):
        return ToolCall(name=name, arguments=written)
    try:
        value = json.loads(written or "{}", strict=False)
    except (ValueError, RecursionError) as error:
        return MalformedCall(reason=f"the arguments of {name[:100]} are no JSON ({error})")
    if not isinstance(value, dict):
        return MalformedCall(reason=f"the arguments of {name[:100]} are no JSON object")
    return ToolCall(name=name, arguments=value)


MAX_SHOWN_ARGUMENT_CHARS = 2_000  # characters shown of one argument
MAX_SHOWN_ARGUMENTS = 20  # arguments shown
INTERRUPTED_CALL_TEXT = (
    "{name} was not called again: it had begun before an interruption, and it is unknown whether it ran. "
    "Check before calling it again."
)
MAX_RESULT_CHARS = 40_000  # characters of one result
MAX_CALLED_NAME_CHARS = 100
MAX_LOGGED_REASON_CHARS = 300  # characters of a reason in the event log
MIN_HIDDEN_CHARS = 3  # redacting shorter arguments would remove too much of the reason
PRIVATE_KINDS = ("memory", "reading")  # tools whose arguments contain text and paths of a person's own memory
QUOTATION = re.compile(r"'[^']*'|\"[^\"]*\"")
WORD_PATTERN = re.compile(r"\w{3,}")


@frozen
class ToolResult:
    """The text returned to the model, and whether the tool succeeded."""

    text: str
    done: bool


@frozen
class ToolContext:
    """What all tool calls of a turn share."""

    assembly: Assembly
    workspace: Workspace
    loop: "AgentLoop | None"
    """The loop that runs the turn, and those of its subagents; None if the caller of the library runs it."""
    seconds: float
    """The time limit of tools without their own."""
    spending: TurnSpending
    begun: Collection[str] = ()
    """The ids of calls that began before an interruption."""
    records_arguments: bool = False
    """Whether the event log records the arguments of each call (`events.arguments`)."""


async def run_tool_call(
    turn: TraceNode, context: ToolContext, call: ToolCall | MalformedCall, call_id: str
) -> AsyncGenerator[ApprovalNeeded | CallBegins | ToolResult]:
    """Run a tool call under a stable id, and record it as a step of the turn; its result is the last event.

    A call that a rule forbids, or that is malformed, is recorded as a warning with its reason. A tool that runs and
    fails is recorded as an error.
    """
    name = call.name[:MAX_CALLED_NAME_CHARS] if isinstance(call, ToolCall) else ""
    with turn.step(EventType.TOOL_CALL, name=name, **describe_arguments(context, call)) as step:
        try:
            work = prepare_call(step, context, call)
        except InputError as error:
            yield record_refusal(step, context, call, str(error))
            return
        if work.tool.changes:
            if work.tool.confirm:
                approval = ApprovalNeeded(call_id, work.call.name, write_question(work.call), work.call.arguments)
                yield approval
                if refused := read_decision(step, context, work.call, approval):
                    yield refused
                    return
            # A call interrupted while waiting for approval has not started; the person is asked again.
            if call_id in context.begun:
                step.note(interrupted="yes")
                yield record_refusal(step, context, call, INTERRUPTED_CALL_TEXT.format(name=work.tool.name))
                return
            yield CallBegins(id=call_id, name=work.tool.name)
        yield await run_tool(step, context, work)


def read_decision(step: TraceStep, context: ToolContext, call: ToolCall, approval: ApprovalNeeded) -> ToolResult | None:
    """Return the result of a call that is held or denied; None if the person has allowed it."""
    if approval.allowed is None:
        return record_refusal(step, context, call, approval.held, status="held")
    step.note(confirmed="yes" if approval.allowed else "no")
    if approval.allowed:
        return None
    return record_refusal(step, context, call, f"{call.name} was not called: the person has not allowed it.")


def describe_arguments(context: ToolContext, call: ToolCall | MalformedCall) -> dict[str, Any]:
    """Return the arguments of a call as event fields, if the configuration records them."""
    if not isinstance(call, ToolCall) or not may_record_arguments(context, call):
        return {}
    return {"arguments": dict(call.arguments)}


def may_record_arguments(context: ToolContext, call: ToolCall) -> bool:
    """Return whether the event log records the arguments of a call.

    Other people read the log, so it never records arguments of memory tools or unknown tools in private conversations.
    """
    tool = context.assembly.tools.find(call.name)
    private = bool(context.assembly.audience.person) and (tool is None or tool.kind in PRIVATE_KINDS)
    return context.records_arguments and not private


def redact_arguments(reason: str, context: ToolContext, call: ToolCall | MalformedCall) -> str:
    """Redact the arguments that a reason quotes, unless they are recorded: they may contain message text.

    A path of a person's own memory is always redacted.
    """
    reason = hide_own_paths(reason)
    if not isinstance(call, ToolCall) or may_record_arguments(context, call):
        return reason
    texts = sorted(
        {text for text in list_argument_texts(call.arguments) if len(text) >= MIN_HIDDEN_CHARS}, key=len, reverse=True
    )
    for text in texts:
        reason = reason.replace(text, "…")
    # A quotation may be truncated or escaped, so it need not equal a whole argument.
    words = {word for text in texts for word in WORD_PATTERN.findall(text)}
    return QUOTATION.sub(lambda found: found[0] if words.isdisjoint(WORD_PATTERN.findall(found[0])) else "'…'", reason)


def list_argument_texts(value: object) -> Iterator[str]:
    """Yield every text in the arguments of a call."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from list_argument_texts(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from list_argument_texts(one)


@frozen
class PreparedCall:
    """A call that may run: its tool, and the arguments as the tool's function takes them."""

    call: ToolCall
    tool: Tool
    function: ToolFunction
    run: ToolRun
    values: Mapping[str, Any]


def prepare_call(step: TraceNode, context: ToolContext, call: ToolCall | MalformedCall) -> PreparedCall:
    """Look up the tool of a call and read its arguments; raise InputError with the reason why it cannot be called."""
    if isinstance(call, MalformedCall):
        raise InputError(f"Nothing was called: {call.reason}.")
    tools = context.assembly.tools
    tool = tools.find(call.name)
    if tool is None or tool.function is None:
        name = call.name[:MAX_CALLED_NAME_CHARS]
        raise InputError(f"There is no tool {name!r} here{suggest_name(call.name, sorted(tools.names))}.")
    if tool.changes and context.assembly.turn.plan:
        raise InputError(
            f"{tool.name} was not called: plan mode is on, in which nothing is changed. Put it into the plan."
        )
    try:
        values = tool.function.read(tool, call.arguments)
    except InputError as error:
        raise InputError(f"{tool.name} was not called: {error}.") from None
    except RecursionError:
        raise InputError(f"{tool.name} was not called: its arguments are nested too deeply.") from None
    run = ToolRun(
        workspace=context.workspace,
        assembly=context.assembly,
        name=tool.name,
        node=step,
        loop=context.loop,
        spending=context.spending,
    )
    return PreparedCall(call=call, tool=tool, function=tool.function, run=run, values=values)


def write_question(call: ToolCall) -> str:
    """Format a call for a person: the tool, and each argument on one line."""
    lines = [
        f"  {escape_unprintable(name)[:MAX_SHOWN_ARGUMENT_CHARS]}: {render_argument(value)}"
        for name, value in call.arguments.items()
    ]
    more = [f"  ({len(lines) - MAX_SHOWN_ARGUMENTS:,} more)"] if len(lines) > MAX_SHOWN_ARGUMENTS else []
    return "\n".join([call.name, *lines[:MAX_SHOWN_ARGUMENTS], *more])


def render_argument(value: object) -> str:
    """Format an argument; truncate a long one and add its length."""
    text = escape_unprintable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    if len(text) <= MAX_SHOWN_ARGUMENT_CHARS:
        return text
    return f"{text[:MAX_SHOWN_ARGUMENT_CHARS]}… ({len(text):,} characters)"


def escape_unprintable(text: str) -> str:
    """Escape non-printable characters, so that they cannot move or hide text."""
    return text if text.isprintable() else "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


async def run_tool(step: TraceStep, context: ToolContext, work: PreparedCall) -> ToolResult:
    """Run a tool; the model gets the message of expected errors only, the log gets every message."""
    call, seconds = work.call, context.seconds if work.tool.seconds is None else work.tool.seconds
    try:
        async with asyncio.timeout(seconds) as limit:
            answer = await work.function.call(work.run, work.values)
    except Forbidden as error:
        return record_refusal(step, context, call, f"{call.name} refused: {error}", reason=str(error))
    except Exception as error:  # noqa: BLE001 - a tool may run third-party code
        if isinstance(error, TimeoutError) and limit.expired():
            step.note(error=f"no answer within {seconds:g} s")
            return ToolResult(text=f"{call.name} did not answer within {seconds:g} seconds.", done=False)
        if isinstance(error, InputError | ToolError) and not isinstance(error, StorageError):
            reason = redact_arguments(str(error), context, call)
            step.note(status="failed", error=reason[:MAX_LOGGED_REASON_CHARS] or type(error).__name__)
            return ToolResult(text=f"{call.name} failed: {error}", done=False)
        # The message may name a local file, and the model cannot correct the error.
        step.note(**describe_error(error))
        return ToolResult(text=f"{call.name} failed ({type(error).__name__}); the log has the details.", done=False)
    record_memory_event(step, call.name, answer, **describe_arguments(context, call))
    step.note(status="ok")
    return ToolResult(text=render_answer(answer), done=True)


def record_refusal(
    step: TraceStep,
    context: ToolContext,
    call: ToolCall | MalformedCall,
    text: str,
    *,
    reason: str = "",
    status: str = "refused",
) -> ToolResult:
    """Record a refusal with its reason, by default the text for the model."""
    reason = redact_arguments(reason or text, context, call)
    step.note(status=status, level=Level.WARN, reason=reason[:MAX_LOGGED_REASON_CHARS])
    return ToolResult(text=text, done=False)


def render_answer(answer: ToolAnswer) -> str:
    """Return an answer as text for the model, truncated to the limit."""
    more = f"\n(more: {answer.more})" if isinstance(answer, TextExcerpt) and answer.more else ""
    return f"{cut_result(answer.text)}{more}" or "(nothing)"


def cut_result(text: str) -> str:
    """Cut a result at the limit, and say so."""
    if len(text) <= MAX_RESULT_CHARS:
        return text
    return f"{text[:MAX_RESULT_CHARS]}\n(cut: {len(text):,} characters)"
