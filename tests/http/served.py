"""A workspace served over HTTP on the loopback interface with a fake provider."""

import asyncio
import os
import re
import threading
from contextlib import contextmanager

import httpx2
from openai import OpenAI

from foreword.agent.retry import RetryPolicy
from foreword.config.schema import HttpServer
from foreword.gateway.gateway_context import GatewaySettings
from foreword.gateway.startup import GatewayOptions, open_gateway
from foreword.gateway.worker import WorkerRetryPolicy
from foreword.http.app import bind_socket, create_app, get_url, run_server
from foreword.storage.api_tokens import ApiTokens
from foreword.testing import make_workspace, run_fake_provider
from foreword.workspace import STATE_FOLDER

CONFIG = """\
owner: alice
agents: {reid: {model: "anthropic:claude-sonnet-5"}, ada: {model: "openai:gpt-5"}}
users:
  alice: {trust: full, timezone: UTC}
  bob: {trust: familiar}
  carol: {trust: full}
situations: {lobby: {ceiling: public}}
"""
FILES = {
    "foreword.yaml": CONFIG,
    "SOUL.md": "Calm and exact.\n",
    "memory/private/garden.md": "The plum tree was planted in 2019 by the east wall.\n",
    "memory/social/games.md": "Chess is played on Thursdays.\n",
}


async def hurry(_seconds):
    """Replace sleep: return at once."""
    await asyncio.sleep(0)


QUICK = GatewayOptions(
    retrying=RetryPolicy(sleep=hurry, chance=lambda: 0.0),
    turn_retry=WorkerRetryPolicy(later=(3600.0,), disk=(0.01,)),
    settings=GatewaySettings(look=0.02, renew=0.05, grace=2.0),
)


def show_answer(answer):
    """Return the body of a response without its request id, which is unique."""
    return re.sub(r"req_[0-9a-f]{24}", "req_", answer.text)


class Served:
    """A running server and clients for its users."""

    def __init__(self, workspace, gateway, loop, url, provider):
        self.workspace, self.gateway, self.loop, self.url, self.provider = workspace, gateway, loop, url, provider
        self.folder = os.path.join(workspace.files.root, STATE_FOLDER)

    def make_token(self, user="alice", **options):
        """Create an API token and return it."""
        with ApiTokens(self.folder) as tokens:
            return tokens.create(user, self.workspace.config.users, **options).secret

    def ask_as(self, user="alice", **options):
        """Open an HTTP client with a user's token."""
        headers = {"Authorization": f"Bearer {self.make_token(user)}"}
        return httpx2.Client(base_url=self.url, headers=headers, timeout=120, **options)

    def open_sdk(self, user="alice", **options):
        """Open OpenAI's SDK with a user's token."""
        return OpenAI(base_url=f"{self.url}/v1", api_key=self.make_token(user), max_retries=0, timeout=120, **options)

    def do(self, work):
        """Run a coroutine in the server's event loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def list_events(self, **filters):
        """List the recorded events as the owner."""
        self.gateway.listeners.recorder.flush(60)
        with self.ask_as("alice") as client:
            return client.get("/api/events", params={"limit": 200, **filters}).json()["events"]


@contextmanager
def serve_workspace(folder, *script, files=FILES, settings=None, options=QUICK):
    """Serve a workspace in a thread until the block ends."""
    settings = settings or HttpServer(port=0, rate=100_000)
    workspace = make_workspace(folder, files)
    begun, ended, made = threading.Event(), [], []

    async def run():
        bound = bind_socket(settings)
        stop = asyncio.Event()
        environ = {
            "ANTHROPIC_API_KEY": "k",
            "OPENAI_API_KEY": "k",
            "GOOGLE_API_KEY": "k",
            "ANTHROPIC_BASE_URL": provider.url,
            "OPENAI_BASE_URL": f"{provider.url}/v1",
            "GOOGLE_GEMINI_BASE_URL": provider.url,
        }
        async with (
            open_gateway(workspace, environ, options) as gateway,
            run_server(create_app(gateway, settings), bound),
        ):
            loop = asyncio.get_running_loop()
            made.append(Served(workspace, gateway, loop, get_url(bound), provider))
            ended.append(stop)
            begun.set()
            await stop.wait()

    def work():
        try:
            asyncio.run(run())
        finally:
            begun.set()

    with run_fake_provider(*script) as provider:
        thread = threading.Thread(target=work, name="foreword-served", daemon=True)
        thread.start()
        begun.wait(120)
        assert made, "the server did not start"
        try:
            yield made[0]
        finally:
            made[0].loop.call_soon_threadsafe(ended[0].set)
            thread.join(120)
            assert not thread.is_alive(), "the server did not end"
            workspace.close()
