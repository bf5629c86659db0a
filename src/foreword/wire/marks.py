"""Cache marks: after each block of the leading stable run, where the provider takes marks."""

from collections.abc import Sequence
from itertools import takewhile

from foreword.render import Block
from foreword.tokens import ModelFacts
from foreword.words import Pace

MARKED = ("", "anthropic")  # without a provider the request is shaped for one that takes marks
MOST = 3  # a request may have four; one is left to the conversation
TTL = "5m"


def takes_marks(provider: str) -> bool:
    """Whether a provider caches up to marks, and not any equal prefix by itself."""
    return provider in MARKED


def count_cached(blocks: Sequence[Block], facts: ModelFacts, tool_tokens: int) -> int:
    """Count the leading blocks that the provider can read from its cache in the next turn."""
    if takes_marks(facts.provider):
        return max((at for at, ttl in enumerate(mark(blocks, facts, tool_tokens), 1) if ttl), default=0)
    leading = list(takewhile(lambda block: block.pace is not Pace.TURN, blocks))
    return len(leading) if tool_tokens + sum(block.tokens for block in leading) >= facts.cache_minimum else 0


def mark(blocks: Sequence[Block], facts: ModelFacts, tool_tokens: int) -> tuple[str | None, ...]:
    """Return the time to live of each block's mark, or None where there is no mark."""
    marks: list[str | None] = [None] * len(blocks)
    if not takes_marks(facts.provider):
        return tuple(marks)
    before = tool_tokens
    leading: list[int] = []
    for at, block in enumerate(blocks):
        if block.pace is Pace.TURN:
            break
        before += block.tokens
        if before >= facts.cache_minimum:
            leading.append(at)
    # The first one is where other sessions meet this one; the last ones are where it goes on.
    for at in leading if len(leading) <= MOST else (leading[0], *leading[1 - MOST :]):
        marks[at] = TTL
    return tuple(marks)
