"""The tools of a `moltis` agent: memory hints, native and text-mode tools, and the guidelines."""

import json
import re
from pathlib import Path

import pytest
from dialect_case import find_section
from moltis_case import (
    EXEC,
    LOCAL,
    NAMES,
    say,
    show,
)

from foreword.engine.sources.documents import read_builtin
from foreword.turn import Tool, Toolset
from foreword.types import Trust


@pytest.mark.parametrize("names", [(), *((name,) for name in NAMES), NAMES])
def test_memory_hints(tmp_path: Path, names: tuple[str, ...]) -> None:
    """Each registered memory tool has one hint, and no other tool has any."""
    tools = Toolset([EXEC, *(Tool(name=name, trust=Trust.FAMILIAR) for name in names)])
    lines = find_section(show(tmp_path, tools=tools), "## Long-Term Memory").splitlines()
    assert [line.partition(":")[0] for line in lines] == [f"- {name}" for name in sorted(names)]


@pytest.mark.parametrize(("size", "shown"), [(159, "x" * 159), (160, "x" * 160), (161, "x" * 160 + "..."), (0, "")])
def test_native_tools(tmp_path: Path, size: int, shown: str) -> None:
    """A model with native tools gets one line per tool in the prompt, and the schemas in the request."""
    tool = Tool(name="t", description="x" * size, parameters=EXEC.parameters, trust=Trust.PUBLIC)
    assembly = say(tmp_path, tools=Toolset([tool]))
    assert find_section(assembly.prompt.text, "## Available Tools") == (f"- t: {shown}" if shown else "- t")
    assert "Params:" not in assembly.prompt.text
    assert "## How to call tools" not in assembly.prompt.text
    (sent,) = assembly.envelope().request["tools"]
    assert sent["function"]["description"] == "x" * size
    assert set(sent["function"]["parameters"]["properties"]) == {"command", "timeout"}


def test_text_tools(tmp_path: Path) -> None:
    """Another model gets every tool with its parameters and the call format in the prompt, and no schemas."""
    clock = Tool(name="clock", description="Tell the time.", trust=Trust.PUBLIC)
    assembly = say(tmp_path, tools=Toolset([EXEC, clock]), **LOCAL)
    text = assembly.prompt.text
    assert find_section(text, "## Available Tools").splitlines() == [
        "### clock",
        "Tell the time.",
        "",
        "### exec",
        "Run a command.",
        "Params: command (string, required), timeout (integer)",
    ]
    assert assembly.envelope("openai").request.keys() == {"model", "messages"}
    (call,) = re.findall(r"^```tool_call\n(.+)\n```$", find_section(text, "## How to call tools"), re.MULTILINE)
    assert json.loads(call).keys() == {"tool", "arguments"}


@pytest.mark.parametrize(
    ("parameters", "lines"),
    [
        ({"type": "object", "properties": {}}, []),
        ({}, []),
        ({"properties": {"a": {}}}, ["Params: a (any)"]),
        ({"properties": {"a": {"type": ["string", "null"]}}}, ["Params: a (string or null)"]),
        (
            {"properties": {"a": {"type": "string", "enum": ["x"]}}, "required": ["a"]},
            [
                "Params: a (string, required)",
                'Schema: {"properties": {"a": {"enum": ["x"], "type": "string"}}, "required": ["a"]}',
            ],
        ),
    ],
)
def test_parameters(tmp_path: Path, parameters: dict[str, object], lines: list[str]) -> None:
    """A tool without parameters has no such line; a complex schema follows in full."""
    tool = Tool(name="t", parameters=parameters, trust=Trust.PUBLIC)
    section = find_section(show(tmp_path, tools=Toolset([tool]), **LOCAL), "## Available Tools")
    assert section.splitlines() == ["### t", *lines]


@pytest.mark.parametrize(
    ("text", "user", "own"),
    [
        (None, "alice", False),
        ("", "alice", False),
        (" \n", "alice", False),
        ("<!-- x -->", "alice", False),
        ("Ask twice.", "alice", True),
        ("Ask twice.", "mallory", False),
    ],
)
def test_guidelines(tmp_path: Path, text: str | None, user: str, own: bool) -> None:
    """The last section is GUIDELINES.md, or the built-in guidelines if it is blank or withheld."""
    tools = Toolset([Tool(name="t", trust=Trust.PUBLIC)])
    shown = show(tmp_path, {} if text is None else {"GUIDELINES.md": text}, user=user, tools=tools)
    section = find_section(shown, "## Guidelines")
    assert shown.rstrip().endswith(section)
    assert section == ("Ask twice." if own else read_builtin("moltis/guidelines").strip())


def test_silent_replies() -> None:
    """The built-in guidelines mention the browser and raw output, and end with the silent reply."""
    *_, last = read_builtin("moltis/guidelines").strip().split("\n\n")
    assert last.startswith("Silent replies: ")
    assert "empty" in last
    assert all(word in read_builtin("moltis/guidelines") for word in ("browser", "raw output"))
