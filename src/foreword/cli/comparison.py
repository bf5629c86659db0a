"""Comparing two assemblies: what changed, and where the cached prefix moved first."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile, zip_longest
from typing import Literal

from foreword.cli.recorded import Part, Piece, Recorded
from foreword.config.schema import ModelOverride
from foreword.frozen import frozen
from foreword.prices import Prices, Request, find_prices
from foreword.tokens import find


@frozen(eq=True)
class Change:
    """What became of one section between two assemblies."""

    id: str
    what: str
    """added, removed, changed or same."""
    before: int
    after: int


@frozen(eq=True)
class Move:
    """Where the cached prefix first differs, because of what, and what must be billed anew."""

    cause: Literal["section", "tools", "model"]
    """Tool schemas stand before all sections, and each model has a cache of its own."""
    section: str | None = None
    what: str
    """changed, added, removed or moved."""
    byte: int
    tokens: int
    write_usd: float | None = None
    read_usd: float | None = None


@frozen(eq=True)
class Comparison:
    """Two assemblies side by side."""

    changes: tuple[Change, ...]
    move: Move | None
    reason: str
    """Why the cached prefix did not move, where it did not."""


def compare(before: Recorded, after: Recorded, overrides: Mapping[str, ModelOverride]) -> Comparison:
    """Compare two assemblies, section by section and byte by byte."""
    changes = tuple(list_changes(before, after))
    old = find_prefix(before, overrides)
    if not old:
        return Comparison(changes=changes, move=None, reason=f"{before.file} is too short to be cached")
    move = find_move(before, after, old, find_leading(after), reads_tools=marks_tools(before, overrides))
    if move is None:
        return Comparison(changes=changes, move=None, reason="the cached prefix is the same, byte for byte")
    prices = find_prices(after.model, overrides, Request(tokens=after.used))
    written = bool(find_prefix(after, overrides))
    return Comparison(changes=changes, move=add_price(move, prices, written=written) if prices else move, reason="")


def list_changes(before: Recorded, after: Recorded) -> Iterator[Change]:
    """List what became of each section, in the order of the second assembly, then those that are gone."""
    old = {part.id: part for part in before.parts}
    new = {part.id: part for part in after.parts}
    for name in [*new, *(name for name in old if name not in new)]:
        was, now = old.get(name), new.get(name)
        had, has = (part.text if part else None for part in (was, now))
        what = "same" if had == has else "added" if had is None else "removed" if has is None else "changed"
        yield Change(id=name, what=what, before=was.tokens if was else 0, after=now.tokens if now else 0)


def find_leading(recorded: Recorded) -> tuple[Piece, ...]:
    """Find the blocks before the first one that changes with every turn."""
    return tuple(takewhile(lambda piece: piece.pace != "turn" and piece.placement == "system", recorded.pieces))


def find_prefix(recorded: Recorded, overrides: Mapping[str, ModelOverride]) -> tuple[Piece, ...]:
    """Find the blocks that the provider caches: up to the last mark, or the leading run if it is long enough."""
    leading = find_leading(recorded)
    if uses_marks(recorded):
        last = max((at for at, piece in enumerate(leading, 1) if piece.marked), default=0)
        return leading[:last]
    tokens = recorded.tool_tokens + sum(piece.tokens for piece in leading)
    return leading if tokens >= find(recorded.model, overrides).cache_minimum else ()


def uses_marks(recorded: Recorded) -> bool:
    """Tell whether the provider caches whole marked blocks, and not any equal prefix."""
    return find(recorded.model, {}).cache.marked


def marks_tools(recorded: Recorded, overrides: Mapping[str, ModelOverride]) -> bool:
    """Tell whether a turn marks the end of its tools: where they stand first, take marks and are long enough."""
    facts = find(recorded.model, overrides)
    takes = facts.cache.marked and facts.cache.order[0] == "tools" and not facts.cache.newest
    return takes and recorded.tool_tokens >= facts.cache_minimum


def find_move(
    before: Recorded, after: Recorded, old: Sequence[Piece], new: Sequence[Piece], *, reads_tools: bool
) -> Move | None:
    """Find where the prefix that was cached is no longer the prefix that is sent."""
    whole = after.tool_tokens + sum(piece.tokens for piece in new)
    if before.model != after.model:
        return Move(cause="model", what="changed", byte=0, tokens=whole)
    if before.tools != after.tools:
        return Move(cause="tools", what="changed", byte=0, tokens=whole)
    byte = find_byte(before.system.encode(), after.system.encode())
    equal = sum(1 for _ in takewhile(lambda pair: pair[0].text == pair[1].text, zip(old, new, strict=False)))
    if uses_marks(before):
        if equal == len(old):
            return None
        section, what = find_cause(before, after, old, new)
        # A block whose mark was set is read whole, as are tools; from the next one on, all is written again.
        kept = max((at for at, piece in enumerate(old[:equal], 1) if piece.marked), default=0)
        tokens = sum(piece.tokens for piece in new[kept:]) + (0 if kept or reads_tools else after.tool_tokens)
        return Move(cause="section", section=section, what=what, byte=byte, tokens=tokens)
    if byte >= len("".join(piece.text for piece in old).encode()):
        return None
    section, what = find_cause(before, after, old, new)
    at = len(after.system.encode()[:byte].decode(errors="ignore"))
    tokens = sum(part.tokens for part in list_parts(after, new) if part.start + len(part.text or "") > at)
    return Move(cause="section", section=section, what=what, byte=byte, tokens=tokens)


def find_byte(before: bytes, after: bytes) -> int:
    """Find the first byte at which two texts differ, or where the shorter one ends."""
    shared = min(len(before), len(after))
    return next((at for at in range(shared) if before[at] != after[at]), shared)


def find_cause(before: Recorded, after: Recorded, old: Sequence[Piece], new: Sequence[Piece]) -> tuple[str, str]:
    """Find the first section of the prefix that is not where and what it was."""
    was, now = list_parts(before, old), list_parts(after, new)
    for left, right in zip_longest(was, now):
        if left and right and left.id == right.id:
            if left.text == right.text:
                continue
            return right.id, "changed"
        if left and left.id not in {part.id for part in now}:
            return left.id, "removed"
        if right:
            return right.id, "moved" if right.id in {part.id for part in was} else "added"
    return (now or was)[-1].id, "moved"


def list_parts(recorded: Recorded, pieces: Sequence[Piece]) -> list[Part]:
    """List the sections that stand in the given leading blocks."""
    end = sum(len(piece.text) for piece in pieces)
    return [part for part in recorded.parts if part.text and part.start < end]


def add_price(move: Move, prices: Prices, *, written: bool) -> Move:
    """Say what the tokens cost now, and what they would have cost had the prefix stood still."""
    return replace(
        move,
        write_usd=move.tokens * (prices.cache_write if written else prices.input),
        read_usd=move.tokens * prices.cache_read,
    )
