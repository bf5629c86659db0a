"""Schedules as rows of the state: kept, listed, changed, and claimed when they are due."""

import json
import re
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from foreword.config.scheduling import Missed
from foreword.errors import Forbidden, InputError
from foreword.frozen import frozen
from foreword.gateway.moment import read_moment, write_moment
from foreword.gateway.owner import is_dead
from foreword.gateway.schedule.due import Kind, Timing, find_next
from foreword.words import Delivery, Trust, Word

COLUMNS = (
    "id, name, origin, agent, user_id, kind, moment, zone, say, delivery, channel, address, room, situation, clearance,"
    " missed, created, due, ran, note, state"
)
PLACES = ", ".join("?" * len(COLUMNS.split(",")))
LEASE = timedelta(seconds=30)
AHEAD = timedelta(days=1)  # a run further in the future than this was counted by a clock that was wrong
SITUATION = "system"
LONGEST_TITLE = 24
WORD = re.compile(r"\w+")


class Origin(Word):
    """Whose word a schedule is."""

    CONFIG = "config"
    """It stands in foreword.yaml."""
    PERSON = "person"
    """Somebody made it at the shell."""
    AGENT = "agent"
    """The agent made it, for the one who asked."""


class Standing(Word):
    """Whether a schedule runs again."""

    WAITING = "waiting"
    OVER = "over"


@frozen(eq=True)
class Destination:
    """Where replies go: a room, an address, or, where nothing is named, the last private address of the user."""

    channel: str = ""
    address: str = ""
    room: str = ""


@frozen(eq=True)
class Schedule:
    """Something that an agent is told when it is due, in the name of whoever made it."""

    id: str
    name: str
    origin: Origin
    agent: str
    user: str
    timing: Timing
    say: str
    delivery: Delivery
    to: Destination
    clearance: Trust
    """That at which it was made: no run has more."""
    missed: Missed
    created: datetime
    due: datetime | None = None
    ran: datetime | None = None
    """Up to when everything has been seen to: no run is of an earlier moment."""
    note: str = ""
    """Why the newest run did not come about."""
    state: Standing = Standing.WAITING

    @property
    def title(self) -> str:
        """Its name, else one made from what it says, which is shown and never kept."""
        return self.name or shorten_title(self.say) or str(self.timing.kind)


def shorten_title(say: str) -> str:
    """Make a short name of what a schedule says."""
    return shorten("-".join(WORD.findall(say.lower())))


def shorten(name: str) -> str:
    """Leave out the last words of a long name."""
    return name if len(name) <= LONGEST_TITLE else name[: LONGEST_TITLE + 1].rpartition("-")[0] or name[:LONGEST_TITLE]


def write_row(schedule: Schedule) -> tuple[object, ...]:
    """Write a schedule as a row."""
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
        SITUATION,
        int(schedule.clearance),
        str(schedule.missed),
        write_moment(schedule.created),
        schedule.due.timestamp() if schedule.due else None,
        schedule.ran.timestamp() if schedule.ran else None,
        schedule.note,
        str(schedule.state),
    )


def read_schedule(row: Sequence[object]) -> Schedule:
    """Read a row."""
    key, name, origin, agent, user, kind, moment, zone, say, delivery, channel, address, room, *rest = row
    _, clearance, missed, created, due, ran, note, state = rest
    return Schedule(
        id=str(key),
        name=str(name),
        origin=Origin(origin),
        agent=str(agent),
        user=str(user),
        timing=Timing(kind=Kind(kind), moment=str(moment), zone=str(zone)),
        say=str(say),
        delivery=Delivery(delivery),
        to=Destination(channel=str(channel), address=str(address), room=str(room)),
        clearance=Trust(int(str(clearance))),
        missed=Missed(missed),
        created=read_moment(str(created)),
        due=read_seconds(due),
        ran=read_seconds(ran),
        note=str(note),
        state=Standing(state),
    )


def read_seconds(seconds: object) -> datetime | None:
    """Read the seconds since 1970."""
    return None if seconds is None else datetime.fromtimestamp(float(str(seconds)), UTC)


def put(state: sqlite3.Connection, schedule: Schedule) -> None:
    """Keep a schedule; one of the same id is replaced."""
    state.execute(f"INSERT OR REPLACE INTO schedules ({COLUMNS}) VALUES ({PLACES})", write_row(schedule))


def find_all(state: sqlite3.Connection, user: str = "") -> list[Schedule]:
    """List the schedules of a person, or all of them, those that are due first first."""
    asked = f"SELECT {COLUMNS} FROM schedules WHERE user_id = ?1 OR ?1 = '' ORDER BY state DESC, due, id"
    return [read_schedule(row) for row in state.execute(asked, (user,))]


def get(state: sqlite3.Connection, key: str) -> Schedule | None:
    """Get a schedule by its id."""
    row = state.execute(f"SELECT {COLUMNS} FROM schedules WHERE id = ?", (key,)).fetchone()
    return read_schedule(row) if row else None


def find_named(state: sqlite3.Connection, which: str, user: str = "") -> Schedule:
    """Find a schedule by its id or name; that of another is not told from one that does not exist."""
    found = [one for one in find_all(state, user) if which in (one.id, one.title)]
    if not found:
        raise InputError(f"there is no schedule {which[:60]!r}")
    if len(found) > 1:
        raise InputError(f"several schedules are called {which[:60]!r}; name one by its id")
    return found[0]


def cancel(state: sqlite3.Connection, schedule: Schedule) -> None:
    """Let a schedule run no more; one of the configuration is taken out there."""
    if schedule.origin is Origin.CONFIG:
        raise Forbidden(f"the schedule {schedule.name!r} stands in foreword.yaml; it is taken out there")
    state.execute("DELETE FROM schedules WHERE id = ?", (schedule.id,))


def find_due(schedule: Schedule, now: datetime) -> datetime | None:
    """Find when a schedule is due next, by the clock of now; a run that was is not repeated when clocks go back."""
    ran = schedule.ran if schedule.ran and schedule.ran - now < AHEAD else None
    return find_next(schedule.timing, max(now, ran) if ran else now)


def claim(state: sqlite3.Connection, now: datetime, owner: str) -> list[Schedule]:
    """Claim what is due and nobody else fires; who dies meanwhile leaves it to the next."""
    asked = "SELECT DISTINCT lease_owner FROM schedules WHERE lease_owner != '' AND lease_owner != ?"
    dead = json.dumps([one for (one,) in state.execute(asked, (owner,)).fetchall() if is_dead(one)])
    rows = state.execute(
        "UPDATE schedules SET lease_owner = ?, lease_until = ? WHERE state = 'waiting' AND due <= ?"
        " AND (lease_owner IN ('', ?) OR lease_until < ? OR lease_owner IN (SELECT value FROM json_each(?)))"
        f" RETURNING {COLUMNS}",
        (owner, (now + LEASE).timestamp(), now.timestamp(), owner, now.timestamp(), dead),
    ).fetchall()
    return sorted(map(read_schedule, rows), key=lambda one: (one.due or now, one.id))


def settle(state: sqlite3.Connection, schedule: Schedule, owner: str, now: datetime, note: str = "") -> None:
    """Write down that what was due has been seen to, and when it is due next."""
    assert schedule.due is not None
    seen = max(now, schedule.due)
    following = find_next(schedule.timing, seen)
    state.execute(
        "UPDATE schedules SET due = ?, ran = ?, note = ?, state = ?, lease_owner = '', lease_until = 0"
        " WHERE id = ? AND lease_owner = ?",
        (
            following.timestamp() if following else None,
            seen.timestamp(),
            note,
            str(Standing.WAITING if following else Standing.OVER),
            schedule.id,
            owner,
        ),
    )


def wind(state: sqlite3.Connection, now: datetime) -> None:
    """Find anew when everything is due, after a clock was put back: what is due sooner by it is due sooner."""
    for schedule in find_all(state):
        following = find_due(schedule, now)
        if schedule.state is Standing.WAITING and following and schedule.due and following < schedule.due:
            state.execute("UPDATE schedules SET due = ? WHERE id = ?", (following.timestamp(), schedule.id))
