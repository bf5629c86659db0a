"""Due times of cron lines, single times and heartbeats, and times as people write them, such as `tomorrow 8:00`.

Runs follow local time. A local time skipped by a clock change runs at the change; one that occurs twice runs the
first time. An hourly cron line follows elapsed hours instead.
"""

import re
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim

from foreword.config.schedule_settings import DURATION_UNITS, check_date_time, describe_missing_day, parse_duration
from foreword.errors import InputError
from foreword.host import load_zone
from foreword.storage.schedules import Timing, TimingKind

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MAX_COUNTED_RUNS = 1_000  # most missed runs that are counted
ALL_HOURS = frozenset(range(24))
CRON_HOUR_INDEX = 1  # index of the hour field in a cron line


def find_next_due(timing: Timing, after: datetime) -> datetime | None:
    """Return the next due time after a given time, in UTC; None if there is none."""
    after = after.astimezone(UTC)
    if timing.kind is TimingKind.HEARTBEAT:
        every = parse_duration(timing.moment)
        assert every is not None
        return EPOCH + ((after - EPOCH) // every + 1) * every
    zone, _ = load_zone(timing.zone)
    if timing.kind is TimingKind.AT:
        moment = parse_at(timing.moment, zone)
        return moment if moment > after else None
    return find_next_cron(timing.moment, zone, after)


def list_due_times(timing: Timing, due: datetime, now: datetime) -> list[datetime]:
    """List the due times from `due` up to now, up to a limit."""
    passed = [due]
    while len(passed) < MAX_COUNTED_RUNS and (following := find_next_due(timing, passed[-1])) and following <= now:
        passed.append(following)
    return passed


def parse_at(moment: str, zone: ZoneInfo) -> datetime:
    """Parse a single time; without an offset it is local time in the zone."""
    written = datetime.fromisoformat(moment)
    return written.astimezone(UTC) if written.tzinfo else find_instant(written, zone)


def find_next_cron(line: str, zone: ZoneInfo, after: datetime) -> datetime | None:
    """Return the next due time of a cron line."""
    plain, hourly = simplify_cron(line)
    try:
        if hourly:
            return next(CronSim(plain, after.astimezone(zone))).astimezone(UTC)
        for wall in CronSim(plain, after.astimezone(zone).replace(tzinfo=None, fold=0)):
            instant = find_instant(wall, zone)
            if instant > after:  # otherwise this local time occurs for the second time
                return instant
    except (StopIteration, OverflowError):
        pass
    return None


@lru_cache(maxsize=1_024)
def simplify_cron(line: str) -> tuple[str, bool]:
    """Return the line and whether it is hourly; a list of all 24 hours becomes a star."""
    fields = line.split()
    if CronSim(line, EPOCH).hours != ALL_HOURS:
        return line, False
    fields[CRON_HOUR_INDEX] = "*"
    return " ".join(fields), True


def find_instant(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return the first instant with a local time, or the instant of the clock change that skips it."""
    instant = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if instant.astimezone(zone).replace(tzinfo=None, fold=0) == wall:
        return instant
    before, later = wall.replace(tzinfo=zone, fold=1).astimezone(UTC), instant
    offset = later.astimezone(zone).utcoffset()
    while later - before > SECOND:
        middle = before + (later - before) // 2
        if middle.astimezone(zone).utcoffset() == offset:
            later = middle
        else:
            before = middle
    return later.replace(microsecond=0)


TIME_FORMS = '"18:00", "tomorrow 8:00", "in 5 minutes" or "2026-12-24T18:00"'
MAX_DELAY = timedelta(days=366 * 5)
_CLOCK = re.compile(r"(?:(today|tomorrow)[ ,]+)?(?:at +)?([0-9]{1,2}):([0-9]{2})", re.IGNORECASE)
_DELAY = re.compile(
    r"in +([0-9]{1,6}|an?|one) *(s|sec|seconds?|m|min|minutes?|h|hours?|d|days?|w|weeks?)", re.IGNORECASE
)


def resolve_time(text: str, zone: ZoneInfo, now: datetime) -> tuple[str, str]:
    """Resolve a time as people write it, and return a note on how it was read.

    Raise InputError with the accepted forms if it is invalid.
    """
    words = " ".join(text.split())
    if found := _CLOCK.fullmatch(words):
        return resolve_clock(words, found, zone, now)
    if found := _DELAY.fullmatch(words):
        return resolve_delay(words, found, zone, now), ""
    if missing := describe_missing_day(words):
        raise InputError(f"at is {text[:60]!r}, and {missing}")
    if check_date_time(words):
        raise InputError(f"at is {text[:60]!r}, which is not a time; write {TIME_FORMS}")
    return words, ""


def resolve_clock(words: str, found: re.Match[str], zone: ZoneInfo, now: datetime) -> tuple[str, str]:
    """Resolve a time of day: today, or tomorrow if it has passed or the phrase says so."""
    try:
        clock = time(int(found[2]), int(found[3]))
    except ValueError:
        raise InputError(f"at is {words!r}: {found[2]}:{found[3]} is not a valid time; write {TIME_FORMS}") from None
    day = (found[1] or "").lower()
    today = datetime.combine(now.astimezone(zone).date(), clock)
    tomorrow = today + timedelta(days=1)
    if day == "tomorrow":
        return tomorrow.isoformat(timespec="minutes"), ""
    if find_instant(today, zone) > now:
        return today.isoformat(timespec="minutes"), ""
    if day:
        raise InputError(f"{words} has passed: it is {now.astimezone(zone):%H:%M} ({zone.key})")
    note = f"{clock:%H:%M} has passed today ({zone.key}), so it is planned for tomorrow"
    return tomorrow.isoformat(timespec="minutes"), note


def resolve_delay(words: str, found: re.Match[str], zone: ZoneInfo, now: datetime) -> str:
    """Resolve a delay: days and weeks in local time, shorter units as elapsed time."""
    unit = DURATION_UNITS[found[2][0].lower()]
    delay = timedelta(**{unit: int(found[1]) if found[1].isdigit() else 1})
    if not timedelta() < delay <= MAX_DELAY:
        raise InputError(f"at is {words!r}; a schedule must be between one second and five years away")
    if unit in ("days", "weeks"):
        wall = now.astimezone(zone).replace(tzinfo=None, fold=0) + delay
        return wall.isoformat(timespec="seconds")
    return (now + delay).astimezone(zone).isoformat(timespec="seconds")
