"""Memory: searched, listed and read at the clearance of who asks, exactly as the agent's own tools do it."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query

from foreword.errors import InputError
from foreword.events.reader import find_context
from foreword.events.trace import Trace
from foreword.gateway.api.desk import AtDesk
from foreword.gateway.api.faults import missing
from foreword.gateway.api.shapes import LONGEST_NAME, Told, answers
from foreword.memory import Hit
from foreword.memory.memory import LONGEST_QUERY
from foreword.tools import Answer, Reading
from foreword.tools.telling import tell_answer

SEARCH, GET = "memory_search", "memory_get"
Situation = Annotated[
    str | None, Query(max_length=LONGEST_NAME, description="A situation that allows less than a private chat.")
]
Store = Annotated[str, Query(max_length=LONGEST_NAME, description="One store only.")]

router = APIRouter(prefix="/api/memory", tags=["memory"])


class Menu(Told):
    """What can be loaded, a line each, with its price in tokens."""

    lines: list[str]


class Passage(Told):
    """One passage that a search found."""

    path: str
    first: int
    last: int
    heading: str
    text: str
    score: float
    origin: str | None


class Passages(Told):
    """What a search found, the best first."""

    passages: list[Passage]


class Lines(Told):
    """Lines of a memory."""

    text: str
    first: int
    last: int
    total: int
    tokens: int


@router.get("", operation_id="listMemory", responses=answers())
async def show_menu(desk: AtDesk, store: Store = "", situation: Situation = None) -> Menu:
    """List what is in memory, as far as one may see it."""
    assembly = await desk.assemble(situation)
    if SEARCH not in assembly.terms.tools:
        return Menu(lines=[])
    memory, terms = desk.gateway.workspace.memory, assembly.terms
    return Menu(lines=await asyncio.to_thread(memory.menu, assembly.audience, terms.meter, store))


@router.get("/search", operation_id="searchMemory", responses=answers())
async def search(
    desk: AtDesk,
    query: Annotated[str, Query(max_length=LONGEST_QUERY, description="What one wants to know, in plain words.")],
    limit: Annotated[int, Query(ge=1, le=20)] = 5,
    store: Store = "",
    situation: Situation = None,
) -> Passages:
    """Find passages in the stores that one may see; no other is touched."""
    assembly = await desk.assemble(situation)
    if SEARCH not in assembly.terms.tools:
        return Passages(passages=[])
    audience, memory = assembly.audience, desk.gateway.workspace.memory
    hits = await asyncio.to_thread(memory.search, query, audience, limit=limit, store=store)
    stores = ", ".join(memory.open_to(audience, store))
    trace = Trace(desk.gateway.listeners.recorder, find_context(assembly))
    tell_answer(trace, SEARCH, Answer(text="", tokens=0, store=stores, count=len(hits)))
    return Passages(passages=[show(hit) for hit in hits])


def show(hit: Hit) -> Passage:
    """Show one passage."""
    return Passage(
        path=hit.path,
        first=hit.first,
        last=hit.last,
        heading=hit.heading,
        text=hit.text,
        score=hit.score,
        origin=str(hit.provenance) if hit.provenance else None,
    )


@router.get("/entry", operation_id="readMemory", responses=answers())
async def read(
    desk: AtDesk,
    path: Annotated[str, Query(max_length=1_000, description="The path as a search or the list shows it.")],
    first: Annotated[int, Query(alias="from", ge=1, le=10_000_000)] = 1,
    lines: Annotated[int | None, Query(ge=1, le=10_000_000)] = None,
    situation: Situation = None,
) -> Lines:
    """Read a memory, or lines of it; what one may not see is not there."""
    assembly = await desk.assemble(situation)
    asked = {"path": path, "from": first} | ({"lines": lines} if lines else {})
    try:
        reading = await asyncio.to_thread(desk.gateway.workspace.call, assembly, GET, asked)
    except InputError:
        raise missing("memory") from None
    if not isinstance(reading, Reading):
        raise missing("memory")
    return Lines(text=reading.text, first=reading.first, last=reading.last, total=reading.total, tokens=reading.tokens)
