"""The tool by which an agent keeps what a person wants of it from now on."""

from collections.abc import Mapping
from typing import Any

from foreword.assembly import Assembly
from foreword.errors import Forbidden, InputError, UnknownName
from foreword.store.instructions import LONGEST, replace_instructions
from foreword.store.state import use_state
from foreword.tools.answer import Answer
from foreword.trust import has_company
from foreword.turn import Tool, Toolset
from foreword.words import Trust

INSTRUCTED = Trust.FAMILIAR  # the least clearance that has instructions of its own
SHOWN = 2_000  # characters that a prompt may show of them
STORE = "instructions"  # what the log calls the place they are kept in

INSTRUCTING = Toolset(
    [
        Tool(
            name="update_instructions",
            description=(
                "Replace this person's standing instructions, which you are told in every conversation with them. "
                "Read the present ones with read_memory first and keep in the new text all that still holds; "
                "an empty text clears them."
            ),
            parameters={
                "type": "object",
                "properties": {
                    "instructions": {
                        "type": "string",
                        "maxLength": LONGEST,
                        "description": "The whole new text; it replaces all that was there.",
                    }
                },
                "required": ["instructions"],
                "additionalProperties": False,
            },
            trust=INSTRUCTED,
            kind="instructions",
            shown_in=("instructions",),
            seconds=20,
            changes=True,
        )
    ]
)


class Instructing:
    """Runs the tool for one turn: it reaches the instructions of the speaking person for this agent, and no others."""

    def __init__(self, assembly: Assembly, folder: str) -> None:
        self._assembly = assembly
        self._folder = folder

    def call(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Replace the instructions."""
        turn = self._assembly.turn
        if name not in self._assembly.terms.tools or name not in INSTRUCTING:
            raise UnknownName("tool", name, self._assembly.terms.tools.names & INSTRUCTING.names)
        if has_company(turn):
            raise Forbidden("standing instructions are changed in a private conversation, not where others read")
        if not turn.user:
            raise Forbidden("nobody is known to be speaking, so there is nobody to keep instructions for")
        text = arguments.get("instructions")
        if not isinstance(text, str):
            raise InputError("'instructions' is a text: the whole new instructions")
        if unknown := arguments.keys() - {"instructions"}:
            raise UnknownName("argument", min(map(str, unknown))[:40], ["instructions"])
        with use_state(self._folder) as state:
            kept = replace_instructions(state, turn.user, turn.agent, text, self._assembly.clearance.level)
        said = describe(kept)
        return Answer(text=said, tokens=self._assembly.terms.meter.count(said), store=STORE, count=1)


def describe(kept: str) -> str:
    """Say what is kept now, and what a prompt may not show of it."""
    if not kept:
        return "The standing instructions are cleared."
    long = f" A prompt may show only {SHOWN:,} of them; read_memory shows all." if len(kept) > SHOWN else ""
    return f"The standing instructions are replaced: {len(kept):,} characters, in force from the next message on.{long}"
