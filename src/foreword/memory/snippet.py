"""Snippets: the part of a passage that answers a question."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from foreword.engine.sources.documents import join_lines

STEM_CHARS = 5  # two words with the same beginning count as the same word
WORD = re.compile(r"\w{3,}")
SENTENCE = re.compile(r"(?<=[.!?])\s+")


class Snippet(NamedTuple):
    """A part of a passage."""

    text: str
    line: int
    """The line of the passage in which it begins, counted from 0."""


class Sentence(NamedTuple):
    """A sentence of a passage, or a line without a full stop."""

    text: str
    line: int
    words: frozenset[str]


def find_snippet(text: str, query: str, most: int) -> Snippet:
    """Find the sentences that share the rarest words with a query, in at most so many characters."""
    sentences = list(split_sentences(text))
    if not sentences:
        return Snippet("", 0)
    wanted = frozenset(stem_words(query))
    counts = Counter(word for sentence in sentences for word in sentence.words & wanted)
    weights = {word: 1 / (1 + math.log(count)) for word, count in counts.items()}
    first, last = find_window(sentences, weights, most)
    shown = " ".join(sentence.text for sentence in sentences[first : last + 1])
    return Snippet(cut_around(shown, frozenset(weights), most), sentences[first].line)


def split_sentences(text: str) -> Sequence[Sentence]:
    """Split a passage into its sentences."""
    return [
        Sentence(part, at, frozenset(stem_words(part)))
        for at, line in enumerate(text.split("\n"))
        for part in SENTENCE.split(join_lines(line))
        if part.strip()
    ]


def stem_words(text: str) -> list[str]:
    """Return the words of a text by their beginnings."""
    return [word[:STEM_CHARS] for word in WORD.findall(text.lower())]


def find_window(sentences: Sequence[Sentence], weights: Mapping[str, float], most: int) -> tuple[int, int]:
    """Find the run of sentences with the greatest weight that fits; the first of equals, filled up to its end."""
    best, found = -1.0, (0, 0)
    for first in range(len(sentences)):
        last, size = first, len(sentences[first].text)
        while last + 1 < len(sentences) and size + 1 + len(sentences[last + 1].text) <= most:
            last += 1
            size += 1 + len(sentences[last].text)
        words = frozenset[str]().union(*(one.words for one in sentences[first : last + 1]))
        weight = sum(worth for word, worth in weights.items() if word in words)
        # A window begins with a sentence that shares a word, so that the answer is not at its end.
        begins = any(word in sentences[first].words for word in weights)
        if weight + (0.01 if begins else 0.0) > best:
            best, found = weight + (0.01 if begins else 0.0), (first, last)
    return found


def cut_around(line: str, words: frozenset[str], most: int) -> str:
    """Cut a line that is too long around the words that matter."""
    if len(line) <= most:
        return line
    places = [match.start() for match in WORD.finditer(line.lower()) if match[0][:STEM_CHARS] in words]
    best = max(places, key=lambda at: sum(at <= other < at + most for other in places), default=0)
    start = max(0, min(best - 20, len(line) - most))
    start = line.find(" ", start) + 1 if start else 0
    end = line.rfind(" ", start, start + most)
    end = end if end > start else start + most
    return ("…" if start else "") + line[start:end] + ("…" if end < len(line) else "")
