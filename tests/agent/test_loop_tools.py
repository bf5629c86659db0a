"""Tools in a turn, over HTTP."""

import asyncio
import json

import pytest
from conversation import LAMPS, MODELS, Conversation, Lamps, with_tools

from foreword.agent.agent_events import StepDone, TextDelta, ToolFinished, ToolStarted, TurnEnd
from foreword.agent.conversation import dump_messages, load_messages
from foreword.events.event import EventType
from foreword.testing import ScriptedCall, ScriptedError, ScriptedReply

SHAPES = tuple(MODELS)


def fence(name, **arguments):
    """Write a call as a model without native tools does."""
    return f"```tool_call\n{json.dumps({'tool': name, 'arguments': arguments})}\n```\n"


def light(talk, *errors):
    """Let a conversation turn on lamps."""
    lamps = Lamps(*errors)
    talk.lamps = lamps
    return lamps


@pytest.mark.parametrize("shape", SHAPES)
def test_memory_search(tmp_path, stand_in, shape):
    """The model searches memory, reads on as the result says, and answers; the search is recorded."""
    talk = Conversation(tmp_path, stand_in.url, MODELS[shape])
    stand_in.follow(
        ScriptedReply(
            text="Let me look.", calls=(ScriptedCall(name="memory_search", arguments={"query": "plum tree"}),)
        ),
        ScriptedReply(calls=(ScriptedCall(name="memory_get", arguments={"path": "private/garden.md"}),)),
        ScriptedReply(text="In 2019, by the east wall."),
    )
    outcome = talk.run("When did we plant the plum tree?")
    assert (outcome.end, outcome.text) == (TurnEnd.ANSWERED, "In 2019, by the east wall.")
    found, read = (outcome.messages[at].parts[0].text for at in (2, 4))
    assert "private/garden.md, line 1" in found
    assert read.startswith("The plum tree was planted in 2019")
    assert talk.heard.types == [
        "message_received", "prompt_built", "turn_started", "api_call", "memory_search", "tool_call", "api_call",
        "tool_call", "api_call", "turn_completed",
    ]  # fmt: skip
    (search,) = talk.pick(EventType.MEMORY_SEARCH)
    assert search.facts["count"] == 1
    assert [delta for delta in talk.deltas if not isinstance(delta, TextDelta)] == [
        ToolStarted(name="memory_search"),
        ToolFinished(name="memory_search", done=True),
        ToolStarted(name="memory_get"),
        ToolFinished(name="memory_get", done=True),
    ]


def test_fenced_calls(tmp_path, stand_in):
    """A model without native tools calls them in fenced blocks; people see only the text."""
    talk = Conversation(tmp_path, stand_in.url, "ollama:tiny")
    lamps = light(talk)
    bad = "```tool_call\nlamps(hall)\n```\n"
    first = f"Let me see.\n{fence('lamps', room='hall')}{bad}{fence('lamps', room='attic')}"
    stand_in.follow(ScriptedReply(text=first), ScriptedReply(text="Both are on."))
    outcome = talk.run("Lights, please.", **with_tools(LAMPS))
    assert outcome.text == "Both are on."
    assert lamps.asked == [{"room": "hall"}, {"room": "attic"}]
    assert "tools" not in stand_in.body
    assert stand_in.body["max_tokens"] == 8_192  # the name of the limit that servers other than OpenAI know
    *_, before, results = stand_in.body["messages"]
    assert (before["role"], before["content"]) == ("assistant", first)
    texts = [part["text"] for part in results["content"]]
    assert texts[0] == "Result of lamps:\nThe lamp in the hall is on."
    assert texts[1].startswith("Result of your block:\nNothing was called: the block is no JSON")
    assert texts[2] == "Result of lamps:\nThe lamp in the attic is on."
    said = "".join(delta.text for delta in talk.deltas if isinstance(delta, TextDelta))
    assert said == "Let me see.\nBoth are on."
    assert talk.run("Thanks").text == "Yes."
    assert [one.refused for one in stand_in.requests] == [""] * 3


def kill_at(talk, step, message, **facts):
    """Run a turn that dies when it records a step; return the recorded steps in their stored form."""
    stored = []

    class Killed(BaseException):
        """The process is gone."""

    async def take(event):
        await keep(event)
        if isinstance(event, StepDone):
            stored.append(dump_messages(event.messages))
            if len(stored) == step:
                raise Killed

    keep, talk.take = talk.take, take
    with pytest.raises(Killed):
        asyncio.run(talk.say(message, **facts))
    talk.take = keep
    return load_messages(stored[-1])


RESUMED = [(model, step) for model in (MODELS["anthropic"], "ollama:tiny") for step in (1, 2, 3, 4, 5)]
RESUMED += [(MODELS[shape], 2) for shape in ("openai", "responses", "gemini")]


@pytest.mark.parametrize(("model", "step"), RESUMED)
def test_going_on(tmp_path, stand_in, model, step):
    """A turn that died after any step resumes after it, and repeats no finished call."""
    talk = Conversation(tmp_path, stand_in.url, model)
    lamps = light(talk)
    rooms = [("hall", "attic"), ("shed",)]
    if model == "ollama:tiny":
        script = [ScriptedReply(text="".join(fence("lamps", room=room) for room in each)) for each in rooms]
    else:
        script = [
            ScriptedReply(calls=tuple(ScriptedCall(name="lamps", arguments={"room": room}) for room in each))
            for each in rooms
        ]
    stand_in.follow(*script, ScriptedReply(text="All on."))
    taken = kill_at(talk, step, "Lights, please.", **with_tools(LAMPS))
    outcome = talk.run("Lights, please.", taken, **with_tools(LAMPS))
    assert outcome.text == "All on."
    assert [asked["room"] for asked in lamps.asked] == ["hall", "attic", "shed"]
    assert len(stand_in.requests) == 3
    assert [one.refused for one in stand_in.requests] == [""] * 3
    assert talk.run("Thanks", **with_tools(LAMPS)).text == "Yes."
    assert stand_in.requests[-1].refused == ""


def test_a_finished_turn(tmp_path, stand_in):
    """A turn whose answer was recorded is answered without a call."""
    talk = Conversation(tmp_path, stand_in.url)
    stand_in.follow(ScriptedReply(text="Noon."))
    taken = kill_at(talk, 1, "What time is it?")
    assert talk.run("What time is it?", taken).text == "Noon."
    assert len(stand_in.requests) == 1


def test_queued_in_the_middle(tmp_path, stand_in):
    """A turn queued after a tool call resumes later without running the tool again."""
    talk = Conversation(tmp_path, stand_in.url)
    lamps = light(talk)
    stand_in.follow(
        ScriptedReply(calls=(ScriptedCall(name="lamps", arguments={"room": "hall"}),)), *[ScriptedError()] * 4
    )
    outcome = talk.run("Light.", **with_tools(LAMPS))
    assert (outcome.end, len(outcome.messages)) == (TurnEnd.QUEUED, 3)
    assert talk.run("Light.", outcome.messages, **with_tools(LAMPS)).text == "Yes."
    assert len(lamps.asked) == 1
