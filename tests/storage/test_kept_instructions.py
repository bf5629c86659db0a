"""Claims about the standing instructions in the store."""

import pytest

from foreword.errors import InputError
from foreword.storage.agents import MAX_INSTRUCTIONS_CHARS, find_instructions, replace_instructions
from foreword.types import Trust

ROWS = "SELECT user_id, agent_name, instructions FROM user_agent_prompt_customizations ORDER BY id"


def test_first_and_second(state):
    """The first write makes the one row of a person and an agent, the second replaces its text."""
    assert find_instructions(state, "alice", "reid") is None
    assert replace_instructions(state, "alice", "reid", "  Use bullet points.\n") == "Use bullet points."
    replace_instructions(state, "alice", "reid", "Be brief. Größe, 日本.")
    assert state.execute(ROWS).fetchall() == [("alice", "reid", "Be brief. Größe, 日本.")]


def test_apart(state):
    """Each agent has its own instructions of each person."""
    for user, agent in (("alice", "reid"), ("alice", "nova"), ("bob", "reid")):
        replace_instructions(state, user, agent, f"{user} to {agent}")
    assert find_instructions(state, "alice", "nova") == "alice to nova"
    assert find_instructions(state, "bob", "nova") is None


@pytest.mark.parametrize("blank", ["", " \n\t "])
def test_cleared(state, blank):
    """An empty text clears the instructions."""
    replace_instructions(state, "alice", "reid", "Be brief.")
    assert replace_instructions(state, "alice", "reid", blank) == ""
    assert find_instructions(state, "alice", "reid") == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x" * (MAX_INSTRUCTIONS_CHARS + 1), r"20,001 characters.*20,000"),
        ("half \ud800", "invalid characters"),
        ("nul \0", "invalid characters"),
    ],
)
def test_refused(state, text, said):
    """What cannot be kept whole is refused, and what was there stays."""
    replace_instructions(state, "alice", "reid", "x" * MAX_INSTRUCTIONS_CHARS)
    with pytest.raises(InputError, match=said):
        replace_instructions(state, "alice", "reid", text)
    assert find_instructions(state, "alice", "reid") == "x" * MAX_INSTRUCTIONS_CHARS
    with pytest.raises(InputError, match="no person is named"):
        replace_instructions(state, "", "reid", "Be brief.")


def test_not_told_below(state):
    """What was learned at a clearance is told there and above; a person's own hand writes for all."""
    replace_instructions(state, "alice", "reid", "Mention the surprise party.", Trust.FULL)
    assert find_instructions(state, "alice", "reid", Trust.FULL) == "Mention the surprise party."
    assert find_instructions(state, "alice", "reid", Trust.INNER) is None
    with pytest.raises(InputError, match="cannot be changed"):
        replace_instructions(state, "alice", "reid", "", Trust.INNER)
    replace_instructions(state, "alice", "reid", "Be brief.")
    assert find_instructions(state, "alice", "reid", Trust.FAMILIAR) == "Be brief."
