"""`foreword build`: the options of a turn and the output formats."""

import json

import pytest

from foreword.cli.inputs import parse_time
from foreword.testing import write_files


@pytest.fixture(autouse=True)
def key(monkeypatch):
    """A key, so that the configured model is used."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "of-the-tests")


def test_owner_in_private(say):
    """Without options the turn is the owner's private chat and shows the owner's files."""
    answer = say("build")
    assert (answer.code, answer.err) == (0, "")
    assert "Alice binds books." in answer.out
    assert say("build", "--json").json["clearance"]["level"] == "full"


def test_text_ends_once(say):
    """The text ends with one line break."""
    out = say("build").out
    assert out.endswith("\n")
    assert not out.endswith("\n\n")


@pytest.mark.parametrize("words", [["--user", "mallory"], ["--situation", "stage"]])
def test_unknown_is_public(say, words):
    """An unknown user or situation is public, with a warning and exit code 0."""
    answer = say("build", "--json", *words)
    assert answer.code == 0
    assert "warning" in answer.err
    assert "is not known" in answer.err
    assert answer.json["clearance"]["level"] == "public"


def test_a_situation_that_was_probably_meant(say):
    """A mistyped situation is answered with the nearest one."""
    assert "foreword: warning: did you mean the situation 'group'?\n" in say("build", "--situation", "grup").err


@pytest.mark.parametrize(("option", "name"), [("--agent", "ried"), ("--blueprint", "defualt")])
def test_unknown_is_refused(say, option, name):
    """An unknown agent or blueprint is bad input, with the nearest name."""
    answer = say("build", option, name)
    assert answer.code == 2
    assert "did you mean" in answer.err


def test_unknown_model(say):
    """An unknown model is used with a warning about the assumptions."""
    answer = say("build", "--model", "acme:zeta")
    assert answer.code == 0
    assert "acme:zeta" in answer.err
    assert "assumed" in answer.err


def test_room_has_its_situation(say):
    """A room uses its situation unless another one is named."""
    assert say("build", "--json", "--room", "family").json["clearance"]["level"] == "familiar"
    assert say("build", "--json", "--room", "elsewhere").json["clearance"]["level"] == "familiar"
    # Naming a private chat does not raise a room's ceiling.
    assert say("build", "--json", "--room", "family", "--situation", "dm").json["clearance"]["level"] == "familiar"


@pytest.mark.parametrize("shape", ["anthropic", "openai", "responses", "gemini", "plain"])
def test_provider_formats(say, shape):
    """A provider's format is its JSON request, including the message, without escapes."""
    answer = say("build", "--format", shape, "--message", "Où est le chat ?")
    assert answer.code == 0
    assert "Où est le chat ?" in answer.out
    assert isinstance(answer.json, dict)


def test_json_is_a_format(say):
    """`--json` means `--format json` and cannot be combined with another format."""
    now = ("--now", "2026-11-15T08:30")
    assert say("build", "--json", *now).out == say("build", "--format", "json", *now).out
    answer = say("build", "--json", "--format", "text")
    assert answer.code == 2
    assert "contradict each other" in answer.err


def test_now_is_local(say):
    """A time without a zone is in the user's zone; one with a zone is converted to it."""
    assert "08:30 (Europe/Paris)" in say("build", "--now", "2026-11-15T08:30").out
    assert "09:30 (Europe/Paris)" in say("build", "--now", "2026-11-15T08:30Z").out
    assert "08:30 (UTC)" in say("build", "--user", "bob", "--now", "2026-11-15T08:30").out


@pytest.mark.parametrize(
    "text", ["soon", "", "2026-13-01", "25:00", "0001-01-01T00:00+14:00", "9999-12-31T23:59-14:00"]
)
def test_now_is_no_time(say, text):
    """An invalid time, or one at the end of the calendar, is bad input."""
    answer = say("build", f"--now={text}")
    assert answer.code == 2
    assert "is not a time" in answer.err


def test_parse_time_keeps_zone():
    """A time with a zone retains it."""
    assert parse_time("2026-11-15T08:30+05:00", None).utcoffset().total_seconds() == 5 * 3600


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.json", json.dumps({"id": "7", "title": "Roof", "steps": [{"text": "Call", "status": "done"}]})),
        ("t.yaml", 'id: "7"\ntitle: Roof\nsteps:\n  - {text: Call, status: done}\n'),
    ],
)
def test_task(say, folder, name, text):
    """A task is read from JSON or YAML."""
    write_files(folder, {name: text})
    out = say("build", "--task", name).out
    assert "#7" in out
    assert "✓ Call (done)" in out


def test_task_faults_have_lines(say, folder):
    """All faults of a YAML task are shown, with lines."""
    write_files(folder, {"t.yaml": "id: 7\ntitel: Roof\nsteps: [{text: x, status: dun}]\n"})
    answer = say("build", "--task", "t.yaml")
    assert answer.code == 2
    assert "t.yaml:1: " in answer.err
    assert "t.yaml:2: titel is not a known key; did you mean 'title'?" in answer.err
    assert "t.yaml:3: steps[0].status must be one of active, open, done" in answer.err


STATE = {
    "workflow": "Deploying the site",
    "tasks": [{"id": "3", "title": "Smoke test", "status": "open"}],
    "communication": {"formality": "casual", "length": "short", "topics": ["boats", "bread"]},
    "bulletins": [{"text": "For all to see.", "trust": "public"}, {"text": "For the owner."}],
}
STATE_YAML = """\
workflow: Deploying the site
tasks: [{id: "3", title: Smoke test, status: open}]
communication: {formality: casual, length: short, topics: [boats, bread]}
bulletins:
  - {text: For all to see., trust: public}
  - text: For the owner.
"""


@pytest.mark.parametrize(("name", "text"), [("s.json", json.dumps(STATE)), ("s.yaml", STATE_YAML)])
def test_state(say, folder, name, text):
    """Session state is read from JSON or YAML, and each clearance gets its bulletin."""
    write_files(folder, {name: text})
    out = say("build", "--state", name).out
    for words in ("Deploying the site", "- #3 Smoke test (open)", "Topics: boats, bread", "For the owner."):
        assert words in out
    for_bob = say("build", "--state", name, "--user", "bob").out
    assert "For all to see." in for_bob
    assert "Deploying" not in for_bob
    assert "For the owner." not in for_bob


def test_state_faults_have_lines(say, folder):
    """All faults of a YAML state are shown, with lines."""
    text = "workflow: [a]\ntasks: [{id: 3}]\ncommunication: {formalty: casual}\nbulletins: [{text: x, trust: some}]\n"
    write_files(folder, {"s.yml": text})
    answer = say("build", "--state", "s.yml")
    assert answer.code == 2
    for fault in (
        "s.yml:1: workflow must be text, not a list",
        "s.yml:2: tasks[0].id must be text, not the number 3",
        "s.yml:2: tasks[0].title is missing",
        "s.yml:3: communication.formalty is not a known key; did you mean 'formality'?",
        "s.yml:4: bulletins[0].trust must be one of public, familiar, inner, full",
    ):
        assert fault in answer.err


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ([], "must be a mapping, not a list"),
        ({"task": []}, "task is not a known key; did you mean 'tasks'?"),
        ({"communication": {"topics": "boats"}}, "communication.topics must be a list"),
        ({"bulletins": [{"trust": "full"}]}, "bulletins[0].text is missing"),
    ],
)
def test_bad_state(say, folder, value, hint):
    """An invalid state is refused with the error and its file."""
    write_files(folder, {"s.json": json.dumps(value)})
    answer = say("build", "--state", "s.json")
    assert answer.code == 2
    assert hint in answer.err
    assert "s.json" in answer.err


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("e.json", json.dumps([{"name": "tides", "instructions": "Ask for the port.", "trust": "familiar"}])),
        ("e.yaml", "- {name: tides, instructions: Ask for the port., trust: familiar}\n"),
    ],
)
def test_extensions(say, folder, name, text):
    """Extensions are read from JSON or YAML and shown by name, at their trust."""
    write_files(folder, {name: text})
    assert "### tides\nAsk for the port." in say("build", "--extensions", name).out
    assert "### tides" in say("build", "--extensions", name, "--user", "bob").out
    assert "tides" not in say("build", "--extensions", name, "--user", "mallory").out


def test_extension_without_trust(say, folder):
    """An extension without a trust level is for full clearance only."""
    write_files(folder, {"e.json": '[{"name": "tides", "instructions": "Ask for the port."}]'})
    assert "Ask for the port." in say("build", "--extensions", "e.json").out
    assert "Ask for the port." not in say("build", "--extensions", "e.json", "--user", "bob").out


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ({"name": "tides"}, "must be a list, not a mapping"),
        ([{"instructions": "x"}], "[0].name is missing"),
        ([{"name": "tides", "trust": "ful"}], "did you mean 'full'?"),
        ([{"name": "tides", "text": "x"}], "[0].text is not a known key"),
        ([{"name": "tides"}, {"name": "tides"}], "same name"),
    ],
)
def test_bad_extensions(say, folder, value, hint):
    """Invalid or duplicate extensions are refused with the error."""
    write_files(folder, {"e.json": json.dumps(value)})
    answer = say("build", "--extensions", "e.json")
    assert answer.code == 2
    assert hint in answer.err


def test_tools(say, folder):
    """Tools from a file are added to the agent's tools; one without a trust is for full clearance only."""
    tools = [{"name": "lamp", "description": "Switch a lamp", "parameters": {"type": "object"}}]
    write_files(folder, {"tools.json": json.dumps(tools)})
    names = {tool["name"] for tool in say("build", "--format", "anthropic", "--tools", "tools.json").json["tools"]}
    own = {tool["name"] for tool in say("build", "--format", "anthropic").json["tools"]}
    assert names == {"lamp", *own}
    assert {"memory_get", "read_section", "delegate", "schedule_create"} <= own
    public = say("build", "--format", "anthropic", "--tools", "tools.json", "--user", "bob").json["tools"]
    assert "lamp" not in {tool["name"] for tool in public}


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ({}, "must be a list"),
        ([{"description": "x"}], "[0].name is missing"),
        ([{"name": "x", "trust": "ful"}], "'full'"),
        ([{"name": "x", "parameters": 3}], "parameters must be a JSON object"),
        ([{"name": "x", "inputSchema": {}}], "not a known key"),
        ([{"name": "x"}, {"name": "x"}], "same name: x"),
        ([{"name": "memory_get"}], "same name: memory_get"),
        (["x"], "must be a mapping"),
    ],
)
def test_bad_tools(say, folder, value, hint):
    """Invalid tools are refused with the error."""
    write_files(folder, {"tools.json": json.dumps(value)})
    answer = say("build", "--tools", "tools.json")
    assert answer.code == 2
    assert hint in answer.err
    assert "tools.json" in answer.err or "same name" in hint


def test_history(say, folder):
    """The conversation so far is part of the request."""
    write_files(
        folder, {"h.json": '[{"role": "user", "text": "hi"}, {"role": "assistant", "text": "hello \\ud83d\\ude42"}]'}
    )
    request = say("build", "--format", "openai", "--history", "h.json", "--message", "and?").json
    assert [message["role"] for message in request["messages"]] == ["system", "user", "assistant", "user"]
    assert request["messages"][2]["content"] == "hello 🙂"


@pytest.mark.parametrize(
    ("raw", "hint"),
    [
        (b"[", "h.json:1: not valid JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"\xff", "h.json:1: not UTF-8"),
        (b"[\0]", "NUL byte"),
        (b'[{"role": "robot", "text": "x"}]', "[0].role must be one of user, assistant"),
        (b'[{"role": "user"}]', "[0].text is missing"),
        (b"[" + b"9" * 5000 + b"]", "number with too many digits"),
    ],
)
def test_bad_history(say, folder, raw, hint):
    """An invalid history is refused with the reason."""
    (folder / "h.json").write_bytes(raw)
    answer = say("build", "--history", "h.json")
    assert answer.code == 2
    assert hint in answer.err


@pytest.mark.parametrize("option", ["--history", "--tools", "--task", "--instructions", "--state", "--extensions"])
def test_unreadable_files(say, option):
    """A missing file, or a folder in its place, is bad input."""
    for name in ("nowhere.json", "memory"):
        answer = say("build", option, name)
        assert answer.code == 2
        assert f"{name} cannot be read" in answer.err


def test_instructions(say, folder):
    """Standing instructions are read from a text file."""
    write_files(folder, {"i.txt": "Always rhyme.\n"})
    assert "Always rhyme." in say("build", "--instructions", "i.txt").out


def test_project(say, folder):
    """The project is named by its whole path; a path that is not a folder is bad input."""
    assert f"Project: {folder}/memory" in say("build", "--project", "memory").out
    answer = say("build", "--project", "SOUL.md")
    assert answer.code == 2
    assert "is not a folder" in answer.err


def test_plan_background_mode(say):
    """Plan mode, delivery and prompt mode reach the turn."""
    sections = {
        row["id"]: row["verdict"]
        for row in say("build", "--json", "--plan", "--background", "never", "--mode", "minimal").json["sections"]
    }
    assert (sections["plan"], sections["background"], sections["soul"]) == ("kept", "kept", "absent")
    assert "## Background" in say("build", "--background", "never").out


def test_host_is_told(say):
    """The facts of this machine are in the prompt at inner clearance, and no lower."""
    assert "Host: host=" in say("build").out
    assert "Host: host=" not in say("build", "--user", "bob").out


def test_withheld_is_told_to_the_owner(say):
    """The user of the shell is the owner and sees the slots that are withheld from another user."""
    rows = {row["id"]: row for row in say("build", "--json", "--user", "bob").json["sections"]}
    assert rows["user"]["verdict"] == "withheld"
    assert rows["user"]["sha256"] is None


@pytest.mark.parametrize(
    ("path", "said"),
    [("SOUL.md", "save it as UTF-8; the built-in text is used instead"), ("IDENTITY.md", "save it as UTF-8")],
)
def test_a_spoiled_text(say, folder, path, said):
    """A replacement for an unusable file is reported, even if only the prompt is printed."""
    (folder / path).write_bytes(b"\xff\xfe")
    answer = say("build")
    assert answer.code == 0
    assert f"{path} is not UTF-8 in line 1; {said}" in answer.err


def test_an_unknown_room(say):
    """An unlisted room is treated as an unknown group, with a warning."""
    answer = say("build", "--room", "famly")
    assert answer.code == 0
    expected = "room 'famly' is not listed under `rooms`, so it is treated as an unknown group; did you mean 'family'?"
    assert answer.err == f"foreword: warning: {expected}\n"
    assert say("build", "--room", "family").err == ""
