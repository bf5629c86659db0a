"""A request as the blocks that a provider's cache sees, in the order in which it sees them."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from foreword.frozen import frozen

Body = Mapping[str, Any]
MARKS = ("cache_control", "prompt_cache_breakpoint")  # as Anthropic and OpenAI write a mark


@frozen(eq=True)
class Block:
    """One block: what it is and where it stands, what is counted of it, and how long a mark on it holds."""

    key: str
    text: str
    ttl: str = ""
    tokens: int = -1
    """What it weighs, where that is known; else its text is counted."""
    name: str = ""
    """What a person calls it: the tool, the part of the system prompt, or the message."""


Part = tuple[str, Any, str]
"""A part of a request: where it stands, what it is, and what a person calls it."""
ENCODER = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def write(value: Any) -> str:
    """Write a value as JSON, always the same for the same value."""
    return ENCODER.encode(value)


def make_block(place: str, value: Any, name: str = "") -> Block:
    """Make a block of a part of a request; its mark is no part of what is cached."""
    if isinstance(value, Mapping):
        bare = {field: item for field, item in value.items() if field not in MARKS}
        written = write(bare)
        text = bare["text"] if isinstance(bare.get("text"), str) else written
        return Block(key=f"{place} {written}", text=text, ttl=find_ttl(value), name=name or place)
    written = write(value)
    text = value if isinstance(value, str) else written
    return Block(key=f"{place} {written}", text=text, name=name or place)


def find_ttl(value: Any) -> str:
    """Find how long the mark of a part holds; nothing where it has none."""
    if not isinstance(value, Mapping):
        return ""
    mark = next((value[field] for field in MARKS if value.get(field)), None)
    return mark.get("ttl", "") or ("5m" if "cache_control" in value else "30m") if mark else ""


def name_tool(tool: Body) -> str:
    """Name a tool of a request, whatever its shape."""
    declared: Sequence[Body] = tool.get("functionDeclarations") or ({},)
    return f"tool {tool.get('name') or tool.get('function', {}).get('name') or declared[0].get('name', '')}"


def list_parts(content: Any, kind: str = "text") -> list[Any]:
    """List the parts of a message, also of one that is a bare text."""
    return [{"type": kind, "text": content}] if isinstance(content, str) else list(content or ())


def list_tools(body: Body) -> Iterator[Part]:
    """List the tools, which come first at all but Google."""
    return (("tool", tool, name_tool(tool)) for tool in body.get("tools", ()))


def open_anthropic(body: Body) -> Iterator[Part]:
    """List tools and system, as POST /v1/messages caches them."""
    yield from list_tools(body)
    yield from (("system", part, "") for part in list_parts(body.get("system")))


def open_responses(body: Body) -> Iterator[Part]:
    """List tools and instructions, as POST /v1/responses caches them."""
    yield from list_tools(body)
    if body.get("instructions"):
        yield "instructions", body["instructions"], ""


def open_gemini(body: Body) -> Iterator[Part]:
    """List the system instruction and tools, as generateContent caches them."""
    yield "system", body.get("systemInstruction", ""), ""
    yield from list_tools(body)


def list_message(at: int, message: Body) -> Iterator[Part]:
    """List the parts of a message of Anthropic."""
    return ((f"{at} {message['role']}", part, "") for part in list_parts(message["content"]))


def list_spoken(at: int, message: Body) -> Iterator[Part]:
    """List the parts of a message of a chat, and what it has beside them."""
    yield from ((f"{at} {message['role']}", part, "") for part in list_parts(message.get("content")))
    if rest := {name: value for name, value in message.items() if name not in ("role", "content")}:
        yield f"{at} {message['role']}", rest, ""


def list_item(at: int, item: Body) -> Iterator[Part]:
    """List the parts of an item of the input of a response; a call or its result is one by itself."""
    if "role" in item:
        yield from ((f"{at} {item['role']}", part, "") for part in list_parts(item["content"], "input_text"))
    else:
        yield f"{at} {item.get('type', '')}".rstrip(), item, ""


def list_content(at: int, content: Body) -> Iterator[Part]:
    """List the parts of a content of Google."""
    return ((f"{at} {content['role']}", part, "") for part in content["parts"])


@frozen
class Shape:
    """How a request of one shape is taken apart."""

    field: str
    """What the conversation is called."""
    opens: Callable[[Body], Iterator[Part]]
    """Lists what stands before it."""
    goes_on: Callable[[int, Body], Iterator[Part]]
    """Lists one message of it, by its number."""


LISTS: Mapping[str, Shape] = {
    "anthropic": Shape(field="messages", opens=open_anthropic, goes_on=list_message),
    "openai": Shape(field="messages", opens=list_tools, goes_on=list_spoken),
    "responses": Shape(field="input", opens=open_responses, goes_on=list_item),
    "gemini": Shape(field="contents", opens=open_gemini, goes_on=list_content),
}


def list_conversation(shape: str, messages: Sequence[Body], start: int = 0) -> Iterator[Part]:
    """List messages of a conversation, of which so many stand before them."""
    goes_on = LISTS[shape].goes_on
    for at, message in enumerate(messages, start):
        yield from goes_on(at, message)


def list_all(shape: str, body: Body) -> Iterator[Part]:
    """List the parts of a request in one of the shapes."""
    yield from LISTS[shape].opens(body)
    yield from list_conversation(shape, body[LISTS[shape].field])


def list_blocks(shape: str, body: Body) -> tuple[Block, ...]:
    """List the blocks of a request in one of the shapes."""
    return make_blocks(list_all(shape, body))


def make_blocks(parts: Iterable[Part]) -> tuple[Block, ...]:
    """Make blocks of parts of a request."""
    return tuple(make_block(*part) for part in parts)


def list_ttls(shape: str, body: Body) -> tuple[str, ...]:
    """List how long the mark on each block of a request holds, without writing them all."""
    return tuple(find_ttl(value) for _, value, _ in list_all(shape, body))
