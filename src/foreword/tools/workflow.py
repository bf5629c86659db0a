"""The tool by which an agent keeps where a session stands in what it is going through."""

from collections.abc import Mapping
from typing import Any

from foreword.assembly import Assembly
from foreword.errors import InputError, UnknownName
from foreword.store.state import use_state
from foreword.store.workflows import LONGEST, replace_workflow
from foreword.tools.answer import Answer
from foreword.turn import Tool, Toolset
from foreword.words import Trust

WORKFLOWS = Toolset(
    [
        Tool(
            name="workflow_write",
            description=(
                "Write down where this conversation stands in a process of several stages, which you are told with "
                "every further message of it. The text replaces the one before; an empty text ends the workflow."
            ),
            parameters={
                "type": "object",
                "properties": {
                    "text": {
                        "type": "string",
                        "maxLength": LONGEST,
                        "description": "The process, the stage it is in, and what comes next, in a few lines.",
                    }
                },
                "required": ["text"],
                "additionalProperties": False,
            },
            trust=Trust.INNER,
            kind="workflow",
            shown_in=("workflow",),
            seconds=20,
        )
    ]
)


class WorkflowKeeping:
    """Runs the tool for one turn: it reaches the workflow of the turn's own session, and no other."""

    def __init__(self, assembly: Assembly, folder: str) -> None:
        self._assembly = assembly
        self._folder = folder

    def call(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Write the workflow."""
        if name not in self._assembly.terms.tools or name not in WORKFLOWS:
            raise UnknownName("tool", name, self._assembly.terms.tools.names & WORKFLOWS.names)
        session, text = self._assembly.turn.session, arguments.get("text")
        if not session:
            raise InputError("this turn belongs to no session, so there is nowhere to keep its workflow")
        if not isinstance(text, str):
            raise InputError("'text' is a text: where the workflow stands")
        with use_state(self._folder) as state:
            kept = replace_workflow(state, session, text)
        said = "The workflow is written." if kept else "No workflow is active any more."
        return Answer(text=said, tokens=self._assembly.terms.meter.count(said), count=1)
