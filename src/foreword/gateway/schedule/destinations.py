"""Destinations of scheduled replies, and the clearance of scheduled runs.

A schedule delivers to its user's private addresses or to a room, never to another user. A run's clearance is the
lower of the clearance at which the schedule was created and the current clearance of its destination.
"""

import sqlite3
from collections.abc import Collection, Mapping
from dataclasses import replace

from foreword.config.schema import Config
from foreword.engine.trust import get_ceiling, resolve_trust
from foreword.errors import Forbidden, InputError, UnknownName
from foreword.gateway.channel import PUBLIC_SITUATION, Channel, ChatKind, FindsChatKind
from foreword.storage import schedules
from foreword.storage.schedules import RUN_SITUATION, Destination, ScheduleOrigin, StoredSchedule
from foreword.storage.state_reader import list_paired_identities
from foreword.turn import Turn
from foreword.types import Delivery, Trust

PULL_CHANNELS = ("terminal", "web")
"""Pull channels: a reply sent there is added to the user's session."""


class RunRefused(InputError):
    """A run was not started; the message says why."""


def list_addresses(state: sqlite3.Connection, config: Config, user: str) -> list[tuple[str, str]]:
    """List the private addresses of a user: configured identities, paired ones, and their sessions on pull channels."""
    if user not in config.users:
        return []
    of_others = {identity for name, other in config.users.items() if name != user for identity in other.identities}
    paired = [identity for identity in list_paired_identities(state, user) if identity not in of_others]
    pulled = [f"{channel}:{user}" for channel in list_pull_channels(state, config, user)]
    identities = dict.fromkeys([*config.users[user].identities, *paired, *pulled])
    return [split_address(identity) for identity in identities if ":" in identity]


def list_pull_channels(state: sqlite3.Connection, config: Config, user: str) -> list[str]:
    """List the pull channels of a user, the last used first.

    The owner always has all of them; other users have those on which they have a session.
    """
    used = schedules.list_used_channels(state, user, PULL_CHANNELS)
    return list(dict.fromkeys([*used, *(PULL_CHANNELS if user == config.owner else ())]))


def find_address(
    state: sqlite3.Connection, config: Config, user: str, channels: Collection[str]
) -> tuple[str, str] | None:
    """Find the reachable private address that a user used last; default: the first reachable one."""
    own = [address for address in list_addresses(state, config, user) if address[0] in channels]
    if len(own) < 2 or all(channel in PULL_CHANNELS for channel, _ in own):
        return own[0] if own else None
    return next((used for used in schedules.list_recent_addresses(state, user) if used in own), own[0])


def parse_destination(to: str, user: str, config: Config) -> Destination:
    """Parse a destination: an address of the user, or a room with channel and address if they are configured."""
    if not to:
        return Destination()
    for name, room in config.rooms.items():
        if to == name or to in room.places:
            place = next(iter(room.places), name if ":" in name else "")
            channel, address = split_address(place)
            return Destination(channel=channel, address=address, room=name)
    if ":" not in to:
        raise UnknownName("room", to, config.rooms)
    for name, person in config.users.items():
        if to in person.identities and name != user:
            raise Forbidden(f"{to} belongs to {name}; a schedule delivers only to its user's addresses or to a room")
    channel, address = split_address(to)
    return Destination(channel=channel, address=address)


def resolve_destination(
    state: sqlite3.Connection,
    schedule: StoredSchedule,
    config: Config,
    channels: Collection[str],
    pull_channels: Collection[str] = (),
) -> Destination:
    """Resolve the destination of a reply; raise RunRefused if the address no longer belongs to the user.

    If no channel can deliver to the user, the reply goes to one of their pull channels.
    """
    to, user = schedule.to, schedule.user
    if to.room:
        found = None if to.address else schedules.find_room_address(state, to.room)
    elif to.address:
        if (to.channel, to.address) not in list_addresses(state, config, user):
            raise RunRefused(f"{to.channel}:{to.address} is not an address of {user}")
        found = None
    else:
        found = find_address(state, config, user, channels) or find_address(state, config, user, pull_channels)
    return replace(to, channel=found[0], address=found[1]) if found else to


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
    allowed = min(schedule.clearance, resolve_destination_clearance(schedule.user, to, config))
    if kind is ChatKind.BROADCAST:
        allowed = min(allowed, get_ceiling(PUBLIC_SITUATION, config))
    if schedule.origin is ScheduleOrigin.AGENT and allowed < schedule.clearance:
        raise RunRefused(
            f"it was created at {schedule.clearance}, but {schedule.user} has only {allowed} at its destination; "
            "its text may contain more than may be seen there"
        )
    return allowed


async def find_chat_kind(channels: Mapping[str, Channel], to: Destination) -> ChatKind | None:
    """Ask the channel for the kind of a room's chat; None if the channel does not know."""
    channel = channels.get(to.channel) if to.room and to.address else None
    return await channel.find_kind(to.address) if isinstance(channel, FindsChatKind) else None


def resolve_destination_clearance(user: str, to: Destination, config: Config) -> Trust:
    """Return a user's clearance at a destination, limited to that of unattended runs."""
    turns = (Turn(user=user, room=to.room, situation=situation) for situation in (RUN_SITUATION, "dm"))
    return min(resolve_trust(turn, config).level for turn in turns)


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
