"""How things are: channels with their last message and their errors, sessions, and the newest errors."""

import sqlite3
from collections.abc import Iterator
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from foreword.events.event import EventType, Level, Reader
from foreword.events.filter import Filter
from foreword.events.line import count, show_line, show_time, show_word
from foreword.events.moment import Period
from foreword.events.question import count_by_channel, find_events
from foreword.events.record import Record
from foreword.events.totals import sum_by
from foreword.frozen import frozen

RECENT = timedelta(days=1)  # what errors and sessions are counted in
ERRORS = 10  # the newest errors that are shown
LATELY = 200  # events in which the sessions that moved last are looked for
SESSIONS = 5  # sessions that are shown


@frozen(eq=True)
class Channel:
    """One channel, as far as the reader may know of it."""

    name: str
    last_message: datetime | None
    errors: int
    """Errors of the last day."""


@frozen(eq=True)
class Session:
    """One session that moved lately."""

    id: str
    agent: str
    channel: str
    last: datetime


@frozen(eq=True)
class Status:
    """How things are at one moment."""

    since: datetime
    """The beginning of what is counted."""
    channels: tuple[Channel, ...]
    sessions: int
    """Sessions with a turn or a call since then; those beyond a thousand are not counted."""
    latest: tuple[Session, ...]
    errors: tuple[Record, ...]


def find_status(connection: sqlite3.Connection, reader: Reader, now: datetime) -> Status:
    """Find how things are for a reader."""
    period = Period(since=now - RECENT)
    return Status(
        since=now - RECENT,
        channels=tuple(find_channels(connection, reader, period)),
        sessions=sum(bool(total.name) for total in sum_by(connection, reader, "session", now - RECENT, now)),
        latest=tuple(find_sessions(connection, reader)),
        errors=find_events(connection, reader, Filter(level=Level.ERROR, limit=ERRORS)).records,
    )


def find_channels(connection: sqlite3.Connection, reader: Reader, period: Period) -> Iterator[Channel]:
    """Find the channels that the reader has messages or errors in."""
    errors = count_by_channel(connection, reader, Filter(level=Level.ERROR, period=period))
    for name in list_channels(connection):
        messages = [
            record.time
            for kind in (EventType.MESSAGE_RECEIVED, EventType.MESSAGE_SENT)
            for record in find_events(connection, reader, Filter(channel=name, type=kind.value, limit=1)).records
        ]
        if messages or name in errors:
            yield Channel(name=name, last_message=max(messages, default=None), errors=errors.get(name, 0))


def list_channels(connection: sqlite3.Connection) -> list[str]:
    """List every channel there is, whosever it is, by one step through the index for each."""
    names: list[str] = []
    step = "SELECT min(channel) FROM events INDEXED BY idx_events_channel WHERE channel > ?"
    (name,) = connection.execute(step, [""]).fetchone()
    while name is not None:
        names.append(name)
        (name,) = connection.execute(step, [name]).fetchone()
    return names


def find_sessions(connection: sqlite3.Connection, reader: Reader) -> list[Session]:
    """Find the sessions that moved last."""
    found: dict[str, Session] = {}
    for record in find_events(connection, reader, Filter(limit=LATELY)).records:
        if record.session and record.session not in found:
            found[record.session] = Session(
                id=record.session, agent=record.agent, channel=record.channel, last=record.time
            )
    return list(found.values())[:SESSIONS]


def show_status(status: Status, zone: ZoneInfo) -> Iterator[str]:
    """Show how things are, in lines for a model to read."""
    yield f"since {show_time(status.since, zone)} ({zone.key}):"
    for channel in status.channels:
        last = show_time(channel.last_message, zone) if channel.last_message else "none"
        yield f"channel {show_word(channel.name)}: last message {last}, {count(channel.errors, 'error')}"
    if not status.channels:
        yield "no message in any channel"
    yield f"{count(status.sessions, 'session')} active"
    for session in status.latest:
        where = f" on {show_word(session.channel)}" if session.channel else ""
        yield f"session {show_word(session.id)}{where}: last activity {show_time(session.last, zone)}"
    yield f"last {count(len(status.errors), 'error')}:" if status.errors else "no error is recorded"
    yield from (f"{show_time(record.time, zone)} {show_line(record)}" for record in status.errors)
