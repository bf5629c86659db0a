"""Times as users write them: `12h`, `today`, `2026-11-15`, `2026-11-15T08:30`, in their timezone.

Splitting of a period into the units of the totals: days, quarter-hours and the remaining rows.
"""

import re
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from foreword.errors import InputError
from foreword.host import load_zone
from foreword.types import frozen

AGO_PATTERN = re.compile(r"([0-9]{1,9})\s*([smhdw])")
CLOCK_PATTERN = re.compile(r"[0-9]{1,2}:[0-9]{2}|[0-9]{2}:[0-9]{2}:[0-9]{2}")
MINUTE_PATTERN = re.compile(r"(.*[t ])?[0-9]{1,2}:[0-9]{2}(z|[+-][0-9:]+)?", re.IGNORECASE)
PAGE_PATTERN = re.compile(r"(.*[0-9]z)#([0-9]{1,9})", re.IGNORECASE)
ACCEPTED_YEARS = range(1970, 9_000)  # leaves a margin for timezones and whole days
UNIT_NAMES = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
DAY_WORDS = {"today": 0, "yesterday": 1}
TIME_FORMATS = "write 30m, 12h, 7d, today, yesterday, 14:03, 2026-11-15 or 2026-11-15T08:30"


@frozen(eq=True)
class Period:
    """A period in UTC. `since` is inclusive, `until` is exclusive, and None is an open end."""

    since: datetime | None = None
    until: datetime | None = None
    told: int = 0
    """Number of newest events before `until` to skip, because an earlier page showed them."""


ANY_TIME = Period()


def parse_period(since: str, until: str, now: datetime, timezone: str = "") -> Period:
    """Parse both ends of a period. A day as `until` means its end.

    The end of a further page can contain the number of events already shown, as `format_page_end` writes it.
    """
    zone, _ = load_zone(timezone)
    page = PAGE_PATTERN.fullmatch(until.strip())
    end, told = (page[1], int(page[2])) if page else (until, 0)
    first = parse_time(since, now, zone, "since") if since else None
    last = parse_time(end, now, zone, "until") if end else None
    if first and last and first >= last:
        raise InputError(f"since {since!r} is not before until {until!r}")
    return Period(since=first, until=last, told=told)


def parse_unpaged_period(since: str, until: str, now: datetime, timezone: str = "") -> Period:
    """Parse a period for a query without pages."""
    period = parse_period(since, until, now, timezone)
    if period.told:
        raise InputError(f"until {until!r} is not a time; {TIME_FORMATS}")
    return period


def format_page_end(until: datetime, told: int) -> str:
    """Format the end of a further page."""
    return f"{format_timestamp(until)}#{told}" if told else format_timestamp(until)


def parse_time(text: str, now: datetime, zone: ZoneInfo, end: str = "since") -> datetime:
    """Parse a time as UTC. Except for `since`, a day means its end."""
    plain = text.strip().lower()
    try:
        moment = resolve_time(plain, now, zone, end)
        if moment.year in ACCEPTED_YEARS:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    shown = text if len(text) <= 40 else f"{text[:40]}…"
    raise InputError(f"{end} {shown!r} is not a time; {TIME_FORMATS}")


def parse_last_moment(text: str, now: datetime, zone: ZoneInfo) -> datetime:
    """Parse a time and return its last moment: the end of a day, or the last second of a minute."""
    moment = parse_time(text, now, zone, "at")
    if MINUTE_PATTERN.fullmatch(text.strip()):
        moment += timedelta(minutes=1)
    return moment - timedelta(microseconds=1)


def resolve_time(plain: str, now: datetime, zone: ZoneInfo, end: str) -> datetime:
    """Parse a time in any timezone. Raise ValueError or OverflowError if it is not valid."""
    if ago := AGO_PATTERN.fullmatch(plain):
        return now.astimezone(UTC) - timedelta(**{UNIT_NAMES[ago[2]]: int(ago[1])})
    if day := parse_day(plain, now, zone):
        return datetime.combine(day + timedelta(days=1) if end != "since" else day, time(), zone)
    if CLOCK_PATTERN.fullmatch(plain):
        return datetime.combine(now.astimezone(zone).date(), time.fromisoformat(plain.rjust(5, "0")), zone)
    moment = datetime.fromisoformat(plain.upper())
    return moment if moment.tzinfo else moment.replace(tzinfo=zone)


def parse_day(word: str, now: datetime, zone: ZoneInfo) -> date | None:
    """Parse a day in a timezone, or return None if the text is not a day."""
    if word in DAY_WORDS:
        return now.astimezone(zone).date() - timedelta(days=DAY_WORDS[word])
    try:
        return date.fromisoformat(word)
    except ValueError:
        return None


def format_timestamp(moment: datetime) -> str:
    """Format a time as stored: in UTC and with fixed width, so that strings sort as times."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def parse_timestamp(text: str) -> datetime:
    """Parse a stored time."""
    return datetime.fromisoformat(text)


QUARTER_HOUR, ONE_DAY = timedelta(minutes=15), timedelta(days=1)
BEFORE_ALL_TIMES, AFTER_ALL_TIMES = "0001", "9999~"  # sort before and after every timestamp
Ends = tuple[str, str]


@frozen(eq=True)
class PeriodParts:
    """A period as whole days, the quarter-hours around them, and the remaining times around those."""

    days: Ends | None
    quarters: tuple[Ends, ...]
    moments: tuple[Ends, ...]


def split_period(since: datetime | None, until: datetime | None) -> PeriodParts:
    """Split a period. `since` is inclusive, `until` is exclusive, and None is an open end."""
    begin = since.astimezone(UTC) if since else None
    end = until.astimezone(UTC) if until else None
    if begin and end and begin >= end:
        return PeriodParts(days=None, quarters=(), moments=())
    first, last = begin and round_up(begin, QUARTER_HOUR), end and round_down(end, QUARTER_HOUR)
    if first and last and first > last:  # within one quarter-hour
        return PeriodParts(days=None, quarters=(), moments=((format_end(begin), format_end(end)),))
    moments = [(format_end(begin), format_end(first)), (format_end(last), format_end(end))]
    dawn, dusk = first and round_up(first, ONE_DAY), last and round_down(last, ONE_DAY)
    if dawn and dusk and dawn >= dusk:
        return PeriodParts(
            days=None,
            quarters=drop_empty_ranges([(format_end(first, 16), format_end(last, 16))]),
            moments=drop_empty_ranges(moments),
        )
    edges = [(format_end(first, 16), format_end(dawn, 16)), (format_end(dusk, 16), format_end(last, 16))]
    days = (format_end(dawn, 10) or BEFORE_ALL_TIMES, format_end(dusk, 10) or AFTER_ALL_TIMES)
    return PeriodParts(days=days, quarters=drop_empty_ranges(edges), moments=drop_empty_ranges(moments))


def drop_empty_ranges(ends: list[Ends]) -> tuple[Ends, ...]:
    """Return the ranges that are not empty. An open end has no length."""
    return tuple((first, last) for first, last in ends if first < last)


def round_down(moment: datetime, step: timedelta) -> datetime:
    """Round a time down to a step of its day."""
    dawn = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    return dawn + (moment - dawn) // step * step


def round_up(moment: datetime, step: timedelta) -> datetime:
    """Round a time up to a step of its day."""
    low = round_down(moment, step)
    return low if low == moment else low + step


def format_end(moment: datetime | None, length: int | None = None) -> str:
    """Format a time as in rows, cut to `length`. An open end is empty."""
    return "" if moment is None else format_timestamp(moment)[:length]
