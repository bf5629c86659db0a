"""Approval of tool calls: a call that changes something needs a person's approval, and starts only once."""

import json

from foreword.agent.agent_events import ApprovalNeeded, TurnCallbacks
from foreword.agent.reply_stream import ToolCall
from foreword.events.tracer import TraceStep
from foreword.turn import Tool
from foreword.types import frozen

MAX_SHOWN_ARGUMENT_CHARS = 2_000  # characters shown of one argument
MAX_SHOWN_ARGUMENTS = 20  # arguments shown
INTERRUPTED_CALL_TEXT = (
    "{name} was not called again: it had begun before an interruption, and nobody knows whether it was done. "
    "Look whether it was before you call it once more."
)


@frozen
class PendingCall:
    """A tool call with its stable id."""

    id: str
    tool: Tool
    asked: ToolCall


@frozen(eq=True)
class Objection:
    """The reason why a call does not run."""

    words: str
    """The text for the model."""
    status: str = "refused"
    """The status in the event log."""


async def find_objection(step: TraceStep, ears: TurnCallbacks, call: PendingCall) -> Objection | None:
    """Return why a call does not run: it was denied or held, or it started before an interruption."""
    name = call.tool.name
    if not call.tool.changes:
        return None
    if call.tool.confirm and (objection := await request_approval(step, ears, call)):
        return objection
    # A call interrupted while waiting for approval has not started; the person is asked again.
    if not await ears.may_begin(call.id, name):
        step.note(interrupted="yes")
        return Objection(words=INTERRUPTED_CALL_TEXT.format(name=name))
    return None


async def request_approval(step: TraceStep, ears: TurnCallbacks, call: PendingCall) -> Objection | None:
    """Ask the person for approval; hold the call if there is no decision."""
    name = call.tool.name
    asking = ApprovalNeeded(id=call.id, name=name, question=write_question(call.asked))
    allowed = await ears.is_allowed(asking)
    if allowed is None:
        return Objection(words=await ears.hold_call(asking, call.asked.arguments), status="held")
    step.note(confirmed="yes" if allowed else "no")
    return None if allowed else Objection(words=f"{name} was not called: the person has not allowed it.")


def write_question(asked: ToolCall) -> str:
    """Format a call for a person: the tool, and each argument on one line."""
    lines = [
        f"  {escape_unprintable(name)[:MAX_SHOWN_ARGUMENT_CHARS]}: {render_argument(value)}"
        for name, value in asked.arguments.items()
    ]
    more = [f"  ({len(lines) - MAX_SHOWN_ARGUMENTS:,} more)"] if len(lines) > MAX_SHOWN_ARGUMENTS else []
    return "\n".join([asked.name, *lines[:MAX_SHOWN_ARGUMENTS], *more])


def render_argument(value: object) -> str:
    """Format an argument; truncate a long one and add its length."""
    text = escape_unprintable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return (
        text
        if len(text) <= MAX_SHOWN_ARGUMENT_CHARS
        else f"{text[:MAX_SHOWN_ARGUMENT_CHARS]}… ({len(text):,} characters)"
    )


def escape_unprintable(text: str) -> str:
    """Escape non-printable characters, so that they cannot move or hide text."""
    return text if text.isprintable() else "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)
