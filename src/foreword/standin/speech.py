"""What the stand-in says, ready for any of the shapes: the words, the calls with their ids, and what they used."""

import json
from collections.abc import Iterator
from typing import Any

from foreword.caching.cache import Counted
from foreword.frozen import frozen
from foreword.standin.script import Called

PIECE = 7  # characters of one piece of a streamed text


@frozen
class Speech:
    """One answer on its way out."""

    model: str
    text: str
    calls: tuple[tuple[str, Called], ...]
    """Each call with its id."""
    counted: Counted
    out: int
    """The tokens of the answer."""
    cut: bool = False
    number: int = 1
    """Which answer of this server it is."""
    diagnosis: str = ""
    """Why the cache missed, where that was asked."""


def part(text: str) -> Iterator[str]:
    """Part a text as a stream brings it."""
    for start in range(0, len(text), PIECE):
        yield text[start : start + PIECE]


def write_event(data: Any, name: str = "") -> str:
    """Write a server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)}\n\n"


def read_arguments(written: str) -> Any:
    """Read arguments for a shape that carries them as JSON; what is none becomes the value of one field."""
    try:
        return json.loads(written or "{}")
    except ValueError:
        return {"malformed": written}


def tell_cached(counted: Counted) -> dict[str, int]:
    """Tell what was read from the cache, and what was written where a provider bills that, as OpenAI does."""
    return {"cached_tokens": counted.read} | ({"cache_write_tokens": counted.write} if counted.write else {})
