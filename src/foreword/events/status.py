"""Status: channels with last message and errors, active sessions, newest errors, and outcomes of failed turns."""

import sqlite3
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import product
from zoneinfo import ZoneInfo

from foreword.events.event import EventType, Level, Reader, build_visibility_condition, sees_all
from foreword.events.lines import SHORT_ID_DIGITS, list_parts, show_count_of, show_line, show_time, show_word
from foreword.events.period import Period
from foreword.events.query import Filter, count_by_channel, find_events
from foreword.events.record import RECORD_SELECT, Record, read_record
from foreword.events.totals import list_sessions
from foreword.types import frozen

MAX_TURNS = 20  # turns in one answer
MAX_ROWS = 50  # rows of one turn; each attempt and each delivery has one
COMPLETED, SENT = EventType.TURN_COMPLETED.value, EventType.MESSAGE_SENT.value
OUTCOME_FACTS = ("outcome", "calls_refused", "turns_before", "minutes_before")
ERROR_TYPES = tuple(kind.value for kind in EventType if kind.value.endswith("_error"))


def selects_errors(query: Filter) -> bool:
    """Return whether a filter selects warnings or errors, so that its result lacks the rows that follow."""
    return query.is_flagged or query.type in ERROR_TYPES


def describe_outcomes(
    connection: sqlite3.Connection, reader: Reader, records: Iterable[Record], zone: ZoneInfo
) -> list[str]:
    """Describe the outcomes of the turns of some records that the reader may see, one line per turn."""
    turns = list(dict.fromkeys(record.trace for record in records if record.trace and record.session))[:MAX_TURNS]
    found = ((turn, "; ".join(list_outcome_steps(connection, reader, turn, zone))) for turn in turns)
    return [f"turn {turn[:SHORT_ID_DIGITS]}: {steps}" for turn, steps in found if steps]


def list_outcome_steps(connection: sqlite3.Connection, reader: Reader, turn: str, zone: ZoneInfo) -> Iterator[str]:
    """List the attempts of a turn and the delivery of its reply. A message before the reply is a delay notice."""
    where, values = build_visibility_condition(reader)
    rows = connection.execute(
        f"SELECT {RECORD_SELECT} FROM events INDEXED BY idx_events_trace WHERE trace_id = ? "
        f"AND event_type IN ('{COMPLETED}', '{SENT}') AND {where} ORDER BY timestamp DESC, id DESC LIMIT {MAX_ROWS}",
        [turn, *values],
    ).fetchall()
    steps = [read_record(row) for row in reversed(rows)]
    attempts = [step for step in steps if step.type == COMPLETED]
    for attempt in attempts:
        if facts := {name: attempt.facts[name] for name in OUTCOME_FACTS if name in attempt.facts}:
            yield f"{show_time(attempt.time, zone)} {' '.join(list_parts(facts))}"
    last = attempts[-1] if attempts else None
    if last and "outcome" not in last.facts:
        tries = f" on attempt {len(attempts)}" if len(attempts) > 1 else ""
        yield f"{show_time(last.time, zone)} answered{tries}"
        sent = [step.time for step in steps if step.type == SENT and step.time >= last.time]
        yield f"{show_time(sent[-1], zone)} delivered" if sent else "not delivered yet"
    elif last and last.facts["outcome"] == "queued":
        yield "not answered yet"


STATUS_PERIOD = timedelta(days=1)  # the period for errors and sessions
MAX_ERRORS = 10  # newest errors to show
MAX_CANDIDATE_SESSIONS = 50  # recent sessions to consider when the newest are selected
MAX_SESSIONS = 5  # sessions to show
MESSAGE_TYPES = (EventType.MESSAGE_RECEIVED.value, EventType.MESSAGE_SENT.value)


@frozen(eq=True)
class ChannelStatus:
    """One channel, limited to what the reader may see."""

    name: str
    last_message: datetime | None
    errors: int  # errors of the last day


@frozen(eq=True)
class ActiveSession:
    """One recently active session."""

    id: str
    agent: str
    channel: str
    last: datetime


@frozen(eq=True)
class Status:
    """The status at one time."""

    since: datetime  # the start of the counted period
    channels: tuple[ChannelStatus, ...]
    sessions: int  # sessions with a turn or a call in the period
    latest: tuple[ActiveSession, ...]  # the most recently active of them
    errors: tuple[Record, ...]


def find_status(connection: sqlite3.Connection, reader: Reader, now: datetime) -> Status:
    """Return the status for a reader."""
    since = now - STATUS_PERIOD
    # Totals are stored per quarter-hour, so whole ones are fast to add.
    since = since.replace(minute=since.minute // 15 * 15, second=0, microsecond=0)
    names, count = list_sessions(connection, reader, since, MAX_CANDIDATE_SESSIONS)
    latest = [
        ActiveSession(id=name, agent=record.agent, channel=record.channel, last=record.time)
        for name in names
        for record in find_events(connection, reader, Filter(session=name, limit=1)).records
    ]
    latest = sorted(latest, key=lambda session: session.last, reverse=True)[:MAX_SESSIONS]
    channels = tuple(find_channels(connection, reader, Period(since=since)))
    errors = find_events(connection, reader, Filter(level=Level.ERROR, limit=MAX_ERRORS)).records
    return Status(since=since, channels=channels, sessions=count, latest=tuple(latest), errors=errors)


def find_channels(connection: sqlite3.Connection, reader: Reader, period: Period) -> Iterator[ChannelStatus]:
    """Find the channels with messages or errors that the reader may see."""
    errors = count_by_channel(connection, reader, Filter(level=Level.ERROR, period=period))
    # For a limited reader an old message could be many rows away, so only the period is searched.
    if sees_all(reader):
        pairs = product(list_channels(connection), MESSAGE_TYPES)
        found = (find_events(connection, reader, Filter(channel=name, type=kind, limit=1)) for name, kind in pairs)
        messages = [(record.channel, record.time) for page in found for record in page.records]
    else:
        sums = (count_by_channel(connection, reader, Filter(type=kind, period=period)) for kind in MESSAGE_TYPES)
        messages = [(name, newest) for each in sums for name, (_, newest) in each.items()]
    for name in sorted({name for name, _ in messages} | errors.keys()):
        last = max((time for channel, time in messages if channel == name), default=None)
        yield ChannelStatus(name=name, last_message=last, errors=errors.get(name, (0, None))[0])


def list_channels(connection: sqlite3.Connection) -> Iterator[str]:
    """List all channels of all users, with one index lookup each."""
    name, step = "", "SELECT min(channel) FROM events INDEXED BY idx_events_channel WHERE channel > ?"
    while name := connection.execute(step, [name]).fetchone()[0]:
        yield name


def show_left_out(status: Status) -> str:
    """Say how many active sessions are not listed, or return an empty string."""
    left = status.sessions - len(status.latest)
    return f", the newest {len(status.latest)} are listed and {left:,} left out" if left > 0 else ""


def show_status(status: Status, zone: ZoneInfo) -> Iterator[str]:
    """Format the status as lines for a model."""
    yield f"since {show_time(status.since, zone)} ({zone.key}):"
    for channel in status.channels:
        last = show_time(channel.last_message, zone) if channel.last_message else "none"
        yield f"channel {show_word(channel.name)}: last message {last}, {show_count_of(channel.errors, 'error')}"
    if not status.channels:
        yield "no message in any channel"
    yield f"{show_count_of(status.sessions, 'session')} active{show_left_out(status)}"
    for session in status.latest:
        where = f" on {show_word(session.channel)}" if session.channel else ""
        yield f"session {show_word(session.id)}{where}: last activity {show_time(session.last, zone)}"
    yield f"last {show_count_of(len(status.errors), 'error')}:" if status.errors else "no error is recorded"
    yield from (f"{show_time(record.time, zone)} {show_line(record)}" for record in status.errors)
