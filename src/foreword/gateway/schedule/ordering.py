"""Schedules that people make by hand, at the shell or over HTTP."""

import sqlite3
from dataclasses import replace
from datetime import datetime

from foreword.config.scheduling import Schedule as Written
from foreword.config.scheduling import judge_names, judge_when
from foreword.config.schema import Config
from foreword.errors import InputError
from foreword.events.trace import make_id
from foreword.gateway.schedule.destination import list_addresses, read_destination
from foreword.gateway.schedule.following import make_schedule
from foreword.gateway.schedule.schedules import Origin, Schedule, find_all, put


def order(state: sqlite3.Connection, entry: Written, config: Config, now: datetime) -> Schedule:
    """Make a schedule as it would stand in the configuration; the first thing that is wrong with it is said."""
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
    return made
