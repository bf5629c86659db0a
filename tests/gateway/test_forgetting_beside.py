"""Claims about forgetting a person while a gateway runs."""

import asyncio

from house import open_house, say, until

from foreword.erasure.forgetting import forget
from foreword.erasure.house import find_house
from foreword.gateway.message import Incoming, State
from foreword.testing import Hangs, Says


def has(folder, token):
    """Whether a token lies in any file of the state, as bytes."""
    return any(token.encode() in path.read_bytes() for path in (folder / ".foreword").iterdir())


def test_the_gateway_goes_on(tmp_path, stand_in):
    """A running gateway loses what it had of one person, and answers the others as before."""
    stand_in.choose = lambda _: Says(text="Yes.")

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            await say(gateway, "I keep zebrabob under the stone", user="bob")
            await say(gateway, "I keep zebraalice under the stone", user="alice")
            report = await asyncio.to_thread(forget, find_house(gateway.workspace), "bob")
            after = await say(gateway, "Are you there?", user="alice")
            anew = await say(gateway, "And for me?", user="bob")
            return report, after, anew

    report, after, anew = asyncio.run(run())
    assert report.done
    assert (after.state, anew.state) == (State.ANSWERED, State.ANSWERED)
    assert "zebraalice" in str(stand_in.requests[-2].body)
    assert "zebrabob" not in str(stand_in.requests[-1].body)
    assert not has(tmp_path, "zebrabob")
    assert has(tmp_path, "zebraalice")


def test_a_turn_under_way_is_stopped(tmp_path, stand_in):
    """A turn of theirs that hangs is stopped by the gateway, and goes with the rest."""
    stand_in.choose = lambda _: Hangs()

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            accepted = await gateway.accept(Incoming(text="I keep zebrabob under the stone", user="bob"))
            await until(lambda: stand_in.requests)
            report = await asyncio.to_thread(forget, find_house(gateway.workspace), "bob")
            return report, await gateway.find(accepted.turn)

    report, reply = asyncio.run(run())
    assert report.done
    assert reply is None
    assert not has(tmp_path, "zebrabob")
