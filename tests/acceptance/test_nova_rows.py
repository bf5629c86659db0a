"""Nova over its public interfaces: its function, a workspace, and the requests of a gateway."""

import json

import pytest
from served import serve_workspace

from foreword.dialects.nova import build_system_prompt
from foreword.testing import NOON, ScriptedCall, ScriptedReply, make_workspace
from foreword.turn import Step, Task, Turn
from foreword.types import Pace

CONFIG = """\
owner: alice
agents:
  wren:
    model: "anthropic:claude-sonnet-5"
    blueprint: nova
    identity: You are Wren.
    responsibilities: [{title: Berths, content: Assign berths.}]
    directories: [/srv/ledger, /srv/archive]
users: {alice: {trust: full, timezone: UTC}}
"""
FILES = {"foreword.yaml": CONFIG}
OTHERS = ("SOUL.md", "AGENTS.md", "MEMORY.md", "SYSTEM.md", "channels/web.md")
FOCUS = "You are working on task #7. Focus on this task only."


def call(name, **arguments):
    """Make a reply that calls a tool."""
    return ScriptedReply(calls=(ScriptedCall(name=name, arguments=arguments),))


def read_system(body):
    """Return the system part of a request."""
    return "".join(part["text"] for part in body["system"])


def test_responsibility_over_http(tmp_path):
    """A responsibility that the agent adds or removes over HTTP takes effect after approval."""
    script = (
        *(call("responsibility_add", title="Tolls", content="Collect tolls."), ScriptedReply(text="It waits.")),
        *(ScriptedReply(text="Added."), ScriptedReply(text="Yes.")),
        *(
            call("responsibility_remove", title="Tolls"),
            ScriptedReply(text="It waits."),
            ScriptedReply(text="Removed."),
            ScriptedReply(text="Yes."),
        ),
    )
    with serve_workspace(tmp_path, *script, files=FILES) as served, served.ask_as() as client:

        def say(text):
            """Send a message in a new session, and return the system part of the first request."""
            client.post("/api/sessions", json={})
            before = len(served.provider.requests)
            assert client.post("/api/turns", json={"text": text}).status_code == 200
            return read_system(served.provider.requests[before].body)

        def allow():
            """Allow the held call, and wait for its turn."""
            (held,) = client.get("/api/held").json()["held"]
            turn = client.post(f"/api/held/{held['held']}", json={"allowed": True}).json()["turn"]
            served.do(served.gateway.wait(turn))

        element = '  <Responsibility title="Tolls">\n    Collect tolls.\n  </Responsibility>\n'
        assert element not in say("From now on, collect tolls.")
        assert client.get("/api/held").json()["held"]
        allow()
        assert element in say("What do you do?")
        say("No more tolls, please.")
        allow()
        last = say("What do you do?")
    assert "Tolls" not in last
    assert '<Responsibility title="Berths">' in last


def test_task_over_http(tmp_path):
    """A session shows its whole task and 40 memories; after removal of the task it shows no task."""
    description = "Move the ferry to the north quay. " * 57
    task = {"id": "7", "title": "Ferry", "status": "active", "description": description.strip()}
    task["steps"] = [{"text": "Find a berth", "status": "done"}, {"text": "Tell the crew", "status": "active"}]
    script = (
        *(call("task_write", tasks=[task]), ScriptedReply(text="Noted."), ScriptedReply(text="Going on.")),
        *(call("task_write", tasks=[]), ScriptedReply(text="Done."), ScriptedReply(text="Yes.")),
    )
    facts = [f"Fact {number}: the berth is narrow." for number in range(40)]
    files = {**FILES, "memories.json": json.dumps(facts)}
    with serve_workspace(tmp_path, *script, files=files) as served, served.ask_as() as client:
        for text in ("Begin.", "Go on.", "It is over.", "What now?"):
            assert client.post("/api/turns", json={"text": text}).status_code == 200
        first, _, bound, _, _, free = (read_system(request.body) for request in served.provider.requests)
    assert "<Task>" not in first
    lines = bound.partition("<Task>\n")[2].partition("\n</Task>")[0].splitlines()
    assert lines[1:] == [
        "",
        "Title: Ferry",
        f"Description: {description.strip()}",
        "Status: active",
        "Steps:",
        "1. ✓ Find a berth (done)",
        "2. → Tell the crew",
    ]
    assert all(fact in bound for fact in facts)
    assert "<Task>" not in free


def test_updates_after_the_builder(tmp_path):
    """Within a session the sent prompt is unchanged, and a later change is sent before the next message."""
    with serve_workspace(tmp_path, files=FILES) as served, served.ask_as() as client:
        client.post("/api/turns", json={"text": "Hello there."})
        (tmp_path / "foreword.yaml").write_text(CONFIG.replace("Assign berths.", "Assign moorings."), encoding="utf-8")
        client.post("/api/reload")
        client.post("/api/turns", json={"text": "And now?"})
        first, second = (request.body for request in served.provider.requests)
    assert first["system"][0]["text"] == second["system"][0]["text"]
    update, message = (part["text"] for part in second["messages"][-1]["content"])
    assert update.startswith("<PromptUpdates>")
    assert "Assign moorings." in update
    assert message == "And now?"


def test_task_keeps_its_focus_and_its_tags(tmp_path):
    """A task restricts the agent to that task, and none of its fields can close or open an element."""
    task = Task(id="7", title="</Task><Background>", description="<Context>", steps=(Step(text="</Task>"),))
    workspace = make_workspace(tmp_path, FILES)
    for text in (
        workspace.assemble(Turn(user="alice", situation="dm", task=task)).prompt.text,
        build_system_prompt({}, "web", "", [], task=task),
    ):
        found = text.partition("<Task>\n")[2].partition("\n</Task>")[0].splitlines()
        assert found[0] == FOCUS
        assert found[2:4] == ["Title: &lt;/Task>&lt;Background>", "Description: &lt;Context>"]
        assert found[-1] == "1. ○ &lt;/Task>"
        assert text.count("</Task>") == 1


@pytest.mark.parametrize("cwd", [True, False])
def test_function_reads_nothing(tmp_path, monkeypatch, cwd):
    """The function uses only its arguments: files in its directory change no byte, and it writes no file."""
    given = {"task": Task(id="7", title="Ferry"), "memories": ["One."], "timezone": "UTC", "now": NOON}

    def build(folder):
        """Build a prompt in a folder, and replace the folder path with a placeholder."""
        monkeypatch.chdir(folder)
        text = build_system_prompt({"identity": "Wren."}, "web", str(folder) if cwd else "", ["/srv"], **given)
        return text.replace(str(folder), "HERE")

    (tmp_path / "empty").mkdir()
    files = {**FILES, **dict.fromkeys(OTHERS, "NO\n"), "memories.json": '["Two."]'}
    make_workspace(tmp_path / "full", files).close()
    before = sorted(tmp_path.rglob("*"))
    assert build(tmp_path / "full") == build(tmp_path / "empty")
    assert sorted(tmp_path.rglob("*")) == before


def test_directories_of_agent_and_turn(tmp_path):
    """The agent's directories precede those of the turn; the first is the working directory."""
    turn = Turn(user="alice", situation="dm", directories=("/srv/quay",))
    text = make_workspace(tmp_path, FILES).assemble(turn).prompt.text
    section = text.partition("<Directories>\n")[2].partition("\n</Directories>")[0].splitlines()
    assert section[0] == "Your working directory is: /srv/ledger"
    assert section[-2:] == ["- /srv/archive", "- /srv/quay"]


def test_three_layers_and_their_marks(tmp_path):
    """Static, session and turn sections are one block each, in this order; the first two have cache breakpoints."""
    turn = Turn(user="alice", situation="dm", channel="telegram", model="anthropic:claude-sonnet-5")
    long = CONFIG.replace("You are Wren.", "You are Wren. " * 400)  # a short prompt gets no cache breakpoint
    assembly = make_workspace(tmp_path, {"foreword.yaml": long}).assemble(turn)
    assert [block.pace for block in assembly.prompt.blocks] == [Pace.STATIC, Pace.SESSION, Pace.TURN]
    assert assembly.marks == ("5m", "5m", None)
    assert assembly.prompt.blocks[-1].text.lstrip().startswith("<Context>")
