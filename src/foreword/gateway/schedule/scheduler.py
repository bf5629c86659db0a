"""The scheduler: submits the messages of due schedules as turns.

One process claims a due schedule. The idempotency key of the message is the schedule and the due time, so a crash
between submitting the message and updating the schedule does not run it twice.

The message text of a scheduled run, with the parts that its blueprint has no slot for.
"""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any

from foreword.config.schedule_settings import MissedRuns
from foreword.config.schedule_settings import ScheduleSettings as Written
from foreword.config.schema import Config
from foreword.engine.blueprint import Blueprint
from foreword.engine.sources.documents import Document, read_prompt
from foreword.errors import InputError
from foreword.events.event import Context, EventType, Level, Recorder
from foreword.events.tracer import Clocks, Tracer, describe_error, make_id
from foreword.gateway.channel import Channel, NotStored
from foreword.gateway.messages import AcceptedTurn, RoutedMessage, ScheduledRun
from foreword.gateway.schedule.creation import (
    CreatedSchedule,
    RunRefused,
    check_interval,
    check_schedule_count,
    create_for_user,
    describe_undeliverable,
    find_chat_type,
    is_delivered,
    list_delivery_channels,
    list_pull_channels,
    resolve_destination,
    resolve_private_clearance,
    resolve_run_clearance,
    sync_configured_schedules,
)
from foreword.gateway.schedule.due_times import TimingKind, list_due_times
from foreword.gateway.schedule.schedule_rows import (
    RUN_SITUATION,
    Destination,
    StoredSchedule,
    cancel_schedule,
    claim_due_schedules,
    find_schedule,
    finish_run,
    get_schedule,
    list_stored_schedules,
    recompute_due_times,
)
from foreword.gateway.service import ShuttingDown
from foreword.storage.writer import Writer, make_lease_owner
from foreword.types import Delivery, Mode, Trust, frozen
from foreword.workspace import Workspace

HEARTBEAT_FILE = "HEARTBEAT.md"


def make_run_text(schedule: StoredSchedule, workspace: Workspace, allowed: Trust) -> str:
    """Return the message of a run; empty if there is nothing to do, such as a heartbeat without tasks."""
    blueprint = workspace.blueprint(workspace.config.agents[schedule.agent].blueprint)
    before = "" if has_source(blueprint, "background") else read_prompt(f"background/{schedule.delivery}")
    if schedule.timing.kind is not TimingKind.HEARTBEAT:
        return join_paragraphs(before, schedule.say)
    tasks = read_heartbeat(workspace, schedule.agent, allowed)
    if not tasks:
        return ""
    shown = any(slot.file == HEARTBEAT_FILE and Mode.MINIMAL in slot.modes for slot in blueprint.slots)
    return join_paragraphs(before, schedule.say.strip() or read_prompt("schedule/heartbeat"), "" if shown else tasks)


def read_heartbeat(workspace: Workspace, agent: str, allowed: Trust) -> str:
    """Read the task list of an agent's heartbeat; a list above the run's clearance is not opened."""
    if allowed < get_heartbeat_trust(workspace.config):
        return ""
    for path in (f"agents/{agent}/{HEARTBEAT_FILE}", HEARTBEAT_FILE):
        document = workspace.files.read(path)
        if isinstance(document, Document) and document.body.strip():
            return document.body
    return ""


def get_heartbeat_trust(config: Config) -> Trust:
    """Return the clearance needed for the task list."""
    return next((file.trust for file in config.prompt.files if file.path == HEARTBEAT_FILE), Trust.FULL)


def has_source(blueprint: Blueprint, name: str) -> bool:
    """Return whether a blueprint has a slot for a source."""
    return any(slot.source == name for slot in blueprint.slots)


def join_paragraphs(*texts: str) -> str:
    """Join non-empty texts as paragraphs."""
    return "\n\n".join(text for text in texts if text)


SCHEDULED_CHANNEL = "scheduled"
MISSED_AFTER = timedelta(minutes=5)  # a run later than this counts as missed
CLOCK_TOLERANCE = timedelta(seconds=1)  # backward clock corrections that are ignored
SKIPPED_NOTE = "skipped after a downtime: {count:,} {runs}"
TRANSIENT_ERRORS = (sqlite3.Error, NotStored, ShuttingDown)
NOTHING_TO_DO_NOTE = f"nothing to do: {HEARTBEAT_FILE} is empty or above the clearance of this run"


@frozen
class SchedulerDependencies:
    """The dependencies of the scheduler."""

    accept: Callable[[RoutedMessage], Awaitable[AcceptedTurn]]
    recorder: Recorder
    clock: Callable[[], datetime]
    channels: Mapping[str, Channel] = field(default_factory=dict)
    """The channels that deliver."""
    shelves: frozenset[str] = frozenset()
    """The pull channels: a reply sent there is added to the user's session."""


class Scheduler:
    """Runs the schedules of a workspace."""

    def __init__(self, workspace: Workspace, writer: Writer, ways: SchedulerDependencies) -> None:
        self._workspace = workspace
        self._writer = writer
        self._ways = ways
        self._owner = make_lease_owner()
        self._followed: Config | None = None
        self._seen: datetime | None = None

    async def follow(self, config: Config) -> None:
        """Apply a configuration if it changed."""
        if config is self._followed:
            return
        now = self._ways.clock()
        await self._writer.do(lambda state: sync_configured_schedules(state, config, now))
        self._followed = config

    async def look(self) -> Sequence[AcceptedTurn]:
        """Start all due schedules concurrently; return the new turns."""
        await self.follow(self._workspace.config)
        now = self._ways.clock()
        if self._seen is None or now < self._seen - CLOCK_TOLERANCE:
            await self._writer.do(lambda state: recompute_due_times(state, now))
        self._seen = now
        if not await self._writer.look(lambda state: is_any_due(state, now)):
            return []
        due = await self._writer.write_durable(lambda state: claim_due_schedules(state, now, self._owner))
        fired = await asyncio.gather(*(self._fire(one, now) for one in due), return_exceptions=True)
        for schedule, failed in zip(due, fired, strict=True):
            # A failed schedule is retried at the next check and delays no other. Lock conflicts are not recorded.
            if isinstance(failed, Exception) and not isinstance(failed, TRANSIENT_ERRORS):
                self._tell(schedule, level=Level.ERROR, **describe_error(failed))
        return [one for one in fired if isinstance(one, AcceptedTurn)]

    async def run(self, which: str) -> AcceptedTurn:
        """Run a schedule now, in addition to its due times."""
        await self.follow(self._workspace.config)
        schedule = await self._writer.do(lambda state: find_schedule(state, which))
        incoming = await self._prepare(schedule, f"now-{make_id(64)}")
        if incoming is None:
            raise InputError(NOTHING_TO_DO_NOTE)
        return await self._ways.accept(incoming)

    async def list(self, user: str, clearance: Trust) -> Sequence[StoredSchedule]:
        """List the schedules of a user that were created at or below a clearance."""
        await self.follow(self._workspace.config)
        found = await self._writer.look(lambda state: list_stored_schedules(state, user))
        return [one for one in found if one.clearance <= clearance]

    async def order(self, entry: Written, *, bounded: bool) -> CreatedSchedule:
        """Create a schedule; if `bounded`, enforce the shortest interval and the number per user."""
        now, config = self._ways.clock(), self._workspace.config
        channels = {*self._ways.channels, *list_delivery_channels(config)}

        def work(state: sqlite3.Connection) -> CreatedSchedule:
            ordered = create_for_user(state, entry, config, now, channels)
            if bounded:
                check_interval(ordered.schedule.timing, now)
                check_schedule_count(state, entry.user)
            return ordered

        return await self._writer.write_durable(work)

    async def cancel(self, key: str, user: str, clearance: Trust) -> bool:
        """Cancel a schedule of a user; return False if there is none at or below the clearance."""

        def work(state: sqlite3.Connection) -> bool:
            found = get_schedule(state, key)
            if found is None or found.user != user or found.clearance > clearance:
                return False
            cancel_schedule(state, found)
            return True

        await self.follow(self._workspace.config)
        return await self._writer.write_durable(work)

    async def _fire(self, schedule: StoredSchedule, now: datetime) -> AcceptedTurn | None:
        """Run one schedule or store why it did not run, and set its next due time."""
        assert schedule.due is not None
        passed = (
            list_due_times(schedule.timing, schedule.due, now) if now - schedule.due > MISSED_AFTER else [schedule.due]
        )
        skips = schedule.missed is MissedRuns.SKIP
        missed = [due for due in passed if now - due > MISSED_AFTER]
        accepted, note = None, ""
        if missed and skips:
            note = SKIPPED_NOTE.format(count=len(missed), runs="run" if len(missed) == 1 else "runs")
            self._tell(schedule, level=Level.WARN, error=note)
        if len(missed) < len(passed) or not skips:
            due, late = (passed[-1], 0) if skips else (schedule.due, len(passed) - 1)
            try:
                incoming = await self._prepare(schedule, f"{due.timestamp():.0f}", late)
                accepted = await self._ways.accept(incoming) if incoming else None
                if incoming is None:
                    note = NOTHING_TO_DO_NOTE
                elif schedule.delivery is not Delivery.NEVER and not incoming.address:
                    note = describe_undeliverable(schedule)
                    self._tell(schedule, level=Level.WARN, error=note)
            except InputError as error:
                note = str(error)
                self._tell(schedule, level=Level.WARN, error=note)
        await self._writer.do(lambda state: finish_run(state, schedule, self._owner, now, note))
        return accepted if accepted and not accepted.repeated else None

    async def _prepare(self, schedule: StoredSchedule, key: str, late: int = 0) -> RoutedMessage | None:
        """Make the message of a run; return None if there is nothing to do, raise InputError if it may not run."""
        self._workspace.refresh()
        config, channels = self._workspace.config, self._ways.channels

        def work(state: sqlite3.Connection) -> tuple[Destination, tuple[str, ...]]:
            found = resolve_destination(state, schedule, config, channels, self._ways.shelves)
            if found.room or found.channel not in self._ways.shelves:
                return found, ()
            # Without a named address the reply is added to the user's sessions on all pull channels.
            named = schedule.to.address
            return found, (found.channel,) if named else tuple(list_pull_channels(state, config, schedule.user))

        if schedule.user not in config.users:
            raise RunRefused(f"its user {schedule.user} no longer exists")
        to, shelves = await self._writer.do(work)
        allowed = resolve_run_clearance(schedule, to, config, await find_chat_type(channels, to))
        text = make_run_text(schedule, self._workspace, allowed)
        if not text:
            return None
        delivered = is_delivered(schedule.delivery, {*channels, *self._ways.shelves}, to)
        return RoutedMessage(
            text=text,
            user=schedule.user,
            channel=SCHEDULED_CHANNEL,
            agent=schedule.agent,
            situation=RUN_SITUATION,
            room=to.room,
            key=f"{schedule.id}@{key}",
            origin=schedule.id,  # a run stays the same run when its schedule is edited
            address=to.address if delivered else "",
            through=to.channel if delivered else "",
            shelves=shelves if delivered else (),
            errand=ScheduledRun(
                schedule=schedule.id,
                delivery=schedule.delivery,
                ceiling=allowed,
                home=resolve_private_clearance(schedule.user, config),
                light=schedule.timing.kind is TimingKind.HEARTBEAT,
                late=late,
                asked=schedule.say.strip(),
            ),
        )

    def _tell(self, schedule: StoredSchedule, **said: Any) -> None:
        """Record that a run did not take place."""
        context = Context(
            trust=schedule.clearance,
            agent=schedule.agent,
            user=schedule.user,
            channel=SCHEDULED_CHANNEL,
            room=schedule.to.room,
            schedule=schedule.id,
        )
        trace = Tracer(self._ways.recorder, context, Clocks(now=self._ways.clock))
        trace.tell(EventType.CHANNEL_ERROR, name=schedule.id, **said)


def is_any_due(state: sqlite3.Connection, now: datetime) -> bool:
    """Return whether any schedule is due."""
    asked = "SELECT 1 FROM schedules WHERE state = 'waiting' AND due <= ? LIMIT 1"
    return state.execute(asked, (now.timestamp(),)).fetchone() is not None
