"""Retention and export."""

import io
import json
import sqlite3
import threading
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from foreword.events.event import Context, Event, EventType, Reader, Usage
from foreword.events.log import EventLog, LogLimits, find_cutoff, prune_log
from foreword.events.totals import sum_usage_by
from foreword.privacy.export import export_and_prune_log, write_lines
from foreword.storage.database import EVENTS_FILE, open_events
from foreword.types import Trust
from waiting import wait

NOW = datetime(2026, 11, 16, 2, 47, tzinfo=UTC)
OWNER = Reader(user="owner", clearance=Trust.FULL)


def make_old_event(days: float, user: str = "alice", **more) -> Event:
    """Make a call some days ago."""
    context = Context(user=user, session=f"of {user}", trust=Trust.FAMILIAR)
    usage = Usage(tokens_in=1)
    return Event(type=EventType.API_CALL, time=NOW - timedelta(days=days), context=context, usage=usage, **more)


@pytest.fixture
def connection(tmp_path):
    """A log with a call a day over forty days, of two people."""
    with EventLog(str(tmp_path)) as log:
        for day in range(40):
            log.record(make_old_event(day, "alice" if day % 2 else "bob", facts={"day": day}))
    connection = open_events(str(tmp_path)).connection
    yield connection
    connection.close()


def count(connection: sqlite3.Connection) -> int:
    """Count the rows."""
    return connection.execute("SELECT count(*) FROM events").fetchone()[0]


def test_cutoff():
    """Rows expire by whole UTC days after the retention period."""
    assert find_cutoff(NOW, 30) == datetime(2026, 10, 17, tzinfo=UTC)


def test_pruned(connection):
    """Older rows are pruned with their sums; the sums of the remaining rows are unchanged."""
    before = find_cutoff(NOW, 30)
    kept = sum_usage_by(connection, OWNER, "session", before)[0]
    assert sum(prune_log(connection, before)) == 9
    assert count(connection) == 31
    assert sum_usage_by(connection, OWNER, "session")[0] == kept
    for table in ("totals_quarter", "totals_day"):
        assert connection.execute(f"SELECT min(start) >= '2026-10-17' FROM {table}").fetchone() == (1,)
    assert sum(prune_log(connection, before)) == 0


def test_in_steps(tmp_path):
    """Thousands of rows are pruned in small transactions, and another connection can write between them."""
    with EventLog(str(tmp_path)) as log:
        for number in range(5_000):
            log.record(make_old_event(40, facts={"number": number}))
    connection = open_events(str(tmp_path)).connection
    other = sqlite3.connect(tmp_path / EVENTS_FILE, timeout=0, isolation_level=None)
    steps = 0
    for _ in prune_log(connection, NOW):
        other.execute("BEGIN IMMEDIATE")  # fails at once if a lock is held
        other.execute("ROLLBACK")
        steps += 1
    assert steps >= 10
    assert count(connection) == 0
    connection.close()
    other.close()


def test_in_the_background(tmp_path):
    """A log with a retention period prunes in the background while others record."""
    with EventLog(str(tmp_path)) as log:
        for _ in range(3_000):
            log.record(make_old_event(40))
    with EventLog(str(tmp_path), clock=lambda: NOW, limits=LogLimits(days=30)) as log:
        for number in range(200):
            log.record(make_old_event(0, facts={"number": number}))
            time.sleep(0.002)
        connection = sqlite3.connect(tmp_path / EVENTS_FILE)
        summed = "SELECT calls FROM totals_day WHERE kind = 'all' AND owner = ''"
        wait(lambda: len(connection.execute(summed).fetchall()) == 1 and count(connection) <= 200)
        log.flush()
        assert count(connection) == 200
        assert connection.execute(summed).fetchall() == [(200,)]
        connection.close()


def test_while_nothing_is_recorded(tmp_path):
    """A log without new events also prunes, once an hour by default."""
    now = [NOW]
    with EventLog(str(tmp_path), clock=lambda: now[0], limits=LogLimits(days=30, prune_interval_s=0.05)) as log:
        log.record(make_old_event(0))
        log.flush()
        now[0] = NOW + timedelta(days=31)
        with closing(sqlite3.connect(tmp_path / EVENTS_FILE)) as connection:
            wait(lambda: count(connection) == 0)


def test_lines(connection):
    """An export has one JSON object per row, in order and with all columns, and reports its progress."""
    file, shown = io.StringIO(), []
    done = write_lines(connection, OWNER, file, progress=lambda *figures: shown.append(figures))
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    assert done.rows == len(lines) == 40
    assert lines[3]["metadata"] == {"day": 3}
    assert (lines[3]["user_id"], lines[3]["trust"], lines[3]["timestamp"]) == (
        "alice",
        "familiar",
        "2026-11-13T02:47:00.000000Z",
    )
    assert shown[-1] == (40, 40)


def test_lines_of_a_reader(connection):
    """An export contains only rows that its reader may see, within the given period, and no total count."""
    file = io.StringIO()
    reader = Reader(user="alice", clearance=Trust.FAMILIAR)
    shown = []
    ends = (NOW - timedelta(days=10), NOW - timedelta(days=2))
    write_lines(connection, reader, file, ends, lambda *figures: shown.append(figures))
    assert [json.loads(line)["metadata"]["day"] for line in file.getvalue().splitlines()] == [3, 5, 7, 9]
    assert shown == [(4, None)]


def test_export_then_prune(connection, tmp_path):
    """Exported rows are pruned, and rows written after the export began stay."""
    before = NOW - timedelta(days=29)
    late = []

    def progress(_: int, __: int | None) -> None:
        if not late:
            late.append(True)
            with EventLog(str(tmp_path)) as log:
                log.record(make_old_event(35, facts={"late": True}))

    done = export_and_prune_log(str(tmp_path), str(tmp_path / "old.jsonl"), before, progress)
    lines = (tmp_path / "old.jsonl").read_text().splitlines()
    assert (done.rows, done.pruned, len(lines)) == (10, 10, 10)
    assert connection.execute("SELECT count(*) FROM events WHERE metadata LIKE '%late%'").fetchone() == (1,)
    assert count(connection) == 31


def test_export_writes_over_nothing(connection, tmp_path):
    """An existing file is not overwritten, and nothing is pruned."""
    (tmp_path / "old.jsonl").write_text("precious")
    with pytest.raises(FileExistsError):
        export_and_prune_log(str(tmp_path), str(tmp_path / "old.jsonl"), NOW)
    assert (tmp_path / "old.jsonl").read_text() == "precious"
    assert count(connection) == 40


def test_no_thread_left(tmp_path):
    """A log that is closed while it prunes terminates."""
    with EventLog(str(tmp_path)) as log:
        for _ in range(3_000):
            log.record(make_old_event(40))
    with EventLog(str(tmp_path), clock=lambda: NOW, limits=LogLimits(days=1)) as log:
        log.record(make_old_event(0))
        log.flush()
    assert "foreword-events" not in {thread.name for thread in threading.enumerate()}
