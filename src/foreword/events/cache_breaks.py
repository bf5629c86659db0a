"""Cache reads of a period: tokens read and predicted, the cost of breaks by cause, and repeated breaks."""

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from foreword.events import lines
from foreword.events.event import EventType, Reader, format_timestamp
from foreword.events.lines import CacheBreak, LedgerDecision, read_break, read_decision, show_count_of, show_share
from foreword.events.period import Period, parse_report_period
from foreword.events.query import Filter, iterate_rows
from foreword.events.record import Record, read_record, sum_known
from foreword.types import frozen

MAX_BREAKS = 20  # breaks and decisions in one answer
MIN_REPEATED_BREAKS = 3  # breaks of one cause in a session that are reported
SURPLUS_REASON = (
    "other requests with the same beginning had written them, or the provider cached them longer than its rules say"
)


@frozen(eq=True)
class CauseLoss:
    """The cost of breaks with one cause; for `find_repeated`, of those of one session in one place."""

    cause: str
    breaks: int
    tokens: int  # tokens that were billed again
    usd: float | None
    unpriced: int  # breaks without a known price; the amount does not include them


@frozen(eq=True)
class RepeatedBreak:
    """The repeated cause of cache breaks in a session, with the newest of them."""

    newest: CacheBreak
    loss: CauseLoss


@frozen(eq=True)
class CacheReport:
    """Cache use of a period, limited to calls that the reader may see."""

    period: Period
    calls: int  # calls with ledger data
    tokens_in: int  # billed input tokens
    read: int  # tokens of them that were read from the cache
    predicted: int  # tokens predicted to be read: the predicted share of each call, applied to its billed tokens
    off: int  # sum of the absolute differences between predicted and billed input tokens of each call
    surplus_calls: int  # calls that read more tokens than predicted
    surplus_tokens: int
    losses: tuple[CauseLoss, ...]  # losses by cause, most expensive first
    breaks: tuple[CacheBreak, ...]  # the newest breaks, newest first
    deeds: Mapping[str, int]  # number of ledger decisions by action
    moves: tuple[LedgerDecision, ...]  # the newest decisions, newest first

    whole: CauseLoss  # the cost of all breaks


def parse_cache_filter(options: Mapping[str, str], reader: Reader, now: datetime) -> Filter:
    """Parse the filter for calls. The default period is today."""
    period = parse_report_period(options, now, reader.timezone)
    return Filter(session=options.get("session") or "", user=options.get("user") or "", period=period)


def find_breaks(connection: sqlite3.Connection, reader: Reader, query: Filter) -> CacheReport:
    """Find cache reads and losses in the matching calls that the reader may see."""
    calls = tokens_in = read = off = surplus_calls = surplus_tokens = 0
    predicted = 0.0
    breaks: list[CacheBreak] = []
    for record in iterate_with_fact(connection, reader, query, EventType.API_CALL, "cache"):
        expected, whole = lines.sum_predicted(record), record.tokens_in or 0
        calls, tokens_in, read = calls + 1, tokens_in + whole, read + (record.cache_read or 0)
        predicted += whole * lines.get_predicted(record, "read") / expected if expected else 0
        off += abs(expected - whole)
        if surplus := lines.get_surplus(record)[0]:
            surplus_calls, surplus_tokens = surplus_calls + 1, surplus_tokens + surplus
        breaks += filter(None, [read_break(record)])
    decisions = [
        decision
        for record in iterate_with_fact(connection, reader, query, EventType.PROMPT_BUILT, "ledger")
        if (decision := read_decision(record)) and decision.deed
    ]
    causes = {each.cause for each in breaks}
    losses = [sum_breaks(cause, [each for each in breaks if each.cause == cause]) for cause in causes]
    return CacheReport(
        period=query.period,
        calls=calls,
        tokens_in=tokens_in,
        read=read,
        predicted=round(predicted),
        off=off,
        surplus_calls=surplus_calls,
        surplus_tokens=surplus_tokens,
        losses=tuple(sorted(losses, key=lambda loss: (-(loss.usd or 0), -loss.tokens, loss.cause))),
        breaks=tuple(breaks[:MAX_BREAKS]),
        deeds=dict(sorted(Counter(each.deed for each in decisions).items(), key=lambda item: (-item[1], item[0]))),
        moves=tuple(decisions[:MAX_BREAKS]),
        whole=sum_breaks("", breaks),
    )


def iterate_with_fact(
    connection: sqlite3.Connection, reader: Reader, query: Filter, kind: EventType, fact: str
) -> Iterator[Record]:
    """Iterate over the matching events of a type that have a fact with a mapping, newest first."""
    rows = iterate_rows(
        connection, reader, replace(query, type=kind.value, level=None), "AND instr(metadata, ?)", f'"{fact}"'
    )
    return (record for record in map(read_record, rows) if lines.get_mapping(record.facts, fact))


def sum_breaks(cause: str, breaks: Sequence[CacheBreak]) -> CauseLoss:
    """Sum the losses of breaks."""
    tokens, unpriced = sum(each.tokens for each in breaks), sum(each.usd is None for each in breaks)
    usd = sum_known(each.usd for each in breaks)
    return CauseLoss(cause=cause, breaks=len(breaks), tokens=tokens, usd=usd, unpriced=unpriced)


def find_repeated(
    connection: sqlite3.Connection, reader: Reader, since: datetime, causes: Collection[str]
) -> list[RepeatedBreak]:
    """Find the sessions with repeated breaks of these causes since a time, most frequent first."""
    found: dict[tuple[str, str, str], list[CacheBreak]] = {}
    query = Filter(period=Period(since=since))
    calls = iterate_with_fact(connection, reader, query, EventType.API_CALL, "cache")
    for each in filter(None, map(read_break, calls)):
        if each.session and each.cause in causes:
            # Each rewritten message has another position. The cause is the same, so the position is ignored.
            each = replace(each, where=None) if each.cause == "history" else each  # noqa: PLW2901
            found.setdefault((each.session, each.cause, each.where or ""), []).append(each)
    repeated = [
        RepeatedBreak(newest=breaks[0], loss=sum_breaks(breaks[0].cause, breaks))
        for breaks in found.values()
        if len(breaks) >= MIN_REPEATED_BREAKS
    ]
    return sorted(repeated, key=lambda each: (-each.loss.breaks, each.newest.session))


def show_breaks(report: CacheReport, zone: ZoneInfo) -> Iterator[str]:
    """Format cache reads and losses as lines."""
    period = lines.show_period(report.period, zone)
    if not report.calls:
        yield f"{period}: no call with ledger data is recorded"
        return
    read, predicted, off = (show_share(part, report.tokens_in) for part in (report.read, report.predicted, report.off))
    yield (
        f"{period}: {show_count_of(report.calls, 'call')}, {read} of {report.tokens_in:,} input tokens were read"
        f" from the cache; {predicted} were predicted, with counts off by {off}"
    )
    if report.surplus_calls:
        yield show_surplus_reads(report)
    if report.losses:
        yield f"{show_count_of(report.whole.breaks, 'break')}: {show_lost(report.whole)}"
    else:
        yield "no break: every cached prefix was read"


def show_surplus_reads(report: CacheReport) -> str:
    """Format the tokens read beyond the prediction."""
    calls = show_count_of(report.surplus_calls, "call")
    return f"{calls} read {report.surplus_tokens:,} tokens more than predicted: {SURPLUS_REASON}"


def show_causes(report: CacheReport, trace: str = "foreword_trace") -> Iterator[str]:
    """Format cache reads, the cost of each cause and the newest break for a model; the tool `trace` explains a turn."""
    if not report.calls:
        return
    read, predicted = (show_share(part, report.tokens_in) for part in (report.read, report.predicted))
    yield f"cache: {read} of the input was read from it, {predicted} were predicted"
    if report.surplus_calls:
        yield f"- {show_surplus_reads(report)}"
    for loss in report.losses:
        yield f"- broken by {lines.show_word(loss.cause)}: {show_count_of(loss.breaks, 'time')}, {show_lost(loss)}"
    for newest in report.breaks[:1]:
        turn = newest.turn[: lines.SHORT_ID_DIGITS]
        yield f"newest break: {lines.show_word(lines.show_cause(newest))} in turn {turn}; {trace} says why"


def show_lost(loss: CauseLoss) -> str:
    """Format the tokens that were billed again, and their cost if known."""
    cost = "at an unknown price" if loss.usd is None else f"{lines.show_cost(loss.usd)} lost"
    return f"{show_count_of(loss.tokens, 'token')} billed again, {cost}"


def report_to_json(report: CacheReport) -> dict[str, Any]:
    """Convert the result to JSON-ready values."""
    since, until, tokens, whole = report.period.since, report.period.until, report.tokens_in, asdict(report.whole)
    read, predicted, error = (part / tokens if tokens else None for part in (report.read, report.predicted, report.off))
    lost = {name: whole[name] for name in ("breaks", "tokens", "usd")}
    return {
        "since": since and format_timestamp(since),
        "until": until and format_timestamp(until),
        "calls": report.calls,
        "reported": {"tokens": tokens, "read": report.read, "share": read},
        "predicted": {"tokens": tokens, "read": report.predicted, "share": predicted},
        "error": error,
        "surplus": {"calls": report.surplus_calls, "tokens": report.surplus_tokens},
        "lost": {**lost, "causes": [asdict(loss) for loss in report.losses]},
        "breaks": [lines.to_json_values(each) for each in report.breaks],
        "deeds": dict(report.deeds),
        "moves": [lines.to_json_values(each) for each in report.moves],
    }
