"""Usage of a turn is reported however it ends, and a user with lowered trust sees nothing more."""

import asyncio

from house import CONFIG, open_house

import foreword
from foreword.gateway.messages import RoutedMessage
from foreword.storage.turns import TurnState
from foreword.testing import ScriptedCall, ScriptedReply

CALLS = ScriptedReply(calls=(ScriptedCall(name="wait", arguments={}),))


class Waits:
    """A tool that signals its start and waits."""

    def __init__(self):
        self.began, self.may = asyncio.Event(), asyncio.Event()
        self.count = 0

    def offer(self):
        """Offer the tool to the agents."""

        @foreword.tool(trust="public")
        async def wait() -> str:
            self.count += 1
            self.began.set()
            await self.may.wait()
            return "done"

        return (wait,)


def test_stopped(tmp_path, stand_in):
    """A turn that is stopped after a paid call reports its cost."""
    stand_in.follow(CALLS, ScriptedReply(text="never said"))

    async def run():
        tool = Waits()
        async with open_house(tmp_path, stand_in, tools=tool.offer()) as gateway:
            accepted = await gateway.accept(RoutedMessage(text="go", user="alice"))
            await tool.began.wait()
            await gateway.stop(accepted.turn)
            return await gateway.wait(accepted.turn)

    reply = asyncio.run(run())
    assert reply.state is TurnState.STOPPED
    assert reply.usage.tokens_in == stand_in.requests[0].counted.total
    assert reply.cost_usd > 0


def test_demoted_between_tools(tmp_path, stand_in):
    """If the user loses trust while a tool runs, no further tool runs, and the reply says why."""
    stand_in.follow(ScriptedReply(calls=(*CALLS.calls, *CALLS.calls)), ScriptedReply(text="never said"))

    async def run():
        tool = Waits()
        async with open_house(tmp_path, stand_in, tools=tool.offer()) as gateway:
            accepted = await gateway.accept(RoutedMessage(text="go", user="bob"))
            await tool.began.wait()
            (tmp_path / "foreword.yaml").write_text(CONFIG.replace("bob: {trust: familiar}", "eve: {trust: inner}"))
            gateway.workspace.refresh(now=True)
            tool.may.set()
            return tool.count, await gateway.wait(accepted.turn)

    count, reply = asyncio.run(run())
    assert reply.state is TurnState.FAILED
    assert "has changed since you wrote" in reply.text
    assert count == 1
    assert len(stand_in.requests) == 1
