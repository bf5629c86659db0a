"""A finished request, marked for its provider's cache, and as the ledger keeps it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain
from typing import Any

from foreword.caching.blocks import LISTS, list_conversation, list_ttls, make_blocks
from foreword.frozen import frozen
from foreword.ledger.breakpoints import Breakpoint, choose
from foreword.ledger.state import Frozen, Piece, Sent, capture
from foreword.tokens.caches import CacheFacts
from foreword.wire.marks import put_marks
from foreword.wire.segment import Segment, count_opening, list_places, mark_segment


@frozen(eq=True)
class Addressed:
    """When a request leaves, for which model, how its tokens are counted, and how much of its head is stable."""

    model: str
    """The whole name, provider and all."""
    facts: CacheFacts
    count: Callable[[str], int]
    at: datetime
    stable: int
    """The leading blocks of the system part that no turn changes; as many as the base of the standing has."""
    turn: str = ""


@frozen
class Marked:
    """A request with its marks, and what the ledger advances with once it is accepted."""

    request: Mapping[str, Any]
    """Without what was written before it."""
    sent: Sent
    breakpoints: tuple[Breakpoint, ...]
    past: tuple[bytes, ...] = ()
    """What was written before, segment by segment, with the marks that are in it now."""


def address(
    shape: str, request: Mapping[str, Any], frozen: Frozen | None, to: Addressed, past: Sequence[Segment] = ()
) -> Marked:
    """Mark a finished request, in the place of whatever marks it had.

    What was written before stands between the opening of its conversation and the rest of it; it has no marks.
    """
    bare = put_marks(shape, request, ()) if to.facts.marked else dict(request)
    head, own = cut(shape, bare, past[-1].end if past else None, to)
    pieces = [*head, *chain.from_iterable(segment.pieces for segment in past), *own]
    sent = Sent(model=to.model, pieces=tuple(pieces), at=to.at, turn=to.turn)
    if not to.facts.marked:
        return Marked(request=bare, sent=sent, breakpoints=(), past=tuple(segment.written for segment in past))
    system = [at for at, piece in enumerate(head) if piece.part == "system"]
    breakpoints = choose(frozen, sent, to.facts, system[: to.stable])
    begin, end = len(head), len(pieces) - len(own)
    deep = [one for one in breakpoints if begin <= one.at < end]
    # What is not written yet is numbered as if nothing stood between.
    near = [replace(one, at=one.at - (end - begin) * (one.at >= end)) for one in breakpoints if one not in deep]
    marked = put_marks(shape, bare, near)
    # Some shapes have nowhere to put a mark, so what counts is what is in the request.
    ttls = {at + (end - begin) * (at >= begin): ttl for at, ttl in enumerate(list_ttls(shape, marked)) if ttl}
    written = [segment.written for segment in past]
    for number, (place, segment) in enumerate(list_places(past, begin) if deep else ()):
        if inside := {one.at - place: one.ttl for one in deep if place <= one.at < place + len(segment.pieces)}:
            written[number], found = mark_segment(shape, segment, inside)
            ttls |= {place + at: ttl for at, ttl in found.items()}
    for at, ttl in ttls.items():
        pieces[at] = pieces[at]._replace(ttl=ttl)
    return Marked(
        request=marked,
        sent=replace(sent, pieces=tuple(pieces)),
        breakpoints=tuple(one for one in breakpoints if one.at in ttls),
        past=tuple(written),
    )


def cut(
    shape: str, request: Mapping[str, Any], end: int | None, to: Addressed
) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Cut a request into what opens it and what is said in it; that begins with the message of this number."""
    said = request[LISTS[shape].field]
    opening = count_opening(said)
    head = (*LISTS[shape].opens(request), *list_conversation(shape, said[:opening]))
    own = list_conversation(shape, said[opening:], opening if end is None else end)
    return capture(make_blocks(head), to.facts, to.count), capture(make_blocks(own), to.facts, to.count)
