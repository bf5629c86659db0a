"""Claims about token counts."""

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.tokens.count import Counter, Meter, count_tokens, load_tokenizer
from foreword.tokens.models import find_model
from foreword.types import Vocabulary

# Ids that the vocabularies' authors publish; another order of merges would give others.
IDS = {
    "cl100k": {
        "hello world": [15339, 1917],
        "Hello, world!": [9906, 11, 1917, 0],
        "tiktoken is great!": [83, 1609, 5963, 374, 2294, 0],
        "": [],
    },
    "o200k": {
        "hello world": [24912, 2375],
        "Hello, world!": [13225, 11, 2375, 0],
        "tiktoken is great!": [83, 8251, 2488, 382, 2212, 0],
        "": [],
    },
}
LONG = "Ask before you buy anything, and keep the receipt. " * 20


class Memory:
    """An in-memory cache that records its lookups."""

    def __init__(self) -> None:
        self.rows: dict[bytes, int] = {}
        self.loads = 0

    def load(self, _: str) -> dict[bytes, int]:
        """Return everything."""
        self.loads += 1
        return dict(self.rows)

    def save(self, _: str, counts: Mapping[bytes, int]) -> None:
        """Store everything."""
        self.rows.update(counts)


@pytest.mark.parametrize(("vocabulary", "text"), [(name, text) for name, texts in IDS.items() for text in texts])
def test_ids(vocabulary: str, text: str) -> None:
    """The pinned tokenizer gives the well-known ids, and the counter counts them."""
    assert load_tokenizer(Vocabulary(vocabulary)).encode_ordinary(text) == IDS[vocabulary][text]
    assert Counter(Vocabulary(vocabulary)).count(text) == len(IDS[vocabulary][text])


@pytest.mark.parametrize("length", [0, 1, 10, 199, 200, 201, 399, 400, 401, 1_000])
def test_same_count_at_every_length(length: int) -> None:
    """Texts of any length have the exact count, the first time and the second."""
    text = LONG[:length]
    counter = Counter(Vocabulary.O200K, Memory())
    assert counter.count(text) == counter.count(text) == len(load_tokenizer(Vocabulary.O200K).encode_ordinary(text))


def test_special_tokens_are_text() -> None:
    """A text that looks like a control token is counted as text."""
    assert Counter(Vocabulary.O200K).count("<|endoftext|>") > 1


def test_shelf() -> None:
    """Texts are looked up in the cache before they are counted, and new counts are stored there once."""
    shelf = Memory()
    first = Counter(Vocabulary.O200K, shelf)
    count = first.count(LONG)
    assert first.fresh == 1
    first.save()
    assert (first.fresh, len(shelf.rows)) == (0, 1)
    shelf.rows = dict.fromkeys(shelf.rows, 7)
    second = Counter(Vocabulary.O200K, shelf)
    assert (second.count(LONG), second.fresh, shelf.loads) == (7, 0, 2)
    assert count != 7


def test_short_texts_are_stored() -> None:
    """A stored count of a short text saves the next process from loading a tokenizer."""
    shelf = Memory()
    first = Counter(Vocabulary.O200K, shelf)
    first.count("hello world")
    first.save()
    shelf.rows = dict.fromkeys(shelf.rows, 7)
    assert Counter(Vocabulary.O200K, shelf).count("hello world") == 7


@pytest.mark.parametrize("vocabulary", [Vocabulary.O200K, Vocabulary.CL100K])
@given(text=st.text(alphabet="0123456789 .,:-/k~aé字\n٣", max_size=60))
def test_digits_do_not_matter(vocabulary: Vocabulary, text: str) -> None:
    """A text has as many tokens as the same text with other digits."""
    zeros = "".join("0" if char in "123456789" else char for char in text)
    assert count_tokens(vocabulary, text) == count_tokens(vocabulary, zeros)


def test_factor() -> None:
    """A model's factor is applied per text and rounded up, so that no budget is exceeded."""
    counter = Counter(Vocabulary.O200K)
    sonnet = Meter(find_model("anthropic:claude-sonnet-5", {}), counter)
    assert sonnet.count("hello world") == math.ceil(2 * sonnet.facts.factor) == 3
    assert sonnet.count("") == 0
    assert Meter(find_model("openai:gpt-5", {}), counter).count("hello world") == 2


def test_any_text() -> None:
    """Every text that Python can hold has a count, also half of a surrogate pair in a long text."""
    counter = Counter(Vocabulary.O200K, Memory())
    assert counter.count("🪶" * 500) > 0
    assert counter.count("\0" * 500) > 0
