"""Claims about the line that replaces an omitted text."""

from pathlib import Path

import pytest
from small import HEAD, STRICT, build, file_slot, lines, list_verdicts, show

from foreword.agent.tools.reading_tools import READING_TOOLS
from foreword.assembly import Assembly
from foreword.errors import BudgetError
from foreword.testing import make_workspace
from foreword.turn import Task, Toolset

ROWS = ["id: a, source: file, file: A.md, title: First, pace: static", file_slot("b"), file_slot("c")]
FILES = {"A.md": lines(30), "B.md": lines(3), "C.md": lines(30)}
TIGHT = "least: 200, system: 300"
ROOMY = "least: 200, system: 507"


def find_row(assembly: Assembly, name: str):
    """Find the row of a slot."""
    return next(row for row in assembly.rows() if row.id == name)


def test_place(tmp_path: Path) -> None:
    """An omitted text leaves a line in its place, under its heading, with the weight of the text."""
    assembly = build(tmp_path, TIGHT, ROWS, FILES, head=STRICT, tools=Toolset())
    assert list_verdicts(assembly) == {"a": "kept", "b": "kept", "c": "dropped"}
    total = assembly.meter.count(lines(30).rstrip())
    assert show(assembly, "c") == f"[gone {total}]\n\n"
    assert assembly.prompt.text.endswith(f"{lines(3)}\n[gone {total}]\n\n")


def test_heading(tmp_path: Path) -> None:
    """The line is under the heading of the omitted text, so that the model knows what it does not have."""
    assembly = build(tmp_path, "least: 300, system: 100", ROWS, FILES, head=STRICT)
    assert list_verdicts(assembly) == {"a": "dropped", "b": "kept", "c": "dropped"}
    assert show(assembly, "a").startswith("## First\n[gone ")


def test_row(tmp_path: Path) -> None:
    """The report of such a slot says dropped, the reason, the position of its line and its weight."""
    row = find_row(assembly := build(tmp_path, TIGHT, ROWS, FILES, head=STRICT), "c")
    assert row.span is not None
    assert row.tokens == assembly.meter.count(show(assembly, "c")) < row.wanted
    assert row.reason.startswith("static slots have 300 of 300 tokens; wants 240, and its part is ")
    assert row.sha256


def test_call(tmp_path: Path) -> None:
    """Where the turn has a tool for it, the line names the call that returns the whole text."""
    assembly = build(tmp_path, ROOMY, ROWS, FILES, head=STRICT, tools=READING_TOOLS)
    assert show(assembly, "c").endswith(': memory_get("C.md", from=1)]\n\n')
    found = make_workspace(tmp_path, {}).call(assembly, "memory_get", {"path": "C.md", "from": 1})
    assert found.text == lines(30).rstrip()


def test_call_of_a_section(tmp_path: Path) -> None:
    """A section that is not a file is read with the other tool."""
    slots = [*ROWS, "id: mine, source: instructions, pace: session, cut: never"]
    assembly = build(tmp_path, ROOMY, slots, FILES, head=STRICT, tools=READING_TOOLS, instructions=lines(40))
    assert show(assembly, "mine").endswith(': read_section("mine", from=1)]\n\n')
    found = make_workspace(tmp_path, {}).call(assembly, "read_section", {"id": "mine"})
    assert found.text == lines(40).rstrip()


def test_turn(tmp_path: Path) -> None:
    """A slot of the turn leaves its line in the tail."""
    slots = [file_slot("a"), "id: task, source: moment, form: forms/task, pace: turn, placement: tail, cut: never"]
    task = Task(id="1", title="t" * 4_000)
    assembly = build(tmp_path, "turn: 60", slots, {"A.md": "A\n"}, head=STRICT, tools=READING_TOOLS, task=task)
    assert list_verdicts(assembly) == {"a": "kept", "task": "dropped"}
    assert assembly.prompt.blocks[-1].text.endswith(': read_section("task", from=1)]')
    assert assembly.used - assembly.system_tokens <= 60


def test_loose(tmp_path: Path) -> None:
    """A blueprint that is not strict and has no such line reports the loss, and shows nothing."""
    row = find_row(build(tmp_path, TIGHT, ROWS, FILES, head=HEAD), "c")
    assert (str(row.verdict), row.span, row.tokens, row.cached) == ("dropped", None, 0, False)


def test_listed_has_none(tmp_path: Path) -> None:
    """A slot on the menu has its line there and no other."""
    slots = [file_slot("a", "listed: always"), "id: menu, source: menu, pace: session, trust: familiar"]
    assembly = build(tmp_path, "", slots, {"A.md": lines(30)}, head=STRICT, tools=READING_TOOLS)
    assert list_verdicts(assembly) == {"a": "indexed", "menu": "kept"}
    assert show(assembly, "a") is None
    assert "[gone " not in assembly.prompt.text


def test_overflow_has_none(tmp_path: Path) -> None:
    """A slot that can be listed reserves no room for a separate line when the turn has a menu."""
    slots = [file_slot("a", "listed: overflow"), "id: menu, source: menu, pace: session, trust: familiar"]
    budget = "least: 200, system: 400, menu_share: 0.2"
    listed = build(tmp_path / "menu", budget, slots, {"A.md": lines(30)}, head=STRICT, tools=READING_TOOLS)
    assert list_verdicts(listed) == {"a": "indexed", "menu": "kept"}
    assert show(listed, "a") is None
    alone = build(tmp_path / "alone", "least: 200, system: 150", slots, {"A.md": lines(30)}, head=STRICT)
    assert list_verdicts(alone) == {"a": "dropped", "menu": "absent"}
    assert show(alone, "a").startswith("[gone ")


def test_short_texts_stay(tmp_path: Path) -> None:
    """A text no longer than its replacement line is shown, regardless of other needs for room."""
    files = {**FILES, "B.md": "Tea.\n"}
    for system in range(20, 300, 10):
        try:
            assembly = build(tmp_path / str(system), f"least: 200, system: {system}", ROWS, files, head=STRICT)
        except BudgetError:
            continue
        assert list_verdicts(assembly)["b"] == "kept"


@pytest.mark.parametrize("text", [lines(30), "Tea.\n"], ids=["long", "short"])
def test_on_demand_without_tools(tmp_path: Path, text: str) -> None:
    """An on-demand slot is named where the turn has no tool to read it, however short it is."""
    slots = [file_slot("a", "listed: always"), "id: menu, source: menu, pace: session, trust: familiar"]
    assembly = build(tmp_path, "", slots, {"A.md": text}, head=STRICT)
    assert find_row(assembly, "a").span is not None


@pytest.mark.parametrize("fitting", ["fair", "sequential"])
@pytest.mark.parametrize("tools", [Toolset(), READING_TOOLS], ids=["bare", "tools"])
def test_every_budget(tmp_path: Path, tools: Toolset, fitting: str) -> None:
    """From the least budget on the prompt fits with its lines, and no slot is lost without one."""
    slots = [
        *ROWS,
        "id: never, source: file, file: D.md, pace: static, cut: never, floor: 60",
        "id: user, source: file, file: E.md, pace: session, tier: high",
        "id: mine, source: instructions, pace: session",
    ]
    files = {**FILES, "D.md": lines(9), "E.md": lines(20)}
    worked = 0
    for system in range(20, 1_300, 31):
        budget = f"least: 50, system: {system}, fitting: {fitting}, tiers: {{high: 0.4, low: 1.0}}"
        folder = tmp_path / str(system)
        try:
            assembly = build(folder, budget, slots, files, head=STRICT, tools=tools, instructions=lines(12))
        except BudgetError:
            failed = system
            continue
        worked += 1
        assert assembly.system_tokens <= system
        assert {span.id for span in assembly.prompt.spans} == {
            name for name in list_verdicts(assembly) if not name.startswith("tool:")
        }
    assert worked > 10
    assert failed < 300 + assembly.fit.tool_tokens
    assert set(list_verdicts(assembly).values()) == {"kept"}


@pytest.mark.parametrize("system", range(300, 460, 9))
def test_in_order(tmp_path: Path, system: int) -> None:
    """With sharing in order, the first text also leaves later ones room for the lines that name the omissions."""
    files = {"A.md": lines(35), "B.md": lines(30), "C.md": lines(30)}
    assembly = build(tmp_path, f"least: 1, fitting: sequential, system: {system}", ROWS, files, head=STRICT)
    assert assembly.system_tokens <= system
    assert {span.id for span in assembly.prompt.spans} == {"a", "b", "c"}
