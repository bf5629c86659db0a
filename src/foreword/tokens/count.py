"""Token counting, with counts cached in a small SQLite file that can be deleted at any time."""

import math
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from functools import cache, lru_cache, partial
from hashlib import blake2b
from typing import TYPE_CHECKING

from foreword.tokens.models import ModelFacts
from foreword.types import Vocabulary

if TYPE_CHECKING:
    from splintr import AnyTokenizer


# splintr's names of vocabularies that differ from ours.
SPLINTR_NAMES = {Vocabulary.O200K: "o200k_base", Vocabulary.CL100K: "cl100k_base"}
# These prepend a token to every text and merge across line breaks, so each text is counted whole.
WHOLE_TEXT_VOCABULARIES = frozenset({Vocabulary.LLAMA2, Vocabulary.MISTRAL_V1})
# These split digits into groups of up to three, each of them one token, so a count does not depend on which digits a
# text has. A new time or figure then needs no tokenizer, which takes 70 ms to load and 200 ms for the first rare word.
DIGIT_BLIND_VOCABULARIES = frozenset({Vocabulary.O200K, Vocabulary.CL100K})
DIGITS_TO_ZERO = str.maketrans("123456789", "0" * 9)
MIN_SPLIT_CHARS, MAX_SPLIT_CHARS = 1_500, 200_000  # character range of texts that are counted by paragraph
# Before a line that starts with neither white space nor a slash; o200k merges those with the previous text.
PARAGRAPH = re.compile(r"(?<=\n\n)(?=[^\s/])")
MAX_CACHED_TEXTS = 10_000  # maximum entries of an in-memory cache
MAX_ROWS = 200_000  # maximum rows; the oldest are deleted first

SCHEMA = """
CREATE TABLE IF NOT EXISTS counts (
    vocabulary TEXT NOT NULL, content BLOB NOT NULL, tokens INTEGER NOT NULL,
    PRIMARY KEY (vocabulary, content)
)
"""


class SqliteCountStore:
    """Stores token counts by content hash; disk errors cost time but never fail a turn."""

    def __init__(self, folder: str) -> None:
        self._folder, self._file = folder, os.path.join(folder, "counts.sqlite")

    def load(self, vocabulary: str) -> dict[bytes, int]:
        """Return all counts of a vocabulary; empty if there is no usable file."""
        import sqlite3

        if not os.path.exists(self._file):
            return {}
        try:
            with closing(sqlite3.connect(self._file, timeout=1)) as database:
                rows = database.execute("SELECT content, tokens FROM counts WHERE vocabulary = ?", (vocabulary,))
                return dict(rows.fetchall())
        except sqlite3.Error:
            return {}

    def save(self, vocabulary: str, counts: Mapping[bytes, int]) -> None:
        """Add counts and delete the oldest beyond the limit; replace a file that is not a database."""
        import sqlite3

        rows = [(vocabulary, content, tokens) for content, tokens in counts.items()]
        with suppress(sqlite3.Error, OSError):
            os.makedirs(self._folder, exist_ok=True)
            try:
                self._write(rows)
            except sqlite3.OperationalError:
                return
            except sqlite3.DatabaseError:
                os.remove(self._file)
                self._write(rows)

    def _write(self, rows: Sequence[tuple[str, bytes, int]]) -> None:
        import sqlite3

        with closing(sqlite3.connect(self._file, timeout=1)) as database, database:
            database.execute(SCHEMA)
            database.executemany("INSERT OR REPLACE INTO counts VALUES (?, ?, ?)", rows)
            database.execute("DELETE FROM counts WHERE rowid <= (SELECT max(rowid) FROM counts) - ?", (MAX_ROWS,))


class Counter:
    """Counts tokens of one vocabulary."""

    def __init__(self, vocabulary: Vocabulary, store: SqliteCountStore | None = None) -> None:
        self._vocabulary, self._store, self._loaded = vocabulary, store, False
        self._stored: dict[bytes, int] | None = None
        self._fresh: dict[bytes, int] = {}
        self._count_text = lru_cache(MAX_CACHED_TEXTS)(self._look_up)
        self._count_part = lru_cache(MAX_CACHED_TEXTS)(partial(count_tokens, vocabulary))

    def count(self, text: str) -> int:
        """Count the tokens of a text."""
        return self._count_text(text)

    def save(self) -> None:
        """Store the new counts."""
        if self._store and self._fresh:
            self._store.save(self._vocabulary.value, self._fresh)
            self._fresh = {}

    def forget(self) -> None:
        """Clear all in-memory counts; stored ones are loaded again on demand."""
        self._count_text.cache_clear()
        self._count_part.cache_clear()
        self._stored, self._fresh = None, {}
        if self._loaded:
            tokenizer = load_tokenizer(self._vocabulary)
            if tokenizer.family == "BPE":  # the others have no cache to clear and raise
                tokenizer.clear_cache()

    @property
    def fresh(self) -> int:
        """The number of counts that are not stored yet."""
        return len(self._fresh)

    def _look_up(self, text: str) -> int:
        if self._store is None:
            return self._encode(text)
        stored = self._stored  # another thread may forget the counts meanwhile
        if stored is None:
            stored = self._stored = self._store.load(self._vocabulary.value)
        if self._vocabulary in DIGIT_BLIND_VOCABULARIES:
            text = text.translate(DIGITS_TO_ZERO)
        key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if key not in stored:
            stored[key] = self._fresh[key] = self._encode(text)
        return stored[key]

    def _encode(self, text: str) -> int:
        if not text and self._vocabulary in DIGIT_BLIND_VOCABULARIES:
            return 0
        self._loaded = True
        if self._vocabulary in WHOLE_TEXT_VOCABULARIES or not MIN_SPLIT_CHARS <= len(text) <= MAX_SPLIT_CHARS:
            return count_tokens(self._vocabulary, text)
        # No token crosses these positions, so an edit costs one paragraph instead of the whole text.
        return sum(map(self._count_part, PARAGRAPH.split(text)))


def count_tokens(vocabulary: Vocabulary, text: str) -> int:
    """Count the tokens of a text; control tokens count as plain text."""
    tokenizer = load_tokenizer(vocabulary)
    try:
        return len(tokenizer.encode_ordinary(text))
    except UnicodeEncodeError:  # half of a surrogate pair; providers reject it as well
        return len(tokenizer.encode_ordinary(text.encode("utf-8", "replace").decode()))


class Meter:
    """Estimates a model's token counts: the vocabulary's tokens times the model's factor, rounded up."""

    __slots__ = ("_counter", "_factor", "facts")

    def __init__(self, facts: ModelFacts, counter: Counter) -> None:
        self.facts, self._factor, self._counter = facts, facts.factor, counter

    def count(self, text: str) -> int:
        """Estimate the tokens that this model bills for a text."""
        tokens = self._counter.count(text)
        return tokens if self._factor == 1.0 else math.ceil(tokens * self._factor)


@cache
def load_tokenizer(vocabulary: Vocabulary) -> "AnyTokenizer":
    """Load a vocabulary on first use: takes 60 to 340 ms, and as long again for the first unusual word."""
    from splintr import Tokenizer

    return Tokenizer.from_pretrained(SPLINTR_NAMES.get(vocabulary, vocabulary.value))
