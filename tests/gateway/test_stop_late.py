"""Stopping a turn that has ended while its result cannot be written."""

import asyncio
import os
import sqlite3
import threading
from contextlib import closing
from datetime import UTC, datetime

from house import open_house, say, until

from foreword.gateway.messages import RoutedMessage
from foreword.storage.turns import TurnState
from foreword.testing import ScriptedReply

SECOND = 2  # requests, once the second message is answered


class Grip:
    """A clock that locks the state once the provider has answered and the turn is not yet finished."""

    def __init__(self, path, provider):
        self._state = sqlite3.connect(path, isolation_level=None)
        self._provider = provider
        self.held = asyncio.Event()

    def __call__(self):
        """Return the time."""
        mine = threading.current_thread() is threading.main_thread()
        if mine and len(self._provider.requests) == SECOND and not self.held.is_set():
            self._state.execute("BEGIN IMMEDIATE")
            self.held.set()
        return datetime.now(UTC)

    def close(self):
        """Release the state."""
        self._state.close()


def test_too_late(tmp_path, stand_in):
    """The reply is written once the state is free, no call is repeated, and the session continues."""
    stand_in.follow(ScriptedReply(text="One."), ScriptedReply(text="Two."), ScriptedReply(text="Three."))

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            await say(gateway, "first")
        with closing(Grip(os.path.join(tmp_path, ".foreword", "state.sqlite"), stand_in)) as grip:
            async with open_house(tmp_path, stand_in, clock=grip) as gateway:
                await gateway.writer.write(lambda state: state.execute("PRAGMA busy_timeout=30").fetchall())
                accepted = await gateway.accept(RoutedMessage(text="second", user="alice"))
                await until(lambda: gateway._known[accepted.turn].unstored)  # the result could not be written
                stopping = asyncio.create_task(gateway.stop(accepted.turn))
                await asyncio.sleep(0)  # let stop() begin
                grip.close()
                stopped = await stopping
                return stopped, await gateway.wait(accepted.turn), await say(gateway, "third")

    stopped, second, third = asyncio.run(run())
    assert not stopped
    assert (second.state, second.text) == (TurnState.ANSWERED, "Two.")
    assert (third.state, third.text) == (TurnState.ANSWERED, "Three.")
    assert len(stand_in.requests) == 3
