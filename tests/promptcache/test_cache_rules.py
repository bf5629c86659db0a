"""Claims about the rules of caches: they count as the providers document."""

from dataclasses import replace

import pytest

from foreword.promptcache.rules import CacheBlock, CacheUsage, PrefixCache
from foreword.testing import NOON, ManualClock
from foreword.tokens.models import find_cache


def rules(minimum, name="anthropic"):
    """The rules of a provider, with another least size."""
    return replace(find_cache("", "", name), minimum=minimum)


def make_blocks(text, marks=None):
    """Make blocks of 100 tokens each, one for each letter; some have breakpoints."""
    return [CacheBlock(key=letter, text=letter, ttl=(marks or {}).get(at, "")) for at, letter in enumerate(text)]


@pytest.fixture
def clock():
    """A clock that is moved by hand."""
    return ManualClock(NOON)


@pytest.fixture
def cache(clock):
    """A cache for which every block has 100 tokens."""
    return PrefixCache(clock, lambda _: 100)


def test_marks(cache):
    """The text before a breakpoint is written once and read afterwards; the text after it is neither."""
    blocks = make_blocks("abc", {1: "5m"})
    assert cache.use("m", blocks, rules(100)) == CacheUsage(write=200, fresh=100)
    assert cache.use("m", blocks, rules(100)) == CacheUsage(read=200, fresh=100)


def test_minimum(cache):
    """Below the minimum nothing is cached, and no error reports it."""
    blocks = make_blocks("abc", {1: "5m"})
    for _ in range(2):
        assert cache.use("m", blocks, rules(201)) == CacheUsage(fresh=300)


@pytest.mark.parametrize(("model", "text"), [("other", "abc"), ("m", "xbc"), ("m", "axc"), ("m", "bac")])
def test_exact_prefix(cache, model, text):
    """Another model, or a change anywhere before the breakpoint, reads nothing."""
    cache.use("m", make_blocks("abc", {2: "5m"}), rules(100))
    assert cache.use(model, make_blocks(text, {2: "5m"}), rules(100)).read == 0


def test_the_longest_prefix(cache):
    """After a change between two breakpoints the first one is still read."""
    cache.use("m", make_blocks("abcd", {1: "5m", 3: "5m"}), rules(100))
    assert cache.use("m", make_blocks("abxd", {1: "5m", 3: "5m"}), rules(100)) == CacheUsage(read=200, write=200)


@pytest.mark.parametrize(("added", "read"), [(18, 100), (19, 100), (20, 0), (30, 0)])
def test_lookback(cache, added, read):
    """The lookback of a breakpoint is twenty blocks, including its own."""
    cache.use("m", make_blocks("a", {0: "5m"}), rules(100))
    letters = "".join(chr(ord("b") + number) for number in range(added))
    assert cache.use("m", make_blocks(f"a{letters}", {added: "5m"}), rules(100)).read == read


@pytest.mark.parametrize(("ttl", "kept", "gone"), [("5m", 299, 300), ("1h", 3_599, 3_600)])
def test_time(cache, clock, ttl, kept, gone):
    """An entry lives for its TTL, and each use renews it."""
    blocks = make_blocks("ab", {1: ttl})
    cache.use("m", blocks, rules(100))
    for _ in range(3):
        clock.move(kept)
        assert cache.use("m", blocks, rules(100)).read == 200
    clock.move(gone)
    assert cache.use("m", blocks, rules(100)).read == 0


def test_an_hour_is_told_apart(cache):
    """Tokens written for an hour are counted separately, since they cost more."""
    assert cache.use("m", make_blocks("abc", {1: "1h", 2: "5m"}), rules(100)) == CacheUsage(write=300, hour=200)


def test_automatic(cache, clock):
    """Without breakpoints any equal beginning is read from the minimum on, in steps, within its TTL."""
    cache.use("m", make_blocks("abcdefghijkl"), rules(1_024, "openai"))
    assert cache.use("m", make_blocks("abcdefghijkX"), rules(1_024, "openai")) == CacheUsage(read=1_024, fresh=176)
    assert cache.use("m", make_blocks("abcdefghijklm"), rules(1_024, "openai")) == CacheUsage(read=1_152, fresh=148)
    assert cache.use("m", make_blocks("abcdeX"), rules(1_024, "openai")).read == 0
    clock.move(1_800)
    assert cache.use("m", make_blocks("abcdefghijkl"), rules(1_024, "openai")).read == 0


def test_clear(cache):
    """A provider may drop its entries at any time."""
    blocks = make_blocks("ab", {1: "5m"})
    cache.use("m", blocks, rules(100))
    cache.clear()
    assert cache.use("m", blocks, rules(100)).read == 0


def test_a_mark_does_not_lengthen_a_life(cache, clock):
    """An entry written for five minutes does not live an hour because a later request asks for that."""
    cache.use("m", make_blocks("ab", {1: "5m"}), rules(100))
    assert cache.use("m", make_blocks("ab", {1: "1h"}), rules(100)) == CacheUsage(read=200)
    clock.move(300)
    assert cache.use("m", make_blocks("ab", {1: "1h"}), rules(100)).read == 0


def test_what_is_added_for_an_hour_keeps_all_before_it(cache, clock):
    """An entry is the whole prefix: a short addition written for an hour also retains the text before it."""
    cache.use("m", make_blocks("ab", {1: "5m"}), rules(100))
    assert cache.use("m", make_blocks("abc", {2: "1h"}), rules(100)) == CacheUsage(read=200, write=100, hour=100)
    clock.move(3_599)
    assert cache.use("m", make_blocks("abcd", {3: "5m"}), rules(100)) == CacheUsage(read=300, write=100)


def test_the_newest_message_is_marked_by_the_service(cache):
    """GPT-5.6 writes up to the newest message and the latest three breakpoints, and reads only at these places."""
    marks = rules(100, "openai-marks")
    assert cache.use("m", make_blocks("abcdef", {0: "30m", 1: "30m", 2: "30m", 3: "30m"}), marks) == CacheUsage(
        write=600
    )
    assert cache.use("m", make_blocks("aX"), marks) == CacheUsage(write=200)
    assert cache.use("m", make_blocks("abX"), marks) == CacheUsage(read=200, write=100)
    assert cache.use("m", make_blocks("abcdeX"), marks) == CacheUsage(read=400, write=200)


def test_no_lookback_bound(cache):
    """GPT-5.6 finds a breakpoint regardless of how many blocks were added after it."""
    marks = rules(100, "openai-marks")
    cache.use("m", make_blocks("a"), marks)
    assert cache.use("m", make_blocks("a" + "b" * 60), marks).read == 100


def test_the_equal_beginning_of_a_text_is_read(clock):
    """Where any equal beginning is cached, an edit at the end of a long text leaves its beginning readable."""
    cache = PrefixCache(clock, len)
    text = "".join(f"line {number:03}\n" for number in range(200))
    cache.use("m", [CacheBlock(key=f"system {text}", text=text)], rules(1, "local"))
    edited = text.replace("line 150", "line xxx")
    read = cache.use("m", [CacheBlock(key=f"system {edited}", text=edited)], rules(1, "local")).read
    assert 900 <= read <= edited.index("xxx")
