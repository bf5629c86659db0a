"""A finished request, marked for its provider's cache, and as the ledger keeps it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from foreword.caching.blocks import list_blocks, list_ttls
from foreword.frozen import frozen
from foreword.ledger.breakpoints import Breakpoint, choose
from foreword.ledger.state import Frozen, Sent, capture
from foreword.tokens.caches import CacheFacts
from foreword.wire.marks import put_marks


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
    sent: Sent
    breakpoints: tuple[Breakpoint, ...]


def address(shape: str, request: Mapping[str, Any], frozen: Frozen | None, to: Addressed) -> Marked:
    """Mark a finished request, in the place of whatever marks it had."""
    bare = put_marks(shape, request, ()) if to.facts.marked else dict(request)
    blocks = list_blocks(shape, bare)
    sent = Sent(model=to.model, pieces=capture(blocks, to.facts, to.count), at=to.at, turn=to.turn)
    if not to.facts.marked:
        return Marked(request=bare, sent=sent, breakpoints=())
    system = [at for at, piece in enumerate(sent.pieces) if piece.part == "system"]
    breakpoints = choose(frozen, sent, to.facts, system[: to.stable])
    marked = put_marks(shape, bare, breakpoints)
    # Some shapes have nowhere to put a mark, so what counts is what is in the request.
    ttls = list_ttls(shape, marked)
    done = tuple(one for one in breakpoints if ttls[one.at])
    pieces = tuple(replace(piece, ttl=ttl) if ttl else piece for piece, ttl in zip(sent.pieces, ttls, strict=True))
    return Marked(request=marked, sent=replace(sent, pieces=pieces), breakpoints=done)
