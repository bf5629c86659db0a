"""Schedules as `foreword.yaml` lists them: what is to be said to an agent later, when, and where the reply goes."""

import re
from calendar import monthrange
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any
from zoneinfo import ZoneInfo

from foreword.errors import suggest
from foreword.frozen import frozen
from foreword.names import judge_name
from foreword.words import Delivery, Word

FIELDS = 5  # of a cron line
LONGEST = 200  # characters of a moment
EVERY = re.compile(r"([0-9]{1,6})\s*([smhdw])")
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
SHORTEST = timedelta(minutes=1)
FURTHEST = timedelta(days=366)
MAX_NAME_CHARS = 64
FROM = datetime(2024, 1, 1)  # noqa: DTZ001 - a wall clock of no zone; a leap year begins
EXAMPLE = 'write minute, hour, day, month and weekday, such as "0 8 * * 1-5"'
RANGES = {
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day-of-month": "1 to 31",
    "month": "1 to 12",
    "day-of-week": "0 to 7",
}
KINDS = ("cron", "at", "heartbeat")


class Missed(Word):
    """What becomes of runs that fell into a downtime."""

    ONCE = "once"
    """One run makes up for all of them."""
    SKIP = "skip"


@frozen(eq=True)
class Schedule:
    """Something that an agent is told when it is due, as if its user had said it."""

    user: str
    """As whom it acts, and whose private address is its destination unless `to` says otherwise."""
    agent: str = ""
    """Who is told; the first agent if left out."""
    cron: str = ""
    """When: minute, hour, day, month and weekday."""
    at: str = ""
    """Once: a date and a time, such as "2026-12-24T18:00"."""
    heartbeat: str = ""
    """How often the agent goes through HEARTBEAT.md with a light prompt, such as 30m or 2h."""
    say: str = ""
    """What the agent is told; a heartbeat has words of its own."""
    name: str = ""
    """What it is known by, to budgets too; else a name made from what it says."""
    zone: str = ""
    """The zone its times are in; else that of its room, of its user, or of the server."""
    delivery: Delivery | None = None
    """What happens with the reply: always, as_needed or never; else always, and as_needed for a heartbeat."""
    to: str = ""
    """Where the reply goes: one of the user's own addresses, such as telegram:1001, or a room; else the user's last."""
    missed: Missed = Missed.ONCE
    """What becomes of runs that fell into a downtime: once makes up for all of them, skip for none."""

    @property
    def kind(self) -> str:
        """Which of the three ways to say when it has."""
        return next((kind for kind in KINDS if getattr(self, kind)), "")

    @property
    def moment(self) -> str:
        """When it is due, as it is written."""
        return str(getattr(self, self.kind)) if self.kind else ""

    @property
    def known_as(self) -> str:
        """Its name, or one that stays the same as long as it says the same."""
        if self.name:
            return self.name
        content = repr((self.agent, self.user, self.kind, self.moment, self.zone, self.say, self.to))
        return f"{self.kind}-{sha256(content.encode()).hexdigest()[:8]}"

    @property
    def delivered(self) -> Delivery:
        """What happens with the reply."""
        return self.delivery or (Delivery.AS_NEEDED if self.kind == "heartbeat" else Delivery.ALWAYS)


def judge_moment(kind: str, moment: str) -> str:
    """Say what is wrong with a moment of one of the three kinds, or nothing."""
    if len(moment) > LONGEST or not moment.isprintable():
        return f"has {len(moment):,} characters or signs that cannot be printed; {LONGEST} are the most"
    return JUDGES[kind](moment)


def judge_cron(line: str) -> str:
    """Say what is wrong with a cron line, or nothing."""
    count = len(line.split())
    if count == FIELDS + 1:
        return f"is {line!r}, which has seconds; a schedule runs once a minute at most, so {EXAMPLE}"
    if count != FIELDS:
        return f"is {line!r}, which has {count} fields instead of {FIELDS}; {EXAMPLE}"
    problem = find_problem(line)
    return f"is {line!r}, {problem}; {EXAMPLE}" if problem else ""


def find_problem(line: str) -> str:
    """Find what is wrong in the fields of a cron line, or nothing."""
    try:
        from cronsim import CronSim, CronSimError
    except ModuleNotFoundError:  # without the gateway nothing runs by it
        return ""
    try:
        next(CronSim(line, FROM))
    except CronSimError as error:
        field = str(error).removeprefix("Bad ")
        minute, hour, day, month, weekday = line.split()
        if field == "day-of-month" and month != "*" and not find_problem(f"{minute} {hour} {day} * {weekday}"):
            return "a day that never comes"
        return f"whose {field} cannot be read" + (f": it goes from {RANGES[field]}" if field in RANGES else "")
    except (AssertionError, ValueError):
        return "which cannot be read"
    except (StopIteration, OverflowError):
        return "a time that never comes"
    return ""


def judge_at(moment: str) -> str:
    """Say what is wrong with a date and a time, or nothing."""
    try:
        found = datetime.fromisoformat(moment)
    except ValueError:
        found = None
    if found is None and (missing := find_missing_day(moment)):
        return f"is {moment!r}, and {missing}"
    if found is None or not re.search(r"[T ][0-9]", moment.upper()):
        return f'is {moment!r}, which is no date and time; write one such as "2026-12-24T18:00"'
    return "" if 2000 <= found.year <= 2200 else f"is {moment!r}, which is too far away"


def find_missing_day(moment: str) -> str:
    """Say that a month does not have the day of a date, or nothing."""
    found = re.match(r"([0-9]{4}-(?:0[1-9]|1[0-2]))-([0-9]{2})", moment.strip())
    if not found or 1 <= int(found[2]) <= monthrange(int(found[1][:4]), int(found[1][5:]))[1]:
        return ""
    return f"{found[1]} has no day {int(found[2])}"


def judge_every(text: str) -> str:
    """Say what is wrong with the time between two heartbeats, or nothing."""
    every = read_every(text)
    if every is None:
        return f"is {text!r}, which is no length of time; write one such as 30m, 2h or 1d"
    if every < SHORTEST:
        return f"is {text!r}, and a schedule runs once a minute at most; write one such as 30m, 2h or 1d"
    return "" if every <= FURTHEST else f"is {text!r}, which is longer than a year"


def read_every(text: str) -> timedelta | None:
    """Read a length of time, or None where it is none."""
    found = EVERY.fullmatch(text.strip().lower())
    return timedelta(**{UNITS[found[2]]: int(found[1])}) if found else None


JUDGES = {"cron": judge_cron, "at": judge_at, "heartbeat": judge_every}


def is_zone(name: str) -> bool:
    """Whether a time zone has this name."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return True


def check_schedules(places: Mapping[Any, Any]) -> Iterator[tuple[tuple[str | int, ...], int, str]]:
    """Find what is wrong with the schedules of a configuration, beyond their shape."""
    known = {kind: [str(keys[1]) for keys in places if len(keys) == 2 and keys[0] == kind] for kind in NAMED}
    owners = {str(place.value): keys[1] for keys, place in places.items() if keys[2:3] == ("identities",) and keys[3:]}
    seen: dict[str, int] = {}
    for keys, place in places.items():
        entry = place.value
        if len(keys) != 2 or keys[0] != "schedule" or not isinstance(entry, Schedule):
            continue
        for field, problem in (*judge_when(entry), *judge_names(entry, known)):
            where = (*keys, field) if field else keys
            yield where, places.get(where, place).line, problem
        if owners.get(entry.to, entry.user) != entry.user:
            where = (*keys, "to")
            yield where, places.get(where, place).line, f"is an address of {owners[entry.to]}, not of {entry.user}"
        if first := seen.get(entry.known_as):
            yield keys, place.line, f"repeats the schedule {entry.known_as!r} from line {first}; give it another name"
        seen.setdefault(entry.known_as, place.line)


NAMED = ("agents", "users", "rooms")
NO_ZONE = "is {!r}, which is no time zone; write one such as Europe/Paris"


def judge_when(entry: Schedule) -> Iterator[tuple[str, str]]:
    """Judge when it is due and what it says."""
    kinds = [kind for kind in KINDS if getattr(entry, kind)]
    if len(kinds) != 1:
        found = f", not {' and '.join(kinds)}" if kinds else ""
        yield "", f"must have one of cron, at and heartbeat{found}"
        return
    if problem := judge_moment(entry.kind, entry.moment):
        yield entry.kind, problem
    if entry.kind != "heartbeat" and not entry.say.strip():
        yield "", "must have a text under say: what the agent is told"
    if entry.zone and not is_zone(entry.zone):
        yield "zone", NO_ZONE.format(entry.zone)
    if entry.name and (len(entry.name) > MAX_NAME_CHARS or judge_name(entry.name)):
        most = f"use {MAX_NAME_CHARS} letters, digits and ._- at most, a letter or digit first"
        yield "name", f"is not a usable name; {most}"


def judge_names(entry: Schedule, known: Mapping[str, list[str]]) -> Iterator[tuple[str, str]]:
    """Judge the names that stand for something else in the configuration."""
    if entry.user not in known["users"]:
        yield "user", f"is {entry.user!r}, who is not listed under users{suggest(entry.user, known['users'])}"
    if entry.agent and known["agents"] and entry.agent not in known["agents"]:
        yield "agent", f"is {entry.agent!r}, which is not listed under agents{suggest(entry.agent, known['agents'])}"
    if entry.to and ":" not in entry.to and entry.to not in known["rooms"]:
        nearest = suggest(entry.to, known["rooms"])
        yield (
            "to",
            f"is {entry.to!r}, which is neither an address such as telegram:1001 nor listed under rooms{nearest}",
        )
