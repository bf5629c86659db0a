"""How often a call is tried, and how long is waited in between."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from foreword.frozen import frozen


@frozen
class Retrying:
    """One call and three more after 1, 2 and 4 seconds, unless a provider asks for longer."""

    waits: tuple[float, ...] = (1.0, 2.0, 4.0)
    jitter: float = 0.25
    """The share by which a wait may grow, so that not everybody comes back at once."""
    longest: float = 30.0
    """The longest wait that a provider may ask for within a turn; beyond it the turn is queued."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random

    def choose(self, wait: float, asked: float | None) -> float | None:
        """Choose how long to wait, or None where the provider asks for too long."""
        seconds = wait * (1 + self.jitter * self.chance())
        if asked is None or asked <= seconds:
            return seconds
        return asked if asked <= self.longest else None


PATIENT = Retrying()
