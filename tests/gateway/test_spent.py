"""What a turn has used is said however it ends, and nobody who may see less now is shown more."""

import asyncio

from house import CONFIG, open_house

from foreword.gateway.message import Incoming, State
from foreword.runtime.toolbox import Further
from foreword.testing import Called, Says
from foreword.tools import Answer
from foreword.turn import Tool, Toolset
from foreword.words import Trust

CALLS = Says(calls=(Called(name="wait", arguments={}),))
WAIT = Toolset([Tool(name="wait", trust=Trust.PUBLIC)])


class Waits:
    """A tool that says when it runs, and goes on when it may."""

    def __init__(self):
        self.began, self.may = asyncio.Event(), asyncio.Event()
        self.count = 0

    async def call(self, _assembly, _name, _arguments):
        """Wait."""
        self.count += 1
        self.began.set()
        await self.may.wait()
        return Answer(text="done", tokens=1)


def test_stopped(tmp_path, stand_in):
    """A turn that is stopped after a call was paid for says what it cost."""
    stand_in.follow(CALLS, Says(text="never said"))

    async def run():
        tool = Waits()
        further = (Further(tools=WAIT, runs=tool),)
        async with open_house(tmp_path, stand_in, further=further) as gateway:
            accepted = await gateway.accept(Incoming(text="go", user="alice"))
            await tool.began.wait()
            await gateway.stop(accepted.turn)
            return await gateway.wait(accepted.turn)

    reply = asyncio.run(run())
    assert reply.state is State.STOPPED
    assert reply.usage.tokens_in == stand_in.requests[0].counted.total
    assert reply.cost_usd > 0


def test_demoted_between_tools(tmp_path, stand_in):
    """Who loses trust while a tool runs has no further one run for them, and is told why."""
    stand_in.follow(Says(calls=(*CALLS.calls, *CALLS.calls)), Says(text="never said"))

    async def run():
        tool = Waits()
        further = (Further(tools=WAIT, runs=tool),)
        async with open_house(tmp_path, stand_in, further=further) as gateway:
            accepted = await gateway.accept(Incoming(text="go", user="bob"))
            await tool.began.wait()
            (tmp_path / "foreword.yaml").write_text(CONFIG.replace("bob: {trust: familiar}", "eve: {trust: inner}"))
            gateway.workspace.refresh(now=True)
            tool.may.set()
            return tool.count, await gateway.wait(accepted.turn)

    count, reply = asyncio.run(run())
    assert reply.state is State.FAILED
    assert "has changed since you wrote" in reply.text
    assert count == 1
    assert len(stand_in.requests) == 1
