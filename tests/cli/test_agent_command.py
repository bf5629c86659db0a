"""`foreword agent`."""

import sqlite3
from contextlib import closing

import pytest

from foreword.config.schema import Responsibility
from foreword.storage.agents import add_responsibility
from foreword.storage.database import use_state


def test_show_and_set(say, folder):
    """A soul and an identity are set from files, shown, override the workspace files, and are cleared by empty ones."""
    assert "none stored" in say("agent", "show", "reid").out
    assert not (folder / ".foreword" / "state.sqlite").exists()
    (folder / "soul.txt").write_text("Be bold. Größe.\n")
    (folder / "who.yaml").write_text("name: Nova\nvibe: dry\n")
    answer = say("agent", "set", "reid", "--soul", "soul.txt", "--identity", "who.yaml")
    assert answer.out == (
        "stored; reid uses it from its next message on:\n"
        "agent: reid\nidentity:\n  name: Nova\n  vibe: dry\nsoul:\nBe bold. Größe.\n"
    )
    shown = say("build", "--mode", "full").out
    assert "Be bold." in shown
    assert "You are calm." not in shown
    assert "Your name is Nova." in shown
    assert say("agent", "show", "--json").json == [
        {
            "agent": "reid",
            "soul": "Be bold. Größe.",
            "identity": {"name": "Nova", "emoji": "", "creature": "", "vibe": "dry", "description": ""},
            "responsibilities": [],
        }
    ]
    (folder / "empty").write_text("\n")
    say("agent", "set", "reid", "--soul", "empty")
    shown = say("build", "--mode", "full").out
    assert "You are calm." in shown
    assert "Your name is Nova." in shown
    say("agent", "set", "reid", "--identity", "empty")
    nothing = {"agent": "reid", "soul": "", "identity": None, "responsibilities": []}
    assert say("agent", "show", "reid", "--json").json == nothing


def test_relieve(say, folder):
    """An agent's responsibilities are shown, and the owner removes one by its exact title."""
    with use_state(str(folder / ".foreword")) as state:
        add_responsibility(state, "reid", Responsibility(title="Hedge", content="Water it."), "alice")
    assert say("agent", "show", "reid").out.endswith("responsibilities it took on:\n  Hedge: Water it.\n")
    assert "### Hedge\nWater it." in say("build", "--mode", "full").out
    wrong = say("agent", "relieve", "reid", "--title", "hedge")
    assert "no responsibility with exactly this title; did you mean 'Hedge'?" in wrong.err
    shown = say("agent", "relieve", "reid", "--title", "Hedge").out
    assert shown == "reid no longer has this responsibility, from its next message on: Hedge\n"
    assert say("agent", "show", "reid", "--json").json["responsibilities"] == []
    assert "--title and the action `relieve` need each other" in say("agent", "relieve", "reid").err
    assert "--title and the action `relieve` need each other" in say("agent", "show", "reid", "--title", "x").err


@pytest.mark.parametrize(
    ("name", "text", "identity"),
    [
        ("a.json", '{"name": "Nova"}', {"name": "Nova", "emoji": "", "creature": "", "vibe": "", "description": ""}),
        ("a.txt", '{"name": "Nova"}', {"name": "Nova", "emoji": "", "creature": "", "vibe": "", "description": ""}),
        ("a.md", "You are Nova: a librarian.\n", "You are Nova: a librarian."),
        ("a.yaml", "", None),
    ],
)
def test_forms_of_an_identity(say, folder, name, text, identity):
    """An identity is given as fields or as text."""
    (folder / name).write_text(text)
    assert say("agent", "set", "reid", "--identity", name, "--json").json["identity"] == identity


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["set"], "needs the name of an agent"),
        (["set", "reid"], "nothing to set"),
        (["set", "ried", "--soul", "SOUL.md"], "did you mean 'reid'"),
        (["set", "reid", "--soul", "-", "--identity", "-"], "cannot both read stdin"),
        (["set", "reid", "--soul", "none.md"], "none.md cannot be read"),
        (["set", "reid", "--identity", "bad.json"], "name"),
        (["set", "reid", "--identity", "bad.txt"], "is not valid JSON"),
        (["show", "--soul", "SOUL.md"], "need the action `set`"),
        (["import"], "needs a SQLite database"),
        (["import", "none.sqlite"], "none.sqlite is not a file"),
        (["import", "SOUL.md"], "SOUL.md cannot be read as a SQLite database"),
    ],
)
def test_bad_input(say, folder, words, said):
    """An impossible action is refused with a remedy and exit code 2."""
    (folder / "bad.json").write_text('{"nmae": "Nova"}')
    (folder / "bad.txt").write_text("{name: Nova}")
    answer = say("agent", *words)
    assert answer.code == 2
    assert said in answer.err
    assert "Traceback" not in answer.err


def test_import_of_long_term_memory(say, folder):
    """Long-term memory is imported as entries, skipped rows are listed, and a second import changes nothing."""
    with closing(sqlite3.connect(folder / "old.sqlite")) as old:
        old.execute("CREATE TABLE agent_long_term_memory (user_id, agent_name, notes, updated_at)")
        rows = [
            ("alice", "reid", "A dog called Rex.", "2026-02-18"),
            ("mallory", "reid", "x", ""),
            ("alice", "", "", ""),
        ]
        old.executemany("INSERT INTO agent_long_term_memory VALUES (?, ?, ?, ?)", rows)
        old.commit()
    answer = say("agent", "import", "old.sqlite")
    assert answer.out == "imported: 0 agents, 0 sets of instructions, 1 entry of memory\n"
    assert "1 row not imported: no text: 3 ('alice', none)" in answer.err
    assert "1 row not imported: add the users to foreword.yaml and import again: 2 ('mallory', 'reid')" in answer.err
    (entry,) = say("memory", "search", "dog", "--json").json
    assert (entry["text"], entry["provenance"]["author"]) == ("A dog called Rex.", "alice")
    assert entry["provenance"]["time"] == "2026-02-18T00:00:00+00:00"
    again = say("agent", "import", "old.sqlite", "--json")
    assert (again.json["notes"], again.json["memory"]["saved"]) == (3, 0)
    assert again.json["memory"]["known"] == ["1 ('alice', 'reid')"]
    assert len(say("memory", "search", "dog", "--json").json) == 1
    assert say("memory", "review", "--json").json == []


def test_upgrade_is_reported(say, folder):
    """The upgrade of a SPEC-010 database imports its long-term memory, and the first command says so."""
    (folder / ".foreword").mkdir()
    with closing(sqlite3.connect(folder / ".foreword" / "state.sqlite")) as old:
        old.execute("CREATE TABLE user_agent_prompt_customizations (user_id, agent_name, content)")
        old.execute("CREATE TABLE agent_long_term_memory (user_id, agent_name, notes)")
        old.execute("INSERT INTO agent_long_term_memory VALUES ('alice', 'reid', 'A dog called Rex.')")
        old.commit()
    answer = say("memory", "search", "dog")
    assert "A dog called Rex." in answer.out
    assert "warning: agent_long_term_memory: 1 entry imported\n" in answer.err
    assert "1 row without a date" in answer.err
    assert say("memory", "search", "dog").err == ""


def test_import_of_rows_that_were_left_out(say, folder):
    """Rows that the upgrade skipped are imported after their user is configured, and leave the state."""
    (folder / ".foreword").mkdir()
    path = folder / ".foreword" / "state.sqlite"
    with closing(sqlite3.connect(path)) as old:
        old.execute("CREATE TABLE user_agent_prompt_customizations (user_id, agent_name, content)")
        old.execute("CREATE TABLE agent_long_term_memory (user_id, agent_name, notes, updated_at)")
        rows = [("zoe", "reid", "A dog called Rex.", "2026-02-18"), ("mallory", "reid", "x", "2026-02-18")]
        old.executemany("INSERT INTO agent_long_term_memory VALUES (?, ?, ?, ?)", rows)
        old.commit()
    assert "2 rows not imported: add the users" in say("memory", "list").err
    config = folder / "foreword.yaml"
    config.write_text(config.read_text().replace("users:\n", "users:\n  zoe: {trust: inner}\n"))
    answer = say("agent", "import", ".foreword/state.sqlite")
    assert answer.out == "imported: 0 agents, 0 sets of instructions, 1 entry of memory\n"
    assert "A dog called Rex." in say("memory", "search", "dog", "--user", "zoe").out
    with closing(sqlite3.connect(path)) as state:
        assert state.execute("SELECT user_id FROM old_agent_long_term_memory").fetchall() == [("mallory",)]


def test_import(say, folder):
    """An old database is imported, and the imported rows are counted."""
    with closing(sqlite3.connect(folder / "old.sqlite")) as old:
        old.execute("CREATE TABLE agent_configurations (agent_name, system_prompt)")
        old.execute("INSERT INTO agent_configurations VALUES ('reid', 'Be bold.')")
        old.execute("CREATE TABLE user_agent_prompt_customizations (user_id, agent_name, customization_type, content)")
        old.execute("""INSERT INTO user_agent_prompt_customizations VALUES ('alice', 'reid', 'style', '"Be brief."')""")
        old.commit()
    assert say("agent", "import", "old.sqlite").out == "imported: 1 agent, 1 set of instructions\n"
    assert "Be brief." in say("build").out
    answer = say("agent", "import", "old.sqlite", "--json").json
    assert answer.pop("memory")["saved"] == 0
    assert answer == {
        "agents": 0,
        "instructions": 0,
        "kept": 2,
        "inactive": 0,
        "agent_names": ["reid"],
        "user_names": ["alice"],
        "notes": 0,
    }
