"""A workspace with a manual clock, and a channel that records its deliveries."""

from contextlib import asynccontextmanager
from datetime import UTC, datetime

from house import LIVELY, QUICK, SOON, find_environ

from foreword.gateway.startup import GatewayOptions, open_gateway
from foreword.testing import ManualClock, make_workspace, write_files

MORNING = datetime(2026, 11, 16, 7, 59, tzinfo=UTC)
CONFIG = """\
owner: alice
agents: {reid: {model: "anthropic:claude-sonnet-5"}}
users:
  alice: {trust: full, timezone: UTC, identities: ["telegram:1001"]}
  bob: {trust: familiar, identities: ["telegram:1002"]}
rooms: {kitchen: {places: ["telegram:-5"]}}
"""


class Kept:
    """A channel that records its deliveries."""

    takes_key = True

    def __init__(self):
        self.letters = []

    def split(self, text):
        """Do not split a reply."""
        return [text]

    async def deliver(self, address, part, _key):
        """Record a part."""
        self.letters.append((address, part))

    async def show_work(self, address):
        """Show nothing."""

    async def run(self, hear):
        """Receive nothing."""


class House:
    """An open gateway whose schedules are fired by hand."""

    def __init__(self, gateway, clock, kept, folder):
        self.gateway, self.clock, self.kept, self.folder = gateway, clock, kept, folder

    async def look(self):
        """Fire due schedules and wait for their results."""
        return [await self.gateway.wait(one.turn) for one in await self.gateway.scheduler.run_due()]

    async def at(self, hour, minute=0, day=16, month=11, year=2026):
        """Set the clock and fire due schedules."""
        self.clock.now = datetime(year, month, day, hour, minute, tzinfo=UTC)
        return await self.look()

    def edit(self, config):
        """Write another configuration and apply it at once."""
        write_files(self.folder, {"foreword.yaml": config})
        self.gateway.workspace.refresh(now=True)


@asynccontextmanager
async def open_clockwork(folder, stand_in, schedule="", *, config=CONFIG, clock=None, channels=("telegram",), **files):
    """Open a workspace with schedules."""
    clock, kept = clock or ManualClock(MORNING), Kept()
    texts = {name.replace("_", "."): text for name, text in files.items()}
    workspace = make_workspace(folder, {"foreword.yaml": config + schedule, "SOUL.md": "Calm.\n", **texts})
    options = GatewayOptions(
        clock=clock, retrying=QUICK, turn_retry=SOON, settings=LIVELY, channels=dict.fromkeys(channels, kept)
    )
    async with open_gateway(workspace, find_environ(stand_in.url), options) as gateway:
        await gateway.scheduler.run_due()
        yield House(gateway, clock, kept, folder)
