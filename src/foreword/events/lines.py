"""Records as lines of text in the reader's timezone, with the cache breaks and ledger decisions in their facts."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from foreword.events.event import EventType, format_timestamp
from foreword.events.period import Period
from foreword.events.record import Record, sum_known
from foreword.tokens.models import format_usd
from foreword.types import frozen

T = TypeVar("T")
# Keys of a line that a tool argument must not overwrite.
RESERVED_KEYS = frozenset((
    "user", "channel", "agent", "room", "session", "schedule", "duration", "tokens_in", "tokens_out",
    "cache_read", "cache_write", "cost", "model", "error", "turn",
))  # fmt: skip
UNKNOWN_COST_REASON = "damaged"  # the reason of a rebase with unknown cost


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
    where: str | None  # the first section, tool or message that differs, if any
    byte: int | None
    tokens: int  # tokens that were billed again
    usd: float | None
    confirmed: bool | None  # whether the provider's diagnostics agree; None if there are none


@frozen(eq=True)
class LedgerDecision:
    """The decision of the ledger about a prompt that differs from the previous one of its session."""

    time: datetime
    session: str
    user: str
    turn: str
    deed: str
    reason: str
    ground: str | None  # why the prompt was rebased, or None; if set, `section` and `byte` say from where
    section: str | None
    byte: int | None
    tokens: int  # tokens that were billed again
    usd: float | None
    decisions: tuple[Mapping[str, Any], ...]  # for each changed section: section, what, deed, reason, policy and tokens


def read_break(record: Record) -> CacheBreak | None:
    """Return the cache break of a call, or None."""
    blame = get_mapping(get_mapping(record.facts, "cache"), "blame")
    if not blame:
        return None
    return CacheBreak(
        **list_loss(record, blame),
        model=record.model,
        cause=get_text(blame, "cause"),
        reason=get_text(blame, "reason"),
        where=get_text(blame, "where") or None,
        confirmed=get_value(blame, "confirmed", bool),
    )


def read_decision(record: Record) -> LedgerDecision | None:
    """Return the decision of the ledger about a prompt, or None."""
    ledger = get_mapping(record.facts, "ledger")
    if not ledger:
        return None
    rebase, decisions = get_mapping(ledger, "rebase"), get_value(ledger, "decisions", list) or []
    names = ("section", "what", "deed", "reason", "policy")
    return LedgerDecision(
        **list_loss(record, rebase),
        deed=get_text(ledger, "deed"),
        reason=get_text(ledger, "reason"),
        ground=get_text(rebase, "ground") or None,
        section=get_text(rebase, "section") or None,
        decisions=tuple(
            {name: get_text(each, name) for name in names} | {"tokens": get_value(each, "tokens", int) or 0}
            for each in decisions
            if isinstance(each, dict)
        ),
    )


def list_loss(record: Record, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the turn of an event, the first differing byte, and the tokens and dollars that were billed again."""
    usd, whole = get_value(facts, "usd", float), get_value(facts, "usd", int)
    turn = {"time": record.time, "session": record.session, "user": record.user, "turn": record.trace}
    loss = {"byte": get_value(facts, "byte", int), "tokens": get_value(facts, "tokens", int) or 0}
    return {**turn, **loss, "usd": usd if whole is None else float(whole)}


def to_json_values(found: CacheBreak | LedgerDecision) -> dict[str, Any]:
    """Convert a break or a decision to JSON-ready values."""
    return {**asdict(found), "time": format_timestamp(found.time)}


def get_value(facts: Mapping[str, Any], name: str, kind: type[T]) -> T | None:
    """Return a fact if it has this type. A boolean is not a number."""
    value = facts.get(name)
    return value if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)) else None


def get_mapping(facts: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a mapping from the facts, or an empty one."""
    return get_value(facts, name, dict) or {}


def get_text(facts: Mapping[str, Any], name: str) -> str:
    """Return a string from the facts, or an empty one."""
    return get_value(facts, name, str) or ""


def show_break(found: CacheBreak) -> str:
    """Format a break: cause, place, tokens billed again, and reason."""
    agreed = {True: "; the provider says the same", False: "; the provider names another cause", None: ""}
    return f"{show_cause(found)}, {show_billed_again(found.tokens, found.usd)}: {found.reason}{agreed[found.confirmed]}"


def show_cause(found: CacheBreak) -> str:
    """Format the cause and the place of a break."""
    return " ".join(filter(None, (found.cause, found.where, show_byte(found.byte))))


def show_decision(decision: LedgerDecision) -> str:
    """Format a decision of the ledger and its reason."""
    if decision.ground is None:
        sections = ", ".join(each["section"] for each in decision.decisions if each["deed"] == decision.deed)
        return f"{' '.join(filter(None, (decision.deed, sections)))}: {decision.reason}"
    if decision.ground == UNKNOWN_COST_REASON:
        return f"{decision.deed}, at an unknown cost ({decision.ground}): {decision.reason}"
    start = f"from {decision.section}" if decision.section else ""
    place = " ".join(filter(None, (decision.deed, start, show_byte(decision.byte))))
    again = show_billed_again(decision.tokens, decision.usd) if decision.tokens else "free"
    return f"{place}, {again} ({decision.ground}): {decision.reason}"


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
            broken = read_break(record)
            shown["cache"], shown["surplus"] = show_shares(record), show_surplus(record)
            shown["break"] = show_break(broken) if broken else None
        elif name == "arguments" and isinstance(value, dict):
            taken = RESERVED_KEYS | record.facts.keys()
            shown |= {f"arguments.{key}" if key in taken else key: each for key, each in value.items()}
        elif name == "ledger" and isinstance(value, dict):
            decision = read_decision(record)
            shown["ledger"] = show_decision(decision) if decision else None
        else:
            shown[name] = value
    return shown


def explain_cache(records: tuple[Record, ...]) -> Iterator[str]:
    """Explain the ledger decisions and the cache reads of a turn, if it has ledger data."""
    calls = [each for each in records if each.type == EventType.API_CALL.value and get_mapping(each.facts, "cache")]
    prompts = [each for each in records if each.type == EventType.PROMPT_BUILT.value]
    begun = any(each.type == EventType.SESSION_CREATED.value for each in records)
    if not calls and not any(get_mapping(each.facts, "ledger") for each in prompts):
        return
    for record in prompts:
        decision = read_decision(record)
        if decision:
            yield f"ledger: {show_decision(decision)}"
            for each in decision.decisions:
                weight = f" in {each['tokens']:,} tokens" if each["tokens"] else ""
                why = "" if each["reason"] == decision.reason else f": {each['reason']}"
                yield f"  {each['section']} {each['what']}, {each['deed']}{weight}{why}"
        elif begun:
            yield "ledger: the session begins with this prompt"
        else:
            yield "ledger: no section differs from what the session was sent"
    for number, record in enumerate(calls, 1):
        read, whole = record.cache_read or 0, record.tokens_in or 0
        off = show_share(abs(sum_predicted(record) - whole), whole)
        shares = f"{show_shares(record)}, counts off by {off}"
        yield f"call {number}: {read:,} of {whole:,} input tokens read from the cache: {shares}"
        if more := show_surplus(record):
            yield f"  {more}"
        if broken := read_break(record):
            yield f"  break by {show_break(broken)}"


def show_surplus(record: Record) -> str:
    """Format the tokens read beyond the prediction with the reason, or return an empty string."""
    tokens, reason = get_surplus(record)
    return f"{tokens:,} tokens more were read than predicted: {reason}" if tokens else ""


def get_surplus(record: Record) -> tuple[int, str]:
    """Return the tokens that a call read beyond the prediction, and the reason."""
    more = get_mapping(get_mapping(record.facts, "cache"), "surplus")
    return get_value(more, "tokens", int) or 0, get_text(more, "reason")


def get_predicted(record: Record, name: str) -> int:
    """Return a part of the predicted input tokens of a call: `read`, `write` or `fresh`."""
    return get_value(get_mapping(get_mapping(record.facts, "cache"), "predicted"), name, int) or 0


def sum_predicted(record: Record) -> int:
    """Return the predicted input tokens of a call."""
    return sum(get_predicted(record, name) for name in ("read", "write", "fresh"))


def show_shares(record: Record) -> str:
    """Format the actual and the predicted share of input read; a wrong count affects both parts equally."""
    expected = show_share(get_predicted(record, "read"), sum_predicted(record))
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


def show_period(period: Period, zone: ZoneInfo) -> str:
    """Format a period with its timezone."""
    since = f"since {show_time(period.since, zone)}" if period.since else "since the beginning"
    until = f" until {show_time(period.until, zone)}" if period.until else ""
    return f"{since}{until} ({zone.key})"


def show_line(record: Record, *, turn: bool = True) -> str:
    """Format a record without its time: category, type, and facts as `key=value`; with `turn` also user and turn."""
    shared = {"user": record.user, "channel": record.channel, **list_context(record)} if turn else {}
    last = {"turn": record.trace[:SHORT_ID_DIGITS]} if turn else {}
    return " ".join([show_type(record), *list_parts({**shared, **list_figures(record)}, flatten_facts(record), last)])


def show_label(record: Record) -> str:
    """Format a record for a table that has separate columns for its figures."""
    named = {"model": record.model, "error": record.error}
    return " ".join([show_type(record), *list_parts(named, flatten_facts(record))])


def show_details(record: Record) -> str:
    """Format a record for a table with columns for time, level, type, user, channel and turn."""
    return " ".join(list_parts(list_figures(record), flatten_facts(record), list_context(record)))


def show_type(record: Record) -> str:
    """Format level, category and type of a record."""
    level = "" if record.level == "info" else f"{record.level} "
    return f"{level}[{record.category}] {record.type}"


def list_context(record: Record) -> dict[str, Any]:
    """Return the remaining context of an event: agent, room, session and schedule."""
    return {"agent": record.agent, "room": record.room, "session": record.session, "schedule": record.schedule}


def list_figures(record: Record) -> dict[str, Any]:
    """Return duration, tokens, cost, model and error of an event. A call without a known price shows `unknown`."""
    unpriced = record.cost_usd is None and record.type == EventType.API_CALL.value
    return {
        "duration": show_duration(record.duration_ms),
        "tokens_in": record.tokens_in,
        "tokens_out": record.tokens_out,
        "cache_read": record.cache_read,
        "cache_write": record.cache_write,
        "cost": show_cost(record.cost_usd) if unpriced or record.cost_usd is not None else "",
        "model": record.model,
        "error": record.error,
    }


def list_parts(*groups: Mapping[str, Any]) -> Iterator[str]:
    """Yield `key=value` parts in the order of the groups, without empty values and duplicates."""
    shown: set[str] = set()
    for name, value in (pair for group in groups for pair in group.items()):
        part = f"{show_word(str(name))}={show_value(value)}" if value is not None and value != "" else ""
        if part and part not in shown:
            shown.add(part)
            yield part


def show_value(value: Any) -> str:
    """Format one value for a line. Nested or long lists and mappings are shown as their length."""
    if isinstance(value, list | dict):
        ones = list(value.values() if isinstance(value, dict) else value)
        nested = any(isinstance(one, list | dict) for one in ones)
        texts = [one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in ones]
        if isinstance(value, dict):
            texts = [f"{name}: {text}" for name, text in zip(value, texts, strict=True)]
        joined = ", ".join(texts)
        if nested or len(joined) > MAX_FACT_CHARS:
            return "(1 entry)" if len(ones) == 1 else f"({len(ones):,} entries)"
        return show_word(joined)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return show_word(text if len(text) <= MAX_FACT_CHARS else f"{text[: MAX_FACT_CHARS - 1]}…")


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


def show_tree_entry(depth: int, record: Record, start: datetime) -> str:
    """Format one event of a turn: time since the start, indentation by depth, and the line."""
    return f"{f'+{(record.time - start).total_seconds():.3f}s':>10} {'  ' * depth}{show_line(record, turn=False)}"


def summarise_turn(records: Iterable[Record], zone: ZoneInfo) -> str:
    """Summarise a turn in one line: owner, start, duration, tokens, cost and errors."""
    ordered = sorted(records, key=lambda record: (record.time, record.id))
    first = ordered[0]
    calls = [record for record in ordered if record.type == EventType.API_CALL.value]
    errors = sum(record.level == "error" for record in ordered)
    unpriced = sum(record.cost_usd is None for record in calls)
    tokens_in, tokens_out = (sum(getattr(call, name) or 0 for call in calls) for name in ("tokens_in", "tokens_out"))
    names = ("user", "channel", "session")
    values = [next(filter(None, (getattr(each, name) for each in ordered)), "") for name in names]
    parts = [
        f"turn {first.trace}",
        *(f"{name} {show_word(value)}" for name, value in zip(names, values, strict=True) if value),
        show_time(first.time, zone) + f" {zone.key}",
        f"{(ordered[-1].time - first.time).total_seconds():.1f} s",
        show_count_of(len(calls), "call"),
        f"{tokens_in:,} tokens in, {tokens_out:,} out",
        f"cost {show_cost(sum_known(call.cost_usd for call in calls))}" if calls else "",
        f"{show_count_of(unpriced, 'call')} without a known price" if unpriced else "",
        show_count_of(errors, "error"),
    ]
    return " · ".join(filter(None, parts))


def show_count_of(number: int, noun: str) -> str:
    """Format a count with its noun in singular or plural."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
