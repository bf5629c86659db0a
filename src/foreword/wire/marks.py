"""Cache marks: after each block of the leading stable run, where the provider takes marks."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from foreword.caching.blocks import MARKS, list_parts
from foreword.ledger.breakpoints import Breakpoint
from foreword.render import Block
from foreword.tokens import ModelFacts
from foreword.words import Pace

PART = {"anthropic": "text", "openai": "text", "responses": "input_text"}  # what a text is called in a message
SAID = {"responses": "input"}  # what the conversation is called, where that is not `messages`


def count_cached(blocks: Sequence[Block], facts: ModelFacts, tool_tokens: int) -> int:
    """Count the leading blocks that the provider can read from its cache in the next turn."""
    if facts.cache.marked:
        return max((at for at, ttl in enumerate(mark(blocks, facts, tool_tokens), 1) if ttl), default=0)
    leading = list(takewhile(lambda block: block.pace is not Pace.TURN, blocks))
    return len(leading) if tool_tokens + sum(block.tokens for block in leading) >= facts.cache_minimum else 0


def mark(blocks: Sequence[Block], facts: ModelFacts, tool_tokens: int) -> tuple[str | None, ...]:
    """Return the time to live of each block's mark, or None where there is no mark."""
    marks: list[str | None] = [None] * len(blocks)
    if not facts.cache.marked:
        return tuple(marks)
    before = tool_tokens
    leading: list[int] = []
    for at, block in enumerate(blocks):
        if block.pace is Pace.TURN:
            break
        before += block.tokens
        if before >= facts.cache_minimum:
            leading.append(at)
    most = facts.cache.marks - 1  # one is left to the conversation
    # The first one is where other sessions meet this one; the last ones are where it goes on.
    for at in leading if len(leading) <= most else (leading[0], *leading[1 - most :]):
        marks[at] = facts.cache.usual.name
    return tuple(marks)


def write_mark(shape: str, ttl: str) -> dict[str, Any]:
    """Write a mark as the provider of a shape takes it."""
    if shape == "anthropic":
        return {"cache_control": {"type": "ephemeral", "ttl": ttl} if ttl == "1h" else {"type": "ephemeral"}}
    return {"prompt_cache_breakpoint": {"mode": "explicit"}}


def put_marks(shape: str, request: Mapping[str, Any], breakpoints: Sequence[Breakpoint]) -> dict[str, Any]:
    """Put marks into a finished request, in the place of all that it had; blocks are counted as the cache sees them."""
    ttls = {one.at: one.ttl for one in breakpoints}
    numbers = count_up()
    marked = dict(request)
    for field in ("tools", "system"):
        if request.get(field):
            parts = list_parts(request[field])
            marked[field] = [put_mark(shape, part, ttls.get(next(numbers))) for part in parts]
    if request.get("instructions"):
        next(numbers)  # one string, which takes no mark
    said = SAID.get(shape, "messages")
    marked[said] = [put_into(shape, message, ttls, numbers) for message in request.get(said, ())]
    return marked


def put_into(shape: str, message: Mapping[str, Any], ttls: Mapping[int, str], numbers: Iterator[int]) -> Any:
    """Put marks into one message of a request."""
    if "role" not in message:
        next(numbers)  # a call or its result among the input of a response, which takes none
        return message
    parts = list_parts(message.get("content"), PART[shape])
    done = [put_mark(shape, part, ttls.get(next(numbers))) for part in parts]
    if shape not in SAID and any(name not in ("role", "content") for name in message):
        next(numbers)  # what a message has beside its content is a block of its own
    changed = any(new is not old for new, old in zip(done, parts, strict=True))
    return {**message, "content": done} if changed else message


def put_mark(shape: str, part: Mapping[str, Any], ttl: str | None) -> Mapping[str, Any]:
    """Put a mark on a part, or take it off; one that has none and gets none stays as it is."""
    if not ttl and not any(name in part for name in MARKS):
        return part
    bare = {name: value for name, value in part.items() if name not in MARKS}
    return {**bare, **write_mark(shape, ttl)} if ttl else bare


def count_up() -> Iterator[int]:
    """Count the blocks of a request."""
    at = 0
    while True:
        yield at
        at += 1
