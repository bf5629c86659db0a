"""Stored soul and identity of agents: read and set at full trust.

`/api/instructions`: standing instructions of a user for an agent.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field, StringConstraints

from foreword.agent.tools.registry import record_memory_event
from foreword.agent.tools.state_tools import INSTRUCTIONS_STORE, INSTRUCTIONS_TRUST
from foreword.config.schema import Identity
from foreword.events.query import find_context
from foreword.events.tracer import Tracer
from foreword.http.error_responses import HttpError, make_not_found
from foreword.http.request_context import ContextDep, RequestContext
from foreword.http.schemas import MAX_NAME_CHARS, RequestModel, ResponseModel, list_error_responses
from foreword.storage.agents import (
    MAX_INSTRUCTIONS_CHARS,
    MAX_SOUL_CHARS,
    find_character,
    find_instructions,
    replace_instructions,
    set_character,
)
from foreword.storage.database import use_state
from foreword.turn import ToolAnswer
from foreword.types import Trust

AgentPath = Annotated[str, Path(max_length=MAX_NAME_CHARS, description="An agent of foreword.yaml.")]
CharacterText = Annotated[str, StringConstraints(max_length=MAX_SOUL_CHARS)]

agent_router = APIRouter(prefix="/api/agents", tags=["agents"])


class IdentityShape(ResponseModel):
    """An identity as fields."""

    name: str = ""
    emoji: str = ""
    creature: str = ""
    vibe: str = ""
    description: str = ""


class AgentShape(ResponseModel):
    """The stored soul and identity; an empty or null value means that the agent's file or foreword.yaml applies."""

    agent: str
    soul: str
    identity: IdentityShape | str | None


class SoulRequest(RequestModel):
    """A soul for an agent."""

    soul: CharacterText = Field(
        description="The soul; it takes precedence over the agent's file. An empty string deletes it."
    )


class IdentityFields(RequestModel):
    """An identity as fields."""

    name: CharacterText = ""
    emoji: CharacterText = ""
    creature: CharacterText = ""
    vibe: CharacterText = ""
    description: CharacterText = ""


class IdentityRequest(RequestModel):
    """An identity for an agent."""

    identity: IdentityFields | CharacterText = Field(description="Fields, or a text. An empty string deletes it.")


@agent_router.get("/{agent}", operation_id="readAgent", responses=list_error_responses())
async def get_agent(agent: AgentPath, desk: ContextDep) -> AgentShape:
    """Return the stored soul and identity of an agent. Needs full trust."""
    check_agent_access(desk, agent)
    return await change_character(desk, agent)


@agent_router.put("/{agent}/soul", operation_id="setSoul", responses=list_error_responses())
async def set_soul(agent: AgentPath, asked: SoulRequest, desk: ContextDep) -> AgentShape:
    """Store a soul for an agent; it applies from the next message. Needs full trust."""
    check_agent_access(desk, agent)
    return await change_character(desk, agent, lambda state: set_character(state, agent, soul=asked.soul))


@agent_router.delete("/{agent}/soul", operation_id="clearSoul", responses=list_error_responses())
async def clear_soul(agent: AgentPath, desk: ContextDep) -> AgentShape:
    """Delete the stored soul; the agent falls back to its file or foreword.yaml. Needs full trust."""
    check_agent_access(desk, agent)
    return await change_character(desk, agent, lambda state: set_character(state, agent, soul=""))


@agent_router.put("/{agent}/identity", operation_id="setIdentity", responses=list_error_responses())
async def set_identity(agent: AgentPath, asked: IdentityRequest, desk: ContextDep) -> AgentShape:
    """Store an identity for an agent; it applies from the next message. Needs full trust."""
    check_agent_access(desk, agent)
    given = asked.identity
    identity = given if isinstance(given, str) else Identity(**given.model_dump())
    return await change_character(desk, agent, lambda state: set_character(state, agent, identity=identity))


@agent_router.delete("/{agent}/identity", operation_id="clearIdentity", responses=list_error_responses())
async def clear_identity(agent: AgentPath, desk: ContextDep) -> AgentShape:
    """Delete the stored identity; the agent falls back to its file or foreword.yaml. Needs full trust."""
    check_agent_access(desk, agent)
    return await change_character(desk, agent, lambda state: set_character(state, agent, identity=""))


def check_agent_access(desk: RequestContext, agent: str) -> None:
    """Raise a 404 below full trust, as for an unknown route, and for an unknown agent."""
    if desk.find_clearance() is not Trust.FULL:
        raise make_not_found("route")
    if agent not in desk.config.agents:
        raise make_not_found("agent")


async def change_character(
    desk: RequestContext, agent: str, work: Callable[[sqlite3.Connection], None] | None = None
) -> AgentShape:
    """Apply a change to the stored soul and identity of an agent and return both."""

    def find() -> AgentShape:
        with use_state(desk.folder) as state:
            if work:
                work(state)
            stored = find_character(state, agent)
        identity = stored.identity
        shown = IdentityShape(**asdict(identity)) if isinstance(identity, Identity) else identity
        return AgentShape(agent=agent, soul=stored.soul, identity=shown)

    return await asyncio.to_thread(find)


AgentQuery = Annotated[str, Query(max_length=MAX_NAME_CHARS, description="The agent; default: the first one.")]
UserQuery = Annotated[
    str, Query(max_length=MAX_NAME_CHARS, description="The user; default: yourself. Another user needs full trust.")
]

instruction_router = APIRouter(prefix="/api/instructions", tags=["instructions"])


class InstructionsShape(ResponseModel):
    """The standing instructions of a user for an agent."""

    user: str
    agent: str
    instructions: str = Field(description="Empty if there are none.")


class InstructionsRequest(RequestModel):
    """New instructions that replace the old ones."""

    instructions: Annotated[str, StringConstraints(min_length=1, max_length=MAX_INSTRUCTIONS_CHARS)] = Field(
        description="The complete new text; use DELETE to remove the instructions."
    )


@instruction_router.get("", operation_id="readInstructions", responses=list_error_responses())
async def get_instructions(desk: ContextDep, agent: AgentQuery = "", user: UserQuery = "") -> InstructionsShape:
    """Return the standing instructions."""
    person, name = choose_instructions(desk, user, agent)
    level = desk.find_clearance()

    def find() -> str:
        with use_state(desk.folder) as state:
            return find_instructions(state, person, name, level) or ""

    return InstructionsShape(user=person, agent=name, instructions=await asyncio.to_thread(find))


@instruction_router.put("", operation_id="setInstructions", responses=list_error_responses())
async def put_instructions(
    asked: InstructionsRequest, desk: ContextDep, agent: AgentQuery = "", user: UserQuery = ""
) -> InstructionsShape:
    """Replace the standing instructions; the change applies from the next message."""
    if not asked.instructions.strip():
        raise HttpError(422, "the instructions are blank; use DELETE to remove them", param="instructions")
    return await store_instructions(desk, *choose_instructions(desk, user, agent, writes=True), asked.instructions)


@instruction_router.delete("", operation_id="clearInstructions", responses=list_error_responses())
async def delete_instructions(desk: ContextDep, agent: AgentQuery = "", user: UserQuery = "") -> InstructionsShape:
    """Delete the standing instructions."""
    return await store_instructions(desk, *choose_instructions(desk, user, agent, writes=True), "")


def choose_instructions(desk: RequestContext, user: str, agent: str, *, writes: bool = False) -> tuple[str, str]:
    """Return the user and the agent; raise a 404 if the caller may not read or write their instructions."""
    level, person = desk.find_clearance(), user or desk.user
    name = agent or next(iter(desk.config.agents))
    if level < INSTRUCTIONS_TRUST:
        raise make_not_found("route")
    allowed = level is Trust.FULL and (desk.user == desk.config.owner or not writes)
    if (person != desk.user and not allowed) or person not in desk.config.users:
        raise make_not_found("user")
    if name not in desk.config.agents:
        raise make_not_found("agent")
    return person, name


async def store_instructions(desk: RequestContext, user: str, agent: str, text: str) -> InstructionsShape:
    """Store the instructions and record the change in the log, without the text."""

    def write() -> str:
        with use_state(desk.folder) as state:
            return replace_instructions(state, user, agent, text)

    kept = await asyncio.to_thread(write)
    context = find_context(await desk.assemble())
    trace = Tracer(desk.gateway.listeners.recorder, context)
    record_memory_event(trace, "update_instructions", ToolAnswer(text="", tokens=0, store=INSTRUCTIONS_STORE, count=1))
    return InstructionsShape(user=user, agent=agent, instructions=kept)
