"""Formatting of records as single lines of text, in the reader's timezone.

Cache breaks and ledger decisions, read from the facts of recorded events. Explanations of cache breaks and ledger
decisions as text.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from foreword.events.event import EventType
from foreword.events.period import format_timestamp
from foreword.events.query import TreeEntry
from foreword.events.record import Record, sum_cost
from foreword.tokens.prices import format_usd
from foreword.types import frozen


@frozen(eq=True)
class CacheBreak:
    """A call whose provider read less from its cache than was sent before, with the cause."""

    time: datetime
    session: str
    user: str
    turn: str
    model: str
    cause: str
    reason: str
    where: str | None
    """The first section, tool or message that differs, if any."""
    byte: int | None
    tokens: int
    """Tokens that were billed again."""
    usd: float | None
    confirmed: bool | None
    """Whether the provider's diagnostics agree. None if there are none."""


@frozen(eq=True)
class SectionDecision:
    """The decision of the ledger about one changed section."""

    section: str
    what: str
    deed: str
    reason: str
    policy: str
    tokens: int


@frozen(eq=True)
class LedgerDecision:
    """The decision of the ledger about a prompt that differs from the previous one of its session."""

    time: datetime
    session: str
    user: str
    turn: str
    deed: str
    reason: str
    ground: str | None
    """Why the prompt was rebased, or None. If set, `section` and `byte` say from where."""
    section: str | None
    byte: int | None
    tokens: int
    """Tokens that were billed again."""
    usd: float | None
    decisions: tuple[SectionDecision, ...]


def read_break(record: Record) -> CacheBreak | None:
    """Return the cache break of a call, or None."""
    blame = get_mapping(get_mapping(record.facts, "cache"), "blame")
    if not blame:
        return None
    return CacheBreak(
        time=record.time,
        session=record.session,
        user=record.user,
        turn=record.trace,
        model=record.model,
        cause=get_text(blame, "cause"),
        reason=get_text(blame, "reason"),
        where=get_text(blame, "where") or None,
        byte=get_number(blame, "byte"),
        tokens=get_number(blame, "tokens") or 0,
        usd=get_amount(blame, "usd"),
        confirmed=blame["confirmed"] if isinstance(blame.get("confirmed"), bool) else None,
    )


def read_decision(record: Record) -> LedgerDecision | None:
    """Return the decision of the ledger about a prompt, or None."""
    ledger = get_mapping(record.facts, "ledger")
    if not ledger:
        return None
    rebase, decisions = get_mapping(ledger, "rebase"), ledger.get("decisions")
    return LedgerDecision(
        time=record.time,
        session=record.session,
        user=record.user,
        turn=record.trace,
        deed=get_text(ledger, "deed"),
        reason=get_text(ledger, "reason"),
        ground=get_text(rebase, "ground") or None,
        section=get_text(rebase, "section") or None,
        byte=get_number(rebase, "byte"),
        tokens=get_number(rebase, "tokens") or 0,
        usd=get_amount(rebase, "usd"),
        decisions=tuple(
            SectionDecision(
                **{name: get_text(one, name) for name in ("section", "what", "deed", "reason", "policy")},
                tokens=get_number(one, "tokens") or 0,
            )
            for one in (decisions if isinstance(decisions, list) else ())
            if isinstance(one, dict)
        ),
    )


def to_json_values(one: CacheBreak | LedgerDecision) -> dict[str, Any]:
    """Convert a break or a decision to JSON-ready values."""
    return {**asdict(one), "time": format_timestamp(one.time)}


def get_mapping(facts: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a mapping from the facts, or an empty one."""
    part = facts.get(name)
    return part if isinstance(part, dict) else {}


def get_text(facts: Mapping[str, Any], name: str) -> str:
    """Return a string from the facts, or an empty one."""
    value = facts.get(name)
    return value if isinstance(value, str) else ""


def get_number(facts: Mapping[str, Any], name: str) -> int | None:
    """Return an integer from the facts, or None."""
    value = facts.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def get_amount(facts: Mapping[str, Any], name: str) -> float | None:
    """Return a number from the facts, or None."""
    value = facts.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


RESERVED_KEYS = frozenset(
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
)  # keys of a line that a tool argument must not overwrite
UNKNOWN_COST_REASON = "damaged"  # the reason of a rebase with unknown cost


def show_break(one: CacheBreak) -> str:
    """Format a break: cause, place, tokens billed again, and reason."""
    agreed = {True: "; the provider says the same", False: "; the provider names another cause", None: ""}
    return f"{show_cause(one)}, {show_billed_again(one.tokens, one.usd)}: {one.reason}{agreed[one.confirmed]}"


def show_cause(one: CacheBreak) -> str:
    """Format the cause and the place of a break."""
    return " ".join(filter(None, (one.cause, one.where, show_byte(one.byte))))


def show_decision(one: LedgerDecision) -> str:
    """Format a decision of the ledger and its reason."""
    if one.ground is None:
        sections = ", ".join(each.section for each in one.decisions if each.deed == one.deed)
        return f"{' '.join(filter(None, (one.deed, sections)))}: {one.reason}"
    place = " ".join(filter(None, (f"from {one.section}" if one.section else "", show_byte(one.byte))))
    if one.ground == UNKNOWN_COST_REASON:
        return f"{one.deed}, nobody knows at what cost ({one.ground}): {one.reason}"
    again = show_billed_again(one.tokens, one.usd) if one.tokens else "free"
    return f"{one.deed}{f' {place}' if place else ''}, {again} ({one.ground}): {one.reason}"


def show_byte(byte: int | None) -> str:
    """Format the position of the first difference."""
    return "" if byte is None else f"at byte {byte:,}"


def show_billed_again(tokens: int, usd: float | None) -> str:
    """Format the tokens that were billed again."""
    return f"{tokens:,} tokens again" + ("" if usd is None else f" for {format_usd(usd)}")


def flatten_facts(record: Record) -> dict[str, Any]:
    """Flatten the facts of an event for its line: cache, ledger, and tool arguments one by one."""
    shown: dict[str, Any] = {}
    for name, value in record.facts.items():
        if name == "cache" and isinstance(value, dict):
            shown["cache"] = show_shares(record)
            shown["surplus"] = show_surplus(record) or None
            broken = read_break(record)
            shown["break"] = show_break(broken) if broken else None
        elif name == "arguments" and isinstance(value, dict):
            shown |= {
                f"arguments.{key}" if key in RESERVED_KEYS or key in record.facts else key: one
                for key, one in value.items()
            }
        elif name == "ledger" and isinstance(value, dict):
            moved = read_decision(record)
            shown["ledger"] = show_decision(moved) if moved else None
        else:
            shown[name] = value
    return shown


def explain_cache(records: tuple[Record, ...]) -> Iterator[str]:
    """Explain the ledger decisions and the cache reads of a turn. Yield nothing without ledger data."""
    calls = [one for one in records if one.type == EventType.API_CALL.value and get_mapping(one.facts, "cache")]
    prompts = [one for one in records if one.type == EventType.PROMPT_BUILT.value]
    begun = any(one.type == EventType.SESSION_CREATED.value for one in records)
    if not calls and not any(get_mapping(one.facts, "ledger") for one in prompts):
        return
    for record in prompts:
        moved = read_decision(record)
        if moved:
            yield f"ledger: {show_decision(moved)}"
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
    """Format the tokens that a call read from the cache, with the prediction."""
    read, whole = record.cache_read or 0, record.tokens_in or 0
    off = show_share(abs(sum_predicted(record) - whole), whole)
    return f"{read:,} of {whole:,} input tokens read from the cache: {show_shares(record)}, counts off by {off}"


def show_surplus(record: Record) -> str:
    """Format the tokens read beyond the prediction with the reason, or return an empty string."""
    more = get_mapping(get_mapping(record.facts, "cache"), "surplus")
    tokens = get_number(more, "tokens") or 0
    return f"{tokens:,} tokens more were read than predicted: {get_text(more, 'reason')}" if tokens else ""


def sum_predicted(record: Record) -> int:
    """Return the predicted input tokens of a call."""
    predicted = get_mapping(get_mapping(record.facts, "cache"), "predicted")
    return sum(get_number(predicted, name) or 0 for name in ("read", "write", "fresh"))


def show_shares(record: Record) -> str:
    """Format the actual and the predicted share of input read from the cache.

    Shares are compared instead of tokens, because a wrong count affects both parts equally.
    """
    predicted = get_mapping(get_mapping(record.facts, "cache"), "predicted")
    expected = show_share(get_number(predicted, "read") or 0, sum_predicted(record))
    return f"{show_share(record.cache_read or 0, record.tokens_in or 0)} read, {expected} predicted"


def show_share(part: int, whole: int) -> str:
    """Format a share in percent; 0 % without a total."""
    return f"{part / whole:.1%}".replace("%", " %") if whole else "0 %"


MAX_FACT_CHARS = 160  # characters of one fact on a line
PLAIN_CHARS = frozenset("._:/+-@#,%()[]{}")
SHORT_ID_DIGITS = 8  # digits of an id that identify a turn


def show_time(moment: datetime, zone: ZoneInfo) -> str:
    """Format a time to the second."""
    return f"{moment.astimezone(zone):%Y-%m-%d %H:%M:%S}"


def show_line(record: Record, *, turn: bool = True) -> str:
    """Format a record without its time: category, type, and facts as `key=value`.

    With `turn` the line also contains the user, the channel and the turn, so that it can be read alone.
    """
    shared = {"user": record.user, "channel": record.channel, **list_context(record)} if turn else {}
    last = {"turn": record.trace[:SHORT_ID_DIGITS]} if turn else {}
    level = "" if record.level == "info" else f"{record.level} "
    parts = list_parts({**shared, **list_figures(record), **list_model_and_error(record)}, flatten_facts(record), last)
    return " ".join([f"{level}[{record.category}] {record.type}", *parts])


def show_label(record: Record) -> str:
    """Format a record for a table that has separate columns for its figures."""
    level = "" if record.level == "info" else f"{record.level} "
    return " ".join(
        [f"{level}[{record.category}] {record.type}", *list_parts(list_model_and_error(record), flatten_facts(record))]
    )


def show_details(record: Record) -> str:
    """Format a record for a table with columns for time, level, type, user, channel and turn."""
    return " ".join(
        list_parts(
            {**list_figures(record), **list_model_and_error(record)}, flatten_facts(record), list_context(record)
        )
    )


def list_context(record: Record) -> dict[str, Any]:
    """Return the remaining context of an event: agent, room, session and schedule."""
    return {"agent": record.agent, "room": record.room, "session": record.session, "schedule": record.schedule}


def list_model_and_error(record: Record) -> dict[str, Any]:
    """Return model and error of an event."""
    return {"model": record.model, "error": record.error}


def list_figures(record: Record) -> dict[str, Any]:
    """Return duration, tokens and cost of an event. A call without a known price shows `unknown`."""
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
    """Yield `key=value` parts in the order of the groups, without empty values and duplicates."""
    shown: set[str] = set()
    for name, value in ((name, value) for group in groups for name, value in group.items()):
        part = "" if value is None or value == "" else f"{show_word(str(name))}={show_value(value)}"
        if part and part not in shown:
            shown.add(part)
            yield part


def show_value(value: Any) -> str:
    """Format one value for a line. Nested or long lists and mappings are shown as their length.

    The complete value is in `metadata` of `--json` and of the database.
    """
    text = write_plain(value)
    if text is None or (len(text) > MAX_FACT_CHARS and isinstance(value, list | dict)):
        return "(1 entry)" if len(value) == 1 else f"({len(value):,} entries)"
    return show_word(text if len(text) <= MAX_FACT_CHARS else f"{text[: MAX_FACT_CHARS - 1]}…")


def write_plain(value: Any) -> str | None:
    """Write a value as text: `a, b` for a list, `key: value` for a mapping, None if it is nested."""
    if isinstance(value, dict):
        return write_plain([f"{name}: {write_plain(one)}" for name, one in value.items()]) if is_flat(value) else None
    if isinstance(value, list):
        return ", ".join(str(write_plain(one)) for one in value) if is_flat(value) else None
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def is_flat(value: list[Any] | dict[str, Any]) -> bool:
    """Return whether a list or mapping contains no lists or mappings."""
    return not any(isinstance(one, list | dict) for one in (value.values() if isinstance(value, dict) else value))


def show_word(text: str) -> str:
    """Return a plain word unchanged and quote anything else, with control characters escaped."""
    if text and all(sign.isalnum() or sign in PLAIN_CHARS or sign in "_$…" for sign in text):
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(sign if sign.isprintable() else f"\\u{ord(sign):04x}" for sign in quoted)


def show_duration(milliseconds: int | None) -> str:
    """Format a duration."""
    if milliseconds is None:
        return ""
    return f"{milliseconds}ms" if milliseconds < 1_000 else f"{milliseconds / 1_000:.1f}s"


def show_cost(amount: float | None) -> str:
    """Format a cost. An unknown cost is not zero."""
    return "unknown" if amount is None else format_usd(amount)


def show_tree_entry(branch: TreeEntry, start: datetime) -> str:
    """Format one event of a turn: time since the start, indentation by depth, and the line."""
    after = (branch.record.time - start).total_seconds()
    return f"{f'+{after:.3f}s':>10} {'  ' * branch.depth}{show_line(branch.record, turn=False)}"


def summarise_turn(records: Iterable[Record], zone: ZoneInfo) -> str:
    """Summarise a turn in one line: owner, start, duration, tokens, cost and errors."""
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
        show_count_of(len(calls), "call"),
        f"{sum(one.tokens_in or 0 for one in calls):,} tokens in, {sum(one.tokens_out or 0 for one in calls):,} out",
        f"cost {show_cost(sum_cost(calls))}" if calls else "",
        f"{show_count_of(unpriced, 'call')} without a known price" if unpriced else "",
        show_count_of(errors, "error"),
    ]
    return " · ".join(filter(None, parts))


def show_count_of(number: int, noun: str) -> str:
    """Format a count with its noun in singular or plural."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
