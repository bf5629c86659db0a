"""Server-sent events, and the clients that wait for turns."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from fastapi import Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from foreword.gateway.service import Gateway
from foreword.http.middleware import DISCONNECTED_KEY
from foreword.storage.turns import TurnReply

MEDIA_TYPE = "text/event-stream"
KEEP_ALIVE_S = 15.0  # without events before a keep-alive comment, so that proxies do not close the connection
KEEP_ALIVE_COMMENT = ": keep-alive\n\n"
T = TypeVar("T")


def accepts_events(request: Request) -> bool:
    """Return whether the client asks for a stream of events."""
    return MEDIA_TYPE in request.headers.get("accept", "")


def write_event(data: Any, name: str = "") -> str:
    """Write one event; compact JSON has no line breaks, so the data is one line."""
    head = f"event: {name}\n" if name else ""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return f"{head}data: {text}\n\n"


async def keep_alive(source: AsyncIterator[T], quiet_s: float = KEEP_ALIVE_S) -> AsyncIterator[T | None]:
    """Yield the items of `source`, and None whenever `quiet_s` seconds pass without one."""
    upcoming = asyncio.ensure_future(anext(source))
    try:
        while True:
            done, _ = await asyncio.wait({upcoming}, timeout=quiet_s)
            if not done:
                yield None
                continue
            try:
                item = upcoming.result()
            except StopAsyncIteration:
                return
            yield item
            upcoming = asyncio.ensure_future(anext(source))
    finally:
        upcoming.cancel()


class EventResponse(StreamingResponse):
    """A streaming response of server-sent events."""

    def __init__(self, events: AsyncIterator[str], headers: Mapping[str, str]) -> None:
        no_buffer = {"X-Accel-Buffering": "no"}  # for proxies that buffer responses
        super().__init__(events, media_type=MEDIA_TYPE, headers={**no_buffer, **headers})


class WaitingClients:
    """The clients that wait for each turn. With `server.on_disconnect: stop`, the last to disconnect stops the turn."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._clients: dict[str, set[object]] = {}
        self._tasks: set[asyncio.Future[bool]] = set()

    @property
    def stops_turns(self) -> bool:
        """Whether the last client to disconnect stops the turn."""
        return self._gateway.workspace.config.server.on_disconnect == "stop"

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
            task = asyncio.ensure_future(self._gateway.stop(turn))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _remove(self, turn: str, client: object) -> None:
        clients = self._clients.get(turn, set())
        clients.discard(client)
        if not clients:
            self._clients.pop(turn, None)

    async def wait(self, request: Request, turn: str) -> TurnReply:
        """Wait for the reply to a turn."""
        with self.join(turn) as client:
            reply = self._gateway.wait(turn)
            if not self.stops_turns:
                return await reply
            watch = asyncio.create_task(self._watch(request, turn, client))
            try:
                return await reply
            finally:
                watch.cancel()
                with suppress(asyncio.CancelledError):
                    await watch

    async def _watch(self, request: Request, turn: str, client: object) -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        self.disconnect(turn, client)


class TurnStream(EventResponse):
    """Streams the events of a turn to a waiting client."""

    def __init__(
        self, events: AsyncIterator[str], headers: Mapping[str, str], turn: str, waiters: WaitingClients
    ) -> None:
        super().__init__(self._relay(events), headers)
        self._turn, self._waiters, self._is_finished = turn, waiters, False

    async def _relay(self, events: AsyncIterator[str]) -> AsyncIterator[str]:
        async for event in events:
            yield event
        self._is_finished = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream and handle a disconnect."""
        stops_turn = self._waiters.stops_turns
        with self._waiters.join(self._turn) as client:
            await super().__call__(scope, receive, send)
            if stops_turn and scope["state"].get(DISCONNECTED_KEY) and not self._is_finished:
                self._waiters.disconnect(self._turn, client)
