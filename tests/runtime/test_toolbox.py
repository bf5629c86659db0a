"""Claims about the toolbox: all tools of an agent in one place, and each call goes where it belongs."""

import asyncio
import json
import os
import sys
from pathlib import Path

from conversation import FILES as CONVERSATION
from conversation import KEYS, LAMPS, Lamps, address

from foreword import Toolset, Trust, Turn
from foreword.events.event import EventType
from foreword.events.reader import find_context
from foreword.events.trace import Trace
from foreword.runtime.ears import Ears
from foreword.runtime.loop import Loop, Work
from foreword.runtime.models import Models
from foreword.runtime.servers import Servers
from foreword.runtime.toolbox import Further, Toolbox
from foreword.sources.builtin import read_builtin
from foreword.standin import Called, Says
from foreword.testing import Heard, Listeners, make_workspace, write_files
from foreword.tools import FILES

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
    """Tools for files are there for an agent with directories, from the least trust of these on."""
    some = Toolbox(open_place(tmp_path / "some", "~/a, {path: ~/b, trust: full}"))
    full = Toolbox(open_place(tmp_path / "full", "{path: ~/b, trust: full}"))
    assert FILES.names <= find(some).names
    assert not FILES.names & find(some, "plain").names
    assert FILES.names <= find(some, "plain", ("~/c",)).names
    trusts = [{tool.name: tool.trust for tool in find(box).tools} for box in (some, full)]
    assert [one["read_file"] for one in trusts] == [Trust.INNER, Trust.FULL]
    assert [one["write_file"] for one in trusts] == [Trust.FULL, Trust.FULL]


def test_guidance(tmp_path):
    """Every tool has a time of its own, and its kind a line on how to use it well."""
    toolbox = Toolbox(open_place(tmp_path, "~/a"))
    assert [
        tool.name for tool in find(toolbox).tools if not tool.seconds or not read_builtin(f"tools/{tool.kind}")
    ] == []


def test_the_same_object(tmp_path):
    """As long as nothing changes the tools are the very same, so that prompts are remembered."""
    toolbox = Toolbox(open_place(tmp_path, "~/a"), None, (Further(tools=Toolset([LAMPS]), runs=Lamps()),))
    assert find(toolbox) is find(toolbox)
    assert "lamps" in find(toolbox)


def test_a_whole_turn(tmp_path, stand_in):
    """A model adds with a server, writes a file after a person said yes, and turns on a lamp, all in one turn."""
    write_files(tmp_path / "notes", {"old.md": "old\n"})
    server = {"command": [sys.executable, SCRIPT], "name": "small", "confirm": "changes"}
    ws = open_place(tmp_path / "ws", str(tmp_path / "notes"), [server])
    stand_in.follow(
        Says(
            calls=(
                Called(name="small_add", arguments={"a": 2, "b": 3}),
                Called(name="write_file", arguments={"path": "sum.md", "text": "5\n"}),
                Called(name="lamps", arguments={"room": "hall"}),
                Called(name="small_do", arguments={"what": "die"}),
                Called(name="search_files", arguments={"text": "5"}),
            )
        ),
        Says(text="Done."),
    )
    asked, heard, lamps = [], Heard(), Lamps()

    async def decide(asking):
        asked.append(asking.name)
        return True

    async def go():
        models = Models(address(stand_in.url), KEYS)
        async with Servers(ws, heard, os.environ) as servers:
            toolbox = Toolbox(ws, servers, (Further(tools=Toolset([LAMPS]), runs=lamps),))
            tools, extensions = await toolbox.find("reid")
            turn = Turn(agent="reid", user="alice", situation="dm", message="Go.", tools=tools, extensions=extensions)
            assembly = ws.assemble(turn)
            loop = Loop(ws, models, Listeners(recorder=heard), tools=toolbox)
            with Trace(heard, find_context(assembly)).step(EventType.MESSAGE_RECEIVED, length=3) as received:
                outcome = await loop.run(Work(assembly=assembly), received, Ears(ask=decide))
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
