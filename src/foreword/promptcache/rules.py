"""A provider's prefix cache: a request as blocks, the rules for reading and writing them, and calibrated counts."""

import json
import math
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from itertools import accumulate
from threading import Lock
from typing import Any

from foreword.tokens.image_tokens import estimate_image_tokens, read_image_header
from foreword.tokens.models import CacheFacts, CacheTtl
from foreword.types import frozen

Body = Mapping[str, Any]
BREAKPOINT_KEYS = ("cache_control", "prompt_cache_breakpoint")  # cache breakpoints of Anthropic and OpenAI


@frozen(eq=True)
class CacheBlock:
    """A block: its content and position, the text to count, and the TTL of its cache breakpoint."""

    key: str
    text: str
    ttl: str = ""
    tokens: int = -1  # its tokens if known; otherwise its text is counted
    name: str = ""  # its display name: the tool, the part of the system prompt, or the message


RequestPart = tuple[str, Any, str]
"""A part of a request: position, value, and display name."""
ENCODER = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def serialize_json(value: Any) -> str:
    """Serialize a value as canonical JSON."""
    return ENCODER.encode(value)


def make_block(place: str, value: Any, name: str = "") -> CacheBlock:
    """Make a block from a part of a request; its breakpoint is not part of the cached content."""
    if isinstance(value, Mapping):
        bare = {field: item for field, item in value.items() if field not in BREAKPOINT_KEYS}
        written = serialize_json(bare)
        ttl = find_breakpoint_ttl(value)
        if (tokens := count_image_part(bare)) is not None:
            return CacheBlock(key=f"{place} {written}", text="", ttl=ttl, tokens=tokens, name=name or place)
        text = bare["text"] if isinstance(bare.get("text"), str) else written
        return CacheBlock(key=f"{place} {written}", text=text, ttl=ttl, name=name or place)
    written = serialize_json(value)
    text = value if isinstance(value, str) else written
    return CacheBlock(key=f"{place} {written}", text=text, name=name or place)


def read_image_part(part: Body) -> tuple[str, str, str] | None:
    """Return the shape, the media type and the base64 of an image in a request; None for any other part."""
    match part:
        case {"type": "image", "source": {"media_type": str(kind), "data": str(data)}}:
            return "anthropic", kind, data
        case {"inlineData": {"mimeType": str(kind), "data": str(data)}}:
            return "gemini", kind, data
        case {"type": "image_url", "image_url": {"url": str(url)}} | {"type": "input_image", "image_url": str(url)}:
            head, _, data = url.partition(";base64,")
            return "openai", head.removeprefix("data:"), data
    return None


def count_image_part(part: Body) -> int | None:
    """Estimate the tokens of an image in a request; None for any other part."""
    found = read_image_part(part)
    if found is None:
        return None
    shape, _, data = found
    try:
        header = read_image_header(b64decode(data))
    except ValueError:
        header = None
    return estimate_image_tokens(shape, header.width, header.height) if header else 0


def find_breakpoint_ttl(value: Any) -> str:
    """Return the TTL of a part's cache breakpoint; empty if it has none."""
    if not isinstance(value, Mapping) or value.keys().isdisjoint(BREAKPOINT_KEYS):
        return ""
    mark = next((value[field] for field in BREAKPOINT_KEYS if value.get(field)), None)
    return mark.get("ttl", "") or ("5m" if "cache_control" in value else "30m") if mark else ""


def name_tool(tool: Body) -> str:
    """Return the display name of a tool, in any request shape."""
    declared: Sequence[Body] = tool.get("functionDeclarations") or ({},)
    return f"tool {tool.get('name') or tool.get('function', {}).get('name') or declared[0].get('name', '')}"


def list_parts(content: Any, kind: str = "text") -> list[Any]:
    """List the parts of a message; a plain text becomes one part."""
    return [{"type": kind, "text": content}] if isinstance(content, str) else list(content or ())


def list_tools(body: Body) -> Iterator[RequestPart]:
    """List the tools; they come first for all providers but Google."""
    return (("tool", tool, name_tool(tool)) for tool in body.get("tools", ()))


def list_anthropic_prefix(body: Body) -> Iterator[RequestPart]:
    """List tools and system as POST /v1/messages caches them."""
    yield from list_tools(body)
    yield from (("system", part, "") for part in list_parts(body.get("system")))


def list_responses_prefix(body: Body) -> Iterator[RequestPart]:
    """List tools and instructions as POST /v1/responses caches them."""
    yield from list_tools(body)
    if body.get("instructions"):
        yield "instructions", body["instructions"], ""


def list_gemini_prefix(body: Body) -> Iterator[RequestPart]:
    """List the system instruction and tools as generateContent caches them."""
    yield "system", body.get("systemInstruction", ""), ""
    yield from list_tools(body)


def list_anthropic_message(at: int, message: Body) -> Iterator[RequestPart]:
    """List the parts of an Anthropic message."""
    return ((f"{at} {message['role']}", part, "") for part in list_parts(message["content"]))


def list_chat_message(at: int, message: Body) -> Iterator[RequestPart]:
    """List the parts of a Chat Completions message, then its other fields."""
    yield from ((f"{at} {message['role']}", part, "") for part in list_parts(message.get("content")))
    if rest := {name: value for name, value in message.items() if name not in ("role", "content")}:
        yield f"{at} {message['role']}", rest, ""


def list_responses_item(at: int, item: Body) -> Iterator[RequestPart]:
    """List the parts of a Responses input item; a call or a result is one part."""
    if "role" in item:
        yield from ((f"{at} {item['role']}", part, "") for part in list_parts(item["content"], "input_text"))
    else:
        yield f"{at} {item.get('type', '')}".rstrip(), item, ""


def list_gemini_content(at: int, content: Body) -> Iterator[RequestPart]:
    """List the parts of a Gemini content."""
    return ((f"{at} {content['role']}", part, "") for part in content["parts"])


@frozen
class RequestShape:
    """How to split a request of one shape."""

    field: str  # the key of the conversation
    list_prefix: Callable[[Body], Iterator[RequestPart]]  # the parts before the conversation
    list_message: Callable[[int, Body], Iterator[RequestPart]]  # the parts of one message, by its number


REQUEST_SHAPES: Mapping[str, RequestShape] = {
    "anthropic": RequestShape(field="messages", list_prefix=list_anthropic_prefix, list_message=list_anthropic_message),
    "openai": RequestShape(field="messages", list_prefix=list_tools, list_message=list_chat_message),
    "responses": RequestShape(field="input", list_prefix=list_responses_prefix, list_message=list_responses_item),
    "gemini": RequestShape(field="contents", list_prefix=list_gemini_prefix, list_message=list_gemini_content),
}


def list_conversation(shape: str, messages: Sequence[Body], start: int = 0) -> Iterator[RequestPart]:
    """List the parts of messages, numbered from `start`."""
    list_message = REQUEST_SHAPES[shape].list_message
    for at, message in enumerate(messages, start):
        yield from list_message(at, message)


def list_request_parts(shape: str, body: Body) -> Iterator[RequestPart]:
    """List the parts of a request."""
    yield from REQUEST_SHAPES[shape].list_prefix(body)
    yield from list_conversation(shape, body[REQUEST_SHAPES[shape].field])


def list_blocks(shape: str, body: Body) -> tuple[CacheBlock, ...]:
    """List the blocks of a request."""
    return make_blocks(list_request_parts(shape, body))


def make_blocks(parts: Iterable[RequestPart]) -> tuple[CacheBlock, ...]:
    """Make blocks from parts of a request."""
    return tuple(make_block(*part) for part in parts)


def list_ttls(shape: str, body: Body) -> tuple[str, ...]:
    """List the breakpoint TTL of each block of a request, without serializing the blocks."""
    return tuple(find_breakpoint_ttl(value) for _, value, _ in list_request_parts(shape, body))


MIN_PIECE_CHARS = 512  # characters of a text compared at once if any equal prefix is read
LINE_START = re.compile(r"(?<=\n)(?=[^\s/])")  # before a line that no token joins to the previous one


@frozen(eq=True)
class CacheUsage:
    """The input tokens of one request: read from the cache, written to it, and neither."""

    read: int = 0
    write: int = 0
    hour: int = 0  # written tokens with a longer TTL than usual, which cost more
    fresh: int = 0

    @property
    def total(self) -> int:
        """All of the input."""
        return self.read + self.write + self.fresh

    def __add__(self, other: "CacheUsage") -> "CacheUsage":
        return CacheUsage(
            read=self.read + other.read,
            write=self.write + other.write,
            hour=self.hour + other.hour,
            fresh=self.fresh + other.fresh,
        )


@frozen(eq=True)
class CachedPrefix:
    """A cached prefix: its expiry, and the TTL that each use renews."""

    until: datetime
    seconds: int


@frozen
class NamedRequest:
    """A request as named prefixes: where each ends, which have breakpoints, and their TTLs."""

    name: Callable[[int], str]  # names the prefix that ends with a block
    ends: Sequence[int]  # cumulative tokens at the end of each prefix
    marks: Sequence[int]
    lives: Sequence[CacheTtl]  # the TTL of each breakpoint


class PrefixCache:
    """Stores sent prefixes as a provider does, for all its clients."""

    def __init__(
        self, clock: Callable[[], datetime], count: Callable[[str], int], kept: Mapping[str, CachedPrefix] | None = None
    ) -> None:
        self._clock = clock
        self._count = count
        self.kept: dict[str, CachedPrefix] = dict(kept or {})
        self._lock = Lock()

    def clear(self) -> None:
        """Remove all prefixes, as a provider may at any time."""
        with self._lock:
            self.kept.clear()

    def use(self, model: str, blocks: Sequence[CacheBlock], facts: CacheFacts) -> CacheUsage:
        """Count a request by its provider's rules and cache it."""
        pieces = blocks if facts.marked else list(split_blocks(blocks))
        weights = [self._count(block.text) if block.tokens < 0 else block.tokens for block in pieces]
        return self.use_request(
            NamedRequest(
                name=hash_prefixes(model, tuple(block.key for block in pieces)).__getitem__,
                ends=list(accumulate(weights)),
                marks=[at for at, block in enumerate(pieces) if block.ttl],
                lives=[facts.find_ttl(block.ttl) for block in pieces if block.ttl],
            ),
            facts,
        )

    def use_request(self, request: NamedRequest, facts: CacheFacts) -> CacheUsage:
        """Count a request whose prefixes already have names, and cache it."""
        return self._use_marks(request, facts) if facts.marked else self._use_prefix(request, facts)

    def _use_marks(self, request: NamedRequest, facts: CacheFacts) -> CacheUsage:
        """Count a request to a provider that caches up to breakpoints."""
        name, ends = request.name, request.ends
        lives = dict(zip(request.marks, request.lives, strict=True))
        marks = [at for at in find_breakpoints(request.marks, len(ends), facts) if ends[at] >= facts.minimum]
        with self._lock:
            hit = next((back for back in list_lookup_positions(marks, facts.lookback) if self._use(name(back))), None)
            read = ends[hit] if hit is not None else 0
            hour = 0
            for at in marks:
                life = lives.get(at, facts.usual)
                if ends[at] > read and life != facts.usual:
                    hour = ends[at] - read
                # A breakpoint on a cached prefix counts as a use, not as a write; the prefix keeps its TTL.
                if not self._use(name(at)):
                    self._keep(name(at), life.seconds)
        written = max(0, ends[marks[-1]] - read) if marks else 0
        return CacheUsage(read=read, write=written, hour=hour, fresh=(ends[-1] if ends else 0) - read - written)

    def _use_prefix(self, request: NamedRequest, facts: CacheFacts) -> CacheUsage:
        """Count a request to a provider that caches any equal prefix, in steps of `facts.step` tokens."""
        ends = request.ends
        names = list(map(request.name, range(len(ends))))
        with self._lock:
            hit = next((at for at in reversed(range(len(names))) if self._use(names[at])), None)
            self.kept.update(dict.fromkeys(names, self._make(facts.usual.seconds)))
        read = ends[hit] // facts.step * facts.step if hit is not None and ends[hit] >= facts.minimum else 0
        return CacheUsage(read=read, fresh=(ends[-1] if ends else 0) - read)

    def _use(self, name: str) -> bool:
        """Whether a prefix is cached; each use renews its TTL."""
        kept = self.kept.get(name)
        if kept is None or kept.until <= self._clock():
            return False
        self._keep(name, kept.seconds)
        return True

    def _keep(self, name: str, seconds: int) -> None:
        self.kept[name] = self._make(seconds)

    def _make(self, seconds: int) -> CachedPrefix:
        return CachedPrefix(until=self._clock() + timedelta(seconds=seconds), seconds=seconds)


def find_breakpoints(given: Sequence[int], count: int, facts: CacheFacts) -> Sequence[int]:
    """Return the breakpoints of a request, including the one the provider sets on the newest message."""
    if not (facts.newest and count):
        return given
    last = count - 1
    return [*[at for at in given if at != last][1 - facts.marks :], last]


def list_lookup_positions(marks: Sequence[int], lookback: int) -> Iterator[int]:
    """List the positions where the provider looks for a cached prefix, from the last breakpoint backwards."""
    for at in reversed(marks):
        yield from range(at, max(-1, at - lookback) if lookback else -1, -1)


def split_blocks(blocks: Sequence[CacheBlock]) -> Iterator[CacheBlock]:
    """Split long texts at line ends: a cache without breakpoints also reads a partly equal text."""
    for block in blocks:
        if block.tokens >= 0 or len(block.text) <= MIN_PIECE_CHARS:
            yield block
            continue
        yield from split_block(block)


@lru_cache(maxsize=256)
def split_block(block: CacheBlock) -> tuple[CacheBlock, ...]:
    """Split one block."""
    place = block.key.partition(" ")[0]
    return tuple(
        replace(block, key=f"{place} {at} {piece}", text=piece) for at, piece in enumerate(split_text(block.text))
    )


def split_text(text: str) -> tuple[str, ...]:
    """Split a text into pieces of a few hundred characters, at line ends that no token crosses."""
    pieces, piece = [], ""
    for line in LINE_START.split(text):
        piece += line
        if len(piece) >= MIN_PIECE_CHARS:
            pieces.append(piece)
            piece = ""
    return (*pieces, piece) if piece else tuple(pieces)


@lru_cache(maxsize=128)
def hash_prefixes(model: str, keys: tuple[str, ...]) -> tuple[str, ...]:
    """Name the prefixes of a request by its block keys; cached because a request is counted several times."""
    names, chain = [], sha256(model.encode())
    for key in keys:
        chain.update(f"\0{key}".encode("utf-8", "surrogatepass"))
        names.append(chain.copy().hexdigest()[:32])
    return tuple(names)


MAX_WINDOW_FACTOR = 2.0  # billed tokens per counted token; a higher ratio means that something else was counted
AVERAGED_CALLS = 50  # calls in the moving average


@frozen(eq=True)
class Calibration:
    """The learned ratio between counted and billed tokens of a model."""

    model: str
    calls: int = 0
    ratio: float = 1.0  # billed tokens per counted token
    raw: float = 0.0  # mean relative error of the uncorrected counts
    error: float = 0.0  # mean relative error with the correction known before each call

    @property
    def factor(self) -> float:
        """Return the factor for estimates; 1.0 before the first call."""
        return self.ratio if self.calls else 1.0

    def correct(self, tokens: int) -> int:
        """Correct an estimate."""
        return math.ceil(tokens * self.ratio) if self.calls else tokens

    def correct_usage(self, counted: CacheUsage) -> CacheUsage:
        """Correct all counts of a predicted call by the same factor."""
        if not self.calls:
            return counted
        total, read, write = self.correct(counted.total), self.scale(counted.read), self.scale(counted.write)
        return CacheUsage(read=read, write=write, hour=self.scale(counted.hour), fresh=max(0, total - read - write))

    def scale(self, tokens: int) -> int:
        """Correct a part of an estimate or a difference; may round down."""
        return round(tokens * self.factor)

    @property
    def window_factor(self) -> float:
        """Return the factor by which to shrink a context window; never below 1.0."""
        return min(max(1.0, self.ratio), MAX_WINDOW_FACTOR) if self.calls else 1.0


NO_CALIBRATION = Calibration(model="")
"""No calibration: counts stay unchanged."""


def update_calibration(known: Calibration, counted: int, reported: int) -> Calibration:
    """Update a calibration with one call; ignore a call without usage."""
    if counted <= 0 or reported <= 0:
        return known
    weight = 1 / min(known.calls + 1, AVERAGED_CALLS)
    before = known.ratio if known.calls else 1.0
    return Calibration(
        model=known.model,
        calls=known.calls + 1,
        ratio=before + weight * (reported / counted - before),
        raw=known.raw + weight * (abs(counted - reported) / reported - known.raw),
        error=known.error + weight * (abs(counted * before - reported) / reported - known.error),
    )


def format_calibration(known: Calibration) -> str:
    """Describe a calibration in one line."""
    if not known.calls:
        return f"{known.model}: nothing reported yet"
    plural = "" if known.calls == 1 else "s"
    return (
        f"{known.model}: counts × {known.ratio:.3f} by {known.calls} call{plural}, off by {known.error:.1%} on average"
    )


def format_correction(known: Calibration) -> str:
    """Describe the correction of a prediction and its mean error."""
    plural = "" if known.calls == 1 else "s"
    return f"counts × {known.ratio:.2f}, off by {known.error:.1%} on average ({known.calls:,} call{plural})"
