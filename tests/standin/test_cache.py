"""Claims about the cache of the stand-in: it counts as the providers document it."""

import pytest

from foreword.standin.blocks import Block
from foreword.standin.cache import Counted, PrefixCache
from foreword.testing import NOON, MovedClock


def make_blocks(text, marks=None):
    """Make blocks of 100 tokens each, one for each letter; some have marks."""
    return [Block(key=letter, text=letter, ttl=(marks or {}).get(at, "")) for at, letter in enumerate(text)]


@pytest.fixture
def clock():
    """A clock that is moved by hand."""
    return MovedClock(NOON)


@pytest.fixture
def cache(clock):
    """A cache for which every block has 100 tokens."""
    return PrefixCache(clock, lambda _: 100)


def test_marks(cache):
    """What stands before a mark is written once and read afterwards; what follows it is neither."""
    blocks = make_blocks("abc", {1: "5m"})
    assert cache.use_marks("m", blocks, 100) == Counted(write=200, fresh=100)
    assert cache.use_marks("m", blocks, 100) == Counted(read=200, fresh=100)


def test_minimum(cache):
    """Below the minimum nothing is cached, and nothing says so."""
    blocks = make_blocks("abc", {1: "5m"})
    for _ in range(2):
        assert cache.use_marks("m", blocks, 201) == Counted(fresh=300)


@pytest.mark.parametrize(("model", "text"), [("other", "abc"), ("m", "xbc"), ("m", "axc"), ("m", "bac")])
def test_exact_prefix(cache, model, text):
    """Another model, or a change anywhere before the mark, reads nothing."""
    cache.use_marks("m", make_blocks("abc", {2: "5m"}), 100)
    assert cache.use_marks(model, make_blocks(text, {2: "5m"}), 100).read == 0


def test_the_longest_prefix(cache):
    """After a change between two marks the first one is still read."""
    cache.use_marks("m", make_blocks("abcd", {1: "5m", 3: "5m"}), 100)
    assert cache.use_marks("m", make_blocks("abxd", {1: "5m", 3: "5m"}), 100) == Counted(read=200, write=200)


@pytest.mark.parametrize(("added", "read"), [(18, 100), (19, 100), (20, 0), (30, 0)])
def test_lookback(cache, added, read):
    """From a mark twenty blocks are looked at, the marked one among them."""
    cache.use_marks("m", make_blocks("a", {0: "5m"}), 100)
    letters = "".join(chr(ord("b") + number) for number in range(added))
    assert cache.use_marks("m", make_blocks(f"a{letters}", {added: "5m"}), 100).read == read


@pytest.mark.parametrize(("ttl", "kept", "gone"), [("5m", 299, 300), ("1h", 3_599, 3_600)])
def test_time(cache, clock, ttl, kept, gone):
    """An entry lives for its time, and each use lets it live anew."""
    blocks = make_blocks("ab", {1: ttl})
    cache.use_marks("m", blocks, 100)
    for _ in range(3):
        clock.move(kept)
        assert cache.use_marks("m", blocks, 100).read == 200
    clock.move(gone)
    assert cache.use_marks("m", blocks, 100).read == 0


def test_an_hour_is_told_apart(cache):
    """What is written for an hour is counted by itself, since it costs more."""
    assert cache.use_marks("m", make_blocks("abc", {1: "1h", 2: "5m"}), 100) == Counted(write=300, hour=200)


def test_automatic(cache, clock):
    """Without marks any equal beginning is read from the minimum on, in steps, for its time."""
    cache.use_prefix("m", make_blocks("abcdefghijkl"), 1_024, 128)
    assert cache.use_prefix("m", make_blocks("abcdefghijkX"), 1_024, 128) == Counted(read=1_024, fresh=176)
    assert cache.use_prefix("m", make_blocks("abcdefghijklm"), 1_024, 128) == Counted(read=1_152, fresh=148)
    assert cache.use_prefix("m", make_blocks("abcdeX"), 1_024, 128).read == 0
    clock.move(1_800)
    assert cache.use_prefix("m", make_blocks("abcdefghijkl"), 1_024, 128).read == 0


def test_clear(cache):
    """A provider may forget at any time."""
    blocks = make_blocks("ab", {1: "5m"})
    cache.use_marks("m", blocks, 100)
    cache.clear()
    assert cache.use_marks("m", blocks, 100).read == 0
