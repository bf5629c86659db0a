"""A server of tools at an address: held to the same bounds as one that is a child of ours."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client

from foreword.runtime.child import LONGEST, ServerError

LIMITS = httpx2.Timeout(30.0, read=300.0)


@asynccontextmanager
async def open_address(url: str, headers: Mapping[str, str]) -> AsyncIterator[TransportStreams]:
    """Open a connection to an address."""
    bounded = BoundedTransport(httpx2.AsyncHTTPTransport())
    async with (
        httpx2.AsyncClient(headers=dict(headers), timeout=LIMITS, transport=bounded) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=LONGEST) as streams,
    ):
        yield streams


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Bounds whole answers; a stream of events may go on, since the library bounds each of them."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request."""
        response = await self._inner.handle_async_request(request)
        streamed = response.headers.get("content-type", "").startswith("text/event-stream")
        if not streamed and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = BoundedStream(response.stream)
        return response

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


class BoundedStream(httpx2.AsyncByteStream):
    """An answer that ends with an error where it is longer than any should be."""

    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = LONGEST
        async for piece in self._inner:
            left -= len(piece)
            if left < 0:
                raise ServerError(f"it sent more than {LONGEST:,} bytes at once")
            yield piece

    async def aclose(self) -> None:
        """Close the answer."""
        await self._inner.aclose()
