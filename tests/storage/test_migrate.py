"""Migrations."""

import sqlite3
from pathlib import Path

import pytest

import foreword.storage
from foreword.storage.database import EVENTS_FILE, EVENTS_SCHEMA, STATE_FILE, STATE_SCHEMA, open_events, open_state
from foreword.storage.migration import render_schema

STORAGE = Path(foreword.storage.__file__).parent
SHAPE = "SELECT type, name, sql FROM sqlite_master ORDER BY type, name"


@pytest.mark.parametrize("schema", [EVENTS_SCHEMA, STATE_SCHEMA], ids=["events", "state"])
def test_shipped_schema_is_current(schema):
    """The shipped schema is the result of all migrations; else run python -m foreword.storage.migration."""
    assert (STORAGE / schema.text).read_text() == render_schema(schema)


ROWS = [
    pytest.param(
        EVENTS_SCHEMA,
        EVENTS_FILE,
        open_events,
        "INSERT INTO events (timestamp, level, category, event_type, trust) VALUES ('t', 'info', 'x', 'y', 3)",
        id="events",
    ),
    pytest.param(
        STATE_SCHEMA,
        STATE_FILE,
        open_state,
        "INSERT INTO sessions (id, agent, channel, clearance, situation, created, used)"
        " VALUES ('s', 'reid', 'web', 3, 'dm', 't', 't')",
        id="state",
    ),
]


def make_first_revision(path, schema):
    """Create a file of the first revision."""
    (first,) = (STORAGE / "migrations" / schema.migrations).glob("0001_*.sql")
    old = sqlite3.connect(path, isolation_level=None)
    old.executescript(first.read_text() + "INSERT INTO alembic_version VALUES ('0001');")
    return old


@pytest.mark.parametrize(("schema", "name", "opening", "row"), ROWS)
def test_upgrade(tmp_path, schema, name, opening, row):
    """A file of the first revision is upgraded when it is opened, and its rows remain."""
    old = make_first_revision(tmp_path / name, schema)
    old.execute(row)
    old.close()
    (tmp_path / "fresh").mkdir()
    upgraded, fresh = opening(str(tmp_path)).connection, opening(str(tmp_path / "fresh")).connection
    assert upgraded.execute(f"SELECT count(*) FROM {row.split()[2]}").fetchone() == (1,)
    for query in (SHAPE, "SELECT * FROM alembic_version"):
        assert upgraded.execute(query).fetchall() == fresh.execute(query).fetchall()
    upgraded.close()
    fresh.close()


def test_upgraded_rows(tmp_path):
    """An upgrade of the state renames the HTTP channels and gives each message of the outbox a key."""
    old = make_first_revision(tmp_path / STATE_FILE, STATE_SCHEMA)
    for number, channel in enumerate(("api", "openai", "telegram")):
        old.execute(
            "INSERT INTO sessions (id, agent, channel, clearance, situation, created, used)"
            " VALUES (?, 'reid', ?, 3, 'dm', '', '')",
            (number, channel),
        )
        old.execute(
            "INSERT INTO turns (id, session_id, channel, text, state, received) VALUES (?, ?, ?, '', '', '')",
            (f"t{number}", number, channel),
        )
    old.execute("INSERT INTO outbox (turn_id, channel, address, text, state) VALUES ('t2', 'telegram', '7', 'Hi', '')")
    old.close()
    state = open_state(str(tmp_path)).connection
    for table in ("sessions", "turns"):
        channels = state.execute(f"SELECT channel FROM {table} ORDER BY id").fetchall()
        assert channels == [("web",), ("web:openai",), ("telegram",)]
    sent = state.execute("SELECT key, turn_id, channel, address, text, part, state FROM outbox").fetchall()
    assert sent == [("t2", "t2", "telegram", "7", "Hi", 0, "")]
    state.close()
