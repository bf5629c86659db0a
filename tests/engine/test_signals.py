"""Claims about the section that describes the kind of message to the agent."""

from dataclasses import replace
from pathlib import Path

import pytest

from foreword.assembly import ReportRow
from foreword.engine.signal import classify
from foreword.engine.sources.texts import read_overlay_lines
from foreword.testing import make_workspace
from foreword.turn import Genre, SignalMode, Turn
from foreword.workspace import Workspace

BLUEPRINT = """\
name: mine
marker: x
marker_without_call: x
slots:
  - {id: signal, source: signal, pace: turn, placement: tail, trust: public, tier: low}
"""
TURN = Turn(user="alice", situation="dm", model="openai:gpt-5", blueprint="mine")


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    """A workspace whose prompt is the signal alone."""
    return make_workspace(tmp_path, {"blueprints/mine.yaml": BLUEPRINT})


def show(ws: Workspace, turn: Turn) -> list[str]:
    """Return the lines of the section."""
    text = ws.assemble(turn).prompt.text
    return text[text.index("## Active Signal") :].split("\n\n")[0].splitlines()


def find_row(ws: Workspace, turn: Turn) -> ReportRow:
    """Find the row of the slot."""
    return next(row for row in ws.assemble(turn).rows() if row.id == "signal")


def test_section(ws: Workspace) -> None:
    """The section names mode, genre and weight, and says in a sentence each what the first two ask."""
    lines = show(ws, replace(TURN, message="run " + "x" * 46))
    assert lines == [
        "## Active Signal: EXECUTE × DIRECT (weight: 0.6)",
        read_overlay_lines()["EXECUTE"],
        read_overlay_lines()["DIRECT"],
    ]


def test_every_line() -> None:
    """Every mode, every genre, a light and a heavy message have one distinct sentence, without its key."""
    keys = {*(mode.name for mode in SignalMode), *(genre.name for genre in Genre), "BRIEF", "ATTENTION"}
    lines = read_overlay_lines()
    assert {*lines} == keys
    assert len({*lines.values()}) == len(keys)
    assert all(line[0].isupper() and line.endswith(".") and ":" not in line for line in lines.values())


@pytest.mark.parametrize(
    ("weight", "last"),
    [(0.0, "BRIEF"), (0.29, "BRIEF"), (0.3, ""), (0.5, ""), (0.8, ""), (0.81, "ATTENTION"), (1.0, "ATTENTION")],
)
def test_third_line(ws: Workspace, weight: float, last: str) -> None:
    """Under 0.3 a line asks for brevity, over 0.8 one asks for full attention, and at these bounds none does."""
    lines = show(ws, replace(TURN, message="x", signal=replace(classify("x"), weight=weight)))
    assert lines[3:] == ([read_overlay_lines()[last]] if last else [])


@pytest.mark.parametrize(
    ("weight", "shown"),
    [
        (0.5, "0.5"),
        (0.65, "0.65"),
        (0.85, "0.85"),
        (0.25, "0.25"),
        (1.0, "1"),
        (0.0, "0"),
        (0.508, "0.508"),
        (0.298, "0.298"),
        (0.29849, "0.298"),
        (0.1, "0.1"),
    ],
)
def test_shown_weight(ws: Workspace, weight: float, shown: str) -> None:
    """The weight is shown as finely as one character weighs, three decimals, without zeros at its end."""
    signal = replace(classify("x"), weight=weight)
    assert (
        show(ws, replace(TURN, message="x", signal=signal))[0] == f"## Active Signal: ASSIST × INFORM (weight: {shown})"
    )


def test_given_signal(ws: Workspace) -> None:
    """A signal that came with the turn is shown, not what its message would be classified as."""
    turn = replace(TURN, message="hello", signal=classify("create a dashboard!"))
    assert show(ws, turn)[0].startswith("## Active Signal: BUILD × DIRECT")


@pytest.mark.parametrize("message", ["", " ", "\n"])
def test_blank_message(ws: Workspace, message: str) -> None:
    """Without a message there is no section, and the report says why; a signal that was given is shown."""
    row = find_row(ws, replace(TURN, message=message))
    assert (str(row.verdict), row.reason) == ("absent", "there is no message to classify")
    assert str(find_row(ws, replace(TURN, message=message, signal=classify("x"))).verdict) == "kept"
