"""Gateways with a Telegram bot in separate processes, to be killed."""

import asyncio
import os
import sys
import tempfile

from connected import FREE
from house import open_house, say

from foreword.config.schema import TelegramBotSettings
from foreword.gateway.channels.telegram.bot_client import TelegramSettings
from foreword.gateway.channels.telegram.telegram_channel import TelegramOptions, open_telegram
from foreword.testing import FakeBot

CONFIG = """\
owner: alice
agents: {reid: {model: "anthropic:claude-sonnet-5"}}
users: {alice: {trust: full, timezone: UTC, identities: ["telegram:1001"]}}
strangers: {turns: 1000000, all_turns: 1000000}
rooms: {kitchen: {places: ["telegram:-55"]}}
"""
FILES = {"foreword.yaml": CONFIG, "SOUL.md": "Calm and exact.\n"}
HURRIED = TelegramSettings(limits=FREE, poll=2, request=5.0, waits=(0.05,))


class Address:
    """The address of the parent's fake provider."""

    def __init__(self, url):
        self.url = url


def make_opens(url, token, folder):
    """Make the function that opens the bot's channel."""
    moves = os.path.join(folder, "telegram.json")
    return {
        "telegram": lambda describe: open_telegram(
            token, TelegramBotSettings(api=url), TelegramOptions(settings=HURRIED, report=describe, migrations=moves)
        )
    }


async def run(folder, provider, bot):
    """Run a gateway until killed."""
    opens = make_opens(bot, FakeBot().token, folder)
    async with open_house(folder, Address(provider), FILES, opens=opens):
        await asyncio.Event().wait()


async def warm_up(provider, bot):
    """Run one turn elsewhere, so that all modules are imported."""
    with tempfile.TemporaryDirectory() as folder:
        async with open_house(folder, Address(provider), FILES) as gateway:
            await say(gateway, "number 1000000")
    async with open_telegram(FakeBot().token, TelegramBotSettings(api=bot)) as channel:
        channel.split("**ready**")
        await channel.show_work("1")


def breed(folder, provider, bot):
    """Fork a gateway for each input line, so that none needs to import modules."""
    asyncio.run(warm_up(provider, bot))
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            asyncio.run(run(folder, provider, bot))
        os.write(sys.stdout.fileno(), f"{child}\n".encode())
        os.waitpid(child, 0)
        os.write(sys.stdout.fileno(), b"ended\n")


if __name__ == "__main__":
    breed(*sys.argv[1:4])
