"""Schedules in the state, and the addresses from which their users wrote."""

import json
import re
import sqlite3
from collections.abc import Collection
from datetime import datetime, timedelta

from foreword.config.schedule_settings import MissedRuns
from foreword.errors import Forbidden, InputError
from foreword.storage.rows import fetch_all, fetch_cell, fetch_column, fetch_one, insert_row, list_columns
from foreword.storage.writer import is_dead_owner
from foreword.types import Delivery, TextEnum, Trust, frozen

LEASE_DURATION = timedelta(seconds=30)
RUN_SITUATION = "system"
CLAIM_SCHEDULES = """
UPDATE schedules SET lease_owner = ?1, lease_until = ?2 WHERE state = 'waiting' AND due <= ?3
AND (lease_until < ?3 OR lease_owner IN (SELECT value FROM json_each(?4))) RETURNING *"""
MAX_TITLE_CHARS = 24
TITLE_WORD = re.compile(r"\w+")


class ScheduleOrigin(TextEnum):
    """Who created a schedule."""

    CONFIG = "config"  # it is configured in foreword.yaml
    PERSON = "person"  # a user created it, at the shell or over HTTP
    AGENT = "agent"  # an agent created it for a user


class ScheduleState(TextEnum):
    """Whether a schedule will run again."""

    WAITING = "waiting"
    OVER = "over"


class TimingKind(TextEnum):
    """The kind of a schedule's time."""

    CRON = "cron"
    AT = "at"
    HEARTBEAT = "heartbeat"


@frozen(eq=True)
class Timing:
    """When a schedule is due, as written; the text is already validated."""

    kind: TimingKind
    moment: str
    zone: str = ""


@frozen(eq=True)
class Destination:
    """Where replies go: a room or an address; if empty, the user's last private address."""

    channel: str = ""
    address: str = ""
    room: str = ""

    def __str__(self) -> str:
        """Return the destination as users write it."""
        return self.room or (f"{self.channel}:{self.address}" if self.address else "")


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
    clearance: Trust  # the clearance at creation, which limits all runs
    missed: MissedRuns
    created: datetime
    due: datetime | None = None
    ran: datetime | None = None  # the time up to which all runs are done or skipped
    note: str = ""  # why the last run did not take place
    state: ScheduleState = ScheduleState.WAITING

    @property
    def title(self) -> str:
        """The name, or a short form of the text, which is displayed but not stored."""
        return self.name or shorten_title(self.say) or str(self.timing.kind)


def shorten_title(say: str) -> str:
    """Make a short name from the first words of a schedule's text."""
    name = "-".join(TITLE_WORD.findall(say.lower()))
    if len(name) <= MAX_TITLE_CHARS:
        return name
    return name[: MAX_TITLE_CHARS + 1].rpartition("-")[0] or name[:MAX_TITLE_CHARS]


def put_schedule(state: sqlite3.Connection, schedule: StoredSchedule) -> None:
    """Insert a schedule, or replace the one with the same id."""
    times = {name: time and time.timestamp() for name, time in (("due", schedule.due), ("ran", schedule.ran))}
    columns = list_columns(schedule) | times | {"situation": RUN_SITUATION}
    insert_row(state, "schedules", "INSERT OR REPLACE", **columns)


def list_schedules(state: sqlite3.Connection, user: str = "") -> list[StoredSchedule]:
    """List the schedules of a user, or all, in order of the next run."""
    query = "SELECT * FROM schedules WHERE user_id = ?1 OR ?1 = '' ORDER BY state DESC, due, id"
    return fetch_all(StoredSchedule, state, query, user)


def get_schedule(state: sqlite3.Connection, key: str) -> StoredSchedule | None:
    """Return a schedule by its id."""
    return fetch_one(StoredSchedule, state, "SELECT * FROM schedules WHERE id = ?", key)


def find_schedule(state: sqlite3.Connection, which: str) -> StoredSchedule:
    """Find a schedule by its id or name; raise InputError if it is missing or ambiguous."""
    found = [schedule for schedule in list_schedules(state) if which in (schedule.id, schedule.title)]
    if not found:
        raise InputError(f"there is no schedule {which[:60]!r}")
    if len(found) > 1:
        raise InputError(f"several schedules are called {which[:60]!r}; use the id")
    return found[0]


def cancel_schedule(state: sqlite3.Connection, schedule: StoredSchedule) -> None:
    """Delete a schedule; raise Forbidden for a configured one."""
    if schedule.origin is ScheduleOrigin.CONFIG:
        raise Forbidden(f"the schedule {schedule.name!r} is defined in foreword.yaml; remove it there")
    delete_schedule(state, schedule.id)


def delete_schedule(state: sqlite3.Connection, key: str) -> None:
    """Delete a schedule."""
    state.execute("DELETE FROM schedules WHERE id = ?", (key,))


def is_any_due(state: sqlite3.Connection, now: datetime) -> bool:
    """Return whether any schedule is due."""
    query = "SELECT 1 FROM schedules WHERE state = 'waiting' AND due <= ? LIMIT 1"
    return fetch_cell(int, state, query, now.timestamp()) is not None


def claim_due_schedules(state: sqlite3.Connection, now: datetime, owner: str) -> list[StoredSchedule]:
    """Claim due schedules that no live process has leased."""
    others = fetch_column(state, "SELECT DISTINCT lease_owner FROM schedules WHERE lease_owner NOT IN ('', ?)", owner)
    free, until = json.dumps(["", owner, *filter(is_dead_owner, others)]), (now + LEASE_DURATION).timestamp()
    claimed = fetch_all(StoredSchedule, state, CLAIM_SCHEDULES, owner, until, now.timestamp(), free)
    return sorted(claimed, key=lambda schedule: (schedule.due or now, schedule.id))


def finish_run(
    state: sqlite3.Connection, schedule: StoredSchedule, owner: str, ran: datetime, due: datetime | None
) -> None:
    """Record that a due schedule was handled, with its note and its next due time."""
    query = """
    UPDATE schedules SET due = ?, ran = ?, note = ?, state = ?, lease_owner = '', lease_until = 0
    WHERE id = ? AND lease_owner = ?"""
    became = str(ScheduleState.WAITING if due else ScheduleState.OVER)
    state.execute(query, (due and due.timestamp(), ran.timestamp(), schedule.note, became, schedule.id, owner))


def set_due_time(state: sqlite3.Connection, key: str, due: datetime) -> None:
    """Set the next due time of a schedule."""
    state.execute("UPDATE schedules SET due = ? WHERE id = ?", (due.timestamp(), key))


MAX_RECENT_TURNS = 50  # newest turns of a user that are searched for addresses
REQUEST_ADDRESS = "json_extract(request, '$.channel'), json_extract(request, '$.address')"
NOT_SCHEDULED = "json_extract(request, '$.address') != '' AND json_extract(request, '$.errand') IS NULL"


def list_recent_addresses(state: sqlite3.Connection, user: str) -> list[tuple[str, str]]:
    """List channel and address of a user's latest private messages, the newest first."""
    query = f"""
    SELECT {REQUEST_ADDRESS} FROM (SELECT request FROM turns WHERE user_id = ? ORDER BY received DESC LIMIT ?)
    WHERE {NOT_SCHEDULED} AND json_extract(request, '$.room') = ''"""
    return state.execute(query, (user, MAX_RECENT_TURNS)).fetchall()


def find_room_address(state: sqlite3.Connection, room: str) -> tuple[str, str] | None:
    """Find channel and address of the latest message in a room."""
    query = f"""
    SELECT {REQUEST_ADDRESS} FROM turns JOIN sessions ON sessions.id = turns.session_id
    WHERE sessions.room = ? AND {NOT_SCHEDULED} ORDER BY turns.number DESC LIMIT 1"""
    found: tuple[str, str] | None = state.execute(query, (room,)).fetchone()
    return found


def find_session_address(state: sqlite3.Connection, session: str) -> tuple[str, str] | None:
    """Find channel and address of the latest message in a session."""
    query = f"""
    SELECT {REQUEST_ADDRESS} FROM turns
    WHERE session_id = ? AND json_extract(request, '$.address') != '' ORDER BY number DESC LIMIT 1"""
    found: tuple[str, str] | None = state.execute(query, (session,)).fetchone()
    return found


def list_used_channels(state: sqlite3.Connection, user: str, channels: Collection[str]) -> list[str]:
    """List those of the channels on which a user has a private session, the last used first."""
    query = """
    SELECT channel FROM sessions WHERE user_id = ? AND room = '' AND channel IN (SELECT value FROM json_each(?))
    GROUP BY channel ORDER BY max(used) DESC"""
    return fetch_column(state, query, user, json.dumps(list(channels)))
