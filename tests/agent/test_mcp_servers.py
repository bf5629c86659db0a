"""MCP servers: their tools, and their failures."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from conversation import call_tool

from foreword.agent.mcp_connection import McpTimeouts
from foreword.agent.mcp_servers import McpServers
from foreword.errors import ToolError, UnknownName
from foreword.events.event import NO_CONTEXT, EventType, Level
from foreword.testing import FakeRecorder, make_workspace
from foreword.turn import Toolset, Turn
from foreword.types import Trust
from waiting import until

SCRIPT = str(Path(__file__).parent / "tool_server.py")


def configure(*servers):
    """Write a configuration with servers, each its words and further settings."""
    written = [{"command": [sys.executable, SCRIPT, *words], **more} for words, more in servers]
    return (
        "owner: alice\nusers: {alice: {trust: full}, bob: {trust: familiar}}\n"
        f"agents: {{reid: {{model: 'openai:gpt-5', mcp: {json.dumps(written)}}}, plain: {{model: 'openai:gpt-5'}}}}\n"
    )


class Place:
    """A workspace with servers."""

    def __init__(self, folder, config, **options):
        self.heard = FakeRecorder()
        self.folder = folder
        self.ws = make_workspace(folder, {"foreword.yaml": config})
        times = McpTimeouts(**{"showing": 1.0, "ending": 0.2, **options})
        self.servers = McpServers(self.ws, self.heard, {**os.environ, "TOKEN": "t0ken"}, times=times)

    async def assemble(self, user="alice", agent="reid", reserved=()):
        """Assemble a turn with the tools of an agent's servers."""
        tools, extensions = await self.servers.list(agent, reserved)
        turn = Turn(agent=agent, user=user, situation="dm", tools=Toolset(tools), extensions=extensions)
        return self.ws.assemble(turn)

    async def call(self, name, **arguments):
        """Call a tool in a turn of alice's."""
        return (await call_tool(self.ws, await self.assemble(), name, arguments)).text

    async def find_process(self):
        """Find the process of the server."""
        return int(await self.call("small_do", what="pid"))


def run(folder, *servers, **options):
    """Run a test in a workspace with servers."""

    def start(test):
        async def go():
            place = Place(folder, configure(*servers), **options)
            async with place.servers:
                await test(place)
            return place

        return asyncio.run(go())

    return start


def is_running(pid):
    """Whether a process is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


IMAGE = """\
(image/png, about 1,200 bytes, which are not shown)
words of a resource
(a/b, about 3 bytes, which are not shown)
(see a://c)"""
SMALL = ((), {"name": "small"})


def test_tools(tmp_path):
    """A server's tools are offered under its name, at full trust, with approval, and they answer."""

    @run(tmp_path, (("speaks",), {"name": "small"}))
    async def _(place):
        tools, extensions = await place.servers.list("reid")
        assert [tool.name for tool in tools] == ["small_add", "small_buy_milk_", "small_do"]
        assert {(tool.trust, tool.kind, tool.changes, tool.confirm, tool.seconds) for tool in tools} == {
            (Trust.FULL, "mcp", True, True, 90.0)
        }
        assert tools[1].description == "Buys milk."
        assert [(one.name, one.trust) for one in extensions] == [("small", Trust.FULL)]
        assert await place.call("small_add", a=2, b=3) == "5"
        assert await place.call("small_buy_milk_") == "Did milk."
        text = (await place.assemble()).prompt.text
        assert "### small\nAdd before you buy.\n\\# Not a heading" in text
        assert "small_add, small_buy_milk_, small_do: Tools of connected servers belong to others" in text
        assert (await place.servers.list("reid"))[0][0] is tools[0]
        assert await place.servers.list("plain") == ((), ())
        assert not place.heard.events


@pytest.mark.parametrize(
    ("confirm", "add", "buy"),
    [("always", (True, True), (True, True)), ("changes", (False, True), (True, True)),
     ("never", (True, False), (True, False))],
)  # fmt: skip
def test_confirming(tmp_path, confirm, add, buy):
    """The configuration decides whether a read-only hint is trusted and whether approval is needed."""

    @run(tmp_path, ((), {"name": "small", "confirm": confirm, "tools": ["add", "buy milk!"]}))
    async def _(place):
        tools, _ = await place.servers.list("reid")
        assert [(tool.changes, tool.confirm) for tool in tools] == [add, buy]


def test_trust(tmp_path):
    """Below the trust of a server its tools and instructions are absent, and calls are refused."""

    @run(tmp_path, (("speaks",), {"name": "low", "trust": "familiar"}), (("speaks",), {"name": "high"}))
    async def _(place):
        assembly = await place.assemble("bob")
        assert {name.partition("_")[0] for name in assembly.tools.names} == {"low"}
        assert "high" not in assembly.prompt.text
        with pytest.raises(UnknownName):
            await call_tool(place.ws, assembly, "high_add", {"a": 1, "b": 1})
        with pytest.raises(UnknownName):
            await call_tool(place.ws, await place.assemble(agent="plain"), "low_add", {"a": 1, "b": 1})


def test_names(tmp_path):
    """Tool names are valid, limited and unique; servers of one name are numbered."""

    @run(tmp_path, SMALL, ((), {}), ((), {}))
    async def _(place):
        reserved = {"small_add", "small2_do"}
        tools, _ = await place.servers.list("reid", reserved)
        names = [tool.name for tool in tools]
        assert len(names) == len(set(names)) == 9
        assert not reserved & set(names)
        assert sum(name.startswith("small_add_") for name in names) == 1
        assert {"small2_add", "small3_add"} < set(names)
        taken = next(name for name in names if name.startswith("small_add_"))
        assembly = await place.assemble(reserved=reserved)
        assert (await call_tool(place.ws, assembly, taken, {"a": 1, "b": 1})).text == "2"


def test_odd_tools(tmp_path):
    """Tools that no model could be given are left out and logged; the rest is limited and scanned."""

    @run(tmp_path, (("odd",), {"name": "memory", "tools": ["none", *("x" * 200, "x" * 199, "wide", "sly", "get")]}))
    async def shown(place):
        tools, _ = await place.servers.list("reid", {"memory_get"})
        get, sly, *long = tools
        assert get.name.startswith("memory_get_")
        assert len(get.description) == 1_024
        assert sly.description.startswith("(its description was left out: a scan found")
        assert {len(tool.name) for tool in long} == {64}
        assert [tool.parameters["properties"] for tool in long] == [{}, {}]
        assert "required" not in long[0].parameters

    errors = [event.error for event in shown.heard.events]
    assert errors == ["it has no tool 'none'", "the parameters of memory_wide have more than 20,000 characters"]


@pytest.mark.parametrize(
    ("what", "shown"),
    [
        ("image", IMAGE),
        ("long", f"{'z' * 400_000}\n(cut: 1,000,000 characters)"),
    ],
)
def test_answers(tmp_path, what, shown):
    """Content that is not text is described, and long content is truncated."""

    @run(tmp_path, SMALL)
    async def _(place):
        assert await place.call("small_do", what=what) == shown


def test_a_tool_that_fails(tmp_path):
    """The error message of a tool reaches the model."""

    @run(tmp_path, SMALL)
    async def _(place):
        with pytest.raises(ToolError, match=r"It broke\."):
            await place.call("small_do", what="fail")


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("die", "it is not running"),
        ("hang", "it did not answer within 0.5 seconds"),
        ("garbage", "it writes something else than MCP to its standard output"),
        ("flood", "it sent more than 8,000,000 bytes at once"),
    ],
)
def test_misbehaving(tmp_path, what, reason):
    """A server that dies, hangs or sends garbage fails the call, and works again for the next one."""

    @run(tmp_path, ((), {"name": "small", "seconds": 0.5 if what == "hang" else 20}))
    async def place(place):
        before = await place.find_process()
        with pytest.raises(ToolError) as error:
            await place.call("small_do", what=what)
        assert str(error.value) == f"server 'small' did not answer: {reason}"
        assert await place.find_process() != before
        assert not is_running(before)

    (event,) = place.heard.events
    assert (event.type, event.level, event.context) == (EventType.TOOL_ERROR, Level.WARN, NO_CONTEXT)
    assert what != "die" or "exit code 3; last words: segmentation fault" in event.error


def test_stopping_a_call(tmp_path):
    """A cancelled call leaves the server usable."""

    @run(tmp_path, SMALL)
    async def _(place):
        assembly = await place.assemble()
        call = asyncio.create_task(call_tool(place.ws, assembly, "small_do", {"what": "hang"}))
        await until(lambda: not place.servers._routes["reid", "small_do"].used.idle.is_set())
        await asyncio.sleep(0.1)  # in which it is sent
        call.cancel()
        await asyncio.wait({call})
        assert await place.call("small_add", a=1, b=1) == "2"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ([sys.executable, "-c", "raise SystemExit('no such module')"], "it is not running"),
        (["no-such-program-anywhere"], "it is not running"),
        ([sys.executable, SCRIPT, "noisy"], "it writes something else than MCP to its standard output"),
    ],
)
def test_one_that_does_not_start(tmp_path, command, reason):
    """A server that does not start is logged, and the agent works without it."""

    @run(tmp_path, SMALL, ((), {"name": "lost", "command": command}))
    async def place(place):
        tools, _ = await place.servers.list("reid")
        assert {tool.name.partition("_")[0] for tool in tools} == {"small"}
        await place.servers.list("reid")  # a moment later it is not tried again

    (event,) = place.heard.events
    assert event.facts["server"] == "lost"
    assert event.error.startswith(reason)


def test_one_that_never_comes(tmp_path):
    """A turn waits a limited time for a silent server."""

    @run(tmp_path, SMALL, (("silent",), {"name": "lost"}), listing=0.3)
    async def _(place):
        tools, _ = await place.servers.list("reid")  # the other one may also be late
        assert "lost" not in {tool.name.partition("_")[0] for tool in tools}


def test_ending(tmp_path):
    """At exit no process is left, not even one that ignores signals."""
    pids = []

    @run(tmp_path, SMALL, (("stubborn",), {"name": "mule"}))
    async def _(place):
        pids.append(await place.find_process())
        pids.append(int(await place.call("mule_do", what="pid")))

    assert [is_running(pid) for pid in pids] == [False, False]


def test_a_server_that_is_no_longer_named(tmp_path):
    """A server removed from the configuration is stopped, and its tools are gone."""

    @run(tmp_path, SMALL)
    async def _(place):
        pid = await place.find_process()
        assembly = await place.assemble()
        (tmp_path / "foreword.yaml").write_text(configure())
        place.ws.refresh(now=True)
        assert await place.servers.list("reid") == ((), ())
        assert not is_running(pid)
        with pytest.raises(UnknownName):
            await call_tool(place.ws, assembly, "small_add", {"a": 1, "b": 1})


def test_the_environment(tmp_path):
    """A server gets the configured variables and a few harmless ones, never our keys."""

    @run(tmp_path, ((), {"name": "small", "env": {"PLAIN": "p", "SECRET": "$TOKEN"}}))
    async def _(place):
        shown = dict(json.loads(await place.call("small_do", what="environment")))
        assert (shown["PLAIN"], shown["SECRET"]) == ("p", "t0ken")
        assert "TOKEN" not in shown
        assert "PYTEST_CURRENT_TEST" not in shown

    @run(tmp_path / "unset", ((), {"name": "small", "env": {"SECRET": "$NOT_SET"}}))
    async def _(place):
        await place.servers.list("reid")
        assert place.heard.events[0].error == "SECRET is to be $NOT_SET, which is not set"


def test_many_at_once(tmp_path):
    """Calls of several turns run concurrently in one process."""

    @run(tmp_path, SMALL)
    async def _(place):
        found = await asyncio.gather(*(place.call("small_add", a=number, b=1) for number in range(30)))
        assert [int(float(one)) for one in found] == list(range(1, 31))
        assert len({await place.find_process() for _ in range(3)}) == 1
