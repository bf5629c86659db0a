"""What comes before a call that changes something: it is begun once, and a person is asked where that is possible."""

import json

from foreword.events.trace import Step
from foreword.runtime.calls import Asked
from foreword.runtime.ears import Asking, Ears
from foreword.turn import Tool

LONGEST = 2_000  # characters of one argument that a person is shown
MANY = 20  # arguments that a person is shown
BEGUN = (
    "{name} was not called again: it had begun before an interruption, and nobody knows whether it was done. "
    "Look whether it was before you call it once more."
)


async def find_objection(step: Step, ears: Ears, tool: Tool, asked: Asked, call: str) -> str:
    """Say why a call is not made, in words for the model: it had begun before, or a person does not allow it."""
    if not tool.changes:
        return ""
    if not await ears.may_begin(call, tool.name):
        step.note(interrupted="yes")
        return BEGUN.format(name=tool.name)
    allowed = await ears.is_allowed(Asking(id=call, name=tool.name, question=write_question(asked)))
    if allowed is None:
        return ""
    step.note(confirmed="yes" if allowed else "no")
    return "" if allowed else f"{tool.name} was not called: the person did not allow it."


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
