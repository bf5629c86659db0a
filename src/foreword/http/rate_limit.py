"""Rate limits: token buckets by name."""

import time
from collections.abc import Callable

MAX_BUCKETS = 10_000  # of a rate limit; the least recently used ones are dropped first
MINUTE_S = 60.0


class RateLimiter:
    """Token buckets by name, each with the capacity of one minute."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic, names: int = MAX_BUCKETS) -> None:
        self._most = float(most)
        self._clock = clock
        self._names = names
        self._levels: dict[str, tuple[float, float]] = {}
        """Fill level of each bucket, and the time of it."""

    def take(self, name: str) -> float:
        """Take one from a bucket; return 0, or the seconds to wait if it is empty."""
        now = self._clock()
        left, at = self._levels.pop(name, (self._most, now))  # the first entry is then the least recently used
        left = min(self._most, left + (now - at) * self._most / MINUTE_S)
        wait = 0.0 if left >= 1.0 else (1.0 - left) * MINUTE_S / self._most
        self._levels[name] = (left if wait else left - 1.0, now)
        if len(self._levels) > self._names:
            del self._levels[next(iter(self._levels))]
        return wait
