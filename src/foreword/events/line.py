"""Records in words: one line each, as the document writes them, in the zone of who reads."""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from foreword.events.branch import Branch
from foreword.events.event import EventType
from foreword.events.record import Record, total_cost
from foreword.events.why import unfold
from foreword.money import show_usd

LONGEST = 160  # characters of one fact on a line
PLAIN = frozenset("._:/+-@#,%()[]{}")
SHORT = 8  # digits of an id that are enough to name a turn


def show_time(moment: datetime, zone: ZoneInfo) -> str:
    """Show a moment to the second."""
    return f"{moment.astimezone(zone):%Y-%m-%d %H:%M:%S}"


def show_line(record: Record, *, turn: bool = True) -> str:
    """Show a record without its time: category, name, and its facts as `key=value`.

    With `turn` the line also names the person, the channel and the turn, so that it can be read by itself.
    """
    shared = {"user": record.user, "channel": record.channel, **name_rest(record)} if turn else {}
    last = {"turn": record.trace[:SHORT]} if turn else {}
    level = "" if record.level == "info" else f"{record.level} "
    parts = list_parts({**shared, **find_figures(record), **name_own(record)}, unfold(record), last)
    return " ".join([f"{level}[{record.category}] {record.type}", *parts])


def show_label(record: Record) -> str:
    """Show a record where its figures have columns of their own."""
    level = "" if record.level == "info" else f"{record.level} "
    return " ".join([f"{level}[{record.category}] {record.type}", *list_parts(name_own(record), unfold(record))])


def show_rest(record: Record) -> str:
    """Show a record where time, level, type, user, channel and turn have columns of their own."""
    return " ".join(list_parts({**find_figures(record), **name_own(record)}, unfold(record), name_rest(record)))


def name_rest(record: Record) -> dict[str, Any]:
    """Name what else an event belongs to, beside its user and its channel."""
    return {"agent": record.agent, "room": record.room, "session": record.session, "schedule": record.schedule}


def name_own(record: Record) -> dict[str, Any]:
    """Name what is the event's own, and no figure."""
    return {"model": record.model, "error": record.error}


def find_figures(record: Record) -> dict[str, Any]:
    """Find how long an event took, its tokens, and what it cost; a call that nobody can price says so."""
    unpriced = record.cost_usd is None and record.type == EventType.API_CALL.value
    return {
        "duration": show_duration(record.duration_ms),
        "tokens_in": record.tokens_in,
        "tokens_out": record.tokens_out,
        "cache_read": record.cache_read,
        "cache_write": record.cache_write,
        "cost": show_cost(record.cost_usd) if unpriced or record.cost_usd is not None else "",
    }


def list_parts(*groups: Mapping[str, Any]) -> Iterator[str]:
    """List what is known as `key=value`, in the order of the groups; what two groups say is shown once."""
    shown: set[str] = set()
    for name, value in ((name, value) for group in groups for name, value in group.items()):
        part = "" if value is None or value == "" else f"{show_word(str(name))}={show_value(value)}"
        if part and part not in shown:
            shown.add(part)
            yield part


def show_value(value: Any) -> str:
    """Show one value on its line; a list or a mapping is shown without JSON, or as its length where it is deep or long.

    `metadata` of `--json` and of the database has every value whole.
    """
    text = write_plain(value)
    if text is None or (len(text) > LONGEST and isinstance(value, list | dict)):
        return "(1 entry)" if len(value) == 1 else f"({len(value):,} entries)"
    return show_word(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…")


def write_plain(value: Any) -> str | None:
    """Write a value in words: `a, b` for a list, `key: value` for a mapping; None where either holds another."""
    if isinstance(value, dict):
        return write_plain([f"{name}: {write_plain(one)}" for name, one in value.items()]) if is_flat(value) else None
    if isinstance(value, list):
        return ", ".join(str(write_plain(one)) for one in value) if is_flat(value) else None
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def is_flat(value: list[Any] | dict[str, Any]) -> bool:
    """Whether a list or a mapping holds neither lists nor mappings."""
    return not any(isinstance(one, list | dict) for one in (value.values() if isinstance(value, dict) else value))


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


def show_cost(amount: float | None) -> str:
    """Show what something cost; what nobody knows is not zero."""
    return "unknown" if amount is None else show_usd(amount)


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
        f"cost {show_cost(total_cost(calls))}" if calls else "",
        f"{count(unpriced, 'call')} without a known price" if unpriced else "",
        count(errors, "error"),
    ]
    return " · ".join(filter(None, parts))


def count(number: int, noun: str) -> str:
    """Count things in words that fit the number."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
