"""Consent: a call that changes something runs after a person's yes, or is held until one comes; it begins once."""

import json

from foreword.events.trace import Step
from foreword.frozen import frozen
from foreword.runtime.calls import Asked
from foreword.runtime.ears import Asking, Ears
from foreword.turn import Tool

LONGEST = 2_000  # characters of one argument that a person is shown
MANY = 20  # arguments that a person is shown
BEGUN = (
    "{name} was not called again: it had begun before an interruption, and nobody knows whether it was done. "
    "Look whether it was before you call it once more."
)


@frozen
class Call:
    """A call that could be made, under an id that stays the same."""

    id: str
    tool: Tool
    asked: Asked


@frozen(eq=True)
class Objection:
    """Why a call is not made."""

    words: str
    """For the model."""
    status: str = "refused"
    """For the log."""


async def find_objection(step: Step, ears: Ears, call: Call) -> Objection | None:
    """Return why a call is not made: it is denied or held, or it had begun before an interruption."""
    name = call.tool.name
    if not call.tool.changes:
        return None
    if call.tool.confirm and (objection := await ask_person(step, ears, call)):
        return objection
    # A call that was interrupted while the person was thinking has not begun: they are asked again.
    if not await ears.may_begin(call.id, name):
        step.note(interrupted="yes")
        return Objection(words=BEGUN.format(name=name))
    return None


async def ask_person(step: Step, ears: Ears, call: Call) -> Objection | None:
    """Ask the person; hold the call where nobody answers."""
    name = call.tool.name
    asking = Asking(id=call.id, name=name, question=write_question(call.asked))
    allowed = await ears.is_allowed(asking)
    if allowed is None:
        return Objection(words=await ears.hold_call(asking, call.asked.arguments), status="held")
    step.note(confirmed="yes" if allowed else "no")
    return None if allowed else Objection(words=f"{name} was not called: the person has not allowed it.")


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
