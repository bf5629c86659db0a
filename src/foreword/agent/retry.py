"""The retry policy of model calls."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from foreword.types import frozen

JITTER = 0.25  # maximum random extension of a delay, as a fraction of it
MAX_REQUESTED_DELAY_S = 30.0  # seconds that a provider may ask us to wait; beyond them the turn is queued


@frozen
class RetryPolicy:
    """Retry up to three times, after 1, 2 and 4 seconds, or later if the provider asks for it."""

    waits: tuple[float, ...] = (1.0, 2.0, 4.0)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random

    def choose_delay(self, wait: float, asked: float | None) -> float | None:
        """Return the delay before the next attempt, or None if the provider asks for too long."""
        seconds = wait * (1 + JITTER * self.chance())
        if asked is None or asked <= seconds:
            return seconds
        return asked if asked <= MAX_REQUESTED_DELAY_S else None


DEFAULT_RETRY_POLICY = RetryPolicy()
