"""A Telegram channel connected to a fake Bot API, with a handler that collects its messages."""

import asyncio
from contextlib import asynccontextmanager

from foreword.config.schema import TelegramBotSettings
from foreword.gateway.channels.telegram.bot_client import RateLimits, TelegramSettings
from foreword.gateway.channels.telegram.telegram_channel import TelegramOptions, open_telegram
from waiting import PATIENCE

FREE = RateLimits(overall=(1_000_000, 1.0), private=(1_000_000, 1.0), group=(1_000_000, 1.0))


class Naps:
    """A sleep that returns at once and records the requested durations."""

    def __init__(self):
        self.taken = []

    async def __call__(self, seconds):
        """Record the duration and yield."""
        self.taken.append(seconds)
        await asyncio.sleep(0.001)


class Ears:
    """Collects the messages of a channel, or raises the given errors."""

    def __init__(self, *faults):
        self.heard = []
        self.faults = list(faults)

    async def __call__(self, heard):
        """Accept a message."""
        if self.faults and (fault := self.faults.pop(0)):
            raise fault
        self.heard.append(heard)

    @property
    def texts(self):
        """The texts of the messages."""
        return [heard.text for heard in self.heard]


class Wire:
    """An open channel with its notices and sleeps."""

    def __init__(self):
        self.naps, self.reported, self.channel = Naps(), [], None

    def describe(self, words, level):
        """Record a notice to the owner."""
        self.reported.append((str(level), words))

    async def poll(self, hear, until):
        """Poll until a condition holds."""
        task = asyncio.create_task(self.channel.run(hear))
        try:
            async with asyncio.timeout(PATIENCE):
                while not until() and not task.done():  # noqa: ASYNC110 - there is no event to wait for
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
    """Open a channel to a fake API, without rate limits."""
    wire = Wire()
    usual = {"limits": FREE, "poll": 1, "sleep": wire.naps}
    around = TelegramOptions(settings=TelegramSettings(**usual | manners), report=wire.describe, migrations=moves)
    async with open_telegram(bot.token, TelegramBotSettings(api=bot.url), around) as wire.channel:
        yield wire
