"""`/api/memory`: list, search and read memory at the caller's clearance, as the agent's tools do."""

import asyncio
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query

from foreword.agent.tools.built_in import TextExcerpt
from foreword.agent.tools.registry import record_memory_event
from foreword.errors import InputError
from foreword.events.event import find_context
from foreword.events.tracer import Tracer
from foreword.http.error_responses import make_not_found
from foreword.http.request_context import MAX_NAME_CHARS, ContextDep, ResponseModel
from foreword.memory.stores import MAX_QUERY_CHARS
from foreword.turn import ToolAnswer

SEARCH_TOOL, GET_TOOL = "memory_search", "memory_get"
SituationQuery = Annotated[
    str | None, Query(max_length=MAX_NAME_CHARS, description="A situation with a lower clearance than a private chat.")
]
StoreQuery = Annotated[str, Query(max_length=MAX_NAME_CHARS, description="Limit to one store.")]

memory_router = APIRouter(prefix="/api/memory", tags=["memory"])


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
    stores = ", ".join(memory.open_to(audience, store))
    trace = Tracer(context.gateway.listeners.recorder, find_context(assembly))
    record_memory_event(trace, SEARCH_TOOL, ToolAnswer(text="", tokens=0, store=stores, count=len(hits)))
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
