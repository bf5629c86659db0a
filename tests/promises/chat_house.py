"""A workspace with a fake provider, for tests in the terminal, over HTTP and through a messenger."""

import asyncio
import io
import os
import sys
import threading
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import httpx2

from foreword.agent.retry import RetryPolicy
from foreword.cli.main import main
from foreword.config.schema import HttpServer
from foreword.gateway.channel import InboundMessage
from foreword.gateway.gateway_context import GatewaySettings
from foreword.gateway.startup import GatewayOptions, open_gateway
from foreword.gateway.worker import WorkerRetryPolicy
from foreword.http.app import bind_socket, create_app, get_url, run_server
from foreword.storage.api_tokens import ApiTokens
from foreword.testing import make_workspace
from waiting import until

sys.path.append(str(Path(__file__).parent.parent / "cli" / "chat"))
from chat_terminal import sit_down

CONFIG = """\
owner: alice
agents: {reid: {model: "anthropic:claude-sonnet-5"}}
users:
  alice: {trust: full, timezone: Europe/Paris}
  bob: {trust: familiar}
rooms: {kitchen: {situation: group}}
"""
FILES = {
    "foreword.yaml": CONFIG,
    "SOUL.md": "Calm and exact.\n",
    "memory/private/garden.md": "The plum is from 2019.\n",
}
NUMBERS = count(1)


async def hurry(_seconds):
    """Do not wait."""
    await asyncio.sleep(0)


QUICK = {
    "retrying": RetryPolicy(sleep=hurry, chance=lambda: 0.0),
    "turn_retry": WorkerRetryPolicy(later=(3600.0,), disk=(0.01,)),
    "settings": GatewaySettings(look=0.02, renew=0.05, grace=2.0),
}


def find_environ(url):
    """Return the environment variables with the address of a fake provider."""
    return {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": url, "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": f"{url}/v1"}


@asynccontextmanager
async def open_house(folder, url, files=FILES, **options):
    """Open the gateway of a new workspace in a folder."""
    with make_workspace(folder, files) as workspace:
        async with open_gateway(workspace, find_environ(url), GatewayOptions(**QUICK | options)) as gateway:
            yield gateway


@dataclass(frozen=True)
class Answer:
    """The output of a command."""

    code: int
    out: str
    err: str


def make_shell(capsys, monkeypatch, folder, url="http://127.0.0.1:9"):
    """Return a function that runs a command in a folder, without a terminal."""
    monkeypatch.chdir(folder)
    for name, value in find_environ(url).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COLUMNS", "160")

    def run(*words):
        capsys.readouterr()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return run


def sit_at_chat(folder, environ, *words):
    """Open a chat in a new terminal; the environment has only the given keys and addresses."""
    kept = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_BASE_URL"))}
    return sit_down(["chat", *words], {**kept, "HOME": str(folder), **environ}, folder)


class Messenger:
    """A channel whose users are played by a test."""

    takes_key = True

    def __init__(self):
        self.arrived = []
        self._hear = None
        self._running = asyncio.Event()

    def split(self, text):
        """Do not split a reply."""
        return [text]

    async def deliver(self, _address, part, _key):
        """Record a reply."""
        self.arrived.append(part)

    async def show_work(self, address):
        """Show nothing."""

    async def run(self, hear):
        """Receive the messages of the test."""
        self._hear = hear
        self._running.set()
        await asyncio.Event().wait()

    async def hand_in(self, text, sender="1001"):
        """Send a message."""
        await self._running.wait()
        key = f"m{next(NUMBERS)}"
        return await self._hear(InboundMessage(channel="telegram", sender=sender, text=text, key=key, address=sender))

    async def write(self, text, sender="1001"):
        """Send a message and return the next reply."""
        before = len(self.arrived)
        await self.hand_in(text, sender)
        await until(lambda: len(self.arrived) > before)
        return self.arrived[-1]


@contextmanager
def serve(folder, url, files=FILES, **options):
    """Serve a workspace over HTTP in a thread; yield a function that opens a client for a user."""
    begun, stops, made = threading.Event(), [], []

    async def work():
        bound, stop = bind_socket(HttpServer(port=0, rate=100_000)), asyncio.Event()
        async with (
            open_house(folder, url, files, **options) as gateway,
            run_server(create_app(gateway, HttpServer(port=0, rate=100_000)), bound),
        ):
            made.append((gateway, get_url(bound)))
            stops.append((asyncio.get_running_loop(), stop))
            begun.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(work()), daemon=True)
    thread.start()
    assert begun.wait(120)
    gateway, address = made[0]

    def ask_as(user):
        with ApiTokens(os.path.join(gateway.workspace.files.root, ".foreword")) as tokens:
            secret = tokens.create(user, gateway.workspace.config.users).secret
        return httpx2.Client(base_url=address, headers={"Authorization": f"Bearer {secret}"}, timeout=120)

    try:
        yield ask_as
    finally:
        loop, stop = stops[0]
        loop.call_soon_threadsafe(stop.set)
        thread.join(120)
