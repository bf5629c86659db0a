"""Segments: parts of a conversation that were written once, and stand in every later request as they are."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from foreword.caching.blocks import LISTS, find_ttl, list_conversation, make_blocks
from foreword.frozen import frozen
from foreword.ledger.state import Piece, capture
from foreword.tokens.caches import CacheFacts
from foreword.wire.marks import count_up, put_into

Body = Mapping[str, Any]
ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


@frozen
class Segment:
    """Messages as they stand in a request: as JSON without marks, and as the provider's cache sees them."""

    start: int
    """How many messages stand before it; the cache sees their numbers."""
    count: int
    """How many there are."""
    written: bytes
    """All of them, with commas between."""
    pieces: tuple[Piece, ...]

    @property
    def end(self) -> int:
        """The number of the message behind it."""
        return self.start + self.count


def write_segment(
    shape: str, messages: Sequence[Body], start: int, facts: CacheFacts, count: Callable[[str], int]
) -> Segment:
    """Write messages of a conversation, of which so many stand before them."""
    bare = [put_into(shape, message, {}, count_up()) for message in messages] if facts.marked else messages
    return Segment(
        start=start,
        count=len(bare),
        written=write_all(bare),
        pieces=capture(make_blocks(list_conversation(shape, bare, start)), facts, count),
    )


def mark_segment(shape: str, segment: Segment, ttls: Mapping[int, str]) -> tuple[bytes, dict[int, str]]:
    """Put marks into a segment, by the numbers of its pieces; return those that it has then, too."""
    numbers = count_up()
    marked = [put_into(shape, message, ttls, numbers) for message in json.loads(b"[" + segment.written + b"]")]
    parts = enumerate(list_conversation(shape, marked))
    return write_all(marked), {at: ttl for at, (_, value, _) in parts if (ttl := find_ttl(value))}


def write_request(shape: str, request: Body, past: Sequence[bytes] = ()) -> bytes:
    """Write a request, with what is written already between the opening of its conversation and the rest of it."""
    if not past:
        return write(request)
    field = LISTS[shape].field
    opening = count_opening(request[field])
    said = filter(None, (write_all(request[field][:opening]), *past, write_all(request[field][opening:])))
    fields = (
        write(name) + b":" + (b"[" + b",".join(said) + b"]" if name == field else write(value))
        for name, value in request.items()
    )
    return b"{" + b",".join(fields) + b"}"


def count_opening(messages: Sequence[Body]) -> int:
    """Count the system messages that open a conversation: they are no part of what is said."""
    return sum(1 for _ in takewhile(lambda message: message.get("role") == "system", messages))


def write_all(messages: Sequence[Body]) -> bytes:
    """Write messages with commas between."""
    return b",".join(map(write, messages))


def write(value: Any) -> bytes:
    """Write a value as it goes out; what cannot be written as UTF-8 is replaced."""
    return ENCODER.encode(value).encode("utf-8", "replace")


def list_places(segments: Sequence[Segment], start: int) -> Iterator[tuple[int, Segment]]:
    """List where the pieces of each segment begin among those of the request."""
    for segment in segments:
        yield start, segment
        start += len(segment.pieces)
