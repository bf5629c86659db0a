"""Classifying: what a message wants, from one look at its words."""

from foreword.signal.dimensions import Format, Genre, Kind, Signal, SignalMode
from foreword.signal.rules import (
    FORMATS,
    GENRES,
    MODES,
    SMALL_TALK,
    TYPES,
    URGENCY,
    WORDS,
    Outcome,
    Rules,
    list_rules,
    list_words,
)

BY_MODE, BY_GENRE, BY_TYPE = list_rules(MODES), list_rules(GENRES), list_rules(TYPES)
URGENT, CHATTY = list_words(URGENCY), list_words(SMALL_TALK)


def classify(message: str, channel: str = "terminal") -> Signal:
    """Classify a message by the rules; the same message on the same channel is always the same signal."""
    text = fold(message)
    found = find_words(text)
    return Signal(
        mode=choose(BY_MODE, found, SignalMode.ASSIST),
        genre=choose(BY_GENRE, found, Genre.INFORM),
        type=choose(BY_TYPE, found, Kind.GENERAL),
        format=FORMATS.get(channel.partition(":")[0], Format.MESSAGE),
        weight=weigh(len(message.strip()), found),
    )


def fold(message: str) -> str:
    """Fold case, white space and apostrophes, so that each word has one spelling."""
    return " ".join(message.casefold().replace("’", "'").split())


def find_words(text: str) -> set[str]:
    """Find the words and signs of the rules in a folded text."""
    found = set(WORDS.findall(text))
    if "?" in text:
        found.add("?")
    if text.endswith("!"):
        found.add("!")
    return found


def choose(rules: Rules[Outcome], found: set[str], otherwise: Outcome) -> Outcome:
    """Return the outcome of the first rule that has a word among those found."""
    for outcome, words in rules:
        if not words.isdisjoint(found):
            return outcome
    return otherwise


def weigh(length: int, found: set[str]) -> float:
    """Weigh a message: length, a question mark and urgency add to one half, small talk takes away.

    The sum is in thousandths, so that 0.3 is 0.3. It can pass 1, where it is cut, and never falls below 0.2.
    """
    points = 500 + min(2 * length, 200)
    if "?" in found:
        points += 150
    if not URGENT.isdisjoint(found):
        points += 200
    if not CHATTY.isdisjoint(found):
        points -= 300
    return min(points, 1_000) / 1_000
