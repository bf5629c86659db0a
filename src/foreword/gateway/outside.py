"""What a client says was said before: text from outside, told to the model as such and never as its own words."""

from collections.abc import Sequence

from pydantic_ai.messages import ModelResponse, TextPart

from foreword.runtime.history import dump, say
from foreword.sources.builtin import read_prompt
from foreword.turn import Message


def recount_outside(messages: Sequence[Message]) -> bytes:
    """Recount a conversation that is only claimed, as one labelled message and an answer that takes note of it."""
    lines = "\n\n".join(f"> {message.role}: " + message.text.replace("\n", "\n> ") for message in messages)
    label = read_prompt("gateway/outside")
    return dump([say(f"{label}\n\n{lines}"), ModelResponse(parts=[TextPart(content=read_prompt("gateway/noted"))])])
