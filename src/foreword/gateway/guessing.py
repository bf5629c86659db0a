"""Guessing: how many codes are looked at, so that none is found by trying, and nobody is kept out by others who try."""

import time
from collections.abc import Callable

from foreword.gateway.rates import HOUR, Rates

EACH = 5  # of one identity
SHARED = 60  # of all together, but for the first one of each


class Guesses:
    """Counts codes that are tried, good, wrong or malformed; both bounds are for an hour, and fill evenly.

    The first one of an identity is looked at whatever all others do: strangers with many identities use up what is
    shared, and who was given a code has it looked at all the same.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._each = Rates(EACH, clock, seconds=HOUR)
        self._first = Rates(1, clock, seconds=HOUR)
        self._shared = Rates(SHARED, clock, seconds=HOUR)

    def take(self, identity: str) -> bool:
        """Take one try of an identity; return whether it is looked at."""
        if self._each.take(identity):
            return False
        return not self._first.take(identity) or not self._shared.take("")
