"""What an event says of the cache: the break that a call was, and what the ledger did about a prompt; in words, too."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from foreword.events.event import EventType
from foreword.events.moment import stamp
from foreword.events.record import Record
from foreword.frozen import frozen
from foreword.money import show_usd


@frozen(eq=True)
class Break:
    """A call whose provider read less from its cache than it had been sent before, and the one cause of that."""

    time: datetime
    session: str
    user: str
    turn: str
    model: str
    cause: str
    reason: str
    where: str | None
    """The section, the tool or the message that differs first, if one does."""
    byte: int | None
    tokens: int
    """What was billed again."""
    usd: float | None
    confirmed: bool | None
    """Whether the provider's own diagnostics say the same; None where there are none."""


@frozen(eq=True)
class Decided:
    """What was done about one section that differs."""

    section: str
    what: str
    deed: str
    reason: str
    policy: str
    tokens: int


@frozen(eq=True)
class Moved:
    """What the ledger did about a prompt that is not what its session knows."""

    time: datetime
    session: str
    user: str
    turn: str
    deed: str
    reason: str
    ground: str | None
    """Why the prompt was sent anew, if it was; then, from which section and byte on."""
    section: str | None
    byte: int | None
    tokens: int
    """What was billed again for it."""
    usd: float | None
    decisions: tuple[Decided, ...]


def read_break(record: Record) -> Break | None:
    """Read the break of a call, if it was one."""
    blame = find(find(record.facts, "cache"), "blame")
    if not blame:
        return None
    return Break(
        time=record.time,
        session=record.session,
        user=record.user,
        turn=record.trace,
        model=record.model,
        cause=take_text(blame, "cause"),
        reason=take_text(blame, "reason"),
        where=take_text(blame, "where") or None,
        byte=take_number(blame, "byte"),
        tokens=take_number(blame, "tokens") or 0,
        usd=take_amount(blame, "usd"),
        confirmed=blame["confirmed"] if isinstance(blame.get("confirmed"), bool) else None,
    )


def read_moved(record: Record) -> Moved | None:
    """Read what the ledger did about a prompt, if it did anything."""
    ledger = find(record.facts, "ledger")
    if not ledger:
        return None
    rebase, decisions = find(ledger, "rebase"), ledger.get("decisions")
    return Moved(
        time=record.time,
        session=record.session,
        user=record.user,
        turn=record.trace,
        deed=take_text(ledger, "deed"),
        reason=take_text(ledger, "reason"),
        ground=take_text(rebase, "ground") or None,
        section=take_text(rebase, "section") or None,
        byte=take_number(rebase, "byte"),
        tokens=take_number(rebase, "tokens") or 0,
        usd=take_amount(rebase, "usd"),
        decisions=tuple(
            Decided(
                **{name: take_text(one, name) for name in ("section", "what", "deed", "reason", "policy")},
                tokens=take_number(one, "tokens") or 0,
            )
            for one in (decisions if isinstance(decisions, list) else ())
            if isinstance(one, dict)
        ),
    )


def tell_value(one: Break | Moved) -> dict[str, Any]:
    """Tell a break, or what the ledger did, as JSON-ready values."""
    return {**asdict(one), "time": stamp(one.time)}


def find(facts: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Find a part of the facts; where it is none, an empty one."""
    part = facts.get(name)
    return part if isinstance(part, dict) else {}


def take_text(facts: Mapping[str, Any], name: str) -> str:
    """Take a text; nothing where there is none."""
    value = facts.get(name)
    return value if isinstance(value, str) else ""


def take_number(facts: Mapping[str, Any], name: str) -> int | None:
    """Take a whole number."""
    value = facts.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def take_amount(facts: Mapping[str, Any], name: str) -> float | None:
    """Take an amount."""
    value = facts.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


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
    place = " ".join(filter(None, (one.section, show_byte(one.byte))))
    again = show_again(one.tokens, one.usd) if one.tokens else "free"
    return f"{one.deed}{f' from {place}' if place else ''}, {again} ({one.ground}): {one.reason}"


def show_byte(byte: int | None) -> str:
    """Show where something differs first."""
    return "" if byte is None else f"at byte {byte:,}"


def show_again(tokens: int, usd: float | None) -> str:
    """Show what was billed again."""
    return f"{tokens:,} tokens again" + ("" if usd is None else f" for {show_usd(usd)}")


def unfold(record: Record) -> dict[str, Any]:
    """Unfold the facts of an event, so that what they say of the cache can stand on its line."""
    shown: dict[str, Any] = {}
    for name, value in record.facts.items():
        if name == "cache" and isinstance(value, dict):
            shown["cache"] = show_shares(record)
            broken = read_break(record)
            shown["break"] = show_break(broken) if broken else None
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
        if broken := read_break(record):
            yield f"  break by {show_break(broken)}"


def show_read(record: Record) -> str:
    """Show what a call read from the cache, beside what was predicted."""
    read, whole = record.cache_read or 0, record.tokens_in or 0
    return f"{read:,} of {whole:,} input tokens read from the cache: {show_shares(record)}"


def show_shares(record: Record) -> str:
    """Show the share of the input that a call read from the cache, and the one that was predicted.

    Shares are compared, and not tokens: the prediction is in our own count.
    """
    predicted = find(find(record.facts, "cache"), "predicted")
    whole = sum(take_number(predicted, name) or 0 for name in ("read", "write", "fresh"))
    expected = show_share(take_number(predicted, "read") or 0, whole)
    return f"{show_share(record.cache_read or 0, record.tokens_in or 0)} read, {expected} predicted"


def show_share(part: int, whole: int) -> str:
    """Show a share in percent, as far as there is a whole."""
    return f"{part / whole:.1%}".replace("%", " %") if whole else "0 %"
