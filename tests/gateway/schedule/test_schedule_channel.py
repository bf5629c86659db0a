"""The schedule passes the contract of a channel: what people write is what they have planned."""

import asyncio
import os
import sqlite3
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
from channel_contract import CONFIG, FILES, Contract, Stage
from house import open_house, open_rows
from messenger import Messenger

from foreword.config.scheduling import Missed
from foreword.gateway.channel import NeverDelivered
from foreword.gateway.channels.schedule import ScheduleChannel
from foreword.gateway.gateway import NotKept
from foreword.gateway.schedule.due import Kind, Timing
from foreword.gateway.schedule.schedules import Destination, Origin, Schedule, put
from foreword.sources.builtin import read_builtin
from foreword.store.schema import StoreError
from foreword.store.state import use_state
from foreword.testing import MovedClock, Says
from foreword.words import Delivery, Trust

EIGHT = datetime(2026, 11, 16, 8, tzinfo=UTC)
NAMED = {**FILES, "foreword.yaml": CONFIG.replace("timezone: UTC", 'timezone: UTC, identities: ["post:1001"]')}


class Planned(Stage):
    """Somebody for whom something is due."""

    def __init__(self, gateway, folder, post):
        self.gateway, self.folder, self.post = gateway, folder, post

    async def write(self, text, key, who="alice"):
        """Have it due, once more if it was already, and look at the clock."""
        schedule = Schedule(
            id=f"s{key}",
            name="",
            origin=Origin.PERSON,
            agent="reid",
            user=who,
            timing=Timing(kind=Kind.AT, moment="2026-11-16T08:00"),
            say=text,
            delivery=Delivery.ALWAYS,
            to=Destination(channel="post", address="1001"),
            clearance=Trust.FULL,
            missed=Missed.ONCE,
            created=EIGHT,
            due=EIGHT,
        )
        try:
            await asyncio.to_thread(self.keep, schedule)
            await self.gateway.scheduler.look()
        except (StoreError, sqlite3.Error, NotKept):
            return False
        with open_rows(self.folder) as state:
            kept = [known for (known,) in state.execute("SELECT key FROM turns")]
        return sum(f"\x00s{key}@" in known for known in kept) == 1

    def keep(self, schedule):
        """Keep a row."""
        with use_state(os.path.join(self.folder, ".foreword")) as state:
            put(state, schedule)

    async def read(self, count, who="alice"):  # noqa: ARG002 - all that arrives is in one place
        """Read what arrived."""
        return await self.post.until(count)


class TestSchedule(Contract):
    """The schedule is a channel; each schedule has a session of its own."""

    channel = "scheduled"
    situation = "system"

    def setup_method(self):
        """Have nothing arrive yet."""
        self.arrived = []

    @asynccontextmanager
    async def open_stage(self, folder, stand_in):
        """Open the gateway of a house with a messenger, at a time that stands still."""
        post = Messenger("post", self.arrived)
        async with open_house(
            folder, stand_in, files=NAMED, channels={"post": post}, clock=MovedClock(EIGHT)
        ) as gateway:
            yield Planned(gateway, folder, post)

    def test_turn_at_its_place(self, tmp_path, stand_in):
        """A run is a turn of the channel in the situation system, in a session of its own schedule."""
        stand_in.choose = lambda _: Says(text="Yes.")

        async def act(stage):
            assert await stage.write("Is the door open?", "1")
            return await stage.read(1)

        assert self.play(tmp_path, stand_in, act) == [["Yes."]]
        told = str(stand_in.body)
        assert "Is the door open?" in told
        assert "Channel: scheduled." in told
        assert read_builtin("situations/system").splitlines()[0] in told
        with open_rows(tmp_path) as state:
            rows = state.execute("SELECT channel, room, situation, user_id FROM sessions").fetchall()
        assert rows == [("scheduled:s1", "", "system", "alice")]


def test_nobody_reads_there():
    """Nothing is delivered on a schedule."""
    channel = ScheduleChannel(lambda: asyncio.sleep(0))
    with pytest.raises(NeverDelivered):
        asyncio.run(channel.deliver("x", "y", "z"))
    assert list(channel.split("a\n\nb")) == ["a\n\nb"]
