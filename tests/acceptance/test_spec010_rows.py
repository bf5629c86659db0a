"""SPEC-010 over its public interfaces: the server's zone, the two tables, and the requests to a provider."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from served import QUICK, serve_workspace

import foreword
from foreword.cli.main import main
from foreword.dialects.spec010 import build_agent_prompt
from foreword.storage.database import STATE_FILE, open_state
from foreword.testing import NOON, FrozenClock, ManualClock, ScriptedCall, ScriptedReply, make_workspace, write_files
from foreword.turn import Client, Turn

CONFIG = """\
owner: alice
users: {alice: {trust: full, timezone: America/New_York}, bob: {trust: familiar}}
agents: {reid: {model: "anthropic:claude-sonnet-5", blueprint: spec010}}
"""
FILES = {"foreword.yaml": CONFIG, "SOUL.md": "From the file.\n"}
BOB = {"user": "bob", "situation": "dm"}
BERLIN, KOLKATA = "01:00 PM (Europe/Berlin)", "05:30 PM (Asia/Kolkata)"
TOKYO, UTC_NOON = "09:00 PM (Asia/Tokyo)", "12:00 PM (UTC)"
OLD = """
CREATE TABLE agent_configurations (id TEXT PRIMARY KEY, agent_name TEXT, system_prompt TEXT);
INSERT INTO agent_configurations VALUES ('1', 'reid', 'Of the old column.');
CREATE TABLE user_agent_prompt_customizations (
  id TEXT PRIMARY KEY, user_id TEXT, agent_name TEXT, customization_type TEXT, content JSONB, priority INTEGER,
  CONSTRAINT UQ_user_agent_customization_type UNIQUE (user_id, agent_name, customization_type)
);
INSERT INTO user_agent_prompt_customizations VALUES ('1', 'bob', 'reid', 'style', '"Of the old content."', 1);
"""


def show_time(text: str) -> str:
    """Return the clock line without its date."""
    return text.partition("## Current Time\n")[2].partition("\n")[0].partition("2026 ")[2]


@pytest.mark.parametrize(
    ("host", "facts", "shown"),
    [
        ("", BOB, BERLIN),
        ("", {"user": "mallory"}, UTC_NOON),
        ("", {"user": "alice", "situation": "group", "room": "den"}, BERLIN),
        ("", {"user": "alice", "situation": "dm"}, "07:00 AM (America/New_York)"),
        ("", {**BOB, "client": Client(zone="Asia/Kolkata")}, KOLKATA),
        ("", {**BOB, "client": Client(zone="Mars/Base")}, UTC_NOON),
        ("Asia/Tokyo", BOB, TOKYO),
        ("Mars/Base", BOB, UTC_NOON),
    ],
)
def test_server_zone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, facts: dict[str, object], shown: str
) -> None:
    """Without a zone of device, user or room, the clock shows the server's zone, and UTC to strangers."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    write_files(tmp_path, {"foreword.yaml": CONFIG + (f"host: {{timezone: {host}}}\n" if host else "")})
    with foreword.open(str(tmp_path), FrozenClock()) as workspace:
        assert show_time(workspace.assemble(Turn(**facts)).prompt.text) == shown


def test_schedules_follow_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A schedule of a user without a zone uses the zone that the clock of the prompt shows."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    write_files(tmp_path, FILES)
    words = ["schedule", "add", "--user", "bob", "--cron", "0 8 * * *", "--say", "Good morning.", "--json"]
    assert main(["-w", str(tmp_path), *words]) == 0
    assert json.loads(capsys.readouterr().out)["zone"] == "Europe/Berlin"


def test_zone_of_a_person_is_changed_live(tmp_path: Path) -> None:
    """The zone under `users` applies, and the next prompt uses an edited zone."""
    with make_workspace(tmp_path, FILES) as workspace:
        assert show_time(workspace.assemble(Turn(**BOB)).prompt.text) == UTC_NOON
        zoned = CONFIG.replace("bob: {trust: familiar}", "bob: {trust: familiar, timezone: Asia/Kolkata}")
        write_files(tmp_path, {"foreword.yaml": zoned})
        workspace.refresh(now=True)
        assert show_time(workspace.assemble(Turn(**BOB)).prompt.text) == KOLKATA


@pytest.mark.parametrize("old", [False, True], ids=["new", "migrated"])
def test_tables(tmp_path: Path, old: bool) -> None:
    """The two tables have the document's columns and constraint, both new and migrated."""
    if old:
        with closing(sqlite3.connect(tmp_path / STATE_FILE)) as before:
            before.executescript(OLD)
    open_state(str(tmp_path)).connection.close()
    with closing(sqlite3.connect(tmp_path / STATE_FILE)) as state:

        def read_columns(table: str) -> dict[str, tuple[object, ...]]:
            return {row[1]: row[2:5] for row in state.execute(f"PRAGMA table_info({table})")}

        agents = read_columns("agent_configurations")
        assert (agents["soul"][0], agents["identity"][:2]) == ("TEXT", ("JSON", 0))
        assert "system_prompt" not in agents
        customizations = read_columns("user_agent_prompt_customizations")
        assert customizations["instructions"] == ("TEXT", 1, "''")
        assert not customizations.keys() & {"customization_type", "content", "priority"}
        name = "user_agent_prompt_customizations"
        (made,) = state.execute("SELECT sql FROM sqlite_master WHERE name = ?", (name,)).fetchone()
        assert "CONSTRAINT uq_user_agent_instructions UNIQUE (user_id, agent_name)" in made
        assert "customization_type" not in made.lower()
        again = f"INSERT INTO {name} (user_id, agent_name) VALUES ('carol', 'reid')"
        state.execute(again)
        with pytest.raises(sqlite3.IntegrityError):
            state.execute(again)


def test_old_database_still_loads(tmp_path: Path) -> None:
    """A database with the old schema is migrated, and the prompt has its soul and its instructions."""
    (tmp_path / ".foreword").mkdir()
    with closing(sqlite3.connect(tmp_path / ".foreword" / STATE_FILE)) as before:
        before.executescript(OLD)
    open_state(str(tmp_path / ".foreword")).connection.close()
    with make_workspace(tmp_path, FILES) as workspace:
        text = workspace.assemble(Turn(**BOB)).prompt.text
    assert "## Soul\nOf the old column.\n" in text
    assert "## User Instructions\nOf the old content.\n" in text


@pytest.mark.parametrize("way", ["import", "in place"])
def test_long_term_memory_is_read(tmp_path: Path, way: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Notes of `agent_long_term_memory` reach read_memory, by `agent import` and with the database as the state."""
    write_files(tmp_path, FILES)
    path = tmp_path / ("old.sqlite" if way == "import" else f".foreword/{STATE_FILE}")
    path.parent.mkdir(exist_ok=True)
    with closing(sqlite3.connect(path)) as old:
        old.executescript(OLD + "CREATE TABLE agent_long_term_memory (user_id, agent_name, notes, updated_at);")
        old.execute("INSERT INTO agent_long_term_memory VALUES ('alice', 'reid', 'A dog called Rex.', '2026-02-18')")
        old.commit()
    if way == "import":
        assert main(["-w", str(tmp_path), "agent", "import", str(path)]) == 0
        assert "1 entry of memory" in capsys.readouterr().out
    with foreword.open(str(tmp_path), FrozenClock()) as workspace:
        assembly = workspace.assemble(Turn(user="alice", situation="dm"))
        assert "Rex" not in assembly.prompt.text
        seen = workspace.call(assembly, "read_memory", {}).text
    assert "- A dog called Rex. (own/full/20260218-" in seen


def find_system(request) -> str:
    """Return the system part of a request."""
    return "".join(block["text"] for block in request.body["system"])


def test_sent_prompt_is_the_functions(tmp_path: Path) -> None:
    """The gateway sends the result of `build_agent_prompt`; the next turn has the new soul, instructions and time."""
    clock = ManualClock(NOON)
    with serve_workspace(tmp_path, files=FILES, options=replace(QUICK, clock=clock)) as served:
        with served.ask_as("bob") as bob, served.ask_as("alice") as alice:
            alice.put("/api/agents/reid/soul", json={"soul": "From the store."})
            alice.put("/api/agents/reid/identity", json={"identity": {"name": "Wren"}})
            bob.put("/api/instructions", json={"instructions": "Be brief."})
            bob.post("/api/turns", json={"text": "Hello."})
            alice.put("/api/agents/reid/soul", json={"soul": "Rewritten."})
            bob.put("/api/instructions", json={"instructions": "Be thorough."})
            clock.now = NOON + timedelta(minutes=7)
            bob.post("/api/turns", json={"text": "And now?"})
        first, second = served.provider.requests
    names = [tool["name"] for tool in first.body["tools"]]
    given = ("From the store.", {"name": "Wren"}, "web", "Be brief.", "UTC", names)
    assert find_system(first).strip() == build_agent_prompt(*given, now=NOON)
    assert len(second.body["messages"]) > len(first.body["messages"])
    sent = find_system(second) + json.dumps(second.body["messages"][-1])
    for words in ("12:07 PM (UTC)", "Rewritten.", "Be thorough."):
        assert words in sent


def test_tools_of_the_document(tmp_path: Path) -> None:
    """The agent has the document's update_instructions, and no tool with a soul or identity parameter."""
    with serve_workspace(tmp_path, files=FILES) as served, served.ask_as("alice") as alice:
        alice.post("/api/turns", json={"text": "Hello."})
        tools = {tool["name"]: tool for tool in served.provider.requests[0].body["tools"]}
    update = tools["update_instructions"]
    assert "Replace" in update["description"]
    assert "read_memory first and keep in the new text all that still holds" in update["description"]
    assert update["input_schema"]["required"] == ["instructions"]
    assert "replaces all" in update["input_schema"]["properties"]["instructions"]["description"]
    taken = {name for tool in tools.values() for name in tool["input_schema"]["properties"]}
    assert not taken & {"soul", "identity"}


def test_memory_is_read_by_the_tool(tmp_path: Path) -> None:
    """A saved memory is in no later prompt; read_memory returns it to its user only."""
    save = ScriptedCall(name="save_memory", arguments={"text": "Rye bread is best."})
    read = ScriptedReply(calls=(ScriptedCall(name="read_memory", arguments={}),))
    script = (
        ScriptedReply(calls=(save,)),
        ScriptedReply(text="Noted."),
        read,
        ScriptedReply(text="You like rye."),
        read,
        ScriptedReply(text="Nothing."),
    )
    with serve_workspace(tmp_path, *script, files=FILES) as served:
        with served.ask_as("bob") as bob, served.ask_as("alice") as alice:
            bob.post("/api/turns", json={"text": "Remember what I like."})
            bob.post("/api/sessions", json={})
            bob.post("/api/turns", json={"text": "What do you remember about me?"})
            alice.post("/api/turns", json={"text": "What do you remember about me?"})
        mine, answered, hers, nothing = (json.dumps(one.body) for one in served.provider.requests[2:])
    assert "Rye bread" not in mine + hers + nothing
    assert "Rye bread is best." in answered
