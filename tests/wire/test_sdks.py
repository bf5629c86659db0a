"""The providers' own libraries send an envelope unchanged."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from letters import MODELS, list_texts, write

from foreword.testing import FakeProvider, make_workspace, run_fake_provider
from foreword.turn import Turn
from foreword.types import Mode

SHAPES = tuple(MODELS)


@pytest.fixture(scope="module")
def stand_in() -> Iterator[FakeProvider]:
    """A fake provider on the loopback interface."""
    with run_fake_provider() as one:
        yield one


def send_anthropic(url: str, request: Any) -> str:
    """Send a request with Anthropic's library."""
    from anthropic import Anthropic

    with Anthropic(base_url=url, api_key="none", max_retries=0) as client:
        return client.messages.create(max_tokens=64, **request).content[0].text


def send_openai(url: str, request: Any) -> str:
    """Send a request with OpenAI's library, as a chat."""
    from openai import OpenAI

    with OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        return client.chat.completions.create(**request).choices[0].message.content


def send_responses(url: str, request: Any) -> str:
    """Send a request with OpenAI's library, as a response."""
    from openai import OpenAI

    with OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        return client.responses.create(**request).output_text


def send_gemini(url: str, request: Any) -> str:
    """Send a request with Google's library."""
    from google import genai
    from google.genai import types

    # Its own types would rewrite the tools' schemas, so everything except the conversation is sent unchanged.
    rest = {name: value for name, value in request.items() if name != "contents"}
    config = types.GenerateContentConfig(http_options=types.HttpOptions(extra_body=rest))
    client = genai.Client(api_key="none", http_options=types.HttpOptions(base_url=url))
    try:
        answer = client.models.generate_content(model="gemini-3-pro", contents=request["contents"], config=config)
        return answer.text
    finally:
        client.close()


SENDERS = {
    "anthropic": send_anthropic,
    "openai": send_openai,
    "responses": send_responses,
    "gemini": send_gemini,
}
ADDED = {"anthropic": {"max_tokens": 64}, "openai": {}, "responses": {}, "gemini": {"generationConfig": {}}}


@pytest.mark.parametrize("shape", SHAPES)
def test_sent_as_it_is(shape: str, stand_in: FakeProvider, tmp_path: Path) -> None:
    """The provider receives the envelope and the caller's additions, down to the order of every key."""
    request = write(tmp_path, shape).envelope().request
    assert SENDERS[shape](stand_in.url, request) == "Yes."
    body = stand_in.body
    assert {name: body[name] for name in sorted(body)} == dict(sorted({**request, **ADDED[shape]}.items()))
    for name in request:
        # Google's library puts `parts` before `role`; everything else keeps its order.
        ordered = shape != "gemini" or name != "contents"
        assert not ordered or json.dumps(body[name]) == json.dumps(request[name]), name


@pytest.mark.parametrize("shape", SHAPES)
def test_same_bytes_twice(shape: str, stand_in: FakeProvider, tmp_path: Path) -> None:
    """The same turn is the same bytes on the wire, also from another workspace with the same files."""
    for name in ("one", "two"):
        SENDERS[shape](stand_in.url, write(tmp_path / name, shape).envelope().request)
    assert stand_in.requests[-1].raw == stand_in.requests[-2].raw


def test_chat_system_first(stand_in: FakeProvider, tmp_path: Path) -> None:
    """A chat has one system message, and it comes first."""
    send_openai(stand_in.url, write(tmp_path, "openai").envelope().request)
    roles = [message["role"] for message in stand_in.body["messages"]]
    assert roles[0] == "system"
    assert "system" not in roles[1:]


def test_gemini_types(tmp_path: Path) -> None:
    """The types of Google's library accept the system text and the tools of an envelope, and change no name in them."""
    from google.genai import types

    request = write(tmp_path, "gemini").envelope().request
    config = types.GenerateContentConfig(system_instruction=request["systemInstruction"], tools=request["tools"])
    known = [one.name for one in config.tools[0].function_declarations]
    assert known == ["lamps", "memory_get", "read_section"]
    assert config.system_instruction.parts[0].text == request["systemInstruction"]["parts"][0]["text"]


def test_anthropic_marks(stand_in: FakeProvider, tmp_path: Path) -> None:
    """Static and session blocks end in a breakpoint each, within the limit that the provider sets."""
    send_anthropic(stand_in.url, write(tmp_path, "anthropic").envelope().request)
    system = stand_in.body["system"]
    assert [block.get("cache_control") for block in system] == [{"type": "ephemeral"}] * 2
    assert "bees" in system[1]["text"]
    assert "bees" not in system[0]["text"]


def test_anthropic_stranger(stand_in: FakeProvider, tmp_path: Path) -> None:
    """A stranger's first message is accepted: no empty block, no history, the first message is the user's."""
    turn = Turn(user="mallory", situation="dm", message="Hi", model=MODELS["anthropic"])
    assembly = make_workspace(tmp_path, {}).assemble(turn)
    assert send_anthropic(stand_in.url, assembly.envelope().request) == "Yes."


def test_anthropic_without_system(stand_in: FakeProvider, tmp_path: Path) -> None:
    """A prompt without a system part sends no system field, because the provider refuses an empty one."""
    assembly = write(tmp_path, "anthropic", blueprint="coop", mode=Mode.NONE, tools=(), channel="")
    assert send_anthropic(stand_in.url, assembly.envelope().request) == "Yes."
    assert "system" not in stand_in.body


def test_anthropic_runtime_in_system(stand_in: FakeProvider, tmp_path: Path) -> None:
    """Coop's runtime stays in the system prompt, after the breakpoints, and is never cached."""
    send_anthropic(stand_in.url, write(tmp_path, "anthropic", blueprint="coop").envelope().request)
    last = stand_in.body["system"][-1]
    assert last["text"].startswith("## Runtime\n")
    assert "cache_control" not in last


def test_stand_in_refuses(stand_in: FakeProvider, tmp_path: Path) -> None:
    """The fake does refuse what a provider refuses: a fifth breakpoint, an empty block, two users in a row."""
    from anthropic import BadRequestError

    request = dict(write(tmp_path, "anthropic").envelope().request)
    mark = {"cache_control": {"type": "ephemeral"}}
    block = {"type": "text", "text": "x", **mark}
    for change, words in (
        ({"system": [block] * 5}, "maximum of 4"),
        ({"system": [{"type": "text", "text": ""}]}, "non-empty"),
        ({"messages": [{"role": "user", "content": "a"}] * 2}, "alternate"),
        ({"tools": [{"name": "x"}]}, "input_schema"),
    ):
        with pytest.raises(BadRequestError, match=words):
            send_anthropic(stand_in.url, {**request, **change})


@pytest.mark.parametrize("shape", SHAPES)
def test_tail_arrives_first(shape: str, stand_in: FakeProvider, tmp_path: Path) -> None:
    """On the wire the tail is the first text of the newest message, and the person's words are the second."""
    SENDERS[shape](stand_in.url, write(tmp_path, shape).envelope().request)
    body = stand_in.body
    newest = (body.get("messages") or body.get("input") or body.get("contents"))[-1]
    tail, words = list_texts(newest)
    assert newest["role"] == "user"
    assert tail.startswith("## Time\n")
    assert words == "What is on today?"
