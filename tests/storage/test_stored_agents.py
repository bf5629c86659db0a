"""Soul and identity of agents in the state."""

import pytest

from foreword.config.schema import Identity
from foreword.engine.context import NO_CHARACTER, StoredCharacter
from foreword.errors import InputError
from foreword.storage.agents import MAX_SOUL_CHARS, find_character, set_character

NOVA = Identity(name="Nova", vibe="dry", description="a librarian")


def test_set_and_leave(state):
    """Omitted values are unchanged, given values are replaced, and empty values are deleted."""
    assert find_character(state, "reid") is NO_CHARACTER
    set_character(state, "reid", soul="Be calm.\n")
    set_character(state, "reid", identity=NOVA)
    assert find_character(state, "reid") == StoredCharacter(soul="Be calm.", identity=NOVA)
    set_character(state, "reid", soul="Be bold.", identity="You are Nova, a librarian.")
    assert find_character(state, "reid") == StoredCharacter(soul="Be bold.", identity="You are Nova, a librarian.")
    set_character(state, "reid", identity="")
    assert find_character(state, "reid") == StoredCharacter(soul="Be bold.")
    set_character(state, "reid", soul=" ")
    assert find_character(state, "reid") == NO_CHARACTER


@pytest.mark.parametrize(
    ("raw", "identity"),
    [
        ('{"name": "Nova", "vibe": "dry", "description": "a librarian", "pronouns": "she"}', NOVA),
        ('{"name": "Nova", "vibe": 7, "description": null}', Identity(name="Nova")),
        ("no JSON at all", "no JSON at all"),
        ('"a text"', "a text"),
        ('{"name": " "}', None),
        ("{}", None),
        ("[1]", None),
        ("", None),
        (None, None),
    ],
)
def test_what_a_row_may_hold(state, raw, identity):
    """Any content of the identity column is read without an error."""
    state.execute("INSERT INTO agent_configurations (agent_name, identity) VALUES ('reid', ?)", (raw,))
    assert find_character(state, "reid").identity == identity


@pytest.mark.parametrize("text", ["x" * (MAX_SOUL_CHARS + 1), "\ud800", "\0"])
def test_refused(state, text):
    """An invalid soul or identity is refused."""
    with pytest.raises(InputError, match="nothing was changed"):
        set_character(state, "reid", soul=text)
    with pytest.raises(InputError, match="nothing was changed"):
        set_character(state, "reid", identity=Identity(name=text))
    assert find_character(state, "reid") is NO_CHARACTER
