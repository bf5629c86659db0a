"""The scheduler: submits the messages of due schedules as turns.

One process claims a due schedule. The idempotency key of the message is the schedule and the due time, so a crash
between submitting the message and updating the schedule does not run it twice.
"""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from foreword.config.schedule_settings import MissedRuns, ScheduleSettings
from foreword.config.schema import Config
from foreword.engine.sources.documents import Document, read_prompt
from foreword.engine.trust import resolve_trust
from foreword.errors import InputError
from foreword.events.event import Context, EventType, Level
from foreword.events.tracer import describe_error, make_id
from foreword.gateway.channel import NotStored
from foreword.gateway.gateway_context import GatewayContext
from foreword.gateway.messages import AcceptedTurn, RoutedMessage, ScheduledRun, ShuttingDown
from foreword.gateway.schedule import creation, destinations
from foreword.gateway.schedule.creation import find_next_due, list_due_times
from foreword.storage import schedules
from foreword.storage.schedules import Destination, ScheduleState, StoredSchedule, TimingKind
from foreword.storage.writer import make_lease_owner
from foreword.turn import Turn
from foreword.types import Delivery, Mode, Trust
from foreword.workspace import Workspace

HEARTBEAT_FILE = "HEARTBEAT.md"


def make_run_text(schedule: StoredSchedule, workspace: Workspace, allowed: Trust) -> str:
    """Return the message of a run; empty if there is nothing to do, such as a heartbeat without tasks.

    The message includes the parts for which the agent's blueprint has no slot.
    """
    slots = workspace.blueprint(workspace.config.agents[schedule.agent].blueprint).slots
    has_background = any(slot.source == "background" for slot in slots)
    texts = ["" if has_background else read_prompt(f"background/{schedule.delivery}")]
    if schedule.timing.kind is TimingKind.HEARTBEAT:
        tasks = read_heartbeat(workspace, schedule.agent, allowed)
        if not tasks:
            return ""
        has_tasks = any(slot.file == HEARTBEAT_FILE and Mode.MINIMAL in slot.modes for slot in slots)
        texts += [schedule.say.strip() or read_prompt("schedule/heartbeat"), "" if has_tasks else tasks]
    else:
        texts.append(schedule.say)
    return "\n\n".join(filter(None, texts))


def read_heartbeat(workspace: Workspace, agent: str, allowed: Trust) -> str:
    """Read the task list of an agent's heartbeat; a list above the run's clearance is not opened."""
    configured = (file.trust for file in workspace.config.prompt.files if file.path == HEARTBEAT_FILE)
    if allowed < next(configured, Trust.FULL):
        return ""
    for path in (f"agents/{agent}/{HEARTBEAT_FILE}", HEARTBEAT_FILE):
        document = workspace.files.read(path)
        if isinstance(document, Document) and document.body.strip():
            return document.body
    return ""


SCHEDULED_CHANNEL = "scheduled"
MISSED_AFTER = timedelta(minutes=5)  # a run later than this counts as missed
CLOCK_TOLERANCE = timedelta(seconds=1)  # backward clock corrections that are ignored
MAX_CLOCK_ERROR = timedelta(days=1)  # a run further in the future than this was recorded by a wrong clock
TRANSIENT_ERRORS = (sqlite3.Error, NotStored, ShuttingDown)
NOTHING_TO_DO_NOTE = f"nothing to do: {HEARTBEAT_FILE} is empty or above the clearance of this run"


class Scheduler:
    """Runs the schedules of a workspace."""

    def __init__(
        self,
        context: GatewayContext,
        accept: Callable[[RoutedMessage], Awaitable[AcceptedTurn]],
        pull_channels: Collection[str] = (),
    ) -> None:
        self._context = context
        self._accept = accept
        self._pull_channels = pull_channels
        """Channels on which a reply is added to the user's session."""
        self._owner = make_lease_owner()
        self._applied: Config | None = None
        self._checked: datetime | None = None

    async def follow(self, config: Config) -> None:
        """Apply a configuration if it changed."""
        if config is self._applied:
            return
        now = self._context.clock()
        await self._context.writer.write(lambda state: creation.sync_configured_schedules(state, config, now))
        self._applied = config

    async def run_due(self) -> Sequence[AcceptedTurn]:
        """Start all due schedules concurrently; return the new turns."""
        await self.follow(self._context.workspace.config)
        now = self._context.clock()
        if self._checked is None or now < self._checked - CLOCK_TOLERANCE:
            await self._context.writer.write(lambda state: recompute_due_times(state, now))
        self._checked = now
        if not await self._context.writer.read(lambda state: schedules.is_any_due(state, now)):
            return []
        due = await self._context.writer.write_durable(
            lambda state: schedules.claim_due_schedules(state, now, self._owner)
        )
        results = await asyncio.gather(*(self._fire(schedule, now) for schedule in due), return_exceptions=True)
        for schedule, result in zip(due, results, strict=True):
            # A failed schedule is retried at the next check and delays no other. Lock conflicts are not recorded.
            if isinstance(result, Exception) and not isinstance(result, TRANSIENT_ERRORS):
                self._emit(schedule, level=Level.ERROR, **describe_error(result))
        return [result for result in results if isinstance(result, AcceptedTurn)]

    async def run(self, which: str) -> AcceptedTurn:
        """Run a schedule now, in addition to its due times."""
        await self.follow(self._context.workspace.config)
        schedule = await self._context.writer.read(lambda state: schedules.find_schedule(state, which))
        message = await self._prepare(schedule, f"now-{make_id(64)}")
        if message is None:
            raise InputError(NOTHING_TO_DO_NOTE)
        return await self._accept(message)

    async def list(self, user: str, clearance: Trust) -> Sequence[StoredSchedule]:
        """List the schedules of a user that were created at or below a clearance."""
        await self.follow(self._context.workspace.config)
        found = await self._context.writer.read(lambda state: schedules.list_schedules(state, user))
        return [schedule for schedule in found if schedule.clearance <= clearance]

    async def create(self, entry: ScheduleSettings, *, bounded: bool) -> creation.CreatedSchedule:
        """Create a schedule; if `bounded`, enforce the shortest interval and the number per user."""
        now, config = self._context.clock(), self._context.workspace.config
        channels = {*self._context.channels, *destinations.list_delivery_channels(config)}

        def work(state: sqlite3.Connection) -> creation.CreatedSchedule:
            created = creation.create_for_user(state, entry, config, now, channels)
            if bounded:
                creation.check_interval(created.schedule.timing, now)
                creation.check_schedule_count(state, entry.user)
            return created

        return await self._context.writer.write_durable(work)

    async def cancel(self, key: str, user: str, clearance: Trust) -> bool:
        """Cancel a schedule of a user; return False if there is none at or below the clearance."""

        def work(state: sqlite3.Connection) -> bool:
            found = schedules.get_schedule(state, key)
            if found is None or found.user != user or found.clearance > clearance:
                return False
            schedules.cancel_schedule(state, found)
            return True

        await self.follow(self._context.workspace.config)
        return await self._context.writer.write_durable(work)

    async def _fire(self, schedule: StoredSchedule, now: datetime) -> AcceptedTurn | None:
        """Run one schedule or store why it did not run, and set its next due time."""
        assert schedule.due is not None
        is_late = now - schedule.due > MISSED_AFTER
        passed = list_due_times(schedule.timing, schedule.due, now) if is_late else [schedule.due]
        missed = [due for due in passed if now - due > MISSED_AFTER]
        skips = schedule.missed is MissedRuns.SKIP
        accepted, note = None, ""
        if missed and skips:
            note = f"skipped after a downtime: {len(missed):,} {'run' if len(missed) == 1 else 'runs'}"
            self._emit(schedule, level=Level.WARN, error=note)
        if len(missed) < len(passed) or not skips:
            due, late = (passed[-1], 0) if skips else (schedule.due, len(passed) - 1)
            try:
                message = await self._prepare(schedule, f"{due.timestamp():.0f}", late)
                accepted = await self._accept(message) if message else None
                if message is None:
                    note = NOTHING_TO_DO_NOTE
                elif schedule.delivery is not Delivery.NEVER and not message.address:
                    note = destinations.describe_undeliverable(schedule)
                    self._emit(schedule, level=Level.WARN, error=note)
            except InputError as error:
                note = str(error)
                self._emit(schedule, level=Level.WARN, error=note)
        ran = max(now, schedule.due)
        done, following = replace(schedule, note=note), find_next_due(schedule.timing, ran)
        await self._context.writer.write(lambda state: schedules.finish_run(state, done, self._owner, ran, following))
        return accepted if accepted and not accepted.repeated else None

    async def _prepare(self, schedule: StoredSchedule, key: str, late: int = 0) -> RoutedMessage | None:
        """Make the message of a run; return None if there is nothing to do, raise InputError if it may not run."""
        self._context.workspace.refresh()
        config, channels = self._context.workspace.config, self._context.channels
        pull_channels = self._pull_channels

        def work(state: sqlite3.Connection) -> tuple[Destination, tuple[str, ...]]:
            found = destinations.resolve_destination(state, schedule, config, channels, pull_channels)
            if found.room or found.channel not in pull_channels:
                return found, ()
            if schedule.to.address:
                return found, (found.channel,)
            # Without a named address the reply is added to the user's sessions on all pull channels.
            return found, tuple(destinations.list_pull_channels(state, config, schedule.user))

        if schedule.user not in config.users:
            raise destinations.RunRefused(f"its user {schedule.user} no longer exists")
        to, pulled = await self._context.writer.write(work)
        kind = await destinations.find_chat_kind(channels, to)
        allowed = destinations.resolve_run_clearance(schedule, to, config, kind)
        text = make_run_text(schedule, self._context.workspace, allowed)
        if not text:
            return None
        delivered = destinations.is_delivered(schedule.delivery, {*channels, *pull_channels}, to)
        return RoutedMessage(
            text=text,
            user=schedule.user,
            channel=SCHEDULED_CHANNEL,
            agent=schedule.agent,
            situation=schedules.RUN_SITUATION,
            room=to.room,
            key=f"{schedule.id}@{key}",
            origin=schedule.id,  # a run stays the same run when its schedule is edited
            address=to.address if delivered else "",
            through=to.channel if delivered else "",
            pull_channels=pulled if delivered else (),
            scheduled_run=ScheduledRun(
                schedule=schedule.id,
                delivery=schedule.delivery,
                ceiling=allowed,
                home=resolve_trust(Turn(user=schedule.user, situation="dm"), config).level,
                light=schedule.timing.kind is TimingKind.HEARTBEAT,
                late=late,
                asked=schedule.say.strip(),
            ),
        )

    def _emit(self, schedule: StoredSchedule, **fields: Any) -> None:
        """Record that a run did not take place."""
        context = Context(
            trust=schedule.clearance,
            agent=schedule.agent,
            user=schedule.user,
            channel=SCHEDULED_CHANNEL,
            room=schedule.to.room,
            schedule=schedule.id,
        )
        self._context.trace(context).emit(EventType.CHANNEL_ERROR, name=schedule.id, **fields)


def recompute_due_times(state: sqlite3.Connection, now: datetime) -> None:
    """Recompute all due times after the clock was set back; only earlier ones are stored, and no run is repeated."""
    for schedule in schedules.list_schedules(state):
        ran = schedule.ran if schedule.ran and schedule.ran - now < MAX_CLOCK_ERROR else now
        following = find_next_due(schedule.timing, max(now, ran))
        if schedule.state is ScheduleState.WAITING and following and schedule.due and following < schedule.due:
            schedules.set_due_time(state, schedule.id, following)
