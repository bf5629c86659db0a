"""Rates: how often somebody may ask, as a bucket that fills evenly and that each request takes one from."""

import time
from collections.abc import Callable

from foreword.frozen import frozen

MOST = 10_000  # names; who asks from more addresses than that at once is forgotten first
MINUTE = 60.0


@frozen(eq=True)
class Level:
    """How full a bucket was, and when."""

    left: float
    at: float


class Rates:
    """Buckets by name, each as large as what it gets in a minute."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic, names: int = MOST) -> None:
        self._most = float(most)
        self._clock = clock
        self._names = names
        self._levels: dict[str, Level] = {}

    def take(self, name: str) -> float:
        """Take one from a bucket; return 0, or the seconds to wait where there is none."""
        now = self._clock()
        level = self._levels.pop(name, None)  # and put back at the end, so that the first one is the longest unused
        left = self._most if level is None else min(self._most, level.left + (now - level.at) * self._most / MINUTE)
        wait = 0.0 if left >= 1.0 else (1.0 - left) * MINUTE / self._most
        self._levels[name] = Level(left=left if wait else left - 1.0, at=now)
        if len(self._levels) > self._names:
            del self._levels[next(iter(self._levels))]
        return wait
