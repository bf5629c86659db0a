"""Guessing: how many codes are looked at, so that none is found by trying, and nobody is kept out by others who try."""

import time
from collections import deque
from collections.abc import Callable

from foreword.gateway.rates import MOST

HOUR = 3600.0
EACH = 5  # of one identity
SHARED = 60  # of all together, but for the first one of each


class Guesses:
    """Counts codes that are looked at, good, wrong or malformed; both bounds are for any hour, whenever it begins.

    The first one of an identity is looked at whatever all others do: strangers with many identities use up what is
    shared, and who was given a code has it looked at all the same.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, names: int = MOST) -> None:
        self._clock = clock
        self._names = names
        self._each: dict[str, deque[float]] = {}
        self._shared: deque[float] = deque()

    def take(self, identity: str) -> bool:
        """Take one try of an identity; return whether it is looked at."""
        now = self._clock()
        own = self._each.pop(identity, None) or deque()  # and put back at the end: the first one is the longest unused
        for times in (own, self._shared):
            while times and times[0] <= now - HOUR:
                times.popleft()
        looked = not own or (len(own) < EACH and len(self._shared) < SHARED)
        if looked:
            if own:
                self._shared.append(now)
            own.append(now)
        self._each[identity] = own
        if len(self._each) > self._names:
            del self._each[next(iter(self._each))]
        return looked
