"""Pacing: no more messages than Telegram takes, in a chat and overall, so that it does not have to refuse them."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable

from foreword.frozen import frozen
from foreword.gateway.channel import NotDelivered

MANY = 10_000  # chats after which those are forgotten that nothing was sent to lately


@frozen(eq=True)
class Tempo:
    """So many messages in so many seconds."""

    overall: tuple[int, float] = (25, 1.0)
    private: tuple[int, float] = (1, 1.0)
    group: tuple[int, float] = (20, 60.0)
    longest: float = 5.0
    """Seconds that a message waits here; one that has to wait longer is tried again later."""


class Window:
    """The moments of the last sends to one place, some of them still to come."""

    def __init__(self, limit: tuple[int, float]) -> None:
        self._most, self._seconds = limit
        self._moments: deque[float] = deque(maxlen=self._most)
        self.held = 0.0
        """The moment up to which nothing is sent at all."""

    def find(self, now: float) -> float:
        """Find the next moment at which something may be sent."""
        full = len(self._moments) == self._most
        return max(now, self.held, self._moments[0] + self._seconds if full else 0.0)

    def take(self, moment: float) -> None:
        """Take a moment."""
        self._moments.append(moment)

    def is_idle(self, now: float) -> bool:
        """Whether it holds up nobody."""
        return self.held <= now and (not self._moments or self._moments[-1] + self._seconds <= now)


class Pacer:
    """Lets messages go one by one, each at its moment."""

    def __init__(
        self,
        tempo: Tempo,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._tempo = tempo
        self._clock = clock
        self._sleep = sleep
        self._overall = Window(tempo.overall)
        self._chats: dict[int, Window] = {}

    async def wait(self, chat: int) -> None:
        """Wait for the moment of a message, or raise when that is too far away."""
        await self._wait(self._find_window(chat), f"chat {chat}")
        await self._wait(self._overall, "Telegram as a whole")

    def hold(self, chat: int, seconds: float) -> None:
        """Send nothing to a chat for so long; when it is not the only one, nothing at all."""
        now = self._clock()
        others = [window for number, window in self._chats.items() if window.held > now and number != chat]
        self._find_window(chat).held = now + seconds
        if others:
            self._overall.held = max(self._overall.held, now + seconds)

    async def _wait(self, window: Window, whose: str) -> None:
        now = self._clock()
        moment = window.find(now)
        if moment - now > self._tempo.longest:
            raise NotDelivered(f"{whose} takes no more messages for {moment - now:.0f} s", wait=moment - now)
        window.take(moment)
        if moment > now:
            await self._sleep(moment - now)

    def _find_window(self, chat: int) -> Window:
        if chat not in self._chats and len(self._chats) >= MANY:
            now = self._clock()
            self._chats = {number: window for number, window in self._chats.items() if not window.is_idle(now)}
        return self._chats.setdefault(chat, Window(self._tempo.private if chat > 0 else self._tempo.group))
