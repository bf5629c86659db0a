"""Claims about what living sections are made from: workflows, profiles, bulletins, and what an agent has taken on."""

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
from foreword.storage.tasks import MAX_WORKFLOW_CHARS, copy_workflow, find_workflow, replace_workflow
from foreword.turn import Bulletin, Communication
from foreword.types import Trust

FULL, INNER, FAMILIAR = Trust.FULL, Trust.INNER, Trust.FAMILIAR


def test_workflow(state):
    """A session has one workflow, replaced as a whole; a blank one ends it, and another session can go on from it."""
    assert find_workflow(state, "s1") == ""
    assert replace_workflow(state, "s1", " Stage 1.\n") == "Stage 1."
    replace_workflow(state, "s1", "Stage 2.")
    copy_workflow(state, "s1", "s2")
    assert (find_workflow(state, "s1"), find_workflow(state, "s2")) == ("Stage 2.", "Stage 2.")
    assert replace_workflow(state, "s1", " ") == ""
    assert (find_workflow(state, "s1"), find_workflow(state, "s2")) == ("", "Stage 2.")


@pytest.mark.parametrize("text", ["x" * (MAX_WORKFLOW_CHARS + 1), "a\0b", "\ud800"])
def test_bad_workflow(state, text):
    """What cannot be kept whole is refused, and what was there stays."""
    replace_workflow(state, "s1", "Stage 1.")
    with pytest.raises(InputError):
        replace_workflow(state, "s1", text)
    assert find_workflow(state, "s1") == "Stage 1."


def test_profile(state):
    """Nothing is said of a person after one message or two; from the third on it is what they show together."""
    for number in range(3):
        assert read_profile(state, "bob", FULL) is None, number
        learn_style(state, "bob", INNER, "Could you please look at the greenhouse?")
    assert read_profile(state, "bob", INNER) == Communication(
        formality="formal", length="short, about 5 words", topics=("greenhouse",)
    )
    assert read_profile(state, "alice", FULL) is None


def test_profile_by_clearance(state):
    """What was learned at a clearance is not even opened below it, and adds to what is known above."""
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
    """What somebody wrote long ago counts less and less, and what is kept stays small."""
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
    """Where the list is full, a new word stands before an old one that is as rare."""
    full = {f"w{number}": 1 for number in range(MAX_COUNTED_WORDS)} | {"often": 5}
    kept = limit_topics({**full, "new": 1})
    assert len(kept) == MAX_COUNTED_WORDS
    assert {"often", "new"} <= kept.keys()
    assert "w0" not in kept


def test_halving():
    """Halving forgets what was met once, and changes no mean."""
    known = StyleCounts(messages=10, words=100, tone=-4, topics={"a": 1, "b": 4})
    assert known.halve() == StyleCounts(messages=5, words=50, tone=-2, topics={"b": 2})


def test_bulletins(state):
    """A bulletin is begun by one, keeps its text until the new one is there, and is read at its clearance or above."""
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
    """Take something on."""
    add_responsibility(state, agent, Responsibility(title=title, content=content), "alice")


def test_responsibilities(state):
    """An agent has what it took on in that order, and gives it up by the exact title alone."""
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
    """A title that is there in whatever letters, and what cannot be shown, is refused."""
    take_on(state)
    with pytest.raises(InputError, match=why):
        take_on(state, title, content)
    assert len(list_responsibilities(state, "reid")) == 1


def test_too_many(state):
    """There is a bound to what an agent takes on."""
    for number in range(MAX_RESPONSIBILITIES):
        take_on(state, f"Number {number}")
    with pytest.raises(InputError, match="may take on at most 20"):
        take_on(state, "One more")


def test_character(state):
    """What an agent has taken on is part of what is kept of it, with or without a soul."""
    assert find_character(state, "reid") is NO_CHARACTER
    take_on(state)
    assert find_character(state, "reid").responsibilities == (Responsibility(title="Mail", content="Sort it."),)
    set_character(state, "reid", soul="Calm.")
    kept = find_character(state, "reid")
    assert (kept.soul, len(kept.responsibilities)) == ("Calm.", 1)
