"""Claims about soul and identity in the store."""

import pytest

from foreword.config.schema import Identity
from foreword.engine.context import NO_CHARACTER, StoredCharacter
from foreword.errors import InputError
from foreword.storage.agents import MAX_SOUL_CHARS, find_character, set_character

NOVA = Identity(name="Nova", vibe="dry", description="a librarian")


def test_set_and_leave(state):
    """What is not named stays, what is named is replaced, and what is empty is taken away."""
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
    """Whatever somebody wrote into the column, what can be shown is read and nothing fails."""
    state.execute("INSERT INTO agent_configurations (agent_name, identity) VALUES ('reid', ?)", (raw,))
    assert find_character(state, "reid").identity == identity


@pytest.mark.parametrize("text", ["x" * (MAX_SOUL_CHARS + 1), "\ud800", "\0"])
def test_refused(state, text):
    """What cannot be kept is refused, as a soul and as an identity."""
    with pytest.raises(InputError, match="nothing was changed"):
        set_character(state, "reid", soul=text)
    with pytest.raises(InputError, match="nothing was changed"):
        set_character(state, "reid", identity=Identity(name=text))
    assert find_character(state, "reid") is NO_CHARACTER
