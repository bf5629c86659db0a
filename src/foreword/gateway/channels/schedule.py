"""The schedule as a channel: nobody writes on it but the clock, and nobody reads on it.

The reply of a run is delivered by the channel of its destination; what has none stays in the session of its schedule.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from foreword.gateway.channel import Hear, NeverDelivered

SOON = 1.0  # seconds between two looks at the clock


class ScheduleChannel:
    """Hands in what is due, in the name of whoever made it."""

    takes_key = True

    def __init__(self, look: Callable[[], Awaitable[object]], every: float = SOON) -> None:
        self._look = look
        self._every = every

    def split(self, text: str) -> Sequence[str]:
        """Leave a reply as it is."""
        return [text]

    async def deliver(self, address: str, part: str, key: str) -> None:  # noqa: ARG002 - the protocol's
        """Refuse: nobody reads here."""
        raise NeverDelivered("nobody reads on a schedule; name a destination for it with `to`")

    async def show_work(self, address: str) -> None:
        """Show nothing."""

    async def run(self, hear: Hear) -> None:  # noqa: ARG002 - what it hands in is a turn already, with its own bounds
        """Look at the clock until cancelled."""
        while True:
            await self._look()
            await asyncio.sleep(self._every)
