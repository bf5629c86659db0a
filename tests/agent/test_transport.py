"""Replacement of the prompt in a library's request."""

import json

import pytest
from conversation import LAMPS, MODELS, Conversation, with_tools

from foreword.agent.providers.transport import ForeignRequest, OutgoingPrompt, UserMessage, insert_prompt
from foreword.envelope import Envelope
from foreword.errors import UnknownName
from foreword.testing import NOON, ScriptedReply

SAID = (UserMessage(texts=("tail", "words")),)
TEXT = {"anthropic": "text", "openai": "text", "responses": "input_text"}


def send(shape, request, said=SAID):
    """Make the parts of a request."""
    return OutgoingPrompt(envelope=Envelope(shape=shape, model="m", request=request), user_messages=said, max_tokens=64)


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
    """The finished request has our prompt in our order, and none of the library's text."""
    talk = Conversation(tmp_path, "http://127.0.0.1:9", MODELS[shape])
    envelope = talk.assemble("Hello", **with_tools(LAMPS)).envelope()
    where = next(name for name in ("messages", "input", "contents") if name in envelope.request)
    newest = envelope.request[where][-1]
    texts = tuple(part["text"] for part in newest.get("content") or newest["parts"])
    body = insert_prompt(
        FINISHED[shape], OutgoingPrompt(envelope=envelope, user_messages=(UserMessage(texts=texts),), max_tokens=64)
    ).request
    assert "theirs" not in json.dumps(body)
    assert not {"tool_choice", "toolConfig", "cache_control"} & body.keys()
    for name in envelope.request:
        assert json.dumps(body[name]) == json.dumps(envelope.request[name])
    limits = {"max_tokens", "max_completion_tokens", "max_output_tokens"}
    assert [body[name] for name in limits & body.keys()] == [64] or body["generationConfig"]["maxOutputTokens"] == 64


def test_the_limit_as_an_address_knows_it():
    """The older name of the token limit is used where the library uses it."""
    body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 9}
    assert insert_prompt(body, send("openai", {"model": "m", "messages": []})).request["max_tokens"] == 64


@pytest.mark.parametrize("shape", MODELS)
def test_lost_and_added_messages(shape):
    """A request with a merged, lost or added user message is not sent."""
    where = next(name for name in ("messages", "input", "contents") if name in FINISHED[shape])
    for said, words in (
        ((), "unknown user message"),
        ((UserMessage(texts=("a",)), UserMessage(texts=("b",))), "lacks a user message"),
    ):
        with pytest.raises(ForeignRequest, match=words):
            insert_prompt(FINISHED[shape], send(shape, {"model": "m", where: []}, said))


def test_unknown_shape():
    """An unknown wire shape is refused by name."""
    with pytest.raises(UnknownName, match="shape of a request 'plain'"):
        insert_prompt({}, send("plain", {}))


@pytest.mark.parametrize("shape", ["anthropic", "openai", "responses"])
def test_told_in_the_middle(shape):
    """A system message stays after its user message."""
    where = "input" if shape == "responses" else "messages"
    said = (UserMessage(texts=("one",), system="Be careful."), UserMessage(texts=("two",)))
    theirs = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    body = insert_prompt({"model": "m", where: theirs}, send(shape, {"model": "m", where: []}, said)).request
    assert [message["role"] for message in body[where]] == ["user", "system", "assistant", "user"]
    assert body[where][1]["content"] == [{"type": TEXT[shape], "text": "Be careful."}]


@pytest.mark.parametrize("shape", MODELS)
def test_places_of_what_was_said(shape):
    """The index of each user message is known, counted after the opening."""
    where = next(name for name in ("messages", "input", "contents") if name in FINISHED[shape])
    theirs = FINISHED[shape][where][-1]
    answer = {**theirs, "role": "assistant" if where != "contents" else "model"}
    said = (UserMessage(texts=("one",), system="Be careful."), UserMessage(texts=("two",)))
    owned = insert_prompt(
        {**FINISHED[shape], where: [theirs, answer, theirs]}, send(shape, {"model": "m", where: []}, said)
    )
    words = [json.dumps(owned.request[where][at]) for at in owned.places]
    assert [text in words[at] for at, text in enumerate(("one", "two"))] == [True, True]


def test_nobody_is_asked_unless_the_owner_wants_it(tmp_path, stand_in):
    """The library's own request for cache diagnostics is removed."""
    talk = Conversation(tmp_path, stand_in.url, "openai-responses:gpt-5.6")
    for _ in range(2):
        stand_in.follow(ScriptedReply(text="Done."))
        talk.run("Hello", now=NOON)
    assert len(stand_in.requests) == 2
    assert not any(b"comparison_response_id" in request.raw for request in stand_in.requests)
