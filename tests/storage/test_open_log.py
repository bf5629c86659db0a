"""Opening of the event log and the budgets."""

import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from foreword.storage.database import (
    BUDGETS_FILE,
    EVENTS_FILE,
    LOG_REPLACED_TYPE,
    StorageError,
    identify_file,
    move_damaged_aside,
    open_budgets,
    open_events,
    read_events,
)

NAMES = "SELECT name FROM sqlite_master WHERE type = 'table'"


def fill(folder: Path, rows: int = 2_000) -> None:
    """Write enough rows for many pages."""
    connection = open_events(str(folder)).connection
    connection.execute("BEGIN")
    connection.executemany(
        "INSERT INTO events (timestamp, level, category, event_type, trust, metadata) "
        "VALUES (?, 'info', 'x', 'y', 3, ?)",
        [(f"2026-11-16T00:00:00.{number:06}Z", "x" * 200) for number in range(rows)],
    )
    connection.execute("COMMIT")
    connection.close()


def test_fresh(tmp_path):
    """A new file has every table, waits for locks, and survives a crash."""
    opened = open_events(str(tmp_path / "state"))
    tables = {name for (name,) in opened.connection.execute(NAMES)}
    assert {"events", "totals_quarter", "totals_day", "alembic_version"} <= tables
    assert opened.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert opened.note == ""
    opened.connection.close()


def test_reading_makes_nothing(tmp_path):
    """Reading a missing log finds it empty and creates no file."""
    opened = read_events(str(tmp_path / "state"))
    assert opened.connection.execute("SELECT count(*) FROM events").fetchone() == (0,)
    assert not (tmp_path / "state").exists()
    opened.connection.close()


def test_reading_changes_nothing(tmp_path):
    """A reader cannot write."""
    fill(tmp_path, 1)
    opened = read_events(str(tmp_path))
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        opened.connection.execute("DELETE FROM events")
    opened.connection.close()


@pytest.mark.parametrize("damage", ["text", "head", "schema", "table"])
def test_damaged(tmp_path, damage):
    """A damaged file is renamed, a new one is created, and the message names both."""
    fill(tmp_path)
    path = tmp_path / EVENTS_FILE
    if damage == "table":
        other = sqlite3.connect(path)
        other.execute("DROP TABLE events")
        other.close()
    else:
        content = bytearray(path.read_bytes())
        place = {"text": slice(0, None), "head": slice(0, 100), "schema": slice(100, 4_000)}[damage]
        content[place] = b"?" * len(content[place])
        path.write_bytes(content)
    before = path.read_bytes()
    opened = open_events(str(tmp_path))
    (aside,) = (name for name in os.listdir(tmp_path) if ".damaged-" in name and not name.endswith(("-wal", "-shm")))
    assert (tmp_path / aside).read_bytes() == before
    assert aside in opened.note
    assert "a new one was created" in opened.note
    rows = opened.connection.execute("SELECT event_type, level, trust, error FROM events").fetchall()
    assert rows == [("log_replaced", "error", 3, opened.note)]
    opened.connection.close()
    assert open_events(str(tmp_path)).note == ""


def test_who_reads_tells_of_the_damage(tmp_path):
    """The first row of the new log reports the damage, also if a reader replaced the file."""
    (tmp_path / EVENTS_FILE).write_text("no database at all, and long enough to be taken for one" * 20)
    read_events(str(tmp_path)).connection.close()
    opened = read_events(str(tmp_path))
    ((kind, error),) = opened.connection.execute("SELECT event_type, error FROM events").fetchall()
    opened.connection.close()
    assert kind == LOG_REPLACED_TYPE
    assert "it was renamed to events.sqlite.damaged-" in error


def test_budgets_are_apart(tmp_path):
    """The budgets survive a damaged log, and the log reports damaged budgets."""
    budgets = open_budgets(str(tmp_path)).connection
    budgets.execute("INSERT INTO budget_spent VALUES ('all', '', '2026-11', 9.9, 1, 0, '')")
    budgets.close()
    (tmp_path / EVENTS_FILE).write_text("no database at all, and long enough to be taken for one" * 20)
    open_events(str(tmp_path)).connection.close()
    budgets = open_budgets(str(tmp_path)).connection
    assert budgets.execute("SELECT usd FROM budget_spent").fetchall() == [(9.9,)]
    budgets.close()
    for name in os.listdir(tmp_path):
        if name.startswith(BUDGETS_FILE):
            os.remove(tmp_path / name)
    (tmp_path / BUDGETS_FILE).write_text("no database at all, and long enough to be taken for one" * 20)
    assert "the budget file" in open_budgets(str(tmp_path)).note
    rows = read_events(str(tmp_path)).connection.execute("SELECT error FROM events ORDER BY id DESC LIMIT 1").fetchone()
    assert "the budget file" in rows[0]


def test_ours_alone(tmp_path):
    """Only the owner of the process can read the files and a newly created folder."""
    opened = open_events(str(tmp_path / "state"))
    assert stat.S_IMODE(os.stat(tmp_path / "state").st_mode) == 0o700
    for name in os.listdir(tmp_path / "state"):
        assert stat.S_IMODE(os.stat(tmp_path / "state" / name).st_mode) == 0o600, name
    opened.connection.close()


def test_twice_in_a_second(tmp_path):
    """Two files that are damaged within one second are both preserved."""
    for _ in range(2):
        (tmp_path / EVENTS_FILE).write_text("no database at all, and long enough to be taken for one" * 20)
        open_events(str(tmp_path)).connection.close()
    assert len([name for name in os.listdir(tmp_path) if ".damaged-" in name]) == 2


def test_put_aside_once(tmp_path):
    """A new file in the place of the damaged one is not renamed."""
    (tmp_path / EVENTS_FILE).write_text("damaged")
    seen = identify_file(str(tmp_path / EVENTS_FILE))
    os.replace(tmp_path / EVENTS_FILE, tmp_path / "elsewhere")
    fill(tmp_path, 1)
    assert move_damaged_aside(str(tmp_path / EVENTS_FILE), seen, "damaged") == ""
    assert (tmp_path / EVENTS_FILE).exists()


def test_newer(tmp_path):
    """A file of a newer version is unchanged, and the error says what to do."""
    connection = open_events(str(tmp_path)).connection
    connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(StorageError, match=r"newer Foreword.*upgrade"):
        open_events(str(tmp_path))
    assert not [name for name in os.listdir(tmp_path) if "damaged" in name]


def test_light(tmp_path):
    """Writing and reading the log does not import OpenTelemetry."""
    code = (
        "import sys; from datetime import UTC, datetime; from foreword.events.event import Event, EventType; "
        "from foreword.events.log import EventLog; from foreword.storage.database import read_events; "
        "event = Event(type=EventType.TOOL_CALL, time=datetime.now(UTC)); "
        "log = EventLog(sys.argv[1]); log.record(event); log.close(); "
        "print(*read_events(sys.argv[1]).connection.execute('SELECT event_type FROM events').fetchone()); "
        "print(*{'opentelemetry'} & {*sys.modules})"
    )
    run = [sys.executable, "-c", code, str(tmp_path)]
    assert subprocess.run(run, check=True, capture_output=True, text=True).stdout == "tool_call\n\n"
