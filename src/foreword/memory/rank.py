"""Ranking: which chunks of one store answer a question, from words, neighbours, documents, people and dates."""

import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from heapq import nlargest
from itertools import pairwise
from typing import NamedTuple

from foreword.frozen import frozen
from foreword.memory.chunk import MONTHS
from foreword.memory.index import QUESTION, TIMED, Figures, Index, Row

# Found by cross-validation over dialogues; bench/memory_recall.py says what each part contributes.
TALK = {
    "words": 0.8,
    "before": 1.7,
    "two_before": 1.6,
    "near": 5.6,
    "document": 4.8,
    "author": 1.1,
    "question": -1.1,
    "length": 0.65,
    "pairs": 0.5,
    "month": 3.9,
    "timed": 2.0,
}
# In notes nobody answers anybody: what stands before says little, and the words themselves say more.
NOTES = {**TALK, "words": 2.5, "before": 0.0, "two_before": 0.0, "length": 0.2}
K1, B = 1.2, 0.75
NEAR = ((0, 1.0), (1, 0.7), (-1, 0.7), (2, 0.4), (-2, 0.4))
MANY = 1_000  # chunks whose words are all looked at; words beyond are too common to say much
FINALISTS = 150  # chunks that are looked at closely
MISSED = 1.0  # what a word is worth that is nowhere in the store, beside the rarest that is
HEADED = 0.6  # what a word in a heading is worth
OUTSIDE, ANYWHERE = -2, -4  # a place in a heading, and one that nobody looked for; next to no other place
WORD = re.compile(r"\w+")
WHEN = re.compile(r"^\s*when\b|\b(?:date|month|year|day|how long|since when)\b", re.IGNORECASE)
YEAR = re.compile(r"\b((?:19|20)\d\d)\b")
STOP = (
    "a an and are as at be been but by did do does for from had has have how i if in is it its of on or s t that the "
    "their them they this to was were what when where which who whom why will with would you your he she his her him "
    "we our my me not no so there than then about can could should shall might must any some also just"
)


@frozen
class Question:
    """What is asked, in the words that the index knows."""

    words: tuple[str, ...]
    """The words that say what it is about, each once."""
    pairs: tuple[tuple[str, str], ...]
    """Those of them that follow one another."""
    spoken: frozenset[str]
    """Every word as it was written, in lower case."""
    months: tuple[int, ...]
    """Months that it names, 0 to 11."""
    years: tuple[int, ...]
    asks_when: bool


def read_question(text: str, index: Index, stop: frozenset[str]) -> Question:
    """Read a question."""
    stems = index.stem(text)
    words = tuple(dict.fromkeys(word for word in stems if word not in stop))
    spoken = frozenset(WORD.findall(text.lower()))
    return Question(
        words=words,
        pairs=tuple((a, b) for a, b in pairwise(stems) if a not in stop and b not in stop),
        spoken=spoken,
        months=tuple(at for at, name in enumerate(MONTHS) if name in spoken),
        years=tuple(int(year) for year in YEAR.findall(text)),
        asks_when=WHEN.search(text) is not None,
    )


class Ranked(NamedTuple):
    """One chunk that shares words with a question."""

    score: float
    row: int
    share: float
    """How much of the question it has, from 0 to 1, by the rarity of the words; in a talk also what is close by."""


def rank(question: Question, store: str, index: Index, limit: int) -> list[Ranked]:
    """Rank the chunks of a store; the best come first, and what shares no word with the question does not come."""
    figures = index.figures(store)
    if not figures.chunks:
        return []
    people = [name for name in figures.authors if is_named(name, question.spoken)]
    names = set(index.stem(" ".join(people))) if people else set()
    about = [word for word in question.words if word not in names] or list(question.words)
    counts = sorted((index.frequency(store, word), word) for word in about)
    scorer = Scorer(figures, question, people[0] if len(people) == 1 else "")
    opened = 0
    common: list[tuple[int, str]] = []
    for count, word in counts:
        opened += count
        if not count:
            scorer.miss()
        elif opened <= MANY:
            scorer.add(word, index.postings(store, word))
        else:
            common.append((count, word))
    rare = [word for count, word in counts if count and (count, word) not in common]
    for count, word in common:
        # Where every word is common, the rarest of them opens the candidates.
        scorer.add_common(word, count, index.match(store, word, rare))
        rare = rare or [word]
    return scorer.best(lambda rows: index.rows(store, rows), limit)


def is_named(name: str, spoken: frozenset[str]) -> bool:
    """Whether a question speaks of somebody by their first name."""
    parts = WORD.findall(name.lower())
    return bool(parts) and parts[0] in spoken


class Scorer:
    """Adds up what the words of a question say for each chunk."""

    def __init__(self, figures: Figures, question: Question, author: str) -> None:
        self._figures = figures
        self._question = question
        self._author = author
        self._average = max(figures.words / figures.chunks, 1.0)
        self._page = max(figures.words / max(len(figures.starts), 1), 1.0)
        self._near: dict[int, float] = defaultdict(float)
        self._said: list[tuple[float, Mapping[int, Sequence[int]]]] = []
        self._documents: dict[int, float] = defaultdict(float)
        self._places: dict[str, Mapping[int, Sequence[int]]] = {}
        self._total = 0.0

    def add(self, word: str, places: Sequence[tuple[int, str, int]]) -> None:
        """Add a word by all its places: what stands near them is a candidate, too."""
        rows: dict[int, list[int]] = {}
        for row, column, offset in places:
            if column == "text":
                rows.setdefault(row, []).append(offset)
            else:
                rows.setdefault(row, [OUTSIDE])
        rarity = self._weigh(word, len(rows), rows)
        near: dict[int, float] = {}
        for row, offsets in rows.items():
            if offsets[0] == OUTSIDE:  # a heading speaks for all under it, and for none as its own words do
                near[row] = max(near.get(row, 0.0), HEADED)
                continue
            for step, share in NEAR:
                if near.get(row + step, 0.0) < share:
                    near[row + step] = share
        for row, share in near.items():
            self._near[row] += rarity * share
        self._add_documents(rows)

    def miss(self) -> None:
        """Count a word that the store does not have; a store with fewer of the words answers less."""
        self._total += MISSED * weigh_rarity(0, self._figures.chunks)

    def add_common(self, word: str, count: int, rows: Sequence[int]) -> None:
        """Add a word that is too common to look at all its places: only where a rarer one is, or the best by itself."""
        rarity = self._weigh(word, count, dict.fromkeys(rows, (ANYWHERE,)))
        for row in rows:
            self._near[row] += rarity

    def _weigh(self, word: str, count: int, rows: Mapping[int, Sequence[int]]) -> float:
        rarity = weigh_rarity(count, self._figures.chunks)
        self._total += rarity
        self._places[word] = rows
        self._said.append((rarity, rows))
        return rarity

    def _add_documents(self, rows: Mapping[int, Sequence[int]]) -> None:
        counts: dict[int, int] = defaultdict(int)
        starts, sizes = self._figures.starts, self._figures.sizes
        for row, offsets in rows.items():
            counts[bisect_right(starts, row) - 1] += len(offsets)
        rarity = weigh_rarity(len(counts), len(self._figures.starts))
        for document, count in counts.items():
            self._documents[document] += rarity * soften(count, sizes[document] / self._page)

    def best(self, read: Callable[[Sequence[int]], Mapping[int, Row]], limit: int) -> list[Ranked]:
        """Look closely at the most likely chunks, and return the best with their scores."""
        likely = choose(self._near, max(FINALISTS, limit))
        known = read(list({row - step for row in likely for step in (0, 1, 2)}))
        said = {row: self._weigh_words(row, found) for row, found in known.items()}
        scored = [(self._score(row, known[row], said), row) for row in likely if row in known]
        best = nlargest(limit, scored, key=lambda one: (one[0], -one[1]))
        return [Ranked(score, row, self._find_share(row, known[row])) for score, row in best]

    def _find_share(self, row: int, found: Row) -> float:
        """Find how much of the question a chunk has; who talks is answered to, and a note stands for itself."""
        own = [rarity * (HEADED if rows[row][0] == OUTSIDE else 1.0) for rarity, rows in self._said if row in rows]
        return (self._near[row] if found.author else sum(own)) / (self._total or 1.0)

    def _weigh_words(self, row: int, found: Row) -> float:
        size = found.words / self._average
        return sum([rarity * soften(len(rows[row]), size) for rarity, rows in self._said if row in rows])

    def _score(self, row: int, found: Row, said: Mapping[int, float]) -> float:
        total = self._total or 1.0
        parts = {
            "words": said[row] / total,
            "before": said.get(row - 1, 0.0) / total,
            "two_before": said.get(row - 2, 0.0) / total,
            "near": self._near[row] / total,
            "document": self._documents.get(self._figures.find_document(row), 0.0) / total,
            "author": float(bool(self._author) and found.author == self._author),
            "question": float(bool(found.flags & QUESTION)),
            "length": math.log1p(found.words),
            "pairs": float(sum([self._has_pair(row, *pair) for pair in self._question.pairs])),
            "month": float(self._fits_month(found.month)),
            "timed": float(self._question.asks_when and bool(found.flags & TIMED)),
        }
        weights = TALK if found.author else NOTES
        return sum([weights[name] * value for name, value in parts.items()])

    def _has_pair(self, row: int, first: str, second: str) -> bool:
        one, other = self._places.get(first, {}).get(row), self._places.get(second, {}).get(row)
        return one is not None and other is not None and any(offset + 1 in other for offset in one)

    def _fits_month(self, month: int) -> bool:
        question = self._question
        if not question.months or not month:
            return False
        return month % 12 in question.months and (not question.years or month // 12 in question.years)


def choose(scores: Mapping[int, float], most: int) -> list[int]:
    """Choose the rows with the highest scores; among equals, the first ones."""
    if len(scores) <= most:
        return list(scores)
    least = sorted(scores.values(), reverse=True)[most - 1]
    above = [row for row, score in scores.items() if score > least]
    level = sorted(row for row, score in scores.items() if score == least)
    return above + level[: most - len(above)]


def weigh_rarity(count: int, all_: int) -> float:
    """Weigh a word by how few have it."""
    return math.log(1 + (all_ - count + 0.5) / (count + 0.5))


def soften(count: int, size: float) -> float:
    """Count a word that is said often less than so many times, and less in a long text."""
    return count * (K1 + 1) / (count + K1 * (1 - B + B * size))
