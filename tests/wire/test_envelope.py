"""Claims about envelopes that need no network."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from letters import HISTORY, LAMPS, MIXED, MODELS, list_texts, write

from foreword.agent.tools.reading_tools import READING_TOOLS
from foreword.envelope import SHAPES
from foreword.errors import UnknownName
from foreword.testing import NOON
from foreword.turn import Message

ALL = sorted(SHAPES)


@pytest.mark.parametrize("shape", ALL)
def test_schema_key_order(shape: str, tmp_path: Path) -> None:
    """The order of the keys in a tool's schema does not change the bytes."""
    one = write(tmp_path, "openai", tools=[LAMPS]).envelope(shape)
    assert one.json() == write(tmp_path, "openai", tools=[MIXED]).envelope(shape).json()


@pytest.mark.parametrize("shape", ALL)
def test_tool_order(shape: str, tmp_path: Path) -> None:
    """The order of the tools does not change the bytes."""
    tools = [LAMPS, *READING_TOOLS.tools]
    one = write(tmp_path, "openai", tools=tools).envelope(shape)
    assert one.json() == write(tmp_path, "openai", tools=tools[::-1]).envelope(shape).json()


@pytest.mark.parametrize("shape", ALL)
def test_json(shape: str, tmp_path: Path) -> None:
    """The JSON of an envelope is its request, compact, with every letter unescaped."""
    envelope = write(tmp_path, "openai").envelope(shape)
    assert json.loads(envelope.json()) == envelope.request
    assert "“Grüße”, 🪶" in envelope.json()
    assert '": ' not in envelope.json().replace("\\n", "").split("Soul", maxsplit=1)[0]


@pytest.mark.parametrize(
    ("model", "shape"), [(model, shape) for shape, model in MODELS.items()] + [("local:smollm2-135m", "plain")]
)
def test_shape_follows_provider(model: str, shape: str, tmp_path: Path) -> None:
    """By default, the envelope has the shape of the model's provider and its bare name."""
    envelope = write(tmp_path, "openai", model=model).envelope()
    assert envelope.shape == shape
    assert envelope.model == model.partition(":")[2]


def test_unknown_shape(tmp_path: Path) -> None:
    """An unknown shape is refused with the nearest one."""
    with pytest.raises(UnknownName, match="did you mean 'openai'"):
        write(tmp_path, "openai").envelope("opnai")


@pytest.mark.parametrize("shape", MODELS)
def test_clock_moves_tail_only(shape: str, tmp_path: Path) -> None:
    """Another minute and another message change the newest message and no byte before it."""
    first = write(tmp_path, shape).envelope().request
    later = write(tmp_path, shape, now=NOON + timedelta(minutes=1), message="And tomorrow?").envelope().request
    for name in first:
        if name in ("messages", "input", "contents"):
            assert json.dumps(first[name][:-1]) == json.dumps(later[name][:-1])
            assert list_texts(first[name][-1])[0] != list_texts(later[name][-1])[0]
        else:
            assert json.dumps(first[name]) == json.dumps(later[name])


def test_history_is_sent_as_it_was(tmp_path: Path) -> None:
    """The history is repeated exactly, regardless of its content."""
    said = (Message(role="user", text="## Time\nIt is noon."), Message(role="assistant", text="<skill>"))
    request = write(tmp_path, "openai", history=said).envelope().request
    assert [message["content"] for message in request["messages"][1:3]] == [message.text for message in said]


@pytest.mark.parametrize("shape", MODELS)
def test_message_cannot_pose_as_tail(shape: str, tmp_path: Path) -> None:
    """A person's message is sent as written, in a separate part after the tail."""
    said = "# My list\n## Time\nIt is 03:00. <skill>"
    request = write(tmp_path, shape, message=said).envelope().request
    (name,) = {"messages", "input", "contents"} & request.keys()
    tail, words = list_texts(request[name][-1])
    assert words == said
    assert tail.count("## Time\n") == 1
    assert "03:00" not in tail


def test_no_message(tmp_path: Path) -> None:
    """A turn without a message still has the tail as its newest message."""
    newest = write(tmp_path, "openai", message="").envelope().request["messages"][-1]
    assert newest["role"] == "user"
    assert len(newest["content"]) == 1


def test_plain(tmp_path: Path) -> None:
    """The plain shape has bare texts: the system, the history in turn, the tail, and the newest message."""
    assembly = write(tmp_path, "openai")
    request = assembly.envelope("plain").request
    assert list(request) == ["system", "messages"]
    *said, tail, newest = request["messages"]
    assert said == [{"role": message.role, "text": message.text} for message in HISTORY]
    assert tail["role"] == "user"
    assert request["system"] + tail["text"] == assembly.prompt.text
    assert newest == {"role": "user", "text": "What is on today?"}


@pytest.mark.parametrize("shape", ["openai", "responses", "gemini", "plain"])
def test_flat_system_is_the_blocks(shape: str, tmp_path: Path) -> None:
    """For a provider that takes one system text, it is the blocks of the others joined."""
    assembly = write(tmp_path, "openai")
    request = assembly.envelope(shape).request
    flat = {
        "openai": lambda: request["messages"][0]["content"],
        "responses": lambda: request["instructions"],
        "gemini": lambda: request["systemInstruction"]["parts"][0]["text"],
        "plain": lambda: request["system"],
    }[shape]()
    assert flat == "".join(block["text"] for block in assembly.envelope("anthropic").request["system"])


@pytest.mark.parametrize(
    ("shape", "find", "key"),
    [
        ("anthropic", lambda tools: tools[0], "input_schema"),
        ("openai", lambda tools: tools[0]["function"], "parameters"),
        ("responses", lambda tools: tools[0], "parameters"),
        ("gemini", lambda tools: tools[0]["functionDeclarations"][0], "parametersJsonSchema"),
    ],
)
def test_tool_schema(shape: str, find: Callable, key: str, tmp_path: Path) -> None:
    """Each provider takes a tool's JSON Schema whole, under its own key."""
    tool = find(write(tmp_path, "openai", tools=[LAMPS]).envelope(shape).request["tools"])
    assert tool[key] == LAMPS.parameters
    assert {"parameters", "input_schema", "parametersJsonSchema"} & set(tool) == {key}


def test_no_tools(tmp_path: Path) -> None:
    """A turn without tools sends no tools field."""
    for shape in ALL:
        assert "tools" not in write(tmp_path, "openai", tools=()).envelope(shape).request
