"""Where the replies of a schedule go, and what may be seen there.

A schedule goes to its user's own private addresses or to a room, never to somebody else. What a run may see is the
lower of the clearance at which the schedule was made and that of the place its reply goes to now.
"""

import json
import sqlite3
from collections.abc import Collection, Mapping
from dataclasses import replace

from foreword.config.schema import Config
from foreword.errors import Forbidden, InputError, UnknownName
from foreword.gateway.channel import OPEN, Channel, Chat, Locates
from foreword.gateway.schedule.schedules import SITUATION, Destination, Origin, Schedule
from foreword.store.reader import list_paired
from foreword.trust import resolve
from foreword.trust.clearance import bound_of_situation
from foreword.turn import Turn
from foreword.words import Delivery, Trust

SHELVES = ("terminal", "web")
"""Channels whose people fetch what is for them: a reply sent there is added to their conversation."""
RECENT = 50  # turns of a person that are looked at for the address they used last
LAST = """
SELECT json_extract(request, '$.channel'), json_extract(request, '$.address')
FROM (SELECT request FROM turns WHERE user_id = ? ORDER BY received DESC LIMIT ?)
WHERE json_extract(request, '$.address') != '' AND json_extract(request, '$.room') = ''
    AND json_extract(request, '$.errand') IS NULL"""
SPOKEN_ON = """
SELECT channel FROM sessions WHERE user_id = ? AND room = '' AND channel IN (SELECT value FROM json_each(?))
GROUP BY channel ORDER BY max(used) DESC"""
SPOKEN = """
SELECT json_extract(request, '$.channel'), json_extract(request, '$.address') FROM turns
JOIN sessions ON sessions.id = turns.session_id WHERE sessions.room = ? AND json_extract(request, '$.address') != ''
    AND json_extract(request, '$.errand') IS NULL ORDER BY turns.number DESC LIMIT 1"""


class Refused(InputError):
    """A run is not begun; the words say why."""


def list_addresses(state: sqlite3.Connection, config: Config, user: str) -> list[tuple[str, str]]:
    """List the private addresses of a person: configured identities, paired ones, and their own conversations here."""
    person = config.users.get(user)
    if person is None:
        return []
    taken = {identity for name, one in config.users.items() if name != user for identity in one.identities}
    own = [*person.identities, *(one for one in list_paired(state, user) if one not in taken)]
    own += [f"{channel}:{user}" for channel in list_shelves(state, config, user)]
    return [split_address(identity) for identity in dict.fromkeys(own) if ":" in identity]


def list_shelves(state: sqlite3.Connection, config: Config, user: str) -> list[str]:
    """List the channels on which a person reads what waits for them: the one they used last comes first.

    The owner can open the terminal and the web at any time; anybody else is known there once they have spoken there.
    """
    used = [channel for (channel,) in state.execute(SPOKEN_ON, (user, json.dumps(SHELVES)))]
    return list(dict.fromkeys([*used, *(SHELVES if user == config.owner else ())]))


def find_address(
    state: sqlite3.Connection, config: Config, user: str, channels: Collection[str]
) -> tuple[str, str] | None:
    """Find the private address that a person used last, of those that can be reached; else the first of them."""
    own = [one for one in list_addresses(state, config, user) if one[0] in channels]
    if len(own) < 2 or all(channel in SHELVES for channel, _ in own):
        return own[0] if own else None
    used = state.execute(LAST, (user, RECENT)).fetchall()
    return next((one for one in used if one in own), own[0])


def read_destination(to: str, user: str, config: Config) -> Destination:
    """Read where replies are to go, as it is written: an address of the user's own, or a room."""
    if not to:
        return Destination()
    for name, room in config.rooms.items():
        if to == name or to in room.places:
            return find_room(name, config)
    if ":" not in to:
        raise UnknownName("room", to, config.rooms)
    for name, person in config.users.items():
        if to in person.identities and name != user:
            raise Forbidden(f"{to} belongs to {name}; a schedule goes to its own user's addresses, or to a room")
    channel, address = split_address(to)
    return Destination(channel=channel, address=address)


def find_room(name: str, config: Config) -> Destination:
    """Find a room on a channel, as far as the configuration says where it is."""
    room = config.rooms.get(name)
    place = next(iter(room.places if room else ()), name if ":" in name else "")
    channel, address = split_address(place) if place else ("", "")
    return Destination(channel=channel, address=address, room=name)


def settle_destination(
    state: sqlite3.Connection,
    schedule: Schedule,
    config: Config,
    channels: Collection[str],
    shelves: Collection[str] = (),
) -> Destination:
    """Settle where a reply goes now; raise Refused where the place is not the user's any more.

    Where nothing reaches its user, it stands on a shelf of theirs.
    """
    to = schedule.to
    if to.room:
        if not to.address:
            spoken = state.execute(SPOKEN, (to.room,)).fetchone()
            return replace(to, channel=spoken[0], address=spoken[1]) if spoken else to
        return to
    if to.address:
        if (to.channel, to.address) not in list_addresses(state, config, schedule.user):
            raise Refused(f"{to.channel}:{to.address} is no address of {schedule.user}")
        return to
    own = find_address(state, config, schedule.user, channels) or find_address(state, config, schedule.user, shelves)
    return Destination(channel=own[0], address=own[1]) if own else to


def bound(schedule: Schedule, to: Destination, config: Config, kind: Chat | None = None) -> Trust:
    """Find what a run may see at most: the lower of the clearance at its creation and that of its destination.

    A broadcast is read by anybody, whatever room it is called. Words that an agent wrote at a clearance are not said
    at a lower one.
    """
    if schedule.user not in config.users:
        raise Refused(f"{schedule.user}, as whom it acts, is no user any more")
    if schedule.agent not in config.agents:
        raise Refused(f"there is no agent {schedule.agent!r} any more")
    anybody = bound_of_situation(OPEN, config).level if kind is Chat.BROADCAST else Trust.FULL
    allowed = min(schedule.clearance, clear(schedule.user, to, config), anybody)
    if schedule.origin is Origin.AGENT and allowed < schedule.clearance:
        raise Refused(
            f"it was made at {schedule.clearance}, and {schedule.user} is cleared for {allowed} where it goes; "
            "its words may hold more than may be seen there"
        )
    return allowed


async def find_kind(channels: Mapping[str, Channel], to: Destination) -> Chat | None:
    """Find what kind of place a room is, where its channel can say so."""
    channel = channels.get(to.channel)
    return await channel.find_kind(to.address) if to.room and to.address and isinstance(channel, Locates) else None


def clear(user: str, to: Destination, config: Config) -> Trust:
    """Find what may be seen by a person where replies go, and in what runs by itself."""
    return min(
        resolve(Turn(user=user, room=to.room, situation=situation), config).level for situation in (SITUATION, "dm")
    )


def clear_at_home(user: str, config: Config) -> Trust:
    """Find what a person may see in a private conversation."""
    return resolve(Turn(user=user, situation="dm"), config).level


def is_delivered(delivery: Delivery, channels: Collection[str], to: Destination) -> bool:
    """Whether a reply leaves at all."""
    return delivery is not Delivery.NEVER and bool(to.address) and to.channel in channels


def list_channels(config: Config) -> tuple[str, ...]:
    """List the channels that `foreword serve` delivers on under a configuration."""
    return ("telegram",) if config.telegram else ()


def find_unreached(state: sqlite3.Connection, schedule: Schedule, config: Config, channels: Collection[str]) -> str:
    """Say that the reply of a schedule would reach nobody and what helps, or nothing where somebody is reached."""
    if schedule.delivery is Delivery.NEVER:
        return ""
    to = settle_destination(state, schedule, config, channels, SHELVES)
    return "" if is_delivered(schedule.delivery, {*channels, *SHELVES}, to) else explain_unreached(schedule)


def explain_unreached(schedule: Schedule) -> str:
    """Explain why a reply that should leave cannot, and what helps."""
    to, user = schedule.to, schedule.user
    if to.address:
        return f"nobody is reached: {to.channel} is no channel that delivers here"
    if to.room:
        return f"nobody is reached: nothing says where the room {to.room} is; name it under rooms.{to.room}.places"
    return f"nobody is reached: {user} has no address that anything delivers to; name one under users.{user}.identities"


def split_address(identity: str) -> tuple[str, str]:
    """Split an identity or a place into the channel and its own id."""
    channel, _, address = identity.partition(":")
    return channel, address


def show_destination(to: Destination) -> str:
    """Show where replies go, as it is written."""
    return to.room or (f"{to.channel}:{to.address}" if to.address else "")
