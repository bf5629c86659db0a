"""Asks a provider why its cache missed, where the owner wants that, and overhears what its answer says about it.

The providers' libraries pass on what they know of an answer, and that is not among it; so it is read on the way.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import httpx2

Body = Mapping[str, Any]
LONGEST = 1_000_000  # characters of one line of a stream that are looked at


def ask(shape: str, request: Body, previous: str) -> Body:
    """Ask to compare a request with the one that was answered by this id; the first one only opts in."""
    if shape == "anthropic":
        return {**request, "diagnostics": {"previous_message_id": previous or None}}
    if shape == "responses" and previous:
        options = {**request.get("prompt_cache_options", {}), "comparison_response_id": previous}
        return {**request, "prompt_cache_options": options}
    return request


def read_diagnosis(event: Body) -> str:
    """Read what one event of an answer says about the cache: a reason in a word, or nothing."""
    answer = event.get("message") or event.get("response") or {}
    theirs = (answer.get("diagnostics") or {}).get("cache_miss_reason") or {}
    other = answer.get("prompt_cache_diagnostics") or {}
    return str(theirs.get("type") or other.get("reason") or "")


class Overheard(httpx2.AsyncByteStream):
    """A stream of events that is passed on as it comes, while somebody listens for a diagnosis."""

    def __init__(self, inner: httpx2.AsyncByteStream, hear: Callable[[str], None]) -> None:
        self._inner = inner
        self._hear = hear
        self._rest = b""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._inner:
            self._listen(piece)
            yield piece

    async def aclose(self) -> None:
        """Close what is below."""
        await self._inner.aclose()

    def _listen(self, piece: bytes) -> None:
        *lines, self._rest = (self._rest + piece).split(b"\n")
        self._rest = self._rest if len(self._rest) < LONGEST else b""
        for line in lines:
            if line.startswith(b"data:") and b"diagnostics" in line:
                self._read(line[5:])

    def _read(self, line: bytes) -> None:
        try:
            event = json.loads(line)
        except ValueError:
            return
        if isinstance(event, dict) and (word := read_diagnosis(event)):
            self._hear(word)
