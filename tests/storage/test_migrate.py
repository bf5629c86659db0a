"""Migrations."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import foreword.storage
from foreword.storage.database import (
    EVENTS_FILE,
    EVENTS_SCHEMA,
    STATE_FILE,
    STATE_SCHEMA,
    open_events,
    open_state,
    run_statements,
)
from foreword.storage.legacy_messages import convert_messages
from foreword.storage.migration import PYTHON_STEPS, render_schema

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


OLD_MESSAGES = json.loads((Path(__file__).parent / "old_messages.json").read_text(encoding="utf-8"))
DAMAGED = [
    b'[{"kind": "respo',
    b"[" * 100_000,
    b'{"kind": "request"}',
    b'[{"kind": "request", "parts": [7]}]',
    b"\xff\xfe",
]


def make_old_state(path, revision):
    """Create a state file of an older revision."""
    old = sqlite3.connect(path, isolation_level=None)
    for file in sorted((STORAGE / "migrations" / "state").glob("*.sql")):
        number = file.name.partition("_")[0]
        if number <= revision:
            PYTHON_STEPS.get(("state", number), run_statements)(old, file.read_text())
    old.execute("DELETE FROM alembic_version")
    old.execute("INSERT INTO alembic_version (version_num) VALUES (?)", (revision,))
    return old


def list_old_turns():
    """List the stored turns of all shapes."""
    return [json.dumps(turn).encode() for session in OLD_MESSAGES.values() for turn in session["stored"]]


def test_stored_messages_are_converted(tmp_path):
    """An upgrade converts the messages of every session and of unfinished turns; damaged ones stay as they were."""
    stored = [*list_old_turns(), *DAMAGED]
    unfinished = json.dumps(OLD_MESSAGES["anthropic"]["stored"][0][:3]).encode()
    with closing(make_old_state(tmp_path / STATE_FILE, "0006")) as old:
        old.execute(
            "INSERT INTO sessions (id, agent, channel, clearance, situation, created, used)"
            " VALUES ('s', 'reid', 'web', 3, 'dm', '', '')"
        )
        old.executemany(
            "INSERT INTO turns (id, session_id, channel, text, state, received, taken)"
            " VALUES (?, 's', '', '', '', '', ?)",
            [("t1", unfinished), ("t2", None), ("t3", DAMAGED[0])],
        )
        old.executemany(
            "INSERT INTO history (session_id, position, kind, messages, tokens) VALUES ('s', ?, 'turn', ?, 7)",
            enumerate(stored),
        )
    for _ in range(2):
        with closing(open_state(str(tmp_path)).connection) as state:
            converted = [row for (row,) in state.execute("SELECT messages FROM history ORDER BY position")]
            taken = [row for (row,) in state.execute("SELECT taken FROM turns ORDER BY id")]
            assert state.execute("SELECT DISTINCT tokens FROM history").fetchall() == [(7,)]
        assert converted == [*map(convert_messages, list_old_turns()), *DAMAGED]
        assert taken == [convert_messages(unfinished), None, DAMAGED[0]]
    assert [message["role"] for message in json.loads(taken[0])] == ["user", "assistant", "tool"]
    assert [part["text"] for part in json.loads(converted[0])[0]["parts"]] == ["<now>1</now>", 'Ütterance 🪶 "one"?']


def test_converted_answers():
    """The provider's name, a cut answer and ignored thoughts survive the conversion."""
    said = {"kind": "response", "parts": [{"part_kind": "text", "content": "Yes."}]}
    facts = {
        "provider_name": "google-gla",
        "finish_reason": "length",
        "provider_details": {"input_transformations": []},
    }
    (answer,) = json.loads(convert_messages(json.dumps([{**said, **facts}]).encode()))
    assert answer == {
        "role": "assistant",
        "parts": [{"type": "text", "text": "Yes."}],
        "cut": True,
        "provider": "google",
        "drops_thinking": True,
    }
