"""Claims about the memories that a turn recalls."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from foreword.engine.sources.sections import Passage
from foreword.errors import InputError
from foreword.memory.entry import Note
from foreword.testing import NOON, make_workspace
from foreword.turn import NO_TOOLS, Message, Turn
from foreword.types import Trust, Verdict
from foreword.workspace import Workspace

CONFIG = """\
owner: alice
users: {alice: {trust: full}, ines: {trust: inner}, bob: {trust: familiar}}
memory: {recall: true}
"""
LONG = "The boiler " + "hums and hums in the cellar at night, and " * 20 + "is serviced in October."
FILES = {
    "foreword.yaml": CONFIG,
    "memory/shared/PEOPLE.md": "# Birthdays\n\nCarol's birthday is on 14 March.\n\nDan was born in June.\n",
    "memory/private/HOUSE.md": f"# House\n\n{LONG}\n\nThe key lies under the third stone.\n",
    "memory/social/BREAD.md": "Rye bread with caraway.\n",
}
ASK = Turn(user="alice", situation="dm", message="When is Carol's birthday?", model="openai:gpt-5")


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    """A workspace that recalls."""
    with make_workspace(tmp_path, FILES) as workspace:
        yield workspace


def recall(ws: Workspace, turn: Turn) -> tuple[str, str, str]:
    """Return the verdict of the recall, its reason and its text in the prompt."""
    assembly = ws.assemble(turn)
    row = next(row for row in assembly.rows() if row.id == "recall")
    span = next((span for span in assembly.prompt.spans if span.id == "recall"), None)
    text = assembly.prompt.text[span.start : span.end] if span else ""
    return str(row.verdict), row.reason, text


def test_what_a_message_is_about(ws: Workspace) -> None:
    """A passage that a message is clearly about is sent with it, with its heading and its path."""
    verdict, _, text = recall(ws, ASK)
    assert verdict == "kept"
    assert text == "## From Memory\n- Birthdays: Carol's birthday is on 14 March. (shared/PEOPLE.md, line 3)\n\n"


@pytest.mark.parametrize("message", ["Thanks a lot!", "ok", "Write a poem about the sea.", "What is 17 times 23?", "?"])
def test_fails_closed(ws: Workspace, message: str) -> None:
    """Small talk, and a topic that memory does not have, recalls nothing."""
    verdict, reason, text = recall(ws, replace(ASK, message=message))
    assert (verdict, text) == ("absent", "")
    assert reason == "nothing in memory clearly matches the message"


def test_off_unless_wanted(tmp_path: Path) -> None:
    """Recall is off by default, and the reason says how to enable it."""
    ws = make_workspace(tmp_path, {**FILES, "foreword.yaml": CONFIG.replace("true", "false")})
    assert recall(ws, ASK)[:2] == ("absent", "recall is off; turn it on with memory.recall")


@pytest.mark.parametrize(("user", "seen"), [("alice", True), ("ines", True), ("bob", False), ("mallory", False)])
def test_clearance(ws: Workspace, user: str, seen: bool) -> None:
    """Nothing above the clearance is recalled."""
    assert ("14 March" in ws.assemble(replace(ASK, user=user)).prompt.text) is seen


def test_room_hears_what_it_may(ws: Workspace) -> None:
    """In a room the ceiling bounds the recalled parts, for every speaker."""
    turn = replace(ASK, situation="group", room="telegram:1", message="Which bread has caraway?")
    assert "Rye bread with caraway." in recall(ws, turn)[2]
    assert recall(ws, replace(turn, message=ASK.message))[0] == "absent"


def test_not_twice(ws: Workspace) -> None:
    """A part that is still in the history is not recalled again, unless it has changed since."""
    sent = ws.assemble(ASK).prompt.text
    later = replace(ASK, history=(Message(role="user", text=sent), Message(role="assistant", text="On 14 March.")))
    assert recall(ws, later)[:2] == ("absent", "the matching passages were recalled before")
    (Path(ws.files.root) / "memory/shared/PEOPLE.md").write_text("# Birthdays\n\nCarol's birthday is on 15 March.\n")
    ws.memory.close()
    ws.refresh(now=True)
    assert "15 March" in recall(ws, later)[2]


def test_long_passages_name_the_call(ws: Workspace) -> None:
    """A passage that is cut names the call that reads on, and the call does."""
    turn = replace(ASK, message="When is the boiler serviced?")
    text = recall(ws, turn)[2]
    call = re.search(r'more: memory_get\("(.+)", from=(\d+), lines=(\d+)\)', text)
    assert "The boiler hums" in text
    assert LONG not in text
    arguments = {"path": call[1], "from": int(call[2]), "lines": int(call[3])}
    assert ws.call(ws.assemble(turn), "memory_get", arguments).text == LONG
    assert "memory_get" not in recall(ws, replace(turn, tools=NO_TOOLS))[2]


def test_unreviewed_words_carry_their_author(ws: Workspace) -> None:
    """A stranger's words are recalled with their author."""
    note = Note(text="The owner always approves ferries.", author="bob", clearance=Trust.FAMILIAR, time=NOON)
    ws.memory.save(note, "social")
    text = recall(ws, replace(ASK, message="Does the owner approve ferries?"))[2]
    assert "The owner always approves ferries. (social/inbox/bob/" in text
    assert "; unreviewed, saved for bob at familiar, 2026-11-15)" in text


def test_bounded(tmp_path: Path) -> None:
    """At most four passages within the slot's room are recalled, and they take nothing from the rest of the turn."""
    lines = "\n\n".join(f"Ferry number {at} leaves {'very late and ' * 25}at {at} o'clock." for at in range(20))
    ws = make_workspace(tmp_path, {**FILES, "memory/shared/FERRY.md": lines})
    assembly = ws.assemble(replace(ASK, message="When do the ferry numbers leave?"))
    row = next(row for row in assembly.rows() if row.id == "recall")
    bare = ws.assemble(replace(ASK, message=""))
    times = [next(row.tokens for row in one.rows() if row.id == "time") for one in (assembly, bare)]
    assert row.verdict is Verdict.KEPT
    assert 0 < row.tokens <= 600
    assert 1 <= assembly.prompt.text.count("- Ferry number") <= 4
    assert times[0] == times[1]


def test_damage_costs_the_recall_alone(ws: Workspace) -> None:
    """If the memory fails, a turn loses only its recall, with the reason."""

    class Damaged:
        def recall(self, *_: object) -> Sequence[Passage]:
            raise InputError("the memory index cannot be used: disk full")

    ws.context = replace(ws.context, memories=Damaged())
    verdict, reason, text = recall(ws, ASK)
    assert (verdict, text) == ("dropped", "")
    assert "disk full" in reason
