"""The gateway accepts a message, returns a reply, and loses nothing."""

import asyncio

import pytest
from house import end, open_house, say

from foreword.agent.agent_events import TextDelta
from foreword.gateway.messages import RoutedMessage
from foreword.gateway.worker import WorkerRetryPolicy
from foreword.storage.turns import TurnState
from foreword.testing import NOON, ManualClock, ScriptedError, ScriptedReply

BUSY = ScriptedError(status=429, message="too many requests")


def test_a_conversation(tmp_path, stand_in):
    """The second turn of a session follows the first."""
    stand_in.follow(ScriptedReply(text="One."), ScriptedReply(text="Two."))

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            return await say(gateway, "first"), await say(gateway, "second")

    one, two = asyncio.run(run())
    assert (one.state, one.text, two.text) == (TurnState.ANSWERED, "One.", "Two.")
    assert one.session == two.session
    assert one.turn != two.turn
    roles = [message["role"] for message in stand_in.body["messages"]]
    assert roles == ["user", "assistant", "user"]


def test_hearing(tmp_path, stand_in):
    """A listener gets the text of a turn in deltas."""
    stand_in.follow(ScriptedReply(text="Good morning."))

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            accepted = await gateway.accept(RoutedMessage(text="hello", user="alice"))
            heard = [delta async for delta in gateway.hear(accepted.turn)]
            return heard, await gateway.wait(accepted.turn)

    heard, reply = asyncio.run(run())
    assert "".join(delta.text for delta in heard if isinstance(delta, TextDelta)) == reply.text == "Good morning."


def test_queued_and_delivered(tmp_path, stand_in):
    """A turn that the provider refuses four times is queued and answered later without another request."""
    stand_in.follow(*[BUSY] * 4, ScriptedReply(text="Late, but here."))

    async def run():
        clock = ManualClock(NOON)
        async with open_house(tmp_path, stand_in, clock=clock, turn_retry=WorkerRetryPolicy()) as gateway:
            accepted = await gateway.accept(RoutedMessage(text="hello", user="alice"))
            first = await gateway.wait(accepted.turn)
            clock.move(60)
            return first, await end(gateway, accepted.turn)

    first, reply = asyncio.run(run())
    assert first.state is TurnState.QUEUED
    assert (reply.state, reply.text) == (TurnState.ANSWERED, "Late, but here.")


@pytest.mark.parametrize("text", ["", "  \n", "a\x00b", "x" * 1_000_001])
def test_no_message(tmp_path, stand_in, text):
    """An invalid message is refused with a reason."""

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            with pytest.raises(Exception, match="the message"):
                await gateway.accept(RoutedMessage(text=text, user="alice"))

    asyncio.run(run())
