"""Sends an envelope over HTTP and reads the stream of events that answers it, in the wire shape of the provider."""

import asyncio
import json
import math
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx2

from foreword.agent.agent_events import ProviderError
from foreword.agent.providers.provider import (
    INTERRUPTED,
    MAX_ERROR_CHARS,
    UNREADABLE,
    AnswerBegan,
    ProviderEvent,
    WireShape,
    make_provider_error,
    read_json,
)
from foreword.envelope import Envelope

MAX_EVENT_BYTES = 32_000_000  # bytes of one event, such as a call with large arguments
MAX_ERROR_BYTES = 1_000_000  # bytes of an error body that are read
MAX_ERROR_S = 5.0  # seconds for reading an error body
MAX_REST_BYTES = 100_000  # bytes of what follows an answer that are read
MAX_REST_S = 0.5  # seconds for reading what follows an answer
DATA_FIELD = b"data:"
FIELDS = (DATA_FIELD, b":", b"event:", b"id:", b"retry:")  # what lines begin with; the second is a comment
STREAM_END = b"[DONE]"


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
        draft, began = self._shape.drafts(), False
        try:
            content = envelope.encode()
            async with self._client.stream("POST", self._url, content=content, headers=self._headers) as response:
                if response.status_code != httpx2.codes.OK:
                    raise await read_error(response)
                async with aclosing(response.aiter_bytes()) as pieces, aclosing(read_events(pieces)) as events:
                    async for event in events:
                        if not began:
                            began = True
                            yield AnswerBegan()
                        for delta in draft.read(event):
                            yield delta
                        if draft.done:
                            break
                    for delta in draft.end():
                        yield delta
                    if not draft.done:
                        raise ProviderError(INTERRUPTED, passing=True)
                    done = draft.finish(self._provider)
                    await read_rest(pieces)
        except (httpx2.HTTPError, OSError, LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise translate_error(error) from error
        yield done


async def read_events(pieces: AsyncIterator[bytes]) -> AsyncGenerator[dict[str, Any]]:
    """Yield the events of a stream; raise ProviderError if the body is no stream of JSON events."""
    begun: list[bytes] = []  # the pieces of the line that has not ended; joining them only at its end is linear
    size, other, is_stream = 0, b"", False
    async for piece in pieces:
        begun.append(piece)
        size += len(piece)
        if size > MAX_EVENT_BYTES:
            raise ProviderError(f"{UNREADABLE} (an event has more than {MAX_EVENT_BYTES:,} bytes)", passing=False)
        if b"\n" not in piece:
            continue
        *lines, rest = b"".join(begun).split(b"\n")
        begun, size = [rest], len(rest)
        for line in lines:
            is_stream = is_stream or line.startswith(FIELDS)
            if line.startswith(DATA_FIELD):
                data = line[len(DATA_FIELD) :].strip()
                if data == STREAM_END:
                    return
                if isinstance(event := json.loads(data or b"null"), dict):
                    yield event
            elif not is_stream and len(other) < MAX_ERROR_BYTES:
                other += line
    body = (other + b"".join(begun)).strip()
    if not is_stream and body and not any(field.startswith(body[: len(field)]) for field in FIELDS):
        raise make_body_error(body)


async def read_rest(pieces: AsyncIterator[bytes]) -> None:
    """Read what follows an answer, usually nothing: only a connection that was read to its end can be used again."""
    with suppress(TimeoutError, httpx2.HTTPError, OSError):
        async with asyncio.timeout(MAX_REST_S):
            count = 0
            async for piece in pieces:
                count += len(piece)
                if count > MAX_REST_BYTES:
                    break


def make_body_error(body: bytes) -> ProviderError:
    """Make the error for a body that is no stream; some proxies send the JSON of an error with status 200."""
    shown = read_json(body.decode("utf-8", "replace"))
    if isinstance(shown, dict) and shown.get("error"):
        return make_provider_error(shown)
    return ProviderError(f"{UNREADABLE} (it is no stream of events)", passing=False)


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
    with suppress(TimeoutError, httpx2.HTTPError, OSError):
        async with asyncio.timeout(MAX_ERROR_S):
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > MAX_ERROR_BYTES:
                    break
    wait = read_retry_after(response.headers.get("retry-after", ""), datetime.now(UTC))
    return make_provider_error(body.decode("utf-8", "replace"), response.status_code, wait)


def read_retry_after(given: str, now: datetime) -> float | None:
    """Return the seconds that a provider asks to wait, given as a number or as a date; None for anything else."""
    try:
        seconds = float(given)
    except ValueError:
        try:
            seconds = (parse_date(given) - now).total_seconds()
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def parse_date(given: str) -> datetime:
    """Parse the date of a header; one without a zone is in UTC."""
    moment = parsedate_to_datetime(given)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def shorten_error(error: Exception) -> str:
    """Describe an error in one short line."""
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:MAX_ERROR_CHARS]
