"""Times as people write them: 18:00, tomorrow 8:00, in 5 minutes, or a date and a time.

A phrase is resolved once, when a schedule is made, to a date and a time of the person's zone. A time of day that has
passed means tomorrow. Days and weeks are counted on the clock on the wall, so that "in 2 days" keeps its hour when the
clocks change; minutes and hours are counted as they pass.
"""

import re
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from foreword.config.scheduling import find_missing_day, judge_at
from foreword.errors import InputError
from foreword.frozen import frozen
from foreword.gateway.schedule.due import find_instant

FORMS = '"18:00", "tomorrow 8:00", "in 5 minutes" or "2026-12-24T18:00"'
MAX_DELAY = timedelta(days=366 * 5)
_CLOCK = re.compile(r"(?:(today|tomorrow)[ ,]+)?(?:at +)?([0-9]{1,2}):([0-9]{2})", re.IGNORECASE)
_DELAY = re.compile(
    r"in +([0-9]{1,6}|an?|one) *(s|sec|seconds?|m|min|minutes?|h|hours?|d|days?|w|weeks?)", re.IGNORECASE
)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@frozen(eq=True)
class Resolved:
    """A moment as a schedule keeps it, and what a person should know of how their words were read."""

    moment: str
    note: str = ""


def resolve_moment(text: str, zone: ZoneInfo, now: datetime) -> Resolved:
    """Resolve a time as a person writes it; raise InputError with the accepted forms where it is none."""
    words = " ".join(text.split())
    if found := _CLOCK.fullmatch(words):
        return resolve_clock(words, found, zone, now)
    if found := _DELAY.fullmatch(words):
        return Resolved(moment=resolve_delay(words, found, zone, now))
    if missing := find_missing_day(words):
        raise InputError(f"at is {text[:60]!r}, and {missing}")
    if judge_at(words):
        raise InputError(f"at is {text[:60]!r}, which is no time; write {FORMS}")
    return Resolved(moment=words)


def resolve_clock(words: str, found: re.Match[str], zone: ZoneInfo, now: datetime) -> Resolved:
    """Resolve a time of day, today unless it has passed or tomorrow is named."""
    try:
        clock = time(int(found[2]), int(found[3]))
    except ValueError:
        raise InputError(f"at is {words!r}: {found[2]}:{found[3]} is not a valid time; write {FORMS}") from None
    named = (found[1] or "").lower()
    today = now.astimezone(zone).date()
    if named == "tomorrow":
        return Resolved(moment=write(today + timedelta(days=1), clock))
    if find_instant(datetime.combine(today, clock), zone) > now:
        return Resolved(moment=write(today, clock))
    if named:
        raise InputError(f"{words} has passed: it is {now.astimezone(zone):%H:%M} ({zone.key})")
    return Resolved(
        moment=write(today + timedelta(days=1), clock),
        note=f"{clock:%H:%M} has passed today ({zone.key}), so it is planned for tomorrow",
    )


def resolve_delay(words: str, found: re.Match[str], zone: ZoneInfo, now: datetime) -> str:
    """Resolve a time from now: days and weeks by the clock on the wall, anything shorter as it passes."""
    unit = _UNITS[found[2][0].lower()]
    delay = timedelta(**{unit: int(found[1]) if found[1].isdigit() else 1})
    if not timedelta() < delay <= MAX_DELAY:
        raise InputError(f"at is {words!r}, and a schedule is between a second and five years away")
    if unit in ("days", "weeks"):
        wall = now.astimezone(zone).replace(tzinfo=None, fold=0) + delay
        return wall.isoformat(timespec="seconds")
    return (now + delay).astimezone(zone).isoformat(timespec="seconds")


def write(day: date, clock: time) -> str:
    """Write a day and a time of day."""
    return datetime.combine(day, clock).isoformat(timespec="minutes")
