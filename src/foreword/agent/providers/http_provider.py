"""Sends an envelope over HTTP and reads the stream of events that answers it, in the wire shape of the provider."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from typing import Any

import httpx2

from foreword.agent.agent_events import ProviderError
from foreword.agent.providers.provider import (
    INTERRUPTED,
    MAX_ERROR_CHARS,
    UNREADABLE,
    ProviderEvent,
    WireShape,
    make_provider_error,
)
from foreword.envelope import Envelope

MAX_EVENT_BYTES = 32_000_000  # bytes of one event, such as a call with large arguments
MAX_ERROR_BYTES = 1_000_000  # bytes of an error body that are read
DATA_FIELD = b"data:"
STREAM_END = b"[DONE]"
DRAIN_S = 0.1  # seconds for the end of a body after its last event


class HttpProvider:
    """One model at one address."""

    def __init__(self, client: httpx2.AsyncClient, shape: WireShape, base_url: str, model: str, key: str) -> None:
        self.base_url = base_url
        self.model = model.partition(":")[2]
        self._client = client
        self._shape = shape
        self._provider = model.partition(":")[0]
        self._url = shape.find_url(base_url.rstrip("/"), self.model)
        self._headers = {"content-type": "application/json", "accept": "text/event-stream", **shape.authorize(key)}

    async def stream(self, envelope: Envelope) -> AsyncGenerator[ProviderEvent]:
        """Send the bytes of an envelope and yield the answer as it arrives; raise ProviderError if there is none."""
        draft = self._shape.drafts()
        try:
            content = envelope.encode()
            async with self._client.stream("POST", self._url, content=content, headers=self._headers) as response:
                if response.status_code != httpx2.codes.OK:
                    raise await read_error(response)
                async with aclosing(response.aiter_bytes()) as pieces:
                    async for event in read_events(pieces):
                        for delta in draft.read(event):
                            yield delta
                        if draft.done:
                            break
                    for delta in draft.end():
                        yield delta
                    await drain(pieces)
        except (httpx2.HTTPError, OSError, KeyError, TypeError, AttributeError, ValueError) as error:
            raise translate_error(error) from error
        if not draft.done:
            raise ProviderError(INTERRUPTED, passing=True)
        yield draft.finish(self._provider)


async def read_events(pieces: AsyncIterator[bytes]) -> AsyncGenerator[dict[str, Any]]:
    """Yield the events of a stream; raise ProviderError if the body is no stream of JSON events."""
    rest, started = b"", False
    async for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        if len(rest) > MAX_EVENT_BYTES:
            raise ProviderError(f"{UNREADABLE} (an event has more than {MAX_EVENT_BYTES:,} bytes)", passing=False)
        for line in lines:
            if not line.startswith(DATA_FIELD):
                continue
            data = line[len(DATA_FIELD) :].strip()
            if data == STREAM_END:
                return
            event = json.loads(data)
            started = True
            if isinstance(event, dict):
                yield event
    if not started:
        raise ProviderError(f"{UNREADABLE} (it is no stream of events)", passing=False)


async def drain(pieces: AsyncIterator[bytes]) -> None:
    """Read what follows an answer, so that its connection can serve the next one; a server may keep it open."""
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_S):
            async for _ in pieces:
                pass


def translate_error(error: Exception) -> ProviderError:
    """Convert an error of the connection, or of reading what came through it."""
    if isinstance(error, httpx2.TimeoutException):
        return ProviderError("the provider did not answer in time", passing=True)
    if isinstance(error, httpx2.TransportError | OSError):
        return ProviderError(f"the connection to the provider broke: {shorten_error(error)}", passing=True)
    # The error text may quote the answer, and message text must not reach the log.
    return ProviderError(f"{UNREADABLE} ({type(error).__name__})", passing=False)


async def read_error(response: httpx2.Response) -> ProviderError:
    """Make the error for a refused request; its body may be no JSON, or not end."""
    body = b""
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > MAX_ERROR_BYTES:
            break
    given = response.headers.get("retry-after", "")
    wait = float(given) if given.replace(".", "", 1).isdigit() else None
    return make_provider_error(body.decode("utf-8", "replace"), response.status_code, wait)


def shorten_error(error: Exception) -> str:
    """Describe an error in one short line."""
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:MAX_ERROR_CHARS]
