"""The toolbox: all tools of an agent, and the dispatch of calls."""

import asyncio
import json
import os
import sys
from pathlib import Path

from conversation import FILES as CONVERSATION
from conversation import KEYS, LAMPS, Lamps, address

from foreword.agent.agent_events import TurnCallbacks
from foreword.agent.loop import AgentLoop, TurnInput
from foreword.agent.mcp_servers import McpServers
from foreword.agent.providers.model_clients import ModelClients
from foreword.agent.tool_calls import AdditionalTools, Toolbox
from foreword.agent.tools.file_tools import FILE_TOOLS
from foreword.engine.sources.documents import read_builtin
from foreword.events.event import EventType
from foreword.events.query import find_context
from foreword.events.tracer import Tracer
from foreword.testing import EventStream, FakeRecorder, ScriptedCall, ScriptedReply, make_workspace, write_files
from foreword.turn import Toolset, Turn
from foreword.types import Trust

SCRIPT = str(Path(__file__).parent / "tool_server.py")


def open_place(folder, directories="", servers=()):
    """Open a workspace with directories and servers."""
    config = f"""\
owner: alice
agents:
  reid: {{model: "anthropic:claude-sonnet-5", directories: [{directories}], mcp: {json.dumps(servers)}}}
  plain: {{model: "anthropic:claude-sonnet-5"}}
users: {{alice: {{trust: full}}, carol: {{trust: inner}}}}
"""
    return make_workspace(folder, {**CONVERSATION, "foreword.yaml": config})


def find(toolbox, agent="reid", directories=()):
    """Find the tools of an agent."""
    return asyncio.run(toolbox.find(agent, directories))[0]


def test_files_where_there_are_directories(tmp_path):
    """File tools are offered to agents with directories, from the lowest trust of these on."""
    some = Toolbox(open_place(tmp_path / "some", "~/a, {path: ~/b, trust: full}"))
    full = Toolbox(open_place(tmp_path / "full", "{path: ~/b, trust: full}"))
    assert FILE_TOOLS.names <= find(some).names
    assert not FILE_TOOLS.names & find(some, "plain").names
    assert FILE_TOOLS.names <= find(some, "plain", ("~/c",)).names
    trusts = [{tool.name: tool.trust for tool in find(box).tools} for box in (some, full)]
    assert [one["read_file"] for one in trusts] == [Trust.INNER, Trust.FULL]
    assert [one["write_file"] for one in trusts] == [Trust.FULL, Trust.FULL]


def test_guidance(tmp_path):
    """Every tool has a time limit, and its kind has guidance."""
    toolbox = Toolbox(open_place(tmp_path, "~/a"))
    assert [
        tool.name for tool in find(toolbox).tools if not tool.seconds or not read_builtin(f"tools/{tool.kind}")
    ] == []


def test_the_same_object(tmp_path):
    """Unchanged tools are the same object, so that prompts stay cached."""
    toolbox = Toolbox(open_place(tmp_path, "~/a"), None, (AdditionalTools(tools=Toolset([LAMPS]), runs=Lamps()),))
    assert find(toolbox) is find(toolbox)
    assert "lamps" in find(toolbox)


def test_a_whole_turn(tmp_path, stand_in):
    """One turn calls an MCP server, writes a file after approval, and calls an additional tool."""
    write_files(tmp_path / "notes", {"old.md": "old\n"})
    server = {"command": [sys.executable, SCRIPT], "name": "small", "confirm": "changes"}
    ws = open_place(tmp_path / "ws", str(tmp_path / "notes"), [server])
    stand_in.follow(
        ScriptedReply(
            calls=(
                ScriptedCall(name="small_add", arguments={"a": 2, "b": 3}),
                ScriptedCall(name="write_file", arguments={"path": "sum.md", "text": "5\n"}),
                ScriptedCall(name="lamps", arguments={"room": "hall"}),
                ScriptedCall(name="small_do", arguments={"what": "die"}),
                ScriptedCall(name="search_files", arguments={"text": "5"}),
            )
        ),
        ScriptedReply(text="Done."),
    )
    asked, heard, lamps = [], FakeRecorder(), Lamps()

    async def decide(asking):
        asked.append(asking.name)
        return True

    async def go():
        models = ModelClients(address(stand_in.url), KEYS)
        async with McpServers(ws, heard, os.environ) as servers:
            toolbox = Toolbox(ws, servers, (AdditionalTools(tools=Toolset([LAMPS]), runs=lamps),))
            tools, extensions = await toolbox.find("reid")
            turn = Turn(agent="reid", user="alice", situation="dm", message="Go.", tools=tools, extensions=extensions)
            assembly = ws.assemble(turn)
            loop = AgentLoop(ws, models, EventStream(recorder=heard), tools=toolbox)
            with Tracer(heard, find_context(assembly)).step(EventType.MESSAGE_RECEIVED, length=3) as received:
                outcome = await loop.run(TurnInput(assembly=assembly), received, TurnCallbacks(ask=decide))
        await models.close()
        return outcome

    outcome = asyncio.run(go())
    results = [part.content for part in outcome.messages[2].parts]
    assert (outcome.text, asked) == ("Done.", ["write_file", "small_do"])
    assert results[0] == "5"
    assert (tmp_path / "notes" / "sum.md").read_text() == "5\n"
    assert results[2] == "The lamp in the hall is on."
    assert results[3] == "small_do failed: server 'small' did not answer: it is not running"
    assert results[4] == f"{tmp_path}/notes/sum.md:1: 5"
    told = {event.facts["name"]: event for event in heard.events if event.facts.get("name")}
    assert told["write_file"].facts["confirmed"] == "yes"
    assert told["small_do"].type is EventType.TOOL_ERROR
    assert "hunter2" not in str(outcome.messages)
