"""Subagents: a delegated task runs with the minimal prompt, below the calling turn."""

import asyncio

from house import FILES, open_house, say

from foreword.storage.turns import TurnState
from foreword.testing import ScriptedCall, ScriptedReply


def asks(task, **more):
    """Make the model delegate a task."""
    return ScriptedReply(calls=(ScriptedCall(name="delegate", arguments={"task": task, **more}),))


def test_a_report(tmp_path, stand_in):
    """The subagent's report is the result of the call; it sees its task and nothing of the conversation."""
    stand_in.follow(
        ScriptedReply(text="Hello."),
        asks("Count the bees."),
        ScriptedReply(text="Forty."),
        ScriptedReply(text="There are forty."),
    )

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            await say(gateway, "secret: the key is under the mat")
            return await say(gateway, "How many bees?")

    reply = asyncio.run(run())
    assert (reply.state, reply.text) == (TurnState.ANSWERED, "There are forty.")
    helper = stand_in.requests[2].body
    assert len(helper["messages"]) == 1
    assert "Count the bees." in str(helper["messages"])
    assert "under the mat" not in str(helper)
    names = {tool["name"] for tool in helper.get("tools", ())}
    assert "delegate" not in names
    assert "update_instructions" not in names
    assert "memory_search" in names
    assert len(str(helper["system"])) < len(str(stand_in.requests[1].body["system"]))


def test_its_cost(tmp_path, stand_in):
    """A subagent's usage is part of the turn's usage."""
    stand_in.follow(asks("Count."), ScriptedReply(text="Forty."), ScriptedReply(text="Forty."))

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            return await say(gateway, "How many?")

    reply = asyncio.run(run())
    assert len(stand_in.requests) == 3
    assert reply.usage.tokens_in == sum(request.counted.total for request in stand_in.requests)


def test_no_such_agent(tmp_path, stand_in):
    """An unknown agent is reported to the model, and the turn continues."""
    stand_in.follow(asks("Count.", agent="nobody"), ScriptedReply(text="I could not."))

    async def run():
        async with open_house(tmp_path, stand_in, files=FILES) as gateway:
            return await say(gateway, "How many?")

    assert asyncio.run(run()).text == "I could not."
    assert "unknown agent" in str(stand_in.body["messages"][-1])


def list_tools(request):
    """List the tool names of a request."""
    return {tool.get("name") or tool["function"]["name"] for tool in request.body.get("tools", ())}


def test_changes_nothing(tmp_path, stand_in):
    """A subagent has no tool that writes: no memory, instructions, files or tasks."""
    stand_in.follow(asks("Count."), ScriptedReply(text="Forty."), ScriptedReply(text="Forty."))

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            return await say(gateway, "How many?")

    asyncio.run(run())
    writing = {"save_memory", "forget_memory", "update_instructions", "task_write"}
    assert writing <= list_tools(stand_in.requests[0])
    assert not writing & list_tools(stand_in.requests[1])


def test_another_agents_tools(tmp_path, stand_in):
    """Another agent has its own tools and directories, not the caller's."""
    stand_in.follow(asks("Look.", agent="ada"), ScriptedReply(text="Seen."), ScriptedReply(text="Seen."))
    given = "ada: {directories: [notes], "
    files = {**FILES, "foreword.yaml": FILES["foreword.yaml"].replace("ada: {", given), "notes/a.md": "Forty.\n"}

    async def run():
        async with open_house(tmp_path, stand_in, files=files) as gateway:
            return await say(gateway, "What is there?")

    assert asyncio.run(run()).text == "Seen."
    assert "read_file" not in list_tools(stand_in.requests[0])
    assert "read_file" in list_tools(stand_in.requests[1])
    assert "write_file" not in list_tools(stand_in.requests[1])


def test_its_place_in_a_cache(tmp_path, stand_in):
    """A subagent does not use the cache key of the conversation, whose cache it would replace."""
    stand_in.follow(asks("Count."), ScriptedReply(text="Forty."), ScriptedReply(text="Forty."))

    async def run():
        async with open_house(tmp_path, stand_in) as gateway:
            return await say(gateway, "How many?", agent="ada")

    assert asyncio.run(run()).text == "Forty."
    first, helper, last = (request.body.get("prompt_cache_key") for request in stand_in.requests)
    assert first == last
    assert first
    assert helper is None
