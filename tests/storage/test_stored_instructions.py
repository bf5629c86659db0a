"""Standing instructions in the state."""

import pytest

from foreword.errors import InputError
from foreword.storage.agents import MAX_INSTRUCTIONS_CHARS, find_instructions, replace_instructions
from foreword.types import Trust

ROWS = "SELECT user_id, agent_name, instructions FROM user_agent_prompt_customizations ORDER BY id"


def test_first_and_second(state):
    """The first write creates the row of a user and an agent, and the second replaces its text."""
    assert find_instructions(state, "alice", "reid") is None
    assert replace_instructions(state, "alice", "reid", "  Use bullet points.\n") == "Use bullet points."
    replace_instructions(state, "alice", "reid", "Be brief. Größe, 日本.")
    assert state.execute(ROWS).fetchall() == [("alice", "reid", "Be brief. Größe, 日本.")]


def test_apart(state):
    """Each user has separate instructions for each agent."""
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
    """Invalid instructions are refused, and the stored ones are unchanged."""
    replace_instructions(state, "alice", "reid", "x" * MAX_INSTRUCTIONS_CHARS)
    with pytest.raises(InputError, match=said):
        replace_instructions(state, "alice", "reid", text)
    assert find_instructions(state, "alice", "reid") == "x" * MAX_INSTRUCTIONS_CHARS
    with pytest.raises(InputError, match="no person is named"):
        replace_instructions(state, "", "reid", "Be brief.")


def test_not_told_below(state):
    """Instructions learned at a clearance are visible from there on; a user's own edit is visible everywhere."""
    replace_instructions(state, "alice", "reid", "Mention the surprise party.", Trust.FULL)
    assert find_instructions(state, "alice", "reid", Trust.FULL) == "Mention the surprise party."
    assert find_instructions(state, "alice", "reid", Trust.INNER) is None
    with pytest.raises(InputError, match="cannot be changed"):
        replace_instructions(state, "alice", "reid", "", Trust.INNER)
    replace_instructions(state, "alice", "reid", "Be brief.")
    assert find_instructions(state, "alice", "reid", Trust.FAMILIAR) == "Be brief."
