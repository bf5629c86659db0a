"""Schedules as rows of the state: stored, listed, cancelled, claimed and updated."""

import json
import re
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from foreword.config.schedule_settings import MissedRuns
from foreword.errors import Forbidden, InputError
from foreword.gateway.schedule.due_times import Timing, TimingKind, find_next_due
from foreword.storage.database import format_moment, parse_moment
from foreword.storage.writer import is_dead_owner
from foreword.types import Delivery, TextEnum, Trust, frozen

SCHEDULE_COLUMNS = (
    "id, name, origin, agent, user_id, kind, moment, zone, say, delivery, channel, address, room, situation, clearance,"
    " missed, created, due, ran, note, state"
)
SCHEDULE_PLACEHOLDERS = ", ".join("?" * len(SCHEDULE_COLUMNS.split(",")))
LEASE_DURATION = timedelta(seconds=30)
MAX_CLOCK_ERROR = timedelta(days=1)  # a run further in the future than this was recorded by a wrong clock
RUN_SITUATION = "system"
MAX_TITLE_CHARS = 24
TITLE_WORD = re.compile(r"\w+")


class ScheduleOrigin(TextEnum):
    """Who created a schedule."""

    CONFIG = "config"
    """It is configured in foreword.yaml."""
    PERSON = "person"
    """A user created it, at the shell or over HTTP."""
    AGENT = "agent"
    """An agent created it for a user."""


class ScheduleState(TextEnum):
    """Whether a schedule will run again."""

    WAITING = "waiting"
    OVER = "over"


@frozen(eq=True)
class Destination:
    """Where replies go: a room or an address; if empty, the user's last private address."""

    channel: str = ""
    address: str = ""
    room: str = ""


@frozen(eq=True)
class StoredSchedule:
    """A message that an agent receives at its due times, on behalf of a user."""

    id: str
    name: str
    origin: ScheduleOrigin
    agent: str
    user: str
    timing: Timing
    say: str
    delivery: Delivery
    to: Destination
    clearance: Trust
    """The clearance at creation, which limits all runs."""
    missed: MissedRuns
    created: datetime
    due: datetime | None = None
    ran: datetime | None = None
    """The time up to which all runs are done or skipped."""
    note: str = ""
    """Why the last run did not take place."""
    state: ScheduleState = ScheduleState.WAITING

    @property
    def title(self) -> str:
        """The name, or a short form of the text, which is displayed but not stored."""
        return self.name or shorten_title(self.say) or str(self.timing.kind)


def shorten_title(say: str) -> str:
    """Make a short name from the text of a schedule."""
    return shorten_name("-".join(TITLE_WORD.findall(say.lower())))


def shorten_name(name: str) -> str:
    """Drop the last words of a long name."""
    return (
        name
        if len(name) <= MAX_TITLE_CHARS
        else name[: MAX_TITLE_CHARS + 1].rpartition("-")[0] or name[:MAX_TITLE_CHARS]
    )


def write_row(schedule: StoredSchedule) -> tuple[object, ...]:
    """Convert a schedule to a row."""
    return (
        schedule.id,
        schedule.name,
        str(schedule.origin),
        schedule.agent,
        schedule.user,
        str(schedule.timing.kind),
        schedule.timing.moment,
        schedule.timing.zone,
        schedule.say,
        str(schedule.delivery),
        schedule.to.channel,
        schedule.to.address,
        schedule.to.room,
        RUN_SITUATION,
        int(schedule.clearance),
        str(schedule.missed),
        format_moment(schedule.created),
        schedule.due.timestamp() if schedule.due else None,
        schedule.ran.timestamp() if schedule.ran else None,
        schedule.note,
        str(schedule.state),
    )


def read_schedule(row: Sequence[object]) -> StoredSchedule:
    """Convert a row to a schedule."""
    key, name, origin, agent, user, kind, moment, zone, say, delivery, channel, address, room, *rest = row
    _, clearance, missed, created, due, ran, note, state = rest
    return StoredSchedule(
        id=str(key),
        name=str(name),
        origin=ScheduleOrigin(origin),
        agent=str(agent),
        user=str(user),
        timing=Timing(kind=TimingKind(kind), moment=str(moment), zone=str(zone)),
        say=str(say),
        delivery=Delivery(delivery),
        to=Destination(channel=str(channel), address=str(address), room=str(room)),
        clearance=Trust(int(str(clearance))),
        missed=MissedRuns(missed),
        created=parse_moment(str(created)),
        due=read_timestamp(due),
        ran=read_timestamp(ran),
        note=str(note),
        state=ScheduleState(state),
    )


def read_timestamp(seconds: object) -> datetime | None:
    """Convert seconds since 1970 to a time."""
    return None if seconds is None else datetime.fromtimestamp(float(str(seconds)), UTC)


def put_schedule(state: sqlite3.Connection, schedule: StoredSchedule) -> None:
    """Insert a schedule, or replace the one with the same id."""
    state.execute(
        f"INSERT OR REPLACE INTO schedules ({SCHEDULE_COLUMNS}) VALUES ({SCHEDULE_PLACEHOLDERS})", write_row(schedule)
    )


def list_stored_schedules(state: sqlite3.Connection, user: str = "") -> list[StoredSchedule]:
    """List the schedules of a user, or all, in order of the next run."""
    asked = f"SELECT {SCHEDULE_COLUMNS} FROM schedules WHERE user_id = ?1 OR ?1 = '' ORDER BY state DESC, due, id"
    return [read_schedule(row) for row in state.execute(asked, (user,))]


def get_schedule(state: sqlite3.Connection, key: str) -> StoredSchedule | None:
    """Return a schedule by its id."""
    row = state.execute(f"SELECT {SCHEDULE_COLUMNS} FROM schedules WHERE id = ?", (key,)).fetchone()
    return read_schedule(row) if row else None


def find_schedule(state: sqlite3.Connection, which: str, user: str = "") -> StoredSchedule:
    """Find a schedule of a user by its id or name; raise the same InputError if it is missing or another user's."""
    found = [one for one in list_stored_schedules(state, user) if which in (one.id, one.title)]
    if not found:
        raise InputError(f"there is no schedule {which[:60]!r}")
    if len(found) > 1:
        raise InputError(f"several schedules are called {which[:60]!r}; use the id")
    return found[0]


def cancel_schedule(state: sqlite3.Connection, schedule: StoredSchedule) -> None:
    """Delete a schedule; raise Forbidden for a configured one."""
    if schedule.origin is ScheduleOrigin.CONFIG:
        raise Forbidden(f"the schedule {schedule.name!r} is defined in foreword.yaml; remove it there")
    state.execute("DELETE FROM schedules WHERE id = ?", (schedule.id,))


def find_due(schedule: StoredSchedule, now: datetime) -> datetime | None:
    """Return the next due time; runs that took place are not repeated after the clock was set back."""
    ran = schedule.ran if schedule.ran and schedule.ran - now < MAX_CLOCK_ERROR else None
    return find_next_due(schedule.timing, max(now, ran) if ran else now)


def claim_due_schedules(state: sqlite3.Connection, now: datetime, owner: str) -> list[StoredSchedule]:
    """Claim due schedules that no live process has leased."""
    asked = "SELECT DISTINCT lease_owner FROM schedules WHERE lease_owner != '' AND lease_owner != ?"
    dead = json.dumps([one for (one,) in state.execute(asked, (owner,)).fetchall() if is_dead_owner(one)])
    rows = state.execute(
        "UPDATE schedules SET lease_owner = ?, lease_until = ? WHERE state = 'waiting' AND due <= ?"
        " AND (lease_owner IN ('', ?) OR lease_until < ? OR lease_owner IN (SELECT value FROM json_each(?)))"
        f" RETURNING {SCHEDULE_COLUMNS}",
        (owner, (now + LEASE_DURATION).timestamp(), now.timestamp(), owner, now.timestamp(), dead),
    ).fetchall()
    return sorted(map(read_schedule, rows), key=lambda one: (one.due or now, one.id))


def finish_run(state: sqlite3.Connection, schedule: StoredSchedule, owner: str, now: datetime, note: str = "") -> None:
    """Record that a due schedule was handled, and set its next due time."""
    assert schedule.due is not None
    seen = max(now, schedule.due)
    following = find_next_due(schedule.timing, seen)
    state.execute(
        "UPDATE schedules SET due = ?, ran = ?, note = ?, state = ?, lease_owner = '', lease_until = 0"
        " WHERE id = ? AND lease_owner = ?",
        (
            following.timestamp() if following else None,
            seen.timestamp(),
            note,
            str(ScheduleState.WAITING if following else ScheduleState.OVER),
            schedule.id,
            owner,
        ),
    )


def recompute_due_times(state: sqlite3.Connection, now: datetime) -> None:
    """Recompute all due times after the clock was set back; only earlier ones are stored."""
    for schedule in list_stored_schedules(state):
        following = find_due(schedule, now)
        if schedule.state is ScheduleState.WAITING and following and schedule.due and following < schedule.due:
            state.execute("UPDATE schedules SET due = ? WHERE id = ?", (following.timestamp(), schedule.id))
