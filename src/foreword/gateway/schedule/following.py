"""Follows the configuration: its schedules become rows, changed ones are changed, and those that are gone go."""

import sqlite3
from datetime import datetime

from foreword.config.scheduling import Schedule as Written
from foreword.config.schema import Config
from foreword.errors import InputError
from foreword.gateway.schedule.destination import clear, read_destination
from foreword.gateway.schedule.due import Kind, Timing, find_next
from foreword.gateway.schedule.schedules import Destination, Origin, Schedule, Standing, find_all, get, put

PAST = "its time was past when it was first seen, so it does not run"


def follow(state: sqlite3.Connection, config: Config, now: datetime) -> None:
    """Bring the rows of the configuration's schedules to what it says now; what others made stays."""
    wanted = {entry.known_as: entry for entry in config.schedule}
    for schedule in find_all(state):
        if schedule.origin is Origin.CONFIG and schedule.id not in wanted:
            state.execute("DELETE FROM schedules WHERE id = ?", (schedule.id,))
    for entry in wanted.values():
        known = get(state, entry.known_as)
        made = make_schedule(entry, config, known, now)
        if made != known:
            put(state, made)


def make_schedule(entry: Written, config: Config, known: Schedule | None, now: datetime) -> Schedule:
    """Make the row of an entry; one whose times are as before goes on as before."""
    note = ""
    try:
        to = read_destination(entry.to, entry.user, config)
    except InputError as error:  # the address became another's after the entry was written
        to, note = Destination(channel="nowhere", address=entry.to), str(error)
    kind, moment = Kind(entry.kind), entry.moment
    timing = Timing(kind=kind, moment=moment, zone=find_zone_name(entry.zone, entry.user, to.room, config))
    same = known is not None and known.timing == timing
    due = known.due if known and same else find_next(timing, now)
    waits = known.state is Standing.WAITING if known and same else due is not None
    return Schedule(
        id=entry.known_as,
        name=entry.known_as,
        origin=Origin.CONFIG,
        agent=entry.agent or next(iter(config.agents)),
        user=entry.user,
        timing=timing,
        say=entry.say,
        delivery=entry.delivered,
        to=to,
        clearance=clear(entry.user, Destination(), config),
        missed=entry.missed,
        created=known.created if known else now.replace(microsecond=0),
        due=due,
        ran=known.ran if known else None,
        note=note or (known.note if known and same else "" if waits else PAST),
        state=Standing.WAITING if waits else Standing.OVER,
    )


def find_zone_name(named: str, user: str, room: str, config: Config, device: str = "") -> str:
    """Find the zone that times are in: the named one, else that of room, person, device or server, in this order."""
    place, person = config.rooms.get(room), config.users.get(user)
    own = (place.timezone if place else "") or (person.timezone if person else "")
    return named or own or device or config.host.timezone
