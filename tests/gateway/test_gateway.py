"""A message goes in, a reply comes out, and nothing is lost on the way."""

import asyncio

import pytest
from house import end, open_house, say

from foreword.gateway.message import Incoming, State
from foreword.gateway.working import Patience
from foreword.runtime.ears import Words
from foreword.testing import NOON, MovedClock, Refuses, Says

BUSY = Refuses(status=429, message="too many requests")


def test_a_conversation(tmp_path, stand_in):
    """The second turn of a session follows the first, in the same session."""
    stand_in.follow(Says(text="One."), Says(text="Two."))

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            return await say(gateway, "first"), await say(gateway, "second")

    one, two = asyncio.run(run())
    assert (one.state, one.text, two.text) == (State.ANSWERED, "One.", "Two.")
    assert one.session == two.session
    assert one.turn != two.turn
    roles = [message["role"] for message in stand_in.body["messages"]]
    assert roles == ["user", "assistant", "user"]


def test_hearing(tmp_path, stand_in):
    """Whoever listens hears the words as they come."""
    stand_in.follow(Says(text="Good morning."))

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            accepted = await gateway.accept(Incoming(text="hello", user="alice"))
            heard = [delta async for delta in gateway.hear(accepted.turn)]
            return heard, await gateway.wait(accepted.turn)

    heard, reply = asyncio.run(run())
    assert "".join(delta.text for delta in heard if isinstance(delta, Words)) == reply.text == "Good morning."


def test_queued_and_delivered(tmp_path, stand_in):
    """A turn that the provider refuses four times is queued, and answered later without being asked again."""
    stand_in.follow(*[BUSY] * 4, Says(text="Late, but here."))

    async def run():
        clock = MovedClock(NOON)
        async with open_house(tmp_path, stand_in, clock=clock, patience=Patience()) as gateway:
            accepted = await gateway.accept(Incoming(text="hello", user="alice"))
            first = await gateway.wait(accepted.turn)
            clock.move(60)
            return first, await end(gateway, accepted.turn)

    first, reply = asyncio.run(run())
    assert first.state is State.QUEUED
    assert (reply.state, reply.text) == (State.ANSWERED, "Late, but here.")


@pytest.mark.parametrize("text", ["", "  \n", "a\x00b", "x" * 1_000_001])
def test_no_message(tmp_path, stand_in, text):
    """What cannot be a message is refused, in words that say why."""

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            with pytest.raises(Exception, match="the message"):
                await gateway.accept(Incoming(text=text, user="alice"))

    asyncio.run(run())
