"""The contract of a channel: the tests that every channel passes.

A channel passes with a subclass in its own test file, named `Test…` so that pytest collects it:

    class TestTelegram(Contract):
        channel = "telegram"

        @asynccontextmanager
        async def open_stage(self, folder, stand_in):
            ...  # open the gateway of a workspace in the folder with the real channel in it
            yield TelegramStage(...)

Tests of restarts open `open_stage` twice with one folder, so state of the people (such as the turns they wait for)
is an attribute of `self`. The workspace has the files of `FILES`; its configuration is `CONFIG`, possibly with more,
such as alice's identity on this channel. `stand_in` is the fake provider. A `Stage` has the two methods below.
"""

import asyncio
import sqlite3
from contextlib import closing

from house import open_rows

from foreword.engine.sources.documents import read_builtin
from foreword.testing import ScriptedReply

CONFIG = """\
owner: alice
agents: {reid: {model: "anthropic:claude-sonnet-5"}}
users:
  alice: {trust: full, timezone: UTC}
  bob: {trust: familiar}
"""
FILES = {
    "foreword.yaml": CONFIG,
    "SOUL.md": "Calm and exact.\n",
    "BOOT.md": "The safe is behind the clock.\n",
}
FULL = "behind the clock"
FAMILIAR = "Calm and exact"
SOON = 120.0  # seconds; generous for a busy machine
MOMENT = 0.3


class Stage:
    """A channel with people on it."""

    async def write(self, text, key, who="alice"):
        """Write as alice, or as `stranger`, an unknown user; return whether the channel accepted the message.

        The same key means a redelivery of the same message.
        """
        raise NotImplementedError

    async def read(self, count, who="alice"):
        """Wait until `count` replies have arrived for a user, or can be fetched, and return all of them in order."""
        raise NotImplementedError


class Contract:
    """The tests of a channel."""

    channel = ""
    """Its name, as the agent is told."""
    room = ""
    """The room in which its messages are written, where it is not private."""
    situation = "dm"

    def open_stage(self, folder, stand_in):
        """Open the gateway of a workspace in a folder, with the channel in it."""
        raise NotImplementedError

    def play(self, folder, stand_in, *acts):
        """Run each act with a newly opened gateway; return the results."""

        async def act(one):
            async with asyncio.timeout(SOON), self.open_stage(str(folder), stand_in) as stage:
                return await one(stage)

        return [asyncio.run(act(one)) for one in acts]

    def test_turn_at_its_place(self, tmp_path, stand_in):
        """A message becomes a turn with its channel, room and situation, and the prompt names them."""
        stand_in.choose = lambda _: ScriptedReply(text="Yes.")

        async def act(stage):
            assert await stage.write("Is the door open?", "1")
            return await stage.read(1)

        assert self.play(tmp_path, stand_in, act) == [["Yes."]]
        shown = str(stand_in.body)
        assert "Is the door open?" in shown
        assert f"Channel: {self.channel}." in shown
        for situation in ("group", "system"):
            rule = read_builtin(f"situations/{situation}").splitlines()[0]
            assert (rule in shown) == (situation == self.situation)
        with open_rows(tmp_path) as state:
            rows = state.execute("SELECT channel, room, situation FROM sessions").fetchall()
        assert rows == [(self.channel, self.room, self.situation)]

    def test_guidance(self, tmp_path, stand_in):
        """The prompt contains the guidance of the channel's family."""
        stand_in.choose = lambda _: ScriptedReply(text="Yes.")

        async def act(stage):
            await stage.write("Is the door open?", "1")
            await stage.read(1)

        self.play(tmp_path, stand_in, act)
        guidance = read_builtin(f"channels/{self.channel.partition(':')[0]}")
        assert guidance
        assert guidance.splitlines()[0] in str(stand_in.body)

    def test_heard_twice(self, tmp_path, stand_in):
        """A redelivered message is one turn, also after a restart."""
        stand_in.follow(ScriptedReply(text="First."), ScriptedReply(text="Second."))

        async def first(stage):
            assert await stage.write("Is the door open?", "1")
            assert await stage.write("Is the door open?", "1")
            return await stage.read(1)

        async def second(stage):
            await stage.write("Is the door open?", "1")
            assert await stage.write("And the window?", "2")
            return await stage.read(2)

        assert self.play(tmp_path, stand_in, first, second) == [["First."], ["First.", "Second."]]
        assert len(stand_in.requests) == 2

    def test_stranger(self, tmp_path, stand_in):
        """An unknown user has public trust or is refused."""
        stand_in.choose = lambda _: ScriptedReply(text="Good day.")

        async def act(stage):
            taken = await stage.write("What is the door code?", "1", who="stranger")
            return await stage.read(1, who="stranger") if taken else []

        (replies,) = self.play(tmp_path, stand_in, act)
        assert len(stand_in.requests) == len(replies)
        for request in stand_in.requests:
            assert FULL not in str(request.body)
            assert FAMILIAR not in str(request.body)

    def test_own_clearance(self, tmp_path, stand_in):
        """A known user sees the sections that their trust and the situation allow."""
        stand_in.choose = lambda _: ScriptedReply(text="Yes.")

        async def act(stage):
            await stage.write("Is the door open?", "1")
            await stage.read(1)

        self.play(tmp_path, stand_in, act)
        assert FAMILIAR in str(stand_in.body)
        assert (FULL in str(stand_in.body)) == (self.situation != "group")

    def test_arrives_once(self, tmp_path, stand_in):
        """A reply is delivered once, also after a restart."""
        stand_in.choose = lambda _: ScriptedReply(text="Yes.")

        async def first(stage):
            await stage.write("Is the door open?", "1")
            await stage.read(1)
            await asyncio.sleep(MOMENT)
            return await stage.read(1)

        async def second(stage):
            await asyncio.sleep(MOMENT)
            return await stage.read(1)

        assert self.play(tmp_path, stand_in, first, second) == [["Yes."], ["Yes."]]

    def test_nobody_listens(self, tmp_path, stand_in):
        """A reply that is ready while no client is connected is not lost."""
        stand_in.choose = lambda _: ScriptedReply(text="Yes.")

        async def leave(stage):
            assert await stage.write("Is the door open?", "1")

        async def come_back(stage):
            return await stage.read(1)

        assert self.play(tmp_path, stand_in, leave, come_back) == [None, ["Yes."]]
        assert len(stand_in.requests) == 1

    def test_kept_before_acknowledged(self, tmp_path, stand_in):
        """A message is not acknowledged before it is stored."""
        stand_in.choose = lambda _: ScriptedReply(text="Yes.")

        async def act(stage):
            with closing(sqlite3.connect(tmp_path / ".foreword" / "state.sqlite", isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                writing = asyncio.ensure_future(stage.write("Is the door open?", "1"))
                await asyncio.sleep(MOMENT)
                early = writing.done() and writing.result()
                other.execute("ROLLBACK")
            if not await writing:
                assert await stage.write("Is the door open?", "1")
            return early, await stage.read(1)

        assert self.play(tmp_path, stand_in, act) == [(False, ["Yes."])]
        assert len(stand_in.requests) == 1
