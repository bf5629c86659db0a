"""Changes: how what a turn wants differs from what its session has been told."""

from collections.abc import Iterator, Mapping

from foreword.frozen import frozen
from foreword.ledger.line import Base, Gate, Line, Lines
from foreword.ledger.listing import find_listing_policy, list_entries
from foreword.ledger.wanted import Wanted
from foreword.words import Pace, Policy


@frozen(eq=True)
class Change:
    """One section that differs."""

    id: str
    before: Line | None
    """What the session has been told."""
    after: Line | None
    """What the turn wants."""
    block: int
    """Which block of the base it belongs to."""
    policy: Policy
    broken: bool = False
    """Whether its file is broken, so that the session keeps what it was told."""
    private: bool = False
    """Whether the clearance may not see it any more, or that may be why it is gone."""

    @property
    def what(self) -> str:
        """What became of the section, in a word."""
        return "added" if self.before is None else "removed" if self.after is None else "changed"

    @property
    def governs(self) -> bool:
        """Whether safety follows from it."""
        return any(line is not None and line.governs for line in (self.before, self.after))


def list_changes(told: Mapping[str, Line], base: Base, wanted: Wanted) -> Iterator[Change]:
    """List what differs, in the order of the wanted prompt, then what is gone."""
    lines = {line.id: line for line in wanted.base.lines}
    for name in [*lines, *(name for name in told if name not in lines)]:
        before, after = told.get(name), lines.get(name)
        line = after or before
        if line is None or (before and after and before.text == after.text):
            continue
        listed = name in wanted.listings
        policy = wanted.edits.get(name, line.policy)
        if listed and before and after:
            policy = find_listing_policy(before, after, wanted)
        broken = name in wanted.broken and (before is not None or name in wanted.joined)
        # A file that the owner has a policy for, or that is only broken, was not closed.
        open_to_doubt = listed or (policy is Policy.AUTO and not broken)
        yield Change(
            id=name,
            before=before,
            after=after,
            block=find_block(line, base, wanted.base),
            policy=Policy.NEXT_SESSION if wanted.waits or broken else policy,
            broken=broken,
            private=(after is None and name in wanted.withheld)
            or (open_to_doubt and before is not None and is_taken_away(before, after)),
        )


def is_taken_away(before: Line, after: Line | None) -> bool:
    """Whether something may have been taken away for privacy: nobody can tell that from a file that was put aside."""
    if after is None:
        return before.gated is not Gate.NONE
    return before.gated is Gate.LISTING and not list_entries(before.text).keys() <= list_entries(after.text).keys()


def align(base: Base, wanted: Base) -> int:
    """Count the leading blocks that both have, pace by pace; what follows moves together."""
    pairs = zip(find_paces(base), find_paces(wanted), strict=False)
    count = 0
    for old, new in pairs:
        if old != new:
            break
        count += 1
    return count


def find_paces(base: Base) -> list[Pace]:
    """Find the pace of each block."""
    return [lines[0].pace for lines in base.blocks]


def find_block(line: Line, base: Base, wanted: Base) -> int:
    """Find the block of a line: where it is wanted, else where it stands, else where its pace is."""
    most = align(base, wanted)
    for each in (wanted, base):
        for at, lines in enumerate(each.blocks):
            if any(one.id == line.id for one in lines):
                return min(at, most)
    return next((at for at, pace in enumerate(find_paces(base)) if pace == line.pace), most)


def rebuild(base: Base, wanted: Base, start: int, held: Mapping[str, Line], away: frozenset[str]) -> Base:
    """Build the base anew from a block on; what is held stays as it was told, or away if it never was told."""
    old = base.blocks
    blocks = [
        keep_held(lines, old[at] if at < len(old) else (), held, away)
        for at, lines in enumerate(wanted.blocks[start:], start)
    ]
    placed = {line.id for block in blocks for line in block}
    for line in held.values():
        if line.id not in placed:
            place(blocks, line)
    return Base(blocks=tuple(block for block in (*old[:start], *blocks) if block))


def keep_held(lines: Lines, old: Lines, held: Mapping[str, Line], away: frozenset[str]) -> Lines:
    """Keep the held sections of a block as they were told; one that is wanted no more keeps its place."""
    if not held and not away:
        return lines
    names = {line.id for line in lines}
    kept = [held.get(line.id, line) for line in lines if line.id not in away]
    for at, line in enumerate(old):
        if line.id in held and line.id not in names:
            before = {one.id for one in old[:at]}
            kept.insert(
                max((number for number, one in enumerate(kept, 1) if one.id in before), default=0), held[line.id]
            )
    return tuple(kept)


def place(blocks: list[Lines], line: Line) -> None:
    """Put a line that never stood in the base at the end of the block of its pace."""
    at = next((at for at in reversed(range(len(blocks))) if blocks[at] and blocks[at][0].pace == line.pace), None)
    if at is None:
        blocks.append((line,))
    else:
        blocks[at] = (*blocks[at], line)
