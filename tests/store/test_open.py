"""Claims about opening the file of the log."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from foreword.store.open import FILE, StoreError, identify, open_events, put_aside, read_events

NAMES = "SELECT name FROM sqlite_master WHERE type = 'table'"


def fill(folder: Path, rows: int = 2_000) -> None:
    """Write rows enough for many pages."""
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
    """A fresh file has every table, waits for others, and survives a crash."""
    opened = open_events(str(tmp_path / "state"))
    tables = {name for (name,) in opened.connection.execute(NAMES)}
    assert {"events", "totals_quarter", "totals_day", "alembic_version"} <= tables
    assert opened.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert opened.note == ""
    opened.connection.close()


def test_reading_makes_nothing(tmp_path):
    """Where there is no log, reading finds it empty and makes no file."""
    opened = read_events(str(tmp_path / "state"))
    assert opened.connection.execute("SELECT count(*) FROM events").fetchone() == (0,)
    assert not (tmp_path / "state").exists()
    opened.connection.close()


def test_reading_changes_nothing(tmp_path):
    """Who reads cannot write."""
    fill(tmp_path, 1)
    opened = read_events(str(tmp_path))
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        opened.connection.execute("DELETE FROM events")
    opened.connection.close()


@pytest.mark.parametrize("damage", ["text", "head", "schema", "table"])
def test_damaged(tmp_path, damage):
    """A damaged file is put aside under a name that says so, a new one is begun, and the note tells both."""
    fill(tmp_path)
    path = tmp_path / FILE
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
    assert "a new one was begun" in opened.note
    assert opened.connection.execute("SELECT count(*) FROM events").fetchone() == (0,)
    opened.connection.close()
    assert open_events(str(tmp_path)).note == ""


def test_twice_in_a_second(tmp_path):
    """Two damaged files of one second both stay."""
    for _ in range(2):
        (tmp_path / FILE).write_text("no database at all, and long enough to be taken for one" * 20)
        open_events(str(tmp_path)).connection.close()
    assert len([name for name in os.listdir(tmp_path) if ".damaged-" in name]) == 2


def test_put_aside_once(tmp_path):
    """A file that took the damaged one's place is not put aside."""
    (tmp_path / FILE).write_text("damaged")
    seen = identify(str(tmp_path / FILE))
    os.replace(tmp_path / FILE, tmp_path / "elsewhere")
    fill(tmp_path, 1)
    assert put_aside(str(tmp_path / FILE), seen, "damaged") == ""
    assert put_aside(str(tmp_path / FILE)) == ""
    assert (tmp_path / FILE).exists()


def test_newer(tmp_path):
    """A file of a newer Foreword is left alone, and who opens it is told what to do."""
    connection = open_events(str(tmp_path)).connection
    connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(StoreError, match=r"newer Foreword.*upgrade"):
        open_events(str(tmp_path))
    assert not [name for name in os.listdir(tmp_path) if "damaged" in name]


def test_light():
    """Writing and reading the log imports neither SQLAlchemy nor Alembic."""
    code = (
        "import sys, tempfile; from foreword.events.log import EventLog; from foreword.store.open import read_events; "
        "folder = tempfile.mkdtemp(); EventLog(folder).flush(); read_events(folder); "
        "sys.exit(any(name in sys.modules for name in ('sqlalchemy', 'alembic', 'opentelemetry')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
