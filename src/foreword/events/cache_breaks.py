"""Cache reads of a period: tokens read and predicted, the cost of breaks by cause, and repeated breaks."""

import sqlite3
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, replace
from datetime import datetime
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

from foreword.events import lines
from foreword.events.event import EventType, Reader
from foreword.events.lines import CacheBreak, LedgerDecision, read_break, read_decision, show_count_of, show_share
from foreword.events.period import Period, format_timestamp, parse_report_period
from foreword.events.query import Filter, build_condition, choose_paths, iterate_rows
from foreword.events.record import Record, read_record, sum_known
from foreword.types import frozen

MAX_BREAKS = 20  # breaks and decisions in one answer
SURPLUS_REASON = (
    "other requests with the same beginning had written them, or the provider cached them longer than its rules say"
)
CALL_TYPE, PROMPT_TYPE = EventType.API_CALL.value, EventType.PROMPT_BUILT.value

# Each CASE guards the next one: most rows lack the word, and a row that has it may be invalid JSON or have another
# structure.
FACT_SQL = (
    "CASE WHEN instr(metadata, '\"{1}\"') THEN CASE WHEN json_valid(metadata) THEN"
    " CASE WHEN json_type(metadata, '$.{0}') = 'object' THEN json_extract(metadata, '$.{0}') END END END"
)
CACHE_SQL, LEDGER_SQL = FACT_SQL.format("cache", "predicted"), FACT_SQL.format("ledger", "ledger")
BLAME_SQL = FACT_SQL.format("cache.blame", "cause")
PREDICTED_SQL = " + ".join(
    f"coalesce(json_extract(cache, '$.predicted.{name}'), 0)" for name in ("read", "write", "fresh")
)
SUMS_SQL = (
    "SELECT json_extract(cache, '$.blame.cause'), count(*), sum(tokens_in), sum(cache_read),"
    f" sum(coalesce(1.0 * tokens_in * json_extract(cache, '$.predicted.read') / nullif({PREDICTED_SQL}, 0), 0)),"
    " sum(json_extract(cache, '$.blame.tokens')), sum(json_extract(cache, '$.blame.usd')),"
    " count(json_extract(cache, '$.blame.usd')),"
    f" sum(abs({PREDICTED_SQL} - coalesce(tokens_in, 0))),"
    " count(json_extract(cache, '$.surplus.tokens')), sum(json_extract(cache, '$.surplus.tokens'))"
    f" FROM (SELECT tokens_in, cache_read, {CACHE_SQL} AS cache FROM events {{index}} WHERE {{terms}})"
    " WHERE cache IS NOT NULL GROUP BY 1"
)


@frozen(eq=True)
class CauseLoss:
    """The cost of all breaks with one cause."""

    cause: str
    breaks: int
    tokens: int
    """Tokens that were billed again."""
    usd: float | None
    unpriced: int
    """Breaks without a known price. The amount does not include them."""


@frozen(eq=True)
class CacheReport:
    """Cache use of a period, limited to calls that the reader may see."""

    period: Period
    calls: int
    """Calls with ledger data."""
    tokens_in: int
    """Billed input tokens."""
    read: int
    """Tokens of them that were read from the cache."""
    predicted: int
    """Tokens predicted to be read: the predicted share of each call, applied to its billed tokens."""
    off: int
    """Sum of the absolute differences between predicted and billed input tokens of each call."""
    surplus_calls: int
    """Calls that read more tokens than predicted."""
    surplus_tokens: int
    losses: tuple[CauseLoss, ...]
    """Losses by cause, most expensive first."""
    breaks: tuple[CacheBreak, ...]
    """The newest breaks, newest first."""
    deeds: Mapping[str, int]
    """Number of ledger decisions by action."""
    moves: tuple[LedgerDecision, ...]
    """The newest decisions, newest first."""

    @property
    def broken(self) -> int:
        """Number of breaks."""
        return sum(loss.breaks for loss in self.losses)

    @property
    def tokens(self) -> int:
        """Tokens that were billed again."""
        return sum(loss.tokens for loss in self.losses)

    @property
    def usd(self) -> float | None:
        """The total cost of the breaks, or None if no price is known."""
        return sum_known(loss.usd for loss in self.losses)


def parse_cache_filter(options: Mapping[str, str], reader: Reader, now: datetime) -> Filter:
    """Parse the filter for calls. The default period is today."""
    period = parse_report_period(options, now, reader.timezone)
    return Filter(session=options.get("session") or "", user=options.get("user") or "", period=period)


def find_breaks(connection: sqlite3.Connection, reader: Reader, query: Filter) -> CacheReport:
    """Find cache reads and losses in the matching calls that the reader may see."""
    calls, prompts = (
        CacheQuery(connection, reader, replace(query, type=kind, level=None)) for kind in (CALL_TYPE, PROMPT_TYPE)
    )
    rows = calls.execute(SUMS_SQL)
    losses = [
        CauseLoss(cause=str(cause), breaks=broken, tokens=tokens or 0, usd=usd, unpriced=broken - priced)
        for cause, broken, _, _, _, tokens, usd, priced, *_ in rows
        if cause is not None
    ]
    actions = prompts.execute(
        "SELECT json_extract(metadata, '$.ledger.deed') AS deed, count(*) FROM events {index}"
        f" WHERE {{terms}} AND {LEDGER_SQL} IS NOT NULL AND deed IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1"
    )
    return CacheReport(
        period=query.period,
        calls=sum(row[1] for row in rows),
        tokens_in=sum(row[2] or 0 for row in rows),
        read=sum(row[3] or 0 for row in rows),
        predicted=round(sum(row[4] or 0 for row in rows)),
        off=sum(row[8] or 0 for row in rows),
        surplus_calls=sum(row[9] for row in rows),
        surplus_tokens=sum(row[10] or 0 for row in rows),
        losses=tuple(sorted(losses, key=lambda loss: (-(loss.usd or 0), -loss.tokens, loss.cause))),
        breaks=tuple(filter(None, map(read_break, islice(calls.find_with(BLAME_SQL), MAX_BREAKS)))),
        deeds={str(deed): number for deed, number in actions},
        moves=tuple(filter(None, map(read_decision, islice(prompts.find_with(LEDGER_SQL), MAX_BREAKS)))),
    )


class CacheQuery:
    """Reads the visible rows of one type through their shortest access path."""

    def __init__(self, connection: sqlite3.Connection, reader: Reader, query: Filter) -> None:
        self._connection = connection
        self._where, self._values = build_condition(reader, query)
        (self._path,) = choose_paths(connection, reader, query)  # only a filter by level has several

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        """Execute a statement with the access path as `{index}` and the condition as `{terms}`."""
        terms = " AND ".join([*self._path.terms, self._where])
        statement = sql.format(index=f"INDEXED BY {self._path.index}", terms=terms)
        return self._connection.execute(statement, [*self._path.values, *self._values]).fetchall()

    def find_with(self, fact: str) -> Iterator[Record]:
        """Find the events that have a fact, newest first."""
        where = f"{self._where} AND {fact} IS NOT NULL"
        return map(read_record, iterate_rows(self._connection, self._path, where, self._values))


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
        yield f"{show_count_of(report.broken, 'break')}: {show_lost(report)}"
    else:
        yield "no break: every cached prefix was read"


def show_surplus_reads(report: CacheReport) -> str:
    """Format the tokens read beyond the prediction."""
    calls = show_count_of(report.surplus_calls, "call")
    return f"{calls} read {report.surplus_tokens:,} tokens more than predicted: {SURPLUS_REASON}"


def show_causes(report: CacheReport, trace: str = "foreword_trace") -> Iterator[str]:
    """Format the share read from caches, the cost of each cause and the newest break, for a model.

    `trace` is the name of the tool that explains a turn.
    """
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


def show_lost(lost: CacheReport | CauseLoss) -> str:
    """Format the tokens that were billed again, and their cost if known."""
    cost = "at an unknown price" if lost.usd is None else f"{lines.show_cost(lost.usd)} lost"
    return f"{show_count_of(lost.tokens, 'token')} billed again, {cost}"


def report_to_json(report: CacheReport) -> dict[str, Any]:
    """Convert the result to JSON-ready values."""
    since, until, whole = report.period.since, report.period.until, report.tokens_in
    return {
        "since": since and format_timestamp(since),
        "until": until and format_timestamp(until),
        "calls": report.calls,
        "reported": {"tokens": whole, "read": report.read, "share": report.read / whole if whole else None},
        "predicted": {"tokens": whole, "read": report.predicted, "share": report.predicted / whole if whole else None},
        "error": report.off / whole if whole else None,
        "surplus": {"calls": report.surplus_calls, "tokens": report.surplus_tokens},
        "lost": {
            "breaks": report.broken,
            "tokens": report.tokens,
            "usd": report.usd,
            "causes": [asdict(loss) for loss in report.losses],
        },
        "breaks": [lines.to_json_values(each) for each in report.breaks],
        "deeds": dict(report.deeds),
        "moves": [lines.to_json_values(each) for each in report.moves],
    }


MIN_BREAKS = 3  # number of breaks that is reported


@frozen(eq=True)
class RepeatedBreak:
    """A session and the repeated cause of its cache breaks."""

    session: str
    cause: str
    where: str
    """The section, tool or message; empty if the cause has no place."""
    breaks: int
    tokens: int
    usd: float | None
    turn: str
    """The last turn with this break."""


def find_repeated(
    connection: sqlite3.Connection, reader: Reader, since: datetime, causes: Collection[str]
) -> list[RepeatedBreak]:
    """Find the sessions with repeated breaks of these causes since a time, most frequent first."""
    found: dict[tuple[str, str, str], list[CacheBreak]] = {}
    calls = CacheQuery(connection, reader, Filter(type=CALL_TYPE, period=Period(since=since)))
    for each in filter(None, map(read_break, calls.find_with(BLAME_SQL))):
        if each.session and each.cause in causes:
            # Each rewritten message has another position. The cause is the same, so the position is ignored.
            place = "" if each.cause == "history" else each.where or ""
            found.setdefault((each.session, each.cause, place), []).append(each)
    repeated = [
        RepeatedBreak(
            session=session,
            cause=cause,
            where=place,
            breaks=len(breaks),
            tokens=sum(each.tokens for each in breaks),
            usd=sum_known(each.usd for each in breaks),
            turn=breaks[0].turn,
        )
        for (session, cause, place), breaks in found.items()
        if len(breaks) >= MIN_BREAKS
    ]
    return sorted(repeated, key=lambda each: (-each.breaks, each.session))
