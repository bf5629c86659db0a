"""Claims about rates: a bucket holds a minute's worth, fills evenly, and says how long to wait."""

import pytest

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
