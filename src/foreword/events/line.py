"""Records in words: one line each, as the document writes them, in the zone of who reads."""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from foreword.events.branch import Branch
from foreword.events.event import EventType
from foreword.events.record import Record, total_cost

LONGEST = 160  # characters of one fact on a line
PLAIN = frozenset("._:/+-@#,%()[]{}")
SHORT = 8  # digits of an id that are enough to name a turn


def show_time(moment: datetime, zone: ZoneInfo) -> str:
    """Show a moment to the second."""
    return f"{moment.astimezone(zone):%Y-%m-%d %H:%M:%S}"


def show_line(record: Record, *, turn: bool = True) -> str:
    """Show a record without its time: category, name, and everything that is known, as `key=value`."""
    level = "" if record.level == "info" else f"{record.level} "
    return f"{level}[{record.category}] {record.type}" + "".join(f" {part}" for part in list_parts(record, turn=turn))


def list_parts(record: Record, *, turn: bool) -> Iterator[str]:
    """List what is known about an event; with `turn` also whom and which turn it belongs to."""
    names = {"user": record.user, "agent": record.agent, "channel": record.channel, "room": record.room}
    shared: dict[str, Any] = names | {"session": record.session, "schedule": record.schedule} if turn else {}
    own = {
        "model": record.model,
        "duration": show_duration(record.duration_ms),
        "tokens_in": record.tokens_in,
        "tokens_out": record.tokens_out,
        "cache_read": record.cache_read,
        "cache_write": record.cache_write,
        "cost": show_usd(record.cost_usd) if record.cost_usd is not None else "",
        "error": record.error,
    }
    last = {"turn": record.trace[:SHORT]} if turn else {}
    for name, value in [*shared.items(), *own.items(), *record.facts.items(), *last.items()]:
        if value is not None and value != "":
            yield f"{show_word(str(name))}={show_value(value)}"
    if record.type == EventType.API_CALL.value and record.cost_usd is None:
        yield "cost=unknown"


def show_value(value: Any) -> str:
    """Show one value so that it stays on its line and ends where it ends."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return show_word(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…")


def show_word(text: str) -> str:
    """Show a word as it is, and anything else in quotes, with nothing in it that could begin a line."""
    if text and all(sign.isalnum() or sign in PLAIN or sign in "_$…" for sign in text):
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(sign if sign.isprintable() else f"\\u{ord(sign):04x}" for sign in quoted)


def show_duration(milliseconds: int | None) -> str:
    """Show how long something took."""
    if milliseconds is None:
        return ""
    return f"{milliseconds}ms" if milliseconds < 1_000 else f"{milliseconds / 1_000:.1f}s"


def show_usd(amount: float | None) -> str:
    """Show an amount; one that nobody knows is not zero."""
    if amount is None:
        return "unknown"
    return f"${amount:,.4f}" if abs(amount) < 1 else f"${amount:,.2f}"


def show_branch(branch: Branch, start: datetime) -> str:
    """Show one event of a turn: how long after the beginning, how deep, and what it says."""
    after = (branch.record.time - start).total_seconds()
    return f"{f'+{after:.3f}s':>10} {'  ' * branch.depth}{show_line(branch.record, turn=False)}"


def sum_up(records: Iterable[Record], zone: ZoneInfo) -> str:
    """Sum a turn up in one line: whose it is, when it began, how long it took, tokens, cost and errors."""
    known = sorted(records, key=lambda record: (record.time, record.id))
    first = known[0]
    calls = [record for record in known if record.type == EventType.API_CALL.value]
    errors = sum(record.level == "error" for record in known)
    unpriced = sum(record.cost_usd is None for record in calls)
    last = max(record.time for record in known)
    names = {
        name: next(filter(None, (getattr(one, name) for one in known)), "") for name in ("user", "channel", "session")
    }
    parts = [
        f"turn {first.trace}",
        *(f"{name} {show_word(value)}" for name, value in names.items() if value),
        show_time(first.time, zone) + f" {zone.key}",
        f"{(last - first.time).total_seconds():.1f} s",
        count(len(calls), "call"),
        f"{sum(one.tokens_in or 0 for one in calls):,} tokens in, {sum(one.tokens_out or 0 for one in calls):,} out",
        f"cost {show_usd(total_cost(calls))}" if calls else "",
        f"{count(unpriced, 'call')} without a known price" if unpriced else "",
        count(errors, "error"),
    ]
    return " · ".join(filter(None, parts))


def count(number: int, noun: str) -> str:
    """Count things in words that fit the number."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
