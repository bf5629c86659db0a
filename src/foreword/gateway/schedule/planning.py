"""The schedules that agents make, list and cancel for the people they speak with.

A schedule belongs to whoever asked for it, has the clearance of the conversation, and goes back to where that was. One
that was made above the clearance of a conversation is not told in it, nor one of elsewhere in a room.
"""

import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from foreword.assembly import Assembly
from foreword.config.scheduling import Missed, is_zone, judge_moment
from foreword.errors import Forbidden, InputError, UnknownName
from foreword.events.trace import make_id
from foreword.gateway.schedule.destination import clear, find_unreached, list_addresses, list_channels
from foreword.gateway.schedule.due import Kind, Timing, find_next
from foreword.gateway.schedule.following import find_zone_name
from foreword.gateway.schedule.phrases import resolve_moment
from foreword.gateway.schedule.schedules import (
    Destination,
    Origin,
    Schedule,
    cancel,
    find_all,
    put,
)
from foreword.gateway.schedule.showing import describe, show_moment
from foreword.gateway.writer import Writer
from foreword.sources.clock import find_zone
from foreword.store.instructions import is_whole
from foreword.tools import Answer
from foreword.tools.scheduling import CANCEL, CREATE, LIST, LONGEST_NAME, LONGEST_SAY
from foreword.turn import Turn
from foreword.words import Delivery
from foreword.workspace import Workspace

MOST = 20  # schedules of one person beside those of the configuration
OFTENEST = timedelta(minutes=15)  # between two runs of a schedule that an agent has made, or not the owner
LOOKED_AT = 50  # runs that are looked at for how often they come
HERE = """
SELECT json_extract(request, '$.channel'), json_extract(request, '$.address') FROM turns
WHERE session_id = ? AND json_extract(request, '$.address') != '' ORDER BY number DESC LIMIT 1"""


class Planning:
    """Runs the tools."""

    def __init__(
        self, workspace: Workspace, writer: Writer, clock: Callable[[], datetime], channels: Collection[str] = ()
    ) -> None:
        self._workspace = workspace
        self._writer = writer
        self._clock = clock
        self._channels = channels

    async def call(self, assembly: Assembly, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Run one tool, in one transaction."""
        if name not in assembly.terms.tools or name not in RUNS:
            raise UnknownName("tool", name, assembly.terms.tools.names & RUNS.keys())
        if assembly.turn.user not in self._workspace.config.users:
            raise Forbidden("nobody is known to be speaking, so there is nobody to plan for")
        said = await self._writer.seal(lambda state: RUNS[name](self, state, assembly, arguments))
        return Answer(text=said, tokens=assembly.terms.meter.count(said))

    def create(self, state: sqlite3.Connection, assembly: Assembly, arguments: Mapping[str, Any]) -> str:
        """Make a schedule."""
        turn, config, now = assembly.turn, self._workspace.config, self._clock()
        if turn.background:
            raise Forbidden("scheduled runs cannot create schedules")
        to = find_here(state, turn, list_addresses(state, config, turn.user))
        if clear(turn.user, to, config) < assembly.clearance.level:
            raise Forbidden("what is known here may not be seen where its replies would go")
        timing, read = read_timing(arguments, find_zone_name("", turn.user, to.room, config, turn.client.zone), now)
        made = Schedule(
            id=make_id(32),
            name=take_text(arguments, "name", LONGEST_NAME),
            origin=Origin.AGENT,
            agent=turn.agent,
            user=turn.user,
            timing=timing,
            say=take_text(arguments, "say", LONGEST_SAY, needed=True),
            delivery=Delivery(arguments.get("delivery", "always")),
            to=to,
            clearance=assembly.clearance.level,
            missed=Missed.ONCE,
            created=now,
            due=find_next(timing, now),
        )
        put(state, made)
        check_many(state, turn.user)
        notes = (*read, find_unreached(state, made, config, {*self._channels, *list_channels(config)}))
        return "\n".join([f"Planned: {describe(made)}", *(f"Note: {one}." for one in notes if one)])

    def list(self, state: sqlite3.Connection, assembly: Assembly, _: Mapping[str, Any]) -> str:
        """List what may be seen here."""
        found = find_visible(state, assembly)
        return "\n".join(f"- {describe(one)}" for one in found) or "There is no schedule."

    def cancel(self, state: sqlite3.Connection, assembly: Assembly, arguments: Mapping[str, Any]) -> str:
        """Cancel one that may be seen here."""
        which = str(arguments.get("schedule", "")).strip()
        found = [one for one in find_visible(state, assembly) if which and which in (one.id, one.title)]
        if len(found) != 1:
            raise InputError("there is no such schedule; schedule_list gives the ids")
        cancel(state, found[0])
        return f"Cancelled: {found[0].title}."


RUNS: Mapping[str, Callable[[Planning, sqlite3.Connection, Assembly, Mapping[str, Any]], str]] = {
    CREATE: Planning.create,
    LIST: Planning.list,
    CANCEL: Planning.cancel,
}


def find_visible(state: sqlite3.Connection, assembly: Assembly) -> Sequence[Schedule]:
    """Find the schedules of the speaking person that may be told of here."""
    turn, level = assembly.turn, assembly.clearance.level
    return [
        one
        for one in find_all(state, turn.user)
        if one.clearance <= level and (not turn.room or one.to.room == turn.room)
    ]


def find_here(state: sqlite3.Connection, turn: Turn, own: Sequence[tuple[str, str]]) -> Destination:
    """Find where replies to this conversation go, if somebody delivers them; in private only to the person's own."""
    row = state.execute(HERE, (turn.session,)).fetchone()
    channel, address = row or ("", "")
    if turn.room:
        return Destination(channel=channel, address=address, room=turn.room)
    return Destination(channel=channel, address=address) if (channel, address) in own else Destination()


def read_timing(arguments: Mapping[str, Any], zone: str, now: datetime) -> tuple[Timing, tuple[str, str]]:
    """Read when a schedule is due; return also how its time was read and that its zone is not known, if so."""
    given = [kind for kind in (Kind.CRON, Kind.AT) if str(arguments.get(str(kind)) or "").strip()]
    if len(given) != 1:
        raise InputError("give either cron or at")
    moment, note = " ".join(str(arguments[str(given[0])]).split()), ""
    named = str(arguments.get("zone") or "").strip()
    if named and not is_zone(named):
        raise InputError(f"{named[:60]!r} is no time zone; write one such as Europe/Paris")
    found, unknown = find_zone(named or zone)
    if given[0] is Kind.AT:
        resolved = resolve_moment(moment, found, now)
        moment, note = resolved.moment, resolved.note
    if problem := judge_moment(str(given[0]), moment):
        raise InputError(f"{given[0]} {problem}")
    timing = Timing(kind=given[0], moment=moment, zone=named or zone)
    check_due(timing, now)
    return timing, (note, unknown)


def check_due(timing: Timing, now: datetime, oftenest: timedelta = OFTENEST) -> None:
    """Refuse what is past, and what comes too often."""
    runs = [now]
    while len(runs) <= LOOKED_AT and (following := find_next(timing, runs[-1])):
        runs.append(following)
    if len(runs) == 1:
        raise InputError(f"{timing.moment} is past; it is {show_moment(now, timing.zone)} now")
    if any(after - before < oftenest for before, after in pairwise(runs[1:])):
        raise Forbidden(f"it would run too often; {oftenest.seconds // 60} minutes apart is the least")


def check_many(state: sqlite3.Connection, user: str) -> None:
    """Refuse one schedule too many, beside those of the configuration."""
    if sum(one.origin is not Origin.CONFIG for one in find_all(state, user)) > MOST:
        raise Forbidden(f"{user} has {MOST} schedules already; cancel one first")


def take_text(arguments: Mapping[str, Any], name: str, longest: int, *, needed: bool = False) -> str:
    """Take a text that is not too long."""
    text = str(arguments.get(name) or "").strip()
    if needed and not text:
        raise InputError(f"{name!r} is empty")
    if len(text) > longest or not is_whole(text):
        raise InputError(f"{name!r} has {longest:,} characters at most, all of them real ones")
    return text
