"""A person's own memory over HTTP: shown in their private conversations only."""

import json

import pytest
from served import serve_workspace

from foreword.testing import Called, Says
from waiting import wait

CONFIG = """\
owner: ada
agents: {reid: {model: "anthropic:claude-sonnet-5"}}
users: {ada: {trust: full}, ben: {trust: full}, mia: {trust: familiar}}
memory: {recall: true}
"""
WISH = "Mia wishes for a red bicycle with a silver bell."


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """Serve a family; the child has saved a wish in private."""
    with serve_workspace(tmp_path_factory.mktemp("family"), files={"foreword.yaml": CONFIG}) as served:
        save = Called(name="save_memory", arguments={"text": WISH})
        served.provider.follow(Says(calls=(save,)), Says(text="I keep it to us."))
        with served.ask_as("mia") as client:
            assert client.post("/api/turns", json={"text": "Remember my wish."}).status_code == 200
        yield served


def show_all(served, user, **asked):
    """Show what a person is shown: list, search, entries, and the prompt of a turn about the wish."""
    with served.ask_as(user) as client:
        path = find_path(served)
        answers = [
            client.get("/api/memory", params=asked),
            client.get("/api/memory/search", params={"query": "red bicycle bell", **asked}),
            client.get("/api/memory/search", params={"query": "red bicycle bell", "store": "own", **asked}),
            client.get("/api/memory/entry", params={"path": path, **asked}),
            client.get("/api/memory/entry", params={"path": "own/familiar", **asked}),
            client.post("/api/turns", json={"text": "Which bicycle with a bell does Mia wish for?", **asked}),
        ]
    return "\n".join([*(answer.text for answer in answers), json.dumps(served.provider.body)])


def find_path(served):
    """Find the path of the only entry."""
    (name,) = served.workspace.files.list("users/mia/memory")
    return name.replace("users/mia/memory", "own")


def test_the_child(house):
    """In private the child finds the wish by every route, and it is recalled in the prompt."""
    seen = show_all(house, "mia")
    assert seen.count("silver bell") >= 4
    assert "saved for mia at familiar" in seen


@pytest.mark.parametrize("user", ["ada", "ben"])
def test_the_parents(house, user):
    """The owner and a partner of full trust see neither the words nor the path."""
    seen = show_all(house, user).replace(find_path(house), "")
    assert "silver" not in seen
    assert "own/familiar (" not in seen


@pytest.mark.parametrize("user", ["ada", "ben", "mia"])
def test_in_company(house, user):
    """In company no person sees it, the child included."""
    seen = show_all(house, user, situation="group").replace(find_path(house), "")
    assert "silver" not in seen
    assert "own/familiar (" not in seen


def test_sharing_waits_for_the_child(tmp_path):
    """A call that shares an entry is held; the copy is written once the child allows it, and not by the owner's yes."""
    with serve_workspace(tmp_path, files={"foreword.yaml": CONFIG}) as served, served.ask_as("mia") as mia:
        save = Called(name="save_memory", arguments={"text": WISH})
        served.provider.follow(Says(calls=(save,)), Says(text="Saved."))
        mia.post("/api/turns", json={"text": "Remember my wish."})
        share = Called(name="share_memory", arguments={"path": find_path(served), "store": "social"})
        served.provider.follow(Says(calls=(share,)), Says(text="It waits."))
        mia.post("/api/turns", json={"text": "Tell the others."})
        assert not list((tmp_path / "memory").rglob("*.md"))
        (held,) = mia.get("/api/held").json()["held"]
        assert "share_memory" in str(held)
        with served.ask_as("ada") as ada:
            assert ada.post(f"/api/held/{held['held']}", json={"allowed": True}).status_code == 404
            assert "silver" not in ada.get("/api/memory/search", params={"query": "bicycle"}).text
        served.provider.follow(Says(text="Done."))
        assert mia.post(f"/api/held/{held['held']}", json={"allowed": True}).status_code == 202
        inbox = tmp_path / "memory/social/inbox/mia"
        wait(lambda: list(inbox.glob("*.md")))
        (copy,) = inbox.glob("*.md")
        assert 'confirmed: "mia"' in copy.read_text()
        with served.ask_as("ada") as ada:
            assert "silver" in ada.get("/api/memory/search", params={"query": "bicycle"}).text
