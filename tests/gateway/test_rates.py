"""Claims about rates: a bucket holds a minute's worth, fills evenly, and says how long to wait."""

from itertools import pairwise

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


def count_in_an_hour(times):
    """Count the most that fall into one hour."""
    return max(sum(start <= at < start + 3600 for at in times) for start in times)


def test_guesses():
    """Of all who guess, the first try of each in an hour is looked at, and of the others so many."""
    clock = Seconds()
    guesses = Guesses(clock)
    seen = [sum(guesses.take(f"telegram:{who}") for _ in range(10)) for who in range(50)]
    assert (seen[0], max(seen), min(seen), sum(seen)) == (EACH, EACH, 1, 50 + SHARED)
    clock.now = 3600.0
    assert sum(guesses.take("telegram:0") for _ in range(10)) == EACH


@pytest.mark.parametrize(("people", "each", "shared"), [(1, EACH, EACH), (30, 3, SHARED)])
def test_guesses_in_any_hour(people, each, shared):
    """However they are spread, no hour has more looks than are said, of one identity or of all but the first ones."""
    clock = Seconds()
    guesses = Guesses(clock)
    looks = {who: [] for who in range(people)}
    for second in range(0, 3 * 3600, 20):
        clock.now = float(second)
        for who in range(people):
            looks[who] += [second] if guesses.take(f"telegram:{who}") else []
    more = [at for seen in looks.values() for before, at in pairwise(seen) if at - before < 3600]
    assert {count_in_an_hour(seen) for seen in looks.values()} == {each}
    assert count_in_an_hour(more) == shared


def test_guesses_are_bounded():
    """However many identities try, so many are known, and those that tried last."""
    guesses = Guesses(Seconds(), names=3)
    assert all(guesses.take(name) for name in "abcd")
    assert list(guesses._each) == ["b", "c", "d"]


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
