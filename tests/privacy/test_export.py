"""Export of a person's data."""

import io
import json

import pytest
from people import make_people, sentence

from foreword.errors import UnknownName
from foreword.privacy.erasure import DATA_LOCATIONS, preview_erasure
from foreword.privacy.export import EXPORT_SCHEMA, export_person
from foreword.storage.agents import replace_instructions
from foreword.testing import write_files
from foreword.types import Trust

# Data made from the words of several people, and copies of other rows, are not exported (docs/erasure.md).
NOT_GIVEN = {
    "recorded prompts of others that quote them", "memories saved for others that quote them", "typed lines",
    "archived transcripts", "bulletins", "summaries of rooms", "room lines in other sessions",
    "texts of agents that quote them", "search index", "token counts", "ledgers of what was sent",
}  # fmt: skip

WORDS = ("owltoken", "larktoken", "wrentoken")


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """A workspace with two users."""
    made = make_people(tmp_path_factory.mktemp("giving") / "ws", {"bob": "zebrabob", "carol": "zebracarol"})
    made.close()
    return made


def hand_over(people, user, level=Trust.FULL):
    """Export a user's data; return the result, the text and the parsed lines."""
    file = io.StringIO()
    gift = export_person(people.house, user, level, file)
    return gift, file.getvalue(), [json.loads(line) for line in file.getvalue().splitlines()]


def test_complete(people):
    """The export contains every planted token of the user, except the hashes of API tokens and pairing codes."""
    _, text, _ = hand_over(people, "bob")
    planted = [f"zebrabob{number}" for number in (*range(1, 27), 33, 34, 35) if number not in (14, 16)]
    assert [token for token in planted if token not in text] == []
    assert "zebrabob14" not in text.replace("zebrabob14x", "")
    assert "zebrabob16" not in text


def test_nothing_of_another(people):
    """The export contains no words of other users."""
    _, text, _ = hand_over(people, "bob")
    assert "zebracarol" not in text
    assert "OWNERTOKEN" not in text


def test_it_is_what_would_be_removed(people):
    """The export contains every row that erasure would remove, except duplicates and data of others."""
    gift, _, _ = hand_over(people, "bob")
    found = {line.name: line.found for line in preview_erasure(people.house, "bob").lines if line.found}
    given = {name: count for name, count in found.items() if name not in NOT_GIVEN}
    assert given.keys() == gift.given.keys()
    exact = given.keys() - {"events", "sums under their name", "history", "money spent", "money reserved"}
    assert {name: given[name] for name in exact} == {name: gift.given[name] for name in exact}
    assert {one.name for one in DATA_LOCATIONS} >= NOT_GIVEN


def test_own_memory_is_given_once(people):
    """Each file of a user's private memory is exported once, as a memory."""
    _, _, rows = hand_over(people, "bob")
    given = [(row["holding"], row["row"]["path"]) for row in rows[1:] if "/memory/" in str(row["row"].get("path"))]
    assert len(given) == len(set(given)) == 2
    assert {holding for holding, _ in given} == {"memories"}


def test_own_memory_keeps_its_clearance(tmp_path):
    """Entries of private memory above the user's current clearance are not exported."""
    people = make_people(tmp_path / "ws", {"carol": "zebracarol"})
    people.keep_own("carol", "owltoken is what they like", Trust.INNER)
    people.close()
    assert "owltoken" in hand_over(people, "carol", Trust.INNER)[1]
    assert "owltoken" not in hand_over(people, "carol", Trust.FAMILIAR)[1]


def test_the_first_line_says_what_it_is(people):
    """The first line names schema, user and clearance; each further line has a data location and a row."""
    _, _, (first, *rest) = hand_over(people, "bob")
    assert first == {"schema": EXPORT_SCHEMA, "user": "bob", "clearance": "full"}
    assert all(line.keys() == {"holding", "where", "row"} for line in rest)


def test_what_was_learned_above_is_held_back(tmp_path):
    """Rows above the user's current clearance are withheld, and only the owner sees how many."""
    people = make_people(tmp_path / "ws", {"bob": "zebrabob"})
    people.do(lambda state: state.execute("UPDATE sessions SET clearance = 3 WHERE user_id = 'bob'"))
    people.close()
    gift, text, _ = hand_over(people, "bob", Trust.FAMILIAR)
    assert "zebrabob1 " not in text
    assert sentence("zebrabob3") in text
    assert gift.above > 2
    assert str(gift.above) not in text.splitlines()[0]


def test_transcripts_and_instructions_keep_their_clearance(tmp_path):
    """A user's transcripts and instructions are exported from their clearance on; unknown files only at full trust."""
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
    """An unknown user is refused with the nearest name."""
    with pytest.raises(UnknownName, match="did you mean 'bob'"):
        hand_over(people, "bobb")


def test_the_owner_may_have_theirs(people):
    """The owner cannot be forgotten but can be exported."""
    _, text, _ = hand_over(people, "alice")
    assert "OWNERTOKEN" in text
