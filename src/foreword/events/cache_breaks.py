"""Cache breaks of a period: what was read and predicted, and what misses cost by cause.

Sessions whose cache breaks repeatedly for the same cause in the same place.
"""

import sqlite3
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, replace
from datetime import datetime
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

from foreword.events.event import EventType, Reader
from foreword.events.lines import (
    SHORT_ID_DIGITS,
    CacheBreak,
    LedgerDecision,
    read_break,
    read_decision,
    show_cause,
    show_cost,
    show_count_of,
    show_share,
    show_time,
    show_word,
    to_json_values,
)
from foreword.events.period import Period, format_timestamp, parse_unpaged_period
from foreword.events.query import AccessPath, Filter, build_condition, choose_paths, iterate_rows
from foreword.events.record import Record, read_record
from foreword.types import frozen

MAX_BREAKS = 20  # breaks and decisions in one answer
SURPLUS_REASON = (
    "other requests with the same beginning had written them, or the provider kept them longer than its rules say"
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
    " FROM ({inner}) WHERE cache IS NOT NULL GROUP BY 1"
)


@frozen(eq=True)
class CacheShare:
    """Input tokens, and the number of them that were read from the cache."""

    tokens: int = 0
    read: int = 0

    @property
    def part(self) -> float | None:
        """The share that was read, or None without tokens."""
        return self.read / self.tokens if self.tokens else None


@frozen(eq=True)
class SurplusReads:
    """Calls that read more tokens than predicted, and the number of additional tokens."""

    calls: int = 0
    tokens: int = 0


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
    reported: CacheShare
    predicted: CacheShare
    """The predicted share of each call, applied to its billed tokens."""
    off: int
    """Sum of the absolute differences between predicted and billed input tokens of each call."""
    surplus: SurplusReads
    losses: tuple[CauseLoss, ...]
    """Losses by cause, most expensive first."""
    breaks: tuple[CacheBreak, ...]
    """The newest breaks, newest first."""
    deeds: Mapping[str, int]
    """Number of ledger decisions by action."""
    moves: tuple[LedgerDecision, ...]
    """The newest decisions, newest first."""

    @property
    def error(self) -> float | None:
        """The error of predicted token counts, as a share of the billed tokens."""
        return self.off / self.reported.tokens if self.reported.tokens else None

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
        known = [loss.usd for loss in self.losses if loss.usd is not None]
        return sum(known) if known else None


def parse_cache_filter(asked: Mapping[str, str], reader: Reader, now: datetime) -> Filter:
    """Parse the filter for calls. The default period is today."""
    since, until = asked.get("since") or "", asked.get("until") or ""
    period = parse_unpaged_period(since or ("" if until else "today"), until, now, reader.timezone)
    return Filter(session=asked.get("session") or "", user=asked.get("user") or "", period=period)


def find_breaks(connection: sqlite3.Connection, reader: Reader, wanted: Filter) -> CacheReport:
    """Find cache reads and losses in the matching calls that the reader may see."""
    calls, prompts = (replace(wanted, type=kind, level=None) for kind in (CALL_TYPE, PROMPT_TYPE))
    rows = sum_causes(connection, reader, calls)
    losses = [
        CauseLoss(cause=str(cause), breaks=broken, tokens=tokens or 0, usd=usd, unpriced=broken - priced)
        for cause, broken, _, _, _, tokens, usd, priced, *_ in rows
        if cause is not None
    ]
    billed = sum(row[2] or 0 for row in rows)
    moves = list(find_events_with(connection, reader, prompts, LEDGER_SQL))
    return CacheReport(
        period=wanted.period,
        calls=sum(row[1] for row in rows),
        reported=CacheShare(tokens=billed, read=sum(row[3] or 0 for row in rows)),
        predicted=CacheShare(tokens=billed, read=round(sum(row[4] or 0 for row in rows))),
        off=sum(row[8] or 0 for row in rows),
        surplus=SurplusReads(calls=sum(row[9] for row in rows), tokens=sum(row[10] or 0 for row in rows)),
        losses=tuple(sorted(losses, key=lambda loss: (-(loss.usd or 0), -loss.tokens, loss.cause))),
        breaks=tuple(filter(None, map(read_break, find_events_with(connection, reader, calls, BLAME_SQL)))),
        deeds=count_actions(connection, reader, prompts) if moves else {},
        moves=tuple(filter(None, map(read_decision, moves))),
    )


def choose_path(connection: sqlite3.Connection, reader: Reader, wanted: Filter) -> tuple[AccessPath, str, list[Any]]:
    """Return the access path and the condition for rows of one type."""
    where, values = build_condition(reader, wanted)
    (way,) = choose_paths(connection, reader, wanted)  # only a filter by level has several
    return way, where, values


def sum_causes(connection: sqlite3.Connection, reader: Reader, wanted: Filter) -> list[tuple[Any, ...]]:
    """Sum calls by the cause of their break. Calls without a break have the cause NULL."""
    way, where, values = choose_path(connection, reader, wanted)
    terms = " AND ".join([*way.terms, where])
    inner = f"SELECT tokens_in, cache_read, {CACHE_SQL} AS cache FROM events INDEXED BY {way.index} WHERE {terms}"
    return connection.execute(SUMS_SQL.format(inner=inner), [*way.values, *values]).fetchall()


def find_events_with(connection: sqlite3.Connection, reader: Reader, wanted: Filter, fact: str) -> Iterator[Record]:
    """Find the newest events that have a fact."""
    way, where, values = choose_path(connection, reader, wanted)
    return map(
        read_record, islice(iterate_rows(connection, way, f"{where} AND {fact} IS NOT NULL", values), MAX_BREAKS)
    )


def count_actions(connection: sqlite3.Connection, reader: Reader, wanted: Filter) -> Mapping[str, int]:
    """Count ledger decisions by action."""
    way, where, values = choose_path(connection, reader, wanted)
    terms = " AND ".join([*way.terms, where, f"{LEDGER_SQL} IS NOT NULL"])
    rows = connection.execute(
        f"SELECT json_extract(metadata, '$.ledger.deed'), count(*) FROM events INDEXED BY {way.index}"
        f" WHERE {terms} GROUP BY 1 ORDER BY 2 DESC, 1",
        [*way.values, *values],
    )
    return {str(deed): number for deed, number in rows if deed is not None}


def show_breaks(found: CacheReport, zone: ZoneInfo) -> Iterator[str]:
    """Format cache reads and losses as lines."""
    since, until = found.period.since, found.period.until
    ends = f"since {show_time(since, zone)}" if since else "since the beginning"
    ends += f" until {show_time(until, zone)}" if until else ""
    if not found.calls:
        yield f"{ends} ({zone.key}): no call with ledger data is recorded"
        return
    read, predicted = (show_share(one.read, one.tokens) for one in (found.reported, found.predicted))
    off = show_share(found.off, found.reported.tokens)
    yield (
        f"{ends} ({zone.key}): {show_count_of(found.calls, 'call')},"
        f" {read} of {found.reported.tokens:,} input tokens were read"
        f" from the cache; {predicted} were predicted, with counts off by {off}"
    )
    if found.surplus.calls:
        yield f"{show_surplus(found.surplus)}: {SURPLUS_REASON}"
    if not found.losses:
        yield "no break: every cached prefix was read"
        return
    yield f"{show_count_of(found.broken, 'break')}: {show_lost(found)}"


def show_surplus(surplus: SurplusReads) -> str:
    """Format the tokens read beyond the prediction."""
    return f"{show_count_of(surplus.calls, 'call')} read {surplus.tokens:,} tokens more than predicted"


def show_causes(found: CacheReport, trace: str = "foreword_trace") -> Iterator[str]:
    """Format the share read from caches, the cost of each cause and the newest break, for a model.

    `trace` is the name of the tool that explains a turn.
    """
    if not found.calls:
        return
    read, predicted = (show_share(one.read, one.tokens) for one in (found.reported, found.predicted))
    yield f"cache: {read} of the input was read from it, {predicted} were predicted"
    if found.surplus.calls:
        yield f"- {show_surplus(found.surplus)}: {SURPLUS_REASON}"
    for loss in found.losses:
        yield f"- broken by {show_word(loss.cause)}: {show_count_of(loss.breaks, 'time')}, {show_lost(loss)}"
    for one in found.breaks[:1]:
        yield f"newest break: {show_word(show_cause(one))} in turn {one.turn[:SHORT_ID_DIGITS]}; {trace} says why"


def show_lost(lost: CacheReport | CauseLoss) -> str:
    """Format the tokens that were billed again, and their cost if known."""
    cost = "at a price that nobody knows" if lost.usd is None else f"{show_cost(lost.usd)} lost"
    return f"{show_count_of(lost.tokens, 'token')} billed again, {cost}"


def report_to_json(found: CacheReport) -> dict[str, Any]:
    """Convert the result to JSON-ready values."""
    since, until = found.period.since, found.period.until
    return {
        "since": since and format_timestamp(since),
        "until": until and format_timestamp(until),
        "calls": found.calls,
        "reported": share_to_json(found.reported),
        "predicted": share_to_json(found.predicted),
        "error": found.error,
        "surplus": asdict(found.surplus),
        "lost": {
            "breaks": found.broken,
            "tokens": found.tokens,
            "usd": found.usd,
            "causes": [asdict(loss) for loss in found.losses],
        },
        "breaks": [to_json_values(one) for one in found.breaks],
        "deeds": dict(found.deeds),
        "moves": [to_json_values(one) for one in found.moves],
    }


def share_to_json(share: CacheShare) -> dict[str, float | None]:
    """Convert a share to JSON-ready values."""
    return {"tokens": share.tokens, "read": share.read, "share": share.part}


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
    wanted = Filter(type=CALL_TYPE, period=Period(since=since))
    way, where, values = choose_path(connection, reader, wanted)
    found: dict[tuple[str, str, str], list[CacheBreak]] = {}
    for row in iterate_rows(connection, way, f"{where} AND {BLAME_SQL} IS NOT NULL", values):
        one = read_break(read_record(row))
        if one and one.session and one.cause in causes:
            # Each rewritten message has another position. The cause is the same, so the position is ignored.
            place = "" if one.cause == "history" else one.where or ""
            found.setdefault((one.session, one.cause, place), []).append(one)
    repeated = [summarise_breaks(session, cause, place, breaks) for (session, cause, place), breaks in found.items()]
    return sorted((one for one in repeated if one.breaks >= MIN_BREAKS), key=lambda one: (-one.breaks, one.session))


def summarise_breaks(session: str, cause: str, where: str, breaks: list[CacheBreak]) -> RepeatedBreak:
    """Summarise breaks with the same session, cause and place, newest first."""
    known = [one.usd for one in breaks if one.usd is not None]
    return RepeatedBreak(
        session=session,
        cause=cause,
        where=where,
        breaks=len(breaks),
        tokens=sum(one.tokens for one in breaks),
        usd=sum(known) if known else None,
        turn=breaks[0].turn,
    )
