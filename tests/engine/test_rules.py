"""Claims about the tables of the rules, and the pattern that is made of them."""

from itertools import permutations

import pytest

from foreword.engine.signal import (
    GENRES,
    MODES,
    SMALL_TALK,
    TYPES,
    URGENCY,
    compile_words,
    find_rule_words,
    list_words,
    normalise_message,
)

LINES = [*MODES.values(), *GENRES.values(), *TYPES.values(), URGENCY, SMALL_TALK]
ALL = sorted({word for line in LINES for word in line.split(", ")} - {"?", "!"})
WHOLE = [word.rstrip("*") for word in ALL if word.endswith("*")]
STEMS = [word for word in ALL if not word.endswith("*")]


def find(message: str) -> set[str]:
    """Find the words of the rules in a message."""
    return find_rule_words(normalise_message(message))


def test_whole_words() -> None:
    """These words match only as whole words."""
    assert WHOLE == ["do", "hey", "hi", "new", "now", "ok", "set", "sure"]


def test_no_word_begins_with_another() -> None:
    """No word of the rules begins with another one, so each place of a message has at most one."""
    names = [word.rstrip("*") for word in ALL]
    assert not [(one, other) for one, other in permutations(names, 2) if other.startswith(one)]


def test_every_word_is_found() -> None:
    """Every word is found at the start of a message, in its middle, in capitals and between signs."""
    for name in (word.rstrip("*") for word in ALL):
        near = (name, f"x {name}", f"x {name} x", name.upper(), f"({name})", f"-{name}.", f"«{name}»", f"👋{name}")
        assert [message for message in near if name not in find(message)] == []


def test_stems() -> None:
    """A word without a star is found at the start of a longer one."""
    assert [word for word in STEMS if not find(f"{word}xyz") == find(f"{word}é") == {word}] == []


def test_starred_words_are_whole() -> None:
    """A word with a star is not found in a longer one."""
    longer = [(word, word + end) for word in WHOLE for end in ("xyz", "s", "9", "_x", "é", "e\u0301", "\u0301")]
    assert [message for word, message in longer if word in find(message)] == []


def test_no_word_is_found_inside_another() -> None:
    """A word is found neither at the end nor in the middle of another one, accents of either spelling included."""
    names = [word.rstrip("*") for word in ALL]
    inside = [(name, before + name) for name in names for before in ("x", "9", "_", "é", "e\u0301", "ü", "の")]
    assert [message for name, message in inside if name in find(message)] == []


@pytest.mark.parametrize("space", ["  ", "\n", "\t", "\r\n", "\u00a0", "\u3000", " \n " * 50])
def test_white_space_in_phrases(space: str) -> None:
    """Any white space matches between the words of a phrase, and there must be some."""
    for phrase in (word for word in ALL if " " in word):
        assert phrase in find(phrase.replace(" ", space))
        assert phrase not in find(phrase.replace(" ", ""))
        assert phrase not in find(phrase.replace(" ", ", "))


@pytest.mark.parametrize("message", ["I'll see", "I’ll see", "i’LL see"])
def test_apostrophes(message: str) -> None:
    """A curly apostrophe counts like a straight one."""
    assert find(message) == {"i'll"}


def test_signs() -> None:
    """A question mark counts anywhere, an exclamation mark at the end alone."""
    assert find("a? b") == find("?") == {"?"}
    assert find("a!") == find("a!!! \n") == {"!"}
    assert find("a! b") == find("") == set()


def test_lines() -> None:
    """A line is taken apart at its commas, and the star is no part of a word."""
    assert list_words("let me, now*, ?") == {"let me", "now", "?"}


def test_pattern_knows_no_sign() -> None:
    """The pattern is made of words; the signs are looked for by themselves."""
    assert compile_words().findall("? ! * , x") == []
