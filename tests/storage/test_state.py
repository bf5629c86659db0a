"""Opening of the state."""

import os
import sqlite3
import stat

import pytest

from foreword.storage.database import STATE_FILE, StorageError, open_state

SESSION = (
    "INSERT INTO sessions (id, agent, channel, clearance, user_id, situation, created, used, current)"
    " VALUES (?, 'reid', 'web', ?, 'alice', 'dm', '2026-11-16', '2026-11-16', ?)"
)


def fill(folder, sessions=200):
    """Write enough sessions for many pages."""
    connection = open_state(str(folder)).connection
    connection.execute("BEGIN")
    connection.executemany(SESSION, [(f"s{number:04}" + "x" * 200, 3, 0) for number in range(sessions)])
    connection.execute("COMMIT")
    connection.close()


def test_fresh(tmp_path):
    """A new state survives a power failure, enforces foreign keys, and is readable only by its owner."""
    opened = open_state(str(tmp_path / "state"))
    pragmas = {
        name: opened.connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous", "foreign_keys")
    }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}
    assert opened.path == str(tmp_path / "state" / STATE_FILE)
    assert stat.S_IMODE(os.stat(tmp_path / "state").st_mode) == 0o700
    for name in os.listdir(tmp_path / "state"):
        assert stat.S_IMODE(os.stat(tmp_path / "state" / name).st_mode) == 0o600, name
    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        opened.connection.execute(
            "INSERT INTO turns (id, session_id, channel, text, state, received) VALUES ('t', 'none', '', '', '', '')"
        )
    opened.connection.close()


@pytest.mark.parametrize("damage", ["text", "head", "schema", "table"])
def test_damaged(tmp_path, damage):
    """A damaged state is refused and unchanged; the error names the file and what to do."""
    fill(tmp_path)
    path = tmp_path / STATE_FILE
    if damage == "table":
        other = sqlite3.connect(path)
        other.execute("DROP TABLE sessions")
        other.close()
    else:
        content = bytearray(path.read_bytes())
        place = {"text": slice(0, None), "head": slice(0, 100), "schema": slice(100, 4_000)}[damage]
        content[place] = b"?" * len(content[place])
        path.write_bytes(content)
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(StorageError, match=r"state\.sqlite is damaged .*restore it from a backup, or move it away"):
            open_state(str(tmp_path))
    assert path.read_bytes() == before
    assert not [name for name in os.listdir(tmp_path) if "damaged" in name]


def test_newer(tmp_path):
    """A state of a newer version is unchanged, and the error says what to do."""
    connection = open_state(str(tmp_path)).connection
    connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(StorageError, match=r"newer Foreword.*upgrade"):
        open_state(str(tmp_path))


def test_locked(tmp_path):
    """A state that another process has locked is busy, not damaged."""
    connection = open_state(str(tmp_path)).connection
    connection.execute("UPDATE alembic_version SET version_num = '0001'")
    connection.execute("BEGIN EXCLUSIVE")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        open_state(str(tmp_path), patience=0.01)
    connection.close()


def test_one_current_session(tmp_path):
    """A session key has one current session; another clearance is another key."""
    connection = open_state(str(tmp_path)).connection
    connection.execute(SESSION, ("a", 3, 1))
    connection.execute(SESSION, ("b", 2, 1))
    connection.execute(SESSION, ("c", 3, 0))
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute(SESSION, ("d", 3, 1))
    connection.close()


@pytest.mark.parametrize(
    ("question", "index"),
    [
        (
            (
                "SELECT id FROM sessions WHERE current = 1 AND agent = ? AND channel = ? AND room = ?"
                " AND clearance = ? AND user_id = ?"
            ),
            "idx_sessions_current",
        ),
        ("SELECT id FROM sessions WHERE user_id = ? ORDER BY used DESC", "idx_sessions_user"),
        ("SELECT id FROM turns WHERE finished IS NULL AND state = ? AND due <= ? ORDER BY due", "idx_turns_due"),
        ("SELECT id FROM turns WHERE session_id = ? ORDER BY number", "idx_turns_session"),
        ("SELECT session_id FROM history WHERE beginning = ?", "idx_history_beginning"),
        ("SELECT id FROM outbox WHERE state = ? AND due <= ? ORDER BY due", "idx_outbox_due"),
    ],
)
def test_indexed(tmp_path, question, index):
    """The queries of every turn use an index and do not sort."""
    connection = open_state(str(tmp_path)).connection
    steps = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {question}", ("",) * question.count("?"))]
    connection.close()
    assert len(steps) == 1
    assert index in steps[0]
