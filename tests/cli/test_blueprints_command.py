"""`foreword blueprints`: the list, and one blueprint as a table."""

import pytest

from foreword.testing import write_files

OWN = """\
name: mine
description: My own.
marker: "[cut]"
marker_without_call: "[cut]"
slots:
  - {id: soul, source: file, file: SOUL.md, pace: static}
"""


def test_list(say, folder):
    """The list has the shipped blueprints and those of the workspace, with their purpose."""
    write_files(folder, {"blueprints/mine.yaml": OWN})
    lines = say("blueprints").out.splitlines()
    assert {"coop", "default", "mine"} <= {line.split()[0] for line in lines}
    assert any(line.startswith("mine") and line.endswith("My own.") for line in lines)


def test_without_a_workspace(say, monkeypatch):
    """Outside a workspace the shipped blueprints are listed and printed."""
    monkeypatch.chdir("/")
    assert {each["name"] for each in say("blueprints", "--json").json} >= {"coop", "default"}
    assert say("blueprints", "default").code == 0
    assert "did you mean 'default'?" in say("blueprints", "defualt").err


@pytest.mark.parametrize("columns", [80, 140])
def test_table(say, monkeypatch, columns):
    """Each slot is a row, in order, with the budget below, and fits the terminal."""
    monkeypatch.setenv("COLUMNS", str(columns))
    out = say("blueprints", "default").out
    slots = [slot["id"] for slot in say("blueprints", "default", "--json").json["slots"]]
    rows = [line.split()[1] for line in out.splitlines() if line.split()[:1] and line.split()[0].isdecimal()]
    assert rows == slots
    assert "system 30,000 tokens or 15 % of the window" in out
    assert max(map(len, out.splitlines()[2:])) <= columns


@pytest.mark.parametrize("columns", [80, 140])
@pytest.mark.parametrize("name", ["coop", "moltis", "nova", "osa", "spec010"])
def test_table_of_a_dialect(say, monkeypatch, name, columns):
    """The table of every dialect has its slots in order, and fits the terminal."""
    monkeypatch.setenv("COLUMNS", str(columns))
    out = say("blueprints", name).out
    slots = [slot["id"] for slot in say("blueprints", name, "--json").json["slots"]]
    rows = [line.split()[1] for line in out.splitlines() if line.split()[:1] and line.split()[0].isdecimal()]
    assert rows == slots
    assert max(map(len, out.splitlines()[2:])) <= columns


@pytest.mark.parametrize("columns", [80, 140])
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("moltis", "built-in moltis/introduction_plain · when not tools"),
        ("moltis", "USER.md · per user"),
        ("moltis", "AGENTS.md · ≤ 32,000 characters"),
        ("moltis", "≤ 8,000 characters together"),
        ("osa", "rules/ · {{ RULES }}"),
        ("osa", "turn the remainder, at least 2,000 for the whole prompt"),
        ("osa", "sequential tiers of a turn: critical 100 %, high 40 %, medium 30 %, low 100 %"),
        ("spec010", "built-in spec010/instructions · per user · ≤ 2,000 characters"),
        ("default", "HEARTBEAT.md · only in system"),
        ("default", "built-in routing · when sandbox and kind:shell"),
    ],
)
def test_table_says_when_and_how_much(say, monkeypatch, columns, name, words):
    """A slot's conditions, variable and limits are in its row, and the rules of a turn in the footer."""
    monkeypatch.setenv("COLUMNS", str(columns))
    assert words in " ".join(say("blueprints", name).out.split())


def test_json_uses_words(say):
    """The JSON uses the same words as a blueprint file."""
    blueprint = say("blueprints", "default", "--json").json
    core = blueprint["slots"][0]
    assert (core["pace"], core["trust"], core["placement"]) == ("static", "public", "system")
    assert core["modes"] == ["full", "minimal", "none"]


def test_unknown(say):
    """An unknown blueprint is bad input, with the nearest name."""
    answer = say("blueprints", "cop")
    assert answer.code == 2
    assert "did you mean 'coop'?" in answer.err


def test_broken_one(say, folder):
    """A broken blueprint is marked in the list, and its errors are shown on request."""
    write_files(folder, {"blueprints/mine.yaml": OWN.replace("static", "sometimes").replace("source: file,", "")})
    answer = say("blueprints")
    assert answer.code == 0
    assert "cannot be used: 2 faults" in answer.out
    answer = say("blueprints", "mine")
    assert answer.code == 2
    assert "blueprints/mine.yaml:6: " in answer.err
