"""The schedule passes the channel contract: its messages are scheduled runs."""

import asyncio
import os
import sqlite3
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
from channel_contract import CONFIG, FILES, Contract, Stage
from house import open_house, open_rows
from messenger import Messenger

from foreword.config.schedule_settings import MissedRuns
from foreword.engine.sources.documents import read_builtin
from foreword.gateway.channel import NeverDelivered, NotStored
from foreword.gateway.channels.pull_channel import ScheduleChannel
from foreword.storage.database import StorageError, use_state
from foreword.storage.schedules import Destination, ScheduleOrigin, StoredSchedule, Timing, TimingKind, put_schedule
from foreword.testing import ManualClock, ScriptedReply
from foreword.types import Delivery, Trust

EIGHT = datetime(2026, 11, 16, 8, tzinfo=UTC)
NAMED = {**FILES, "foreword.yaml": CONFIG.replace("timezone: UTC", 'timezone: UTC, identities: ["post:1001"]')}


class Planned(Stage):
    """A stage whose messages are due schedules."""

    def __init__(self, gateway, folder, post):
        self.gateway, self.folder, self.post = gateway, folder, post

    async def write(self, text, key, who="alice"):
        """Store a due schedule, again if already stored, and fire it."""
        schedule = StoredSchedule(
            id=f"s{key}",
            name="",
            origin=ScheduleOrigin.PERSON,
            agent="reid",
            user=who,
            timing=Timing(kind=TimingKind.AT, moment="2026-11-16T08:00"),
            say=text,
            delivery=Delivery.ALWAYS,
            to=Destination(channel="post", address="1001"),
            clearance=Trust.FULL,
            missed=MissedRuns.ONCE,
            created=EIGHT,
            due=EIGHT,
        )
        try:
            await asyncio.to_thread(self.keep, schedule)
            await self.gateway.scheduler.run_due()
        except (StorageError, sqlite3.Error, NotStored):
            return False
        with open_rows(self.folder) as state:
            kept = [known for (known,) in state.execute("SELECT key FROM turns")]
        return sum(f"\x00s{key}@" in known for known in kept) == 1

    def keep(self, schedule):
        """Store a schedule."""
        with use_state(os.path.join(self.folder, ".foreword")) as state:
            put_schedule(state, schedule)

    async def read(self, count, who="alice"):  # noqa: ARG002 - all replies arrive in one place
        """Read the delivered replies."""
        return await self.post.until(count)


class TestSchedule(Contract):
    """The schedule is a channel; each schedule has its own session."""

    channel = "scheduled"
    situation = "system"

    def setup_method(self):
        """Start without deliveries."""
        self.arrived = []

    @asynccontextmanager
    async def open_stage(self, folder, stand_in):
        """Open a gateway with a messenger and a fixed clock."""
        post = Messenger("post", self.arrived)
        async with open_house(
            folder, stand_in, files=NAMED, channels={"post": post}, clock=ManualClock(EIGHT)
        ) as gateway:
            yield Planned(gateway, folder, post)

    def test_turn_at_its_place(self, tmp_path, stand_in):
        """A run is a turn of the scheduled channel in situation system, in the session of its schedule."""
        stand_in.choose = lambda _: ScriptedReply(text="Yes.")

        async def act(stage):
            assert await stage.write("Is the door open?", "1")
            return await stage.read(1)

        assert self.play(tmp_path, stand_in, act) == [["Yes."]]
        reported = str(stand_in.body)
        assert "Is the door open?" in reported
        assert "Channel: scheduled." in reported
        assert read_builtin("situations/system").splitlines()[0] in reported
        with open_rows(tmp_path) as state:
            rows = state.execute("SELECT channel, room, situation, user_id FROM sessions").fetchall()
        assert rows == [("scheduled:s1", "", "system", "alice")]


def test_nobody_reads_there():
    """The schedule channel cannot deliver."""
    channel = ScheduleChannel(lambda: asyncio.sleep(0), 1.0)
    with pytest.raises(NeverDelivered):
        asyncio.run(channel.deliver("x", "y", "z"))
    assert list(channel.split("a\n\nb")) == ["a\n\nb"]
