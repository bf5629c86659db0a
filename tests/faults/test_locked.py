"""Event log whose database is locked by another process."""

import sqlite3
import subprocess
import sys
import time
from datetime import UTC, datetime

from foreword.events.event import Event, EventType, Level
from foreword.events.log import EventLog, LogLimits
from foreword.storage.database import EVENTS_FILE

HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
"""


def make_event(level: Level) -> Event:
    """Make an event of a level."""
    return Event(type=EventType.TOOL_CALL, time=datetime.now(UTC), level=level)


def test_locked(tmp_path):
    """While another process holds the lock only one error waits; after release every row is stored."""
    limits = LogLimits(lock_timeout_s=0.2, retry_delay_s=0.05, write_timeout_s=0.5)
    with EventLog(str(tmp_path), limits=limits) as log:
        log.record(make_event(Level.ERROR))
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLD, tmp_path / EVENTS_FILE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert holder.stdout.readline() == "locked\n"
        begin = time.perf_counter()
        for number in range(400):
            log.record(make_event(Level.ERROR if number % 10 == 0 else Level.INFO))
        assert time.perf_counter() - begin < 40 * limits.write_timeout_s / 2  # not every error waited
        assert not log.flush(0.1)
        holder.communicate("\n")
        assert log.flush(30) or log.flush(30)
        assert log.lost == 0
    connection = sqlite3.connect(tmp_path / EVENTS_FILE)
    assert connection.execute("SELECT count(*) FROM events").fetchone() == (401,)
    connection.close()


def test_locked_to_the_end(tmp_path):
    """If the database stays locked, close() returns after a bounded wait and the number of lost events is known."""
    limits = LogLimits(lock_timeout_s=0.1, retry_delay_s=0.05, write_timeout_s=0.1, close_timeout_s=0.5)
    log = EventLog(str(tmp_path), limits=limits)
    log.record(make_event(Level.ERROR))
    holder = sqlite3.connect(tmp_path / EVENTS_FILE, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    for _ in range(10):
        log.record(make_event(Level.INFO))
    log.close()
    assert log.lost == 10
    holder.close()
