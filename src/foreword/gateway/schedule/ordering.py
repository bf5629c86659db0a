"""Schedules that people make by hand, at the shell or over HTTP."""

import sqlite3
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from foreword.config.scheduling import NO_ZONE, is_zone, judge_names, judge_when
from foreword.config.scheduling import Schedule as Written
from foreword.config.schema import Config
from foreword.errors import InputError
from foreword.events.trace import make_id
from foreword.frozen import frozen
from foreword.gateway.schedule.destination import find_unreached, list_addresses, read_destination
from foreword.gateway.schedule.following import find_zone_name, make_schedule
from foreword.gateway.schedule.phrases import resolve_moment
from foreword.gateway.schedule.schedules import Origin, Schedule, find_all, put
from foreword.sources.clock import find_zone


@frozen
class Ordered:
    """A schedule that was made, and what its maker should know of it."""

    schedule: Schedule
    notes: tuple[str, ...] = ()


def order(
    state: sqlite3.Connection, entry: Written, config: Config, now: datetime, channels: Collection[str]
) -> Ordered:
    """Make a schedule as a person writes it; raise InputError with the first thing that is wrong with it.

    The notes say how its time was read, that its zone is not known, and that its reply would reach nobody on these
    channels.
    """
    entry, *read = resolve_at(entry, config, now)
    known = {"users": list(config.users), "agents": list(config.agents), "rooms": list(config.rooms)}
    for field, problem in (*judge_when(entry), *judge_names(entry, known)):
        raise InputError(f"{field or 'a schedule'} {problem}")
    taken = {one.known_as for one in config.schedule if one.user == entry.user}
    taken |= {one.name for one in find_all(state, entry.user)}
    if entry.name and entry.name in taken:
        raise InputError(f"{entry.user} has a schedule {entry.name!r} already; give this one another name")
    to = read_destination(entry.to, entry.user, config)
    if to.address and not to.room and (to.channel, to.address) not in list_addresses(state, config, entry.user):
        raise InputError(f"{entry.to} is no address of {entry.user}; a schedule goes to their own, or to a room")
    made = make_schedule(entry, config, None, now)
    if made.due is None:
        raise InputError(f"{entry.moment} is past; it is {now:%Y-%m-%d %H:%M} (UTC) now")
    made = replace(made, id=make_id(32), name=entry.name, origin=Origin.PERSON)
    put(state, made)
    return Ordered(schedule=made, notes=tuple(filter(None, (*read, find_unreached(state, made, config, channels)))))


def resolve_at(entry: Written, config: Config, now: datetime) -> tuple[Written, str, str]:
    """Resolve the time of an entry in its zone.

    Return also how the time was read and that the configured zone is not known, where that needs to be said.
    """
    if entry.zone and not is_zone(entry.zone):
        raise InputError(f"zone {NO_ZONE.format(entry.zone)}")
    room = read_destination(entry.to, entry.user, config).room if entry.user in config.users else ""
    zone, unknown = find_zone(find_zone_name(entry.zone, entry.user, room, config))
    if not entry.at:
        return entry, "", unknown
    resolved = resolve_moment(entry.at, zone, now)
    return replace(entry, at=resolved.moment), resolved.note, unknown
