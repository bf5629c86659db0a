"""Claims about the ranking."""

from pathlib import Path

import pytest

from foreword.memory.chunk import split
from foreword.memory.index import Index
from foreword.memory.search import MAX_LEVEL, choose, gather, rank, read_question, read_search_words
from foreword.resources import read_resource

TALK = """\
# 8 May 2023

Carol: What did you do on the weekend?

Bob: I went to the lake with my daughter.

Carol: How lovely!

Bob: We swam until it got dark.
"""
NOTES = """\
# Boiler

It is serviced in October.

# Bread

Rye, with caraway. The oven is hot.
"""


@pytest.fixture
def index(tmp_path: Path) -> Index:
    """An index with a conversation and some notes."""
    index = Index(str(tmp_path))
    with index.writing():
        index.put("s", "talk.md", ("1", "1"), split(TALK))
        index.put("s", "notes.md", ("1", "2"), split(NOTES))
    yield index
    index.close()


def ask(index: Index, text: str, limit: int = 5) -> list[str]:
    """Search, and return the texts of the results."""
    found = rank(read_question(text, index, read_search_words(index)), "s", index, limit)
    return [index.fetch("s", [row])[row].text for _, row, _ in sorted(found, key=lambda one: (-one.score, one.row))]


def test_words(index: Index) -> None:
    """Words find their passage, also in another inflection."""
    assert ask(index, "swimming in the dark lakes", 1)[0].startswith("Bob:")
    assert ask(index, "caraway", 1) == ["Rye, with caraway. The oven is hot."]


def test_heading(index: Index) -> None:
    """A word that is only in the heading finds the text under it."""
    assert ask(index, "boiler", 1) == ["It is serviced in October."]


def test_author(index: Index) -> None:
    """A person named in the question is preferred as the speaker."""
    assert ask(index, "What did Bob do on the weekend?", 1) == ["Bob: I went to the lake with my daughter."]


def test_answer(index: Index) -> None:
    """The text after a question is found by the words of the question, before all other results."""
    assert ask(index, "weekend", 2)[1] == "Bob: I went to the lake with my daughter."
    assert ask(index, "the weekend of Bob", 1) == ["Bob: I went to the lake with my daughter."]


def test_parts(index: Index) -> None:
    """The weighted parts of a finalist add up to its score."""
    question = read_question("What did Bob do until dark, in May?", index, read_search_words(index))
    ((score, row, _),) = rank(question, "s", index, 1)
    finalists = gather(question, "s", index).describe(lambda rows: index.rows("s", rows), 10)
    finalist = next(one for one in finalists if one.row.id == row)
    parts = finalist.parts
    assert (parts.author, parts.month, parts.question, parts.answer) == (1, 1, 0, 0)
    assert score == finalist.score


def test_nothing_shared(index: Index) -> None:
    """A text that shares no word with the question is no result, however many results are requested."""
    assert ask(index, "zeppelin") == ask(index, "") == ask(index, "?!") == []
    assert "It is serviced in October." not in ask(index, "lake daughter", 50)


def test_stable(index: Index) -> None:
    """The same question has the same answer, and fewer results are the first of more."""
    assert ask(index, "lake oven dark", 2) == ask(index, "lake oven dark", 5)[:2]


def test_choose() -> None:
    """All results equal to the last are chosen, or the first rows if there are very many."""
    assert sorted(choose({5: 1.0, 3: 1.0, 4: 2.0, 1: 1.0, 2: 0.5}, 3)) == [1, 3, 4, 5]
    assert sorted(choose(dict.fromkeys(range(1_000), 1.0), 3)) == list(range(MAX_LEVEL))
    assert choose({}, 3) == []


def test_empty_store(index: Index) -> None:
    """A search in an empty store finds nothing."""
    assert rank(read_question("lake", index, read_search_words(index)), "empty", index, 5) == []


def test_synonyms(index: Index) -> None:
    """A synonym finds a chunk that lacks the word of the question, and ranks it below a chunk that has the word."""
    with index.writing():
        index.put("s", "pets.md", ("", ""), split("The puppy sleeps.\n\nThe dog sleeps.\n\nNoon."))
    assert ask(index, "Which hound sleeps?")[0].endswith("sleeps.")
    assert ask(index, "dog")[:2] == ["The dog sleeps.", "The puppy sleeps."]


def test_synonyms_are_single_words(index: Index) -> None:
    """Each word of the shipped list is one word of the index, and no group is a single word."""
    lines = (read_resource("data", "synonyms.txt") or "").splitlines()
    groups = [line.split() for line in lines if not line.startswith("#")]
    assert [word for group in groups for word in group if len(index.stem(word)) != 1] == []
    assert [group for group in groups if len(group) < 2] == []
