"""What an event says of the cache: the break that a call was, and what the ledger did about a prompt."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from foreword.events.moment import stamp
from foreword.events.record import Record
from foreword.frozen import frozen


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
