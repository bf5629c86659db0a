"""Destinations of scheduled replies, and the clearance of scheduled runs.

A schedule delivers to its user's private addresses or to a room, never to another user. A run's clearance is the
lower of the clearance at which the schedule was created and the current clearance of its destination.

Synchronises the rows of configured schedules with foreword.yaml. Schedules created by users, at the shell or over
HTTP. Text descriptions of schedules. The agent's schedule tools: create, list and cancel schedules for the user of the
conversation.
"""

import json
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from foreword.agent.tools.gateway_tools import (
    CANCEL_SCHEDULE,
    CREATE_SCHEDULE,
    LIST_SCHEDULES,
    MAX_SAY_CHARS,
    MAX_SCHEDULE_NAME_CHARS,
)
from foreword.assembly import Assembly
from foreword.config.schedule_settings import (
    NO_ZONE,
    MissedRuns,
    check_schedule_names,
    check_schedule_time,
    check_time,
    is_zone,
)
from foreword.config.schedule_settings import ScheduleSettings as Written
from foreword.config.schema import Config
from foreword.engine.trust import get_situation_bound, resolve_trust
from foreword.errors import Forbidden, InputError, UnknownName
from foreword.events.tracer import make_id
from foreword.gateway.channel import PUBLIC_SITUATION, Channel, ChatKind, FindsChatKind
from foreword.gateway.schedule.due_times import Timing, TimingKind, find_next_due, resolve_time
from foreword.gateway.schedule.schedule_rows import (
    RUN_SITUATION,
    Destination,
    ScheduleOrigin,
    ScheduleState,
    StoredSchedule,
    cancel_schedule,
    get_schedule,
    list_stored_schedules,
    put_schedule,
)
from foreword.host import load_zone
from foreword.storage.database import is_whole
from foreword.storage.state_reader import list_paired_identities
from foreword.storage.writer import Writer
from foreword.turn import ToolAnswer, Turn
from foreword.types import Delivery, Trust, frozen
from foreword.workspace import Workspace

PULL_CHANNELS = ("terminal", "web")
"""Pull channels: a reply sent there is added to the user's session."""
MAX_RECENT_TURNS = 50  # newest turns of a user that are searched for the last used address
LAST_ADDRESS_SQL = """
SELECT json_extract(request, '$.channel'), json_extract(request, '$.address')
FROM (SELECT request FROM turns WHERE user_id = ? ORDER BY received DESC LIMIT ?)
WHERE json_extract(request, '$.address') != '' AND json_extract(request, '$.room') = ''
    AND json_extract(request, '$.errand') IS NULL"""
USED_CHANNELS_SQL = """
SELECT channel FROM sessions WHERE user_id = ? AND room = '' AND channel IN (SELECT value FROM json_each(?))
GROUP BY channel ORDER BY max(used) DESC"""
ROOM_ADDRESS_SQL = """
SELECT json_extract(request, '$.channel'), json_extract(request, '$.address') FROM turns
JOIN sessions ON sessions.id = turns.session_id WHERE sessions.room = ? AND json_extract(request, '$.address') != ''
    AND json_extract(request, '$.errand') IS NULL ORDER BY turns.number DESC LIMIT 1"""


class RunRefused(InputError):
    """A run was not started; the message says why."""


def list_addresses(state: sqlite3.Connection, config: Config, user: str) -> list[tuple[str, str]]:
    """List the private addresses of a user: configured identities, paired ones, and their sessions on pull channels."""
    person = config.users.get(user)
    if person is None:
        return []
    taken = {identity for name, one in config.users.items() if name != user for identity in one.identities}
    own = [*person.identities, *(one for one in list_paired_identities(state, user) if one not in taken)]
    own += [f"{channel}:{user}" for channel in list_pull_channels(state, config, user)]
    return [split_address(identity) for identity in dict.fromkeys(own) if ":" in identity]


def list_pull_channels(state: sqlite3.Connection, config: Config, user: str) -> list[str]:
    """List the pull channels of a user, the last used first.

    The owner always has all of them; other users have those on which they have a session.
    """
    used = [channel for (channel,) in state.execute(USED_CHANNELS_SQL, (user, json.dumps(PULL_CHANNELS)))]
    return list(dict.fromkeys([*used, *(PULL_CHANNELS if user == config.owner else ())]))


def find_address(
    state: sqlite3.Connection, config: Config, user: str, channels: Collection[str]
) -> tuple[str, str] | None:
    """Find the reachable private address that a user used last; default: the first reachable one."""
    own = [one for one in list_addresses(state, config, user) if one[0] in channels]
    if len(own) < 2 or all(channel in PULL_CHANNELS for channel, _ in own):
        return own[0] if own else None
    used = state.execute(LAST_ADDRESS_SQL, (user, MAX_RECENT_TURNS)).fetchall()
    return next((one for one in used if one in own), own[0])


def parse_destination(to: str, user: str, config: Config) -> Destination:
    """Parse a destination: an address of the user, or a room."""
    if not to:
        return Destination()
    for name, room in config.rooms.items():
        if to == name or to in room.places:
            return get_room_destination(name, config)
    if ":" not in to:
        raise UnknownName("room", to, config.rooms)
    for name, person in config.users.items():
        if to in person.identities and name != user:
            raise Forbidden(f"{to} belongs to {name}; a schedule delivers only to its user's addresses or to a room")
    channel, address = split_address(to)
    return Destination(channel=channel, address=address)


def get_room_destination(name: str, config: Config) -> Destination:
    """Return the destination of a room, with channel and address if they are configured."""
    room = config.rooms.get(name)
    place = next(iter(room.places if room else ()), name if ":" in name else "")
    channel, address = split_address(place) if place else ("", "")
    return Destination(channel=channel, address=address, room=name)


def resolve_destination(
    state: sqlite3.Connection,
    schedule: StoredSchedule,
    config: Config,
    channels: Collection[str],
    shelves: Collection[str] = (),
) -> Destination:
    """Resolve the destination of a reply; raise Refused if the address no longer belongs to the user.

    If no channel can deliver to the user, the reply goes to one of their pull channels.
    """
    to = schedule.to
    if to.room:
        if not to.address:
            spoken = state.execute(ROOM_ADDRESS_SQL, (to.room,)).fetchone()
            return replace(to, channel=spoken[0], address=spoken[1]) if spoken else to
        return to
    if to.address:
        if (to.channel, to.address) not in list_addresses(state, config, schedule.user):
            raise RunRefused(f"{to.channel}:{to.address} is not an address of {schedule.user}")
        return to
    own = find_address(state, config, schedule.user, channels) or find_address(state, config, schedule.user, shelves)
    return Destination(channel=own[0], address=own[1]) if own else to


def resolve_run_clearance(
    schedule: StoredSchedule, to: Destination, config: Config, kind: ChatKind | None = None
) -> Trust:
    """Return the clearance of a run: the lower of the clearance at creation and that of the destination.

    A broadcast channel is public, whatever its room is called. A schedule written by an agent does not run below the
    clearance at which it was written.
    """
    if schedule.user not in config.users:
        raise RunRefused(f"its user {schedule.user} no longer exists")
    if schedule.agent not in config.agents:
        raise RunRefused(f"its agent {schedule.agent!r} no longer exists")
    anybody = get_situation_bound(PUBLIC_SITUATION, config).level if kind is ChatKind.BROADCAST else Trust.FULL
    allowed = min(schedule.clearance, resolve_destination_clearance(schedule.user, to, config), anybody)
    if schedule.origin is ScheduleOrigin.AGENT and allowed < schedule.clearance:
        raise RunRefused(
            f"it was created at {schedule.clearance}, but {schedule.user} has only {allowed} at its destination; "
            "its text may contain more than may be seen there"
        )
    return allowed


async def find_chat_type(channels: Mapping[str, Channel], to: Destination) -> ChatKind | None:
    """Ask the channel for the chat type of a room; None if the channel does not know."""
    channel = channels.get(to.channel)
    return (
        await channel.find_kind(to.address) if to.room and to.address and isinstance(channel, FindsChatKind) else None
    )


def resolve_destination_clearance(user: str, to: Destination, config: Config) -> Trust:
    """Return a user's clearance at a destination, limited to that of unattended runs."""
    return min(
        resolve_trust(Turn(user=user, room=to.room, situation=situation), config).level
        for situation in (RUN_SITUATION, "dm")
    )


def resolve_private_clearance(user: str, config: Config) -> Trust:
    """Return a user's clearance in a private chat."""
    return resolve_trust(Turn(user=user, situation="dm"), config).level


def is_delivered(delivery: Delivery, channels: Collection[str], to: Destination) -> bool:
    """Return whether a reply is delivered."""
    return delivery is not Delivery.NEVER and bool(to.address) and to.channel in channels


def list_delivery_channels(config: Config) -> tuple[str, ...]:
    """List the configured channels on which `foreword serve` delivers."""
    return ("telegram",) if config.telegram else ()


def explain_undeliverable(
    state: sqlite3.Connection, schedule: StoredSchedule, config: Config, channels: Collection[str]
) -> str:
    """Explain why replies of a schedule could not be delivered; empty if they can."""
    if schedule.delivery is Delivery.NEVER:
        return ""
    to = resolve_destination(state, schedule, config, channels, PULL_CHANNELS)
    return "" if is_delivered(schedule.delivery, {*channels, *PULL_CHANNELS}, to) else describe_undeliverable(schedule)


def describe_undeliverable(schedule: StoredSchedule) -> str:
    """Explain why a reply cannot be delivered and how to fix it."""
    to, user = schedule.to, schedule.user
    if to.address:
        return f"replies cannot be delivered: {to.channel} is not a channel of this workspace"
    if to.room:
        return f"replies cannot be delivered: room {to.room} has no place; set rooms.{to.room}.places"
    return f"replies cannot be delivered: {user} has no address on a channel that delivers; set users.{user}.identities"


def split_address(identity: str) -> tuple[str, str]:
    """Split an identity or a place into the channel and the id on it."""
    channel, _, address = identity.partition(":")
    return channel, address


def format_destination(to: Destination) -> str:
    """Return a destination as users write it."""
    return to.room or (f"{to.channel}:{to.address}" if to.address else "")


PAST_NOTE = "its time had already passed when it was loaded, so it does not run"


def sync_configured_schedules(state: sqlite3.Connection, config: Config, now: datetime) -> None:
    """Add, update and delete the rows of configured schedules; other schedules are unchanged."""
    wanted = {entry.known_as: entry for entry in config.schedule}
    for schedule in list_stored_schedules(state):
        if schedule.origin is ScheduleOrigin.CONFIG and schedule.id not in wanted:
            state.execute("DELETE FROM schedules WHERE id = ?", (schedule.id,))
    for entry in wanted.values():
        known = get_schedule(state, entry.known_as)
        made = make_schedule(entry, config, known, now)
        if made != known:
            put_schedule(state, made)


def make_schedule(entry: Written, config: Config, known: StoredSchedule | None, now: datetime) -> StoredSchedule:
    """Make the row of a configured schedule; it keeps its due time if its timing is unchanged."""
    note = ""
    try:
        to = parse_destination(entry.to, entry.user, config)
    except InputError as error:  # the address now belongs to another user
        to, note = Destination(channel="nowhere", address=entry.to), str(error)
    kind, moment = TimingKind(entry.kind), entry.moment
    timing = Timing(kind=kind, moment=moment, zone=find_zone_name(entry.zone, entry.user, to.room, config))
    same = known is not None and known.timing == timing
    due = known.due if known and same else find_next_due(timing, now)
    waits = known.state is ScheduleState.WAITING if known and same else due is not None
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
        clearance=resolve_destination_clearance(entry.user, Destination(), config),
        missed=entry.missed,
        created=known.created if known else now.replace(microsecond=0),
        due=due,
        ran=known.ran if known else None,
        note=note or (known.note if known and same else "" if waits else PAST_NOTE),
        state=ScheduleState.WAITING if waits else ScheduleState.OVER,
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
    state: sqlite3.Connection, entry: Written, config: Config, now: datetime, channels: Collection[str]
) -> CreatedSchedule:
    """Create a schedule; raise InputError with the first problem.

    The notes say how the time was read, that the configured zone is unknown, and that the channels cannot deliver the
    replies.
    """
    entry, *read = resolve_entry_time(entry, config, now)
    known = {"users": list(config.users), "agents": list(config.agents), "rooms": list(config.rooms)}
    for field, problem in (*check_schedule_time(entry), *check_schedule_names(entry, known)):
        raise InputError(f"{field or 'a schedule'} {problem}")
    taken = {one.known_as for one in config.schedule if one.user == entry.user}
    taken |= {one.name for one in list_stored_schedules(state, entry.user)}
    if entry.name and entry.name in taken:
        raise InputError(f"{entry.user} already has a schedule {entry.name!r}; choose another name")
    to = parse_destination(entry.to, entry.user, config)
    if to.address and not to.room and (to.channel, to.address) not in list_addresses(state, config, entry.user):
        raise InputError(
            f"{entry.to} is not an address of {entry.user}; a schedule delivers to its user's addresses or to a room"
        )
    made = make_schedule(entry, config, None, now)
    if made.due is None:
        raise InputError(f"{entry.moment} is in the past; it is {now:%Y-%m-%d %H:%M} (UTC) now")
    made = replace(made, id=make_id(32), name=entry.name, origin=ScheduleOrigin.PERSON)
    put_schedule(state, made)
    return CreatedSchedule(
        schedule=made, notes=tuple(filter(None, (*read, explain_undeliverable(state, made, config, channels))))
    )


def resolve_entry_time(entry: Written, config: Config, now: datetime) -> tuple[Written, str, str]:
    """Resolve the time of an entry in its zone.

    Also return a note on how the time was read, and a note if the configured zone is unknown.
    """
    if entry.zone and not is_zone(entry.zone):
        raise InputError(f"zone {NO_ZONE.format(entry.zone)}")
    room = parse_destination(entry.to, entry.user, config).room if entry.user in config.users else ""
    zone, unknown = load_zone(find_zone_name(entry.zone, entry.user, room, config))
    if not entry.at:
        return entry, "", unknown
    resolved = resolve_time(entry.at, zone, now)
    return replace(entry, at=resolved.moment), resolved.note, unknown


MAX_SHOWN_TEXT_CHARS = 200  # characters of a schedule's text
MAX_TABLE_TEXT_CHARS = 40  # the same, in a table
OVERDUE_AFTER = timedelta(minutes=1)  # a schedule due longer than this shows that no gateway is running
OVERDUE_NOTE = "overdue; start foreword serve to run it"


def describe_schedule(schedule: StoredSchedule) -> str:
    """Describe a schedule on one line."""
    timing = schedule.timing
    title = f" ({' '.join(schedule.title.split())})" if schedule.title != schedule.id else ""
    due = format_time(schedule.due, timing.zone) if schedule.due else ""
    when = f"{timing.kind} {timing.moment}, {f'next {due}' if due else 'over'}"
    if timing.kind is TimingKind.AT and due:
        when = f"once on {due}"
    words = " ".join(schedule.say.split())
    said = f": {words[:MAX_SHOWN_TEXT_CHARS]}" if words else ""
    state = "" if schedule.state is ScheduleState.WAITING else ", runs no more"
    return f"{schedule.id}{title}, {when}{state}; {describe_delivery(schedule)}{said}"


def describe_delivery(schedule: StoredSchedule) -> str:
    """Describe where the replies of a schedule go."""
    where = format_destination(schedule.to) or f"the private address that {schedule.user} used last"
    if schedule.delivery is Delivery.NEVER:
        return "replies are not sent"
    needed = " if there is something to say" if schedule.delivery is Delivery.AS_NEEDED else ""
    return f"replies go to {where}{needed}"


def format_text(schedule: StoredSchedule) -> str:
    """Return the beginning of a schedule's text."""
    words = " ".join(schedule.say.split())
    return words if len(words) <= MAX_TABLE_TEXT_CHARS else f"{words[: MAX_TABLE_TEXT_CHARS - 1].rstrip()}…"


def format_status(schedule: StoredSchedule, now: datetime) -> str:
    """Return the status note: overdue, why the last run did not take place, or done."""
    late = schedule.state is ScheduleState.WAITING and schedule.due is not None and now - schedule.due > OVERDUE_AFTER
    done = schedule.state is ScheduleState.OVER and schedule.ran is not None
    return "; ".join(note for note in (OVERDUE_NOTE if late else "", schedule.note) if note) or ("done" if done else "")


def format_time(moment: datetime, zone: str) -> str:
    """Format a time in a zone."""
    found, _ = load_zone(zone)
    return f"{moment.astimezone(found):%Y-%m-%d %H:%M} ({found.key})"


MAX_SCHEDULES_PER_USER = 20  # schedules of one user, configured ones not counted
MIN_INTERVAL = timedelta(
    minutes=15
)  # shortest interval of a schedule made by an agent or by a user other than the owner
MAX_CHECKED_RUNS = 50  # runs checked for the shortest interval
SESSION_ADDRESS_SQL = """
SELECT json_extract(request, '$.channel'), json_extract(request, '$.address') FROM turns
WHERE session_id = ? AND json_extract(request, '$.address') != '' ORDER BY number DESC LIMIT 1"""


class ScheduleTools:
    """Runs the schedule tools."""

    def __init__(
        self, workspace: Workspace, writer: Writer, clock: Callable[[], datetime], channels: Collection[str] = ()
    ) -> None:
        self._workspace = workspace
        self._writer = writer
        self._clock = clock
        self._channels = channels

    async def call(self, assembly: Assembly, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Run one tool in one transaction."""
        if name not in assembly.terms.tools or name not in TOOL_METHODS:
            raise UnknownName("tool", name, assembly.terms.tools.names & TOOL_METHODS.keys())
        if assembly.turn.user not in self._workspace.config.users:
            raise Forbidden("nobody is known to be speaking, so there is nobody to plan for")
        said = await self._writer.write_durable(lambda state: TOOL_METHODS[name](self, state, assembly, arguments))
        return ToolAnswer(text=said, tokens=assembly.terms.meter.count(said))

    def create(self, state: sqlite3.Connection, assembly: Assembly, arguments: Mapping[str, Any]) -> str:
        """Create a schedule."""
        turn, config, now = assembly.turn, self._workspace.config, self._clock()
        if turn.background:
            raise Forbidden("scheduled runs cannot create schedules")
        to = find_session_destination(state, turn, list_addresses(state, config, turn.user))
        if resolve_destination_clearance(turn.user, to, config) < assembly.clearance.level:
            raise Forbidden("what is known here may not be seen where its replies would go")
        timing, read = parse_timing(arguments, find_zone_name("", turn.user, to.room, config, turn.client.zone), now)
        made = StoredSchedule(
            id=make_id(32),
            name=get_text_argument(arguments, "name", MAX_SCHEDULE_NAME_CHARS),
            origin=ScheduleOrigin.AGENT,
            agent=turn.agent,
            user=turn.user,
            timing=timing,
            say=get_text_argument(arguments, "say", MAX_SAY_CHARS, needed=True),
            delivery=Delivery(arguments.get("delivery", "always")),
            to=to,
            clearance=assembly.clearance.level,
            missed=MissedRuns.ONCE,
            created=now,
            due=find_next_due(timing, now),
        )
        put_schedule(state, made)
        check_schedule_count(state, turn.user)
        notes = (*read, explain_undeliverable(state, made, config, {*self._channels, *list_delivery_channels(config)}))
        return "\n".join([f"Planned: {describe_schedule(made)}", *(f"Note: {one}." for one in notes if one)])

    def list(self, state: sqlite3.Connection, assembly: Assembly, _: Mapping[str, Any]) -> str:
        """List the schedules visible in this conversation."""
        found = list_visible_schedules(state, assembly)
        return "\n".join(f"- {describe_schedule(one)}" for one in found) or "There is no schedule."

    def cancel(self, state: sqlite3.Connection, assembly: Assembly, arguments: Mapping[str, Any]) -> str:
        """Cancel a schedule visible in this conversation."""
        which = str(arguments.get("schedule", "")).strip()
        found = [one for one in list_visible_schedules(state, assembly) if which and which in (one.id, one.title)]
        if len(found) != 1:
            raise InputError("there is no such schedule; schedule_list gives the ids")
        cancel_schedule(state, found[0])
        return f"Cancelled: {found[0].title}."


TOOL_METHODS: Mapping[str, Callable[[ScheduleTools, sqlite3.Connection, Assembly, Mapping[str, Any]], str]] = {
    CREATE_SCHEDULE: ScheduleTools.create,
    LIST_SCHEDULES: ScheduleTools.list,
    CANCEL_SCHEDULE: ScheduleTools.cancel,
}


def list_visible_schedules(state: sqlite3.Connection, assembly: Assembly) -> Sequence[StoredSchedule]:
    """Find the user's schedules that this conversation may show."""
    turn, level = assembly.turn, assembly.clearance.level
    return [
        one
        for one in list_stored_schedules(state, turn.user)
        if one.clearance <= level and (not turn.room or one.to.room == turn.room)
    ]


def find_session_destination(state: sqlite3.Connection, turn: Turn, own: Sequence[tuple[str, str]]) -> Destination:
    """Return the destination of this conversation; in a private chat only an address of the user."""
    row = state.execute(SESSION_ADDRESS_SQL, (turn.session,)).fetchone()
    channel, address = row or ("", "")
    if turn.room:
        return Destination(channel=channel, address=address, room=turn.room)
    return Destination(channel=channel, address=address) if (channel, address) in own else Destination()


def parse_timing(arguments: Mapping[str, Any], zone: str, now: datetime) -> tuple[Timing, tuple[str, str]]:
    """Parse the time of a schedule; also return notes on how it was read and on an unknown zone."""
    given = [kind for kind in (TimingKind.CRON, TimingKind.AT) if str(arguments.get(str(kind)) or "").strip()]
    if len(given) != 1:
        raise InputError("give either cron or at")
    moment, note = " ".join(str(arguments[str(given[0])]).split()), ""
    named = str(arguments.get("zone") or "").strip()
    if named and not is_zone(named):
        raise InputError(f"{named[:60]!r} is no time zone; write one such as Europe/Paris")
    found, unknown = load_zone(named or zone)
    if given[0] is TimingKind.AT:
        resolved = resolve_time(moment, found, now)
        moment, note = resolved.moment, resolved.note
    if problem := check_time(str(given[0]), moment):
        raise InputError(f"{given[0]} {problem}")
    timing = Timing(kind=given[0], moment=moment, zone=named or zone)
    check_interval(timing, now)
    return timing, (note, unknown)


def check_interval(timing: Timing, now: datetime, oftenest: timedelta = MIN_INTERVAL) -> None:
    """Raise an error if a schedule is in the past or runs too often."""
    runs = [now]
    while len(runs) <= MAX_CHECKED_RUNS and (following := find_next_due(timing, runs[-1])):
        runs.append(following)
    if len(runs) == 1:
        raise InputError(f"{timing.moment} is in the past; it is {format_time(now, timing.zone)} now")
    if any(after - before < oftenest for before, after in pairwise(runs[1:])):
        raise Forbidden(f"it would run too often; the shortest interval is {oftenest.seconds // 60} minutes")


def check_schedule_count(state: sqlite3.Connection, user: str) -> None:
    """Raise Forbidden if a user has too many schedules; configured ones are not counted."""
    if (
        sum(one.origin is not ScheduleOrigin.CONFIG for one in list_stored_schedules(state, user))
        > MAX_SCHEDULES_PER_USER
    ):
        raise Forbidden(f"{user} already has {MAX_SCHEDULES_PER_USER} schedules; cancel one first")


def get_text_argument(arguments: Mapping[str, Any], name: str, longest: int, *, needed: bool = False) -> str:
    """Return a text argument; raise InputError if it is too long, or empty although required."""
    text = str(arguments.get(name) or "").strip()
    if needed and not text:
        raise InputError(f"{name!r} is empty")
    if len(text) > longest or not is_whole(text):
        raise InputError(f"{name!r} has {longest:,} characters at most, all of them real ones")
    return text
