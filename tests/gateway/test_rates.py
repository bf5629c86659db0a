"""Claims about rates: a bucket holds a minute's worth, fills evenly, and says how long to wait."""

import pytest

from foreword.gateway.guessing import EACH, SHARED, Guesses
from foreword.gateway.rates import Rates


class Seconds:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        """Return the time."""
        return self.now


def test_bucket():
    """A minute's worth can be taken at once, and then as fast as it fills."""
    clock = Seconds()
    each = Rates(6, clock)
    assert [each.take("a") for _ in range(6)] == [0.0] * 6
    assert each.take("a") == pytest.approx(10.0)
    clock.now = 9.0
    assert each.take("a") == pytest.approx(1.0)
    clock.now = 10.0
    assert each.take("a") == 0.0
    assert each.take("a") > 0


def test_an_hour():
    """A bucket can hold what it gets in any other time, such as an hour."""
    clock = Seconds()
    each = Rates(6, clock, seconds=3600)
    assert [each.take("a") for _ in range(6)] == [0.0] * 6
    assert each.take("a") == pytest.approx(600.0)
    clock.now = 600.0
    assert each.take("a") == 0.0


def test_guesses():
    """Of all who guess, the first try of each in an hour is looked at, and of the others so many."""
    clock = Seconds()
    guesses = Guesses(clock)
    seen = [sum(guesses.take(f"telegram:{who}") for _ in range(10)) for who in range(50)]
    assert (seen[0], max(seen), min(seen), sum(seen)) == (EACH, EACH, 1, 50 + SHARED)
    clock.now = 3600.0
    assert sum(guesses.take("telegram:0") for _ in range(10)) == EACH


def test_apart():
    """Nobody takes from another's bucket."""
    each = Rates(1, Seconds())
    assert each.take("a") == 0.0
    assert each.take("a") > 0
    assert each.take("b") == 0.0


def test_bounded():
    """However many names there are, so many buckets are kept, and those used last."""
    each = Rates(1, Seconds(), names=3)
    for name in "abcd":
        each.take(name)
    assert list(each._levels) == ["b", "c", "d"]
