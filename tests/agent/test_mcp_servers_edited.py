"""MCP servers that are added, removed and edited while in use."""

import asyncio
import os

import pytest
from conversation import call_tool
from test_mcp_servers import Place, configure, is_running

from foreword.agent.mcp_servers import McpServers
from foreword.errors import UnknownName
from foreword.events.event import Level
from waiting import until

SMALL = ((), {"name": "small", "trust": "familiar", "confirm": "never"})
OTHER = (("speaks",), {"name": "other"})
BROKEN = ["no-such-program-anywhere"]


class Owner:
    """The owner, who gets the notifications."""

    def __init__(self):
        self.heard = []

    def notify(self, notice):
        """Take a notice."""
        self.heard.append(notice.text)


class House(Place):
    """A workspace with servers that is edited."""

    def __init__(self, folder, config):
        super().__init__(folder, config)
        self.owner = Owner()
        self.servers = McpServers(self.ws, self.heard, dict(os.environ), notices=self.owner)

    def edit(self, *servers):
        """Edit the servers, and have it followed."""
        before = self.ws.config
        (self.folder / "foreword.yaml").write_text(configure(*servers))
        self.ws.refresh(now=True)
        assert self.servers.follow(before, self.ws.config) == ()

    async def settle(self):
        """Wait until an edit has been followed."""
        await asyncio.gather(*self.servers._tasks)

    async def list_names(self):
        """List the tools, by the servers that have them."""
        return {tool.name.partition("_")[0] for tool in (await self.servers.list("reid"))[0]}


def play(folder, *servers):
    """Run a test in a workspace whose servers are edited."""

    def start(test):
        async def go():
            house = House(folder, configure(*servers))
            async with house.servers:
                await test(house)
            return house

        return asyncio.run(go())

    return start


def test_one_more(tmp_path):
    """An added server starts without a turn, and the others stay."""

    @play(tmp_path, SMALL)
    async def _(house):
        before = await house.find_process()
        house.edit(SMALL, OTHER)
        await house.settle()
        assert [used.listing is not None for used in house.servers._used.values()] == [True, True]
        assert await house.list_names() == {"small", "other"}
        assert await house.find_process() == before


def test_one_less(tmp_path):
    """A removed server stops without a turn, after its last call has ended."""

    @play(tmp_path, SMALL, ((), {"name": "slow", "seconds": 20}))
    async def _(house):
        assembly = await house.assemble()
        pid = int(await house.call("slow_do", what="pid"))
        with house.servers._routes["reid", "slow_do"].used.hold():
            house.edit(SMALL)
            await asyncio.sleep(0.05)
            assert is_running(pid)
            assert await house.list_names() == {"small"}
            with pytest.raises(UnknownName):
                await call_tool(house.ws, assembly, "slow_do", {"what": "pid"})
        await house.settle()
        assert not is_running(pid)


def test_an_answer_on_its_way(tmp_path):
    """A call that is running when its server is removed gets its answer."""

    @play(tmp_path, SMALL)
    async def _(house):
        assembly = await house.assemble()
        call = asyncio.create_task(call_tool(house.ws, assembly, "small_do", {"what": "nap"}))
        await until(lambda: not house.servers._routes["reid", "small_do"].used.idle.is_set())
        house.edit()
        assert (await call).text == "Did nap."
        await house.settle()
        assert not house.servers._used


def test_one_that_does_not_start(tmp_path):
    """If an edited server does not start, its predecessor stays with stricter settings, and the owner is notified."""

    @play(tmp_path, SMALL)
    async def house(house):
        pid = await house.find_process()
        house.edit(((), {"name": "small", "command": BROKEN, "trust": "inner"}))
        await house.settle()
        assert await house.find_process() == pid
        tools, _ = await house.servers.list("reid")
        assert {(str(tool.trust), tool.confirm) for tool in tools} == {("inner", True)}
        assert "small_do" not in (await house.assemble("bob")).tools
        house.edit(((), {"name": "small", "seconds": 30}))
        await house.settle()
        assert await house.find_process() != pid
        assert not is_running(pid)

    (shown,) = house.owner.heard
    assert shown.startswith("the MCP server 'small' of foreword.yaml does not start: it is not running; the previous")
    assert [event.level for event in house.heard.events] == [Level.ERROR]


def test_other_terms(tmp_path):
    """Changed settings of an unchanged server are in the next prompt, and its process stays."""

    @play(tmp_path, SMALL)
    async def _(house):
        pid = await house.find_process()
        house.edit(((), {"name": "small", "trust": "full", "tools": ["do"]}))
        (tool,), _ = await house.servers.list("reid")
        assert (tool.name, str(tool.trust)) == ("small_do", "full")
        assert await house.find_process() == pid


def test_ending_in_the_middle(tmp_path):
    """At exit during an edit no server process is left."""

    @play(tmp_path, SMALL)
    async def house(house):
        house.pid = await house.find_process()
        call = asyncio.create_task(call_tool(house.ws, await house.assemble(), "small_do", {"what": "hang"}))
        await until(lambda: not house.servers._routes["reid", "small_do"].used.idle.is_set())
        house.edit((("silent",), {"name": "late"}))
        await asyncio.sleep(0.1)
        call.cancel()

    assert not is_running(house.pid)
