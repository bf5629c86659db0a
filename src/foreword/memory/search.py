"""Ranking: which chunks of one store answer a question, from words, neighbours, documents, people and dates."""

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from heapq import nlargest
from itertools import accumulate
from operator import mul
from typing import NamedTuple

from foreword.engine.sources.documents import join_lines
from foreword.memory.chunk import MONTHS, find_day
from foreword.memory.index import Figures, Index, Postings, Row
from foreword.resources import read_resource
from foreword.types import frozen


class Parts(NamedTuple):
    """The parts of a chunk's score, or their weights."""

    words: float
    """BM25 of the chunk's words."""
    near: float
    """The share of the question, by rarity, that it and its neighbours have; a long message counts for itself."""
    document: float
    """BM25 of its document."""
    answer: float
    """BM25 of the question that it follows."""
    author: float
    """Whether its author is the person that the question is about."""
    question: float
    """Whether it only asks."""
    month: float
    """Whether it is of the month that the question names; its words say that too, unless days are numbers."""


# Found by bench/memory_weights.py over three kinds of conversation; bench/memory_recall.py says what each part gains.
TALK = Parts(words=2.4, near=6.2, document=5.7, answer=2.3, author=1.8, question=-1.3, month=2.4)
# Notes have no questions and answers, and their own words say more.
NOTES = TALK._replace(words=4.0, answer=0.0)
K1, B = 1.2, 0.75
NEIGHBOURS = ((1, 0.8), (2, 0.6), (-1, 0.5), (-2, 0.2))  # rows before and after, and the share of a word found there
MAX_POSTINGS = 600  # places that are all read; the words of a question beyond are too common to say much
MAX_SYNONYM_CHUNKS = 50  # a synonym in more chunks says too little
MAX_LEVEL = 300  # candidates with the same score as the last one
CANDIDATES = 150  # rows whose own words are weighed
FINALISTS = 40  # candidates that are scored in full, with their neighbours
MISSED = 1.0  # weight of a word that the store does not have, relative to the rarest that it has
HEADED = 0.6  # weight of a word in a heading, and of a synonym
SHORT_WORDS, LONG_WORDS = 50, 300  # up to the first a message needs its neighbours; from the second on it needs none
NEIGHBOUR_WORDS = 30  # a longer neighbour counts less, as it has many words by chance
QUESTION_WORDS = 25  # a longer message that ends with a question also says something
ASSISTANTS = frozenset(("assistant", "agent", "ai", "bot", "chatbot", "model"))
FIRST_PERSON = frozenset(("i", "me", "my", "mine", "myself"))
SECOND_PERSON = frozenset(("you", "your", "yours"))
WORD = re.compile(r"\w+")
YEAR = re.compile(r"\b((?:19|20)\d\d)\b")
STOP = (
    "a an and are as at be been but by did do does for from had has have how i if in is it its of on or s t that the "
    "their them they this to was were what when where which who whom why will with would you your he she his her him "
    "we our my me not no so there than then about can could should shall might must any some also just"
)


@frozen
class SearchWords:
    """The stems of words that a question is not about, and of words with the same meaning."""

    stop: frozenset[str]
    synonyms: Mapping[str, frozenset[str]]


def read_search_words(index: Index) -> SearchWords:
    """Read the stop words and synonyms, in the stems of an index."""
    lines = (read_resource("data", "synonyms.txt") or "").splitlines()
    groups = [line.split() for line in lines if not line.startswith("#")]
    stems = iter(index.stem(" ".join(word for group in groups for word in group)))
    synonyms: dict[str, set[str]] = {}
    for group in groups:
        same = {next(stems) for _ in group}
        for stem in same:
            synonyms.setdefault(stem, set()).update(same - {stem})
    return SearchWords(
        stop=frozenset(index.stem(STOP)), synonyms={stem: frozenset(others) for stem, others in synonyms.items()}
    )


@frozen
class Question:
    """A question in the words that the index knows."""

    words: Mapping[str, frozenset[str]]
    """The words that say what it is about, each with its synonyms."""
    spoken: frozenset[str]
    """Every word, unstemmed, in lower case."""
    months: tuple[int, ...]
    """Months that it names, 1 to 12."""
    years: tuple[int, ...]


def read_question(text: str, index: Index, known: SearchWords) -> Question:
    """Read a question."""
    spoken = frozenset(WORD.findall(text.lower()))
    day = find_day(text)
    months = {at for at, name in enumerate(MONTHS, 1) if name in spoken} | ({int(day[5:7])} if day else set())
    return Question(
        words={word: known.synonyms.get(word, frozenset()) for word in index.stem(text) if word not in known.stop},
        spoken=spoken,
        months=tuple(sorted(months)),
        years=tuple(int(year) for year in YEAR.findall(text)),
    )


class Ranked(NamedTuple):
    """One chunk that shares words with a question."""

    score: float
    row: int
    share: float
    """How much of the question it has, from 0 to 1, weighted by rarity; in a conversation, neighbours count."""


def rank(question: Question, store: str, index: Index, limit: int) -> list[Ranked]:
    """Rank the chunks of a store, unordered: the best `limit`, and all with the same score as the last of them."""
    if not index.figures(store).chunks:
        return []
    return gather(question, store, index).best(lambda rows: index.rows(store, rows), limit)


def gather(question: Question, store: str, index: Index) -> "Scorer":
    """Look up the words of a question in a store."""
    figures = index.figures(store)
    people = [name for name in figures.authors if is_named(name, question.spoken)]
    names = set(index.stem(" ".join(people))) if people else set()
    found = index.frequencies(store, {*question.words}.union(*question.words.values()))
    synonyms = {
        word: [one for one in sorted(others - question.words.keys()) if 0 < found.get(one, 0) <= MAX_SYNONYM_CHUNKS]
        for word, others in question.words.items()
    }
    # A name says little in a store of its owner's messages; but if nothing else is found, the name is the question.
    about = [word for word in question.words if word not in names]
    about = about if any(found.get(word) or synonyms[word] for word in about) else list(question.words)
    counts = sorted((found.get(word, 0), word) for word in about)
    opened = [*accumulate(count for count, _ in counts)]
    rare = [word for _, word in counts[: bisect_right(opened, MAX_POSTINGS)]]
    wanted = {*rare}.union(*(synonyms[word] for word in rare))
    places = index.postings(store, [word for word in wanted if found.get(word)])
    scorer = Scorer(figures, question, find_authors(people, figures.authors, question.spoken))
    for word in rare:
        text, headings = places.get(word, NOWHERE)
        others = {row for synonym in synonyms[word] for row in places[synonym].text}
        scorer.add(Postings(text, (headings | others) - text.keys()))
    # If every word is common, the rarest one yields the candidates.
    known = [*places] or [word for _, word in counts[:1]]
    for count, word in counts[len(rare) :]:
        scorer.add_common(count, index.match(store, word, known))
    return scorer


def is_named(name: str, spoken: frozenset[str]) -> bool:
    """Return whether a question mentions an author by first name."""
    parts = WORD.findall(name.lower())
    return bool(parts) and parts[0] in spoken


def find_authors(named: Sequence[str], authors: Sequence[str], spoken: frozenset[str]) -> frozenset[str]:
    """Find whose messages a question is about: one named person, else the one who asks, or the assistant."""
    if named:
        return frozenset(named if len(named) == 1 else ())
    assistants = frozenset(name for name in authors if name.lower() in ASSISTANTS)
    if not assistants:
        return frozenset()
    if spoken & FIRST_PERSON:
        return frozenset(authors) - assistants
    return assistants if spoken & SECOND_PERSON else frozenset()


NOWHERE = Postings({}, frozenset())
Read = Callable[[Iterable[int]], Mapping[int, Row]]


class Word(NamedTuple):
    """A word of the question and the rows that have it."""

    rarity: float
    counts: Mapping[int, int]
    """How often each row has it; once for a row that has it in its heading alone."""
    text: Collection[int]
    """The rows that have it in their text."""


class Finalist(NamedTuple):
    """A chunk that is scored in full."""

    row: Row
    parts: Parts
    share: float
    """How much of the question it has, from 0 to 1, weighted by rarity; in a conversation, neighbours count."""

    @property
    def score(self) -> float:
        """Its weighted parts."""
        score: float = sum(map(mul, TALK if self.row.author else NOTES, self.parts))
        return score


class Scorer:
    """Scores the chunks of a store for one question."""

    def __init__(self, figures: Figures, question: Question, authors: frozenset[str]) -> None:
        self._figures = figures
        self._question = question
        self._authors = authors
        self._average_chunk = max(figures.words / max(figures.chunks, 1), 1.0)
        self._average_document = max(figures.words / max(len(figures.starts), 1), 1.0)
        self._candidates: dict[int, float] = {}
        self._words: list[Word] = []
        self._documents: dict[int, float] = {}
        self._total = 0.0

    def add(self, postings: Postings) -> None:
        """Add a word by all its places; rows near them are candidates as well."""
        text, headings = postings
        rarity = weigh_rarity(len(text) + len(headings), self._figures.chunks)
        if not text and not headings:  # a store with fewer of the words answers less
            self._total += MISSED * rarity
            return
        near: dict[int, float] = {}
        for step, share in reversed(NEIGHBOURS):  # a row near two places has the greater share
            near.update(dict.fromkeys([row + step for row in text], rarity * share))
        near.update(dict.fromkeys(text, rarity))
        for row in headings:
            near[row] = max(near.get(row, 0.0), rarity * HEADED)
        counts = {**text, **dict.fromkeys(headings, 1)} if headings else text
        self._add_word(Word(rarity, counts, text), near)
        self._add_documents(counts)

    def add_common(self, count: int, rows: Sequence[int]) -> None:
        """Add a word that has too many places to read: only the rows where a rarer word is."""
        rarity = weigh_rarity(count, self._figures.chunks)
        counts = dict.fromkeys(rows, 1)
        self._add_word(Word(rarity, counts, counts), dict.fromkeys(rows, rarity))

    def _add_word(self, word: Word, near: dict[int, float]) -> None:
        self._total += word.rarity
        self._words.append(word)
        if not self._candidates:
            self._candidates = near
            return
        known = self._candidates
        for row, worth in near.items():
            known[row] = known.get(row, 0.0) + worth

    def _add_documents(self, rows: Mapping[int, int]) -> None:
        counts: dict[int, int] = {}
        starts, sizes, known = self._figures.starts, self._figures.sizes, self._documents
        for row, count in rows.items():
            document = bisect_right(starts, row)
            counts[document] = counts.get(document, 0) + count
        rarity = weigh_rarity(len(counts), len(starts))
        for document, count in counts.items():
            norm = K1 * (1 - B + B * (sizes[document - 1] / self._average_document))
            known[document] = known.get(document, 0.0) + rarity * (count * (K1 + 1) / (count + norm))

    def best(self, read: Read, limit: int) -> list[Ranked]:
        """Score the finalists and return the best, one for each message."""
        if not self._candidates:
            return []
        messages: dict[tuple[int, int], Ranked] = {}
        for finalist in self.describe(read, limit):
            found = Ranked(finalist.score, finalist.row.id, finalist.share)
            message = (bisect_right(self._figures.starts, found.row), finalist.row.first)
            if message not in messages or found.score > messages[message].score:
                messages[message] = found
        least = nlargest(limit, [found.score for found in messages.values()])[-1:]
        # All with the score of the last one: the order among them must not depend on the order of rows.
        return [found for found in messages.values() if [found.score] >= least]

    def describe(self, read: Read, limit: int) -> list[Finalist]:
        """Describe the most likely chunks in full."""
        likely = self._choose_rows(read, limit)
        rows = {row.id: row for row in likely}
        rows |= read({at + step for at in rows for step in (-2, -1, 1, 2)} - rows.keys())
        damps = {at: min(1.0, NEIGHBOUR_WORDS / (row.words or 1)) for at, row in rows.items()}
        words = self._weigh_words(rows)
        total, starts, documents = self._total or 1.0, self._figures.starts, self._documents
        finalists = []
        for row in likely:
            at, need, before = row.id, need_neighbours(row.words), rows.get(row.id - 1)
            near = self._weigh_near(at, damps) / total if need or row.author else 0.0
            parts = Parts(
                words=words.get(at, 0.0) / total,
                near=near * need,
                document=documents.get(bisect_right(starts, at), 0.0) / total,
                answer=words.get(at - 1, 0.0) * damps[at - 1] / total if before and before.asks else 0.0,
                author=row.author in self._authors,
                question=bool(row.asks) and row.words < QUESTION_WORDS,
                month=self._fits_month(row.month),
            )
            # A message counts with its neighbours, a note by itself.
            finalists.append(Finalist(row, parts, near if row.author else self._weigh_near(at, {}) / total))
        return finalists

    def _choose_rows(self, read: Read, limit: int) -> list[Row]:
        """Choose the rows to score in full, before their neighbours are read."""
        rows = read(choose(self._candidates, max(CANDIDATES, limit)))
        words, starts, documents = self._weigh_words(rows), self._figures.starts, self._documents
        scores = {
            at: TALK.words * words.get(at, 0.0)
            + TALK.near * need_neighbours(row.words) * self._candidates[at]
            + TALK.document * documents.get(bisect_right(starts, at), 0.0)
            for at, row in rows.items()
        }
        return [rows[at] for at in choose(scores, max(FINALISTS, limit))]

    def _weigh_words(self, rows: Mapping[int, Row]) -> dict[int, float]:
        """Return the BM25 of each row that has a word of the question."""
        scale = B / self._average_chunk
        norms = {at: K1 * (1 - B + row.words * scale) for at, row in rows.items()}
        weights: dict[int, float] = {}
        for rarity, counts, _ in self._words:
            for at in norms.keys() & counts.keys():
                count = counts[at]
                weights[at] = weights.get(at, 0.0) + rarity * (count * (K1 + 1) / (count + norms[at]))
        return weights

    def _weigh_near(self, at: int, damps: Mapping[int, float]) -> float:
        """Weigh the words of a chunk and of its neighbours, each word once, where it counts most."""
        shares = [(share * damps[at - step], at - step) for step, share in NEIGHBOURS if at - step in damps]
        shares.sort(reverse=True)
        total = 0.0
        for rarity, counts, text in self._words:
            if at in text:
                total += rarity
            elif at in counts:
                total += rarity * HEADED
            else:
                for share, neighbour in shares:
                    if neighbour in text:
                        total += rarity * share
                        break
        return total

    def _fits_month(self, month: int) -> bool:
        months, years = self._question.months, self._question.years
        return month > 0 and month % 100 in months and (not years or month // 100 in years)


def need_neighbours(words: int) -> float:
    """Return how much a message of so many words depends on its neighbours: 1 for a short one, 0 for a long one."""
    if words < SHORT_WORDS:
        return 1.0
    place = math.log((words + 1) / SHORT_WORDS) / math.log(LONG_WORDS / SHORT_WORDS)
    return 1.0 - min(max(place, 0.0), 1.0)


def choose(scores: Mapping[int, float], most: int) -> list[int]:
    """Choose the rows with the highest scores, and those with the score of the last; of very many, the first ones."""
    if len(scores) <= most:
        return list(scores)
    least = sorted(scores.values(), reverse=True)[most - 1]
    above = [row for row, score in scores.items() if score > least]
    level = sorted(row for row, score in scores.items() if score == least)
    return above + level[: max(MAX_LEVEL, most - len(above))]


def weigh_rarity(count: int, all_: int) -> float:
    """Weigh a word by how few chunks have it."""
    return math.log(1 + (all_ - count + 0.5) / (count + 0.5))


STEM_CHARS = 5  # two words with the same beginning count as the same word
LONG_WORD = re.compile(r"\w{3,}|\b\d+\b")
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
    return [word[:STEM_CHARS] for word in LONG_WORD.findall(text.lower())]


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
    places = [match.start() for match in LONG_WORD.finditer(line.lower()) if match[0][:STEM_CHARS] in words]
    best = max(places, key=lambda at: bisect_left(places, at + most) - bisect_left(places, at), default=0)
    start = max(0, min(best - 20, len(line) - most))
    start = line.find(" ", start) + 1 if start else 0
    end = line.rfind(" ", start, start + most)
    end = end if end > start else start + most
    return ("…" if start else "") + line[start:end] + ("…" if end < len(line) else "")
