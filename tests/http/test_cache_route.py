"""`GET /api/cache` reports cache breaks to the user who made the calls and not to lower clearances."""

import pytest
from served import CONFIG, serve_workspace, show_answer

from foreword.testing import write_files

SOUL = "".join(f"{number}. Say less than you know.\n" for number in range(1, 90))
FILES = {"foreword.yaml": f"{CONFIG}prompt: {{files: [{{path: SOUL.md, edits: now}}]}}\n", "SOUL.md": SOUL}


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A server on which alice edited her agent's SOUL.md during a conversation."""
    folder = tmp_path_factory.mktemp("house")
    with serve_workspace(folder, files=FILES) as served, served.ask_as("alice") as client:
        client.post("/api/turns", json={"text": "One"})
        write_files(folder, {"SOUL.md": SOUL.replace("40. Say less", "40. Say more")})
        served.workspace.refresh(now=True)
        served.told = client.post("/api/turns", json={"text": "Two"}).json()
        served.gateway.listeners.recorder.flush(60)
        yield served


def ask(house, user="alice", **params):
    """Call the cache route."""
    with house.ask_as(user) as client:
        return client.get("/api/cache", params=params)


def test_a_break(house):
    """A break has cause, section, byte offset, billed tokens and cost; the ledger records the reason of the rebase."""
    told = ask(house).json()
    (broken,) = told["breaks"]
    assert (broken["turn"], broken["session"]) == (house.told["turn"], house.told["session"])
    assert (broken["cause"], broken["where"]) == ("section", "soul")
    assert broken["byte"] > 0
    assert broken["usd"] > 0
    assert told["lost"]["causes"] == [
        {"cause": "section", "breaks": 1, "tokens": broken["tokens"], "usd": broken["usd"], "unpriced": 0}
    ]
    (moved,) = told["moves"]
    assert (moved["deed"], moved["ground"], moved["decisions"][0]["section"]) == ("rebase", "ordered", "soul")
    assert (told["calls"], told["deeds"]) == (2, {"rebase": 1})
    assert 0 < told["reported"]["share"] < 1
    assert told["reported"]["share"] == pytest.approx(told["predicted"]["share"], abs=0.02)
    assert [(one["model"], one["calls"]) for one in told["calibrations"]] == [("anthropic:claude-sonnet-5", 2)]


def test_which(house):
    """The report can be filtered by time, session and user."""
    session = house.told["session"]
    assert ask(house, session=session[:8]).json()["calls"] == 2
    assert ask(house, user="carol", since="1h").json()["calls"] == 2
    assert ask(house, until="1h").json()["breaks"] == []
    assert ask(house, since="sometime").status_code == 422


def test_no_such_session(house):
    """An unknown session and another user's session give the same 404; an own session without calls is empty."""
    unknown = ask(house, "bob", session="fedcba98")
    assert (unknown.status_code, unknown.json()["error"]["message"]) == (404, "there is no such session")
    for session in (house.told["session"], house.told["session"][:8]):
        assert show_answer(ask(house, "bob", session=session)) == show_answer(unknown)
    with house.ask_as("bob") as client:
        begun = client.post("/api/sessions", json={}).json()["session"]
    answer = ask(house, "bob", session=begun)
    assert (answer.status_code, answer.json()["calls"]) == (200, 0)
    assert ask(house, "alice", session=begun).status_code == 404


def test_below(house):
    """A user below the clearance of the turn sees an empty report."""
    answer = ask(house, "bob")
    told = answer.json()
    assert answer.status_code == 200
    assert (told["calls"], told["breaks"], told["moves"], told["deeds"], told["calibrations"]) == (0, [], [], {}, [])
    assert "soul" not in answer.text
