"""Claims about owning a request, without HTTP: ours is in it, the library's is not, and marks keep the rules."""

import json

import pytest
from conversation import LAMPS, MODELS, Conversation, with_tools

from foreword.errors import UnknownName
from foreword.runtime.own import NotOurs, Sending, mark_history, own
from foreword.standin.rules import judge_marks
from foreword.wire import Envelope

SAID = (("tail", "words"),)
TEXT = {"anthropic": "text", "openai": "text", "responses": "input_text"}


def send(shape, request, said=SAID):
    """Make what belongs to a request."""
    return Sending(envelope=Envelope(shape=shape, model="m", request=request), said=said, max_tokens=64)


FINISHED = {
    "anthropic": {
        "model": "m", "system": [{"type": "text", "text": "theirs"}], "max_tokens": 128_000, "stream": True,
        "tools": [{"name": "theirs"}], "tool_choice": {"type": "auto"}, "cache_control": {"type": "ephemeral"},
        "messages": [{"role": "user", "content": [{"text": "theirs", "type": "text"}]}],
    },
    "openai": {
        "model": "m", "tools": [{"type": "function"}], "tool_choice": "auto", "stream": True,
        "messages": [{"role": "system", "content": "theirs"}, {"role": "developer", "content": "theirs"},
                     {"role": "user", "content": "theirs"}],
    },
    "responses": {
        "model": "m", "instructions": "theirs", "tools": [{"name": "theirs"}], "tool_choice": "auto", "stream": True,
        "input": [{"role": "developer", "content": "theirs"}, {"role": "user", "content": "theirs"}],
    },
    "gemini": {
        "systemInstruction": {"parts": [{"text": "theirs"}]}, "tools": [{"name": "theirs"}],
        "toolConfig": {"functionCallingConfig": {"mode": "VALIDATED"}}, "generationConfig": {"temperature": 1},
        "contents": [{"parts": [{"text": "theirs"}], "role": "user"}],
    },
}  # fmt: skip


@pytest.mark.parametrize("shape", MODELS)
def test_ours(tmp_path, shape):
    """The finished request holds our prompt in our order, and not a word that the library wrote about it."""
    talk = Conversation(tmp_path, "http://127.0.0.1:9", MODELS[shape])
    envelope = talk.assemble("Hello", **with_tools(LAMPS)).envelope()
    where = next(name for name in ("messages", "input", "contents") if name in envelope.request)
    newest = envelope.request[where][-1]
    texts = tuple(part["text"] for part in newest.get("content") or newest["parts"])
    body = own(FINISHED[shape], Sending(envelope=envelope, said=(texts,), max_tokens=64))
    assert "theirs" not in json.dumps(body)
    assert not {"tool_choice", "toolConfig", "cache_control"} & body.keys()
    bare = json.loads(json.dumps(body))
    if shape == "anthropic":
        assert bare["messages"][-1]["content"][-1].pop("cache_control") == {"type": "ephemeral"}
    for name in envelope.request:
        assert json.dumps(bare[name]) == json.dumps(envelope.request[name])
    limits = {"max_tokens", "max_completion_tokens", "max_output_tokens"}
    assert [body[name] for name in limits & body.keys()] == [64] or body["generationConfig"]["maxOutputTokens"] == 64


def test_the_limit_as_an_address_knows_it():
    """Where the library writes the older name of the limit, the address knows no other."""
    body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 9}
    assert own(body, send("openai", {"model": "m", "messages": []}))["max_tokens"] == 64


@pytest.mark.parametrize("shape", MODELS)
def test_lost_and_added_messages(shape):
    """A request in which a message of the user was merged, lost or added is not sent."""
    where = next(name for name in ("messages", "input", "contents") if name in FINISHED[shape])
    for said, words in (((), "nobody said"), ((("a",), ("b",)), "lost a message")):
        with pytest.raises(NotOurs, match=words):
            own(FINISHED[shape], send(shape, {"model": "m", where: []}, said))


def test_unknown_shape():
    """A shape that no provider has is refused by name."""
    with pytest.raises(UnknownName, match="shape of a request 'plain'"):
        own({}, send("plain", {}))


def make_messages(*sizes):
    """Make a conversation whose messages have so many blocks."""
    return [
        {"role": ("user", "assistant")[at % 2], "content": [{"type": "text", "text": "x"}] * size}
        for at, size in enumerate(sizes)
    ]


def find_marks(messages):
    """Find the messages whose last block is marked."""
    return [at for at, message in enumerate(messages) if "cache_control" in message["content"][-1]]


@pytest.mark.parametrize(
    ("sizes", "left", "marked"),
    [
        ((1,), 1, [0]),
        ((1, 1, 1), 2, [2]),
        ((1, 9, 10), 2, [2]),
        ((1, 10, 10), 2, [0, 2]),
        ((1, 10, 10), 1, [2]),
        ((1, 10, 10), 0, []),
        ((1, 30, 30, 1, 1), 2, [4]),
        ((), 2, []),
    ],
)
def test_where_marks_stand(sizes, left, marked):
    """The end is marked, and where the last request ended if it is out of reach; never more than there are left."""
    assert find_marks(mark_history(make_messages(*sizes), left)) == marked


@pytest.mark.parametrize("ttls", [(), ("5m",), ("1h",), ("1h", "5m"), ("1h", "1h", "1h"), ("1h", "1h", "5m", "5m")])
def test_marks_keep_the_rules(ttls):
    """Whatever marks the system has, there are at most four in all, and an hour stands before five minutes."""
    system = [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": ttl}} for ttl in ttls]
    messages = make_messages(2, 12, 12)
    messages[0]["content"] = [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]
    for message in messages[2:]:
        message["content"] = [{"type": "tool_result", "cache_control": {"type": "ephemeral", "ttl": "1h"}}] * 12
    body = own({"messages": messages}, send("anthropic", {"model": "m", "system": system, "messages": []}))
    parts = [part for message in body["messages"] for part in message["content"]]
    assert list(judge_marks([*body["system"], *parts])) == []
    assert sum("cache_control" in part for part in parts) == min(2, 4 - len(ttls))
