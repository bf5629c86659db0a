"""Standing instructions: a person's own; others' are read at full trust and written by the owner."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field, StringConstraints

from foreword.events.reader import find_context
from foreword.events.trace import Trace
from foreword.gateway.api.desk import AtDesk, Desk
from foreword.gateway.api.faults import Fault, missing
from foreword.gateway.api.shapes import LONGEST_NAME, Asked, Told, answers
from foreword.store.instructions import LONGEST, find_instructions, replace_instructions
from foreword.store.state import use_state
from foreword.tools import Answer
from foreword.tools.instructing import INSTRUCTED, STORE
from foreword.tools.telling import tell_answer
from foreword.words import Trust

AgentName = Annotated[str, Query(max_length=LONGEST_NAME, description="The agent; else the first one.")]
Person = Annotated[
    str, Query(max_length=LONGEST_NAME, description="Whose instructions; else one's own. Another's are for full trust.")
]

router = APIRouter(prefix="/api/instructions", tags=["instructions"])


class InstructionsShape(Told):
    """What a person wants of an agent in every conversation."""

    user: str
    agent: str
    instructions: str = Field(description="Empty where there are none.")


class InstructionsRequest(Asked):
    """New instructions, in the place of the old ones."""

    instructions: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST)] = Field(
        description="The whole new text; to remove them, delete them."
    )


@router.get("", operation_id="readInstructions", responses=answers())
async def show(desk: AtDesk, agent: AgentName = "", user: Person = "") -> InstructionsShape:
    """Show standing instructions, whole."""
    person, name = choose(desk, user, agent)
    level = desk.find_clearance()

    def find() -> str:
        with use_state(desk.folder) as state:
            return find_instructions(state, person, name, level) or ""

    return InstructionsShape(user=person, agent=name, instructions=await asyncio.to_thread(find))


@router.put("", operation_id="setInstructions", responses=answers())
async def replace(
    asked: InstructionsRequest, desk: AtDesk, agent: AgentName = "", user: Person = ""
) -> InstructionsShape:
    """Replace standing instructions, in force from the next message on."""
    if not asked.instructions.strip():
        raise Fault(422, "the instructions are blank; to remove them, delete them", param="instructions")
    return await keep(desk, *choose(desk, user, agent, writes=True), asked.instructions)


@router.delete("", operation_id="clearInstructions", responses=answers())
async def clear(desk: AtDesk, agent: AgentName = "", user: Person = "") -> InstructionsShape:
    """Remove standing instructions."""
    return await keep(desk, *choose(desk, user, agent, writes=True), "")


def choose(desk: Desk, user: str, agent: str, *, writes: bool = False) -> tuple[str, str]:
    """Choose the person and the agent; another person's are read at full trust and written by the owner."""
    level, person = desk.find_clearance(), user or desk.user
    name = agent or next(iter(desk.config.agents))
    if level < INSTRUCTED:
        raise missing("route")
    allowed = level is Trust.FULL and (desk.user == desk.config.owner or not writes)
    if (person != desk.user and not allowed) or person not in desk.config.users:
        raise missing("user")
    if name not in desk.config.agents:
        raise missing("agent")
    return person, name


async def keep(desk: Desk, user: str, agent: str, text: str) -> InstructionsShape:
    """Keep a text, and record that there was a change; none of its words are recorded."""

    def write() -> str:
        with use_state(desk.folder) as state:
            return replace_instructions(state, user, agent, text)

    kept = await asyncio.to_thread(write)
    context = find_context(await desk.assemble())
    trace = Trace(desk.gateway.listeners.recorder, context)
    tell_answer(trace, "update_instructions", Answer(text="", tokens=0, store=STORE, count=1))
    return InstructionsShape(user=user, agent=agent, instructions=kept)
