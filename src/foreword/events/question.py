"""Questions to the log: which events there were, and what a turn did, never beyond what the reader may see."""

import heapq
import re
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from foreword.errors import InputError
from foreword.events.event import EventType, Reader
from foreword.events.filter import EVERYTHING, Filter
from foreword.events.moment import Period, read_stamp, stamp, write_end
from foreword.events.record import SELECTED, Record, read_record
from foreword.events.visible import visible
from foreword.frozen import frozen
from foreword.words import Trust

MOST = 1_000  # events of one answer, whatever somebody asks for
STEPS = 2_000  # events of one turn that are shown
LOOK = 200  # rows of an index that are looked at to see which way is the shorter one
SHORTEST = 6  # digits of a turn's id that people write
TURN = re.compile(rf"[0-9a-f]{{{SHORTEST},32}}")


@frozen(eq=True)
class Found:
    """What a question found."""

    records: tuple[Record, ...]
    left: datetime | None = None
    """When the next one happened that fits and is not here, or None where all are here."""
    notice: str = ""
    """What was not done as asked."""

    def find_rest(self, shown: int, wanted: Filter) -> str:
        """Find where the page after the first few begins, as `until` takes it; nothing where there is no more.

        The end of a period does not belong to it, and the next event does. Of several events at one moment some may be
        shown already, on this page or on those before.
        """
        left = self.records[shown].time if shown < len(self.records) else self.left
        if left is None:
            return ""
        until = left + timedelta(microseconds=1)
        before = wanted.period.told if wanted.period.until == until else 0
        return write_end(until, before + sum(record.time == left for record in self.records[:shown]))


NOTHING = Found(records=())


FLAGGED = "level IN ('warn', 'error')"  # literally what the partial indexes say, else they are not used
INDEXES = {
    "session_id": "idx_events_session",
    "level": "idx_events_error",
    "event_type": "idx_events_type",
    "user_id": "idx_events_user",
    "channel": "idx_events_channel",
    "room": "idx_events_room",
}


@frozen(eq=True)
class Way:
    """One way to the rows in the order of time: an index, and the conditions that lead through it."""

    index: str
    terms: tuple[str, ...] = ()
    values: tuple[str, ...] = ()

    @classmethod
    def by(cls, column: str, value: str) -> "Way":
        """Make the way to the rows with a value in a column."""
        partial = (FLAGGED,) if column == "level" else ()
        return cls(index=INDEXES[column], terms=(*partial, f"{column} = ?"), values=(value,))


def find_events(connection: sqlite3.Connection, reader: Reader, wanted: Filter = EVERYTHING) -> Found:
    """Find the newest events that fit and that the reader may see, the newest first."""
    limit = min(wanted.limit, MOST)
    where, values = make_condition(reader, wanted)
    walks = [walk(connection, way, where, values) for way in choose_ways(connection, reader, wanted)]
    # Each walk is in order, so the newest of all are found without going further on any than is shown.
    merged = heapq.merge(*walks, key=lambda row: (row[1], row[0]), reverse=True)
    told = wanted.period.told
    rows = list(islice(merged, told, told + limit + 1))
    capped = f"one answer holds {MOST:,} events at most, so not {wanted.limit:,}" if limit < wanted.limit else ""
    return make_found(rows, limit, capped)


def make_condition(reader: Reader, wanted: Filter) -> tuple[str, list[Any]]:
    """Make the condition that a row fulfils: it is the reader's to see, and fits."""
    columns = {
        "session_id": wanted.session,
        "user_id": wanted.user,
        "channel": wanted.channel,
        "event_type": wanted.type,
    }
    terms = [f"{column} = ?" for column, value in columns.items() if value]
    values: list[Any] = [value for value in columns.values() if value]
    if wanted.levels:
        terms.append(f"level IN ({', '.join('?' * len(wanted.levels))})")
        values += wanted.levels
    within, ends = make_bounds(wanted)
    # These stand first in a row, before what may be long; most rows that do not fit are known by them.
    where, own = visible(reader)
    return " AND ".join([*terms, *within, where]), [*values, *ends, *own]


def make_bounds(wanted: Filter) -> tuple[list[str], list[str]]:
    """Make the conditions on the time alone."""
    bounds = [(">=", wanted.period.since), ("<", wanted.period.until)]
    return [f"timestamp {sign} ?" for sign, end in bounds if end], [stamp(end) for _, end in bounds if end]


def choose_ways(connection: sqlite3.Connection, reader: Reader, wanted: Filter) -> Sequence[Way]:
    """Choose the shortest way to the rows, as far as a look at the indexes tells; several ways are walked together.

    All ways go back through the same time, so the one with the fewest rows in it is the shortest, however far back the
    last row is that is wanted.
    """
    options = list_ways(reader, wanted)
    if len(options) == 1:
        return options[0]
    return min(options, key=lambda ways: measure(connection, ways, wanted))


def list_ways(reader: Reader, wanted: Filter) -> list[Sequence[Way]]:
    """List the ways that there are, the one to take first where none is shorter; all of time is the last resort."""
    bound = reader.clearance is not Trust.FULL
    keys = {"session_id": wanted.session, "channel": wanted.channel, "room": reader.room}
    options: list[Sequence[Way]] = []
    if bound or wanted.user:
        # The reader's own name comes first: how long an answer takes must not tell how much there is of others.
        name = reader.user if bound else wanted.user
        if wanted.levels:
            options.append([Way(index="idx_events_own_error", terms=(FLAGGED, "user_id = ?"), values=(name,))])
        options.append([Way.by("user_id", name)])
    options += [[Way.by(column, value)] for column, value in keys.items() if value]
    if wanted.levels:
        options.append([Way.by("level", level) for level in wanted.levels])
    if wanted.type:
        options.append([Way.by("event_type", wanted.type)])
    return options or [[Way(index="idx_events_time")]]


def measure(connection: sqlite3.Connection, ways: Sequence[Way], wanted: Filter) -> tuple[str, int]:
    """Measure how dense ways are: the time back to which so many rows reach, or nothing and the rows if they are few.

    Only the indexes are read.
    """
    within, ends = make_bounds(wanted)
    reach, rows = "", 0
    for way in ways:
        where = " AND ".join([*way.terms, *within]) or "1"
        inner = (
            f"SELECT timestamp FROM events INDEXED BY {way.index} WHERE {where} ORDER BY timestamp DESC LIMIT {LOOK}"
        )
        query = f"SELECT count(*), min(timestamp) FROM ({inner})"
        count, oldest = connection.execute(query, [*way.values, *ends]).fetchone()
        rows += count
        reach = max(reach, oldest) if count == LOOK else reach
    return reach, rows


def walk(connection: sqlite3.Connection, way: Way, where: str, values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Walk the rows of a way that fulfil a condition, the newest first, as far as somebody reads."""
    terms = " AND ".join([*way.terms, where])
    return connection.execute(
        f"SELECT {SELECTED} FROM events INDEXED BY {way.index} WHERE {terms} ORDER BY timestamp DESC, id DESC",
        [*way.values, *values],
    )


def sum_channels(connection: sqlite3.Connection, reader: Reader, wanted: Filter) -> dict[str, tuple[int, datetime]]:
    """Find for each channel how many events fit that the reader may see, and when the newest of them was."""
    where, values = make_condition(reader, wanted)
    found: dict[str, tuple[int, datetime]] = {}
    for way in choose_ways(connection, reader, wanted):
        terms = " AND ".join([*way.terms, where, "channel IS NOT NULL"])
        rows = connection.execute(
            f"SELECT channel, count(*), max(timestamp) FROM events INDEXED BY {way.index} WHERE {terms} GROUP BY 1",
            [*way.values, *values],
        )
        for channel, count, newest in rows:
            known = found.get(channel, (0, read_stamp(newest)))
            found[channel] = (known[0] + count, max(known[1], read_stamp(newest)))
    return found


def find_later(connection: sqlite3.Connection, reader: Reader, wanted: Filter, last: int) -> list[Record]:
    """Find what was written after a row and fits, in the order in which it was written."""
    where, values = make_condition(reader, wanted)
    rows = connection.execute(
        f"SELECT {SELECTED} FROM events NOT INDEXED WHERE id > ? AND {where} ORDER BY id LIMIT {MOST}", [last, *values]
    )
    return [read_record(row) for row in rows]


def find_last_id(connection: sqlite3.Connection) -> int:
    """Find the number of the newest row, whosever it is: where `find_later` begins, and never shown."""
    (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM events").fetchone()
    return int(last)


def find_trace(connection: sqlite3.Connection, reader: Reader, turn: str) -> Found:
    """Find the events of a turn by the beginning of its id, the oldest first; of another's turn there are none."""
    prefix = turn.strip().lower()
    if not TURN.fullmatch(prefix):
        raise InputError(f"a turn is named by its id or the first {SHORTEST} digits or more of it, such as 3f2a9c")
    where, values = visible(reader)
    # No digit sorts as high as a g, so this is every id that begins so.
    span = f"trace_id >= ? AND trace_id < ? AND {where}"
    given = [prefix, f"{prefix}g", *values]
    source = "FROM events INDEXED BY idx_events_trace WHERE"
    ids = [each for (each,) in connection.execute(f"SELECT DISTINCT trace_id {source} {span} LIMIT 4", given)]
    if len(ids) > 1:
        raise InputError(f"several turns begin so; write more of the id: {', '.join(sorted(ids)[:3])}")
    if not ids:
        return NOTHING
    rows = connection.execute(
        f"SELECT {SELECTED} {source} trace_id = ? AND {where} ORDER BY timestamp, id LIMIT {STEPS + 1}", [*ids, *values]
    ).fetchall()
    longer = f"the turn has more than {STEPS:,} events; the first ones are shown" if len(rows) > STEPS else ""
    return make_found(rows, STEPS, longer)


def find_turn_at(connection: sqlite3.Connection, reader: Reader, moment: datetime) -> str:
    """Find the id of the turn that was sent last at a moment, of those that the reader may see, or nothing."""
    until = moment + timedelta(microseconds=1)
    wanted = Filter(type=EventType.PROMPT_BUILT.value, period=Period(until=until), limit=1)
    return "".join(record.trace for record in find_events(connection, reader, wanted).records)


def make_found(rows: Sequence[Sequence[Any]], limit: int, notice: str) -> Found:
    """Make an answer of rows, of which there is one too many where more fit."""
    records = [read_record(row) for row in rows]
    left = records[limit].time if len(records) > limit else None
    return Found(records=tuple(records[:limit]), left=left, notice=notice)
