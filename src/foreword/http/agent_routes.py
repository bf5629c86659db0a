"""`/api/agents`: the stored soul and identity of agents. `/api/instructions`: standing instructions of users.

`/api/memory`: list, search and read memory at the caller's clearance, as the agent's tools do.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import Field, StringConstraints

from foreword.agent.tools.declaration import TextExcerpt
from foreword.agent.tools.registry import record_memory_event
from foreword.agent.tools.state_tools import INSTRUCTIONS_STORE, INSTRUCTIONS_TRUST
from foreword.assembly import Assembly
from foreword.config.schema import Identity
from foreword.engine.context import StoredCharacter
from foreword.errors import InputError
from foreword.events.event import find_context
from foreword.events.tracer import Tracer
from foreword.http.error_responses import HttpError, make_not_found
from foreword.http.request_context import MAX_NAME_CHARS, ContextDep, RequestContext, RequestModel, ResponseModel
from foreword.memory.stores import MAX_QUERY_CHARS
from foreword.storage import agents
from foreword.turn import ToolAnswer
from foreword.types import Trust

AgentPath = Annotated[str, Path(max_length=MAX_NAME_CHARS, description="An agent of foreword.yaml.")]
AgentQuery = Annotated[str, Query(max_length=MAX_NAME_CHARS, description="The agent; default: the first one.")]
UserQuery = Annotated[
    str, Query(max_length=MAX_NAME_CHARS, description="The user; default: yourself. Another user needs full trust.")
]
SEARCH_TOOL, GET_TOOL = "memory_search", "memory_get"
SituationQuery = Annotated[
    str | None, Query(max_length=MAX_NAME_CHARS, description="A situation with a lower clearance than a private chat.")
]
StoreQuery = Annotated[str, Query(max_length=MAX_NAME_CHARS, description="Limit to one store.")]
CharacterText = Annotated[str, StringConstraints(max_length=agents.MAX_SOUL_CHARS)]

agent_router = APIRouter(prefix="/api/agents", tags=["agents"])
instruction_router = APIRouter(prefix="/api/instructions", tags=["instructions"])
memory_router = APIRouter(prefix="/api/memory", tags=["memory"])


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


@agent_router.get("/{agent}", operation_id="readAgent")
async def get_agent(agent: AgentPath, context: ContextDep) -> AgentShape:
    """Return the stored soul and identity of an agent. Needs full trust."""
    return await change_agent(context, agent, lambda _: None)


@agent_router.put("/{agent}/soul", operation_id="setSoul")
async def set_soul(agent: AgentPath, body: SoulRequest, context: ContextDep) -> AgentShape:
    """Store a soul for an agent; it applies from the next message. Needs full trust."""
    return await change_agent(context, agent, lambda state: agents.set_character(state, agent, soul=body.soul))


@agent_router.delete("/{agent}/soul", operation_id="clearSoul")
async def clear_soul(agent: AgentPath, context: ContextDep) -> AgentShape:
    """Delete the stored soul; the agent falls back to its file or foreword.yaml. Needs full trust."""
    return await change_agent(context, agent, lambda state: agents.set_character(state, agent, soul=""))


@agent_router.put("/{agent}/identity", operation_id="setIdentity")
async def set_identity(agent: AgentPath, body: IdentityRequest, context: ContextDep) -> AgentShape:
    """Store an identity for an agent; it applies from the next message. Needs full trust."""
    given = body.identity
    identity = given if isinstance(given, str) else Identity(**given.model_dump())
    return await change_agent(context, agent, lambda state: agents.set_character(state, agent, identity=identity))


@agent_router.delete("/{agent}/identity", operation_id="clearIdentity")
async def clear_identity(agent: AgentPath, context: ContextDep) -> AgentShape:
    """Delete the stored identity; the agent falls back to its file or foreword.yaml. Needs full trust."""
    return await change_agent(context, agent, lambda state: agents.set_character(state, agent, identity=""))


async def change_agent(context: RequestContext, agent: str, change: Callable[[sqlite3.Connection], None]) -> AgentShape:
    """Change the stored soul and identity of an agent and return both; raise a 404 below full trust."""
    if context.find_clearance() is not Trust.FULL:
        raise make_not_found("route")
    if agent not in context.config.agents:
        raise make_not_found("agent")

    def apply(state: sqlite3.Connection) -> StoredCharacter:
        change(state)
        return agents.find_character(state, agent)

    stored = await context.use_state(apply)
    identity = stored.identity
    shown = IdentityShape(**asdict(identity)) if isinstance(identity, Identity) else identity
    return AgentShape(agent=agent, soul=stored.soul, identity=shown)


def record_use(context: RequestContext, assembly: Assembly, tool: str, store: str, count: int) -> None:
    """Record the use of memory in the log like the call of a tool, without the text."""
    trace = Tracer(context.gateway.listeners.recorder, find_context(assembly))
    record_memory_event(trace, tool, ToolAnswer(text="", tokens=0, store=store, count=count))


class InstructionsShape(ResponseModel):
    """The standing instructions of a user for an agent."""

    user: str
    agent: str
    instructions: str = Field(description="Empty if there are none.")


class InstructionsRequest(RequestModel):
    """New instructions that replace the old ones."""

    instructions: Annotated[str, StringConstraints(min_length=1, max_length=agents.MAX_INSTRUCTIONS_CHARS)] = Field(
        description="The complete new text; use DELETE to remove the instructions."
    )


@instruction_router.get("", operation_id="readInstructions")
async def get_instructions(context: ContextDep, agent: AgentQuery = "", user: UserQuery = "") -> InstructionsShape:
    """Return the standing instructions."""
    user, agent = choose_instructions(context, user, agent)
    clearance = context.find_clearance()
    text = await context.use_state(lambda state: agents.find_instructions(state, user, agent, clearance))
    return InstructionsShape(user=user, agent=agent, instructions=text or "")


@instruction_router.put("", operation_id="setInstructions")
async def put_instructions(
    body: InstructionsRequest, context: ContextDep, agent: AgentQuery = "", user: UserQuery = ""
) -> InstructionsShape:
    """Replace the standing instructions; the change applies from the next message."""
    if not body.instructions.strip():
        raise HttpError(422, "the instructions are blank; use DELETE to remove them", param="instructions")
    return await store_instructions(context, user, agent, body.instructions)


@instruction_router.delete("", operation_id="clearInstructions")
async def delete_instructions(context: ContextDep, agent: AgentQuery = "", user: UserQuery = "") -> InstructionsShape:
    """Delete the standing instructions."""
    return await store_instructions(context, user, agent, "")


def choose_instructions(context: RequestContext, user: str, agent: str, *, writes: bool = False) -> tuple[str, str]:
    """Return the user and the agent; raise a 404 if the caller may not read or write their instructions."""
    clearance, user = context.find_clearance(), user or context.user
    agent = agent or next(iter(context.config.agents))
    if clearance < INSTRUCTIONS_TRUST:
        raise make_not_found("route")
    may_choose = clearance is Trust.FULL and (context.user == context.config.owner or not writes)
    if (user != context.user and not may_choose) or user not in context.config.users:
        raise make_not_found("user")
    if agent not in context.config.agents:
        raise make_not_found("agent")
    return user, agent


async def store_instructions(context: RequestContext, user: str, agent: str, text: str) -> InstructionsShape:
    """Store the instructions and record the change in the log, without the text."""
    user, agent = choose_instructions(context, user, agent, writes=True)
    stored = await context.use_state(lambda state: agents.replace_instructions(state, user, agent, text))
    record_use(context, await context.assemble(), "update_instructions", INSTRUCTIONS_STORE, 1)
    return InstructionsShape(user=user, agent=agent, instructions=stored)


class MemoryMenu(ResponseModel):
    """The memories that can be loaded, one line each with the size in tokens."""

    lines: list[str]


class FoundPassage(ResponseModel):
    """A passage found by a search."""

    path: str
    first: int
    last: int
    heading: str
    text: str
    score: float
    origin: str | None


class PassageList(ResponseModel):
    """The passages found by a search, best first."""

    passages: list[FoundPassage]


class MemoryLines(ResponseModel):
    """Lines of a memory file."""

    text: str
    first: int
    last: int
    total: int
    tokens: int


@memory_router.get("", operation_id="listMemory")
async def list_memory(context: ContextDep, store: StoreQuery = "", situation: SituationQuery = None) -> MemoryMenu:
    """List the memories that you may see."""
    assembly = await context.assemble(situation)
    if SEARCH_TOOL not in assembly.tools:
        return MemoryMenu(lines=[])
    memory = context.gateway.workspace.memory
    return MemoryMenu(lines=await asyncio.to_thread(memory.menu, assembly.audience, assembly.meter, store))


@memory_router.get("/search", operation_id="searchMemory", response_model=PassageList)
async def search_memory(
    context: ContextDep,
    query: Annotated[str, Query(max_length=MAX_QUERY_CHARS, description="The question, in plain language.")],
    limit: Annotated[int, Query(ge=1, le=20)] = 5,
    store: StoreQuery = "",
    situation: SituationQuery = None,
) -> Any:
    """Search the stores that you may see; other stores are not opened."""
    assembly = await context.assemble(situation)
    if SEARCH_TOOL not in assembly.tools:
        return {"passages": []}
    audience, memory = assembly.audience, context.gateway.workspace.memory
    hits = await asyncio.to_thread(memory.search, query, audience, limit=limit, store=store)
    record_use(context, assembly, SEARCH_TOOL, ", ".join(memory.open_to(audience, store)), len(hits))
    return {"passages": [{**asdict(hit), "origin": str(hit.provenance) if hit.provenance else None} for hit in hits]}


@memory_router.get("/entry", operation_id="readMemory")
async def read_memory(
    context: ContextDep,
    path: Annotated[str, Query(max_length=1_000, description="The path as shown by a search_memory or the list.")],
    first: Annotated[int, Query(alias="from", ge=1, le=10_000_000)] = 1,
    lines: Annotated[int | None, Query(ge=1, le=10_000_000)] = None,
    situation: SituationQuery = None,
) -> MemoryLines:
    """Read a memory, or lines of it; a memory that you may not see is treated as unknown."""
    assembly = await context.assemble(situation)
    arguments = {"path": path, "from": first} | ({"lines": lines} if lines else {})
    try:
        excerpt = await asyncio.to_thread(context.gateway.workspace.call, assembly, GET_TOOL, arguments)
    except InputError:
        raise make_not_found("memory") from None
    if not isinstance(excerpt, TextExcerpt):
        raise make_not_found("memory")
    return MemoryLines(**asdict(excerpt))
