"""`POST /api/reload`, and the effect of configuration edits on requests."""

import pytest
from served import CONFIG, serve_workspace


@pytest.fixture
def edited(tmp_path):
    """A server, and a function that edits its configuration and reloads it."""
    with serve_workspace(tmp_path) as served, served.ask_as("alice") as alice:

        def edit(more):
            (tmp_path / "foreword.yaml").write_text(CONFIG + more)
            answer = alice.post("/api/reload")
            assert answer.status_code == 200
            return answer.json()

        edit.served, edit.alice = served, alice
        yield edit


def test_edit(edited):
    """The owner sees the changed keys, those that need a restart, and errors with file and line."""
    nothing = {"changed": [], "restart": [], "faults": []}
    assert edited("") == nothing
    assert edited("server: {port: 9, rate: 1000}\n") == {
        "changed": ["server"],
        "restart": ["server.port"],
        "faults": [],
    }
    wrong = edited("colour: red\n")
    assert (wrong["changed"], wrong["restart"]) == ([], ["server.port"])
    assert wrong["faults"][0].startswith("foreword.yaml:8: ")
    assert edited("") == {**nothing, "changed": ["server"]}
    errors = [event["error"] for event in edited.served.list_events(type="config_reloaded", level="error")]
    assert errors == [
        "foreword.yaml:8 is faulty: the previous version stays in use; see: foreword doctor",
        "server.port needs a restart: the previous version stays in use",
    ]


def test_invalid_utf8(edited, tmp_path):
    """A file that is not UTF-8 is reported until it is fixed, whether an earlier version was read or not."""
    (tmp_path / "AGENTS.md").write_bytes(b"\xff\xfe")
    edited.alice.post("/api/turns", json={"text": "Hello."})
    (tmp_path / "SOUL.md").write_bytes(b"\xff\xfe")
    faults = edited("")["faults"]
    assert faults == [f"{name} is not UTF-8 in line 1; save it as UTF-8" for name in ("AGENTS.md", "SOUL.md")]
    for name in ("SOUL.md", "AGENTS.md"):
        (tmp_path / name).write_text("Calm.\n")
    assert edited("")["faults"] == []


def test_only_owner(edited):
    """For other users, also at full trust, the route does not exist."""
    for user in ("bob", "carol"):
        with edited.served.ask_as(user) as client:
            answer = client.post("/api/reload")
            assert (answer.status_code, answer.json()["error"]["message"]) == (404, "there is no such route")


def test_hosts_and_rate(edited):
    """Edits of `hosts` and `rate` apply at once."""
    elsewhere = {"Host": "agents.example"}
    assert edited.alice.get("/api/sessions", headers=elsewhere).status_code == 421
    assert edited("server: {hosts: [agents.example]}\n")["restart"] == []
    assert edited.alice.get("/api/sessions", headers=elsewhere).status_code == 200
    edited("server: {rate: 2}\n")
    assert edited.alice.get("/api/sessions", headers=elsewhere).status_code == 421
    assert [edited.alice.get("/api/sessions").status_code for _ in range(3)] == [200, 200, 429]
