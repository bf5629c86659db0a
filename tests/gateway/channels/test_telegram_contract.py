"""Telegram passes the channel contract, in private and in a group, with the real bot and a fake API."""

from contextlib import asynccontextmanager

import pytest
from channel_contract import CONFIG, FILES, Contract
from connected import FREE
from house import open_house, until

from foreword.config.schema import TelegramBotSettings
from foreword.gateway.channels.telegram.bot_client import TelegramSettings
from foreword.gateway.channels.telegram.telegram_channel import TelegramOptions, open_telegram
from foreword.testing import run_fake_telegram

KNOWN = CONFIG.replace("timezone: UTC", 'timezone: UTC, identities: ["telegram:1001"]')
ROOMS = 'rooms: {kitchen: {places: ["telegram:-55"]}}\n'
PEOPLE = {"alice": 1001, "stranger": 2002}
HURRIED = TelegramSettings(limits=FREE, poll=2, waits=(0.02,))


class BotStage:
    """People who write to a bot."""

    def __init__(self, bot, chat, said):
        self.bot, self.chat, self.said = bot, chat, said

    async def write(self, text, key, who="alice"):
        """Write a message and wait until the bot confirms its update."""
        if key not in self.said:
            fields = {} if self.chat is None else {"reply_to_message": self.said["bot"]}
            self.said[key] = self.bot.make_message(text, PEOPLE[who], self.chat, **fields)
        number = self.bot.push("message", self.said[key])["update_id"]
        await until(lambda: all(update["update_id"] != number for update in self.bot.updates))
        return True

    async def read(self, count, who="alice"):
        """Read the messages of the bot."""
        chat = self.chat or PEOPLE[who]
        await until(lambda: len([sent for sent in self.bot.sent if sent.chat == chat]) >= count)
        return [sent.text for sent in self.bot.sent if sent.chat == chat]


class TestPrivate(Contract):
    """In a private chat."""

    channel = "telegram"
    chat = None

    @pytest.fixture(autouse=True)
    def api(self):
        """A fake Bot API that outlives the gateway."""
        with run_fake_telegram() as self.bot:
            mine = self.bot.make_message("I am here.", chat=self.chat) | {"from": self.bot.me}
            self.said = {"bot": mine}
            yield

    @asynccontextmanager
    async def open_stage(self, folder, stand_in):
        """Open a gateway with the bot in it."""
        opens = {
            "telegram": lambda describe: open_telegram(
                self.bot.token,
                TelegramBotSettings(api=self.bot.url),
                TelegramOptions(settings=HURRIED, report=describe),
            )
        }
        async with open_house(folder, stand_in, FILES | {"foreword.yaml": KNOWN + ROOMS}, opens=opens):
            yield BotStage(self.bot, self.chat, self.said)


class TestGroup(TestPrivate):
    """In a group, as a reply to the bot."""

    chat = -55
    room = "kitchen"
    situation = "group"
