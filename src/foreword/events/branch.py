"""The tree of a turn, laid out: each recorded event with its depth, parents before their children."""

from collections.abc import Iterable, Iterator

from foreword.events.record import Record
from foreword.frozen import frozen


@frozen(eq=True)
class Branch:
    """One event in the tree of its turn."""

    depth: int
    record: Record


def lay_out(records: Iterable[Record]) -> Iterator[Branch]:
    """Lay out the events of a turn; what stands below something that the reader does not see stands at the top."""
    ordered = sorted(records, key=lambda record: (record.time, record.id))
    owners: dict[str, int] = {}
    for record in ordered:
        if record.span:
            owners.setdefault(record.span, record.id)
    children: dict[int | None, list[Record]] = {}
    for record in ordered:
        parent = owners.get(record.parent)
        children.setdefault(parent if parent != record.id else None, []).append(record)
    left = {record.id: record for record in ordered}
    yield from climb(children.get(None, []), children, left)
    # Ids that lead in a circle come from a broken teller; the events are shown all the same.
    while left:
        yield from climb([next(iter(left.values()))], children, left)


def climb(
    tops: Iterable[Record], children: dict[int | None, list[Record]], left: dict[int, Record]
) -> Iterator[Branch]:
    """Go through the trees below some events, each event once."""
    waiting = [(0, record) for record in reversed(list(tops))]
    while waiting:
        depth, record = waiting.pop()
        if left.pop(record.id, None) is not None:
            yield Branch(depth=depth, record=record)
            waiting += [(depth + 1, child) for child in reversed(children.get(record.id, []))]
