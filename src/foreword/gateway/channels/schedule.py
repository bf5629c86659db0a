"""The schedule as a channel: nobody writes on it but the clock, and nobody reads on it.

The reply of a run is delivered by the channel of its destination; what has none stays in the session of its schedule.
"""

import asyncio
from collections.abc import Awaitable, Callable

from foreword.gateway.channel import Hear
from foreword.gateway.channels.fetched import Fetched

SOON = 1.0  # seconds between two looks at the clock


class ScheduleChannel(Fetched):
    """Hands in what is due, in the name of whoever made it."""

    def __init__(self, look: Callable[[], Awaitable[object]], every: float = SOON) -> None:
        self._look = look
        self._every = every

    async def run(self, hear: Hear) -> None:  # noqa: ARG002 - what it hands in is a turn already, with its own bounds
        """Look at the clock until cancelled."""
        while True:
            await self._look()
            await asyncio.sleep(self._every)
