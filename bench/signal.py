"""Signals: classification of typical messages of about a hundred characters."""  # noqa: A005 - it is bench.signal

import re
from collections.abc import Iterator, Mapping

from bench.figure import Figure, clock
from foreword.engine.signal import GENRES, MODES, SMALL_TALK, TYPES, URGENCY, classify

COUNT = 20_000
MESSAGES = (
    "Could you look at the quarterly numbers again and tell me which of the regions has fallen behind the plan?",
    "Please create a new dashboard that compares the metrics of this week, and send it to Alice before tomorrow!",
    "The nightly job came to an end at four in the morning; all of the tables were written and nobody was woken.",
    "I’ll take the second half of the review if you let me know by noon which of the chapters are still open.",
    "URGENT: the checkout page is broken for everyone in Norway, roll it back and confirm when you have done it",
    "Thanks, that was a great answer, and the part about the harbour was the very thing that we had hoped for.",
    "approve the change of the supplier, reject the one of the warehouse, and schedule the rest for next Monday",
    "J’ai vu l’alerte 🚨 sur le serveur de préproduction ; peux-tu regarder ce qui s’est passé cette nuit à 3 h ?",
)


def run() -> Iterator[Figure]:
    """Measure `classify`, compared with one search per word."""
    clock(lambda number: classify(MESSAGES[number % len(MESSAGES)]), 1_000)
    times = clock(lambda number: classify(MESSAGES[number % len(MESSAGES)]), COUNT)
    naive = clock(lambda number: classify_naively(MESSAGES[number % len(MESSAGES)]), COUNT // 10)
    beside = f"one re.search per word: p50 {naive.p50:,.0f} µs, p99 {naive.p99:,.0f} µs"
    yield Figure(name="classify a message, p50", value=times.p50, unit="µs", aim=20, baseline=beside)
    yield Figure(name="classify a message, p99", value=times.p99, unit="µs")


def classify_naively(message: str) -> tuple[object, ...]:
    """Classify by the same rules in the obvious way."""
    weight = 0.5 + min(len(message.strip()) / 500, 0.2)
    weight += 0.15 if "?" in message else 0
    weight += 0.2 if has_word(message, URGENCY) else 0
    weight -= 0.3 if has_word(message, SMALL_TALK) else 0
    return (*(search(message, rules) for rules in (MODES, GENRES, TYPES)), min(weight, 1))


def search(message: str, rules: Mapping[object, str]) -> object:
    """Return the first outcome whose line has a word of the message."""
    return next((outcome for outcome, line in rules.items() if has_word(message, line)), None)


def has_word(message: str, line: str) -> bool:
    """Whether a message has a word of a line."""
    return any(find_word(word, message.lower()) for word in line.split(", "))


def find_word(word: str, text: str) -> object:
    """Whether a text contains one word of the rules."""
    if word in "?!":
        return word in text if word == "?" else text.strip().endswith("!")
    return re.search(r"\b" + word.replace("*", r"\b").replace(" ", r"\s+").replace("'", "['’]"), text)
