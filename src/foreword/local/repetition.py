"""Ends a streamed reply that repeats itself: a very small model would say one sentence until its limit."""

import json
from collections.abc import AsyncIterator
from typing import Any

END = b"\n\n"
DATA = b"data: "
DONE = b"data: [DONE]" + END


async def end_repetition(stream: AsyncIterator[bytes], ngram: int) -> AsyncIterator[bytes]:
    """Pass on the events of a chat completion, and end it where it repeats a sequence of `ngram` tokens."""
    guard = RepetitionGuard(ngram)
    rest = b""
    async for piece in stream:
        *events, rest = (rest + piece).split(END)
        for event in events:
            for one in guard.pass_on(event + END):
                yield one
            if guard.ended:
                return
    if rest:
        yield rest


class RepetitionGuard:
    """Watches the tokens of one reply; holds tokens back while they may be the beginning of a repetition."""

    def __init__(self, ngram: int) -> None:
        self.ended = False
        self._ngram = ngram
        self._tokens: list[str] = []
        self._known: set[tuple[str, ...]] = set()
        self._held: list[bytes] = []

    def pass_on(self, event: bytes) -> list[bytes]:
        """Return the events that may be passed on now."""
        chunk = read_chunk(event)
        choices = chunk.get("choices") or [{}]
        token = choices[0].get("delta", {}).get("content")
        if not token:
            return [*self._release(), event] if choices[0].get("finish_reason") else [event]
        self._tokens.append(token)
        first, going_on, whole = (self._was_said(size) for size in (1, 2, self._ngram))
        self._known.update(tuple(self._tokens[-size:]) for size in (1, 2, self._ngram))
        if whole:
            self.ended = True
            return write_end(chunk)
        if self._held and going_on:
            self._held.append(event)
            return [self._held.pop(0)] if len(self._held) > self._ngram else []
        passed = self._release()
        if first:
            self._held = [event]
            return passed
        return [*passed, event]

    def _was_said(self, size: int) -> bool:
        """Whether the last tokens were said before, in this order."""
        return len(self._tokens) > size and tuple(self._tokens[-size:]) in self._known

    def _release(self) -> list[bytes]:
        held, self._held = self._held, []
        return held


def read_chunk(event: bytes) -> dict[str, Any]:
    """Read the chunk of an event; empty for pings and for the end of the stream."""
    if not event.startswith(DATA + b"{"):
        return {}
    chunk: dict[str, Any] = json.loads(event[len(DATA) :])
    return chunk


def write_end(chunk: dict[str, Any]) -> list[bytes]:
    """Write the events that end a reply as if the model had stopped, with the usage so far."""
    timings = chunk.pop("timings", {})
    read = timings.get("cache_n", 0)
    asked, said = read + timings.get("prompt_n", 0), timings.get("predicted_n", 0)
    usage = {
        "prompt_tokens": asked,
        "completion_tokens": said,
        "total_tokens": asked + said,
        "prompt_tokens_details": {"cached_tokens": read},
    }
    stop = {**chunk, "choices": [{"index": 0, "finish_reason": "stop", "delta": {}}]}
    return [write_event(stop), write_event({**chunk, "choices": [], "usage": usage}), DONE]


def write_event(chunk: dict[str, Any]) -> bytes:
    """Write a chunk as an event."""
    return DATA + json.dumps(chunk, ensure_ascii=False).encode() + END
