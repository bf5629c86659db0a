"""Rate limits: a bucket holds one minute's worth, refills evenly, and returns the wait."""

from itertools import pairwise

import pytest

from foreword.gateway.pairing import MAX_ATTEMPTS_PER_IDENTITY, MAX_SHARED_ATTEMPTS, PairingAttempts
from foreword.http.middleware import RateLimiter


class Seconds:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        """Return the time."""
        return self.now


def test_bucket():
    """One minute's worth can be taken at once, then as fast as it refills."""
    clock = Seconds()
    each = RateLimiter(6, clock)
    assert [each.take("a") for _ in range(6)] == [0.0] * 6
    assert each.take("a") == pytest.approx(10.0)
    clock.now = 9.0
    assert each.take("a") == pytest.approx(1.0)
    clock.now = 10.0
    assert each.take("a") == 0.0
    assert each.take("a") > 0


def count_in_an_hour(times):
    """Count the maximum in any hour."""
    return max(sum(start <= at < start + 3600 for at in times) for start in times)


def test_guesses():
    """Each identity's first pairing attempt in an hour is checked; the further ones share a limit."""
    clock = Seconds()
    guesses = PairingAttempts(clock)
    seen = [sum(guesses.take(f"telegram:{who}") for _ in range(10)) for who in range(50)]
    assert (seen[0], max(seen), min(seen), sum(seen)) == (
        MAX_ATTEMPTS_PER_IDENTITY,
        MAX_ATTEMPTS_PER_IDENTITY,
        1,
        50 + MAX_SHARED_ATTEMPTS,
    )
    clock.now = 3600.0
    assert sum(guesses.take("telegram:0") for _ in range(10)) == MAX_ATTEMPTS_PER_IDENTITY


@pytest.mark.parametrize(
    ("people", "each", "shared"),
    [(1, MAX_ATTEMPTS_PER_IDENTITY, MAX_ATTEMPTS_PER_IDENTITY), (30, 3, MAX_SHARED_ATTEMPTS)],
)
def test_guesses_in_any_hour(people, each, shared):
    """In any hour neither one identity nor all attempts after the first ones exceed their limit."""
    clock = Seconds()
    guesses = PairingAttempts(clock)
    looks = {who: [] for who in range(people)}
    for second in range(0, 3 * 3600, 20):
        clock.now = float(second)
        for who in range(people):
            looks[who] += [second] if guesses.take(f"telegram:{who}") else []
    more = [at for seen in looks.values() for before, at in pairwise(seen) if at - before < 3600]
    assert {count_in_an_hour(seen) for seen in looks.values()} == {each}
    assert count_in_an_hour(more) == shared


def test_guesses_are_bounded():
    """The number of known identities is bounded, and the oldest are dropped."""
    guesses = PairingAttempts(Seconds(), max_identities=3)
    assert all(guesses.take(name) for name in "abcd")
    assert list(guesses._attempts) == ["b", "c", "d"]


def test_apart():
    """Each name has its own bucket."""
    each = RateLimiter(1, Seconds())
    assert each.take("a") == 0.0
    assert each.take("a") > 0
    assert each.take("b") == 0.0


def test_bounded():
    """The number of buckets is bounded, and the least recently used are dropped."""
    each = RateLimiter(1, Seconds(), names=3)
    for name in "abcd":
        each.take(name)
    assert list(each._levels) == ["b", "c", "d"]
