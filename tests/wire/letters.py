"""Turns as provider requests."""

from collections.abc import Iterable
from pathlib import Path

from foreword.agent.tools.reading_tools import READING_TOOLS
from foreword.assembly import Assembly
from foreword.testing import make_workspace
from foreword.turn import Message, Tool, Toolset, Turn
from foreword.types import Trust

FILES = {
    "SOUL.md": "You are dry, kind and exact — “Grüße”, 🪶.\n",
    "AGENTS.md": "".join(f"{number}. Ask before you buy anything, and keep the receipt.\n" for number in range(1, 120)),
    "USER.md": "She keeps bees.\n",
}
LAMPS = Tool(
    name="lamps",
    description="Turns lamps on and off.",
    parameters={
        "type": "object",
        "properties": {"room": {"type": "string"}, "on": {"type": "boolean"}},
        "required": ["room"],
        "additionalProperties": False,
    },
    trust=Trust.PUBLIC,
)
MIXED = Tool(
    name="lamps",
    description="Turns lamps on and off.",
    parameters={
        "required": ["room"],
        "additionalProperties": False,
        "properties": {"on": {"type": "boolean"}, "room": {"type": "string"}},
        "type": "object",
    },
    trust=Trust.PUBLIC,
)
HISTORY = (Message(role="user", text="Good morning"), Message(role="assistant", text="Good morning, Alice."))
MODELS = {
    "anthropic": "anthropic:claude-sonnet-5",
    "openai": "openai:gpt-5",
    "responses": "openai-responses:gpt-5",
    "gemini": "google:gemini-3-pro",
}


def write(folder: Path, shape: str, tools: Iterable[Tool] = (LAMPS, *READING_TOOLS.tools), **facts: object) -> Assembly:
    """Assemble a turn of the owner for the model of a shape."""
    turn = {
        "user": "alice",
        "situation": "dm",
        "message": "What is on today?",
        "history": HISTORY,
        "model": MODELS[shape],
        "tools": Toolset(tools),
        **facts,
    }
    return make_workspace(folder, FILES).assemble(Turn(**turn))


def list_texts(message: dict) -> list[str]:
    """Return the text parts of a message, in any shape."""
    parts = message.get("content") or message.get("parts")
    return [part["text"] for part in parts]
