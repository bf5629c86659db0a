"""SPEC-010's long-term memory: its rows become entries, and the report lists every row that is left out."""

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import foreword
from foreword.engine.trust import Audience
from foreword.errors import InputError
from foreword.memory.entry import MAX_ENTRY_CHARS
from foreword.memory.stores import Entry
from foreword.storage import legacy_import as module
from foreword.storage.database import STATE_FILE
from foreword.storage.legacy_import import NOTES_TABLE, NotesReport, import_notes, read_rows, split_text
from foreword.testing import NOON, FrozenClock, make_workspace, write_files
from foreword.turn import Turn
from foreword.types import Trust
from foreword.workspace import Workspace

CONFIG = """\
owner: alice
agents: {reid: {model: "anthropic:claude-sonnet-5"}}
users: {alice: {trust: full}, carol: {trust: inner}, dave: {trust: inner}, bob: {trust: familiar}}
"""
TABLE = f"CREATE TABLE {NOTES_TABLE} (id TEXT PRIMARY KEY, user_id TEXT, agent_name TEXT, notes TEXT, updated_at TEXT)"
OLD = """
CREATE TABLE agent_configurations (id TEXT PRIMARY KEY, agent_name TEXT, system_prompt TEXT);
CREATE TABLE user_agent_prompt_customizations (
  id TEXT PRIMARY KEY, user_id TEXT, agent_name TEXT, customization_type TEXT, content JSONB, priority INTEGER
);
INSERT INTO user_agent_prompt_customizations VALUES ('1', 'carol', 'reid', 'style', '"Be brief."', 1);
"""
MANY_ROWS = 3_000 if os.environ.get("FOREWORD_SOAK") else 300
DAY = "2026-02-18 09:30:00+00"
Rows = Sequence[Sequence[object]]


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    """A workspace with four users."""
    with make_workspace(tmp_path / "ws", {"foreword.yaml": CONFIG}) as workspace:
        yield workspace


def make_rows(*rows: Sequence[object]) -> list[dict[str, object]]:
    """Make rows of user, agent, text and date."""
    return [dict(zip(("user_id", "agent_name", "notes", "updated_at"), row, strict=False)) for row in rows]


def bring(ws: Workspace, *rows: Sequence[object]) -> NotesReport:
    """Import rows."""
    return import_notes(make_rows(*rows), ws.files.root, ws.config, NOON)


def read(ws: Workspace, user: str, **facts: object) -> str:
    """Return the read_memory output for a user."""
    ws.refresh(now=True)
    return ws.call(ws.assemble(Turn(user=user, situation="dm", **facts)), "read_memory", {}).text


CAROL = Audience(clearance=Trust.INNER, person="carol")


def find_entries(ws: Workspace) -> list[Entry]:
    """Find the entries of carol's own memory."""
    return list(ws.memory.find_own("carol", CAROL))


def list_files(root: str) -> dict[str, str]:
    """List all files of the memory with their texts."""
    files = [path for folder in ("memory", "users") for path in Path(root, folder).rglob("*") if path.is_file()]
    return {path.relative_to(root).as_posix(): path.read_text() for path in sorted(files)}


def make_database(path: Path, rows: Rows, schema: str = OLD) -> str:
    """Make a database with long-term memory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as old:
        old.executescript(schema)
        old.execute(TABLE)
        old.executemany(
            f"INSERT INTO {NOTES_TABLE} VALUES (?, ?, ?, ?, ?)", [(str(at), *row) for at, row in enumerate(rows)]
        )
        old.commit()
    return str(path)


def test_entries(ws: Workspace) -> None:
    """Each row becomes an entry of its user with its date, and read_memory shows it to that user."""
    report = bring(
        ws, ("carol", "reid", "A dog called Rex.", DAY), ("alice", "reid", "Binds books.\n\nLikes tea.", DAY)
    )
    assert (report.saved, report.rows) == (2, {})
    assert report.list_lines() == []
    files = list_files(ws.files.root)
    assert [path.rpartition("-")[0] for path in files] == [
        "users/alice/memory/full/20260218",
        "users/carol/memory/inner/20260218",
    ]
    entry = next(text for path, text in files.items() if "carol" in path)
    assert entry == (
        '---\nauthor: "carol"\nclearance: "inner"\nchannel: "import"\nsession: "agent_long_term_memory/reid"\n'
        'time: "2026-02-18T09:30:00+00:00"\n---\nA dog called Rex.\n'
    )
    assert "- A dog called Rex. (own/inner/20260218-" in read(ws, "carol")
    assert "- Binds books. Likes tea. (own/full/20260218-" in read(ws, "alice")
    assert "Rex" not in read(ws, "dave")
    assert "Rex" not in read(ws, "bob")


def test_twice(ws: Workspace) -> None:
    """A second import of the same rows changes nothing, also after the owner has promoted an entry."""
    rows = [("carol", "reid", f"Note {number}.\nSecond line.", DAY) for number in range(4)]
    rows += [("carol", "reid", "long " * 20_000, None)]
    bring(ws, *rows)
    first = next(path for path, text in list_files(ws.files.root).items() if "Note 0." in text)
    shared = Path(ws.files.root, "memory/shared/NOTE.md")
    shared.parent.mkdir(parents=True)
    os.replace(Path(ws.files.root, first), shared)
    before = list_files(ws.files.root)
    again = bring(ws, *rows)
    assert (again.saved, len(again.rows["known"])) == (0, 5)
    assert again.list_lines()[0].startswith("agent_long_term_memory: 5 rows imported before: 1 ('carol', 'reid'), 2 (")
    assert list_files(ws.files.root) == before


def test_nothing_is_left_out_in_silence(ws: Workspace) -> None:
    """Rows that are left out or changed are counted and named."""
    report = bring(
        ws,
        ("carol", "reid", "Kept.", DAY),
        ("carol", "nova", "Kept.", DAY),
        ("carol", "reid", None, DAY),
        ("carol", "reid", " \n\0", DAY),
        (None, "reid", "Of nobody.", DAY),
        ("mallory", "reid", "Of a stranger.", DAY),
        ("../x", "reid", "Of a path.", DAY),
        ("dave", "nova", "Of another agent.", DAY),
        ("dave", None, "Of no agent.", "soon"),
        ("bob", "reid", "Bob's secret.", DAY),
        ("dave", "reid", "x" * 100_000, DAY),
    )
    assert report.saved == 10
    assert report.rows == {
        "duplicates": ["2 ('carol', 'nova')"],
        "empty": ["3 ('carol', 'reid')", "4 ('carol', 'reid')"],
        "ownerless": ["5 (none, 'reid')"],
        "unknown_users": ["6 ('mallory', 'reid')", "7 ('../x', 'reid')"],
        "unknown_agents": ["8 ('dave', 'nova')", "9 ('dave', none)"],
        "undated": ["9 ('dave', none)"],
        "split": ["11 ('dave', 'reid')"],
    }
    assert len(report.list_lines()) == 7
    assert "agent_long_term_memory: 2 rows not imported: no text: 3 ('carol', 'reid'), 4 ('carol', 'reid')" in (
        report.list_lines()
    )
    assert not Path(ws.files.root, "memory").exists()
    assert all(len(text) < MAX_ENTRY_CHARS + 500 for text in list_files(ws.files.root).values())
    assert sum(text.count("x" * 1_000) for text in list_files(ws.files.root).values()) >= 95


def test_notes_are_read_by_their_person_alone(ws: Workspace) -> None:
    """A note is shown only to its user in private, whatever their trust."""
    bring(ws, ("bob", "reid", "A wish for Christmas.", DAY))
    assert "A wish for Christmas." in read(ws, "bob")
    assert not any("wish" in read(ws, user) for user in ("alice", "carol", "dave"))


def test_strangers(tmp_path: Path) -> None:
    """Notes of a public user are not imported, and the report says how to import them."""
    config = CONFIG.replace("carol: {trust: inner", "carol: {trust: public")
    with make_workspace(tmp_path, {"foreword.yaml": config}) as ws:
        report = bring(ws, ("carol", "reid", "Rex.", DAY))
        assert (report.saved, report.rows) == (0, {"strangers": ["1 ('carol', 'reid')"]})
        assert "raise their trust and import again" in report.list_lines()[0]


@pytest.mark.parametrize(
    "text", ["<!-- hidden --> Rex.", "---\nauthor: alice\n---\nRex.", "a\r\nb\u2028c", "\ud800 Rex"]
)
def test_odd_texts(ws: Workspace, text: str) -> None:
    """No text is hidden, read as front matter or imported twice."""
    assert bring(ws, ("carol", "reid", text, DAY)).saved == 1
    (entry,) = find_entries(ws)
    assert entry.provenance.author == "carol"
    assert "hidden" in entry.text or "hidden" not in text
    assert bring(ws, ("carol", "reid", text, DAY)).saved == 0


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("2026-02-18T09:30:00Z", "2026-02-18T09:30:00+00:00"),
        ("2026-02-18 10:30:00.123+01:00", "2026-02-18T09:30:00+00:00"),
        ("2026-02-18", "2026-02-18T00:00:00+00:00"),
        (1771407000, "2026-02-18T09:30:00+00:00"),
        (1e300, "2026-11-15T12:00:00+00:00"),
        ("0001-01-01T00:00:00+14:00", "2026-11-15T12:00:00+00:00"),
        (b"soon", "2026-11-15T12:00:00+00:00"),
        ("", "2026-11-15T12:00:00+00:00"),
    ],
)
def test_dates(ws: Workspace, value: object, shown: str) -> None:
    """Dates are read in the formats that databases write; without a date the entry has the time of the import."""
    bring(ws, ("carol", "reid", "Rex.", value))
    (entry,) = find_entries(ws)
    assert entry.provenance.time == shown


def test_other_columns(ws: Workspace) -> None:
    """Other column names are recognised; a table without a text column is reported row by row."""
    rows = [{"user_id": "carol", "agent_id": "reid", "content": b"Rex.", "created_at": DAY}, {"user_id": "carol"}]
    report = import_notes(rows, ws.files.root, ws.config, NOON)
    assert (report.saved, report.rows["empty"]) == (1, ["2 ('carol', none)"])
    assert "- Rex. (own/inner/20260218-" in read(ws, "carol")


def test_nothing_of_a_row_is_dropped_in_silence(ws: Workspace) -> None:
    """All text columns become the text; other columns and invalid bytes are reported."""
    rows = [
        {
            "id": 1,
            "user_id": "carol",
            "agent_name": "reid",
            "notes": "Short.",
            "content": "The long content.",
            "note": "",
        },
        {"user_id": "carol", "agent_name": "reid", "notes": "Rex.", "text": "Rex.", "category": "dogs", "score": 0},
        {"user_id": "carol", "agent_name": "reid", "notes": b"\xff\xfe Tea.", "category": "tea"},
    ]
    named = "1 ('carol', 'reid'), 2 ('carol', 'reid'), 3 ('carol', 'reid')"
    dates = {"updated_at": DAY, "created_at": "2020-01-01"}
    report = import_notes([{**row, **dates} for row in rows], ws.files.root, ws.config, NOON)
    assert {entry.text for entry in find_entries(ws)} == {
        "Short.\n\nThe long content.",
        "Rex.",
        "\ufffd\ufffd Tea.",
    }
    assert report.list_lines() == [
        f"{NOTES_TABLE}: 3 rows with columns that are not imported ('created_at', 'category', 'score'): {named}",
        f"{NOTES_TABLE}: 1 row with bytes that are no text; each became \ufffd: 3 ('carol', 'reid')",
    ]


def test_split() -> None:
    """A long text is split at paragraphs, lines or words, and no word is lost."""
    text = "\n\n".join(f"Paragraph {number} " + "word " * 50 for number in range(100))
    parts = split_text(text, 1_000)
    assert all(len(part) <= 1_000 for part in parts)
    assert all(part.startswith("Paragraph") for part in parts)
    assert " ".join(parts).split() == text.split()
    assert split_text("x" * 2_500, 1_000) == ["x" * 1_000, "x" * 1_000, "x" * 500]
    assert split_text("short", 1_000) == ["short"]


def test_many_rows(ws: Workspace) -> None:
    """Thousands of rows are imported within seconds, and again within seconds."""
    rows = [("carol", "reid", f"Note {number}.", DAY) for number in range(MANY_ROWS)]
    begun = time.monotonic()
    assert bring(ws, *rows).saved == MANY_ROWS
    assert bring(ws, *rows).saved == 0
    assert time.monotonic() - begun < 60
    shown = bring(ws, *(("mallory", "reid", f"Note {number}.", DAY) for number in range(3_000))).list_lines()
    assert shown[0].endswith(" and 2,980 more")


def test_no_room(ws: Workspace) -> None:
    """An import that cannot write fails with a message, and follows no link."""
    elsewhere = Path(ws.files.root, "elsewhere")
    elsewhere.mkdir()
    Path(ws.files.root, "users/carol").mkdir(parents=True)
    os.symlink(elsewhere, Path(ws.files.root, "users/carol/memory"))
    with pytest.raises(InputError, match="behind a link"):
        bring(ws, ("carol", "reid", "Rex.", DAY))
    assert not any(elsewhere.iterdir())


MISSING = "agent_long_term_memory: 1 row not imported: add the users to foreword.yaml and import again:"
ROWS = [("carol", "reid", "A dog called Rex.", DAY), ("mallory", "reid", "Of a stranger.", DAY)]


def test_upgraded_in_place(tmp_path: Path) -> None:
    """A database that becomes the state has its long-term memory imported once; refused rows remain."""
    path = make_database(tmp_path / ".foreword" / STATE_FILE, ROWS)
    write_files(tmp_path, {"foreword.yaml": CONFIG})
    with foreword.open(str(tmp_path), FrozenClock()) as ws:
        assert ws.notices == [
            "agent_long_term_memory: 1 entry imported",
            f"{MISSING} 2 ('mallory', 'reid')",
        ]
        assert "- A dog called Rex. (own/inner/20260218-" in read(ws, "carol")
        (entry,) = find_entries(ws)
        ws.memory.forget(entry.path, CAROL)
    with foreword.open(str(tmp_path), FrozenClock()) as ws:
        assert ws.notices == []
        assert "Rex" not in read(ws, "carol")
    with closing(sqlite3.connect(path)) as state:
        assert state.execute(f"SELECT user_id, notes FROM old_{NOTES_TABLE}").fetchall() == [
            ("mallory", "Of a stranger.")
        ]
    assert not any(b"Rex" in file.read_bytes() for file in (tmp_path / ".foreword").glob(f"{STATE_FILE}*"))
    assert [row["user_id"] for row in read_rows(path)[NOTES_TABLE]] == ["mallory"]


def read_table(path: str, name: str) -> list[str]:
    """Read the texts of a table of long-term memory; a missing table has none."""
    with closing(sqlite3.connect(path)) as state:
        known = state.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone()
        return [text for (text,) in state.execute(f"SELECT notes FROM {name} ORDER BY rowid")] if known else []


def test_upgraded_again(tmp_path: Path) -> None:
    """Rows that an old program writes after the upgrade are imported at the next start; refused rows remain."""
    path = make_database(tmp_path / ".foreword" / STATE_FILE, ROWS)
    write_files(tmp_path, {"foreword.yaml": CONFIG})
    foreword.open(str(tmp_path), FrozenClock()).close()
    with closing(sqlite3.connect(path)) as state:
        state.execute(TABLE)
        rows = [("0", "carol", "reid", "Two.", DAY), ("1", "mallory", "reid", "Three.", DAY)]
        state.executemany(
            f"INSERT INTO {NOTES_TABLE} (id, user_id, agent_name, notes, updated_at) VALUES (?, ?, ?, ?, ?)", rows
        )
        state.commit()
        state.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with foreword.open(str(tmp_path), FrozenClock()) as ws:
        assert ws.notices[0] == "agent_long_term_memory: 1 entry imported"
        assert {entry.text for entry in find_entries(ws)} == {"A dog called Rex.", "Two."}
    assert read_table(path, f"old_{NOTES_TABLE}") == ["Of a stranger."]
    assert read_table(path, NOTES_TABLE) == ["Three."]
    write_files(tmp_path, {"foreword.yaml": CONFIG.replace("dave:", "mallory: {trust: inner}, dave:")})
    with foreword.open(str(tmp_path), FrozenClock()) as ws:
        assert ws.notices == ["agent_long_term_memory: 2 entries imported"]
    assert read_table(path, f"old_{NOTES_TABLE}") == []


def test_row_written_while_it_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that another program writes during the import is imported at the next start."""
    path = make_database(tmp_path / ".foreword" / STATE_FILE, [ROWS[0], ("carol", "reid", "Tea.", DAY)])
    write_files(tmp_path, {"foreword.yaml": CONFIG})

    def write_meanwhile(*given: Any) -> NotesReport:
        report = import_notes(*given)
        with closing(sqlite3.connect(path)) as state:
            state.execute(f"INSERT INTO {NOTES_TABLE} VALUES ('9', 'carol', 'reid', 'Late.', ?)", (DAY,))
            state.execute(f"UPDATE {NOTES_TABLE} SET notes = 'Coffee.' WHERE notes = 'Tea.'")
            state.commit()
        return report

    with monkeypatch.context() as patched:
        patched.setattr(module, "import_notes", write_meanwhile)
        foreword.open(str(tmp_path), FrozenClock()).close()
    assert read_table(path, NOTES_TABLE) == ["Coffee.", "Late."]
    with foreword.open(str(tmp_path), FrozenClock()) as ws:
        assert ws.notices == ["agent_long_term_memory: 2 entries imported"]
        assert {entry.text for entry in find_entries(ws)} == {"A dog called Rex.", "Tea.", "Coffee.", "Late."}


def test_state_of_an_older_foreword(tmp_path: Path) -> None:
    """A state that was upgraded by an older version has its long-term memory imported now."""
    write_files(tmp_path, {"foreword.yaml": CONFIG})
    make_database(tmp_path / ".foreword" / STATE_FILE, [], OLD)
    with closing(sqlite3.connect(tmp_path / ".foreword" / STATE_FILE)) as state:
        state.execute(f"DROP TABLE {NOTES_TABLE}")
    with foreword.open(str(tmp_path), FrozenClock()) as ws:
        ws.assemble(Turn(user="carol", situation="dm"))
    make_database(tmp_path / ".foreword" / STATE_FILE, ROWS[:1], "")
    with foreword.open(str(tmp_path), FrozenClock()) as ws:
        assert ws.notices == ["agent_long_term_memory: 1 entry imported"]
        assert "Rex" in read(ws, "carol")


def test_upgrade_that_cannot_write(tmp_path: Path) -> None:
    """If entries cannot be written, the workspace opens with a message and the next start tries again."""
    make_database(tmp_path / ".foreword" / STATE_FILE, ROWS[:1])
    write_files(tmp_path, {"foreword.yaml": CONFIG, "users/carol/memory": "a file in the way"})
    with foreword.open(str(tmp_path), FrozenClock()) as ws:
        (notice,) = ws.notices
        assert notice.startswith("agent_long_term_memory is not imported yet: users/carol/memory/inner/")
    os.unlink(tmp_path / "users/carol/memory")
    with foreword.open(str(tmp_path), FrozenClock()) as ws:
        assert ws.notices == ["agent_long_term_memory: 1 entry imported"]
