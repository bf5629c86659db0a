"""A workspace with a gateway and a fake provider, and helpers for its tests."""

import asyncio
import json
import os
import sqlite3
from contextlib import asynccontextmanager, closing, contextmanager, suppress

from foreword.agent.retry import RetryPolicy
from foreword.gateway.gateway_context import GatewaySettings
from foreword.gateway.messages import RoutedMessage
from foreword.gateway.startup import GatewayOptions, open_gateway
from foreword.gateway.worker import WorkerRetryPolicy
from foreword.testing import make_workspace
from waiting import PATIENCE, until  # noqa: F401 - re-exported for the tests

CONFIG = """\
owner: alice
agents: {reid: {model: "anthropic:claude-sonnet-5"}, ada: {model: "openai:gpt-5"}}
users: {alice: {trust: full, timezone: UTC}, bob: {trust: familiar}}
"""
FILES = {"foreword.yaml": CONFIG, "SOUL.md": "Calm and exact.\n"}


async def hurry(_seconds):
    """Replace sleep: return at once."""
    await asyncio.sleep(0)


QUICK = RetryPolicy(sleep=hurry, chance=lambda: 0.0)
SOON = WorkerRetryPolicy(later=(0.0,), disk=(0.01,))
LIVELY = GatewaySettings(look=0.02, renew=0.05, grace=5.0)


def find_environ(url):
    """Return environment variables with the URL of a fake provider."""
    return {
        "ANTHROPIC_API_KEY": "k",
        "OPENAI_API_KEY": "k",
        "ANTHROPIC_BASE_URL": url,
        "OPENAI_BASE_URL": f"{url}/v1",
    }


@asynccontextmanager
async def open_house(folder, stand_in, files=FILES, **options):
    """Open the gateway of a workspace, which is created if missing."""
    workspace = make_workspace(folder, files)
    chosen = GatewayOptions(**{"retrying": QUICK, "turn_retry": SOON, "settings": LIVELY} | options)
    async with open_gateway(workspace, find_environ(stand_in.url), chosen) as gateway:
        yield gateway


async def say(gateway, text, **fields):
    """Send a message as alice and wait for the reply."""
    accepted = await gateway.accept(RoutedMessage(text=text, **{"user": "alice"} | fields))
    return await gateway.wait(accepted.turn)


async def end(gateway, turn):
    """Wait until a turn has ended, however often it is queued."""
    async with asyncio.timeout(PATIENCE):
        while not (reply := await gateway.wait(turn)).state.ended:  # noqa: ASYNC110 - each retry is another wait
            await asyncio.sleep(0.01)
        return reply


def read_log(folder):
    """Read the event log of a closed gateway: type, level, error and facts of each event, in order."""
    with closing(sqlite3.connect(os.path.join(folder, ".foreword", "events.sqlite"))) as log:
        rows = log.execute("SELECT event_type, level, error, metadata FROM events ORDER BY id").fetchall()
    return [(kind, level, error or "", json.loads(facts or "{}")) for kind, level, error, facts in rows]


def follow_log(folder):
    """Read the event log of an open gateway; it has no tables before its first rows."""
    with suppress(sqlite3.OperationalError):
        return read_log(folder)
    return []


@contextmanager
def open_rows(folder):
    """Open the state database of a workspace."""
    with closing(sqlite3.connect(os.path.join(folder, ".foreword", "state.sqlite"), isolation_level=None)) as state:
        yield state


def read_roles(body):
    """Read the roles of a request's messages, in order."""
    return [message["role"] for message in body["messages"]]
