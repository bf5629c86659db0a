"""Event log on a full disk: turns continue, lost events are counted, and the count is recorded later."""

import os
import sqlite3
import subprocess
import sys

import pytest

from foreword.storage.database import EVENTS_FILE

# RLIMIT_FSIZE simulates a full disk: SQLite gets the same write error. The limit is lifted later.
CODE = """
import resource, signal, sys, time
from datetime import UTC, datetime
from foreword.events.event import Event, EventType, Level
from foreword.events.log import EventLog, LogLimits

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
log = EventLog(sys.argv[1], limits=LogLimits(rows=500, retry_delay_s=0.05, close_timeout_s=30.0, write_timeout_s=0.5))
def tell(level=Level.INFO):
    log.record(Event(type=EventType.TOOL_CALL, time=datetime.now(UTC), level=level, facts={"text": "x" * 1000}))

tell(Level.ERROR)
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), hard))
waited = 0.0
for number in range(3_000):
    begin, warns = time.perf_counter(), number % 100 == 0
    tell(Level.WARN if warns else Level.INFO)
    waited += (time.perf_counter() - begin) * warns
    time.sleep(0.0002)
assert not log.flush(0.3)
full = log.lost
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
assert log.flush(30) or log.flush(30)
tell(Level.ERROR)
log.close()
print(full, log.lost, waited / (30 * log.limits.write_timeout_s))
"""


@pytest.mark.parametrize("limit", [300_000, 1_000])
def test_full(tmp_path, limit):
    """On a full disk no event raises or blocks for long; later each is stored or counted as lost with a reason."""
    run = subprocess.run(
        [sys.executable, "-c", CODE, tmp_path, str(limit)], check=True, capture_output=True, text=True, timeout=120
    )
    full, lost, share = run.stdout.split()
    assert run.stderr == ""
    assert int(full) > 0
    assert float(share) < 0.5  # share of the time if each warning waited
    connection = sqlite3.connect(tmp_path / EVENTS_FILE)
    (kept,) = connection.execute("SELECT count(*) FROM events WHERE event_type = 'tool_call'").fetchone()
    shown, reason = connection.execute(
        "SELECT sum(json_extract(metadata, '$.lost')), max(error) FROM events WHERE event_type = 'events_lost'"
    ).fetchone()
    assert shown == int(lost)
    assert kept + shown == 3_002
    assert "disk" in reason
    assert connection.execute("SELECT count(*) FROM events WHERE level = 'warn' AND category = 'tool'").fetchone() == (
        30,
    )
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_full_from_the_beginning(tmp_path):
    """A state folder that cannot be created does not fail a turn."""
    code = CODE.split("tell(Level.ERROR)", maxsplit=1)[0] + "tell(Level.ERROR); tell(); log.close(); print(log.lost)"
    place = tmp_path / "file"
    place.write_text("")
    run = subprocess.run(
        [sys.executable, "-c", code, os.path.join(place, "state")],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (run.stdout, run.stderr) == ("2\n", "")
