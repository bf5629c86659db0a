"""`/api/price`: the cost of an edit for the user's sessions, without revealing other data."""

import pytest
from served import CONFIG, serve_workspace

from foreword.promptcache.rules import Calibration
from foreword.storage.database import use_state
from foreword.storage.ledgers import write_calibration

MODEL = "anthropic:claude-sonnet-5"
SOUL = "".join(f"{number}. Say less than you know, and never more than you were asked.\n" for number in range(1, 90))
EDITED = SOUL.replace("40. Say less", "40. Say more")
FILES = {
    "foreword.yaml": CONFIG + "prompt: {files: [{path: secret.md, trust: full}]}\n",
    "SOUL.md": SOUL,
    "USER.md": "Alice binds books.\n",
    "secret.md": "The gate code is 4711.\n",
    "memory/private/garden.md": "The plum tree was planted in 2019.\n",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server on which three users have had a turn."""
    with serve_workspace(tmp_path_factory.mktemp("house"), files=FILES) as served:
        for user in ("alice", "bob", "carol"):
            with served.ask_as(user) as client:
                assert client.post("/api/turns", json={"text": "Hi"}).status_code == 200
        yield served


def ask(server, user, **asked):
    """Request a price."""
    with server.ask_as(user) as client:
        return client.post("/api/price", json=asked)


def test_owner(server):
    """The owner sees the cost for all users, with four offers each, and the total."""
    price = ask(server, "alice", path="SOUL.md", text=EDITED).json()
    assert {one["user"] for one in price["sessions"]} == {"alice", "bob", "carol"}
    assert {offer["unit"] for one in price["sessions"] for offer in one["offers"]} == {"usd"}
    assert price["all"]["best"] == "append"
    assert price["fresh"]["own"] > 500
    assert not price["saved"]


def test_other_users(server):
    """Other users see only their own sessions, also at full trust."""
    for user in ("bob", "carol"):
        price = ask(server, user, path="SOUL.md", text=EDITED).json()
        assert [one["user"] for one in price["sessions"]] == [user]
        assert price["sha256"] is None
        assert sum(price["spared"].values()) + price["idle"] == 0


def test_calibration(server):
    """Only the owner's prices use the calibration; other users get uncalibrated ones."""
    price = {}
    for ratio in (1.2, 1.7):
        with use_state(server.folder) as state, state:
            write_calibration(state, Calibration(model=MODEL, calls=50, ratio=ratio, raw=0.5, error=0.01))
        for user in ("alice", "bob"):
            priced = ask(server, user, path="SOUL.md", text=EDITED).json()
            price[user, ratio] = ([one["offers"] for one in priced["sessions"]], priced["fresh"])
    assert price["bob", 1.2] == price["bob", 1.7]
    assert price["bob", 1.2][1]["tokens"] > 500
    assert price["alice", 1.2] != price["alice", 1.7]


def test_one_session(server):
    """A session can be selected by id; another user's session is 404."""
    (mine,) = ask(server, "bob", path="SOUL.md", text=EDITED).json()["sessions"]
    named = {"path": "SOUL.md", "text": EDITED, "session": mine["session"]}
    assert [one["session"] for one in ask(server, "bob", **named).json()["sessions"]] == [mine["session"]]
    answer = ask(server, "carol", **named)
    assert (answer.status_code, answer.json()["error"]["message"]) == (404, "there is no such session")


def test_file_above_clearance(server):
    """A file above the user's clearance gets exactly the response for a missing file, with or without text."""
    for text in ({}, {"text": "The gate code is 4712.\n"}):
        answers = [
            ask(server, "bob", path=path, **text).text.replace(path, "?")
            for path in ("secret.md", "nothing.md", "USER.md", "memory/private/garden.md", "memory", "foreword.yaml")
        ]
        assert len(set(answers)) == 1
        assert '"sessions":[]' in answers[0]
        assert '"fresh":null' in answers[0]


def test_no_price(server):
    """The owner sees why a path has no price; a path outside the workspace is refused for all users."""
    for user, path in (("alice", "memory"), ("alice", "foreword.yaml"), ("alice", "../x.md"), ("bob", "/etc/passwd")):
        assert ask(server, user, path=path).status_code == 422, path


def test_edit_policy(server):
    """The owner sets an edit policy in advance; the price reflects it, and `auto` removes it."""
    with server.ask_as("alice") as alice:
        decided = {"path": "SOUL.md", "policy": "cold", "text": EDITED}
        (one,) = alice.put("/api/edits", json=decided).json()["edits"]
        assert (one["path"], one["policy"]) == ("SOUL.md", "cold")
        price = ask(server, "alice", path="SOUL.md", text=EDITED).json()
        assert {session["deed"] for session in price["sessions"]} == {"hold"}
        assert price["sha256"] == one["sha256"]
        assert alice.get("/api/edits").json()["edits"] == [one]
        assert alice.put("/api/edits", json={"path": "SOUL.md", "policy": "auto"}).json() == {"edits": []}
        assert alice.put("/api/edits", json={"path": "none.md", "policy": "now"}).status_code == 404
        for same in ({"path": "SOUL.md"}, {"path": "SOUL.md", "text": SOUL}):
            answer = alice.put("/api/edits", json={**same, "policy": "cold"})
            assert answer.status_code == 422
            assert "no existing session is affected by SOUL.md" in answer.json()["error"]["message"]
        assert alice.get("/api/edits").json() == {"edits": []}
        assert alice.put("/api/edits", json={"path": "SOUL.md", "policy": "later"}).status_code == 400


def test_only_owner_decides(server):
    """For other users the route does not exist."""
    for user in ("bob", "carol"):
        with server.ask_as(user) as client:
            assert client.put("/api/edits", json={"path": "SOUL.md", "policy": "now"}).status_code == 404
            assert client.get("/api/edits").status_code == 404
