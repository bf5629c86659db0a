"""The tool that replaces standing instructions."""

import os

import pytest

from foreword.agent.tools.registry import WITH_STATE
from foreword.errors import InputError, UnknownName
from foreword.storage.agents import MAX_INSTRUCTIONS_CHARS
from foreword.testing import make_workspace
from foreword.turn import Turn

NAME = "update_instructions"
CONFIG = """\
owner: alice
agents: {reid: {}, nova: {}}
users: {alice: {trust: full}, bob: {trust: familiar}}
"""


@pytest.fixture
def ws(tmp_path):
    """A workspace with two agents and two people."""
    with make_workspace(tmp_path, {"foreword.yaml": CONFIG}) as workspace:
        yield workspace


def stand(ws, user="alice", **more):
    """Assemble a turn with every tool."""
    return ws.assemble(Turn(**{"user": user, "situation": "dm", "tools": WITH_STATE, **more}))


def update(ws, text, user="alice", **more):
    """Replace a person's instructions."""
    return ws.call(stand(ws, user, **more), NAME, {"instructions": text}).text


def recall(ws, user="alice", **more):
    """Read a person's stored instructions."""
    return ws.call(stand(ws, user, **more), "read_memory", {}).text.partition("Standing instructions:\n")[2]


def test_from_the_next_turn_on(ws):
    """A call creates, replaces or clears the instructions, and the next prompt shows the change."""
    assert "Use bullet points." not in stand(ws).prompt.text
    assert update(ws, "Use bullet points.") == (
        "The standing instructions are replaced: 18 characters, in force from the next message on."
    )
    assert "Use bullet points." in stand(ws, session="another").prompt.text
    update(ws, "Be brief.")
    assert recall(ws) == "Be brief."
    assert update(ws, "") == "The standing instructions are cleared."
    assert recall(ws) == "(none)"
    assert "Standing Instructions" not in stand(ws).prompt.text


def test_only_ones_own(ws):
    """A call changes the instructions of the current person and agent only."""
    update(ws, "Alice's.")
    update(ws, "Bob's.", user="bob")
    update(ws, "Alice's to Nova.", agent="nova")
    assert recall(ws) == "Alice's."
    assert recall(ws, user="bob") == "Bob's."
    assert recall(ws, agent="nova") == "Alice's to Nova."
    with pytest.raises(InputError, match=r"^unknown argument 'user'; known: instructions$"):
        ws.call(stand(ws, "bob"), NAME, {"instructions": "Mine.", "user": "alice"})
    assert recall(ws) == "Alice's."


@pytest.mark.parametrize("place", [{"room": "kitchen"}, {"situation": "group"}])
def test_not_in_company(ws, place):
    """In shared conversations the tool is not offered, and instructions are neither changed nor shown."""
    update(ws, "Use bullet points.")
    assert NAME not in stand(ws, **place).tools
    with pytest.raises(UnknownName, match=NAME):
        update(ws, "Shout.", **place)
    assert recall(ws, **place) == "(not told where others read)"
    assert recall(ws) == "Use bullet points."


@pytest.mark.parametrize("who", [{"user": "mallory"}, {"user": ""}, {"situation": "unheard of"}])
def test_not_for_strangers(ws, who):
    """Below familiar trust the tool is not offered."""
    assembly = stand(ws, **who)
    assert NAME not in assembly.tools
    with pytest.raises(UnknownName):
        ws.call(assembly, NAME, {"instructions": "Obey me."})
    assert not os.path.exists(os.path.join(ws.files.root, ".foreword", "state.sqlite"))


@pytest.mark.parametrize("text", [None, 7, ["a"], "x" * (MAX_INSTRUCTIONS_CHARS + 1), "\ud800"])
def test_refused(ws, text):
    """Invalid or long text is refused, and the stored text stays."""
    update(ws, "x" * MAX_INSTRUCTIONS_CHARS)
    with pytest.raises(InputError):
        update(ws, text)
    assert recall(ws) == "x" * MAX_INSTRUCTIONS_CHARS


def test_whole_behind_the_cut(ws):
    """SPEC-010 shows 2,000 characters of instructions; the tool says so, and read_memory shows all."""
    text = "\n".join(f"Rule {number}." for number in range(1, 400))
    assert "read_memory shows all" in update(ws, text)
    shown = stand(ws, blueprint="spec010").prompt.text
    assert "Rule 1." in shown
    assert "Rule 399." not in shown
    assert recall(ws, blueprint="spec010") == text


def test_read_again_in_the_same_turn(ws):
    """After a change, read_memory shows the stored text and the text of this prompt."""
    update(ws, "Use bullet points.")
    assembly = stand(ws)
    ws.call(assembly, NAME, {"instructions": "Be brief."})
    read = ws.call(assembly, "read_memory", {}).text
    assert read.endswith("Be brief.\n\nThis prompt was made with others:\nUse bullet points.")


def test_what_a_turn_brings_along_is_shown(ws):
    """Instructions of a turn are shown whole, whatever is stored."""
    assert recall(ws, instructions="Of the turn.") == "Of the turn."
    update(ws, "Of the store.")
    assert recall(ws, instructions="Of the turn.").endswith("Of the turn.")


def test_guided():
    """The tool has guidance, needs approval, and is offered from familiar trust on."""
    tool = WITH_STATE.find(NAME)
    assert tool.changes
    assert tool.kind == "instructions"


def test_guidance(ws):
    """The prompt has guidance on the tool."""
    assert f"- {NAME}: When a person states a lasting wish" in stand(ws).prompt.text
