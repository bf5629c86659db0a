"""Stopping a turn that has come to its end, while the disk does not take that end."""

import asyncio
import os
import sqlite3
import threading
from contextlib import closing
from datetime import UTC, datetime

from house import open_house, say, until

from foreword.gateway.message import Incoming, State
from foreword.runtime.ears import Words
from foreword.testing import Says


class Grip:
    """A clock that holds the state for itself from the moment at which an answer is said and its turn not ended."""

    def __init__(self, path):
        self._state = sqlite3.connect(path, isolation_level=None)
        self.said = False
        self.held = asyncio.Event()

    def __call__(self):
        """Tell the time."""
        mine = threading.current_thread() is threading.main_thread()
        if mine and self.said and not self.held.is_set():
            self._state.execute("BEGIN IMMEDIATE")
            self.held.set()
        return datetime.now(UTC)

    def close(self):
        """Let go of the state."""
        self._state.close()


def test_too_late(tmp_path, stand_in):
    """Its answer is written once the disk takes it, nothing is asked anew, and the session goes on."""
    stand_in.follow(Says(text="One."), Says(text="Two."), Says(text="Three."))

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            await say(gateway, "first")
        with closing(Grip(os.path.join(tmp_path, ".foreword", "state.sqlite"))) as grip:
            async with open_house(tmp_path, stand_in, clock=grip) as gateway:
                await gateway._writer.do(lambda state: state.execute("PRAGMA busy_timeout=30").fetchall())
                accepted = await gateway.accept(Incoming(text="second", user="alice"))
                async for delta in gateway.hear(accepted.turn):
                    grip.said = grip.said or isinstance(delta, Words)
                    if grip.said:
                        break
                await until(lambda: accepted.turn in gateway._aside)  # its end was not taken
                stopping = asyncio.create_task(gateway.stop(accepted.turn))
                await asyncio.sleep(0)  # in which stopping begins
                grip.close()
                stopped = await stopping
                return stopped, await gateway.wait(accepted.turn), await say(gateway, "third")

    stopped, second, third = asyncio.run(run())
    assert not stopped
    assert (second.state, second.text) == (State.ANSWERED, "Two.")
    assert (third.state, third.text) == (State.ANSWERED, "Three.")
    assert len(stand_in.requests) == 3
