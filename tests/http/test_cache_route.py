"""`GET /api/cache` reports cache breaks to the user who made the calls and not to lower clearances."""

import pytest
from served import CONFIG, serve_workspace, show_answer

from foreword.testing import write_files

SOUL = "".join(f"{number}. Say less than you know.\n" for number in range(1, 90))
FILES = {"foreword.yaml": f"{CONFIG}prompt: {{files: [{{path: SOUL.md, edits: now}}]}}\n", "SOUL.md": SOUL}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server on which alice edited her agent's SOUL.md during a conversation."""
    folder = tmp_path_factory.mktemp("house")
    with serve_workspace(folder, files=FILES) as served, served.ask_as("alice") as client:
        client.post("/api/turns", json={"text": "One"})
        write_files(folder, {"SOUL.md": SOUL.replace("40. Say less", "40. Say more")})
        served.workspace.refresh(now=True)
        served.report = client.post("/api/turns", json={"text": "Two"}).json()
        served.gateway.listeners.recorder.flush(60)
        yield served


def ask(server, user="alice", **params):
    """Call the cache route."""
    with server.ask_as(user) as client:
        return client.get("/api/cache", params=params)


def test_a_break(server):
    """A break has cause, section, byte offset, billed tokens and cost; the ledger records the reason of the rebase."""
    report = ask(server).json()
    (broken,) = report["breaks"]
    assert (broken["turn"], broken["session"]) == (server.report["turn"], server.report["session"])
    assert (broken["cause"], broken["where"]) == ("section", "soul")
    assert broken["byte"] > 0
    assert broken["usd"] > 0
    assert report["lost"]["causes"] == [
        {"cause": "section", "breaks": 1, "tokens": broken["tokens"], "usd": broken["usd"], "unpriced": 0}
    ]
    (moved,) = report["moves"]
    assert (moved["deed"], moved["ground"], moved["decisions"][0]["section"]) == ("rebase", "ordered", "soul")
    assert (report["calls"], report["deeds"]) == (2, {"rebase": 1})
    assert 0 < report["reported"]["share"] < 1
    assert report["reported"]["share"] == pytest.approx(report["predicted"]["share"], abs=0.02)
    assert [(one["model"], one["calls"]) for one in report["calibrations"]] == [("anthropic:claude-sonnet-5", 2)]


def test_which(server):
    """The report can be filtered by time, session and user."""
    session = server.report["session"]
    assert ask(server, session=session[:8]).json()["calls"] == 2
    assert ask(server, user="carol", since="1h").json()["calls"] == 2
    assert ask(server, until="1h").json()["breaks"] == []
    assert ask(server, since="sometime").status_code == 422


def test_no_such_session(server):
    """An unknown session and another user's session give the same 404; an own session without calls is empty."""
    unknown = ask(server, "bob", session="fedcba98")
    assert (unknown.status_code, unknown.json()["error"]["message"]) == (404, "there is no such session")
    for session in (server.report["session"], server.report["session"][:8]):
        assert show_answer(ask(server, "bob", session=session)) == show_answer(unknown)
    with server.ask_as("bob") as client:
        begun = client.post("/api/sessions", json={}).json()["session"]
    answer = ask(server, "bob", session=begun)
    assert (answer.status_code, answer.json()["calls"]) == (200, 0)
    assert ask(server, "alice", session=begun).status_code == 404


def test_below(server):
    """A user below the clearance of the turn sees an empty report."""
    answer = ask(server, "bob")
    report = answer.json()
    assert answer.status_code == 200
    assert (report["calls"], report["breaks"], report["moves"], report["deeds"], report["calibrations"]) == (
        0,
        [],
        [],
        {},
        [],
    )
    assert "soul" not in answer.text
