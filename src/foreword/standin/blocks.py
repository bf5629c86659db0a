"""A request as the blocks that a provider's cache sees, in the order in which it sees them."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from foreword.frozen import frozen

Body = Mapping[str, Any]


@frozen(eq=True)
class Block:
    """One block: what it is and where it stands, what is counted of it, and how long a mark on it holds."""

    key: str
    text: str
    ttl: str = ""


def write(value: Any) -> str:
    """Write a value as JSON, always the same for the same value."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def make_block(place: str, value: Any) -> Block:
    """Make a block of a part of a request; its mark is no part of what is cached."""
    if isinstance(value, Mapping):
        mark = value.get("cache_control")
        bare = {name: item for name, item in value.items() if name != "cache_control"}
        text = str(bare["text"]) if isinstance(bare.get("text"), str) else write(bare)
        return Block(key=f"{place} {write(bare)}", text=text, ttl=mark.get("ttl", "5m") if mark else "")
    return Block(key=f"{place} {write(value)}", text=value if isinstance(value, str) else write(value))


def list_parts(content: Any, kind: str = "text") -> list[Any]:
    """List the parts of a message, also of one that is a bare text."""
    return [{"type": kind, "text": content}] if isinstance(content, str) else list(content or ())


def list_anthropic(body: Body) -> Iterator[Block]:
    """List tools, system and messages, as POST /v1/messages caches them."""
    yield from (make_block("tool", tool) for tool in body.get("tools", ()))
    yield from (make_block("system", part) for part in list_parts(body.get("system")))
    for at, message in enumerate(body["messages"]):
        yield from (make_block(f"{at} {message['role']}", part) for part in list_parts(message["content"]))


def list_chat(body: Body) -> Iterator[Block]:
    """List tools and messages, as POST /v1/chat/completions caches them."""
    yield from (make_block("tool", tool) for tool in body.get("tools", ()))
    for at, message in enumerate(body["messages"]):
        yield from (make_block(f"{at} {message['role']}", part) for part in list_parts(message.get("content")))
        if rest := {name: value for name, value in message.items() if name not in ("role", "content")}:
            yield make_block(f"{at} {message['role']}", rest)


def list_responses(body: Body) -> Iterator[Block]:
    """List instructions, tools and input, as POST /v1/responses caches them."""
    yield make_block("instructions", body.get("instructions", ""))
    yield from (make_block("tool", tool) for tool in body.get("tools", ()))
    yield from (make_block(str(at), item) for at, item in enumerate(body["input"]))


def list_gemini(body: Body) -> Iterator[Block]:
    """List the system instruction, tools and contents, as generateContent caches them."""
    yield make_block("system", body.get("systemInstruction", ""))
    yield from (make_block("tool", tool) for tool in body.get("tools", ()))
    for at, content in enumerate(body["contents"]):
        yield from (make_block(f"{at} {content['role']}", part) for part in content["parts"])
