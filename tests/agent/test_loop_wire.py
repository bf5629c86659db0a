"""The bytes that arrive at a provider, over rounds of tools and over turns."""

import json
from itertools import pairwise

import pytest
from conversation import FILES, LAMPS, MODELS, Conversation, Lamps, with_tools

from foreword.agent.agent_events import TurnEnd
from foreword.agent.model_call import make_cache_key
from foreword.testing import ScriptedCall, ScriptedReply
from foreword.turn import Turn

SHAPES = tuple(MODELS)
TALK = {"anthropic": "messages", "openai": "messages", "responses": "input", "gemini": "contents"}
KEY = {"prompt_cache_key": make_cache_key(Turn(agent="reid", session="abc"))}
ADDED = {
    "anthropic": {"max_tokens": 8192, "stream": True},
    "openai": {"max_completion_tokens": 8192, "stream": True, "stream_options": {"include_usage": True}, **KEY},
    "responses": {"max_output_tokens": 8192, "stream": True, "include": ["reasoning.encrypted_content"], **KEY},
    "gemini": {"generationConfig": {"maxOutputTokens": 8192, "responseModalities": ["TEXT"]}},
}


def call(room):
    """Make a line of a script that calls the lamps."""
    return ScriptedReply(text="Let me see.", calls=(ScriptedCall(name="lamps", arguments={"room": room}),))


def strip(value):
    """Remove the cache breakpoints, which move with every request, from the messages."""
    if isinstance(value, list):
        return [strip(one) for one in value]
    if isinstance(value, dict):
        return {name: strip(one) for name, one in value.items() if name != "cache_control"}
    return value


def start(tmp_path, stand_in, shape):
    """Start a conversation in which lamps can be turned on."""
    talk = Conversation(tmp_path, stand_in.url, MODELS[shape])
    talk.lamps = Lamps()
    return talk


@pytest.mark.parametrize("shape", SHAPES)
def test_first_request(tmp_path, stand_in, shape):
    """The first request is the envelope, in the same key order, plus the fields of the call."""
    talk = start(tmp_path, stand_in, shape)
    outcome = talk.run("Is the <system>light</system> on? Grüße 🪶")
    assert (outcome.end, outcome.text) == (TurnEnd.ANSWERED, "Yes.")
    request, body = talk.assembly.envelope().request, stand_in.body
    assert {name: value for name, value in body.items() if name not in request} == ADDED[shape]
    for name in request:
        sent = strip(body[name]) if name == TALK[shape] else body[name]
        assert json.dumps(sent) == json.dumps(request[name]), name


@pytest.mark.parametrize("shape", SHAPES)
def test_three_rounds_of_tools(tmp_path, stand_in, shape):
    """Over three rounds of tools the prompt is unchanged, and each request extends the previous one."""
    talk = start(tmp_path, stand_in, shape)
    stand_in.follow(call("hall"), call("attic"), call("shed"), ScriptedReply(text="All on."))
    outcome = talk.run("Lights, please.", **with_tools(LAMPS))
    assert outcome.text == "All on."
    assert [one.refused for one in stand_in.requests] == [""] * 4
    bodies = [one.body for one in stand_in.requests]
    request, where = talk.assembly.envelope().request, TALK[shape]
    for body in bodies:
        for name in request:
            if name != where:
                assert json.dumps(strip(body[name])) == json.dumps(strip(request[name])), name
        assert strip(body[where])[: len(request[where])] == request[where]
    for one, other in pairwise(bodies):
        assert strip(other[where])[: len(one[where])] == strip(one[where])
        assert len(other[where]) > len(one[where])
    assert "shed is on" in json.dumps(bodies[-1][where])
    assert "pydantic" not in stand_in.requests[-1].raw.decode().lower()


@pytest.mark.parametrize("shape", SHAPES)
def test_three_turns(tmp_path, stand_in, shape, clock):
    """Over three turns each request extends the previous one, and the second reads the cache."""
    talk = start(tmp_path, stand_in, shape)
    for number, words in enumerate(("Good morning", "And the bees?", "Thanks"), 1):
        stand_in.follow(call("hall"), ScriptedReply(text=f"Answer {number}."))
        assert talk.run(words, **with_tools(LAMPS)).text == f"Answer {number}."
        clock.move(60)
    bodies = [one.body for one in stand_in.requests]
    where = TALK[shape]
    for one, other in pairwise(bodies):
        assert strip(other[where])[: len(one[where])] == strip(one[where])
    newest = talk.assembly.envelope().request
    for name in newest:
        if name != where:
            assert json.dumps(strip(bodies[-1][name])) == json.dumps(strip(newest[name])), name
    assert json.dumps(newest[where][-1]) in json.dumps(strip(bodies[-2][where]))
    counted = [one.counted for one in stand_in.requests]
    assert counted[0].read == 0
    assert all(one.read > 0.9 * one.total for one in counted[2:]), counted


def test_marks(tmp_path, stand_in):
    """There are at most four cache breakpoints; the last is at the end of the conversation."""
    talk = start(tmp_path, stand_in, "anthropic")
    for words in ("Good morning", "And the bees?", "Thanks"):
        stand_in.follow(call("hall"), call("attic"), ScriptedReply(text="So."))
        talk.run(words, **with_tools(LAMPS))
    for one in stand_in.requests:
        marks = [part for message in one.body["messages"] for part in message["content"] if "cache_control" in part]
        assert marks == [one.body["messages"][-1]["content"][-1]]
        assert [part["cache_control"] for part in one.body["system"]] == [marks[0]["cache_control"]] * 2


def test_many_calls_at_once(tmp_path, stand_in):
    """A round with more blocks than a provider looks back over still reads the earlier cache."""
    talk = start(tmp_path, stand_in, "anthropic")
    many = tuple(ScriptedCall(name="lamps", arguments={"room": f"room {number}"}) for number in range(15))
    stand_in.follow(ScriptedReply(text="All of them.", calls=many), ScriptedReply(text="Done."))
    talk.run("Lights everywhere.", **with_tools(LAMPS))
    first, second = (one.counted for one in stand_in.requests)
    assert second.read == first.read + first.write
    assert stand_in.requests[1].refused == ""


@pytest.mark.parametrize("shape", SHAPES)
def test_results_are_not_rewritten(tmp_path, stand_in, shape):
    """A tool result arrives unchanged, even if it resembles a tag of the library."""
    talk = start(tmp_path, stand_in, shape)
    stand_in.follow(call("<system>hall</system> <context>"), ScriptedReply(text="On."))
    talk.run("Light.", **with_tools(LAMPS))
    last = json.dumps(stand_in.body[TALK[shape]][-1])
    assert "The lamp in the <system>hall</system> <context> is on." in last


@pytest.mark.parametrize("shape", SHAPES)
def test_letters_that_are_none(tmp_path, stand_in, shape):
    """Neither half a character nor a very long message breaks the session."""
    talk = start(tmp_path, stand_in, shape)
    assert talk.run("broken \ud83d letter").text == "Yes."
    assert talk.run("x " * 100_000).text == "Yes."
    assert "broken ? letter" in json.dumps(stand_in.body[TALK[shape]])


def test_cache_key(tmp_path, stand_in):
    """OpenAI gets an opaque cache key of the conversation; other providers get none."""
    talk = Conversation(tmp_path, stand_in.url, MODELS["openai"])
    keys = []
    for session in ("dm:alice", "dm:alice", "dm:bob", ""):
        talk.run("Hello", session=session)
        keys.append(stand_in.body.get("prompt_cache_key"))
    assert keys[0] == keys[1] != keys[2]
    assert "alice" not in keys[0]
    assert keys[3] is None
    talk.model = "ollama:tiny"
    talk.run("Hello", session="dm:alice")
    assert "prompt_cache_key" not in stand_in.body


def test_answer_fits_the_window(tmp_path, stand_in):
    """The output limit is at most the rest of the window after prompt and conversation."""
    config = FILES["foreword.yaml"].replace("window: 32000", "window: 9000")
    talk = Conversation(tmp_path, stand_in.url, "ollama:tiny", files={**FILES, "foreword.yaml": config})
    talk.run("Hello")
    asked = stand_in.body["max_tokens"]
    assert asked == 9_000 - talk.assembly.used - talk.assembly.conversation
    talk.run("bee " * 4_000)
    assert 0 < stand_in.body["max_tokens"] < asked - 4_000


def test_gpt_over_responses(tmp_path, stand_in):
    """GPT-5.6 gets its system prompt as a marked first message, and reads it from the cache next time."""
    files = {**FILES, "AGENTS.md": "Be kind.\n" * 800}
    talk = Conversation(tmp_path, stand_in.url, "openai-responses:gpt-5.6", files=files)
    talk.lamps = Lamps()
    stand_in.follow(call("hall"), ScriptedReply(text="It is on."))
    talk.run("Is the light on?")
    first, second = (one.body for one in stand_in.requests)
    opening = first["input"][0]
    assert "instructions" not in first
    assert opening == second["input"][0] == talk.assembly.envelope().request["input"][0]
    assert {part["prompt_cache_breakpoint"]["mode"] for part in opening["content"]} == {"explicit"}
    assert stand_in.requests[1].counted.read > 1_024
