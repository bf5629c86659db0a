"""Envelopes: the request body in each provider's shape, as deterministic JSON, with its cache breakpoints."""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from itertools import accumulate, chain, takewhile
from typing import Any

from foreword.engine.render import Prompt, PromptBlock
from foreword.errors import UnknownName
from foreword.promptcache.cache_usage import Breakpoint, choose_breakpoints
from foreword.promptcache.ledger import LedgerState, SentBlock, SentRequest, make_sent_blocks
from foreword.promptcache.rules import (
    BREAKPOINT_KEYS,
    REQUEST_SHAPES,
    find_breakpoint_ttl,
    list_conversation,
    list_parts,
    list_ttls,
    make_blocks,
)
from foreword.tokens.models import CacheFacts, ModelFacts
from foreword.turn import Message, Tool, Toolset
from foreword.types import Pace, Placement, frozen

TEXT_PART_TYPES = {"anthropic": "text", "openai": "text", "responses": "input_text"}  # the type of a text part


def count_cached_blocks(blocks: Sequence[PromptBlock], facts: ModelFacts, tool_tokens: int) -> int:
    """Count the leading blocks that the provider can read from its cache in the next turn."""
    if facts.cache.marked:
        return max((at for at, ttl in enumerate(choose_block_ttls(blocks, facts, tool_tokens), 1) if ttl), default=0)
    leading = list(takewhile(lambda block: block.pace is not Pace.TURN, blocks))
    return len(leading) if tool_tokens + sum(block.tokens for block in leading) >= facts.cache_minimum else 0


def choose_block_ttls(blocks: Sequence[PromptBlock], facts: ModelFacts, tool_tokens: int) -> tuple[str | None, ...]:
    """Return the TTL of each block's breakpoint, or None where there is none."""
    marks: list[str | None] = [None] * len(blocks)
    if not facts.cache.marked:
        return tuple(marks)
    stable = takewhile(lambda block: block.pace is not Pace.TURN, blocks)
    ends = accumulate((block.tokens for block in stable), initial=tool_tokens)
    leading = [at for at, end in enumerate(ends, -1) if at >= 0 and end >= facts.cache_minimum]
    most = facts.cache.marks - 1  # one is reserved for the conversation
    # Other sessions share the prefix up to the first one; this session continues from the last ones.
    for at in leading if len(leading) <= most else (leading[0], *leading[1 - most :]):
        marks[at] = facts.cache.usual.name
    return tuple(marks)


def write_breakpoint(shape: str, ttl: str) -> dict[str, Any]:
    """Write a breakpoint in the format of a shape's provider."""
    if shape == "anthropic":
        return {"cache_control": {"type": "ephemeral", "ttl": ttl} if ttl == "1h" else {"type": "ephemeral"}}
    return {"prompt_cache_breakpoint": {"mode": "explicit"}}


def set_breakpoints(shape: str, request: Mapping[str, Any], breakpoints: Sequence[Breakpoint]) -> dict[str, Any]:
    """Set the breakpoints of a finished request and remove all others; blocks are numbered as the cache sees them."""
    ttls = {one.at: one.ttl for one in breakpoints}
    numbers = itertools.count()
    marked = dict(request)
    for field in ("tools", "system"):
        if request.get(field):
            parts = list_parts(request[field])
            marked[field] = [set_part_breakpoint(shape, part, ttls.get(next(numbers))) for part in parts]
    if request.get("instructions"):
        next(numbers)  # one string, which takes no breakpoint
    field = REQUEST_SHAPES[shape].field
    marked[field] = [set_message_breakpoints(shape, message, ttls, numbers) for message in request.get(field, ())]
    return marked


def set_message_breakpoints(
    shape: str, message: Mapping[str, Any], ttls: Mapping[int, str], numbers: Iterator[int]
) -> Any:
    """Set the breakpoints in one message of a request."""
    if "role" not in message:
        next(numbers)  # a call or its result in the input of a response, which takes no breakpoint
        return message
    parts = list_parts(message.get("content"), TEXT_PART_TYPES[shape])
    done = [set_part_breakpoint(shape, part, ttls.get(next(numbers))) for part in parts]
    if shape != "responses" and any(name not in ("role", "content") for name in message):
        next(numbers)  # the other fields of a message are one more block
    changed = any(new is not old for new, old in zip(done, parts, strict=True))
    return {**message, "content": done} if changed else message


def set_part_breakpoint(shape: str, part: Mapping[str, Any], ttl: str | None) -> Mapping[str, Any]:
    """Set or remove the breakpoint of a part; a part that does not change is returned unchanged."""
    if not ttl and not any(name in part for name in BREAKPOINT_KEYS):
        return part
    bare = {name: value for name, value in part.items() if name not in BREAKPOINT_KEYS}
    return {**bare, **write_breakpoint(shape, ttl)} if ttl else bare


ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


@frozen
class Segment:
    """Messages of a request: as JSON without breakpoints, and as blocks for the provider's cache."""

    start: int
    """The number of messages before it; part of the block keys."""
    count: int
    """The number of its messages."""
    written: bytes
    """Its messages as JSON, joined by commas."""
    pieces: tuple[SentBlock, ...]

    @property
    def end(self) -> int:
        """The number of the first message after it."""
        return self.start + self.count


def write_segment(
    shape: str, messages: Sequence[Mapping[str, Any]], start: int, facts: CacheFacts, count: Callable[[str], int]
) -> Segment:
    """Serialise messages of a conversation; `start` messages come before them."""
    if facts.marked:
        messages = [set_message_breakpoints(shape, message, {}, itertools.count()) for message in messages]
    return Segment(
        start=start,
        count=len(messages),
        written=write_messages(messages),
        pieces=make_sent_blocks(make_blocks(list_conversation(shape, messages, start)), facts, count),
    )


def mark_segment(shape: str, segment: Segment, ttls: Mapping[int, str]) -> tuple[bytes, dict[int, str]]:
    """Set breakpoints in a segment by block number; return its JSON and the breakpoints it then has."""
    numbers = itertools.count()
    marked = [
        set_message_breakpoints(shape, message, ttls, numbers) for message in json.loads(b"[" + segment.written + b"]")
    ]
    parts = enumerate(list_conversation(shape, marked))
    return write_messages(marked), {at: ttl for at, (_, value, _) in parts if (ttl := find_breakpoint_ttl(value))}


def write_request(shape: str, request: Mapping[str, Any], past: Sequence[bytes] = ()) -> bytes:
    """Serialise a request, with the earlier segments after the opening messages of its conversation."""
    if not past:
        return write_json(request)
    field = REQUEST_SHAPES[shape].field
    opening = count_opening(request[field])
    said = filter(None, (write_messages(request[field][:opening]), *past, write_messages(request[field][opening:])))
    fields = (
        write_json(name) + b":" + (b"[" + b",".join(said) + b"]" if name == field else write_json(value))
        for name, value in request.items()
    )
    return b"{" + b",".join(fields) + b"}"


def count_opening(messages: Sequence[Mapping[str, Any]]) -> int:
    """Count the system messages that open a conversation."""
    return sum(1 for _ in takewhile(lambda message: message.get("role") == "system", messages))


def write_messages(messages: Sequence[Mapping[str, Any]]) -> bytes:
    """Serialise messages, joined by commas."""
    return b",".join(map(write_json, messages))


def write_json(value: Any) -> bytes:
    """Serialise a value as UTF-8 JSON; characters that UTF-8 cannot encode are replaced."""
    return ENCODER.encode(value).encode("utf-8", "replace")


@frozen(eq=True)
class RequestTarget:
    """The model, the time, the token counter and the stable part of a request."""

    model: str
    """The full model name, including the provider."""
    facts: CacheFacts
    count: Callable[[str], int]
    at: datetime
    stable: int
    """The number of leading system blocks that no turn changes; equals the blocks of the ledger's prefix."""
    turn: str = ""


@frozen
class MarkedRequest:
    """A request with its cache breakpoints, and the state the ledger advances to once the provider accepts it."""

    request: Mapping[str, Any]
    """The request without the segments that were written earlier."""
    sent: SentRequest
    breakpoints: tuple[Breakpoint, ...]
    past: tuple[bytes, ...] = ()
    """The segments that were written earlier, with their current breakpoints."""


def mark_request(
    shape: str, request: Mapping[str, Any], state: LedgerState | None, to: RequestTarget, past: Sequence[Segment] = ()
) -> MarkedRequest:
    """Place breakpoints in a finished request and remove any it had.

    The earlier segments come after the opening messages of the conversation; they have no breakpoints yet.
    """
    bare = set_breakpoints(shape, request, ()) if to.facts.marked else dict(request)
    head, own = split_request(shape, bare, past[-1].end if past else None, to)
    pieces = [*head, *chain.from_iterable(segment.pieces for segment in past), *own]
    sent = SentRequest(model=to.model, pieces=tuple(pieces), at=to.at, turn=to.turn)
    if not to.facts.marked:
        return MarkedRequest(request=bare, sent=sent, breakpoints=(), past=tuple(segment.written for segment in past))
    system = [at for at, piece in enumerate(head) if piece.part == "system"]
    breakpoints = choose_breakpoints(state, sent, to.facts, system[: to.stable])
    begin, end = len(head), len(pieces) - len(own)
    deep = [one for one in breakpoints if begin <= one.at < end]
    # Blocks of the request itself are numbered as if the earlier segments were not there.
    near = [replace(one, at=one.at - (end - begin) * (one.at >= end)) for one in breakpoints if one not in deep]
    marked = set_breakpoints(shape, bare, near)
    # Some shapes have no field for a breakpoint, so read back those that the request really has.
    ttls = {at + (end - begin) * (at >= begin): ttl for at, ttl in enumerate(list_ttls(shape, marked)) if ttl}
    written, place = [segment.written for segment in past], begin
    for number, segment in enumerate(past):
        if inside := {one.at - place: one.ttl for one in deep if place <= one.at < place + len(segment.pieces)}:
            written[number], found = mark_segment(shape, segment, inside)
            ttls |= {place + at: ttl for at, ttl in found.items()}
        place += len(segment.pieces)
    for at, ttl in ttls.items():
        pieces[at] = pieces[at]._replace(ttl=ttl)
    return MarkedRequest(
        request=marked,
        sent=replace(sent, pieces=tuple(pieces)),
        breakpoints=tuple(one for one in breakpoints if one.at in ttls),
        past=tuple(written),
    )


def split_request(
    shape: str, request: Mapping[str, Any], end: int | None, to: RequestTarget
) -> tuple[tuple[SentBlock, ...], tuple[SentBlock, ...]]:
    """Split a request into the blocks that open it and the blocks of its messages, numbered from `end`."""
    said = request[REQUEST_SHAPES[shape].field]
    opening = count_opening(said)
    head = (*REQUEST_SHAPES[shape].list_prefix(request), *list_conversation(shape, said[:opening]))
    own = list_conversation(shape, said[opening:], opening if end is None else end)
    parts = make_blocks(head), make_blocks(own)
    return make_sent_blocks(parts[0], to.facts, to.count), make_sent_blocks(parts[1], to.facts, to.count)


MAX_CACHED_SCHEMAS = 512  # the maximum number of tools with cached sorted parameters
ANTHROPIC_TTLS = ("5m", "1h")  # TTLs that OpenAI does not accept, if a prompt for one provider is shaped for another


@frozen
class EnvelopeContent:
    """The content of an envelope: the prompt with its cache breakpoints, the conversation and the tools."""

    prompt: Prompt
    marks: tuple[str | None, ...]
    model: str
    history: tuple[Message, ...]
    message: str
    tools: Toolset
    inserted: str = ""
    """A separate system message after the newest message, if the model accepts one."""

    @property
    def system(self) -> str:
        """The system part as one text."""
        return "".join(block.text for block in self.prompt.blocks if block.placement is Placement.SYSTEM)

    @property
    def newest(self) -> tuple[str, ...]:
        """The text parts of the newest user message: the tail, then the user's text."""
        tail = "".join(block.text for block in self.prompt.blocks if block.placement is Placement.TAIL)
        return tuple(text for text in (tail, self.message) if text)


@frozen
class Envelope:
    """The body of a request, in one provider's shape."""

    shape: str
    model: str
    request: Mapping[str, Any]
    breakpoints: tuple[Breakpoint, ...] = ()
    """The cache breakpoints of the request."""
    past: tuple[bytes, ...] = ()
    """Earlier messages, already serialised; they follow the opening messages of the conversation."""

    def encode(self) -> bytes:
        """Return the bytes to send."""
        return write_request(self.shape, self.request, self.past)

    def json(self) -> str:
        """Serialise the request; equal requests give equal JSON."""
        return ENCODER.encode(self.request)


def build_envelope(content: EnvelopeContent, name: str) -> Envelope:
    """Build the envelope of a provider's shape."""
    if name not in SHAPES:
        raise UnknownName("format", name, SHAPES)
    request = SHAPES[name](content)
    ttls = list_ttls(name, request) if any(content.marks) and name in REQUEST_SHAPES else ()
    found = (Breakpoint(at=at, ttl=ttl, why="the end of a stable block") for at, ttl in enumerate(ttls) if ttl)
    return Envelope(shape=name, model=content.model, request=request, breakpoints=tuple(found))


def shape_anthropic(content: EnvelopeContent) -> dict[str, Any]:
    """Build the body of POST /v1/messages; the caller adds max_tokens."""
    tools = [
        {"name": tool.name, "description": tool.description, "input_schema": sort_schema(tool)}
        for tool in content.tools.tools
    ]
    messages = write_conversation(content, "anthropic")
    return make_body(
        model=content.model, tools=tools, system=write_system_parts(content, "anthropic"), messages=messages
    )


def shape_openai(content: EnvelopeContent) -> dict[str, Any]:
    """Build the body of POST /v1/chat/completions; with breakpoints, the system message has one part per block."""
    parts = write_system_parts(content, "openai") or content.system
    system = [{"role": "system", "content": parts}] if content.system else []
    tools = [{"type": "function", "function": describe_function(tool)} for tool in content.tools.tools]
    return make_body(model=content.model, messages=[*system, *write_conversation(content, "openai")], tools=tools)


def shape_responses(content: EnvelopeContent) -> dict[str, Any]:
    """Build the body of POST /v1/responses; with breakpoints a system message replaces the instructions."""
    marked = write_system_parts(content, "responses")
    opening = [{"role": "system", "content": marked}] if marked else []
    return make_body(
        model=content.model,
        instructions="" if marked else content.system,
        input=[*opening, *write_conversation(content, "responses")],
        tools=[{"type": "function", **describe_function(tool)} for tool in content.tools.tools],
    )


def shape_gemini(content: EnvelopeContent) -> dict[str, Any]:
    """Build the body of POST /v1beta/models/MODEL:generateContent; the model is part of the URL."""
    roles = {"user": "user", "assistant": "model"}
    said = [(roles[message.role], [message.text]) for message in content.history]
    said += [("user", [*content.newest])] if content.newest else []
    declarations = [describe_function(tool, schema="parametersJsonSchema") for tool in content.tools.tools]
    return make_body(
        systemInstruction={"parts": [{"text": content.system}]} if content.system else {},
        contents=[{"role": role, "parts": [{"text": text} for text in texts]} for role, texts in said],
        tools=[{"functionDeclarations": declarations}] if declarations else [],
    )


def shape_plain(content: EnvelopeContent) -> dict[str, Any]:
    """Build plain texts for an engine without a message format; the tail is a separate message before the user's."""
    newest = [{"role": "user", "text": text} for text in content.newest]
    said = [{"role": message.role, "text": message.text} for message in content.history]
    return {"system": content.system, "messages": [*said, *newest]}


def make_body(**fields: Any) -> dict[str, Any]:
    """Make a request without its empty fields; messages stay."""
    return {
        name: value for name, value in fields.items() if value or name in ("model", "messages", "input", "contents")
    }


def write_system_parts(content: EnvelopeContent, shape: str) -> list[dict[str, Any]]:
    """Build the system content with one part per block; empty for OpenAI without breakpoints."""
    pairs = zip(content.prompt.blocks, content.marks, strict=True)
    blocks = [(block.text, ttl) for block, ttl in pairs if block.placement is Placement.SYSTEM]
    if shape != "anthropic" and all(ttl is None or ttl in ANTHROPIC_TTLS for _, ttl in blocks):
        return []
    parts = [({"type": TEXT_PART_TYPES[shape], "text": text}, ttl) for text, ttl in blocks]
    return [{**part, **write_breakpoint(shape, ttl)} if ttl else part for part, ttl in parts]


def write_conversation(content: EnvelopeContent, shape: str) -> list[dict[str, Any]]:
    """Write the conversation so far, and the newest message in parts."""
    messages: list[dict[str, Any]] = [{"role": said.role, "content": said.text} for said in content.history]
    for role, texts in (("user", content.newest), ("system", (content.inserted,) if content.inserted else ())):
        if texts:
            parts = [{"type": TEXT_PART_TYPES[shape], "text": text} for text in texts]
            messages.append({"role": role, "content": parts})
    return messages


def describe_function(tool: Tool, schema: str = "parameters") -> dict[str, Any]:
    """Describe a tool in the format of OpenAI and Gemini."""
    return {"name": tool.name, "description": tool.description, schema: sort_schema(tool)}


@lru_cache(maxsize=MAX_CACHED_SCHEMAS)
def sort_schema(tool: Tool) -> Any:
    """Return the parameters of a tool with sorted keys, so that equal schemas have equal bytes."""
    return json.loads(json.dumps(tool.parameters, sort_keys=True))


SHAPES: Mapping[str, Callable[[EnvelopeContent], dict[str, Any]]] = {
    "anthropic": shape_anthropic,
    "openai": shape_openai,
    "responses": shape_responses,
    "gemini": shape_gemini,
    "plain": shape_plain,
}
SHAPE_OF_PROVIDER = {
    "anthropic": "anthropic",
    **dict.fromkeys(("openai", "openai-chat"), "openai"),
    "openai-responses": "responses",
    **dict.fromkeys(("google", "google-gla", "google-vertex", "gemini"), "gemini"),
    "local": "plain",
}
