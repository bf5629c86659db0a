"""Workflows, profiles, bulletins and responsibilities in the state."""

import json

import pytest

from foreword.config.schema import Responsibility
from foreword.engine.context import NO_CHARACTER
from foreword.errors import InputError
from foreword.storage.agents import (
    MAX_RESPONSIBILITIES,
    add_responsibility,
    find_character,
    list_responsibilities,
    remove_responsibility,
    set_character,
)
from foreword.storage.profiles import (
    HALVING_MESSAGES,
    MAX_COUNTED_WORDS,
    NO_BULLETIN,
    BulletinOrigin,
    StyleCounts,
    claim_bulletin,
    find_bulletin_origin,
    learn_style,
    limit_topics,
    read_bulletins,
    read_profile,
    store_bulletin,
)
from foreword.storage.sessions import MAX_WORKFLOW_CHARS, copy_tasks, find_workflow, replace_workflow
from foreword.turn import Bulletin, Communication
from foreword.types import Trust

FULL, INNER, FAMILIAR = Trust.FULL, Trust.INNER, Trust.FAMILIAR


def test_workflow(state):
    """A session has one workflow, replaced as a whole; a blank text ends it, and a session can copy it."""
    assert find_workflow(state, "s1") == ""
    assert replace_workflow(state, "s1", " Stage 1.\n") == "Stage 1."
    replace_workflow(state, "s1", "Stage 2.")
    copy_tasks(state, "s1", "s2")
    assert (find_workflow(state, "s1"), find_workflow(state, "s2")) == ("Stage 2.", "Stage 2.")
    assert replace_workflow(state, "s1", " ") == ""
    assert (find_workflow(state, "s1"), find_workflow(state, "s2")) == ("", "Stage 2.")


@pytest.mark.parametrize("text", ["x" * (MAX_WORKFLOW_CHARS + 1), "a\0b", "\ud800"])
def test_bad_workflow(state, text):
    """An invalid workflow is refused, and the stored one is unchanged."""
    replace_workflow(state, "s1", "Stage 1.")
    with pytest.raises(InputError):
        replace_workflow(state, "s1", text)
    assert find_workflow(state, "s1") == "Stage 1."


def test_profile(state):
    """A profile needs three messages, and then describes all of them together."""
    for number in range(3):
        assert read_profile(state, "bob", FULL) is None, number
        learn_style(state, "bob", INNER, "Could you please look at the greenhouse?")
    assert read_profile(state, "bob", INNER) == Communication(
        formality="formal", length="short, about 5 words", topics=("greenhouse",)
    )
    assert read_profile(state, "alice", FULL) is None


def test_profile_by_clearance(state):
    """Counts learned at a clearance are not read below it, and add to those at higher ones."""
    for _ in range(3):
        learn_style(state, "bob", FULL, "the inheritance, lol")
        learn_style(state, "bob", FAMILIAR, "The orchard needs water.")
    assert read_profile(state, "bob", FAMILIAR).topics == ("orchard", "water")
    assert "inheritance" not in read_profile(state, "bob", INNER).topics
    assert "inheritance" in read_profile(state, "bob", FULL).topics
    assert read_profile(state, "bob", INNER).formality == "neutral"
    assert read_profile(state, "bob", FULL).formality == "casual"
    assert read_profile(state, "bob", Trust.PUBLIC) is None


def test_profile_follows(state):
    """Old messages count less and less, and the stored counts stay small."""
    for number in range(HALVING_MESSAGES):
        learn_style(state, "bob", FULL, f"Could you please look at the greenhouse{chr(97 + number % 26) * 3}?")
    for number in range(HALVING_MESSAGES):
        learn_style(state, "bob", FULL, f"hey, the harbour {chr(97 + number % 26) * 5} {chr(97 + number // 26) * 6}")
    found = read_profile(state, "bob", FULL)
    assert (found.formality, found.topics[0]) == ("casual", "harbour")
    raw, messages = state.execute("SELECT learned, messages FROM profiles").fetchone()
    learned = json.loads(raw)
    assert messages == 2 * HALVING_MESSAGES
    assert learned["messages"] < HALVING_MESSAGES
    assert len(learned["topics"]) <= MAX_COUNTED_WORDS
    assert len(raw) < 4_000


def test_new_topics_come_up():
    """In a full list, a new word replaces an old one that is as rare."""
    full = {f"w{number}": 1 for number in range(MAX_COUNTED_WORDS)} | {"often": 5}
    stored = limit_topics({**full, "new": 1})
    assert len(stored) == MAX_COUNTED_WORDS
    assert {"often", "new"} <= stored.keys()
    assert "w0" not in stored


def test_halving():
    """Halving drops words that occurred once, and changes no mean."""
    known = StyleCounts(messages=10, words=100, tone=-4, topics={"a": 1, "b": 4})
    assert known.halve() == StyleCounts(messages=5, words=50, tone=-2, topics={"b": 2})


def test_bulletins(state):
    """One process claims a bulletin; the old text remains until the new one, and is read at its clearance or above."""
    assert find_bulletin_origin(state, "reid", INNER) == NO_BULLETIN
    assert claim_bulletin(state, "reid", INNER, "t1", NO_BULLETIN)
    assert not claim_bulletin(state, "reid", INNER, "t1", NO_BULLETIN)
    assert read_bulletins(state, "reid", FULL, "p") == ()
    store_bulletin(
        state, "reid", Bulletin(text="One.", trust=INNER), BulletinOrigin(moment="t1", source="p:1", author="rule")
    )
    made = find_bulletin_origin(state, "reid", INNER)
    assert made == BulletinOrigin(moment="t1", source="p:1", author="rule")
    assert claim_bulletin(state, "reid", INNER, "t2", made)
    for level, seen in ((FAMILIAR, ()), (INNER, ("One.",)), (FULL, ("One.",))):
        assert tuple(one.text for one in read_bulletins(state, "reid", level, "p")) == seen
    assert read_bulletins(state, "ada", FULL, "p") == ()
    assert read_bulletins(state, "reid", FULL, "another") == ()


def take_on(state, title="Mail", content="Sort it.", agent="reid"):
    """Store a responsibility."""
    add_responsibility(state, agent, Responsibility(title=title, content=content), "alice")


def test_responsibilities(state):
    """Responsibilities are listed oldest first, and are removed by the exact title."""
    take_on(state)
    take_on(state, "Calendar", "Keep it.")
    take_on(state, "Mail", "Another's.", agent="ada")
    assert [one.title for one in list_responsibilities(state, "reid")] == ["Mail", "Calendar"]
    assert not remove_responsibility(state, "reid", "mail")
    assert remove_responsibility(state, "reid", "Mail")
    assert [one.title for one in list_responsibilities(state, "reid")] == ["Calendar"]
    assert [one.title for one in list_responsibilities(state, "ada")] == ["Mail"]


@pytest.mark.parametrize(
    ("title", "content", "why"),
    [
        ("MAIL", "Again.", "already"),
        ("", "x", "one line"),
        ("two\nlines", "x", "one line"),
        ("x" * 101, "x", "101 characters"),
        ("New", " ", "is empty"),
        ("New", "x" * 2_001, "2,001 characters"),
        ("New", "a\0", "invalid characters"),
        ("New", "\ud800", "invalid characters"),
    ],
)
def test_bad_responsibility(state, title, content, why):
    """An existing title in any case, and an invalid text, are refused."""
    take_on(state)
    with pytest.raises(InputError, match=why):
        take_on(state, title, content)
    assert len(list_responsibilities(state, "reid")) == 1


def test_too_many(state):
    """The number of responsibilities is limited."""
    for number in range(MAX_RESPONSIBILITIES):
        take_on(state, f"Number {number}")
    with pytest.raises(InputError, match="may take on at most 20"):
        take_on(state, "One more")


def test_character(state):
    """Responsibilities are part of the stored attributes of an agent, with or without a soul."""
    assert find_character(state, "reid") is NO_CHARACTER
    take_on(state)
    assert find_character(state, "reid").responsibilities == (Responsibility(title="Mail", content="Sort it."),)
    set_character(state, "reid", soul="Calm.")
    stored = find_character(state, "reid")
    assert (stored.soul, len(stored.responsibilities)) == ("Calm.", 1)
