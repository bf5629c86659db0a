"""The status report for each reader."""

from datetime import timedelta

from event_rows import ALICE, BOB, NOON, make_event, record_events
from foreword.events.event import EventType, Level, Reader
from foreword.events.query import query_log
from foreword.events.status import MAX_ERRORS, MAX_SESSIONS, find_status
from foreword.types import Trust

RECEIVED, SENT = EventType.MESSAGE_RECEIVED, EventType.MESSAGE_SENT
DAY = 60 * 24


def look(folder, reader):
    """Return the status for a reader at noon."""
    status, _ = query_log(str(folder), lambda log: find_status(log, reader, NOON))
    return status


def channels(folder, reader):
    """Return the channels that a reader sees: name, minutes since the last message, errors."""
    return [
        (one.name, one.last_message and (NOON - one.last_message).total_seconds() / 60, one.errors)
        for one in look(folder, reader).channels
    ]


def test_channels(tmp_path):
    """A reader of everything sees every channel; other readers see their channels of the last day."""
    record_events(
        str(tmp_path),
        make_event(RECEIVED, -9 * DAY, channel="signal", user="carol", trust=Trust.FULL),
        make_event(RECEIVED, -9 * DAY, channel="email", user="bob"),
        make_event(RECEIVED, -30, channel="web", user="bob"),
        make_event(SENT, -20, channel="web", user="bob"),
        make_event(SENT, -10, channel="web", user="carol"),
        make_event(EventType.API_ERROR, -9, channel="web", user="carol", level=Level.ERROR),
        make_event(EventType.API_ERROR, -8, channel="cron", user="bob", level=Level.ERROR),
        make_event(EventType.API_ERROR, -2 * DAY, channel="cron", user="bob", level=Level.ERROR),
        make_event(EventType.API_ERROR, -7, channel="cron", user="bob", level=Level.WARN),
    )
    assert channels(tmp_path, ALICE) == [
        ("cron", None, 1),
        ("email", 9 * DAY, 0),
        ("signal", 9 * DAY, 0),
        ("web", 10, 1),
    ]
    assert channels(tmp_path, BOB) == [("cron", None, 1), ("web", 20, 0)]
    assert channels(tmp_path, Reader(user="carol", clearance=Trust.FAMILIAR)) == [("web", 10, 1)]
    assert channels(tmp_path, Reader(user="", clearance=Trust.INNER)) == []


def test_in_a_room(tmp_path):
    """In a room only the room's events count, even at full trust."""
    record_events(
        str(tmp_path),
        make_event(RECEIVED, -3, channel="web", user="bob", session="s1"),
        make_event(RECEIVED, -2, channel="signal", user="bob", room="kitchen", session="s2"),
        make_event(RECEIVED, -1, channel="signal", user="carol", room="kitchen", session="s3"),
        make_event(EventType.TURN_STARTED, -3, channel="web", user="bob", session="s1"),
        make_event(EventType.TURN_STARTED, -2, channel="signal", user="bob", room="kitchen", session="s2"),
        make_event(EventType.TURN_STARTED, -1, channel="signal", user="carol", room="kitchen", session="s3"),
    )
    full = Reader(user="alice", clearance=Trust.FULL, room="kitchen")
    assert channels(tmp_path, full) == [("signal", 1, 0)]
    assert [one.id for one in look(tmp_path, full).latest] == ["s3", "s2"]
    bob = Reader(user="bob", clearance=Trust.FAMILIAR, room="kitchen")
    assert channels(tmp_path, bob) == [("signal", 2, 0)]
    assert [one.id for one in look(tmp_path, bob).latest] == ["s2"]


def test_sessions(tmp_path):
    """Sessions of the last day are counted, and the most recent ones are named."""
    events = [make_event(EventType.TURN_STARTED, -at, session=f"s{at}") for at in range(1, 12)]
    record_events(
        str(tmp_path), *events, make_event(EventType.TURN_STARTED, -2 * DAY, session="old"), make_event(minutes=-1)
    )
    status = look(tmp_path, ALICE)
    assert status.sessions == 11
    assert [one.id for one in status.latest] == [f"s{at}" for at in range(1, MAX_SESSIONS + 1)]


def test_the_newest_errors(tmp_path):
    """The ten newest errors are listed, without warnings."""
    record_events(
        str(tmp_path),
        *(make_event(EventType.TOOL_ERROR, -at, level=Level.ERROR, error=f"e{at}") for at in range(1, 15)),
        make_event(EventType.TOOL_ERROR, 0, level=Level.WARN, error="w"),
    )
    assert [record.error for record in look(tmp_path, ALICE).errors] == [f"e{at}" for at in range(1, MAX_ERRORS + 1)]
    assert look(tmp_path, BOB).errors == ()


def test_nothing_yet(tmp_path):
    """Without a log the report is empty and still covers the last day."""
    status = look(tmp_path / "none", ALICE)
    assert (status.channels, status.sessions, status.latest, status.errors) == ((), 0, (), ())
    assert status.since == NOON - timedelta(days=1)
