"""Counting tokens: each long text is counted once, and its count outlives the process."""

import math
import re
from collections.abc import Mapping
from functools import cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol

from foreword.tokens.models import ModelFacts
from foreword.words import Vocabulary

if TYPE_CHECKING:
    from splintr import AnyTokenizer

# The names that splintr has for vocabularies, where they differ from ours.
PRETRAINED = {Vocabulary.O200K: "o200k_base", Vocabulary.CL100K: "cl100k_base"}
# These put a mark at the beginning of every text and merge across line breaks, so they count each text whole.
WHOLE = frozenset({Vocabulary.LLAMA2, Vocabulary.MISTRAL_V1})
LASTING = 400  # texts from this length are worth a row on disk
PARTED, ENTIRE = 1_500, 200_000  # texts of these lengths are counted by paragraph
# Before a line that starts with neither white space nor a slash, which o200k joins to the text before it.
PARAGRAPH = re.compile(r"(?<=\n\n)(?=[^\s/])")
KEPT = 10_000  # counted texts that are remembered


class Shelf(Protocol):
    """Where counts outlive the process."""

    def load(self, vocabulary: str) -> dict[bytes, int]:
        """Return every count of a vocabulary by content hash."""

    def save(self, vocabulary: str, counts: Mapping[bytes, int]) -> None:
        """Add counts; a failure is the shelf's own affair."""


class Counter:
    """Counts tokens of one vocabulary."""

    def __init__(self, vocabulary: Vocabulary, shelf: Shelf | None = None) -> None:
        self._vocabulary = vocabulary
        self._shelf = shelf
        self._loaded = False
        self._long: dict[str, int] = {}
        self._short: dict[str, int] = {}
        self._parts: dict[str, int] = {}
        self._stored: dict[bytes, int] | None = None
        self._fresh: dict[bytes, int] = {}

    def count(self, text: str) -> int:
        """Return the number of tokens of a text."""
        memory = self._long if len(text) >= LASTING else self._short
        known = memory.get(text)
        if known is None:
            if len(memory) >= KEPT:
                memory.clear()
            known = memory[text] = self._look_up(text) if len(text) >= LASTING else self._encode(text)
        return known

    def save(self) -> None:
        """Put the counts that are new on the shelf."""
        if self._shelf and self._fresh:
            self._shelf.save(self._vocabulary.value, self._fresh)
            self._fresh = {}

    def forget(self) -> None:
        """Forget every counted text and its hash; the stored counts are read again when they are needed."""
        self._long, self._short, self._parts = {}, {}, {}
        self._stored, self._fresh = None, {}
        if self._loaded:
            tokenizer = load_tokenizer(self._vocabulary)
            if tokenizer.family == "BPE":  # the others have no cache, and refuse to clear one
                tokenizer.clear_cache()

    @property
    def fresh(self) -> int:
        """How many counts are not on the shelf yet."""
        return len(self._fresh)

    def _look_up(self, text: str) -> int:
        if self._shelf is None:
            return self._encode(text)
        stored = self._stored
        if stored is None:
            stored = self._stored = self._shelf.load(self._vocabulary.value)
        key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        known = stored.get(key)
        if known is None:
            known = stored[key] = self._fresh[key] = self._encode(text)
        return known

    def _encode(self, text: str) -> int:
        self._loaded = True
        if self._vocabulary in WHOLE or not PARTED <= len(text) <= ENTIRE:
            return encode(self._vocabulary, text)
        # No token crosses these places, so an edit costs one paragraph and not the whole text.
        return sum([self._count_part(part) for part in PARAGRAPH.split(text)])

    def _count_part(self, part: str) -> int:
        known = self._parts.get(part)
        if known is None:
            if len(self._parts) >= KEPT:
                self._parts.clear()
            known = self._parts[part] = encode(self._vocabulary, part)
        return known


def encode(vocabulary: Vocabulary, text: str) -> int:
    """Count the tokens of a text, with control tokens counted as the text they are."""
    tokenizer = load_tokenizer(vocabulary)
    try:
        return len(tokenizer.encode_ordinary(text))
    except UnicodeEncodeError:  # half of a surrogate pair, which no provider would take either
        return len(tokenizer.encode_ordinary(text.encode("utf-8", "replace").decode()))


class Meter:
    """Counts what a model will count: the vocabulary's tokens times the model's factor, rounded up."""

    __slots__ = ("_counter", "_factor", "facts")

    def __init__(self, facts: ModelFacts, counter: Counter) -> None:
        self.facts = facts
        self._factor = facts.factor
        self._counter = counter

    def count(self, text: str) -> int:
        """Return the tokens of a text as this model is expected to bill them."""
        tokens = self._counter.count(text)
        return tokens if self._factor == 1.0 else math.ceil(tokens * self._factor)


@cache
def load_tokenizer(vocabulary: Vocabulary) -> "AnyTokenizer":
    """Load a vocabulary when the first text needs it: 60 to 340 ms, and as much again for the first unusual word."""
    from splintr import Tokenizer

    return Tokenizer.from_pretrained(PRETRAINED.get(vocabulary, vocabulary.value))
