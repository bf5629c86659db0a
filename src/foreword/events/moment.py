"""Moments as people name them: `12h`, `today`, `2026-11-15`, `2026-11-15T08:30`, in the zone of who asks."""

import re
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from foreword.errors import InputError
from foreword.frozen import frozen
from foreword.sources.clock import find_zone

AGO = re.compile(r"([0-9]{1,9})\s*([smhdw])")
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
DAYS = {"today": 0, "yesterday": 1}
ACCEPTED = "write 30m, 12h, 7d, today, yesterday, 2026-11-15 or 2026-11-15T08:30"


@frozen(eq=True)
class Period:
    """A stretch of time, in UTC: from `since` on, up to but without `until`; an end that is None is open."""

    since: datetime | None = None
    until: datetime | None = None


ALWAYS = Period()


def read_period(since: str, until: str, now: datetime, timezone: str = "") -> Period:
    """Read both ends of a period; a day is meant whole, so until yesterday is until its end."""
    zone, _ = find_zone(timezone)
    first = read_moment(since, now, zone, "since") if since else None
    last = read_moment(until, now, zone, "until") if until else None
    if first and last and first >= last:
        raise InputError(f"since {since!r} is not before until {until!r}")
    return Period(since=first, until=last)


def read_moment(text: str, now: datetime, zone: ZoneInfo, end: str = "since") -> datetime:
    """Read one moment as UTC; for the end `until` a day stands for the moment at which it is over."""
    plain = text.strip().lower()
    try:
        if ago := AGO.fullmatch(plain):
            return now.astimezone(UTC) - timedelta(**{UNITS[ago[2]]: int(ago[1])})
        if day := read_day(plain, now, zone):
            whole = day + timedelta(days=1) if end == "until" else day
            return datetime.combine(whole, time(), zone).astimezone(UTC)
        moment = datetime.fromisoformat(text.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        shown = text if len(text) <= 40 else f"{text[:40]}…"
        raise InputError(f"{end} {shown!r} is no time; {ACCEPTED}") from None


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
