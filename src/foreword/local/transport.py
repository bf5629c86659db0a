"""The way to the engine: finds it or starts it, and puts each request into the slot of its session."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx2

from foreword.local.disarm import disarm
from foreword.local.engine import Engine
from foreword.local.repetition import end_repetition
from foreword.local.slots import Slots

TOO_LONG = "exceed_context_size_error"


class EngineTransport(httpx2.AsyncBaseTransport):
    """Takes requests in the shape of OpenAI's chat completions to the engine; closing one stops the engine's work."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._slots = Slots(engine.setup.slots)
        self._inner = httpx2.AsyncHTTPTransport()
        weights = engine.setup.weights
        self._ngram = weights.repeat_ngram if weights else 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request once its session has a slot, and keep the slot until the answer is closed."""
        body = json.loads(await request.aread())
        slot = await self._slots.take(body.pop("prompt_cache_key", ""))
        try:
            # The figures of each token are the usage of a reply that is ended before the engine ends it.
            response = await self._try(request, {**body, "id_slot": slot, "timings_per_token": bool(self._ngram)})
        except BaseException:
            self._slots.give_back(slot)
            raise

        async def close() -> None:
            try:
                await response.aclose()
            finally:
                self._slots.give_back(slot)

        stream = Held(response.stream, close, self._give_up, self._find_ngram(response))
        return httpx2.Response(
            response.status_code, headers=response.headers, stream=stream, extensions=response.extensions
        )

    def _find_ngram(self, response: httpx2.Response) -> int:
        """Return after how many repeated tokens an answer is ended; 0 for never."""
        return self._ngram if response.headers.get("content-type", "").startswith("text/event-stream") else 0

    async def _try(self, request: httpx2.Request, body: dict[str, Any]) -> httpx2.Response:
        """Send a request; to an engine that has just died once more, for nothing of it was sent."""
        try:
            response = await self._send(request, body)
        except httpx2.ConnectError:
            await self._give_up()
            response = await self._send(request, body)
        except httpx2.ReadTimeout:
            await self._give_up()
            raise
        return await translate(response) if response.status_code == httpx2.codes.BAD_REQUEST else response

    async def _send(self, request: httpx2.Request, body: dict[str, Any]) -> httpx2.Response:
        running = await asyncio.to_thread(self._engine.start)
        address = httpx2.URL(running.url)
        content = json.dumps(disarm(body, running.control), ensure_ascii=False).encode()
        return await self._inner.handle_async_request(
            httpx2.Request(
                request.method,
                request.url.copy_with(scheme=address.scheme, host=address.host, port=address.port),
                headers={"authorization": f"Bearer {running.key}", "content-type": "application/json"},
                content=content,
                extensions=request.extensions,
            )
        )

    async def _give_up(self) -> None:
        """End an engine that does not answer: it shows every few seconds that it is alive, so this one hangs."""
        await asyncio.to_thread(self._engine.stop)

    async def aclose(self) -> None:
        """End the engine."""
        await self._inner.aclose()
        await asyncio.to_thread(self._engine.stop)


class Held(httpx2.AsyncByteStream):
    """An answer on its way, which holds a slot."""

    def __init__(
        self,
        stream: httpx2.SyncByteStream | httpx2.AsyncByteStream,
        close: Callable[[], Awaitable[None]],
        give_up: Callable[[], Awaitable[None]],
        ngram: int,
    ) -> None:
        if not isinstance(stream, httpx2.AsyncByteStream):
            raise TypeError("an answer that came without waiting is none of the engine's")
        self._stream = stream
        self._close = close
        self._give_up = give_up
        self._ngram = ngram

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Give the answer piece by piece."""
        try:
            pieces = aiter(self._stream)
            async for piece in end_repetition(pieces, self._ngram) if self._ngram else pieces:
                yield piece
        except httpx2.ReadTimeout:
            await self._give_up()
            raise

    async def aclose(self) -> None:
        """Close the connection, by which the engine stops, and give the slot back."""
        await self._close()


async def translate(response: httpx2.Response) -> httpx2.Response:
    """Say that a conversation is too long by the name that libraries know it by."""
    content = await response.aread()
    await response.aclose()
    if TOO_LONG.encode() in content:
        told = json.loads(content)
        told["error"]["code"] = "context_length_exceeded"
        content = json.dumps(told).encode()
    return httpx2.Response(response.status_code, headers={"content-type": "application/json"}, content=content)
