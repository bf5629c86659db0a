"""Ranking: which chunks of one store answer a question, from words, neighbours, documents, people and dates."""

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from operator import mul
from typing import NamedTuple

from foreword.frozen import frozen
from foreword.memory.chunk import MONTHS
from foreword.memory.index import QUESTION, TIMED, Figures, Index, Row


class Parts(NamedTuple):
    """What speaks for one chunk, or how much each of it weighs."""

    words: float
    """Its own words, by BM25."""
    near: float
    """Words in it and close by, by their rarity."""
    document: float
    """Words of its document, by BM25."""
    answer: float
    """Words of the question that it follows."""
    author: float
    """Whether it is said by the one person that is named."""
    question: float
    """Whether it only asks."""
    month: float
    """Whether it is of a month that is named; words say that too, unless days are written as numbers."""
    timed: float
    """Whether it says when, where that is asked."""


# Found by bench/memory_weights.py over dialogues; bench/memory_recall.py says what each part contributes.
TALK = Parts(words=1.1, near=6.9, document=7.5, answer=2.7, author=1.0, question=-1.0, month=3.9, timed=2.1)
# In notes nobody answers anybody, and the words themselves say more.
NOTES = TALK._replace(words=2.5, answer=0.0)
K1, B = 1.2, 0.75
NEAR = ((-2, 0.2), (-1, 0.5), (2, 0.6), (1, 0.8), (0, 1.0))  # what follows a word is about it more; the most last
MANY = 1_000  # chunks whose words are all looked at; words beyond are too common to say much
LEVEL = 300  # chunks that are level with the last of those, and are looked at, too
FINALISTS = 100  # chunks that are looked at closely
MISSED = 1.0  # what a word is worth that is nowhere in the store, beside the rarest that is
HEADED = 0.6  # what a word in a heading is worth; as much as the word two chunks before
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
    spoken: frozenset[str]
    """Every word as it was written, in lower case."""
    months: tuple[int, ...]
    """Months that it names, 0 to 11."""
    years: tuple[int, ...]
    asks_when: bool


def read_question(text: str, index: Index, stop: frozenset[str]) -> Question:
    """Read a question."""
    spoken = frozenset(WORD.findall(text.lower()))
    return Question(
        words=tuple(dict.fromkeys(word for word in index.stem(text) if word not in stop)),
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
    """Rank the chunks of a store, in no order: the best of them, and all that are level with the last of these."""
    return gather(question, store, index).best(lambda rows: index.rows(store, rows), limit)


def gather(question: Question, store: str, index: Index) -> "Scorer":
    """Gather where the words of a question are in a store."""
    figures = index.figures(store)
    people = [name for name in figures.authors if is_named(name, question.spoken)]
    names = set(index.stem(" ".join(people))) if people else set()
    found = [(index.frequency(store, word), word) for word in question.words] if figures.chunks else []
    # Who speaks says little where everything is theirs; but where nothing else is found, the name is what is asked for.
    about = [one for one in found if one[1] not in names]
    counts = sorted(about if any(count for count, _ in about) else found)
    scorer = Scorer(figures, question, people[0] if len(people) == 1 else "")
    opened = 0
    common: list[tuple[int, str]] = []
    for count, word in counts:
        opened += count
        if not count:
            scorer.miss()
        elif opened <= MANY:
            scorer.add(index.postings(store, word))
        else:
            common.append((count, word))
    rare = [word for count, word in counts if count and (count, word) not in common]
    for count, word in common:
        # Where every word is common, the rarest of them opens the candidates.
        scorer.add_common(count, index.match(store, word, rare))
        rare = rare or [word]
    return scorer


def is_named(name: str, spoken: frozenset[str]) -> bool:
    """Whether a question speaks of somebody by their first name."""
    parts = WORD.findall(name.lower())
    return bool(parts) and parts[0] in spoken


Read = Callable[[Sequence[int]], Mapping[int, Row]]


class Word(NamedTuple):
    """Where a word of the question is."""

    rarity: float
    rows: Mapping[int, int]
    """How often each row has it, its heading included."""
    headed: Collection[int] = ()
    """The rows that have it in their heading alone."""


class Scorer:
    """Adds up what the words of a question say for each chunk."""

    def __init__(self, figures: Figures, question: Question, author: str) -> None:
        self._figures = figures
        self._question = question
        self._author = author
        self._average = max(figures.words / max(figures.chunks, 1), 1.0)
        self._page = max(figures.words / max(len(figures.starts), 1), 1.0)
        self._near: dict[int, float] = {}
        self._said: list[Word] = []
        self._documents: dict[int, float] = {}
        self._total = 0.0

    def add(self, places: Iterable[tuple[int, str, int]]) -> None:
        """Add a word by all its places: what stands near them is a candidate, too."""
        said = list(places)
        rows: dict[int, int] = Counter([row for row, column, _ in said if column == "text"])
        headed = {row for row, column, _ in said if column != "text"} - rows.keys()
        rarity = weigh_rarity(len(rows) + len(headed), self._figures.chunks)
        near: dict[int, float] = {}
        for step, share in NEAR:  # a row near two places has the greater share
            near.update(dict.fromkeys([row + step for row in rows], rarity * share))
        for row in headed:  # a heading speaks for all under it, and for none as its own words do
            near[row] = max(near.get(row, 0.0), rarity * HEADED)
            rows[row] = 1
        self._draw_near(near)
        self._note(Word(rarity, rows, headed))
        self._add_documents(rows)

    def _draw_near(self, near: dict[int, float]) -> None:
        """Add what a word says for the rows around its places; there are thousands, so it is one plain loop."""
        if not self._near:
            self._near = near
            return
        known = self._near
        for row, worth in near.items():
            known[row] = known.get(row, 0.0) + worth

    def miss(self) -> None:
        """Count a word that the store does not have; a store with fewer of the words answers less."""
        self._total += MISSED * weigh_rarity(0, self._figures.chunks)

    def add_common(self, count: int, rows: Sequence[int]) -> None:
        """Add a word that is too common to look at all its places: only where a rarer one is, or the best by itself."""
        rarity = weigh_rarity(count, self._figures.chunks)
        self._draw_near(dict.fromkeys(rows, rarity))
        self._note(Word(rarity, dict.fromkeys(rows, 1)))

    def _note(self, word: Word) -> None:
        self._total += word.rarity
        self._said.append(word)

    def _add_documents(self, rows: Mapping[int, int]) -> None:
        counts: dict[int, int] = {}
        starts, sizes, page, known = self._figures.starts, self._figures.sizes, self._page, self._documents
        for row, count in rows.items():
            document = bisect_right(starts, row)
            counts[document] = counts.get(document, 0) + count
        rarity = weigh_rarity(len(counts), len(starts))
        for document, count in counts.items():
            known[document] = known.get(document, 0.0) + rarity * soften(count, sizes[document - 1] / page)

    def best(self, read: Read, limit: int) -> list[Ranked]:
        """Look closely at the most likely chunks, and return the best with their scores."""
        finalists = self.describe(read, max(FINALISTS, limit))
        scored = [(weigh(parts, found), row, found) for row, found, parts in finalists]
        least = nlargest(limit, [score for score, _, _ in scored])[-1:]
        # All that are level with the last: which of them comes first is not for the order of rows to say.
        best = [one for one in scored if [one[0]] >= least]
        return [Ranked(score, row, self._find_share(row, found)) for score, row, found in best]

    def _find_share(self, row: int, found: Row) -> float:
        """Find how much of the question a chunk has; who talks is answered to, and a note stands for itself."""
        own = [word.rarity * (HEADED if row in word.headed else 1.0) for word in self._said if row in word.rows]
        return (self._near[row] if found.author else sum(own)) / (self._total or 1.0)

    def describe(self, read: Read, most: int) -> Iterator[tuple[int, Row, Parts]]:
        """Say what speaks for each of the most likely chunks."""
        likely = choose(self._near, most)
        known = read(list({row - step for row in likely for step in (0, 1)}))
        total, starts, documents = self._total or 1.0, self._figures.starts, self._documents
        for row in likely:
            if (found := known.get(row)) is None:
                continue
            asked = known.get(row - 1)
            parts = Parts(
                words=self._weigh_words(row, found) / total,
                near=self._near[row] / total,
                document=documents.get(bisect_right(starts, row), 0.0) / total,
                answer=self._weigh_words(row - 1, asked) / total if asked and asked.flags & QUESTION else 0.0,
                author=bool(self._author) and found.author == self._author,
                question=found.flags & QUESTION != 0,
                month=bool(self._question.months) and self._fits_month(found.month),
                timed=self._question.asks_when and found.flags & TIMED != 0,
            )
            yield row, found, parts

    def _weigh_words(self, row: int, found: Row) -> float:
        size = found.words / self._average
        return sum([rarity * soften(rows[row], size) for rarity, rows, _ in self._said if row in rows])

    def _fits_month(self, month: int) -> bool:
        question = self._question
        return month > 0 and month % 12 in question.months and (not question.years or month // 12 in question.years)


def weigh(parts: Parts, found: Row) -> float:
    """Weigh what speaks for a chunk."""
    weights = TALK if found.author else NOTES
    worth: float = sum(map(mul, weights, parts))
    return worth


def choose(scores: Mapping[int, float], most: int) -> list[int]:
    """Choose the rows with the highest scores, and those level with the last; where these are many, the first ones."""
    if len(scores) <= most:
        return list(scores)
    least = sorted(scores.values(), reverse=True)[most - 1]
    above = [row for row, score in scores.items() if score > least]
    level = sorted(row for row, score in scores.items() if score == least)
    return above + level[: max(LEVEL, most - len(above))]


def weigh_rarity(count: int, all_: int) -> float:
    """Weigh a word by how few have it."""
    return math.log(1 + (all_ - count + 0.5) / (count + 0.5))


def soften(count: int, size: float) -> float:
    """Count a word that is said often less than so many times, and less in a long text."""
    return count * (K1 + 1) / (count + K1 * (1 - B + B * size))
