"""Replies of models as a caller has them: the object of a provider's SDK, its JSON, or a `Reply` of any framework."""

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from foreword.agent.conversation import Answer, CallPart, TextPart
from foreword.agent.providers.model_clients import ModelWire
from foreword.agent.providers.provider import AnswerDone
from foreword.agent.providers.wire_shapes import WIRE_SHAPES
from foreword.errors import InputError
from foreword.events.event import Usage
from foreword.types import frozen

SHAPE_KEYS = {"choices": "openai", "candidates": "gemini", "output": "responses", "content": "anthropic"}
"""The wire shape of a whole reply, by a key that only this shape has."""


@frozen(eq=True)
class RequestedCall:
    """A tool call that a model asks for."""

    id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""
    """Why the call cannot be read; empty if it can. `run_tools` sends it to the model."""


@frozen(eq=True)
class Reply:
    """A reply of a model, for frameworks that hide the reply of the provider."""

    text: str = ""
    calls: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    """The tool calls: name and arguments by id."""
    tokens_in: int = 0
    """All input tokens, cached ones included; 0 if the usage is unknown."""
    tokens_out: int = 0
    cache_read: int = 0
    cache_write: int = 0
    id: str = ""
    """The provider's id of the reply."""


def read_reply(reply: object, opened: ModelWire) -> AnswerDone:
    """Read a reply in any shape; raise InputError if it is not a whole one."""
    if isinstance(reply, Reply):
        return convert_reply(reply)
    body = dump_reply(reply)
    shape = next((shape for key, shape in SHAPE_KEYS.items() if key in body), "")
    if not shape:
        raise InputError(
            f"this is no reply of a model: it has none of the keys {', '.join(SHAPE_KEYS)}, but {', '.join(body)[:200]}"
        )
    if shape == opened.shape:
        return opened.wire.read_reply(body, opened.family)
    return WIRE_SHAPES[shape].read_reply(body, "")


def dump_reply(reply: object) -> Mapping[str, Any]:
    """Return a reply as JSON values."""
    if isinstance(reply, Mapping):
        return reply
    dump = getattr(reply, "model_dump", None)
    if dump is None:
        raise InputError(
            f"a {type(reply).__name__} is no reply; give the whole reply of the SDK, its JSON as a dict, or a "
            "foreword.Reply. A stream has its whole reply at its end"
        )
    dumped: Mapping[str, Any] = dump(mode="json", by_alias=True, warnings=False)
    return dumped


def convert_reply(reply: Reply) -> AnswerDone:
    """Convert a reply of a framework."""
    texts = (TextPart(text=reply.text),) if reply.text else ()
    calls = (
        CallPart(id=call, name=name, arguments=json.dumps(dict(arguments), ensure_ascii=False))
        for call, (name, arguments) in reply.calls.items()
    )
    usage = Usage(
        tokens_in=reply.tokens_in,
        tokens_out=reply.tokens_out,
        cache_read=reply.cache_read,
        cache_write=reply.cache_write,
    )
    answer = Answer(parts=(*texts, *calls))
    return AnswerDone(answer=answer, usage=usage if reply.tokens_in else None, response_id=reply.id)
