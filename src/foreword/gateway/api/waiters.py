"""Clients that wait for turns: the last one that hangs up stops its turn if `server.on_disconnect` is `stop`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from fastapi import Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from foreword.gateway.api.body import HUNG_UP
from foreword.gateway.api.stream import SSE, UNBUFFERED
from foreword.gateway.message import Reply


class Waiters:
    """The clients that wait for each turn."""

    def __init__(self, stop: Callable[[str], Awaitable[bool]]) -> None:
        self._stop = stop
        self._clients: dict[str, set[object]] = {}
        self._stopping: set[asyncio.Task[None]] = set()

    @contextmanager
    def join(self, turn: str) -> Iterator[object]:
        """Add a client to a turn until the block ends or the client hangs up; yield the client."""
        client = object()
        self._clients.setdefault(turn, set()).add(client)
        try:
            yield client
        finally:
            self._remove(turn, client)

    def hang_up(self, turn: str, client: object) -> None:
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

    async def wait(self, request: Request, turn: str, reply: Awaitable[Reply], *, stops: bool) -> Reply:
        """Wait for the reply to a turn; a client that hangs up meanwhile stops it where `stops`."""
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
        self.hang_up(turn, client)


class TurnStream(StreamingResponse):
    """Streams the events of a turn; a client that hangs up ends the stream, and the turn where `waiters` is given."""

    def __init__(
        self, events: AsyncIterator[str], headers: Mapping[str, str], turn: str, waiters: Waiters | None = None
    ) -> None:
        super().__init__(self._pass_on(events), media_type=SSE, headers={**UNBUFFERED, **headers})
        self._turn = turn
        self._waiters = waiters
        self._finished = False

    async def _pass_on(self, events: AsyncIterator[str]) -> AsyncIterator[str]:
        async for event in events:
            yield event
        self._finished = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        if self._waiters is None:
            await super().__call__(scope, receive, send)
            return
        with self._waiters.join(self._turn) as client:
            await super().__call__(scope, receive, send)
            if scope["state"].get(HUNG_UP) and not self._finished:
                self._waiters.hang_up(self._turn, client)
