"""Why a prompt was sent as it was, and why a cache was not read: breaks and decisions of the ledger in words."""

from collections.abc import Iterator
from typing import Any

from foreword.events.blamed import Break, Moved, find, read_break, read_moved, take_number, take_text
from foreword.events.event import EventType
from foreword.events.record import Record
from foreword.money import show_usd

RESERVED = frozenset(
    [
        "user",
        "channel",
        "agent",
        "room",
        "session",
        "schedule",
        "duration",
        "tokens_in",
        "tokens_out",
        "cache_read",
        "cache_write",
        "cost",
        "model",
        "error",
        "turn",
    ]
)  # keys of a line that no argument of a tool may take
UNKNOWN = "damaged"  # the ground of a rebase of which nobody knows what it bills again


def show_break(one: Break) -> str:
    """Show a break in words: its cause and place, what was billed again, and why."""
    agreed = {True: "; the provider says the same", False: "; the provider names another cause", None: ""}
    return f"{show_cause(one)}, {show_again(one.tokens, one.usd)}: {one.reason}{agreed[one.confirmed]}"


def show_cause(one: Break) -> str:
    """Show the cause of a break and where it is."""
    return " ".join(filter(None, (one.cause, one.where, show_byte(one.byte))))


def show_moved(one: Moved) -> str:
    """Show what the ledger did about a prompt, and why."""
    if one.ground is None:
        sections = ", ".join(each.section for each in one.decisions if each.deed == one.deed)
        return f"{' '.join(filter(None, (one.deed, sections)))}: {one.reason}"
    place = " ".join(filter(None, (f"from {one.section}" if one.section else "", show_byte(one.byte))))
    if one.ground == UNKNOWN:
        return f"{one.deed}, nobody knows at what cost ({one.ground}): {one.reason}"
    again = show_again(one.tokens, one.usd) if one.tokens else "free"
    return f"{one.deed}{f' {place}' if place else ''}, {again} ({one.ground}): {one.reason}"


def show_byte(byte: int | None) -> str:
    """Show where something differs first."""
    return "" if byte is None else f"at byte {byte:,}"


def show_again(tokens: int, usd: float | None) -> str:
    """Show what was billed again."""
    return f"{tokens:,} tokens again" + ("" if usd is None else f" for {show_usd(usd)}")


def unfold(record: Record) -> dict[str, Any]:
    """Unfold the facts of an event for its line: the cache, the ledger, and the arguments of a tool one by one."""
    shown: dict[str, Any] = {}
    for name, value in record.facts.items():
        if name == "cache" and isinstance(value, dict):
            shown["cache"] = show_shares(record)
            shown["surplus"] = show_surplus(record) or None
            broken = read_break(record)
            shown["break"] = show_break(broken) if broken else None
        elif name == "arguments" and isinstance(value, dict):
            shown |= {
                f"arguments.{key}" if key in RESERVED or key in record.facts else key: one for key, one in value.items()
            }
        elif name == "ledger" and isinstance(value, dict):
            moved = read_moved(record)
            shown["ledger"] = show_moved(moved) if moved else None
        else:
            shown[name] = value
    return shown


def explain_cache(records: tuple[Record, ...]) -> Iterator[str]:
    """Explain what the ledger did with the prompts of a turn, and what became of each call; nothing without it."""
    calls = [one for one in records if one.type == EventType.API_CALL.value and find(one.facts, "cache")]
    prompts = [one for one in records if one.type == EventType.PROMPT_BUILT.value]
    begun = any(one.type == EventType.SESSION_CREATED.value for one in records)
    if not calls and not any(find(one.facts, "ledger") for one in prompts):
        return
    for record in prompts:
        moved = read_moved(record)
        if moved:
            yield f"ledger: {show_moved(moved)}"
            for each in moved.decisions:
                weight = f" in {each.tokens:,} tokens" if each.tokens else ""
                why = "" if each.reason == moved.reason else f": {each.reason}"
                yield f"  {each.section} {each.what}, {each.deed}{weight}{why}"
        elif begun:
            yield "ledger: the session begins with this prompt"
        else:
            yield "ledger: no section differs from what the session was sent"
    for number, record in enumerate(calls, 1):
        yield f"call {number}: {show_read(record)}"
        if more := show_surplus(record):
            yield f"  {more}"
        if broken := read_break(record):
            yield f"  break by {show_break(broken)}"


def show_read(record: Record) -> str:
    """Show what a call read from the cache, beside what was predicted."""
    read, whole = record.cache_read or 0, record.tokens_in or 0
    off = show_share(abs(sum_predicted(record) - whole), whole)
    return f"{read:,} of {whole:,} input tokens read from the cache: {show_shares(record)}, counts off by {off}"


def show_surplus(record: Record) -> str:
    """Show what a call read beyond what was predicted, and what is known of why; nothing where it did not."""
    more = find(find(record.facts, "cache"), "surplus")
    tokens = take_number(more, "tokens") or 0
    return f"{tokens:,} tokens more were read than predicted: {take_text(more, 'reason')}" if tokens else ""


def sum_predicted(record: Record) -> int:
    """Sum up the input that was predicted of a call."""
    predicted = find(find(record.facts, "cache"), "predicted")
    return sum(take_number(predicted, name) or 0 for name in ("read", "write", "fresh"))


def show_shares(record: Record) -> str:
    """Show the share of the input that a call read from the cache, and the one that was predicted.

    Shares are compared, and not tokens: a count that is off is off in both parts of it.
    """
    predicted = find(find(record.facts, "cache"), "predicted")
    expected = show_share(take_number(predicted, "read") or 0, sum_predicted(record))
    return f"{show_share(record.cache_read or 0, record.tokens_in or 0)} read, {expected} predicted"


def show_share(part: int, whole: int) -> str:
    """Show a share in percent, as far as there is a whole."""
    return f"{part / whole:.1%}".replace("%", " %") if whole else "0 %"
