"""Cache marks: after each block of the leading stable run, where the provider takes marks."""

from collections.abc import Sequence

from foreword.render import Block
from foreword.tokens import ModelFacts
from foreword.words import Pace

MOST = 3  # a request may have four; one is left to the conversation
TTL = "5m"


def mark(blocks: Sequence[Block], facts: ModelFacts, tool_tokens: int) -> tuple[str | None, ...]:
    """Return the time to live of each block's mark, or None where there is no mark."""
    marks: list[str | None] = [None] * len(blocks)
    if facts.provider not in ("", "anthropic"):
        return tuple(marks)
    before = tool_tokens
    leading: list[int] = []
    for at, block in enumerate(blocks):
        if block.pace is Pace.TURN:
            break
        before += block.tokens
        if before >= facts.cache_minimum:
            leading.append(at)
    for at in leading[-MOST:]:
        marks[at] = TTL
    return tuple(marks)
