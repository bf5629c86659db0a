"""The event log as a recorder."""

import os
import sqlite3
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import pytest

from foreword.events.event import Context, Event, EventType, Level, TracePosition, Usage
from foreword.events.log import EventLog, LogLimits
from foreword.storage.database import EVENTS_FILE
from foreword.types import Trust
from waiting import wait

NOW = datetime(2026, 11, 16, 2, 47, 3, 123456, tzinfo=UTC)
QUICK = LogLimits(lock_timeout_s=0.2, retry_delay_s=0.05, close_timeout_s=1.0, write_timeout_s=0.3)
BRIEF = LogLimits(lock_timeout_s=0.05, retry_delay_s=0.02, write_timeout_s=0.05, close_timeout_s=3.0)


def make_event(number: int = 0, level: Level = Level.INFO, **more) -> Event:
    """Make an event with a number among its facts."""
    return Event(type=EventType.TOOL_CALL, time=NOW, level=level, facts={"number": number}, **more)


def ask(folder, query: str, *values):
    """Query the database file directly."""
    connection = sqlite3.connect(os.path.join(folder, EVENTS_FILE))
    rows = connection.execute(query, values).fetchall()
    connection.close()
    return rows


@pytest.fixture
def log(tmp_path):
    """A log in a temporary folder."""
    with EventLog(str(tmp_path), limits=QUICK) as log:
        yield log


def test_row(log, tmp_path):
    """An event is stored with all its fields, its time in UTC, and NULL for missing fields."""
    log.record(
        Event(
            type=EventType.API_CALL,
            time=NOW.astimezone(timezone(timedelta(hours=5, minutes=45))),
            context=Context(trust=Trust.INNER, session="s", agent="reid", user="alice", channel="signal", room="r"),
            position=TracePosition(trace="a" * 32, span="b" * 16),
            duration_ms=120,
            model="anthropic:claude-sonnet-5",
            usage=Usage(tokens_in=5_200, tokens_out=300, cache_read=3_100, cache_write=10),
            cost_usd=0.12,
            prompt_hash="c" * 64,
            facts={"status": "ok", "length": 240},
        )
    )
    assert log.flush()
    (row,) = ask(tmp_path, "SELECT * FROM events")
    assert row == (
        1, "2026-11-16T02:47:03.123456Z", "info", "provider", "s", "reid", "alice", "signal", "api_call", 120, 5_200,
        300, 0.12, None, '{"status":"ok","length":240}', "r", None, 2, "anthropic:claude-sonnet-5", "a" * 32, "b" * 16,
        None, "c" * 64, 3_100, 10,
    )  # fmt: skip


def test_info_is_written_soon(log, tmp_path):
    """An info row reaches the database without a flush."""
    log.record(make_event())
    log.flush()
    log.record(make_event(1))
    wait(lambda: ask(tmp_path, "SELECT count(*) FROM events") == [(2,)])


@pytest.mark.parametrize("level", [Level.WARN, Level.ERROR])
def test_acknowledged(log, tmp_path, level):
    """A warning or an error, and every earlier row, is in the database when `record` returns."""
    for number in range(20):
        log.record(make_event(number))
    log.record(make_event(20, level))
    assert ask(tmp_path, "SELECT count(*) FROM events") == [(21,)]


def test_many_threads(log, tmp_path):
    """Many threads can record at once: no row is lost, and each thread's rows stay in order."""

    def run(thread: int) -> None:
        for number in range(200):
            log.record(make_event(number, Level.ERROR if number % 50 == 49 else Level.INFO, error=str(thread)))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert log.flush(60)
    rows = ask(tmp_path, "SELECT error, json_extract(metadata, '$.number') FROM events ORDER BY id")
    assert len(rows) == 1_600
    for thread in range(8):
        assert [number for error, number in rows if error == str(thread)] == list(range(200))


def run_python(code: str, folder) -> subprocess.Popen:
    """Run a Python program that has a log."""
    program = f"""
import sys
from datetime import UTC, datetime
from foreword.events.event import Event, EventType, Usage
from foreword.events.log import EventLog
log = EventLog(sys.argv[1])
{code}
"""
    return subprocess.Popen([sys.executable, "-c", program, str(folder)])


def test_many_processes(tmp_path):
    """Several processes can create and write the same file at once, and the sums count every row."""
    code = """
for number in range(300):
    log.record(Event(type=EventType.API_CALL, time=datetime(2026, 11, 16, tzinfo=UTC), usage=Usage(tokens_in=1)))
"""
    children = [run_python(code, tmp_path) for _ in range(4)]
    assert [child.wait() for child in children] == [0] * 4
    assert ask(tmp_path, "SELECT count(*) FROM events") == [(1_200,)]
    assert ask(tmp_path, "SELECT calls, tokens_in FROM totals_day WHERE kind = 'all'") == [(1_200, 1_200)]


def test_closed_at_exit(tmp_path):
    """A program that exits without closing the log has its last rows written."""
    code = "log.record(Event(type=EventType.TURN_STARTED, time=datetime(2026, 11, 16, tzinfo=UTC)))"
    assert run_python(code, tmp_path).wait() == 0
    assert ask(tmp_path, "SELECT event_type FROM events") == [("turn_started",)]


def test_nothing_without_events(tmp_path):
    """A log without events creates no file and no thread."""
    before = threading.active_count()
    with EventLog(str(tmp_path / "none")) as log:
        assert log.flush()
        assert threading.active_count() == before
    assert not (tmp_path / "none").exists()


def test_closed(log):
    """Events after close are counted as lost and raise no error."""
    log.record(make_event())
    log.close()
    log.close()
    log.record(make_event())
    log.record(make_event(level=Level.ERROR))
    assert log.lost == 2


def test_impossible_event(log, tmp_path):
    """An invalid event does not fail the turn, and its loss is recorded in the log."""
    log.record(Event(type=EventType.TOOL_CALL, time="now"))
    log.record(make_event())
    assert log.flush()
    assert log.lost == 1
    ((level, category, trust, error),) = ask(
        tmp_path, "SELECT level, category, trust, error FROM events WHERE event_type = 'events_lost'"
    )
    assert (level, category, trust) == ("warn", "log", 3)
    assert error == "1 event was lost: AttributeError in an event"


def test_any_number(log, tmp_path):
    """Any numeric type is accepted as a cost or count; other values are stored as NULL."""
    log.record(
        make_event(cost_usd=Decimal("0.25"), duration_ms=1.5, usage=Usage(tokens_in=Fraction(7, 2), tokens_out="many"))
    )
    log.record(make_event(cost_usd="a lot"))
    assert log.flush()
    assert ask(tmp_path, "SELECT cost_usd, duration_ms, tokens_in, tokens_out FROM events") == [
        (0.25, 1, 3, None),
        (None, None, None, None),
    ]


class Strange(int):
    """A clearance that the database rejects."""

    def __int__(self):
        return 2**70


def test_only_the_bad_row_is_lost(log, tmp_path):
    """If the database rejects one row of a batch, only that row is lost and counted."""
    for number in range(50):
        log.record(make_event(number, context=Context(trust=Strange()) if number == 20 else Context()))
    assert not log.flush()
    log.record(make_event(50, Level.ERROR))
    numbers = ask(tmp_path, "SELECT json_extract(metadata, '$.number') FROM events WHERE event_type = 'tool_call'")
    assert numbers == [(number,) for number in range(51) if number != 20]
    assert log.lost == 1
    ((shown,),) = ask(tmp_path, "SELECT error FROM events WHERE event_type = 'events_lost'")
    assert shown.startswith("1 event was lost: OverflowError in a row")


def test_sums_of_impossible_counts(log, tmp_path):
    """Absurd token counts break neither the writer nor the sums."""
    for _ in range(3):
        call = Event(type=EventType.API_CALL, time=NOW, usage=Usage(tokens_in=2**63 - 1), cost_usd=1e308)
        log.record(call)
        assert log.flush()
    log.record(make_event(level=Level.ERROR))
    assert ask(tmp_path, "SELECT count(*) FROM events") == [(4,)]
    assert ask(tmp_path, "SELECT sum(calls), typeof(sum(tokens_in)) FROM totals_day WHERE kind = 'all'") == [
        (3, "integer")
    ]


def test_closing_has_its_time(tmp_path):
    """Closing retries for its full timeout regardless of earlier locks, and waiting rows are not lost."""
    with EventLog(
        str(tmp_path),
        limits=BRIEF,
    ) as log:
        log.record(make_event(level=Level.ERROR))
        holder = sqlite3.connect(tmp_path / EVENTS_FILE, isolation_level=None, check_same_thread=False)
        holder.execute("BEGIN IMMEDIATE")
        for number in range(3):
            log.record(make_event(number, Level.ERROR))
        time.sleep(3.1)
        ending = threading.Timer(0.5, lambda: holder.execute("ROLLBACK"))
        ending.start()
        log.close()
        ending.join()
    holder.close()
    assert log.lost == 0
    assert ask(tmp_path, "SELECT count(*) FROM events") == [(4,)]


def test_only_rows_are_lost(tmp_path):
    """If closing gives up, only the unwritten rows are counted as lost."""
    log = EventLog(
        str(tmp_path),
        limits=replace(BRIEF, retry_delay_s=5.0, close_timeout_s=0.1),
    )
    log.record(make_event(level=Level.ERROR))
    holder = sqlite3.connect(tmp_path / EVENTS_FILE, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    log.record(make_event(1, Level.ERROR))
    time.sleep(0.3)
    assert not log.flush(0.05)
    log.close()
    holder.close()
    assert log.lost == 1


def test_bounded(tmp_path):
    """Rows above the queue limit are counted as lost, errors have a separate limit, and the log records the loss."""
    (tmp_path / "state").write_text("a file where a folder should be")
    with EventLog(
        str(tmp_path / "state"),
        limits=LogLimits(rows=50, retry_delay_s=0.05, close_timeout_s=60.0, write_timeout_s=0.5),
    ) as log:
        begin = time.perf_counter()
        for number in range(200):
            log.record(make_event(number))
        for number in range(20):
            log.record(make_event(number, Level.ERROR))
        assert time.perf_counter() - begin < 20 * log.limits.write_timeout_s / 2  # only one of them waited
        assert 140 <= log.lost <= 160
        lost = log.lost
        os.remove(tmp_path / "state")
        assert log.flush(30) or log.flush(30)
        assert ask(tmp_path / "state", "SELECT count(*) FROM events WHERE level = 'error'") == [(20,)]
        ((shown,),) = ask(
            tmp_path / "state", "SELECT json_extract(metadata, '$.lost') FROM events WHERE event_type = 'events_lost'"
        )
        assert shown == lost == log.lost


def test_damaged_while_open(log, tmp_path):
    """A file that is damaged while open is moved aside, and the rows and a notice go into a new file."""
    log.record(make_event(level=Level.ERROR))
    path = tmp_path / EVENTS_FILE
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    content = path.read_bytes()
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"?" * (len(content) - 100))
    log.record(make_event(1, Level.ERROR))
    assert log.flush() or log.flush()
    assert "a new one was created" in log.notice
    rows = ask(tmp_path, "SELECT event_type, error FROM events ORDER BY id")
    assert rows[0] == ("log_replaced", log.notice)
    assert ("tool_call", None) in rows
    assert log.lost == 0


def test_put_aside_by_another(log, tmp_path):
    """After another process moves the file aside, rows go to its replacement."""
    log.record(make_event(1, Level.ERROR))
    os.replace(tmp_path / EVENTS_FILE, tmp_path / "aside")
    for ending in ("-wal", "-shm"):
        os.replace(tmp_path / f"{EVENTS_FILE}{ending}", tmp_path / f"aside{ending}")
    log.record(make_event(2, Level.ERROR))
    assert ask(tmp_path, "SELECT json_extract(metadata, '$.number') FROM events") == [(2,)]
