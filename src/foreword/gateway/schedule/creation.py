"""Schedules: their due times, and their creation from foreword.yaml, by users and by the schedule tools.

Runs follow local time. A local time skipped by a clock change runs at the change; one that occurs twice runs the
first time. An hourly cron line follows elapsed hours instead.
"""

import re
import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

from cronsim import CronSim

from foreword.assembly import Assembly
from foreword.config import schedule_settings
from foreword.config.schedule_settings import (
    DURATION_UNITS,
    MissedRuns,
    ScheduleSettings,
    check_date_time,
    describe_missing_day,
    parse_duration,
)
from foreword.config.schema import Config
from foreword.errors import Forbidden, InputError, UnknownName
from foreword.events.tracer import make_id
from foreword.gateway.gateway_context import GatewayContext
from foreword.gateway.schedule import destinations
from foreword.host import load_zone
from foreword.storage import schedules
from foreword.storage.database import is_whole
from foreword.storage.schedules import Destination, ScheduleOrigin, ScheduleState, StoredSchedule, Timing, TimingKind
from foreword.turn import Turn
from foreword.types import Delivery, frozen

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MAX_COUNTED_RUNS = 1_000  # most missed runs that are counted
ALL_HOURS = frozenset(range(24))
DELIVERIES = {str(one): one for one in Delivery}
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


PAST_NOTE = "its time had already passed when it was loaded, so it does not run"


def sync_configured_schedules(state: sqlite3.Connection, config: Config, now: datetime) -> None:
    """Add, update and delete the rows of configured schedules; other schedules are unchanged."""
    entries = {entry.known_as: entry for entry in config.schedule}
    for stored in schedules.list_schedules(state):
        if stored.origin is ScheduleOrigin.CONFIG and stored.id not in entries:
            schedules.delete_schedule(state, stored.id)
    for key, entry in entries.items():
        before = schedules.get_schedule(state, key)
        after = make_schedule(entry, config, before, now)
        if after != before:
            schedules.put_schedule(state, after)


def make_schedule(
    entry: ScheduleSettings, config: Config, before: StoredSchedule | None, now: datetime
) -> StoredSchedule:
    """Make the row of a configured schedule; it keeps its due time if its timing is unchanged."""
    note = ""
    try:
        to = destinations.parse_destination(entry.to, entry.user, config)
    except InputError as error:  # the address now belongs to another user
        to, note = Destination(channel="nowhere", address=entry.to), str(error)
    zone = find_zone_name(entry.zone, entry.user, to.room, config)
    timing = Timing(kind=TimingKind(entry.kind), moment=entry.moment, zone=zone)
    if before and before.timing == timing:
        due, state, note = before.due, before.state, note or before.note
    else:
        due = find_next_due(timing, now)
        state = ScheduleState.WAITING if due else ScheduleState.OVER
        note = note or ("" if due else PAST_NOTE)
    return StoredSchedule(
        id=entry.known_as,
        name=entry.known_as,
        origin=ScheduleOrigin.CONFIG,
        agent=entry.agent or next(iter(config.agents)),
        user=entry.user,
        timing=timing,
        say=entry.say,
        delivery=entry.delivered,
        to=to,
        clearance=destinations.resolve_destination_clearance(entry.user, Destination(), config),
        missed=entry.missed,
        created=before.created if before else now.replace(microsecond=0),
        due=due,
        ran=before.ran if before else None,
        note=note,
        state=state,
    )


def find_zone_name(named: str, user: str, room: str, config: Config, device: str = "") -> str:
    """Return the time zone of a schedule: the named one, else that of room, user, device or server."""
    place, person = config.rooms.get(room), config.users.get(user)
    own = (place.timezone if place else "") or (person.timezone if person else "")
    return named or own or device or config.host.timezone


@frozen
class CreatedSchedule:
    """A created schedule, and notes for its creator."""

    schedule: StoredSchedule
    notes: tuple[str, ...] = ()


def create_for_user(
    state: sqlite3.Connection, entry: ScheduleSettings, config: Config, now: datetime, channels: Collection[str]
) -> CreatedSchedule:
    """Create a schedule; raise InputError with the first problem.

    The notes say how the time was read, that the configured zone is unknown, and that the channels cannot deliver the
    replies.
    """
    entry, *notes = resolve_entry_time(entry, config, now)
    names = {"users": list(config.users), "agents": list(config.agents), "rooms": list(config.rooms)}
    problems = schedule_settings.check_schedule_time(entry), schedule_settings.check_schedule_names(entry, names)
    for field, problem in (problem for found in problems for problem in found):
        raise InputError(f"{field or 'a schedule'} {problem}")
    taken = {other.known_as for other in config.schedule if other.user == entry.user}
    taken |= {other.name for other in schedules.list_schedules(state, entry.user)}
    if entry.name and entry.name in taken:
        raise InputError(f"{entry.user} already has a schedule {entry.name!r}; choose another name")
    to = destinations.parse_destination(entry.to, entry.user, config)
    own = destinations.list_addresses(state, config, entry.user)
    if to.address and not to.room and (to.channel, to.address) not in own:
        raise InputError(
            f"{entry.to} is not an address of {entry.user}; a schedule delivers to its user's addresses or to a room"
        )
    made = make_schedule(entry, config, None, now)
    if made.due is None:
        raise InputError(f"{entry.moment} is in the past; it is {now:%Y-%m-%d %H:%M} (UTC) now")
    made = replace(made, id=make_id(32), name=entry.name, origin=ScheduleOrigin.PERSON)
    schedules.put_schedule(state, made)
    notes.append(destinations.explain_undeliverable(state, made, config, channels))
    return CreatedSchedule(schedule=made, notes=tuple(filter(None, notes)))


def resolve_entry_time(entry: ScheduleSettings, config: Config, now: datetime) -> tuple[ScheduleSettings, str, str]:
    """Resolve the time of an entry in its zone.

    Also return a note on how the time was read, and a note if the configured zone is unknown.
    """
    if entry.zone and not schedule_settings.is_zone(entry.zone):
        raise InputError(f"zone {schedule_settings.NO_ZONE.format(entry.zone)}")
    known = entry.user in config.users
    room = destinations.parse_destination(entry.to, entry.user, config).room if known else ""
    zone, unknown = load_zone(find_zone_name(entry.zone, entry.user, room, config))
    if not entry.at:
        return entry, "", unknown
    moment, note = resolve_time(entry.at, zone, now)
    return replace(entry, at=moment), note, unknown


MAX_SHOWN_TEXT_CHARS = 200  # characters of a schedule's text


def describe_schedule(schedule: StoredSchedule) -> str:
    """Describe a schedule on one line."""
    timing = schedule.timing
    title = f" ({' '.join(schedule.title.split())})" if schedule.title != schedule.id else ""
    due = format_time(schedule.due, timing.zone) if schedule.due else ""
    when = f"{timing.kind} {timing.moment}, {f'next {due}' if due else 'over'}"
    if timing.kind is TimingKind.AT and due:
        when = f"once on {due}"
    text = " ".join(schedule.say.split())[:MAX_SHOWN_TEXT_CHARS]
    state = "" if schedule.state is ScheduleState.WAITING else ", runs no more"
    delivery = "replies are not sent"
    if schedule.delivery is not Delivery.NEVER:
        needed = " if there is something to say" if schedule.delivery is Delivery.AS_NEEDED else ""
        where = str(schedule.to) or f"the private address that {schedule.user} used last"
        delivery = f"replies go to {where}{needed}"
    return f"{schedule.id}{title}, {when}{state}; {delivery}{f': {text}' if text else ''}"


def format_time(moment: datetime, zone: str) -> str:
    """Format a time in a zone."""
    found, _ = load_zone(zone)
    return f"{moment.astimezone(found):%Y-%m-%d %H:%M} ({found.key})"


MAX_SCHEDULES_PER_USER = 20  # schedules of one user, configured ones not counted
MIN_INTERVAL = timedelta(minutes=15)  # of a schedule made by an agent or by a user other than the owner
MAX_CHECKED_RUNS = 50  # runs checked for the shortest interval


@frozen
class WantedSchedule:
    """The arguments of the tool that creates a schedule."""

    say: str
    cron: str = ""
    at: str = ""
    zone: str = ""
    name: str = ""
    delivery: str = "always"


def create_schedule(
    state: sqlite3.Connection, context: GatewayContext, assembly: Assembly, wanted: WantedSchedule
) -> str:
    """Create a schedule for the person of a turn; return the answer for the agent."""
    turn, config, now = assembly.turn, context.workspace.config, context.clock()
    if wanted.delivery not in DELIVERIES:
        raise UnknownName("delivery", wanted.delivery, DELIVERIES)
    if turn.background:
        raise Forbidden("scheduled runs cannot create schedules")
    to = find_session_destination(state, turn, destinations.list_addresses(state, config, turn.user))
    if destinations.resolve_destination_clearance(turn.user, to, config) < assembly.clearance.level:
        raise Forbidden("what is known here may not be seen where its replies would go")
    timing, notes = parse_timing(wanted, find_zone_name("", turn.user, to.room, config, turn.client.zone), now)
    made = StoredSchedule(
        id=make_id(32),
        name=check_text("name", wanted.name),
        origin=ScheduleOrigin.AGENT,
        agent=turn.agent,
        user=turn.user,
        timing=timing,
        say=check_text("say", wanted.say),
        delivery=DELIVERIES[wanted.delivery],
        to=to,
        clearance=assembly.clearance.level,
        missed=MissedRuns.ONCE,
        created=now,
        due=find_next_due(timing, now),
    )
    if not made.say:
        raise InputError("'say' is empty")
    schedules.put_schedule(state, made)
    check_schedule_count(state, turn.user)
    channels = {*context.channels, *destinations.list_delivery_channels(config)}
    notes.append(destinations.explain_undeliverable(state, made, config, channels))
    return "\n".join([f"Planned: {describe_schedule(made)}", *(f"Note: {note}." for note in notes if note)])


def describe_visible_schedules(state: sqlite3.Connection, assembly: Assembly) -> str:
    """Describe the schedules of the person of a turn."""
    visible = list_visible_schedules(state, assembly)
    return "\n".join(f"- {describe_schedule(schedule)}" for schedule in visible) or "There is no schedule."


def cancel_visible_schedule(state: sqlite3.Connection, assembly: Assembly, named: str) -> str:
    """Cancel a schedule of the person of a turn by its id or title; return the answer for the agent."""
    which, visible = named.strip(), list_visible_schedules(state, assembly)
    found = [schedule for schedule in visible if which and which in (schedule.id, schedule.title)]
    if len(found) != 1:
        raise InputError("there is no such schedule; schedule_list gives the ids")
    schedules.cancel_schedule(state, found[0])
    return f"Cancelled: {found[0].title}."


def list_visible_schedules(state: sqlite3.Connection, assembly: Assembly) -> Sequence[StoredSchedule]:
    """List the user's schedules that this conversation may show."""
    turn, level = assembly.turn, assembly.clearance.level
    return [
        schedule
        for schedule in schedules.list_schedules(state, turn.user)
        if schedule.clearance <= level and (not turn.room or schedule.to.room == turn.room)
    ]


def find_session_destination(state: sqlite3.Connection, turn: Turn, own: Sequence[tuple[str, str]]) -> Destination:
    """Return the destination of this conversation; in a private chat only an address of the user."""
    channel, address = schedules.find_session_address(state, turn.session) or ("", "")
    if turn.room:
        return Destination(channel=channel, address=address, room=turn.room)
    return Destination(channel=channel, address=address) if (channel, address) in own else Destination()


def parse_timing(wanted: WantedSchedule, zone: str, now: datetime) -> tuple[Timing, list[str]]:
    """Parse the time of a schedule; also return notes on how it was read and on an unknown zone."""
    cron, at, named, note = " ".join(wanted.cron.split()), " ".join(wanted.at.split()), wanted.zone.strip(), ""
    if bool(cron) == bool(at):
        raise InputError("give either cron or at")
    kind, moment = (TimingKind.CRON, cron) if cron else (TimingKind.AT, at)
    if named and not schedule_settings.is_zone(named):
        raise InputError(f"{named[:60]!r} is no time zone; write one such as Europe/Paris")
    found, unknown = load_zone(named or zone)
    if kind is TimingKind.AT:
        moment, note = resolve_time(moment, found, now)
    if problem := schedule_settings.check_time(str(kind), moment):
        raise InputError(f"{kind} {problem}")
    timing = Timing(kind=kind, moment=moment, zone=named or zone)
    check_interval(timing, now)
    return timing, [note, unknown]


def check_interval(timing: Timing, now: datetime) -> None:
    """Raise an error if a schedule is in the past or runs too often."""
    runs = [now]
    while len(runs) <= MAX_CHECKED_RUNS and (following := find_next_due(timing, runs[-1])):
        runs.append(following)
    if len(runs) == 1:
        raise InputError(f"{timing.moment} is in the past; it is {format_time(now, timing.zone)} now")
    if any(after - before < MIN_INTERVAL for before, after in pairwise(runs[1:])):
        raise Forbidden(f"it would run too often; the shortest interval is {MIN_INTERVAL.seconds // 60} minutes")


def check_schedule_count(state: sqlite3.Connection, user: str) -> None:
    """Raise Forbidden if a user has too many schedules; configured ones are not counted."""
    own = [one for one in schedules.list_schedules(state, user) if one.origin is not ScheduleOrigin.CONFIG]
    if len(own) > MAX_SCHEDULES_PER_USER:
        raise Forbidden(f"{user} already has {MAX_SCHEDULES_PER_USER} schedules; cancel one first")


def check_text(name: str, text: str) -> str:
    """Return a text argument without the space around it; raise InputError if it cannot be stored."""
    if not is_whole(text):
        raise InputError(f"{name!r} has half a character")
    return text.strip()
