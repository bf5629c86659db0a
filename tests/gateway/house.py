"""A house with a gateway: a workspace, a stand-in provider behind it, and what its tests ask of them."""

import asyncio
import json
import os
import sqlite3
from contextlib import asynccontextmanager, closing, contextmanager, suppress

from foreword.gateway.gateway import Rhythm
from foreword.gateway.message import Incoming
from foreword.gateway.opening import Options, open_gateway
from foreword.gateway.working import Patience
from foreword.runtime.retrying import Retrying
from foreword.testing import make_workspace
from waiting import PATIENCE, until  # noqa: F401 - who has a house waits in it

CONFIG = """\
owner: alice
agents: {reid: {model: "anthropic:claude-sonnet-5"}, ada: {model: "openai:gpt-5"}}
users: {alice: {trust: full, timezone: UTC}, bob: {trust: familiar}}
"""
FILES = {"foreword.yaml": CONFIG, "SOUL.md": "Calm and exact.\n"}


async def hurry(_seconds):
    """Wait for nothing."""
    await asyncio.sleep(0)


QUICK = Retrying(sleep=hurry, chance=lambda: 0.0)
SOON = Patience(later=(0.0,), disk=(0.01,))
LIVELY = Rhythm(look=0.02, renew=0.05, grace=5.0)


def find_environ(url):
    """Name the addresses of a stand-in as the providers' own variables do."""
    return {
        "ANTHROPIC_API_KEY": "k",
        "OPENAI_API_KEY": "k",
        "ANTHROPIC_BASE_URL": url,
        "OPENAI_BASE_URL": f"{url}/v1",
    }


@asynccontextmanager
async def open_house(folder, stand_in, files=FILES, **options):
    """Open the gateway of a workspace that is made in a folder, unless it is there."""
    workspace = make_workspace(folder, files)
    chosen = Options(**{"retrying": QUICK, "patience": SOON, "rhythm": LIVELY} | options)
    async with open_gateway(workspace, find_environ(stand_in.url), chosen) as gateway:
        yield gateway


async def say(gateway, text, **fields):
    """Say something as alice, and wait for what comes of it."""
    accepted = await gateway.accept(Incoming(text=text, **{"user": "alice"} | fields))
    return await gateway.wait(accepted.turn)


async def end(gateway, turn):
    """Wait until nothing more comes of a turn, however often it is left for later."""
    async with asyncio.timeout(PATIENCE):
        while not (reply := await gateway.wait(turn)).state.ended:  # noqa: ASYNC110 - a later try is another wait
            await asyncio.sleep(0.01)
        return reply


def read_log(folder):
    """Read the log of a house whose gateway has closed: type, level, error and facts of each event, in order."""
    with closing(sqlite3.connect(os.path.join(folder, ".foreword", "events.sqlite"))) as log:
        rows = log.execute("SELECT event_type, level, error, metadata FROM events ORDER BY id").fetchall()
    return [(kind, level, error or "", json.loads(facts or "{}")) for kind, level, error, facts in rows]


def follow_log(folder):
    """Read the log of a house whose gateway is open; it has no tables until its first rows are written."""
    with suppress(sqlite3.OperationalError):
        return read_log(folder)
    return []


@contextmanager
def open_rows(folder):
    """Look into the state of a house."""
    with closing(sqlite3.connect(os.path.join(folder, ".foreword", "state.sqlite"), isolation_level=None)) as state:
        yield state


def read_roles(body):
    """Read who speaks in a request, one after the other."""
    return [message["role"] for message in body["messages"]]
