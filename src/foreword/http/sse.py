"""Clients that wait for turns. With `server.on_disconnect: stop`, the last one to disconnect stops the turn.

Server-sent events: formatting, keep-alive comments and the streaming response.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from fastapi import Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from foreword.gateway.messages import TurnReply
from foreword.http.middleware import DISCONNECTED_KEY, write_json

SSE_MEDIA_TYPE = "text/event-stream"
NO_BUFFER_HEADERS = {"X-Accel-Buffering": "no"}  # for proxies that buffer responses
KEEP_ALIVE_S = 15.0  # seconds without events before a keep-alive comment, so that proxies do not close the connection
KEEP_ALIVE_COMMENT = ": keep-alive\n\n"
T = TypeVar("T")


def write_event(data: Any, name: str = "") -> str:
    """Write one event; compact JSON has no line breaks, so the data is one line."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {data if isinstance(data, str) else write_json(data)}\n\n"


async def keep_alive(source: AsyncIterator[T], quiet: float = KEEP_ALIVE_S) -> AsyncIterator[T | None]:
    """Yield the items of `source`, and None whenever `quiet` seconds pass without one."""
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


def make_stream(events: AsyncIterator[str], headers: Mapping[str, str]) -> StreamingResponse:
    """Return a streaming response for events that belong to no turn."""
    return StreamingResponse(events, media_type=SSE_MEDIA_TYPE, headers={**NO_BUFFER_HEADERS, **headers})


class WaitingClients:
    """The registry of clients that wait for each turn."""

    def __init__(self, stop: Callable[[str], Awaitable[bool]]) -> None:
        self._stop = stop
        self._clients: dict[str, set[object]] = {}
        self._stopping: set[asyncio.Task[None]] = set()

    @contextmanager
    def join(self, turn: str) -> Iterator[object]:
        """Add a client to a turn until the block ends or the client disconnects; yield the client."""
        client = object()
        self._clients.setdefault(turn, set()).add(client)
        try:
            yield client
        finally:
            self._remove(turn, client)

    def disconnect(self, turn: str, client: object) -> None:
        """Remove a client, and stop the turn if no other client waits for it."""
        self._remove(turn, client)
        if turn not in self._clients:
            task = asyncio.create_task(self._end(turn))
            self._stopping.add(task)
            task.add_done_callback(self._stopping.discard)

    def _remove(self, turn: str, client: object) -> None:
        clients = self._clients.get(turn, set())
        clients.discard(client)
        if not clients:
            self._clients.pop(turn, None)

    async def _end(self, turn: str) -> None:
        await self._stop(turn)

    async def wait(self, request: Request, turn: str, reply: Awaitable[TurnReply], *, stops: bool) -> TurnReply:
        """Wait for the reply to a turn; if `stops` is true, a disconnect of the last client stops the turn."""
        with self.join(turn) as client:
            if not stops:
                return await reply
            watching = asyncio.create_task(self._watch(request, turn, client))
            try:
                return await reply
            finally:
                watching.cancel()
                with suppress(asyncio.CancelledError):
                    await watching

    async def _watch(self, request: Request, turn: str, client: object) -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        self.disconnect(turn, client)


class TurnStream(StreamingResponse):
    """Streams the events of a turn. If `waiters` is given, a disconnect of the last client stops the turn."""

    def __init__(
        self, events: AsyncIterator[str], headers: Mapping[str, str], turn: str, waiters: WaitingClients | None = None
    ) -> None:
        super().__init__(self._pass_on(events), media_type=SSE_MEDIA_TYPE, headers={**NO_BUFFER_HEADERS, **headers})
        self._turn = turn
        self._waiters = waiters
        self._finished = False

    async def _pass_on(self, events: AsyncIterator[str]) -> AsyncIterator[str]:
        async for event in events:
            yield event
        self._finished = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream and handle a disconnect."""
        if self._waiters is None:
            await super().__call__(scope, receive, send)
            return
        with self._waiters.join(self._turn) as client:
            await super().__call__(scope, receive, send)
            if scope["state"].get(DISCONNECTED_KEY) and not self._finished:
                self._waiters.disconnect(self._turn, client)
