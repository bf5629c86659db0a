"""What providers report of a call, in their own words, as one value."""

from collections.abc import Mapping
from typing import Any

from foreword.caching.cache import Counted
from foreword.errors import InputError

OURS = ("read", "write", "hour", "fresh")
WHOLE = ("prompt_tokens", "input_tokens", "promptTokenCount")  # OpenAI's two shapes, and Gemini's
DETAILS = ("prompt_tokens_details", "input_tokens_details")


def read_usage(usage: Mapping[str, Any]) -> Counted:
    """Read the usage of an answer, whoever reported it, or raise InputError."""
    if set(usage) <= set(OURS):
        return Counted(**{name: take(usage, name) for name in usage})
    if any(name.startswith("cache_") for name in usage):
        return read_anthropic(usage)
    whole = next((take(usage, name) for name in WHOLE if name in usage), None)
    if whole is None:
        raise InputError(f"'usage' has none of {', '.join((*WHOLE, *OURS))}")
    told: Mapping[str, Any] = next((usage[name] for name in DETAILS if isinstance(usage.get(name), Mapping)), {})
    read = take(told, "cached_tokens") + take(usage, "cachedContentTokenCount")
    write = take(told, "cache_write_tokens")
    return Counted(read=read, write=write, fresh=max(0, whole - read - write))


def read_anthropic(usage: Mapping[str, Any]) -> Counted:
    """Read what POST /v1/messages reports, where the input is what no mark covers."""
    lives = usage.get("cache_creation")
    return Counted(
        read=take(usage, "cache_read_input_tokens"),
        write=take(usage, "cache_creation_input_tokens"),
        hour=take(lives, "ephemeral_1h_input_tokens") if isinstance(lives, Mapping) else 0,
        fresh=take(usage, "input_tokens"),
    )


def take(usage: Mapping[str, Any], name: str) -> int:
    """Take a number of tokens; nothing is none."""
    value = usage.get(name) or 0
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InputError(f"'usage.{name}' must be a number of tokens, not {value!r:.60}")
    return value
