"""Item 11: in a small window, identity, user and call format come before tool schemas."""

import asyncio
import json
import re
from pathlib import Path

import pytest
from budget_house import BLUEPRINTS, assemble, describe, find_verdicts, open_house, read_log, say

from foreword.testing import NOON, ScriptedReply, make_workspace, run_fake_provider
from foreword.turn import Bulletin, State, Step, Task, Turn
from foreword.types import Trust

STEPS = (Step(text="Find a berth", status="done"), Step(text="Tell the crew", status="active"))
BIG = Task(id="7", title="Big", description="Move the ferry to the north quay. " * 57, steps=STEPS)
FACTS = "window: {}, native_tools: false"


@pytest.mark.parametrize("window", [8_192, 16_384, 20_000, 24_000])
def test_the_call_format_comes_before_schemas(tmp_path: Path, window: int) -> None:
    """Moltis with tools in the text always has the call format, and in a full prompt identity, user, soul and hints."""
    assembly = assemble(tmp_path, "moltis", FACTS.format(window))
    verdicts = find_verdicts(assembly)
    needs = ["introduction", "tool-calls", "guidelines"]
    needs += [] if window < 16_000 else ["identity", "soul", "user", "memory"]
    assert {name: verdicts[name] for name in needs} == dict.fromkeys(needs, "kept")
    assert "### memory_get" in assembly.prompt.text


@pytest.mark.parametrize("blueprint", ["default", "coop", "moltis", "nova"])
def test_tools_are_offered_with_their_schema_or_not_at_all(tmp_path: Path, blueprint: str) -> None:
    """Each tool of a turn has its whole schema in the text; the others have a verdict and cannot be called."""
    assembly = assemble(tmp_path, blueprint, FACTS.format(16_384))
    verdicts = find_verdicts(assembly)
    shown = {name.partition(":")[2] for name, verdict in verdicts.items() if name.startswith("tool-schemas:")}
    assert {verdicts[f"tool-schemas:{name}"] for name in shown} == {"kept"}
    assert shown == assembly.tools.names
    left_out = {name.partition(":")[2] for name in verdicts if name.startswith("tool:")}
    assert left_out
    assert not left_out & shown


@pytest.mark.parametrize("blueprint", BLUEPRINTS)
def test_native_schemas_leave_room(tmp_path: Path, blueprint: str) -> None:
    """At 16,384 tokens native schemas take 40 % at most, identity and soul stay, and explain has the sum."""
    assembly = assemble(tmp_path, blueprint, "window: 16384", long=True)
    verdicts = find_verdicts(assembly)
    assert {verdicts.get(name, "kept") for name in ("identity", "soul")} <= {"kept", "absent"}
    assert "Reid" in assembly.prompt.text
    if blueprint != "osa":  # its budget is the whole window
        assert assembly.fit.tool_tokens <= 0.4 * assembly.fit.limit
        assert "tool schemas have 983 of 2,457 tokens; wants " in assembly.explain()


@pytest.mark.parametrize("blueprint", ["default", "coop", "moltis"])
def test_the_model_is_told_what_was_left_out(tmp_path: Path, blueprint: str) -> None:
    """The list of tools ends with the names of those that do not fit the window."""
    assembly = assemble(tmp_path, blueprint, "window: 16384")
    names = [one.tool.name for one in assembly.inputs.toolkit.left_out]
    assert f"(This model has no room for these tools: {', '.join(names)}.)" in assembly.prompt.text


def test_a_large_window_offers_all_tools(tmp_path: Path) -> None:
    """With 128,000 tokens no tool is left out."""
    assert assemble(tmp_path, "default", "window: 128000").inputs.toolkit.left_out == ()


@pytest.mark.parametrize("mode", ["full", "minimal"])
@pytest.mark.parametrize("native", ["true", "false"])
@pytest.mark.parametrize("blueprint", BLUEPRINTS)
def test_a_model_without_tools_gets_none(tmp_path: Path, blueprint: str, native: str, mode: str) -> None:
    """`tools: false` applies in every mode: the request has no tool, and no text lists or describes one."""
    facts = f"window: 128000, tools: false, native_tools: {native}"
    assembly = assemble(tmp_path, blueprint, facts, mode=mode, message="Hi")
    assert "tools" not in assembly.envelope().request
    assert "tool_call" not in assembly.prompt.text
    assert "memory_get" not in assembly.prompt.text


def test_nova_shows_all_memories_that_fit(tmp_path: Path) -> None:
    """120 facts are all shown in a large window; in a small one a marker names the call for the rest."""
    facts = {"memories.json": json.dumps([f"Fact {number}: the berth is narrow." for number in range(120)])}
    for window, shown in (("1000000", 120), ("200000", 120)):
        files = {**describe("nova", f"window: {window}"), **facts}
        text = make_workspace(tmp_path / window, files).assemble(Turn(user="alice", situation="dm")).prompt.text
        assert text.count("the berth is narrow") == shown
    files = {**describe("nova", "window: 16384"), **facts}
    text = make_workspace(tmp_path / "small", files).assemble(Turn(user="alice", situation="dm")).prompt.text
    assert 20 < text.count("the berth is narrow") < 120
    assert 'read_section("memories", from=' in text


@pytest.mark.parametrize("blueprint", ["nova", "default"])
def test_a_bound_task_keeps_status_and_steps(tmp_path: Path, blueprint: str) -> None:
    """A description that is too long is cut; title, status and steps of the task stay."""
    facts = {"memories.json": json.dumps([f"Fact {number}: the berth is narrow." for number in range(40)])}
    workspace = make_workspace(tmp_path, {**describe(blueprint, "window: 16384"), **facts})
    state = State(workflow="Stage two. " * 200)
    assembly = workspace.assemble(Turn(user="alice", situation="dm", task=BIG, state=state))
    text = assembly.prompt.text
    assert find_verdicts(assembly)["task"] == "shortened"
    assert "Title: Big\nDescription: Move the ferry to the north quay." in text
    assert "Status: active\nSteps:\n1. ✓ Find a berth (done)\n2. → Tell the crew" in text
    assert 'read_section("task", from=' in text


@pytest.mark.parametrize("part", ["workflow", "bulletin"])
def test_osa_cuts_a_block_of_one_long_line(tmp_path: Path, part: str) -> None:
    """An OSA block of one long line is truncated after a word, not dropped."""
    line = "the crane lifts another crate " * 1_600
    state = State(workflow=line) if part == "workflow" else State(bulletins=(Bulletin(text=line, trust=Trust.PUBLIC),))
    assembly = assemble(tmp_path, "osa", "window: 17000", state=state, message="Hi")
    row = next(row for row in assembly.rows() if row.id == part)
    assert str(row.verdict) == "shortened"
    assert row.tokens > 500
    assert re.search(r"(the crane lifts|another|crate)\n\[\.\.\.truncated\.\.\.\]", assembly.prompt.text)


def test_the_log_counts_what_was_cut(tmp_path: Path) -> None:
    """The event `prompt_built` has the number and the names of shortened and dropped sections."""
    files = {**describe("moltis", "window: 16384"), "AGENTS.md": "Check the ledger.\n" * 4_000}

    async def run(stand_in) -> None:
        async with open_house(tmp_path, stand_in, files=files) as gateway:
            await say(gateway, "Hello.")

    with run_fake_provider() as stand_in:
        stand_in.follow(ScriptedReply(text="Hello."))
        asyncio.run(run(stand_in))
    facts = next(facts for kind, _, _, facts in read_log(tmp_path) if kind == "prompt_built")
    assert facts["shortened"] >= 1
    assert facts["dropped"] >= 1
    assert "agents" in facts["lost"]
    assert len(facts["lost"]) == facts["shortened"] + facts["dropped"]


def test_the_prefix_does_not_depend_on_the_turn(tmp_path: Path) -> None:
    """Blueprint and model decide which tools fit; message, task and clock do not."""
    plain = assemble(tmp_path / "a", "moltis", "window: 16384")
    busy = assemble(
        tmp_path / "b", "moltis", "window: 16384", message="Why? " * 300, task=BIG, now=NOON.replace(hour=3)
    )
    assert plain.tools.names == busy.tools.names
    assert plain.prompt.blocks[0].text == busy.prompt.blocks[0].text
