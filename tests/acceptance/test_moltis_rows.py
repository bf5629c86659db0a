"""Moltis over its public interfaces: components, runtime facts, projects, tools in the text and silent replies."""

import io
import json
import os
import re
from pathlib import Path

import pytest
from served import serve_workspace

from foreword.agent.tools.reading_tools import SKILL_TOOLS
from foreword.agent.tools.registry import BUILT_IN
from foreword.cli.main import main
from foreword.dialects import moltis
from foreword.testing import NOON, ScriptedCall, ScriptedReply, make_workspace, run_fake_provider
from foreword.turn import Host, Sandbox, Tool, Toolset, Turn
from foreword.types import Trust

MODEL = "anthropic:claude-sonnet-5"
CONFIG = """\
owner: alice
users: {{alice: {{trust: full, timezone: Europe/Paris, identities: ["telegram:1001"]}}, bob: {{trust: full}}}}
agents: {{wren: {{model: "{model}", blueprint: moltis, directories: ["{work}"]}}}}
prompt: {{project_stop: "{work}"}}
models: {{"{model}": {{{facts}}}}}
"""
SHELL = Tool(name="exec", description="Run a command.", trust=Trust.INNER, kind="shell")
SEARCH = Tool(name="memory_search", description="Search.", trust=Trust.FAMILIAR, kind="memory")
SEARCHED = ScriptedCall(name="memory_search", arguments={"query": "plum"})
FILES = {
    "IDENTITY.md": "---\nname: Wren\n---\n",
    "SOUL.md": "Dry and exact.\n",
    "USER.md": "---\nname: Alice\n---\n",
    "AGENTS.md": "Shoes off.\n",
    "TOOLS.md": "Otto prints.\n",
    "skills/commit/SKILL.md": "---\nname: commit\ndescription: Create git commits\n---\nStage first.\n",
    "memory/private/garden.md": "The plum tree was planted in 2019.\n",
    "work/CLAUDE.md": "Varnish twice.\n",
}
# each component in the document's order, identified by a phrase unique to it
COMPONENTS = {
    "introduction": "You are a helpful assistant who can act",
    "identity": "Your name is Wren.",
    "soul": "## Soul\nDry and exact.",
    "user": "The user's name is Alice.",
    "project": "## Project Context\n### CLAUDE.md\n",
    "runtime": "## Runtime\nHost: host=quay",
    "routing": "## Execution routing\n",
    "skills": "## Available Skills\n<available_skills>\n",
    "agents": "### AGENTS.md\nShoes off.",
    "tool notes": "### TOOLS.md\nOtto prints.",
    "memory": "## Long-Term Memory\n- memory_search:",
    "tools": "## Available Tools\n",
    "call format": "## How to call tools\n",
    "guidelines": "## Guidelines\n",
}
LESS = {
    "identity": {"IDENTITY.md": ""},
    "user": {"USER.md": "---\ntimezone: Europe/Rome\n---\nShe keeps bees.\n"},
    "skills": {"skills/commit/SKILL.md": None},
    "agents": {"AGENTS.md": ""},
    "tool notes": {"TOOLS.md": ""},
}
FEWER = {
    "project": {"project": ""},
    "runtime": {"host": None, "sandbox": None},
    "routing": {"sandbox": None},
    "memory": {"tools": Toolset([SHELL])},
    "call format": {"model": "openai:gpt-5"},
}
ALSO_GONE = {"runtime": {"routing"}}


def describe(folder: Path, facts: str = "window: 200000", model: str = MODEL, **files: str) -> dict[str, str]:
    """Return the files of a workspace whose model has these settings."""
    return {"foreword.yaml": CONFIG.format(model=model, facts=facts, work=folder / "work"), **FILES, **files}


def build(folder: Path, files: dict[str, str | None] | None = None, **facts: object) -> str:
    """Assemble a turn in which every component has content."""
    given = {
        "user": "alice",
        "situation": "dm",
        "tools": Toolset([SHELL, SEARCH]),
        "host": Host(host="quay"),
        "sandbox": Sandbox(enabled=True),
        "project": str(folder / "work"),
        "now": NOON,
    }
    merged = {**describe(folder, "window: 200000, native_tools: false"), **(files or {})}
    present = {path: text for path, text in merged.items() if text is not None}
    return make_workspace(folder, present).assemble(Turn(**{**given, **facts})).prompt.text


def find_order(text: str) -> list[str]:
    """Return the components of a prompt in order of appearance."""
    return sorted(
        (name for name in COMPONENTS if COMPONENTS[name] in text), key=lambda one: text.index(COMPONENTS[one])
    )


def test_twelve_components(tmp_path: Path) -> None:
    """The prompt has the components in the document's order, with the call format before the guidelines."""
    assert find_order(build(tmp_path)) == list(COMPONENTS)


@pytest.mark.parametrize("name", [*LESS, *FEWER])
def test_each_component_is_optional(tmp_path: Path, name: str) -> None:
    """A component without content leaves no trace, and the others are unchanged."""
    text = build(tmp_path, LESS.get(name), **FEWER.get(name, {}))
    kept = [one for one in COMPONENTS if one != name and one not in ALSO_GONE.get(name, ())]
    assert find_order(text) == kept
    assert ("The user's name" in text) == (name != "user")
    assert text.count("## Workspace Files\n### ") == 1


def test_skills_end_at_their_limit(tmp_path: Path) -> None:
    """The skill list has at most 30,000 characters, contains whole skills only, and counts the omitted ones."""
    text = {f"skills/s{at:03}/SKILL.md": f"---\nname: s{at:03}\ndescription: {'x' * 100}\n---\n" for at in range(300)}
    section = build(tmp_path, text).partition("## Available Skills\n")[2].partition("\n\n##")[0]
    assert 29_700 < len(section.partition("</available_skills>")[0]) <= 30_000
    left = 301 - section.count("<skill ")
    assert section.count("<skill ") == section.count("</skill>")
    assert re.search(rf"\(Left out at the limit.*: {left} more\.\)", section)


def test_skills_are_read(tmp_path: Path) -> None:
    """`read_skill`, which the list names, returns the skill at each listed path."""
    with make_workspace(tmp_path, describe(tmp_path)) as workspace:
        tools = Toolset([*BUILT_IN.tools, *SKILL_TOOLS.tools])
        assembly = workspace.assemble(Turn(user="alice", situation="dm", tools=tools))
        (path,) = re.findall(r'<skill .*path="([^"]+)">', assembly.prompt.text)
        assert 'read_skill("PATH")' in assembly.prompt.text
        assert workspace.call(assembly, "read_skill", {"name": path}).text == "Stage first."


def read_system(request) -> str:
    """Return the system part of a request."""
    if "system" in request.body:
        return "".join(block["text"] for block in request.body["system"])
    return json.dumps(request.body["messages"][0], ensure_ascii=False).replace("\\n", "\n")


def read_host(text: str) -> dict[str, str]:
    """Return the facts of the host line."""
    line = text.partition("## Runtime\nHost: ")[2].partition("\n")[0]
    return dict(fact.split("=", 1) for fact in line.split(" | "))


def test_runtime_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host line of a request has the facts of the machine, the model, the session and the user."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "sudo").write_text("#!/bin/sh\nexit 0\n")
    (programs / "sudo").chmod(0o755)
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    found = read_host(read_system(chat(tmp_path, monkeypatch, "Hello.")))
    machine = os.uname()
    assert re.fullmatch(r"\w+", found.pop("session"))
    assert found == {
        "host": machine.nodename,
        "os": {"Darwin": "macos"}.get(machine.sysname, machine.sysname.lower()),
        "arch": machine.machine,
        "shell": "fish",
        "provider": "anthropic",
        "model": "claude-sonnet-5",
        "sudo_non_interactive": "true",
        "timezone": "Europe/Paris",
    }


def chat(folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str):
    """Send a message with `foreword chat`, and return the resulting request."""
    make_workspace(folder, describe(folder)).close()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    with run_fake_provider() as provider:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url)
        assert main(["-w", str(folder), "chat", *words]) == 0
        return provider.requests[0]


def test_project_in_a_chat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `foreword chat --project` the prompt has the project's files; without it there are none."""
    sent = chat(tmp_path / "a", monkeypatch, "--project", str(tmp_path / "a" / "work"), "Hello.")
    assert "## Project Context\n### CLAUDE.md\n" in read_system(sent)
    assert "Varnish twice." in read_system(sent)
    assert "Varnish twice." not in read_system(chat(tmp_path / "b", monkeypatch, "Hello."))


def test_project_over_http(tmp_path: Path) -> None:
    """A turn over HTTP can open a project; the project of a session is in the prompts of its OpenAI client."""
    work = str(tmp_path / "work")
    with serve_workspace(tmp_path, files=describe(tmp_path)) as served, served.ask_as("alice") as alice:
        assert alice.post("/api/turns", json={"text": "Hello.", "project": work}).status_code == 200
        said = {"model": "wren", "messages": [{"role": "user", "content": "Hello."}]}
        session = alice.post("/v1/chat/completions", json=said).json()["foreword"]["session"]
        assert alice.patch(f"/api/sessions/{session}", json={"project": work}).json()["project"] == work
        said["messages"] = [
            *said["messages"],
            {"role": "assistant", "content": "Yes."},
            {"role": "user", "content": "?"},
        ]
        answer = alice.post("/v1/chat/completions", json=said).json()
        assert answer["foreword"]["session"] == session
        turn, plain, opened = served.provider.requests
    assert "## Project Context\n### CLAUDE.md\n" in read_system(turn)
    assert "Varnish twice." not in plain.raw.decode()
    assert "Varnish twice." in opened.raw.decode()


def test_device_facts_change(tmp_path: Path) -> None:
    """The browser's zone, language and location are in the host line; changes are sent with the next message."""
    one = {"zone": "Asia/Tokyo", "language": "fr-CH", "location": "Geneva"}
    other = {"zone": "Europe/Rome", "location": "Rome"}
    with serve_workspace(tmp_path, files=describe(tmp_path)) as served, served.ask_as("alice") as alice:
        alice.post("/api/turns", json={"text": "Hello.", "client": one})
        headers = {"Accept-Language": "it"}
        alice.post("/api/turns", json={"text": "And now?", "client": other}, headers=headers)
        first, second = served.provider.requests
    assert "| timezone=Asia/Tokyo | accept_language=fr-CH | location=Geneva\n" in read_system(first)
    assert read_system(second) == read_system(first)
    newest = json.dumps(second.body["messages"][-1])
    assert "| timezone=Europe/Rome | accept_language=it | location=Rome" in newest


def fence(tool: str, **arguments: object) -> str:
    """Write a tool call as a model without native tools does."""
    return f"```tool_call\n{json.dumps({'tool': tool, 'arguments': arguments})}\n```\n"


@pytest.mark.parametrize("window", [8_192, 16_384, 20_000, 24_000])
def test_tools_in_the_text(tmp_path: Path, window: int) -> None:
    """A small window retains the call format, and each call in the text gets a separate result or error."""
    calls = fence("memory_get", path="private/garden.md") + "```tool_call\nmemory_get(plum)\n```\n"
    calls += fence("levitate") + fence("memory_get", path=7)
    script = (ScriptedReply(text=calls), ScriptedReply(text="In 2019."))
    files = describe(tmp_path, f"window: {window}, native_tools: false", "openai:gpt-5")
    with serve_workspace(tmp_path, *script, files=files) as served, served.ask_as("alice") as alice:
        assert alice.post("/api/turns", json={"text": "When was it planted?"}).json()["reply"] == "In 2019."
        first, second = served.provider.requests
    assert "tools" not in first.body
    text = read_system(first)
    shown = ["## Available Tools\n### ", "## How to call tools\n", "## Guidelines\n"]
    if window >= 16_000:
        shown += ["Your name is Wren.", "The user's name is Alice.", "## Runtime\nHost: host=", "## Long-Term Memory\n"]
    assert [words for words in shown if words not in text] == []
    results = [part["text"] for part in second.body["messages"][-1]["content"]]
    assert results[0] == "Result of memory_get:\nThe plum tree was planted in 2019."
    assert "the block is no JSON" in results[1]
    assert "There is no tool 'levitate' here" in results[2]
    assert results[3].startswith("Result of memory_get:\n")
    assert "path" in results[3]


def test_native_schemas_in_a_small_window(tmp_path: Path) -> None:
    """Native schemas leave room for identity, soul and user in a window of 16,384 tokens."""
    with serve_workspace(tmp_path, files=describe(tmp_path, "window: 16384")) as served:
        with served.ask_as("alice") as alice:
            alice.post("/api/turns", json={"text": "Hello."})
        (sent,) = served.provider.requests
    assert sent.body["tools"]
    for name in ("introduction", "identity", "soul", "user", "runtime", "tools", "guidelines"):
        assert COMPONENTS[name].replace("host=quay", "host=") in read_system(sent)


def test_model_without_tools(tmp_path: Path) -> None:
    """A model with `tools: false` receives no tools, and the prompt mentions neither tools nor silent replies."""
    with serve_workspace(tmp_path, files=describe(tmp_path, "window: 128000, tools: false")) as served:
        with served.ask_as("alice") as alice:
            alice.post("/api/turns", json={"text": "Hello."})
        (sent,) = served.provider.requests
    text = read_system(sent)
    assert "tools" not in sent.body
    assert text.startswith(moltis.build_system_prompt_minimal_runtime().splitlines()[0])
    own = text.replace("### TOOLS.md\nOtto prints.", "")
    assert not re.search(r"\btools?\b|Silent replies", own, re.IGNORECASE)


def test_guidelines_with_tools() -> None:
    """With tools, the prompt ends with guidelines for tool use, raw output and silent replies; without, it has none."""
    guidelines = moltis.build_system_prompt([SHELL]).partition("## Guidelines\n")[2]
    for words in ("Use the tool that is made for the job", "browser", "do not repeat the raw output of a tool"):
        assert words in guidelines
    assert guidelines.strip().splitlines()[-1].startswith("Silent replies: ")
    assert "Silent replies" not in moltis.build_system_prompt_minimal_runtime()
    assert "## Project Context" not in moltis.build_system_prompt([SHELL])


def test_silent_after_a_tool(tmp_path: Path) -> None:
    """An empty answer after a tool call is a silent reply over HTTP, and the next message is answered."""
    script = (ScriptedReply(calls=(SEARCHED,)), ScriptedReply(text=""), ScriptedReply(text="Here."))
    with serve_workspace(tmp_path, *script, files=describe(tmp_path)) as served, served.ask_as("alice") as alice:
        reply = alice.post("/api/turns", json={"text": "Look it up."}).json()
        assert (reply["state"], reply["reply"], reply["silent"]) == ("answered", "", True)
        assert alice.post("/api/turns", json={"text": "Are you there?"}).json()["reply"] == "Here."
        assert [one.refused for one in served.provider.requests] == [""] * 3


def test_empty_without_a_tool(tmp_path: Path) -> None:
    """An empty answer without a tool call is an error, not a silent reply."""
    with (
        serve_workspace(tmp_path, ScriptedReply(), files=describe(tmp_path)) as served,
        served.ask_as("alice") as alice,
    ):
        assert alice.post("/api/turns", json={"text": "Hello."}).status_code == 502
