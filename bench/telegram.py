"""Telegram: how long an answer takes and how many there are in a second, beside a bare aiogram echo in the same run.

The Bot API and the provider are stand-ins in processes of their own, which answer at once and set no limit. The echo
keeps nothing and asks no model; ours routes, keeps, assembles, asks, keeps again and delivers.
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
from foreword.config.telegram import TelegramBot
from foreword.gateway.channels.telegram.channel import Circumstances, open_telegram
from foreword.gateway.channels.telegram.manners import Manners
from foreword.gateway.channels.telegram.pacing import Pace
from foreword.gateway.opening import Options, open_gateway
from foreword.testing import StandInBot, listen_telegram
from foreword.workspace import Workspace, open_workspace

SINGLE = 200  # messages one after the other
CROWD = 500  # messages at once
PEOPLE = 100
LONGEST = 120.0  # seconds after which an answer is not waited for
REPLY = "It is done, and the notes are where you left them."
FREE = Pace(overall=(1_000_000, 1.0), private=(1_000_000, 1.0), group=(1_000_000, 1.0))


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
    """Answer people whom nobody knows as often as they write."""
    config = folder / "foreword.yaml"
    config.write_text(f"{config.read_text()}\nstrangers: {{turns: 1000000, all_turns: 1000000}}\n")


@contextmanager
def run_api() -> Iterator[tuple[str, Connection]]:
    """Run the stand-in of the Bot API in a process of its own."""
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
    """Play people who write: for each number that comes, so many at once; say how long each waited for its answer."""
    with listen_telegram() as bot:
        pipe.send(bot.url)
        while count := pipe.recv():
            pipe.send(write(bot, count))


def write(bot: StandInBot, count: int) -> list[float]:
    """Write as many people at once, and time their answers in milliseconds."""
    before, begin = len(bot.sent), time.monotonic()
    for number in range(count):
        bot.say("What is on this week?", user=1001 + number % PEOPLE)
    while len(bot.sent) < before + count and time.monotonic() < begin + LONGEST:
        time.sleep(0.0005)
    return [(sent.time - begin) * 1_000 for sent in bot.sent[before:]]


@asynccontextmanager
async def echoing(url: str) -> AsyncIterator[None]:
    """Run a bare bot that answers everything with the same words."""
    bot = Bot(StandInBot().token, AiohttpSession(api=TelegramAPIServer.from_base(url)))
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
    around = Circumstances(manners=Manners(pace=FREE), moves=os.path.join(workspace.files.root, "telegram.json"))
    opens = {"telegram": lambda _: open_telegram(StandInBot().token, TelegramBot(api=url), around)}
    async with open_gateway(workspace, environ, Options(opens=opens)):
        yield


async def measure(running: "asynccontextmanager[None]", pipe: Connection) -> tuple[Times, float, int]:  # type: ignore[type-arg]
    """Measure messages one by one, then a crowd: times, answers in a second, and how many came."""

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
    """Say what ours takes beside the echo."""
    bare = f"a bare aiogram echo: p50 {theirs[0].p50:.1f} ms, p99 {theirs[0].p99:.1f} ms"
    yield Figure(name="Telegram: message to answer, p50", value=ours[0].p50, unit="ms", baseline=bare)
    yield Figure(name="Telegram: message to answer, p99", value=ours[0].p99, unit="ms")
    rate = f"a bare aiogram echo: {theirs[1]:,.0f}/s"
    yield Figure(name=f"Telegram: {CROWD} at once, answers a second", value=ours[1], unit="/s", baseline=rate)
    yield Figure(name="Telegram: messages without an answer", value=ours[2], unit="", aim=0)
