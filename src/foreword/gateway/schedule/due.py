"""When a schedule is due: cron lines, single moments and heartbeats, in a zone whose clocks are put forward and back.

A run belongs to what the clock on the wall shows. A time that a zone leaves out is made up for at the moment its clocks
were put forward; one that it shows twice counts the first time. A line for every hour keeps to the hours that really
pass instead.
"""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim

from foreword.config.scheduling import read_every
from foreword.frozen import frozen
from foreword.sources.clock import find_zone
from foreword.words import Word

BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MANY = 1_000  # runs that are counted at most
HOURS = frozenset(range(24))
HOUR = 1  # the place of the hour in a cron line


class Kind(Word):
    """How a schedule says when it is due."""

    CRON = "cron"
    AT = "at"
    HEARTBEAT = "heartbeat"


@frozen(eq=True)
class Timing:
    """When a schedule is due, as it is written; the words were judged before."""

    kind: Kind
    moment: str
    zone: str = ""


def find_next(timing: Timing, after: datetime) -> datetime | None:
    """Find the first moment after another at which a schedule is due, in UTC; None where there is none any more."""
    after = after.astimezone(UTC)
    if timing.kind is Kind.HEARTBEAT:
        every = read_every(timing.moment)
        assert every is not None
        return BEGINNING + ((after - BEGINNING) // every + 1) * every
    zone, _ = find_zone(timing.zone)
    if timing.kind is Kind.AT:
        moment = read_at(timing.moment, zone)
        return moment if moment > after else None
    return find_next_cron(timing.moment, zone, after)


def find_passed(timing: Timing, due: datetime, now: datetime) -> list[datetime]:
    """Find the runs from one that is due up to a moment, as far as counting is worth it."""
    passed = [due]
    while len(passed) < MANY and (following := find_next(timing, passed[-1])) and following <= now:
        passed.append(following)
    return passed


def read_at(moment: str, zone: ZoneInfo) -> datetime:
    """Read a single moment; without an offset it is what the clock of the zone shows."""
    written = datetime.fromisoformat(moment)
    return written.astimezone(UTC) if written.tzinfo else find_instant(written, zone)


def find_next_cron(line: str, zone: ZoneInfo, after: datetime) -> datetime | None:
    """Find the next moment of a cron line."""
    plain, hourly = simplify(line)
    try:
        if hourly:
            return next(CronSim(plain, after.astimezone(zone))).astimezone(UTC)
        for wall in CronSim(plain, after.astimezone(zone).replace(tzinfo=None, fold=0)):
            instant = find_instant(wall, zone)
            if instant > after:  # else the clock shows this for the second time
                return instant
    except (StopIteration, OverflowError):
        pass
    return None


@lru_cache(maxsize=1_024)
def simplify(line: str) -> tuple[str, bool]:
    """Say whether a line is for every hour; one that lists all of them is written as a star."""
    fields = line.split()
    if CronSim(line, BEGINNING).hours != HOURS:
        return line, False
    fields[HOUR] = "*"
    return " ".join(fields), True


def find_instant(wall: datetime, zone: ZoneInfo) -> datetime:
    """Find the first instant at which a clock shows a time, or at which it was put forward past it."""
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
