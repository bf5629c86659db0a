"""Private memory over HTTP: shown only to its user and only in private sessions."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from served import serve_workspace

from foreword.cli.main import main
from foreword.testing import ScriptedCall, ScriptedReply
from waiting import wait

CONFIG = """\
owner: ada
agents: {reid: {model: "anthropic:claude-sonnet-5"}}
users: {ada: {trust: full}, ben: {trust: full}, mia: {trust: familiar}}
memory: {recall: true}
events: {arguments: true}
"""
PARTY = "users/mia/memory/PRESENT-FOR-ADA.md"
PLAN = "# A surprise\n\nThe silver party is on Friday at the lake.\n"
WISH = "Mia wishes for a red bicycle with a silver bell."


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server for a family; the child has saved a wish in private."""
    with serve_workspace(tmp_path_factory.mktemp("family"), files={"foreword.yaml": CONFIG, PARTY: PLAN}) as served:
        calls = (
            ScriptedCall(name="save_memory", arguments={"text": WISH}),
            ScriptedCall(name="memory_search", arguments={"query": "the silver party of Friday"}),
            ScriptedCall(name="memory_get", arguments={"path": "own/PRESENT-FOR-ADA.md"}),
            ScriptedCall(name="forget_memory", arguments={"path": "own/PRESENT-FOR-ADA.md"}),
            ScriptedCall(name="memory_find", arguments={"path": "own/PRESENT-FOR-ADA.md"}),
        )
        served.provider.follow(ScriptedReply(calls=calls), ScriptedReply(text="I keep the silver secret."))
        with served.ask_as("mia") as client:
            assert client.post("/api/turns", json={"text": "Remember my wish."}).status_code == 200
            client.post("/api/sessions")
            asked = {"text": "Which bicycle with a bell does Mia wish for?"}
            served.provider.follow(ScriptedReply(text="A red one, with a silver bell."))
            assert client.post("/api/turns", json=asked).status_code == 200
        Path(served.workspace.files.root, PARTY).write_bytes(PLAN.encode() + b"\xff\n")
        yield served


def show_all(served, user, **asked):
    """Collect everything shown to a user: list, search, entries, and the prompt of a turn about the wish."""
    with served.ask_as(user) as client:
        path = find_path(served)
        answers = [
            client.get("/api/memory", params=asked),
            client.get("/api/memory/search", params={"query": "red bicycle bell", **asked}),
            client.get("/api/memory/search", params={"query": "red bicycle bell", "store": "own", **asked}),
            client.get("/api/memory/entry", params={"path": path, **asked}),
            client.get("/api/memory/entry", params={"path": "own/familiar", **asked}),
            client.post("/api/turns", json={"text": "Which bicycle with a bell does Mia wish for?", **asked}),
            client.post("/api/reload"),
            *list_recorded(served, client, user),
        ]
        prices = [client.post("/api/price", json={"path": PARTY, "text": text}) for text in (None, PLAN)]
    shown = [*(answer.text for answer in answers), *(answer.text.replace(PARTY, "") for answer in prices)]
    return "\n".join([*shown, json.dumps(served.provider.body)])


def list_recorded(served, client, user):
    """List the log entries that a user sees about the turns of others."""
    served.gateway.listeners.recorder.flush(60)
    events = client.get("/api/events", params={"limit": 200})
    turns = {one["trace_id"] for one in events.json()["events"] if one["user_id"] not in (user, None)}
    return [events, *(client.get(f"/api/{kind}/{turn}") for turn in turns for kind in ("turns", "events"))]


def find_path(served):
    """Find the path of the only entry."""
    (name,) = served.workspace.files.list("users/mia/memory/familiar")
    return name.replace("users/mia/memory", "own")


def test_own_user(server):
    """In private the child finds the wish by every route, and the prompt recalls it."""
    seen = show_all(server, "mia")
    assert seen.count("silver bell") >= 4
    assert "saved for mia at familiar" in seen


@pytest.mark.parametrize("user", ["ada", "ben"])
def test_other_users(server, user):
    """The owner and another user of full trust see neither text nor path, also not in log, reports and prices."""
    seen = show_all(server, user).replace(find_path(server), "")
    assert "silver" not in seen
    assert "own/familiar (" not in seen
    assert "PRESENT-FOR-ADA" not in seen


@pytest.mark.parametrize("user", ["ada", "ben", "mia"])
def test_group(server, user):
    """In a group no user sees the wish, the child included."""
    seen = show_all(server, user, situation="group").replace(find_path(server), "")
    assert "silver" not in seen
    assert "own/familiar (" not in seen


@pytest.mark.parametrize("user", ["ada", "ben"])
def test_recorded_turn(server, user):
    """Full trust sees that a private turn exists and its cost; only its user sees prompt and reply."""
    server.gateway.listeners.recorder.flush(60)
    with server.ask_as("mia") as mia, server.ask_as(user) as other:
        rows = mia.get("/api/events", params={"type": "prompt_built", "limit": 200}).json()["events"]
        turn = rows[-1]["trace_id"]
        own, theirs = mia.get(f"/api/turns/{turn}").json(), other.get(f"/api/turns/{turn}").json()
        assert [row["trace_id"] for row in other.get(f"/api/events/{turn}").json()["events"]]
    assert own["reply"] == "I keep the silver secret."
    assert "own/PRESENT-FOR-ADA.md" in own["prompts"][0]["text"]
    assert theirs == {**own, "reply": "", "prompts": []}
    assert theirs["cost_usd"] > 0


def test_recorded_group_turn(server):
    """The prompt and the reply of a group turn are visible at full trust."""
    server.provider.follow(ScriptedReply(text="Hello, all."))
    with server.ask_as("mia") as mia, server.ask_as("ben") as ben:
        turn = mia.post("/api/turns", json={"text": "Hello.", "situation": "group"}).json()["turn"]
        seen = ben.get(f"/api/turns/{turn}").json()
    assert seen["reply"] == "Hello, all."
    assert len(seen["prompts"]) == 1


def test_recorded_arguments(server):
    """With `events.arguments` the arguments of memory tools are recorded in groups, but never in private sessions."""
    server.gateway.listeners.recorder.flush(60)
    search = ScriptedCall(name="memory_search", arguments={"query": "bread and games"})
    server.provider.follow(ScriptedReply(calls=(search,)), ScriptedReply(text="None."))
    with server.ask_as("mia") as mia:
        company = mia.post("/api/turns", json={"text": "Is there bread?", "situation": "group"}).json()["turn"]
        server.gateway.listeners.recorder.flush(60)
        events = mia.get("/api/events", params={"limit": 200}).json()["events"]
    traces = {one["trace_id"] for one in events if "arguments" in one["metadata"]}
    assert traces == {company}
    errors = {one["metadata"]["name"]: one["error"] for one in events if one["event_type"] == "tool_error"}
    assert errors == {"forget_memory": "there is no '…' of this person here"}


def test_price_of_guessed_text(server):
    """The price of a file in another user's private memory does not confirm the owner's guess of its text."""
    Path(server.workspace.files.root, "users/mia/memory/CLUB.md").write_text("# Riding\n\nOn Friday.\n")
    Path(server.workspace.files.root, "users/ada/memory").mkdir(parents=True)
    Path(server.workspace.files.root, "users/ada/memory/MINE.md").write_text("# Tax\n\nIn May.\n")
    Path(server.workspace.files.root, "link.md").symlink_to("users/mia/memory/CLUB.md")
    with server.ask_as("ada") as ada:
        for path in ("users/mia/memory/CLUB.md", "users/mia/memory/NONE.md", "users//mia/./memory/CLUB.md", "link.md"):
            answers = [
                ada.request(way, route, json={"path": path, "text": text, **more})
                for text in (None, "# Riding\n\nOn Friday.\n", "A guess.\n")
                for way, route, more in (("POST", "/api/price", {}), ("PUT", "/api/edits", {"policy": "cold"}))
            ]
            assert {answer.status_code for answer in answers} == {422}
            assert {answer.json()["error"]["message"] for answer in answers} == {
                f"{path} is not part of any prompt of ada: it is another person's memory"
            }
        assert ada.post("/api/price", json={"path": "users/ada/memory/MINE.md"}).status_code == 200
    assert main(["-w", server.workspace.files.root, "price", "users/mia/memory/CLUB.md"]) == 2
    assert main(["-w", server.workspace.files.root, "price", "users/ada/memory/MINE.md"]) == 0


def test_trace_command(server, capsys):
    """`foreword trace --prompt` shows the prompt of a private turn to its user and not to the owner."""
    server.gateway.listeners.recorder.flush(60)
    with server.ask_as("mia") as mia:
        turn = mia.get("/api/events", params={"type": "prompt_built", "limit": 200}).json()["events"][-1]["trace_id"]
    shell = ["-w", server.workspace.files.root, "trace", turn]
    assert main([*shell, "--prompt"]) == 2
    assert "no recorded prompt for this turn" in capsys.readouterr().err
    assert main(shell) == 0
    assert main([*shell, "--prompt", "--reader", "mia"]) == 0
    assert "own/PRESENT-FOR-ADA.md" in capsys.readouterr().out


def test_damaged_file(server):
    """A damaged file of private memory is reported to its user only, any other damaged file to the owner."""
    root = Path(server.workspace.files.root)
    with server.ask_as("ada") as ada, server.ask_as("mia") as mia:
        for name in (PARTY, "AGENTS.md"):
            (root / name).write_text("# Good\n\nGood.\n")
            ada.post("/api/reload")
            mia.post("/api/turns", json={"text": "Hello."})
            (root / name).write_bytes(b"# Bad\n\xff\n")
        faults = ada.post("/api/reload").json()["faults"]
        assert faults == ["AGENTS.md is not UTF-8 in line 2; save it as UTF-8"]
        server.gateway.listeners.recorder.flush(60)
        events = ada.get("/api/events", params={"type": "config_reloaded", "limit": 200}).text
        assert "AGENTS.md is not UTF-8" in events
        assert "PRESENT" not in events
        assert "its edit is not UTF-8" in str(mia.post("/api/explain", json={"text": "Hello."}).json())
    (root / "AGENTS.md").unlink()


def read_menus(served, user, *, folder=".foreword"):
    """Read the menus in the recorded prompts of a user's private turns, and their ledger prefixes."""
    served.gateway.listeners.recorder.flush(60)
    with closing(sqlite3.connect(Path(served.workspace.files.root, folder, "events.sqlite"))) as log:
        prompts = "\n".join(
            text
            for text, facts in log.execute(
                "SELECT text, facts FROM sections JOIN prompt_pieces ON sections.id = section_id"
                " JOIN prompts ON prompts.id = prompt_id"
            )
            if json.loads(facts)["clearance"]["user"] == user
        )
    with closing(sqlite3.connect(Path(served.workspace.files.root, folder, "state.sqlite"))) as state:
        ledgers = state.execute(
            "SELECT lines FROM ledgers JOIN sessions ON sessions.id = session_id JOIN bases ON bases.name = base"
            " WHERE user_id = ?",
            (user,),
        ).fetchall()
    return prompts, str(ledgers)


@pytest.mark.parametrize("theirs", ["# Riding club\n\nOn Friday.\n", "# Tax\n\nTax is due in May.\n"])
def test_forget_own_file(tmp_path, theirs):
    """Forgetting `own/NOTES.md` changes no recorded prompt or ledger of another user whose file has the same path."""
    files = {"users/mia/memory/NOTES.md": theirs, "users/ada/memory/NOTES.md": "# Tax\n\nTax is due in May.\n"}
    config = CONFIG.replace("mia: {trust: familiar}", "mia: {trust: full}")
    with serve_workspace(tmp_path, files={"foreword.yaml": config, **files}) as served:
        for user in ("mia", "ada"):
            served.provider.follow(ScriptedReply(text="Hello."))
            with served.ask_as(user) as client:
                client.post("/api/turns", json={"text": "Hello there, how is it going?"})
        before = read_menus(served, "mia")
        assert "own/NOTES.md" in before[0]
        assert "own/NOTES.md" in before[1]
        assert main(["-w", str(tmp_path), "memory", "forget", "own/NOTES.md", "--yes"]) == 0
        assert read_menus(served, "mia") == before
        prompts, ledger = read_menus(served, "ada")
        assert "own/NOTES.md" not in prompts
        assert "[forgotten]" in prompts
        assert "own/NOTES.md" not in ledger


def test_sharing_needs_approval(tmp_path):
    """A call that shares an entry is held until the child allows it; the owner cannot allow it."""
    with serve_workspace(tmp_path, files={"foreword.yaml": CONFIG}) as served, served.ask_as("mia") as mia:
        save = ScriptedCall(name="save_memory", arguments={"text": WISH})
        served.provider.follow(ScriptedReply(calls=(save,)), ScriptedReply(text="Saved."))
        mia.post("/api/turns", json={"text": "Remember my wish."})
        share = ScriptedCall(name="share_memory", arguments={"path": find_path(served), "store": "social"})
        served.provider.follow(ScriptedReply(calls=(share,)), ScriptedReply(text="It waits."))
        mia.post("/api/turns", json={"text": "Tell the others."})
        assert not list((tmp_path / "memory").rglob("*.md"))
        (held,) = mia.get("/api/held").json()["held"]
        assert "share_memory" in str(held)
        with served.ask_as("ada") as ada:
            assert ada.post(f"/api/held/{held['held']}", json={"allowed": True}).status_code == 404
            assert "silver" not in ada.get("/api/memory/search", params={"query": "bicycle"}).text
        served.provider.follow(ScriptedReply(text="Done."))
        assert mia.post(f"/api/held/{held['held']}", json={"allowed": True}).status_code == 202
        inbox = tmp_path / "memory/social/inbox/mia"
        wait(lambda: list(inbox.glob("*.md")))
        (copy,) = inbox.glob("*.md")
        assert 'confirmed: "mia"' in copy.read_text()
        with served.ask_as("ada") as ada:
            assert "silver" in ada.get("/api/memory/search", params={"query": "bicycle"}).text
