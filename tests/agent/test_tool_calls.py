"""Tool calls: approval, and the toolbox that runs them."""

import asyncio
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conversation import FILES as CONVERSATION
from conversation import KEYS, LAMPS, MODELS, Conversation, Lamps, address, with_tools

from foreword.agent.agent_events import ApprovalNeeded, CallBegins, ToolFinished
from foreword.agent.conversation import dump_messages, load_messages
from foreword.agent.loop import AgentLoop, TurnInput, TurnLimits
from foreword.agent.mcp_servers import McpServers
from foreword.agent.providers.model_clients import ModelClients
from foreword.agent.reply_stream import ToolCall
from foreword.agent.tool_calls import write_question
from foreword.agent.tools.file_tools import FILE_TOOLS
from foreword.agent.tools.registry import Toolbox
from foreword.engine.sources.documents import read_builtin
from foreword.events.event import EventType, find_context
from foreword.events.tracer import Tracer
from foreword.testing import EventStream, FakeRecorder, ScriptedCall, ScriptedReply, make_workspace, write_files
from foreword.turn import Turn
from foreword.types import Trust

SWITCH = replace(LAMPS, changes=True)


def light(talk, *errors):
    """Let a conversation turn on lamps, which changes something."""
    lamps = Lamps(*errors)
    talk.lamps = lamps
    talk.allows = True
    return lamps


def call(model, *rooms):
    """Say calls as a model makes them."""
    if model == "ollama:tiny":
        blocks = [json.dumps({"tool": "lamps", "arguments": {"room": room}}) for room in rooms]
        return ScriptedReply(text="".join(f"```tool_call\n{block}\n```\n" for block in blocks))
    return ScriptedReply(calls=tuple(ScriptedCall(name="lamps", arguments={"room": room}) for room in rooms))


def read_results(outcome):
    """Read what the tools answered in the first round."""
    texts = [part.text for part in outcome.messages[2].parts]
    return [text for one in texts for text in ([one] if isinstance(one, str) else one)]


@pytest.mark.parametrize("model", [MODELS["anthropic"], MODELS["gemini"], "ollama:tiny"])
@pytest.mark.parametrize(("answer", "noted"), [(True, "yes"), (False, "no"), (None, None)])
def test_asking(tmp_path, stand_in, model, answer, noted):
    """A call that changes something runs only after a yes."""
    talk = Conversation(tmp_path, stand_in.url, model)
    lamps = light(talk)
    talk.allows = answer
    done = answer is True
    stand_in.follow(call(model, "hall"), ScriptedReply(text="Good."))
    outcome = talk.run("Light, please.", **with_tools(SWITCH))
    assert outcome.text == "Good."
    assert [(one.name, one.question) for one in talk.asked] == [("lamps", "lamps\n  room: hall")]
    assert len(lamps.asked) == int(done)
    (shown,) = talk.pick(EventType.TOOL_CALL)
    assert (shown.facts.get("confirmed"), shown.facts["status"]) == (
        noted,
        "ok" if done else "held" if answer is None else "refused",
    )
    assert ToolFinished(name="lamps", done=done) in talk.deltas
    if not done:
        assert "lamps was not called: " in read_results(outcome)[0]


def test_only_what_changes(tmp_path, stand_in):
    """No approval is requested for a read-only tool or an invalid call."""
    talk = Conversation(tmp_path, stand_in.url)
    light(talk)
    wrong = ScriptedCall(name="lamps", arguments={"room": 7})
    listing = ScriptedCall(name="memory_list", arguments={})
    stand_in.follow(ScriptedReply(calls=(listing, wrong)), ScriptedReply(text="Good."))
    talk.run("Light, please.", **with_tools(SWITCH))
    assert (talk.asked, talk.begun) == ([], set())


def test_plan_mode(tmp_path, stand_in):
    """In plan mode nothing is changed and no approval is requested."""
    talk = Conversation(tmp_path, stand_in.url)
    lamps = light(talk)
    stand_in.follow(call("", "hall"), ScriptedReply(text="Goal: light."))
    outcome = talk.run("Light, please.", plan=True, **with_tools(SWITCH))
    assert "plan mode is on" in read_results(outcome)[0]
    assert (lamps.asked, talk.asked, talk.begun) == ([], [], set())


def test_time_to_think(tmp_path, stand_in):
    """The time a person takes to decide does not count towards the tool's time limit."""
    talk = Conversation(tmp_path, stand_in.url)
    lamps = light(talk, None, 5.0)

    async def think(_):
        await asyncio.sleep(0.2)
        return True

    talk.decide = think
    stand_in.follow(call("", "hall", "attic"), ScriptedReply(text="Good."))
    talk.options["bounds"] = TurnLimits(tool_seconds=60.0)
    outcome = talk.run("Light, please.", **with_tools(replace(SWITCH, seconds=0.15)))
    assert read_results(outcome) == ["The lamp in the hall is on.", "lamps did not answer within 0.15 seconds."]
    assert len(lamps.asked) == 2


class Killed(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("model", [MODELS["anthropic"], "ollama:tiny"])
def test_begun_once(tmp_path, stand_in, model):
    """A call that had started when the process died is not repeated; one that had not is run."""
    talk = Conversation(tmp_path, stand_in.url, model)
    lamps = light(talk, None, Killed())
    stand_in.follow(call(model, "hall", "hall", "shed"), call(model, "hall"), ScriptedReply(text="Good."))
    with pytest.raises(Killed):
        asyncio.run(talk.say("Light, please.", **with_tools(SWITCH)))
    taken = load_messages(dump_messages(talk.steps[-1]))
    outcome = talk.run("Light, please.", taken, **with_tools(SWITCH))
    first, second, third = read_results(outcome)
    assert first.endswith("The lamp in the hall is on.")
    assert "had begun before an interruption, and it is unknown whether it ran" in second
    assert third.endswith("The lamp in the shed is on.")
    assert [one["room"] for one in lamps.asked] == ["hall", "hall", "shed", "hall"]
    assert len(talk.begun) == 4
    interrupted = [event.facts.get("interrupted") for event in talk.pick(EventType.TOOL_CALL)]
    assert interrupted.count("yes") == 1


@pytest.mark.parametrize("kind", [CallBegins, ApprovalNeeded])
def test_deaf_people(tmp_path, stand_in, kind):
    """If a start cannot be stored or approval cannot be requested, nothing is changed."""
    talk = Conversation(tmp_path, stand_in.url)
    lamps = light(talk)

    async def fail(event):
        if isinstance(event, kind):
            raise OSError("disk full")
        if isinstance(event, ApprovalNeeded):
            event.decide(allowed=True)

    talk.take = fail
    stand_in.follow(call("", "hall"))
    with pytest.raises(Exception, match="disk full"):
        talk.run("Light, please.", **with_tools(SWITCH))
    assert lamps.asked == []


def test_the_question():
    """A question shows each argument on one line, truncated with its length, without hidden characters."""
    arguments = {"path": "a\nb\u202etxt", "text": "x" * 5_000, "deep": {"n": [1, None]}}
    lines = write_question(ToolCall(name="write_file", arguments=arguments)).split("\n")
    assert lines == [
        "write_file",
        "  path: a\\nb\\u202etxt",
        f"  text: {'x' * 2_000}… (5,000 characters)",
        '  deep: {"n": [1, null]}',
    ]
    many = write_question(ToolCall(name="t", arguments={str(number): "" for number in range(25)}))
    assert many.endswith("\n  (5 more)")


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
    toolbox = Toolbox(open_place(tmp_path, "~/a"), None, [LAMPS])
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

    async def go():
        models = ModelClients(address(stand_in.url), KEYS)
        async with McpServers(ws, heard, os.environ) as servers:
            toolbox = Toolbox(ws, servers, [replace(LAMPS, function=lamps.function)])
            tools, extensions = await toolbox.find("reid")
            turn = Turn(agent="reid", user="alice", situation="dm", message="Go.", tools=tools, extensions=extensions)
            assembly = ws.assemble(turn)
            loop = AgentLoop(ws, models, EventStream(recorder=heard))
            with Tracer(heard, find_context(assembly)).step(EventType.MESSAGE_RECEIVED, length=3) as received:
                async for event in loop.run(TurnInput(assembly=assembly), received):
                    if isinstance(event, ApprovalNeeded):
                        asked.append(event.name)
                        event.decide(allowed=True)
                outcome = event
        await models.close()
        return outcome

    outcome = asyncio.run(go())
    results = [part.text for part in outcome.messages[2].parts]
    assert (outcome.text, asked) == ("Done.", ["write_file", "small_do"])
    assert results[0] == "5"
    assert (tmp_path / "notes" / "sum.md").read_text() == "5\n"
    assert results[2] == "The lamp in the hall is on."
    assert results[3] == "small_do failed: server 'small' did not answer: it is not running"
    assert results[4] == f"{tmp_path}/notes/sum.md:1: 5"
    shown = {event.facts["name"]: event for event in heard.events if event.facts.get("name")}
    assert shown["write_file"].facts["confirmed"] == "yes"
    assert shown["small_do"].type is EventType.TOOL_ERROR
    assert "hunter2" not in str(outcome.messages)
