"""Claims about giving a person what is kept of them."""

import io
import json

import pytest
from people import make_people, sentence

from foreword.erasure.forgetting import look
from foreword.erasure.giving import SCHEMA, give
from foreword.erasure.holdings import HOLDINGS
from foreword.errors import UnknownName
from foreword.store.instructions import replace_instructions
from foreword.testing import write_files
from foreword.words import Trust

# What is made of many people's words, or holds the same once more, is not given; docs/erasure.md says so.
NOT_GIVEN = {
    "recorded prompts of others that quote them", "memories saved for others that quote them", "typed lines",
    "archived transcripts", "bulletins", "summaries of rooms", "lines told to other lanes of a room",
    "texts of agents that quote them", "search index", "token counts", "ledgers of what was sent",
}  # fmt: skip

WORDS = ("owltoken", "larktoken", "wrentoken")


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """A house with two people."""
    made = make_people(tmp_path_factory.mktemp("giving") / "ws", {"bob": "zebrabob", "carol": "zebracarol"})
    made.close()
    return made


def hand_over(people, user, level=Trust.FULL):
    """Give somebody what there is, as what was written and as values."""
    file = io.StringIO()
    gift = give(people.house, user, level, file)
    return gift, file.getvalue(), [json.loads(line) for line in file.getvalue().splitlines()]


def test_complete(people):
    """Every word that was planted of a person is in it, except what opens a door: hashes of tokens and of codes."""
    _, text, _ = hand_over(people, "bob")
    planted = [f"zebrabob{number}" for number in (*range(1, 27), 33, 34, 35) if number not in (14, 16)]
    assert [token for token in planted if token not in text] == []
    assert "zebrabob14" not in text.replace("zebrabob14x", "")
    assert "zebrabob16" not in text


def test_nothing_of_another(people):
    """No word of another person is in it."""
    _, text, _ = hand_over(people, "bob")
    assert "zebracarol" not in text
    assert "OWNERTOKEN" not in text


def test_it_is_what_would_be_removed(people):
    """Whatever forgetting would remove is in it, row by row, unless it is others' or there twice."""
    gift, _, _ = hand_over(people, "bob")
    found = {line.name: line.found for line in look(people.house, "bob").lines if line.found}
    given = {name: count for name, count in found.items() if name not in NOT_GIVEN}
    assert given.keys() == gift.given.keys()
    exact = given.keys() - {"events", "sums under their name", "history", "money spent", "money reserved"}
    assert {name: given[name] for name in exact} == {name: gift.given[name] for name in exact}
    assert {one.name for one in HOLDINGS} >= NOT_GIVEN


def test_own_memory_is_given_once(people):
    """Each file of a person's own memory is given once, as a memory."""
    _, _, rows = hand_over(people, "bob")
    given = [(row["holding"], row["row"]["path"]) for row in rows[1:] if "/memory/" in str(row["row"].get("path"))]
    assert len(given) == len(set(given)) == 2
    assert {holding for holding, _ in given} == {"memories"}


def test_own_memory_keeps_its_clearance(tmp_path):
    """What was learned above the clearance that a person has now is held back of their own memory, too."""
    people = make_people(tmp_path / "ws", {"carol": "zebracarol"})
    people.keep_own("carol", "owltoken is what they like", Trust.INNER)
    people.close()
    assert "owltoken" in hand_over(people, "carol", Trust.INNER)[1]
    assert "owltoken" not in hand_over(people, "carol", Trust.FAMILIAR)[1]


def test_the_first_line_says_what_it_is(people):
    """The first line names the schema, the person and the clearance; each further one its holding and a row."""
    _, _, (first, *rest) = hand_over(people, "bob")
    assert first == {"schema": SCHEMA, "user": "bob", "clearance": "full"}
    assert all(line.keys() == {"holding", "where", "row"} for line in rest)


def test_what_was_learned_above_is_held_back(tmp_path):
    """What was said while a person was trusted more is not given to them now, and only the owner is told of it."""
    people = make_people(tmp_path / "ws", {"bob": "zebrabob"})
    people.do(lambda state: state.execute("UPDATE sessions SET clearance = 3 WHERE user_id = 'bob'"))
    people.close()
    gift, text, _ = hand_over(people, "bob", Trust.FAMILIAR)
    assert "zebrabob1 " not in text
    assert sentence("zebrabob3") in text
    assert gift.above > 2
    assert str(gift.above) not in text.splitlines()[0]


def test_transcripts_and_instructions_keep_their_clearance(tmp_path):
    """A person's own transcript and standing instructions are given from their clearance on, unknown files at full."""
    people = make_people(tmp_path / "ws", {"carol": "zebracarol"})
    path = people.archive(people.talk("carol", "And the code of the cellar?", "It is owltoken."))
    people.do(lambda state: replace_instructions(state, "carol", "reid", "Be larktoken.", Trust.INNER))
    write_files(people.folder, {"users/carol/conversations/notes.md": "wrentoken\n"})
    people.close()
    given = {level: hand_over(people, "carol", level)[1] for level in (Trust.FAMILIAR, Trust.INNER, Trust.FULL)}
    tokens = {level: [word in text for word in WORDS] for level, text in given.items()}
    assert tokens == {
        Trust.FAMILIAR: [False, False, False],
        Trust.INNER: [True, True, False],
        Trust.FULL: [True, True, True],
    }
    assert [path in text for text in given.values()] == [False, True, True]


def test_nobody(people):
    """Who is not known is refused with the nearest name."""
    with pytest.raises(UnknownName, match="did you mean 'bob'"):
        hand_over(people, "bobb")


def test_the_owner_may_have_theirs(people):
    """The owner cannot be forgotten, but be given what is kept of them."""
    _, text, _ = hand_over(people, "alice")
    assert "OWNERTOKEN" in text
