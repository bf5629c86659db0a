"""Item 16: SPEC-010's mandate, zone, terminal, imports, and soul, identity and instructions over HTTP."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from dialect_house import run, serve_workspace

from foreword.dialects.spec010 import build_agent_prompt
from foreword.testing import NOON, make_workspace
from foreword.turn import Turn

CONFIG = """\
owner: alice
users: {alice: {trust: full, timezone: UTC}, bob: {trust: familiar}, carol: {trust: full}, dave: {}}
agents: {reid: {model: "anthropic:claude-sonnet-5", blueprint: spec010}}
"""
FILES = {"foreword.yaml": CONFIG, "SOUL.md": "From the file.\n"}


def test_the_memory_mandate() -> None:
    """The mandate says before which answers memory is read, and that the agent does not guess."""
    text = build_agent_prompt("S", None, "web", None).partition("## Memory\n")[2]
    for words in ("IMPORTANT: Before answering any question about", "call read_memory FIRST", "Do not guess"):
        assert words in text
    assert "call save_memory at once" in text


def test_the_zone_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a time zone the prompt has the time of the server."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    assert "01:00 PM (Europe/Berlin)" in build_agent_prompt("S", None, "web", None, now=NOON)
    assert "07:00 AM (America/New_York)" in build_agent_prompt("S", None, "web", None, "America/New_York", now=NOON)


def test_terminal_is_a_channel(tmp_path: Path) -> None:
    """In `foreword chat` the prompt names a terminal, not a web app."""
    text = make_workspace(tmp_path, FILES).assemble(Turn(user="alice", situation="dm", channel="terminal")).prompt.text
    channel = text.partition("## Channel\n")[2].partition("\n\n")[0]
    assert channel.startswith("You are responding via terminal.\nThe user reads this in a terminal")
    assert "web" not in channel


def test_an_import_names_whom_the_configuration_lacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`agent import` warns of agents and users that foreword.yaml lacks, by name."""
    make_workspace(tmp_path, FILES)
    with closing(sqlite3.connect(tmp_path / "old.sqlite")) as old:
        old.executescript(
            "CREATE TABLE agent_configurations (agent_name TEXT, soul TEXT);"
            "INSERT INTO agent_configurations VALUES ('reid', 'Known.'), ('ghost', 'Unknown.');"
            "CREATE TABLE user_agent_prompt_customizations (user_id TEXT, agent_name TEXT, instructions TEXT);"
            "INSERT INTO user_agent_prompt_customizations VALUES ('bob', 'reid', 'A.'), ('uuid-1', 'reid', 'B.');"
        )
    code, printed = run(capsys, tmp_path, "agent", "import", str(tmp_path / "old.sqlite"))
    assert code == 0
    assert "no prompt shows the data of these agents, because foreword.yaml does not list them: ghost\n" in printed
    assert "no prompt shows the data of these users, because foreword.yaml does not list them: uuid-1\n" in printed


def test_soul_and_identity_over_http(tmp_path: Path) -> None:
    """At full trust a soul and an identity are set, read and removed; the next prompt uses them."""

    def read_prompt() -> str:
        return served.workspace.assemble(Turn(user="alice", situation="dm")).prompt.text

    with serve_workspace(tmp_path, files=FILES) as served, served.ask_as("carol") as carol:
        assert carol.get("/api/agents/reid").json() == {"agent": "reid", "soul": "", "identity": None}
        assert carol.put("/api/agents/reid/soul", json={"soul": "From the store."}).json()["soul"] == "From the store."
        fields = {"name": "Wren", "description": "a clerk"}
        kept = carol.put("/api/agents/reid/identity", json={"identity": fields}).json()["identity"]
        assert kept == {"name": "Wren", "emoji": "", "creature": "", "vibe": "", "description": "a clerk"}
        assert "You are Wren — a clerk." in read_prompt()
        assert "From the store." in read_prompt()
        assert carol.delete("/api/agents/reid/soul").json()["soul"] == ""
        assert carol.delete("/api/agents/reid/identity").json()["identity"] is None
        assert "From the file." in read_prompt()
        assert carol.get("/api/agents/ghost").status_code == 404


@pytest.mark.parametrize("user", ["bob", "dave"])
def test_below_full_trust_there_is_no_such_route(tmp_path: Path, user: str) -> None:
    """Below full trust the soul routes do not exist, and nothing is changed."""
    with serve_workspace(tmp_path, files=FILES) as served, served.ask_as(user) as client:
        answers = [
            client.get("/api/agents/reid"),
            client.put("/api/agents/reid/soul", json={"soul": "Mine."}),
            client.put("/api/agents/reid/identity", json={"identity": "Mine."}),
            client.delete("/api/agents/reid/soul"),
        ]
        assert {(one.status_code, one.json()["error"]["message"]) for one in answers} == {
            (404, "there is no such route")
        }
        assert "Mine." not in served.workspace.assemble(Turn(user="alice", situation="dm")).prompt.text


def test_instructions_over_http(tmp_path: Path) -> None:
    """A user sets personal instructions and the owner sets any user's; the log has none of the text."""
    with serve_workspace(tmp_path, files=FILES) as served:
        with served.ask_as("bob") as bob:
            kept = bob.put("/api/instructions", json={"instructions": "Always in kanari."}).json()
            assert kept == {"user": "bob", "agent": "reid", "instructions": "Always in kanari."}
            assert bob.get("/api/instructions").json() == kept
            assert bob.get("/api/instructions", params={"user": "alice"}).status_code == 404
            assert bob.put("/api/instructions", json={"instructions": " "}).status_code == 422
        prompt = served.workspace.assemble(Turn(user="bob", situation="dm")).prompt.text
        assert "Always in kanari." in prompt
        with served.ask_as("alice") as alice:
            assert alice.get("/api/instructions", params={"user": "bob"}).json() == kept
            assert alice.delete("/api/instructions", params={"user": "bob"}).json()["instructions"] == ""
            assert (
                alice.put("/api/instructions", params={"user": "ghost"}, json={"instructions": "x"}).status_code == 404
            )
        with served.ask_as("carol") as carol:
            assert carol.put("/api/instructions", params={"user": "bob"}, json={"instructions": "x"}).status_code == 404
        with served.ask_as("dave") as dave:
            assert dave.get("/api/instructions").status_code == 404
        written = served.list_events(type="memory_write")
        assert len(written) == 2
        assert "kanari" not in str(written)
