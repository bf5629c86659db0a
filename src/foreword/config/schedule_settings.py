"""Schedules in `foreword.yaml`: messages to an agent at a later time, and the destination of the reply."""

import re
from calendar import monthrange
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from hashlib import sha256

from foreword.config.structure import ConfigProblem, ParsedValues, find_values, list_names
from foreword.errors import suggest_name
from foreword.host import load_zone
from foreword.turn import check_name
from foreword.types import Delivery, TextEnum, frozen

CRON_FIELDS = 5  # fields of a cron line
MAX_TIME_CHARS = 200  # maximum characters of a time
DURATION = re.compile(r"([0-9]{1,6})\s*([smhdw])")
DURATION_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
MIN_INTERVAL = timedelta(minutes=1)
MAX_INTERVAL = timedelta(days=366)
MAX_NAME_CHARS = 64
CRON_CHECK_START = datetime(2024, 1, 1)  # noqa: DTZ001 - a wall-clock time without zone, at the start of a leap year
CRON_EXAMPLE = 'write minute, hour, day, month and weekday, such as "0 8 * * 1-5"'
CRON_RANGES = {
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day-of-month": "1 to 31",
    "month": "1 to 12",
    "day-of-week": "0 to 7",
}
KINDS = ("cron", "at", "heartbeat")


class MissedRuns(TextEnum):
    """How to handle runs missed during downtime."""

    ONCE = "once"
    """One run replaces all missed ones."""
    SKIP = "skip"


@frozen(eq=True)
class ScheduleSettings:
    """A message to an agent at a given time, as if its user had sent it."""

    user: str
    """The user it acts for; the reply goes to their private address unless `to` is set."""
    agent: str = ""
    """The agent that gets the message. Default: the first agent."""
    cron: str = ""
    """When: minute, hour, day, month and weekday."""
    at: str = ""
    """Once: a date and a time, such as "2026-12-24T18:00"."""
    heartbeat: str = ""
    """How often the agent goes through HEARTBEAT.md with a light prompt, such as 30m or 2h."""
    say: str = ""
    """The message; a heartbeat has its own."""
    name: str = ""
    """Its name, also for budgets. Default: derived from its content."""
    zone: str = ""
    """The zone of its times. Default: the zone of its room, its user, or the server."""
    delivery: Delivery | None = None
    """What to do with the reply: always, as_needed or never. Default: always; as_needed for a heartbeat."""
    to: str = ""
    """Destination of the reply: an address of the user, such as telegram:1001, or a room. Default: the user's last."""
    missed: MissedRuns = MissedRuns.ONCE
    """How to handle runs missed during downtime: once runs a single time for all of them, skip drops them."""

    @property
    def kind(self) -> str:
        """Return `cron`, `at` or `heartbeat`."""
        return next((kind for kind in KINDS if getattr(self, kind)), "")

    @property
    def moment(self) -> str:
        """Return the time as written."""
        return str(getattr(self, self.kind)) if self.kind else ""

    @property
    def known_as(self) -> str:
        """Return its name, or a name derived from its content."""
        if self.name:
            return self.name
        content = repr((self.agent, self.user, self.kind, self.moment, self.zone, self.say, self.to))
        return f"{self.kind}-{sha256(content.encode()).hexdigest()[:8]}"

    @property
    def delivered(self) -> Delivery:
        """Return what to do with the reply."""
        return self.delivery or (Delivery.AS_NEEDED if self.kind == "heartbeat" else Delivery.ALWAYS)


def check_time(kind: str, moment: str) -> str:
    """Return the problem with a time of one of the three kinds, or an empty text."""
    if len(moment) > MAX_TIME_CHARS or not moment.isprintable():
        return f"has {len(moment):,} characters or signs that cannot be printed; {MAX_TIME_CHARS} are the most"
    return TIME_CHECKS[kind](moment)


def check_cron(line: str) -> str:
    """Return the problem with a cron line, or an empty text."""
    count = len(line.split())
    if count == CRON_FIELDS + 1:
        return f"is {line!r}, which has seconds; a schedule runs once a minute at most, so {CRON_EXAMPLE}"
    if count != CRON_FIELDS:
        return f"is {line!r}, which has {count} fields instead of {CRON_FIELDS}; {CRON_EXAMPLE}"
    problem = find_cron_problem(line)
    return f"is {line!r}, {problem}; {CRON_EXAMPLE}" if problem else ""


def find_cron_problem(line: str) -> str:
    """Return the problem in the fields of a cron line, or an empty text."""
    try:
        from cronsim import CronSim, CronSimError
    except ModuleNotFoundError:  # cron lines are used only with the gateway installed
        return ""
    try:
        next(CronSim(line, CRON_CHECK_START))
    except CronSimError as error:
        field = str(error).removeprefix("Bad ")
        minute, hour, day, month, weekday = line.split()
        if field == "day-of-month" and month != "*" and not find_cron_problem(f"{minute} {hour} {day} * {weekday}"):
            return "a day that never comes"
        known = f": it goes from {CRON_RANGES[field]}" if field in CRON_RANGES else ""
        return f"whose {field} cannot be read{known}"
    except (AssertionError, ValueError):
        return "which cannot be read"
    except (StopIteration, OverflowError):
        return "a time that never comes"
    return ""


def check_date_time(moment: str) -> str:
    """Return the problem with a date and time, or an empty text."""
    try:
        found = datetime.fromisoformat(moment)
    except ValueError:
        found = None
    if found is None and (missing := describe_missing_day(moment)):
        return f"is {moment!r}, and {missing}"
    if found is None or not re.search(r"[T ][0-9]", moment.upper()):
        return f'is {moment!r}, which is no date and time; write one such as "2026-12-24T18:00"'
    return "" if 2000 <= found.year <= 2200 else f"is {moment!r}, which is too far away"


def describe_missing_day(moment: str) -> str:
    """Say that a month does not have the day of a date, or return an empty text."""
    found = re.match(r"([0-9]{4}-(?:0[1-9]|1[0-2]))-([0-9]{2})", moment.strip())
    if not found or 1 <= int(found[2]) <= monthrange(int(found[1][:4]), int(found[1][5:]))[1]:
        return ""
    return f"{found[1]} has no day {int(found[2])}"


def check_interval(text: str) -> str:
    """Return the problem with the interval of a heartbeat, or an empty text."""
    every = parse_duration(text)
    if every is None:
        return f"is {text!r}, which is no length of time; write one such as 30m, 2h or 1d"
    if every < MIN_INTERVAL:
        return f"is {text!r}, and a schedule runs once a minute at most; write one such as 30m, 2h or 1d"
    return "" if every <= MAX_INTERVAL else f"is {text!r}, which is longer than a year"


def parse_duration(text: str) -> timedelta | None:
    """Parse a duration; return None if it is not one."""
    found = DURATION.fullmatch(text.strip().lower())
    return timedelta(**{DURATION_UNITS[found[2]]: int(found[1])}) if found else None


TIME_CHECKS = {"cron": check_cron, "at": check_date_time, "heartbeat": check_interval}


def is_zone(name: str) -> bool:
    """Whether a time zone has this name."""
    return not load_zone(name)[1]


def check_schedules(places: ParsedValues) -> Iterator[ConfigProblem]:
    """Check the schedules of a configuration beyond their structure."""
    known = {kind: list_names(places, kind) for kind in ("agents", "users", "rooms")}
    owners = {str(place.value): keys[1] for keys, place in find_values(places, "users", "*", "identities", "*")}
    seen: dict[str, int] = {}
    for keys, place in find_values(places, "schedule", "*"):
        entry = place.value
        if not isinstance(entry, ScheduleSettings):
            continue
        for field, problem in (*check_schedule_time(entry), *check_schedule_names(entry, known)):
            where = (*keys, field) if field else keys
            yield where, places.get(where, place).line, problem
        if owners.get(entry.to, entry.user) != entry.user:
            where = (*keys, "to")
            yield where, places.get(where, place).line, f"is an address of {owners[entry.to]}, not of {entry.user}"
        if first := seen.get(entry.known_as):
            yield keys, place.line, f"repeats the schedule {entry.known_as!r} from line {first}; give it another name"
        seen.setdefault(entry.known_as, place.line)


NO_ZONE = "is {!r}, which is no time zone; write one such as Europe/Paris"


def check_schedule_time(entry: ScheduleSettings) -> Iterator[tuple[str, str]]:
    """Check the time and the message of a schedule."""
    kinds = [kind for kind in KINDS if getattr(entry, kind)]
    if len(kinds) != 1:
        found = f", not {' and '.join(kinds)}" if kinds else ""
        yield "", f"must have one of cron, at and heartbeat{found}"
        return
    if problem := check_time(entry.kind, entry.moment):
        yield entry.kind, problem
    if entry.kind != "heartbeat" and not entry.say.strip():
        yield "", "must have a text under `say`"
    if entry.zone and not is_zone(entry.zone):
        yield "zone", NO_ZONE.format(entry.zone)
    if entry.name and (len(entry.name) > MAX_NAME_CHARS or check_name(entry.name)):
        most = f"use {MAX_NAME_CHARS} letters, digits and ._- at most, a letter or digit first"
        yield "name", f"is not a usable name; {most}"


def check_schedule_names(entry: ScheduleSettings, known: Mapping[str, list[str]]) -> Iterator[tuple[str, str]]:
    """Check the names that refer to other entries of the configuration."""
    if entry.user not in known["users"]:
        yield "user", f"is {entry.user!r}, who is not listed under users{suggest_name(entry.user, known['users'])}"
    if entry.agent and known["agents"] and entry.agent not in known["agents"]:
        nearest = suggest_name(entry.agent, known["agents"])
        yield "agent", f"is {entry.agent!r}, which is not listed under agents{nearest}"
    if entry.to and ":" not in entry.to and entry.to not in known["rooms"]:
        problem = "which is neither an address such as telegram:1001 nor listed under rooms"
        yield "to", f"is {entry.to!r}, {problem}{suggest_name(entry.to, known['rooms'])}"
