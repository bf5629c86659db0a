"""Event log of a process that is killed while it writes."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

from foreword.storage.database import EVENTS_FILE, open_events

KILLS = 100 if os.environ.get("FOREWORD_SOAK") else 2
LOOP = Path(__file__).with_name("writing_loop.py")


def test_killed_while_writing(tmp_path):
    """However often a writer is killed, the database opens and contains every acknowledged warning and error."""
    dice = random.Random(5)
    acknowledged: set[tuple[str, int]] = set()
    for run in range(KILLS):
        child = subprocess.Popen([sys.executable, LOOP, tmp_path, str(run)], stdout=subprocess.PIPE, text=True)
        assert child.stdout.readline() == "ready\n"
        acknowledged.add((str(run), int(child.stdout.readline())))
        time.sleep(dice.uniform(0.0, 0.3))
        child.send_signal(signal.SIGKILL)
        # The last line may be incomplete; then it was not acknowledged.
        shown = [line for line in child.communicate()[0].splitlines(keepends=True) if line.endswith("\n")]
        acknowledged |= {(str(run), int(line)) for line in shown}
        opened = open_events(str(tmp_path))
        assert opened.note == ""
        found = set(
            opened.connection.execute(
                "SELECT session_id, json_extract(metadata, '$.number') FROM events WHERE level IN ('warn', 'error')"
            )
        )
        assert acknowledged <= found
        assert opened.connection.execute("PRAGMA quick_check").fetchone() == ("ok",)
        opened.connection.close()
    assert len(acknowledged) >= KILLS
    check_sums(tmp_path / EVENTS_FILE)


def check_sums(path: Path) -> None:
    """Check that the totals count exactly the stored rows."""
    connection = sqlite3.connect(path)
    (rows,) = connection.execute("SELECT count(*) FROM events").fetchone()
    for table in ("totals_quarter", "totals_day"):
        assert connection.execute(f"SELECT sum(calls) FROM {table} WHERE kind = 'all' AND owner = ''").fetchone() == (
            rows,
        )
    connection.close()
