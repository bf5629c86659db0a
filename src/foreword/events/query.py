"""Queries on the event log, limited to rows that the reader may see: by filter, by turn and by name."""

import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, TypeVar

from foreword.errors import InputError, UnknownName, quote_name
from foreword.events.event import EventType, Level, Reader, build_visibility_condition, format_timestamp
from foreword.events.period import ANY_TIME, Period, format_page_end, parse_period
from foreword.events.record import RECORD_SELECT, Record, read_record
from foreword.storage import database
from foreword.types import Trust, frozen

MAX_READ_ATTEMPTS = 2  # reads of a log that may be damaged

T = TypeVar("T")


def query_log(folder: str, query: Callable[[sqlite3.Connection], T]) -> tuple[T, str]:
    """Run a read-only query on one snapshot of a folder's log. Return its result and a note about repairs.

    A missing log reads as empty, and a damaged one is moved aside. The query may run twice.
    """
    note = ""
    for _ in range(MAX_READ_ATTEMPTS):
        seen = database.identify_file(os.path.join(folder, database.EVENTS_FILE))
        opened = open_log(folder)
        note = note or opened.note
        with closing(opened.connection) as connection:
            try:
                connection.execute("BEGIN")
                return query(connection), note
            except sqlite3.DatabaseError as error:
                if not database.is_damage(error):
                    raise InputError(f"the event log cannot be read: {error}; try again") from None
                damage = str(error)
        try:
            note = database.move_damaged_aside(opened.path, seen, damage)
        except (sqlite3.DatabaseError, OSError) as error:
            raise InputError(f"the event log is damaged and cannot be put aside: {error}") from None
    raise InputError("the event log cannot be read: it is damaged and could not be put aside")


def open_log(
    folder: str, open_file: Callable[[str], database.OpenDatabase] = database.read_events
) -> database.OpenDatabase:
    """Open the log, read-only by default. Raise InputError if that is not possible."""
    try:
        return open_file(folder)
    except sqlite3.DatabaseError as error:
        raise InputError(f"the event log cannot be read: {error}; try again") from None
    except OSError as error:
        raise InputError(f"the event log cannot be read: {error.strerror or error}") from None


def lay_out_turn(records: Iterable[Record]) -> Iterator[tuple[int, Record]]:
    """Yield the events of a turn with their depth, parents first. An event without a visible parent is at the top."""
    ordered = sorted(records, key=lambda record: (record.time, record.id))
    owners = {record.span: record.id for record in reversed(ordered) if record.span}
    children: dict[int | None, list[Record]] = {}
    for record in ordered:
        parent = owners.get(record.parent)
        children.setdefault(parent if parent != record.id else None, []).append(record)
    remaining = {record.id: record for record in ordered}
    pending = [(0, record) for record in reversed(children.get(None, []))]
    while remaining:
        if not pending:  # a faulty client sent cyclic ids
            pending = [(0, next(iter(remaining.values())))]
        depth, record = pending.pop()
        if remaining.pop(record.id, None) is not None:
            yield depth, record
            pending += [(depth + 1, child) for child in reversed(children.get(record.id, []))]


DEFAULT_EVENTS = 50  # default number of events in an answer
TEXT_FILTERS = ("session_id", "level", "event_type", "user", "channel", "since", "until")
FILTER_NAMES = (*TEXT_FILTERS, "limit")
LEVELS = tuple(level.value for level in Level)
EVENT_TYPES = (*(kind.value for kind in EventType), "events_lost", "log_replaced")  # the log itself emits the last two


@frozen(eq=True)
class Filter:
    """The conditions of an event query. Empty fields do not restrict it."""

    session: str = ""
    level: Level | None = None  # the lowest level to include
    type: str = ""
    user: str = ""
    channel: str = ""
    period: Period = ANY_TIME
    limit: int = DEFAULT_EVENTS

    @property
    def is_flagged(self) -> bool:
        """Whether only warnings and errors match."""
        return self.level not in (None, Level.INFO)


NO_FILTER = Filter()


def parse_filter(options: Mapping[str, Any], reader: Reader, now: datetime) -> Filter:
    """Parse a filter from command options or tool arguments. Raise InputError with the accepted values."""
    for name in options:
        if name not in FILTER_NAMES:
            raise UnknownName("filter", str(name)[:40], FILTER_NAMES)
    texts = {name: parse_text(name, options.get(name)) for name in TEXT_FILTERS}
    level, kind = texts["level"].lower(), texts["event_type"].lower()
    for name, word, vocabulary in (("level", level, LEVELS), ("event type", kind, EVENT_TYPES)):
        if word and word not in vocabulary:
            raise UnknownName(name, word[:40], vocabulary)
    limit = DEFAULT_EVENTS if options.get("limit") is None else options["limit"]
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise InputError("'limit' must be a whole number from 1 on")
    period = parse_period(texts["since"], texts["until"], now, reader.timezone)
    named = {"session": texts["session_id"], "user": texts["user"], "channel": texts["channel"]}
    return Filter(**named, level=Level(level) if level else None, type=kind, period=period, limit=limit)


def parse_text(name: str, value: object) -> str:
    """Return a string argument; None becomes empty."""
    if value is None:
        return ""
    if not isinstance(value, str) or any("\ud800" <= sign <= "\udfff" for sign in value):
        raise InputError(f"{name!r} must be a text")
    return value


MAX_EVENTS = 1_000  # maximum number of events in an answer
MAX_TURN_EVENTS = 2_000  # maximum number of events of one turn
MIN_TURN_ID_DIGITS = 6  # minimum digits of a turn id
TURN_ID = re.compile(rf"[0-9a-f]{{{MIN_TURN_ID_DIGITS},32}}")


@frozen(eq=True)
class EventPage:
    """The result of a query."""

    records: tuple[Record, ...]
    left: datetime | None = None  # time of the next matching event that is not included, or None
    notice: str = ""  # a message about a limit that was applied

    def find_next_page(self, shown: int, query: Filter) -> str:
        """Return the `until` value of the next page after the first `shown` records, or an empty string.

        Events with the timestamp of the next one may already be shown, so their number is part of the value.
        """
        left = self.records[shown].time if shown < len(self.records) else self.left
        if left is None:
            return ""
        until = left + timedelta(microseconds=1)
        before = query.period.shown if query.period.until == until else 0
        return format_page_end(until, before + sum(record.time == left for record in self.records[:shown]))


NO_EVENTS = EventPage(records=())


# The first condition equals that of the partial indexes, or SQLite does not use them.
FLAGGED_CONDITION = "level IN ('warn', 'error')"
LEVEL_CONDITIONS = {Level.WARN: (FLAGGED_CONDITION,), Level.ERROR: (FLAGGED_CONDITION, "level = 'error'")}
COLUMN_INDEXES = {
    "session_id": "idx_events_session", "event_type": "idx_events_type", "room": "idx_events_room",
    "channel": "idx_events_channel", "user_id": "idx_events_user",
}  # fmt: skip


def build_condition(reader: Reader, query: Filter) -> tuple[str, list[Any]]:
    """Return the SQL condition and parameters for rows that match and that the reader may see."""
    since, until = query.period.since, query.period.until
    terms = {
        "session_id = ?": query.session,
        "user_id = ?": query.user,
        "channel = ?": query.channel,
        "event_type = ?": query.type,
        "timestamp >= ?": since and format_timestamp(since),
        "timestamp < ?": until and format_timestamp(until),
    }
    given = {term: value for term, value in terms.items() if value}
    visible, own = build_visibility_condition(reader)
    levels = LEVEL_CONDITIONS[query.level] if query.level and query.is_flagged else ()
    return " AND ".join([*given, *levels, visible]), [*given.values(), *own]


def choose_index(reader: Reader, query: Filter) -> str:
    """Choose the index for a query. A limited reader has the index by user, so that times reveal no other rows."""
    flagged = query.is_flagged
    if reader.clearance is not Trust.FULL or (query.user and not query.session and not query.type):
        return "idx_events_own_error" if flagged else "idx_events_user"
    if flagged and not query.session:
        return "idx_events_error"
    given = (query.session, query.type, reader.room, query.channel)
    return next(
        (index for index, value in zip(COLUMN_INDEXES.values(), given, strict=False) if value), "idx_events_time"
    )


def find_events(connection: sqlite3.Connection, reader: Reader, query: Filter = NO_FILTER) -> EventPage:
    """Find the newest matching events that the reader may see, newest first."""
    limit = min(query.limit, MAX_EVENTS)
    rows = list(islice(iterate_rows(connection, reader, query), query.period.shown, query.period.shown + limit + 1))
    capped = f"one answer holds {MAX_EVENTS:,} events at most, so not {query.limit:,}" if limit < query.limit else ""
    return build_page(rows, limit, capped)


def iterate_rows(
    connection: sqlite3.Connection, reader: Reader, query: Filter, more: str = "", *values: str
) -> Iterator[Sequence[Any]]:
    """Iterate over the matching visible rows, newest first. `more` is a further condition with its parameters."""
    where, given = build_condition(reader, query)
    index = choose_index(reader, query)
    # The index of errors is sorted by time within one level: two ordered selects are merged without a sort.
    by_level = query.level is Level.WARN and index == "idx_events_error"
    levels = [f"AND level = '{level}'" for level in ("warn", "error")] if by_level else [""]
    selects = [f"SELECT {RECORD_SELECT} FROM events INDEXED BY {index} WHERE {where} {more} {one}" for one in levels]
    sql = f"{' UNION ALL '.join(selects)} ORDER BY timestamp DESC, id DESC"
    return connection.execute(sql, [*given, *values] * len(levels))


def count_by_channel(connection: sqlite3.Connection, reader: Reader, query: Filter) -> dict[str, tuple[int, datetime]]:
    """Return the number of matching visible events and the newest time for each channel."""
    where, values = build_condition(reader, query)
    rows = connection.execute(
        f"SELECT channel, count(*), max(timestamp) FROM events INDEXED BY {choose_index(reader, query)}"
        f" WHERE {where} AND channel IS NOT NULL GROUP BY channel",
        values,
    )
    return {name: (count, datetime.fromisoformat(newest)) for name, count, newest in rows}


def find_events_after(connection: sqlite3.Connection, reader: Reader, query: Filter, last: int) -> list[Record]:
    """Find matching events written after a row id, in the order of writing."""
    where, values = build_condition(reader, query)
    source = f"FROM events NOT INDEXED WHERE id > ? AND {where} ORDER BY id LIMIT {MAX_EVENTS}"
    return [read_record(row) for row in connection.execute(f"SELECT {RECORD_SELECT} {source}", [last, *values])]


def find_last_id(connection: sqlite3.Connection) -> int:
    """Return the newest row id of all users. `find_events_after` starts there; it is never shown."""
    (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM events").fetchone()
    return int(last)


def find_turn_events(connection: sqlite3.Connection, reader: Reader, turn: str) -> EventPage:
    """Find the events of a turn by the prefix of its id, oldest first. Turns of others are not found."""
    prefix = turn.strip().lower()
    if not TURN_ID.fullmatch(prefix):
        raise InputError(f"name a turn by its id or by at least its first {MIN_TURN_ID_DIGITS} digits, such as 3f2a9c")
    where, values = build_visibility_condition(reader)
    # No digit sorts as high as `g`, so this range contains every id with the prefix.
    span = f"trace_id >= ? AND trace_id < ? AND {where}"
    given = [prefix, f"{prefix}g", *values]
    source = "FROM events INDEXED BY idx_events_trace WHERE"
    ids = [each for (each,) in connection.execute(f"SELECT DISTINCT trace_id {source} {span} LIMIT 4", given)]
    if len(ids) > 1:
        raise InputError(f"several turns match; write more of the id: {', '.join(sorted(ids)[:3])}")
    if not ids:
        return NO_EVENTS
    rows = connection.execute(
        f"SELECT {RECORD_SELECT} {source} trace_id = ? AND {where} ORDER BY timestamp, id LIMIT {MAX_TURN_EVENTS + 1}",
        [*ids, *values],
    ).fetchall()
    notice = f"the turn has more than {MAX_TURN_EVENTS:,} events; the first ones are shown"
    return build_page(rows, MAX_TURN_EVENTS, notice if len(rows) > MAX_TURN_EVENTS else "")


def find_turn_at(connection: sqlite3.Connection, reader: Reader, moment: datetime) -> str:
    """Return the id of the last visible turn that was sent before or at a time, or an empty string."""
    until = moment + timedelta(microseconds=1)
    query = Filter(type=EventType.PROMPT_BUILT.value, period=Period(until=until), limit=1)
    return "".join(record.trace for record in find_events(connection, reader, query).records)


def build_page(rows: Sequence[Sequence[Any]], limit: int, notice: str) -> EventPage:
    """Build the result. `rows` has one row more than `limit` if more rows match."""
    records = tuple(map(read_record, rows))
    return EventPage(records=records[:limit], left=records[limit].time if len(records) > limit else None, notice=notice)


PREFIX_END = "\U0010ffff"  # sorts after every id with the same prefix


class NotRecorded(InputError):
    """No such name is recorded, or the reader may not see it. Both cases have the same message."""


def complete_session(connection: sqlite3.Connection, reader: Reader, prefix: str) -> str:
    """Complete the prefix of a session id among the sessions that the reader may see."""
    where, values = build_visibility_condition(reader)
    rows = connection.execute(
        "SELECT DISTINCT session_id FROM events INDEXED BY idx_events_session"
        f" WHERE session_id >= ? AND session_id < ? AND {where} ORDER BY session_id LIMIT 3",
        [prefix, f"{prefix}{PREFIX_END}", *values],
    )
    found: list[str] = [session for (session,) in rows]
    if not found:
        raise NotRecorded(f"no session {quote_name(prefix)} is recorded")
    if prefix not in found and len(found) > 1:
        raise InputError(f"several sessions match; write more of the id: {', '.join(found)}")
    return found[0]  # a complete id sorts before longer ones


def is_recorded(connection: sqlite3.Connection, reader: Reader, column: str, value: str) -> bool:
    """Return whether the reader may see an event with this value."""
    where, values = build_visibility_condition(reader)
    query = f"SELECT 1 FROM events INDEXED BY {COLUMN_INDEXES[column]} WHERE {column} = ? AND {where} LIMIT 1"
    return connection.execute(query, [value, *values]).fetchone() is not None
