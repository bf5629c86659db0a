"""A Telegram channel against the stand-in of the Bot API, with ears that keep what it hands in."""

import asyncio
from contextlib import asynccontextmanager

from foreword.config.telegram import TelegramBot
from foreword.gateway.channels.telegram.channel import Circumstances, open_telegram
from foreword.gateway.channels.telegram.manners import Manners
from foreword.gateway.channels.telegram.pacing import Tempo
from waiting import PATIENCE

FREE = Tempo(overall=(1_000_000, 1.0), private=(1_000_000, 1.0), group=(1_000_000, 1.0))


class Naps:
    """A sleep that takes no time and remembers how long it was meant to be."""

    def __init__(self):
        self.taken = []

    async def __call__(self, seconds):
        """Sleep for a moment."""
        self.taken.append(seconds)
        await asyncio.sleep(0.001)


class Ears:
    """Keeps what a channel hands in, or fails as it is told."""

    def __init__(self, *faults):
        self.heard = []
        self.faults = list(faults)

    async def __call__(self, heard):
        """Take a message."""
        if self.faults and (fault := self.faults.pop(0)):
            raise fault
        self.heard.append(heard)

    @property
    def texts(self):
        """What was said."""
        return [heard.text for heard in self.heard]


class Wire:
    """An open channel, what it told, and how it slept."""

    def __init__(self):
        self.naps, self.told, self.channel = Naps(), [], None

    def tell(self, words, level):
        """Remember what the owner is told."""
        self.told.append((str(level), words))

    async def poll(self, hear, until):
        """Let it poll until something is so."""
        task = asyncio.create_task(self.channel.run(hear))
        try:
            async with asyncio.timeout(PATIENCE):
                while not until() and not task.done():  # noqa: ASYNC110 - what is waited for says nothing
                    await asyncio.sleep(0.002)
        finally:
            task.cancel()
            (ended,) = await asyncio.gather(task, return_exceptions=True)
            if not isinstance(ended, asyncio.CancelledError):
                raise ended

    async def say(self, text, address="1001"):
        """Deliver a reply, part by part."""
        for number, part in enumerate(self.channel.split(text)):
            await self.channel.deliver(address, part, f"k.{number}")


@asynccontextmanager
async def connect(bot, moves="", **manners):
    """Open a channel to a stand-in, in a hurry."""
    wire = Wire()
    usual = {"tempo": FREE, "poll": 1, "sleep": wire.naps}
    around = Circumstances(manners=Manners(**usual | manners), tell=wire.tell, moves=moves)
    async with open_telegram(bot.token, TelegramBot(api=bot.url), around) as wire.channel:
        yield wire
