"""Databases with the schema before SPEC-010."""

import os
import sqlite3
from contextlib import closing

import pytest

from foreword.config.schema import Identity
from foreword.engine.context import StoredCharacter
from foreword.errors import InputError
from foreword.storage.agents import find_character, find_instructions, replace_instructions, set_character
from foreword.storage.database import STATE_FILE, open_state
from foreword.storage.legacy_import import ImportResult, import_rows, read_rows, unwrap_json_string

OLD = """
CREATE TABLE agent_configurations (
  id TEXT PRIMARY KEY, agent_name TEXT NOT NULL UNIQUE, llm_config JSONB NOT NULL, system_prompt TEXT
);
CREATE TABLE user_agent_prompt_customizations (
  id TEXT PRIMARY KEY, user_id TEXT, agent_name TEXT, customization_type TEXT NOT NULL, content JSONB,
  priority INTEGER DEFAULT 0,
  CONSTRAINT UQ_user_agent_customization_type UNIQUE (user_id, agent_name, customization_type)
);
"""
AGENTS = [
    ("1", "reid", "{}", "Be calm.\n"),
    ("2", "nova", "{}", None),
    ("3", "ada", "{}", "Größe — 日本\n\n## Not a section"),
]
CUSTOMIZATIONS = [
    # person, agent, type, content, priority
    ("alice", "reid", "style", '"Use bullet points."', 10),
    ("alice", "reid", "tone", '"Be \\"brief\\".\\nAlways: Größe, \\u65e5."', 1),
    ("alice", "reid", "facts", '{"likes": ["tea", "日本"]}', 5),
    ("alice", "reid", "second", '"After the first of its priority."', 5),
    ("alice", "reid", "again", '"Use bullet points."', 20),
    ("alice", "reid", "broken", '{"not": JSON', 30),
    ("alice", "reid", "empty", '""', 2),
    ("alice", "reid", "null", "null", 2),
    ("alice", "reid", "nothing", None, None),
    ("alice", "nova", "list", "[1, 2]", None),
    ("bob", "reid", "half", '"half \\ud800 sign"', 0),
    ("carol", "reid", "blank", '"  "', 0),
    (None, "reid", "nobody", '"Of nobody."', 0),
    ("dora", "reid", "below", '"first"', -1),
    ("dora", "reid", "odd", '"second"', "soon"),
    ("dora", "reid", "bytes", b'"third"', 1),
]
ALICE = (
    'Be "brief".\nAlways: Größe, 日.\n\n{"likes": ["tea", "日本"]}\n\nAfter the first of its priority.\n\n'
    'Use bullet points.\n\n{"not": JSON'
)


def make_old(path, agents=AGENTS, customizations=CUSTOMIZATIONS, schema=OLD):
    """Make a database with the old schema."""
    with closing(sqlite3.connect(path)) as old:
        old.executescript(schema)
        old.executemany("INSERT INTO agent_configurations VALUES (?, ?, ?, ?)", agents)
        old.executemany(
            "INSERT INTO user_agent_prompt_customizations VALUES (?, ?, ?, ?, ?, ?)",
            [(str(number), *row) for number, row in enumerate(customizations)],
        )
        old.commit()
    return str(path)


def import_database(state, path):
    """Import the rows of a database."""
    return import_rows(state, read_rows(path))


def check(state):
    """Check that everything was imported."""
    assert find_character(state, "reid") == StoredCharacter(soul="Be calm.")
    assert find_character(state, "nova") == StoredCharacter()
    assert find_character(state, "ada") == StoredCharacter(soul="Größe — 日本\n\n## Not a section")
    assert find_instructions(state, "alice", "reid") == ALICE
    assert find_instructions(state, "alice", "nova") == "[1, 2]"
    assert find_instructions(state, "bob", "reid") == "half ? sign"
    assert find_instructions(state, "carol", "reid") == ""
    assert find_instructions(state, "dora", "reid") == "first\n\nsecond\n\nthird"
    assert find_instructions(state, "", "reid") == "Of nobody."


def test_upgraded_in_place(tmp_path):
    """A database with the old schema is upgraded when it is opened as the state; its old tables remain."""
    make_old(tmp_path / STATE_FILE)
    for _ in range(2):
        with closing(open_state(str(tmp_path)).connection) as state:
            check(state)
            assert state.execute("SELECT count(*) FROM old_agent_configurations").fetchone() == (3,)
            old = state.execute("SELECT user_id, content FROM old_user_agent_prompt_customizations ORDER BY rowid")
            assert [*old] == [(row[0], row[3]) for row in CUSTOMIZATIONS]
            replace_instructions(state, "alice", "nova", "[1, 2]")
            set_character(state, "nova", soul="")
            assert state.execute("SELECT count(*) FROM sessions").fetchone() == (0,)


def test_upgrade_all_or_nothing(tmp_path):
    """A failed upgrade leaves the database unchanged."""
    path = make_old(tmp_path / STATE_FILE)
    with closing(sqlite3.connect(path)) as old:
        old.execute("CREATE TABLE old_agent_configurations (id)")
    before = dump(path)
    with pytest.raises(sqlite3.OperationalError, match="old_agent_configurations"):
        open_state(str(tmp_path))
    assert dump(path) == before


def dump(path):
    """Dump a database."""
    with closing(sqlite3.connect(path)) as connection:
        return [*connection.iterdump()]


def test_imported(tmp_path, state):
    """Agents and instructions of an old database are imported and named; the database is unchanged."""
    path = make_old(tmp_path / "old #1?.sqlite")
    before = dump(path)
    names = {"agent_names": ("ada", "nova", "reid"), "user_names": ("alice", "bob", "carol", "dora")}
    assert import_database(state, path) == ImportResult(agents=3, instructions=6, existing=0, inactive=0, **names)
    check(state)
    assert dump(path) == before
    assert import_database(state, path) == ImportResult(agents=0, instructions=0, existing=9, inactive=0, **names)
    check(state)


def test_what_is_here_stays(tmp_path, state):
    """An import does not overwrite existing rows."""
    replace_instructions(state, "alice", "reid", "Mine.")
    set_character(state, "reid", soul="Mine, too.")
    imported = import_database(state, make_old(tmp_path / "old.sqlite"))
    assert (imported.agents, imported.instructions, imported.existing) == (2, 5, 2)
    assert find_instructions(state, "alice", "reid") == "Mine."
    assert find_character(state, "reid").soul == "Mine, too."


def test_switched_off(tmp_path, state):
    """Inactive customizations are counted and not imported."""
    path = make_old(tmp_path / "old.sqlite", customizations=CUSTOMIZATIONS[:2])
    with closing(sqlite3.connect(path)) as old:
        old.execute("ALTER TABLE user_agent_prompt_customizations ADD COLUMN is_active INTEGER NOT NULL DEFAULT 1")
        old.execute("UPDATE user_agent_prompt_customizations SET is_active = 0 WHERE customization_type = 'tone'")
        old.commit()
    assert import_database(state, path).inactive == 1
    assert find_instructions(state, "alice", "reid") == "Use bullet points."


def test_new_schema(tmp_path, state):
    """A database with the new schema is imported unchanged."""
    with closing(sqlite3.connect(tmp_path / "new.sqlite")) as new:
        new.execute("CREATE TABLE agent_configurations (agent_name, soul, identity)")
        new.execute("""INSERT INTO agent_configurations VALUES ('reid', 'Be calm.', '{"name": "Reid", "x": 1}')""")
        new.execute("CREATE TABLE user_agent_prompt_customizations (user_id, agent_name, instructions)")
        new.execute("""INSERT INTO user_agent_prompt_customizations VALUES ('alice', 'reid', '"In quotes."')""")
        new.commit()
    import_database(state, str(tmp_path / "new.sqlite"))
    assert find_character(state, "reid") == StoredCharacter(soul="Be calm.", identity=Identity(name="Reid"))
    assert find_instructions(state, "alice", "reid") == '"In quotes."'
    (raw,) = state.execute("SELECT identity FROM agent_configurations").fetchone()
    assert '"x": 1' in raw


def test_long(tmp_path, state):
    """Merged instructions above the length limit are stored completely."""
    rows = [("alice", "reid", str(number), f'"{number} {"x" * 9_000}"', number) for number in range(4)]
    import_database(state, make_old(tmp_path / "old.sqlite", customizations=rows))
    assert len(find_instructions(state, "alice", "reid") or "") > 36_000


@pytest.mark.parametrize("kind", ["missing", "folder", "text", "other"])
def test_no_such_database(tmp_path, state, kind):
    """A file that is not such a database is refused, and nothing is created."""
    path = tmp_path / "old.sqlite"
    if kind == "folder":
        path.mkdir()
    elif kind == "text":
        path.write_text("no database at all, and long enough to be taken for one" * 20)
    elif kind == "other":
        with closing(sqlite3.connect(path)) as other:
            other.execute("CREATE TABLE cats (name)")
    with pytest.raises(InputError, match=r"old\.sqlite"):
        import_database(state, str(path))
    assert os.path.exists(path) == (kind != "missing")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ('"a"', "a"),
        ('"\\"a\\""', '"a"'),
        ("null", ""),
        ("plain words", "plain words"),
        (" 7 ", "7"),
        (7, "7"),
        ({"a": "é"}, '{"a": "é"}'),
        ("[" * 100_000, "[" * 100_000),
        (b"\xff", "\ufffd"),
    ],
)
def test_unwrapped(content, text):
    """JSON strings are unwrapped once; other values are unchanged."""
    assert unwrap_json_string(content) == text
