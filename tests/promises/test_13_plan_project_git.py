"""Plan mode, projects and git work over HTTP and in messengers as in the terminal."""

import asyncio
import json
import os
import subprocess

import pytest
from chat_house import CONFIG, FILES, Messenger, make_shell, open_house, serve

from foreword.testing import ScriptedReply, run_fake_provider, write_files

PEOPLE = CONFIG.replace("bob: {trust: familiar}", "bob: {trust: familiar}\n  carol: {trust: inner}")


@pytest.fixture
def provider():
    """A provider that answers Yes until it is given a script."""
    with run_fake_provider() as one:
        yield one


@pytest.fixture
def place(tmp_path):
    """A repository in a directory of the agent, and other paths that are not projects."""
    inside = tmp_path / "work" / "boat"
    write_files(inside, {"CLAUDE.md": "Varnish twice."})
    write_files(tmp_path, {"CLAUDE.md": "Above the allowed directory.", "secret/CLAUDE.md": "Hidden."})
    os.symlink(tmp_path / "secret", tmp_path / "work" / "link")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=spring", "-C", str(inside)]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "Plane the keel"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    return tmp_path


def make_files(place, blueprint="default"):
    """Make a workspace whose agent has a directory."""
    agent = f'reid: {{model: "anthropic:claude-sonnet-5", blueprint: {blueprint}, directories: ["{place}/work"]}}'
    config = PEOPLE.replace('reid: {model: "anthropic:claude-sonnet-5"}', agent)
    return {**FILES, "foreword.yaml": config.replace("Europe/Paris", "UTC, identities: ['telegram:1001']")}


def test_over_http(place, provider):
    """POST /api/turns accepts a plan and a project; the prompt has both, with the state of the repository."""
    with serve(place / "ws", provider.url, make_files(place)) as ask_as, ask_as("alice") as client:
        project = str(place / "work" / "boat")
        answer = client.post("/api/turns", json={"text": "How far are we?", "plan": True, "project": project})
        assert answer.status_code == 200
        sent = provider.requests[-1].raw.decode()
        assert "Varnish twice." in sent
        assert "Plan mode is on" in sent
        assert "branch spring, clean, last commit" in sent
        assert "Above the allowed directory." not in sent
        assert client.get(f"/api/sessions/{answer.json()['session']}/plan").json()["text"] == "Yes."
        client.post("/api/turns", json={"text": "And now?"})
        assert "Varnish twice." in provider.requests[-1].raw.decode()
        first, second = ([block["text"] for block in one.body["system"]] for one in provider.requests[-2:])
        assert first == second


def test_sessions_over_http(place, provider):
    """A session starts with plan mode and a project, and PATCH changes both; accepting a plan ends plan mode."""
    with serve(place / "ws", provider.url, make_files(place)) as ask_as, ask_as("alice") as client:
        begun = client.post("/api/sessions", json={"plan": True, "project": "boat"}).json()
        assert (begun["plan"], begun["project"]) == (True, str(place / "work" / "boat"))
        client.post("/api/turns", json={"text": "Plan it.", "session": begun["session"]})
        path = f"/api/sessions/{begun['session']}"
        assert client.post(f"{path}/plan/accept").json()["state"] == "accepted"
        assert client.get(path).json()["plan"] is False
        assert client.patch(path, json={"plan": True, "project": ""}).json()["project"] is None
        with ask_as("carol") as other:
            assert other.patch(path, json={"plan": False}).status_code == 404


@pytest.mark.parametrize("path", ["/etc", "..", "boat/../../secret", "link", "nowhere", "~", "boat/CLAUDE.md"])
def test_only_allowed_directories(place, provider, path):
    """A path outside of the agent's directories gets the same error as a missing one."""
    with serve(place / "ws", provider.url, make_files(place)) as ask_as, ask_as("carol") as client:
        answer = client.post("/api/turns", json={"text": "Hello.", "project": path})
        assert answer.status_code == 422
        error = answer.json()["error"]
        assert (error["param"], error["message"]) == (
            "project",
            f"{path!r} is not a project here; it must be a directory in {os.path.realpath(place / 'work')}",
        )
    assert provider.requests == []


def test_projects_need_inner_trust(place, provider):
    """Below inner trust no project is opened, and no directory is named."""
    with serve(place / "ws", provider.url, make_files(place)) as ask_as, ask_as("bob") as client:
        answer = client.post("/api/turns", json={"text": "Hello.", "project": str(place / "work" / "boat")})
    assert answer.status_code == 422
    assert answer.json()["error"]["message"] == "a project needs at least inner trust"


def test_a_directory_that_is_taken_back(place, provider):
    """A session whose project is no longer allowed says so and sends nothing from it."""
    files = make_files(place)
    with serve(place / "ws", provider.url, files) as ask_as, ask_as("alice") as client:
        client.post("/api/sessions", json={"project": "boat"})
        write_files(place / "ws", {"foreword.yaml": files["foreword.yaml"].replace(f"{place}/work", f"{place}/ws")})
        assert client.post("/api/reload").status_code == 200
        answer = client.post("/api/turns", json={"text": "Hello."})
    assert answer.status_code == 502
    assert "is not a project here" in answer.json()["error"]["message"]
    assert provider.requests == []


def test_in_a_messenger(place, provider):
    """/plan and /project work in a messenger and are not sent to the agent."""
    provider.follow(ScriptedReply(text="First this, then that."), ScriptedReply(text="Done."))

    async def run():
        messenger = Messenger()
        channels = {"telegram": messenger}
        async with open_house(place / "ws", provider.url, make_files(place), channels=channels):
            said = ["/plan", "/plan on", "/project", "/project boat", "/project /etc", "Varnish her.", "/plan"]
            return [await messenger.write(one) for one in [*said, "/plan accept", "/plan"]]

    shown, on, projects, opened, refused, _, plan, done, after = asyncio.run(run())
    assert (shown, on) == ("Plan mode is off. /plan on switches it.", "Plan mode is on: I plan and do nothing.")
    assert str(place / "work") in projects
    assert opened == f"The project is {place / 'work' / 'boat'}."
    assert "'/etc' is not a project here" in refused
    assert "First this, then that." in plan
    assert "The newest plan (proposed); /plan accept runs it:" in plan
    assert "The newest plan (accepted):" in after
    assert done == "Done."
    first, second = (request.raw.decode() for request in provider.requests)
    assert "Varnish twice." in first
    assert "branch spring" in first
    assert "Plan mode is on" in first
    assert "Plan mode is on" not in second.split("Varnish her.")[-1]
    assert "/plan" not in first + second.split("Varnish her.")[-1]


def test_the_working_directory_is_known(place, provider, capsys, monkeypatch):
    """`build` and `chat` use the current directory, or `--project`, and the state of its repository."""
    write_files(place / "ws", make_files(place, "osa"))
    shell = make_shell(capsys, monkeypatch, place / "work" / "boat", provider.url)
    here = f"Working directory: {place / 'work' / 'boat'}"
    built = shell("-w", place / "ws", "build")
    assert here in built.out
    assert "Git: branch spring" in built.out
    assert shell("-w", place / "ws", "chat", "Hello.").code == 0
    sent = json.dumps(provider.requests[-1].body)
    assert here in sent
    assert "branch spring" in sent
    assert here not in shell("-w", place / "ws", "build", "--user", "bob").out
    elsewhere = make_shell(capsys, monkeypatch, place / "secret", provider.url)
    elsewhere("-w", place / "ws", "chat", "--new", "--project", place / "work" / "boat", "Hello.")
    sent = json.dumps(provider.requests[-1].body)
    assert here in sent
    assert "branch spring" in sent


def test_the_working_directory_does_not_move_the_prefix(place, capsys, monkeypatch, provider):
    """A turn from another directory changes no byte of the static and session part."""
    write_files(place / "ws", make_files(place))
    stable = []
    for folder in (place / "work" / "boat", place / "secret"):
        shell = make_shell(capsys, monkeypatch, folder, provider.url)
        made = json.loads(shell("-w", place / "ws", "build", "--format", "json").out)
        stable.append([block["text"] for block in made["blocks"] if block["pace"] != "turn"])
        assert f"Working directory: {folder}" in made["text"]
    assert stable[0] == stable[1]
