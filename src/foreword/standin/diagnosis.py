"""Why a cache missed, as Anthropic and OpenAI tell it who asks: where two requests first differ."""

from collections.abc import Mapping

from foreword.caching.blocks import MARKS, Body, write


def find_compared(shape: str, body: Body) -> str | None:
    """Find the answer that a request wants to be compared with; None where it asks for nothing."""
    if shape == "anthropic":
        return (body["diagnostics"]["previous_message_id"] or "") if body.get("diagnostics") else None
    return (body.get("prompt_cache_options") or {}).get("comparison_response_id")


def diagnose(shape: str, body: Body, answered: Mapping[str, Body]) -> str:
    """Say why a request could not be read from the cache of an earlier one, in a word, or nothing."""
    compared = find_compared(shape, body)
    if not compared:
        return ""
    before = answered.get(compared)
    if before is None:
        return "previous_message_not_found" if shape == "anthropic" else ""
    return compare_anthropic(before, body) if shape == "anthropic" else compare_responses(before, body)


def compare_anthropic(before: Body, after: Body) -> str:
    """Compare two bodies of POST /v1/messages."""
    for name in ("model", "tools", "system"):
        if strip(before.get(name)) != strip(after.get(name)):
            return f"{name}_changed"
    return "" if is_beginning(before["messages"], after["messages"]) else "messages_changed"


def compare_responses(before: Body, after: Body) -> str:
    """Compare two bodies of POST /v1/responses."""
    for name in ("model", "tools", "prompt_cache_key"):
        if before.get(name) != after.get(name):
            return f"{name}_changed"
    same = before.get("instructions") == after.get("instructions") and is_beginning(before["input"], after["input"])
    return "" if same else "input_changed"


def is_beginning(before: list[Body], after: list[Body]) -> bool:
    """Whether a conversation goes on from another."""
    return strip(after[: len(before)]) == strip(before)


def strip(value: object) -> str:
    """Write a value without its marks."""
    return write(take_off(value))


def take_off(value: object) -> object:
    """Take the marks off a value."""
    if isinstance(value, list):
        return [take_off(one) for one in value]
    if isinstance(value, dict):
        return {name: take_off(one) for name, one in value.items() if name not in MARKS}
    return value
