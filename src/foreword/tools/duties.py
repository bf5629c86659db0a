"""The tools by which an agent takes on a responsibility and gives one up, each by its exact title.

They are for full trust, and what they write is told to all who may know what the agent does: so a person confirms it.
"""

from collections.abc import Mapping
from typing import Any

from foreword.assembly import Assembly
from foreword.config.schema import Responsibility
from foreword.errors import Forbidden, InputError, UnknownName, suggest
from foreword.sources.document import normalise
from foreword.sources.ground import Ground
from foreword.sources.injection import scan
from foreword.store.responsibilities import (
    CONTENT,
    TITLE,
    add_responsibility,
    list_responsibilities,
    remove_responsibility,
)
from foreword.store.state import use_state
from foreword.tools.answer import Answer
from foreword.turn import Tool, Toolset
from foreword.words import Trust

NAMED: Mapping[str, Any] = {"type": "string", "maxLength": TITLE}


def make_tool(name: str, description: str, **properties: Mapping[str, Any]) -> Tool:
    """Make a tool that changes what an agent has taken on."""
    return Tool(
        name=name,
        description=description,
        parameters={
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        },
        trust=Trust.FULL,
        kind="responsibilities",
        shown_in=("responsibilities",),
        seconds=20,
        changes=True,
    )


DUTIES = Toolset(
    [
        make_tool(
            "responsibility_add",
            "Take on a lasting responsibility, which you are told in every conversation from the next message on.",
            title={**NAMED, "description": "The name it is known by; no other responsibility has it."},
            content={"type": "string", "maxLength": CONTENT, "description": "What it asks of you, whole."},
        ),
        make_tool(
            "responsibility_remove",
            "Give up a responsibility that was added with responsibility_add.",
            title={**NAMED, "description": "Its exact title, as your responsibilities show it."},
        ),
    ]
)


class DutyKeeping:
    """Runs the tools for one turn: they reach what the agent of the turn has taken on, and no other agent."""

    def __init__(self, assembly: Assembly, ground: Ground, folder: str) -> None:
        self._assembly = assembly
        self._folder = folder
        given = ground.config.agents[assembly.turn.agent].responsibilities
        self._given = {" ".join(one.title.split()).casefold() for one in given}

    def call(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Take on a responsibility, or give one up."""
        if name not in self._assembly.terms.tools or name not in DUTIES:
            raise UnknownName("tool", name, self._assembly.terms.tools.names & DUTIES.names)
        title = take_text(arguments, "title")
        said = self._remove(title) if name == "responsibility_remove" else self._add(title, arguments)
        return Answer(text=said, tokens=self._assembly.terms.meter.count(said), store="responsibilities", count=1)

    def _add(self, title: str, arguments: Mapping[str, Any]) -> str:
        content = take_text(arguments, "content")
        if title.casefold() in self._given:
            raise InputError(f"the configuration has a responsibility {title!r} already; choose another title")
        if scan(f"{title}\n{content}"):
            raise Forbidden("its words read like an order to disregard others; say what is to be done instead")
        turn = self._assembly.turn
        with use_state(self._folder) as state, state:
            state.execute("BEGIN IMMEDIATE")  # two at once must not both find the title free
            add_responsibility(state, turn.agent, Responsibility(title=title, content=content), turn.user)
        return f"Taken on: {title}. It is in force from the next message on."

    def _remove(self, title: str) -> str:
        with use_state(self._folder) as state:
            if remove_responsibility(state, self._assembly.turn.agent, title):
                return f"Given up: {title}."
            held = [one.title for one in list_responsibilities(state, self._assembly.turn.agent)]
        if title.casefold() in self._given:
            raise Forbidden(f"{title!r} stands in the configuration; only the owner can remove it, in foreword.yaml")
        raise InputError(f"there is no responsibility with exactly this title{suggest(title, held)}")


def take_text(arguments: Mapping[str, Any], name: str) -> str:
    """Take a text from the arguments of a call."""
    value = arguments.get(name)
    if not isinstance(value, str):
        raise InputError(f"{name!r} is a text")
    return normalise(value).strip()
