"""Moments as people name them: `12h`, `today`, `2026-11-15`, `2026-11-15T08:30`, in the zone of who asks."""

import re
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from foreword.errors import InputError
from foreword.frozen import frozen
from foreword.sources.clock import find_zone

AGO = re.compile(r"([0-9]{1,9})\s*([smhdw])")
CLOCK = re.compile(r"[0-9]{1,2}:[0-9]{2}|[0-9]{2}:[0-9]{2}:[0-9]{2}")
MINUTE = re.compile(r"(.*[t ])?[0-9]{1,2}:[0-9]{2}(z|[+-][0-9:]+)?", re.IGNORECASE)
PAGE = re.compile(r"(.*[0-9]z)#([0-9]{1,9})", re.IGNORECASE)
YEARS = range(1970, 9_000)  # with some left on either side for zones and whole days
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
DAYS = {"today": 0, "yesterday": 1}
ACCEPTED = "write 30m, 12h, 7d, today, yesterday, 14:03, 2026-11-15 or 2026-11-15T08:30"


@frozen(eq=True)
class Period:
    """A stretch of time, in UTC: from `since` on, up to but without `until`; an end that is None is open."""

    since: datetime | None = None
    until: datetime | None = None
    told: int = 0
    """How many of the newest events before `until` are not asked for, having been told already."""


ALWAYS = Period()


def read_period(since: str, until: str, now: datetime, timezone: str = "") -> Period:
    """Read both ends of a period; a day is meant whole, so until yesterday is until its end.

    The end of a further page may say how many events before it were told already, as `write_end` writes it.
    """
    zone, _ = find_zone(timezone)
    page = PAGE.fullmatch(until.strip())
    end, told = (page[1], int(page[2])) if page else (until, 0)
    first = read_moment(since, now, zone, "since") if since else None
    last = read_moment(end, now, zone, "until") if end else None
    if first and last and first >= last:
        raise InputError(f"since {since!r} is not before until {until!r}")
    return Period(since=first, until=last, told=told)


def read_whole(since: str, until: str, now: datetime, timezone: str = "") -> Period:
    """Read a period that is no further page, for what has no pages."""
    period = read_period(since, until, now, timezone)
    if period.told:
        raise InputError(f"until {until!r} is no time; {ACCEPTED}")
    return period


def write_end(until: datetime, told: int) -> str:
    """Write the end of a further page."""
    return f"{stamp(until)}#{told}" if told else stamp(until)


def read_moment(text: str, now: datetime, zone: ZoneInfo, end: str = "since") -> datetime:
    """Read one moment as UTC; for every end but `since` a day stands for the moment at which it is over."""
    plain = text.strip().lower()
    try:
        moment = find_moment(plain, now, zone, end)
        if moment.year in YEARS:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    shown = text if len(text) <= 40 else f"{text[:40]}…"
    raise InputError(f"{end} {shown!r} is no time; {ACCEPTED}")


def read_instant(text: str, now: datetime, zone: ZoneInfo) -> datetime:
    """Read the last moment of a time that is meant whole: a day to its end, and a minute to its last second."""
    moment = read_moment(text, now, zone, "at")
    if MINUTE.fullmatch(text.strip()):
        moment += timedelta(minutes=1)
    return moment - timedelta(microseconds=1)


def find_moment(plain: str, now: datetime, zone: ZoneInfo, end: str) -> datetime:
    """Find the moment that a text means, in any zone; raises ValueError or OverflowError where it means none."""
    if ago := AGO.fullmatch(plain):
        return now.astimezone(UTC) - timedelta(**{UNITS[ago[2]]: int(ago[1])})
    if day := read_day(plain, now, zone):
        return datetime.combine(day + timedelta(days=1) if end != "since" else day, time(), zone)
    if CLOCK.fullmatch(plain):
        return datetime.combine(now.astimezone(zone).date(), time.fromisoformat(plain.rjust(5, "0")), zone)
    moment = datetime.fromisoformat(plain.upper())
    return moment if moment.tzinfo else moment.replace(tzinfo=zone)


def read_day(word: str, now: datetime, zone: ZoneInfo) -> date | None:
    """Read a day as it is counted in a zone, or None where a time is meant."""
    if word in DAYS:
        return now.astimezone(zone).date() - timedelta(days=DAYS[word])
    try:
        return date.fromisoformat(word)
    except ValueError:
        return None


def stamp(moment: datetime) -> str:
    """Write a moment as the log stores it: in UTC and of one width, so that texts sort as times."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def read_stamp(text: str) -> datetime:
    """Read a moment that the log has stored."""
    return datetime.fromisoformat(text)
