"""A gateway with a fake provider, and its event log."""

import asyncio
import json
import sqlite3
from contextlib import asynccontextmanager, closing

from foreword.agent.retry import RetryPolicy
from foreword.gateway.gateway_context import GatewaySettings
from foreword.gateway.messages import RoutedMessage
from foreword.gateway.startup import GatewayOptions, open_gateway
from foreword.gateway.worker import WorkerRetryPolicy
from foreword.testing import make_workspace, run_fake_provider

CONFIG = """\
owner: alice
agents: {reid: {model: "anthropic:claude-sonnet-5"}}
users: {alice: {trust: full, timezone: UTC}, bob: {trust: familiar}}
"""


async def skip(_seconds):
    """Do not wait."""
    await asyncio.sleep(0)


@asynccontextmanager
async def open_house(folder, *script, config=CONFIG, files=None, **options):
    """Open the gateway of a new workspace whose provider follows a script."""
    workspace = make_workspace(folder, {"foreword.yaml": config, "SOUL.md": "Calm.\n", **(files or {})})
    chosen = {
        "retrying": RetryPolicy(sleep=skip, chance=lambda: 0.0),
        "turn_retry": WorkerRetryPolicy(later=(0.0,), disk=(0.01,)),
        "settings": GatewaySettings(look=0.02, renew=0.05, grace=5.0),
    }
    with run_fake_provider(*script) as provider:
        environ = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": provider.url}
        async with open_gateway(workspace, environ, GatewayOptions(**chosen | options)) as gateway:
            gateway.provider = provider
            yield gateway


async def say(gateway, text, user="alice", **fields):
    """Send a message and wait until the turn has ended, even if it is queued repeatedly."""
    accepted = await gateway.accept(RoutedMessage(text=text, user=user, **fields))
    while not (reply := await gateway.wait(accepted.turn)).state.ended:  # noqa: ASYNC110 - each wait ends by itself
        await asyncio.sleep(0.01)
    return reply


def run_house(folder, talk, *script, **options):
    """Run a conversation with a gateway, and return its result."""

    async def main():
        async with open_house(folder, *script, **options) as gateway:
            return await talk(gateway)

    return asyncio.run(main())


def read_events(folder, **columns):
    """Read the rows of the event log whose columns have these values, as mappings."""
    with closing(sqlite3.connect(folder / ".foreword" / "events.sqlite")) as log:
        log.row_factory = sqlite3.Row
        rows = [dict(row) for row in log.execute("SELECT * FROM events ORDER BY id")]
    for row in rows:
        row["metadata"] = json.loads(row["metadata"] or "{}")
    return [row for row in rows if all(row[name] == value for name, value in columns.items())]
