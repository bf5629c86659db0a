"""Envelopes: one request per provider's shape, as deterministic JSON."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from foreword.caching.blocks import LISTS, list_ttls
from foreword.errors import UnknownName
from foreword.frozen import frozen
from foreword.ledger.breakpoints import Breakpoint
from foreword.render import Block, Prompt
from foreword.turn import Message, Tool, Toolset
from foreword.wire.marks import PART, write_mark
from foreword.words import Placement

REMEMBERED = 512  # tools whose parameters are in order already
ANTHROPIC_ONLY = ("5m", "1h")  # lives that OpenAI does not know, should a prompt for one be shaped for the other


@frozen
class Letter:
    """What an envelope is made of: the prompt with its marks, and the conversation it opens."""

    prompt: Prompt
    marks: tuple[str | None, ...]
    model: str
    history: tuple[Message, ...]
    message: str
    tools: Toolset
    inserted: str = ""
    """What stands in a system message of its own behind the newest message, where the model takes one."""

    @property
    def system(self) -> str:
        """The system part as one text."""
        return "".join(block.text for block in self.prompt.blocks if block.placement is Placement.SYSTEM)

    @property
    def newest(self) -> tuple[str, ...]:
        """The text parts of the newest user message: the tail first, then the person's own words."""
        tail = "".join(block.text for block in self.prompt.blocks if block.placement is Placement.TAIL)
        return tuple(text for text in (tail, self.message) if text)


@frozen
class Envelope:
    """The body of a request, in one provider's shape."""

    shape: str
    model: str
    request: Mapping[str, Any]
    breakpoints: tuple[Breakpoint, ...] = ()
    """Where the request is marked for the cache."""

    def json(self) -> str:
        """The request as JSON, always the same for the same request."""
        return json.dumps(self.request, ensure_ascii=False, separators=(",", ":"))


def shape(letter: Letter, name: str) -> Envelope:
    """Put a letter into the envelope of this name."""
    if name not in SHAPES:
        raise UnknownName("format", name, SHAPES)
    request = SHAPES[name](letter)
    ttls = list_ttls(name, request) if any(letter.marks) and name in LISTS else ()
    breakpoints = tuple(
        Breakpoint(at=at, ttl=ttl, why="the end of a stable block") for at, ttl in enumerate(ttls) if ttl
    )
    return Envelope(shape=name, model=letter.model, request=request, breakpoints=breakpoints)


def shape_anthropic(letter: Letter) -> dict[str, Any]:
    """Shape the body of POST /v1/messages; max_tokens is the caller's."""
    request: dict[str, Any] = {"model": letter.model}
    if letter.tools:
        request["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": sort_schema(tool)}
            for tool in letter.tools.tools
        ]
    if system := [
        mark_text(block, ttl)
        for block, ttl in zip(letter.prompt.blocks, letter.marks, strict=True)
        if block.placement is Placement.SYSTEM
    ]:
        request["system"] = system
    request["messages"] = converse(letter, lambda text: {"type": "text", "text": text})
    return request


def mark_text(block: Block, ttl: str | None, name: str = "anthropic") -> dict[str, Any]:
    """Make a system block, with its cache mark if it has one."""
    content: dict[str, Any] = {"type": PART[name], "text": block.text}
    return {**content, **write_mark(name, ttl)} if ttl else content


def shape_openai(letter: Letter) -> dict[str, Any]:
    """Shape the body of POST /v1/chat/completions; where marks are taken the system part has one part per block."""
    content = mark_system(letter, "openai") or letter.system
    system = [{"role": "system", "content": content}] if letter.system else []
    request: dict[str, Any] = {
        "model": letter.model,
        "messages": [*system, *converse(letter, lambda text: {"type": "text", "text": text})],
    }
    if letter.tools:
        request["tools"] = [{"type": "function", "function": describe_function(tool)} for tool in letter.tools.tools]
    return request


def mark_system(letter: Letter, name: str) -> list[dict[str, Any]]:
    """Write the system part for OpenAI, one part per block; nothing where no mark is taken."""
    blocks = [
        (block, ttl)
        for block, ttl in zip(letter.prompt.blocks, letter.marks, strict=True)
        if block.placement is Placement.SYSTEM
    ]
    marked = any(ttl and ttl not in ANTHROPIC_ONLY for _, ttl in blocks)
    return [mark_text(block, ttl, name) for block, ttl in blocks] if marked else []


def shape_responses(letter: Letter) -> dict[str, Any]:
    """Shape the body of POST /v1/responses; instructions take no marks, so where there are some a message opens it."""
    request: dict[str, Any] = {"model": letter.model}
    marked = mark_system(letter, "responses")
    if letter.system and not marked:
        request["instructions"] = letter.system
    opening = [{"role": "system", "content": marked}] if marked else []
    request["input"] = [*opening, *converse(letter, lambda text: {"type": "input_text", "text": text})]
    if letter.tools:
        request["tools"] = [{"type": "function", **describe_function(tool)} for tool in letter.tools.tools]
    return request


def shape_gemini(letter: Letter) -> dict[str, Any]:
    """Shape the body of POST /v1beta/models/MODEL:generateContent; the model stands in the address."""
    roles = {"user": "user", "assistant": "model"}
    contents = [{"role": roles[message.role], "parts": [{"text": message.text}]} for message in letter.history]
    if letter.newest:
        contents.append({"role": "user", "parts": [{"text": text} for text in letter.newest]})
    request: dict[str, Any] = {}
    if letter.system:
        request["systemInstruction"] = {"parts": [{"text": letter.system}]}
    request["contents"] = contents
    if letter.tools:
        declarations = [describe_function(tool, schema="parametersJsonSchema") for tool in letter.tools.tools]
        request["tools"] = [{"functionDeclarations": declarations}]
    return request


def shape_plain(letter: Letter) -> dict[str, Any]:
    """Shape plain texts for an engine that takes nothing else; the tail is a message of its own before the person's."""
    newest = [{"role": "user", "text": text} for text in letter.newest]
    said = [{"role": message.role, "text": message.text} for message in letter.history]
    return {"system": letter.system, "messages": [*said, *newest]}


def converse(letter: Letter, part: Callable[[str], dict[str, str]]) -> list[dict[str, Any]]:
    """Write the conversation so far, and the newest message in its parts."""
    messages: list[dict[str, Any]] = [{"role": said.role, "content": said.text} for said in letter.history]
    if letter.newest:
        messages.append({"role": "user", "content": [part(text) for text in letter.newest]})
    if letter.inserted:
        messages.append({"role": "system", "content": [part(letter.inserted)]})
    return messages


def describe_function(tool: Tool, schema: str = "parameters") -> dict[str, Any]:
    """Describe a tool as OpenAI and Gemini take it."""
    return {"name": tool.name, "description": tool.description, schema: sort_schema(tool)}


@lru_cache(maxsize=REMEMBERED)
def sort_schema(tool: Tool) -> Any:
    """Write the parameters of a tool in one order; tools outlive many turns."""
    return sort_keys(tool.parameters)


def sort_keys(value: Any) -> Any:
    """Give every object of a schema one order of keys, however its server wrote it."""
    if isinstance(value, Mapping):
        return {key: sort_keys(value[key]) for key in sorted(value)}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [sort_keys(item) for item in value]
    return value


SHAPES: Mapping[str, Callable[[Letter], dict[str, Any]]] = {
    "anthropic": shape_anthropic,
    "openai": shape_openai,
    "responses": shape_responses,
    "gemini": shape_gemini,
    "plain": shape_plain,
}
PROVIDERS = {
    "anthropic": "anthropic",
    "openai": "openai",
    "openai-chat": "openai",
    "openai-responses": "responses",
    "google": "gemini",
    "google-gla": "gemini",
    "google-vertex": "gemini",
    "gemini": "gemini",
    "local": "plain",
}
