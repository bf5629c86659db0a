"""Clients that wait for turns: the last one that hangs up stops its turn, where `server.on_disconnect` says so."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from fastapi import Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from foreword.gateway.api.body import HUNG_UP
from foreword.gateway.api.stream import SSE, UNBUFFERED
from foreword.gateway.message import Reply


class Waiters:
    """Counts the clients of each turn."""

    def __init__(self, stop: Callable[[str], Awaitable[bool]]) -> None:
        self._stop = stop
        self._counts: Counter[str] = Counter()
        self._stopping: set[asyncio.Task[None]] = set()

    @contextmanager
    def count(self, turn: str) -> Iterator[None]:
        """Count a client as one that waits, for as long as the block lasts."""
        self._counts[turn] += 1
        try:
            yield
        finally:
            self._counts[turn] -= 1
            if not self._counts[turn]:
                del self._counts[turn]

    def leave(self, turn: str) -> None:
        """Stop a turn whose client has hung up, unless another one waits for it."""
        if self._counts[turn] > 1:
            return
        task = asyncio.create_task(self._end(turn))
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)

    async def _end(self, turn: str) -> None:
        await self._stop(turn)

    async def wait(self, request: Request, turn: str, reply: Awaitable[Reply], *, stops: bool) -> Reply:
        """Wait for the reply to a turn; a client that hangs up meanwhile stops it where `stops`."""
        with self.count(turn):
            if not stops:
                return await reply
            watching = asyncio.create_task(self._watch(request, turn))
            try:
                return await reply
            finally:
                watching.cancel()
                with suppress(asyncio.CancelledError):
                    await watching

    async def _watch(self, request: Request, turn: str) -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        self.leave(turn)


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
        with self._waiters.count(self._turn):
            await super().__call__(scope, receive, send)
            if scope["state"].get(HUNG_UP) and not self._finished:
                self._waiters.leave(self._turn)
