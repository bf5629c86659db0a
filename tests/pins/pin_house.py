"""A gateway on the loopback interface, driven by scripts; the only file of these tests that imports internals.

When internal modules move, edit the imports here and nothing else in this folder.
"""

import asyncio
import hashlib
import itertools
import os
import sqlite3
from contextlib import AsyncExitStack, asynccontextmanager, closing
from unittest import mock

import httpx2

import foreword
from foreword.agent.retry import RetryPolicy
from foreword.cli.main import main as run_command
from foreword.config.schema import HttpServer, TelegramBotSettings
from foreword.events import tracer as id_source
from foreword.gateway.channels.telegram.bot_client import RateLimits, TelegramSettings
from foreword.gateway.channels.telegram.telegram_channel import TelegramOptions, open_telegram
from foreword.gateway.gateway_context import GatewaySettings
from foreword.gateway.messages import RoutedMessage
from foreword.gateway.pairing import create_code
from foreword.gateway.startup import GatewayOptions, open_gateway
from foreword.gateway.worker import WorkerRetryPolicy
from foreword.http.app import create_app
from foreword.storage.api_tokens import ApiTokens
from foreword.testing import (
    ManualClock,
    ScriptedCall,
    ScriptedError,
    ScriptedReply,
    run_fake_provider,
    run_fake_telegram,
    write_files,
)
from waiting import until

__all__ = [
    "ManualClock",
    "ScriptedCall",
    "ScriptedError",
    "ScriptedReply",
    "open_house",
    "run_command",
    "run_fake_provider",
    "run_fake_telegram",
    "until",
]

MACHINE = ("Linux", "pinned", "6.1", "#1", "x86_64")
UNPACED = RateLimits(overall=(1_000_000, 1.0), private=(1_000_000, 1.0), group=(1_000_000, 1.0))
SUMMARY = ScriptedReply(text="Summary: they talked about the garden.")


async def skip_wait(_seconds):
    """Replace sleep: return at once."""
    await asyncio.sleep(0)


def find_environ(url):
    """Return the keys and addresses of the fake provider, and a shell that is independent of the machine."""
    keys = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY"), "k")
    addresses = {"ANTHROPIC_BASE_URL": url, "GOOGLE_GEMINI_BASE_URL": url}
    return keys | addresses | {"OPENAI_BASE_URL": f"{url}/v1", "OLLAMA_BASE_URL": f"{url}/v1", "SHELL": "/bin/sh"}


class CountedIds:
    """A source of ids that are the same in each run and have decimal digits only.

    Ids are part of prompts. A tokenizer counts so many digits as the same number of tokens, whichever they are.
    """

    def __init__(self):
        self._numbers = itertools.count(1)

    def getrandbits(self, bits):
        """Return a number of this many bits whose hexadecimal form has decimal digits only."""
        digest = hashlib.sha256(str(next(self._numbers)).encode()).hexdigest()
        return int("1" + "".join(str(int(sign, 16) % 10) for sign in digest)[1 : bits // 4], 16)

    def seed(self):
        """Do nothing: a child process continues the sequence."""


class House:
    """A gateway with a scripted clock, provider and users."""

    def __init__(self, folder, gateway, provider, clock, bot=None):
        self.folder, self.provider, self.clock, self.bot = folder, provider, clock, bot
        self.session = ""
        """The session of the last reply."""
        self._gateway = gateway
        self._app = None
        self._tokens = {}
        self._script = []
        provider.choose = self._choose

    def _choose(self, body):
        """Answer a summary request with a summary, and any other with the next line of the script."""
        if "</conversation>" in str(body):
            return SUMMARY
        return self._script.pop(0) if self._script else ScriptedReply(text="Yes.")

    def follow(self, *lines):
        """Set the next replies of the model."""
        self._script = list(lines)

    def flush(self):
        """Write all recorded events to the log."""
        self._gateway.listeners.recorder.flush(60)

    async def say(self, text, *script, user="alice", **fields):
        """Send a message and wait for the reply; return its text."""
        self.follow(*script)
        self.flush()
        accepted = await self._gateway.accept(RoutedMessage(text=text, user=user, channel="web", **fields))
        reply = await self._gateway.wait(accepted.turn)
        self.session = reply.session
        return reply.text

    async def write(self, text, *script, user=1001, **fields):
        """Write to the bot and wait for its next message; return its text."""
        self.follow(*script)
        before = len(self.bot.sent)
        self.bot.say(text, user=user, **fields)
        await until(lambda: len(self.bot.sent) > before)
        return self.bot.sent[-1].text

    async def ask(self, method, path, user="alice", **body):
        """Call the HTTP API as a user; return the decoded response."""
        self._app = self._app or create_app(self._gateway, HttpServer(port=0, rate=100_000))
        if user not in self._tokens:
            with ApiTokens(os.path.join(self.folder, ".foreword")) as tokens:
                self._tokens[user] = tokens.create(user, self._gateway.workspace.config.users).secret
        headers = {"Authorization": f"Bearer {self._tokens[user]}"}
        transport = httpx2.ASGITransport(app=self._app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as client:
            answer = await client.request(method, path, **({"json": body} if body else {}))
            answer.raise_for_status()
            return answer.json() if answer.content else None

    async def edit(self, path, text):
        """Write a file of the workspace and reload it, as POST /api/reload does."""
        write_files(self.folder, {path: text})
        self._gateway.reloading.look(now=True)

    async def set_model(self, model):
        """Choose another model for the current session."""
        await self._gateway.set_model(self.session, model)

    def make_pairing_code(self, user):
        """Create a code that pairs a Telegram account, as `foreword pair` does, at the time of the clock."""
        place = os.path.join(self.folder, ".foreword", "state.sqlite")
        with closing(sqlite3.connect(place, isolation_level=None)) as state:
            return create_code(state, user, self._gateway.workspace.config.users, self.clock(), 15)

    def tick(self, seconds):
        """Advance the clock."""
        self.clock.move(seconds)


@asynccontextmanager
async def open_house(folder, provider, clock, files, bot=None, **options):
    """Open the gateway of a workspace in a folder, with schedules and Telegram if a bot is given."""
    write_files(folder, files)
    settings = {
        "clock": clock,
        "retrying": RetryPolicy(sleep=skip_wait, chance=lambda: 0.0),
        "turn_retry": WorkerRetryPolicy(later=(60.0,), disk=(0.01,)),
        "settings": GatewaySettings(look=0.02, renew=3600.0, grace=5.0),
        "bulletin": 3600.0,
    }

    def open_bot(describe):
        around = TelegramOptions(settings=TelegramSettings(limits=UNPACED, poll=1, waits=(0.02,)), report=describe)
        return open_telegram(bot.token, TelegramBotSettings(api=bot.url), around)

    if bot:
        settings |= {"opens": {"telegram": open_bot}, "scheduling": True}
    async with AsyncExitStack() as opened:
        if hasattr(os, "uname"):
            opened.enter_context(mock.patch.object(os, "uname", return_value=os.uname_result(MACHINE)))
        opened.enter_context(mock.patch.object(id_source, "_chance", CountedIds()))
        workspace = opened.enter_context(foreword.open(str(folder), clock, zone="UTC"))
        chosen = GatewayOptions(**settings | options)
        gateway = await opened.enter_async_context(open_gateway(workspace, find_environ(provider.url), chosen))
        yield House(str(folder), gateway, provider, clock, bot)
