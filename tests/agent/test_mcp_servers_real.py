"""Servers made with the official library, over stdio and HTTP."""

import asyncio
import json
import os
import socket
import sys
from contextlib import asynccontextmanager

import pytest
import uvicorn
from conversation import call_tool
from mcp.server.mcpserver import MCPServer

from foreword.agent.mcp_servers import McpServers
from foreword.errors import ToolError
from foreword.testing import FakeRecorder, make_workspace
from foreword.turn import Toolset, Turn
from waiting import until

PROGRAM = """\
from mcp.server.mcpserver import MCPServer
server = MCPServer("shop", instructions="Ask for the price first.")
@server.tool()
def price(thing: str) -> dict[str, int]:
    "Say what a thing costs."
    return {thing: 3}
server.run("stdio")
"""


def open_place(folder, server):
    """Open a workspace whose agent has one server."""
    settings = json.dumps({"name": "shop", **server})
    config = (
        f"owner: a\nusers: {{a: {{trust: full}}}}\nagents: {{reid: {{model: 'openai:gpt-5', mcp: [{settings}]}}}}\n"
    )
    return make_workspace(folder, {"foreword.yaml": config})


async def ask(ws, servers, **arguments):
    """Ask the server for a price."""
    tools, extensions = await servers.list("reid")
    turn = Turn(agent="reid", user="a", situation="dm", tools=Toolset(tools), extensions=extensions)
    return (await call_tool(ws, ws.assemble(turn), "shop_price", arguments)).text


def test_standard_streams(tmp_path):
    """A server started by a command lists its tools, gives instructions and answers."""

    async def go():
        ws = open_place(tmp_path, {"command": [sys.executable, "-c", PROGRAM]})
        async with McpServers(ws, FakeRecorder(), os.environ) as servers:
            assert json.loads(await ask(ws, servers, thing="milk")) == {"milk": 3}
            _, extensions = await servers.list("reid")
            assert [one.instructions for one in extensions] == ["Ask for the price first."]

    asyncio.run(go())


@asynccontextmanager
async def serve(seen):
    """Serve a shop over HTTP on the loopback; keep the headers of every request."""
    shop = MCPServer("shop")

    @shop.tool()
    def price(thing: str) -> str:
        """Say what a thing costs."""
        return thing * 9_000_000 if thing == "x" else f"{thing}: 3"

    app = shop.streamable_http_app(json_response=True)

    async def note(scope, receive, send):
        if scope["type"] == "http":
            seen.append(dict(scope["headers"]))
        await app(scope, receive, send)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(note, log_level="critical", lifespan="on"))
        running = asyncio.create_task(server.serve([listening]))
        await until(lambda: server.started)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        server.should_exit = True
        server.force_exit = True
        await running


def test_an_address(tmp_path):
    """A server at an address answers, gets the configured headers, and may disappear later."""
    seen = []

    async def go():
        async with serve(seen) as url:
            ws = open_place(tmp_path, {"url": url, "headers": {"X-Key": "$SHOP_KEY"}, "seconds": 60})
            servers = McpServers(ws, FakeRecorder(), {"SHOP_KEY": "k3y"})
            assert await ask(ws, servers, thing="milk") == "milk: 3"
            with pytest.raises(ToolError):
                await ask(ws, servers, thing="x")
            assert await ask(ws, servers, thing="bread") == "bread: 3"
        async with servers:
            with pytest.raises(ToolError, match="server 'shop' did not answer: it cannot be reached"):
                await ask(ws, servers, thing="tea")

    asyncio.run(go())
    assert {headers.get(b"x-key") for headers in seen} == {b"k3y"}


def test_nobody_there(tmp_path):
    """An unreachable address leaves the agent without these tools."""

    async def go(port):
        ws = open_place(tmp_path, {"url": f"http://127.0.0.1:{port}/mcp"})
        recorder = FakeRecorder()
        async with McpServers(ws, recorder, {}) as servers:
            assert await servers.list("reid") == ((), ())
        assert "it cannot be reached" in recorder.events[0].error

    with socket.socket() as deaf:  # bound, so that no other process gets the port, but not listening
        deaf.bind(("127.0.0.1", 0))
        asyncio.run(go(deaf.getsockname()[1]))
