"""Claims about conditions: what a slot may require of a turn, when the answer is known, and the text without it."""

from dataclasses import replace
from pathlib import Path

import pytest

from foreword.assembly import Assembly, ReportRow
from foreword.engine.blueprint_file import CONDITIONS, find_condition_pace
from foreword.engine.sources.fill import UNMET_REASONS
from foreword.testing import make_workspace
from foreword.turn import Sandbox, Tool, Toolset, Turn
from foreword.types import Pace, Trust
from foreword.workspace import Workspace

CONFIG = """\
owner: alice
users: {alice: {trust: full}, bob: {trust: familiar}}
agents: {plain: {}, named: {identity: You are Reid.}, spelt: {identity: {name: Reid}}}
models: {text: {window: 100000, native_tools: false}}
"""
TURN = Turn(agent="plain", user="alice", situation="dm", model="openai:gpt-5", blueprint="mine", tools=Toolset())
TOOLS = Toolset([Tool(name="run", kind="shell", trust=Trust.PUBLIC), Tool(name="ask", kind="a:b", trust=Trust.INNER)])
MET = {
    "tools": {"tools": TOOLS},
    "native_tools": {},
    "identity": {"agent": "named"},
    "sandbox": {"sandbox": Sandbox(enabled=False)},
    "plan": {"plan": True},
    "tool:run": {"tools": TOOLS},
    "kind:shell": {"tools": TOOLS},
    "kind:a:b": {"tools": TOOLS},
}
NOT_MET = {**{name: {} for name in MET}, "native_tools": {"model": "openai:text"}}


def open_with(folder: Path, *conditions: str, source: str = "source: text, text: guidelines") -> Workspace:
    """Open a workspace whose prompt is one slot under conditions."""
    when = ", ".join(f'"{one}"' for one in conditions)
    slot = f"{{id: a, {source}, pace: turn, trust: public, when: [{when}]}}"
    text = f"name: mine\nmarker: x\nmarker_without_call: x\nslots: [{slot}]\n"
    return make_workspace(folder, {"foreword.yaml": CONFIG, "blueprints/mine.yaml": text})


def find_verdict(assembly: Assembly) -> tuple[str, str]:
    """Return the verdict and the reason of the only slot."""
    row: ReportRow
    (row,) = assembly.rows()
    return str(row.verdict), row.reason


@pytest.mark.parametrize("condition", MET)
def test_holds(tmp_path: Path, condition: str) -> None:
    """A slot is present if its condition is met, and absent with a reason if not; `not` inverts both."""
    ws = open_with(tmp_path / "a", condition)
    assert find_verdict(ws.assemble(replace(TURN, **MET[condition]))) == ("kept", "")
    verdict, reason = find_verdict(ws.assemble(replace(TURN, **NOT_MET[condition])))
    assert (verdict, bool(reason)) == ("absent", True)
    ws = open_with(tmp_path / "b", f"not {condition}")
    assert find_verdict(ws.assemble(replace(TURN, **NOT_MET[condition]))) == ("kept", "")
    verdict, opposite = find_verdict(ws.assemble(replace(TURN, **MET[condition])))
    assert verdict == "absent"
    assert opposite not in ("", reason)


def test_every_condition_has_reasons() -> None:
    """Every condition has a sentence for when it is not met, and one for when its opposite is not."""
    assert UNMET_REASONS.keys() == CONDITIONS.keys()


def test_all_of_them(tmp_path: Path) -> None:
    """A slot needs all its conditions, and the first one that is not met is the reason."""
    ws = open_with(tmp_path, "tools", "not plan")
    assert find_verdict(ws.assemble(replace(TURN, tools=TOOLS))) == ("kept", "")
    assert find_verdict(ws.assemble(replace(TURN, tools=TOOLS, plan=True))) == ("absent", "plan mode is on")
    assert find_verdict(ws.assemble(replace(TURN, plan=True))) == ("absent", "the turn has no tools")


def test_tools_of_the_clearance(tmp_path: Path) -> None:
    """A tool above the clearance of a turn meets no condition, so that nothing reveals it."""
    turn = replace(TURN, tools=Toolset.in_order(tool for tool in TOOLS.tools if tool.name == "ask"))
    for condition in ("tools", "tool:ask", "kind:a:b"):
        ws = open_with(tmp_path / condition.replace(":", "_"), condition)
        assert find_verdict(ws.assemble(turn))[0] == "kept"
        below, without = (ws.assemble(replace(turn, user="bob", tools=tools)) for tools in (turn.tools, Toolset()))
        assert find_verdict(below) == find_verdict(without)
        assert find_verdict(below)[0] == "absent"


def test_names_are_whole(tmp_path: Path) -> None:
    """A name matches exactly: not by its end, not by a kind of that name, and not in another case."""
    for condition in ("tool:ru", "tool:x:run", "tool:shell", "kind:run", "kind:b", "kind:Shell"):
        ws = open_with(tmp_path / condition.replace(":", "_"), condition)
        assert find_verdict(ws.assemble(replace(TURN, tools=TOOLS)))[0] == "absent"


@pytest.mark.parametrize(("agent", "met"), [("plain", False), ("named", True), ("spelt", True)])
def test_identity(tmp_path: Path, agent: str, met: bool) -> None:
    """An agent has an identity where the configuration gives it one, as a text or as fields."""
    assert (find_verdict(open_with(tmp_path, "identity").assemble(replace(TURN, agent=agent)))[0] == "kept") is met


def test_not_read(tmp_path: Path) -> None:
    """A slot whose condition is not met is not read, so a problem of its file is not reported either."""
    ws = open_with(tmp_path, "plan", source="source: file, file: A.md")
    (tmp_path / "A.md").write_bytes(b"\xff")
    assert find_verdict(ws.assemble(TURN)) == ("absent", "plan mode is off")
    assert "A.md is not UTF-8" in find_verdict(ws.assemble(replace(TURN, plan=True)))[1]


@pytest.mark.parametrize(
    ("condition", "pace"),
    [
        *((name, pace) for name, pace in CONDITIONS.items()),
        *((f"not {name}", pace) for name, pace in CONDITIONS.items()),
        ("tool:x", Pace.STATIC),
        ("not kind:x", Pace.STATIC),
    ],
)
def test_pace(condition: str, pace: Pace) -> None:
    """The pace of a condition is that of the fact it needs, and its opposite has the same."""
    assert find_condition_pace(condition) is pace


@pytest.mark.parametrize(
    "condition", ["", "not ", "tool:", "kind:", "not tool:", "not not tools", "Tools", " tools", "nottools", "room:x"]
)
def test_unknown(condition: str) -> None:
    """An unknown condition has no pace."""
    assert find_condition_pace(condition) is None
