"""The scheduler: sees what is due, and has it said to its agent as a message that nobody waits for.

What is due is claimed by one process. The message has a key of schedule and due, so that a process which dies between
the message and the note that it was sent fires nothing twice.
"""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any

from foreword.config.scheduling import Missed
from foreword.config.scheduling import Schedule as Written
from foreword.config.schema import Config
from foreword.errors import InputError
from foreword.events.event import Context, EventType, Level, Recorder
from foreword.events.trace import Timepiece, Trace, describe_error, make_id
from foreword.frozen import frozen
from foreword.gateway.channel import Channel, NotKept
from foreword.gateway.gateway import Closing
from foreword.gateway.message import Accepted, Errand, Incoming
from foreword.gateway.owner import name_owner
from foreword.gateway.schedule.destination import (
    Refused,
    bound,
    clear_at_home,
    explain_unreached,
    find_kind,
    is_delivered,
    list_channels,
    list_shelves,
    settle_destination,
)
from foreword.gateway.schedule.due import Kind, find_passed
from foreword.gateway.schedule.following import follow
from foreword.gateway.schedule.ordering import Ordered, order
from foreword.gateway.schedule.planning import check_due, check_many
from foreword.gateway.schedule.schedules import (
    SITUATION,
    Destination,
    Schedule,
    cancel,
    claim,
    find_all,
    find_named,
    get,
    settle,
    wind,
)
from foreword.gateway.schedule.words import HEARTBEAT, find_words
from foreword.gateway.writer import Writer
from foreword.words import Delivery, Trust
from foreword.workspace import Workspace

CHANNEL = "scheduled"
GRACE = timedelta(minutes=5)  # after which a run was missed, and did not merely wait its turn
SLACK = timedelta(seconds=1)  # by which clocks are put right all the time
SKIPPED = "skipped for a downtime: {count:,} {runs}"
PASSING = (sqlite3.Error, NotKept, Closing)
BLANK = f"{HEARTBEAT} says nothing that this run may see, so nothing was done"


@frozen
class Ways:
    """How the scheduler reaches everything else."""

    accept: Callable[[Incoming], Awaitable[Accepted]]
    recorder: Recorder
    clock: Callable[[], datetime]
    channels: Mapping[str, Channel] = field(default_factory=dict)
    """The channels that deliver."""
    shelves: frozenset[str] = frozenset()
    """Those on which people look by themselves: what is to go there by name stands in their conversation."""


class Scheduler:
    """Fires the schedules of a workspace."""

    def __init__(self, workspace: Workspace, writer: Writer, ways: Ways) -> None:
        self._workspace = workspace
        self._writer = writer
        self._ways = ways
        self._owner = name_owner()
        self._followed: Config | None = None
        self._seen: datetime | None = None

    async def follow(self, config: Config) -> None:
        """Hold to another configuration from now on."""
        if config is self._followed:
            return
        now = self._ways.clock()
        await self._writer.do(lambda state: follow(state, config, now))
        self._followed = config

    async def look(self) -> Sequence[Accepted]:
        """Fire what is due, side by side; return the turns that began."""
        await self.follow(self._workspace.config)
        now = self._ways.clock()
        if self._seen is None or now < self._seen - SLACK:
            await self._writer.do(lambda state: wind(state, now))
        self._seen = now
        if not await self._writer.look(lambda state: is_any_due(state, now)):
            return []
        due = await self._writer.seal(lambda state: claim(state, now, self._owner))
        fired = await asyncio.gather(*(self._fire(one, now) for one in due), return_exceptions=True)
        for schedule, failed in zip(due, fired, strict=True):
            # It is tried again with the next look, and holds up no other; a disk that is busy is nothing to tell.
            if isinstance(failed, Exception) and not isinstance(failed, PASSING):
                self._tell(schedule, level=Level.ERROR, **describe_error(failed))
        return [one for one in fired if isinstance(one, Accepted)]

    async def run(self, which: str) -> Accepted:
        """Run a schedule now, beside its own times."""
        await self.follow(self._workspace.config)
        schedule = await self._writer.do(lambda state: find_named(state, which))
        incoming = await self._prepare(schedule, f"now-{make_id(64)}")
        if incoming is None:
            raise InputError(BLANK)
        return await self._ways.accept(incoming)

    async def list(self, user: str, clearance: Trust) -> Sequence[Schedule]:
        """List the schedules of a person that were not made above a clearance."""
        await self.follow(self._workspace.config)
        found = await self._writer.look(lambda state: find_all(state, user))
        return [one for one in found if one.clearance <= clearance]

    async def order(self, entry: Written, *, bounded: bool) -> Ordered:
        """Make a schedule as a person asks for it; where it is bounded, not too often and not too many."""
        now, config = self._ways.clock(), self._workspace.config
        channels = {*self._ways.channels, *list_channels(config)}

        def work(state: sqlite3.Connection) -> Ordered:
            ordered = order(state, entry, config, now, channels)
            if bounded:
                check_due(ordered.schedule.timing, now)
                check_many(state, entry.user)
            return ordered

        return await self._writer.seal(work)

    async def cancel(self, key: str, user: str, clearance: Trust) -> bool:
        """Cancel a schedule of a person; return whether there was one that was not made above a clearance."""

        def work(state: sqlite3.Connection) -> bool:
            found = get(state, key)
            if found is None or found.user != user or found.clearance > clearance:
                return False
            cancel(state, found)
            return True

        await self.follow(self._workspace.config)
        return await self._writer.seal(work)

    async def _fire(self, schedule: Schedule, now: datetime) -> Accepted | None:
        """Fire one schedule, or write down why not; either way it is due again at its next time."""
        assert schedule.due is not None
        passed = find_passed(schedule.timing, schedule.due, now) if now - schedule.due > GRACE else [schedule.due]
        skips = schedule.missed is Missed.SKIP
        missed = [due for due in passed if now - due > GRACE]
        accepted, note = None, ""
        if missed and skips:
            note = SKIPPED.format(count=len(missed), runs="run" if len(missed) == 1 else "runs")
            self._tell(schedule, level=Level.WARN, error=note)
        if len(missed) < len(passed) or not skips:
            due, late = (passed[-1], 0) if skips else (schedule.due, len(passed) - 1)
            try:
                incoming = await self._prepare(schedule, f"{due.timestamp():.0f}", late)
                accepted = await self._ways.accept(incoming) if incoming else None
                if incoming is None:
                    note = BLANK
                elif schedule.delivery is not Delivery.NEVER and not incoming.address:
                    note = explain_unreached(schedule)
                    self._tell(schedule, level=Level.WARN, error=note)
            except InputError as error:
                note = str(error)
                self._tell(schedule, level=Level.WARN, error=note)
        await self._writer.do(lambda state: settle(state, schedule, self._owner, now, note))
        return accepted if accepted and not accepted.repeated else None

    async def _prepare(self, schedule: Schedule, key: str, late: int = 0) -> Incoming | None:
        """Prepare the message of a run, or None where there is nothing to do; raise InputError where it may not be."""
        self._workspace.refresh()
        config, channels = self._workspace.config, self._ways.channels

        def work(state: sqlite3.Connection) -> tuple[Destination, tuple[str, ...]]:
            found = settle_destination(state, schedule, config, channels, self._ways.shelves)
            if found.room or found.channel not in self._ways.shelves:
                return found, ()
            # Unless one is named, a reply stands in every conversation that its person may look into.
            named = schedule.to.address
            return found, (found.channel,) if named else tuple(list_shelves(state, config, schedule.user))

        if schedule.user not in config.users:
            raise Refused(f"{schedule.user}, as whom it acts, is no user any more")
        to, shelves = await self._writer.do(work)
        allowed = bound(schedule, to, config, await find_kind(channels, to))
        text = find_words(schedule, self._workspace, allowed)
        if not text:
            return None
        delivered = is_delivered(schedule.delivery, {*channels, *self._ways.shelves}, to)
        return Incoming(
            text=text,
            user=schedule.user,
            channel=CHANNEL,
            agent=schedule.agent,
            situation=SITUATION,
            room=to.room,
            key=f"{schedule.id}@{key}",
            origin=schedule.id,  # whatever else of it is edited meanwhile, it is the same run
            address=to.address if delivered else "",
            through=to.channel if delivered else "",
            shelves=shelves if delivered else (),
            errand=Errand(
                schedule=schedule.id,
                delivery=schedule.delivery,
                ceiling=allowed,
                home=clear_at_home(schedule.user, config),
                light=schedule.timing.kind is Kind.HEARTBEAT,
                late=late,
                asked=schedule.say.strip(),
            ),
        )

    def _tell(self, schedule: Schedule, **said: Any) -> None:
        """Tell the log that a run did not come about."""
        context = Context(
            trust=schedule.clearance,
            agent=schedule.agent,
            user=schedule.user,
            channel=CHANNEL,
            room=schedule.to.room,
            schedule=schedule.id,
        )
        trace = Trace(self._ways.recorder, context, Timepiece(now=self._ways.clock))
        trace.tell(EventType.CHANNEL_ERROR, name=schedule.id, **said)


def is_any_due(state: sqlite3.Connection, now: datetime) -> bool:
    """Whether anything is due."""
    asked = "SELECT 1 FROM schedules WHERE state = 'waiting' AND due <= ? LIMIT 1"
    return state.execute(asked, (now.timestamp(),)).fetchone() is not None
