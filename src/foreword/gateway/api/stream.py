"""Server-sent events: what a running turn says, as it says it, with a sign of life where it says nothing."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, TypeVar

from fastapi.responses import StreamingResponse

from foreword.gateway.api.body import write

SSE = "text/event-stream"
UNBUFFERED = {"X-Accel-Buffering": "no"}  # for proxies that would hold a stream back
QUIET = 15.0  # seconds of silence after which a comment is sent, so that nothing on the way closes the connection
ALIVE = ": keep-alive\n\n"
T = TypeVar("T")


def write_event(data: Any, name: str = "") -> str:
    """Write one event; JSON has no line breaks of its own, so its data is one line."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {data if isinstance(data, str) else write(data)}\n\n"


async def keep_alive(source: AsyncIterator[T], quiet: float = QUIET) -> AsyncIterator[T | None]:
    """Pass on what comes, and None for every while in which nothing does."""
    upcoming = asyncio.ensure_future(anext(source))
    try:
        while True:
            done, _ = await asyncio.wait({upcoming}, timeout=quiet)
            if not done:
                yield None
                continue
            try:
                piece = upcoming.result()
            except StopAsyncIteration:
                return
            yield piece
            upcoming = asyncio.ensure_future(anext(source))
    finally:
        upcoming.cancel()


def stream(events: AsyncIterator[str], headers: Mapping[str, str]) -> StreamingResponse:
    """Answer with events that belong to no turn."""
    return StreamingResponse(events, media_type=SSE, headers={**UNBUFFERED, **headers})
