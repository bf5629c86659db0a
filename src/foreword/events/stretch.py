"""Stretches of time, split into what sums are kept for: whole days, quarters of an hour, and the rest."""

from datetime import UTC, datetime, timedelta

from foreword.events.moment import stamp
from foreword.frozen import frozen

QUARTER, DAY = timedelta(minutes=15), timedelta(days=1)
FIRST, LAST = "0001", "9999~"  # texts before and after every time
Ends = tuple[str, str]


@frozen(eq=True)
class Stretch:
    """A time as whole days, the quarters of an hour before and after them, and moments before and after those."""

    days: Ends | None
    quarters: tuple[Ends, ...]
    moments: tuple[Ends, ...]


def split(since: datetime | None, until: datetime | None) -> Stretch:
    """Split a time, each end of which may be open; the first moment belongs to it, the last does not."""
    begin = since.astimezone(UTC) if since else None
    end = until.astimezone(UTC) if until else None
    if begin and end and begin >= end:
        return Stretch(days=None, quarters=(), moments=())
    first, last = begin and up(begin, QUARTER), end and down(end, QUARTER)
    if first and last and first > last:  # within one quarter
        return Stretch(days=None, quarters=(), moments=((show(begin), show(end)),))
    moments = [(show(begin), show(first)), (show(last), show(end))]
    dawn, dusk = first and up(first, DAY), last and down(last, DAY)
    if dawn and dusk and dawn >= dusk:
        return Stretch(days=None, quarters=keep([(show(first, 16), show(last, 16))]), moments=keep(moments))
    edges = [(show(first, 16), show(dawn, 16)), (show(dusk, 16), show(last, 16))]
    days = (show(dawn, 10) or FIRST, show(dusk, 10) or LAST)
    return Stretch(days=days, quarters=keep(edges), moments=keep(moments))


def keep(ends: list[Ends]) -> tuple[Ends, ...]:
    """Keep what has any length; an open end has none."""
    return tuple((first, last) for first, last in ends if first < last)


def down(moment: datetime, step: timedelta) -> datetime:
    """Go back to the last whole step of the day."""
    dawn = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    return dawn + (moment - dawn) // step * step


def up(moment: datetime, step: timedelta) -> datetime:
    """Go on to the next whole step, or stay on one."""
    low = down(moment, step)
    return low if low == moment else low + step


def show(moment: datetime | None, length: int | None = None) -> str:
    """Write a moment as rows have it, or as much of it as names a quarter or a day; nothing for an open end."""
    return "" if moment is None else stamp(moment)[:length]
