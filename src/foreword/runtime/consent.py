"""What comes before a call that changes something: a person is asked where that is possible, and it is begun once."""

import json

from foreword.events.trace import Step
from foreword.frozen import frozen
from foreword.runtime.calls import Asked
from foreword.runtime.ears import Asking, Ears
from foreword.turn import Tool
from foreword.words import Trust

LONGEST = 2_000  # characters of one argument that a person is shown
MANY = 20  # arguments that a person is shown
BEGUN = (
    "{name} was not called again: it had begun before an interruption, and nobody knows whether it was done. "
    "Look whether it was before you call it once more."
)
BELOW = (
    "{name} was not called: what it writes can be read at {reaches}, below the trust of this conversation. "
    "A person has to confirm that, and nobody can be asked here."
)


@frozen
class Call:
    """A call that could be made, under an id that stays the same."""

    id: str
    tool: Tool
    asked: Asked
    clearance: Trust


async def find_objection(step: Step, ears: Ears, call: Call) -> str:
    """Say why a call is not made, in words for the model: nobody has allowed it, or it had begun before."""
    name = call.tool.name
    if not call.tool.changes:
        return ""
    if call.tool.confirm and (refusal := await find_refusal(step, ears, call)):
        return refusal
    # Only now: one that was interrupted while the person thought has not begun, and is asked about again.
    if not await ears.may_begin(call.id, name):
        step.note(interrupted="yes")
        return BEGUN.format(name=name)
    return ""


async def find_refusal(step: Step, ears: Ears, call: Call) -> str:
    """Ask a person where one can be asked, and say that nobody has allowed a call."""
    name = call.tool.name
    allowed = await ears.is_allowed(Asking(id=call.id, name=name, question=write_question(call.asked)))
    if allowed is None:
        return "" if call.clearance <= call.tool.reaches else BELOW.format(name=name, reaches=call.tool.reaches)
    step.note(confirmed="yes" if allowed else "no")
    return "" if allowed else f"{name} was not called: nobody has allowed it."


def write_question(asked: Asked) -> str:
    """Write for a person what is to be done: the tool, and each argument on a line that nothing can break."""
    lines = [f"  {show_plain(name)[:LONGEST]}: {show_argument(value)}" for name, value in asked.arguments.items()]
    more = [f"  ({len(lines) - MANY:,} more)"] if len(lines) > MANY else []
    return "\n".join([asked.name, *lines[:MANY], *more])


def show_argument(value: object) -> str:
    """Show an argument; a long one is cut, with its length."""
    text = show_plain(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters)"


def show_plain(text: str) -> str:
    """Show a text on one line, so that no sign in it moves or hides what a person reads."""
    return text if text.isprintable() else "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)
