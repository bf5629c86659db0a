"""Telegram: latency and throughput of answers, compared with a bare aiogram echo in the same run.

The Bot API and the provider are fakes in separate processes, which answer at once without limits. The echo stores
nothing and calls no model; ours routes, stores, assembles, calls the model, stores again and delivers.
"""

import asyncio
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from aiogram import Bot, Dispatcher
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.types import Message

from bench.figure import Figure, Times
from bench.gateway import run_provider
from bench.sample import make_sample
from foreword.config.schema import TelegramBotSettings
from foreword.gateway.channels.telegram.bot_client import RateLimits, TelegramSettings
from foreword.gateway.channels.telegram.telegram_channel import TelegramOptions, open_telegram
from foreword.gateway.startup import GatewayOptions, open_gateway
from foreword.testing import FakeBot, run_fake_telegram
from foreword.workspace import Workspace, open_workspace

SINGLE = 200  # sequential messages
CROWD = 500  # concurrent messages
PEOPLE = 100
LONGEST = 120.0  # timeout of an answer in seconds
REPLY = "It is done, and the notes are where you left them."
FREE = RateLimits(overall=(1_000_000, 1.0), private=(1_000_000, 1.0), group=(1_000_000, 1.0))


def run() -> Iterator[Figure]:
    """Measure the echo, then ours."""
    with tempfile.TemporaryDirectory() as folder, run_provider() as provider:
        make_sample(Path(folder))
        welcome_strangers(Path(folder))
        environ = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": provider}
        with open_workspace(folder) as workspace, run_api() as (url, pipe):
            theirs = asyncio.run(measure(echoing(url), pipe))
            ours = asyncio.run(measure(answering(workspace, environ, url), pipe))
    yield from compare(ours, theirs)


def welcome_strangers(folder: Path) -> None:
    """Remove the limits for unknown people."""
    config = folder / "foreword.yaml"
    config.write_text(f"{config.read_text()}\nstrangers: {{turns: 1000000, all_turns: 1000000}}\n")


@contextmanager
def run_api() -> Iterator[tuple[str, Connection]]:
    """Run the fake Bot API in a separate process."""
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    api = context.Process(target=play, args=(theirs,))
    api.start()
    try:
        yield mine.recv(), mine
    finally:
        mine.send(None)
        api.join()


def play(pipe: Connection) -> None:
    """Simulate users: for each number received, send that many messages at once and return the waiting times."""
    with run_fake_telegram() as bot:
        pipe.send(bot.url)
        while count := pipe.recv():
            pipe.send(write(bot, count))


def write(bot: FakeBot, count: int) -> list[float]:
    """Send messages from that many people at once, and return the times of their answers in milliseconds."""
    before, begin = len(bot.sent), time.monotonic()
    for number in range(count):
        bot.say("What is on this week?", user=1001 + number % PEOPLE)
    while len(bot.sent) < before + count and time.monotonic() < begin + LONGEST:
        time.sleep(0.0005)
    return [(sent.time - begin) * 1_000 for sent in bot.sent[before:]]


@asynccontextmanager
async def echoing(url: str) -> AsyncIterator[None]:
    """Run a bare bot that answers everything with the same text."""
    bot = Bot(FakeBot().token, AiohttpSession(api=TelegramAPIServer.from_base(url)))
    dispatcher = Dispatcher()

    async def echo(message: Message) -> None:
        await message.answer(REPLY)

    dispatcher.message.register(echo)
    task = asyncio.create_task(dispatcher.start_polling(bot, handle_signals=False, polling_timeout=1))
    try:
        yield
    finally:
        await dispatcher.stop_polling()
        await task


@asynccontextmanager
async def answering(workspace: Workspace, environ: dict[str, str], url: str) -> AsyncIterator[None]:
    """Run a gateway with a bot."""
    around = TelegramOptions(
        settings=TelegramSettings(limits=FREE), migrations=os.path.join(workspace.files.root, "telegram.json")
    )
    opens = {"telegram": lambda _: open_telegram(FakeBot().token, TelegramBotSettings(api=url), around)}
    async with open_gateway(workspace, environ, GatewayOptions(opens=opens)):
        yield


async def measure(running: "asynccontextmanager[None]", pipe: Connection) -> tuple[Times, float, int]:  # type: ignore[type-arg]
    """Measure single messages, then a crowd: times, answers per second, and missing answers."""

    async def ask(count: int) -> list[float]:
        pipe.send(count)
        answered: list[float] = await asyncio.to_thread(pipe.recv)
        return answered

    async with running:
        for _ in range(5):
            await ask(1)
        single = [time for _ in range(SINGLE) for time in await ask(1)]
        crowd = await ask(CROWD)
    times = Times(p50=statistics.median(single), p99=statistics.quantiles(single, n=100)[98])
    return times, len(crowd) / max(crowd) * 1_000, SINGLE - len(single) + CROWD - len(crowd)


def compare(ours: tuple[Times, float, int], theirs: tuple[Times, float, int]) -> Iterator[Figure]:
    """Return our figures with the echo as baseline."""
    bare = f"a bare aiogram echo: p50 {theirs[0].p50:.1f} ms, p99 {theirs[0].p99:.1f} ms"
    yield Figure(name="Telegram: message to answer, p50", value=ours[0].p50, unit="ms", baseline=bare)
    yield Figure(name="Telegram: message to answer, p99", value=ours[0].p99, unit="ms")
    rate = f"a bare aiogram echo: {theirs[1]:,.0f}/s"
    yield Figure(name=f"Telegram: {CROWD} at once, answers a second", value=ours[1], unit="/s", baseline=rate)
    yield Figure(name="Telegram: messages without an answer", value=ours[2], unit="", aim=0)
