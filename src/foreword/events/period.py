"""Times and periods as users write them: `12h`, `today`, `2026-11-15`, `2026-11-15T08:30`, in their timezone."""

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from foreword.errors import InputError
from foreword.events.event import format_timestamp
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
    shown: int = 0  # number of newest events before `until` to skip, because an earlier page showed them


ANY_TIME = Period()


def parse_period(since: str, until: str, now: datetime, timezone: str = "") -> Period:
    """Parse both ends of a period. A day as `until` means its end.

    The end of a further page can contain the number of events already shown, as `format_page_end` writes it.
    """
    zone, _ = load_zone(timezone)
    page = PAGE_PATTERN.fullmatch(until.strip())
    end, shown = (page[1], int(page[2])) if page else (until, 0)
    first = parse_time(since, now, zone, "since") if since else None
    last = parse_time(end, now, zone, "until") if end else None
    if first and last and first >= last:
        raise InputError(f"since {since!r} is not before until {until!r}")
    return Period(since=first, until=last, shown=shown)


def parse_unpaged_period(since: str, until: str, now: datetime, timezone: str = "") -> Period:
    """Parse a period for a query without pages."""
    period = parse_period(since, until, now, timezone)
    if period.shown:
        raise InputError(f"until {until!r} is not a time; {TIME_FORMATS}")
    return period


def parse_report_period(options: Mapping[str, str], now: datetime, timezone: str) -> Period:
    """Parse `since` and `until` of a report. The default period is today."""
    since, until = options.get("since") or "", options.get("until") or ""
    return parse_unpaged_period(since or ("" if until else "today"), until, now, timezone)


def format_page_end(until: datetime, shown: int) -> str:
    """Format the end of a further page."""
    return f"{format_timestamp(until)}#{shown}" if shown else format_timestamp(until)


def parse_time(text: str, now: datetime, zone: ZoneInfo, end: str = "since") -> datetime:
    """Parse a time as UTC. Except for `since`, a day means its end."""
    plain = text.strip().lower()
    with suppress(ValueError, OverflowError):
        moment = resolve_time(plain, now, zone, end)
        if moment.year in ACCEPTED_YEARS:
            return moment.astimezone(UTC)
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
