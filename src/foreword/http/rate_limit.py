"""Rate limit of the HTTP API: a token bucket per name."""

import time
from collections.abc import Callable

from foreword.types import frozen

MAX_BUCKETS = 10_000  # buckets; the least recently used ones are dropped first
MINUTE_S = 60.0


@frozen(eq=True)
class BucketLevel:
    """Fill level of a bucket at a time."""

    left: float
    at: float


class RateLimiter:
    """Buckets by name, each with the capacity of one minute."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic, names: int = MAX_BUCKETS) -> None:
        self._most = float(most)
        self._clock = clock
        self._names = names
        self._levels: dict[str, BucketLevel] = {}

    def take(self, name: str) -> float:
        """Take one from a bucket; return 0, or the seconds to wait if it is empty."""
        now = self._clock()
        level = self._levels.pop(name, None)  # reinsert at the end: the first entry is the least recently used
        left = self._most if level is None else min(self._most, level.left + (now - level.at) * self._most / MINUTE_S)
        wait = 0.0 if left >= 1.0 else (1.0 - left) * MINUTE_S / self._most
        self._levels[name] = BucketLevel(left=left if wait else left - 1.0, at=now)
        if len(self._levels) > self._names:
            del self._levels[next(iter(self._levels))]
        return wait
