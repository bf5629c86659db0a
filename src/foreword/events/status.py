"""How things are: channels with their last message and their errors, sessions, and the newest errors."""

import sqlite3
from collections.abc import Iterator
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from foreword.events.event import EventType, Level, Reader
from foreword.events.filter import Filter
from foreword.events.line import count, show_line, show_time, show_word
from foreword.events.moment import Period
from foreword.events.question import find_events, sum_channels
from foreword.events.record import Record
from foreword.events.totals import count_sessions, list_sessions
from foreword.frozen import frozen
from foreword.words import Trust

RECENT = timedelta(days=1)  # what errors and sessions are counted in
ERRORS = 10  # the newest errors that are shown
CANDIDATES = 50  # sessions of the newest quarters of an hour, among which those with the newest activity are found
SESSIONS = 5  # sessions that are shown
MESSAGES = (EventType.MESSAGE_RECEIVED.value, EventType.MESSAGE_SENT.value)


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
    """Sessions with a turn or a call since then."""
    latest: tuple[Session, ...]
    """Those of them with the newest activity."""
    errors: tuple[Record, ...]


def find_status(connection: sqlite3.Connection, reader: Reader, now: datetime) -> Status:
    """Find how things are for a reader."""
    since = now - RECENT
    # Sums are kept by quarters of an hour, and whole ones are quick to add.
    since = since.replace(minute=since.minute // 15 * 15, second=0, microsecond=0)
    return Status(
        since=since,
        channels=tuple(find_channels(connection, reader, Period(since=since))),
        sessions=count_sessions(connection, reader, since),
        latest=tuple(find_sessions(connection, reader, since)),
        errors=find_events(connection, reader, Filter(level=Level.ERROR, limit=ERRORS)).records,
    )


def find_channels(connection: sqlite3.Connection, reader: Reader, period: Period) -> Iterator[Channel]:
    """Find the channels that the reader has messages or errors in.

    For who sees everything the last message may be of any time: it is the newest on its channel's way. Whose rows lie
    among those of others is told of the period alone, since a message of long ago could be a long way off.
    """
    errors = sum_channels(connection, reader, Filter(level=Level.ERROR, period=period))
    if reader.clearance is Trust.FULL and not reader.room:
        messages = {name: find_last_message(connection, reader, name) for name in list_channels(connection)}
    else:
        sums = [sum_channels(connection, reader, Filter(type=kind, period=period)) for kind in MESSAGES]
        names = {name for each in sums for name in each}
        messages = {name: max(each[name][1] for each in sums if name in each) for name in names}
    for name in sorted(messages.keys() | errors.keys()):
        last, count = messages.get(name), errors.get(name, (0, None))[0]
        if last or count:
            yield Channel(name=name, last_message=last, errors=count)


def find_last_message(connection: sqlite3.Connection, reader: Reader, channel: str) -> datetime | None:
    """Find when the last message came or went on a channel."""
    found = (find_events(connection, reader, Filter(channel=channel, type=kind, limit=1)) for kind in MESSAGES)
    return max((record.time for each in found for record in each.records), default=None)


def list_channels(connection: sqlite3.Connection) -> list[str]:
    """List every channel there is, whosever it is, by one step through the index for each."""
    names: list[str] = []
    step = "SELECT min(channel) FROM events INDEXED BY idx_events_channel WHERE channel > ?"
    (name,) = connection.execute(step, [""]).fetchone()
    while name is not None:
        names.append(name)
        (name,) = connection.execute(step, [name]).fetchone()
    return names


def find_sessions(connection: sqlite3.Connection, reader: Reader, since: datetime) -> list[Session]:
    """Find the sessions with the newest activity."""
    found = [
        Session(id=name, agent=record.agent, channel=record.channel, last=record.time)
        for name in list_sessions(connection, reader, since, CANDIDATES)
        for record in find_events(connection, reader, Filter(session=name, limit=1)).records
    ]
    return sorted(found, key=lambda session: session.last, reverse=True)[:SESSIONS]


def show_left_out(status: Status) -> str:
    """Say how many of the active sessions are not listed; nothing where all are."""
    left = status.sessions - len(status.latest)
    return f", the newest {len(status.latest)} are listed and {left:,} left out" if left > 0 else ""


def show_status(status: Status, zone: ZoneInfo) -> Iterator[str]:
    """Show how things are, in lines for a model to read."""
    yield f"since {show_time(status.since, zone)} ({zone.key}):"
    for channel in status.channels:
        last = show_time(channel.last_message, zone) if channel.last_message else "none"
        yield f"channel {show_word(channel.name)}: last message {last}, {count(channel.errors, 'error')}"
    if not status.channels:
        yield "no message in any channel"
    yield f"{count(status.sessions, 'session')} active{show_left_out(status)}"
    for session in status.latest:
        where = f" on {show_word(session.channel)}" if session.channel else ""
        yield f"session {show_word(session.id)}{where}: last activity {show_time(session.last, zone)}"
    yield f"last {count(len(status.errors), 'error')}:" if status.errors else "no error is recorded"
    yield from (f"{show_time(record.time, zone)} {show_line(record)}" for record in status.errors)
