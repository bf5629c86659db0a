"""Erasure of a person while a gateway runs."""

import asyncio

from house import open_house, say, until

from foreword.gateway.messages import RoutedMessage
from foreword.privacy.erasure import erase_person
from foreword.storage.turns import TurnState
from foreword.testing import ScriptedHang, ScriptedReply


def has(folder, token):
    """Return whether any file of the state contains a token."""
    return any(token.encode() in path.read_bytes() for path in (folder / ".foreword").iterdir())


def test_the_gateway_goes_on(tmp_path, stand_in):
    """A running gateway drops its data of the person and answers others as before."""
    stand_in.choose = lambda _: ScriptedReply(text="Yes.")

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            await say(gateway, "I keep zebrabob under the stone", user="bob")
            await say(gateway, "I keep zebraalice under the stone", user="alice")
            report = await asyncio.to_thread(erase_person, gateway.workspace, "bob")
            after = await say(gateway, "Are you there?", user="alice")
            second = await say(gateway, "And for me?", user="bob")
            return report, after, second

    report, after, second = asyncio.run(run())
    assert report.done
    assert (after.state, second.state) == (TurnState.ANSWERED, TurnState.ANSWERED)
    assert "zebraalice" in str(stand_in.requests[-2].body)
    assert "zebrabob" not in str(stand_in.requests[-1].body)
    assert not has(tmp_path, "zebrabob")
    assert has(tmp_path, "zebraalice")


def test_a_turn_under_way_is_stopped(tmp_path, stand_in):
    """The gateway stops a hanging turn of the person, and it is deleted with the rest."""
    stand_in.choose = lambda _: ScriptedHang()

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            accepted = await gateway.accept(RoutedMessage(text="I keep zebrabob under the stone", user="bob"))
            await until(lambda: stand_in.requests)
            report = await asyncio.to_thread(erase_person, gateway.workspace, "bob")
            return report, await gateway.find(accepted.turn)

    report, reply = asyncio.run(run())
    assert report.done
    assert reply is None
    assert not has(tmp_path, "zebrabob")
