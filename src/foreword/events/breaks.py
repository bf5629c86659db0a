"""Breaks of providers' caches in a stretch of time: what was read and predicted, what misses cost and why they came."""

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from datetime import datetime
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

from foreword.events.blamed import Break, Moved, read_break, read_moved, tell_value
from foreword.events.event import EventType, Reader
from foreword.events.filter import Filter
from foreword.events.line import SHORT, count, show_cost, show_time, show_word
from foreword.events.moment import Period, read_whole, stamp
from foreword.events.question import Way, choose_ways, make_condition, walk
from foreword.events.record import Record, read_record
from foreword.events.why import show_cause, show_share
from foreword.frozen import frozen

NEWEST = 20  # breaks and decisions of one answer
BEYOND = "other requests with the same beginning had written them, or the provider kept them longer than its rules say"
CALL, PROMPT = EventType.API_CALL.value, EventType.PROMPT_BUILT.value

# Each CASE guards the next: most rows are known by a word that they do not have, and what has it need not be JSON, nor
# have the shape that is looked for.
FACT = (
    "CASE WHEN instr(metadata, '\"{1}\"') THEN CASE WHEN json_valid(metadata) THEN"
    " CASE WHEN json_type(metadata, '$.{0}') = 'object' THEN json_extract(metadata, '$.{0}') END END END"
)
CACHE, LEDGER = FACT.format("cache", "predicted"), FACT.format("ledger", "ledger")
BLAME = FACT.format("cache.blame", "cause")
PREDICTED = " + ".join(f"coalesce(json_extract(cache, '$.predicted.{name}'), 0)" for name in ("read", "write", "fresh"))
SUMS = (
    "SELECT json_extract(cache, '$.blame.cause'), count(*), sum(tokens_in), sum(cache_read),"  # noqa: S608 - no input
    f" sum(coalesce(1.0 * tokens_in * json_extract(cache, '$.predicted.read') / nullif({PREDICTED}, 0), 0)),"
    " sum(json_extract(cache, '$.blame.tokens')), sum(json_extract(cache, '$.blame.usd')),"
    " count(json_extract(cache, '$.blame.usd')),"
    f" sum(abs({PREDICTED} - coalesce(tokens_in, 0))),"
    " count(json_extract(cache, '$.surplus.tokens')), sum(json_extract(cache, '$.surplus.tokens'))"
    " FROM ({inner}) WHERE cache IS NOT NULL GROUP BY 1"
)


@frozen(eq=True)
class Share:
    """Tokens of input, and how many of them come from a cache."""

    tokens: int = 0
    read: int = 0

    @property
    def part(self) -> float | None:
        """The share that is read, or None where there is nothing."""
        return self.read / self.tokens if self.tokens else None


@frozen(eq=True)
class Surplus:
    """Calls that read more than was predicted, and how many tokens more."""

    calls: int = 0
    tokens: int = 0


@frozen(eq=True)
class Loss:
    """What the breaks of one cause have cost."""

    cause: str
    breaks: int
    tokens: int
    """What was billed again."""
    usd: float | None
    unpriced: int
    """Breaks whose price nobody knows, and which are not in the amount."""


@frozen(eq=True)
class Breaks:
    """What became of the caches of providers, as far as the reader may know."""

    period: Period
    calls: int
    """Calls that the ledger has followed."""
    reported: Share
    predicted: Share
    """Of the tokens that were billed: each call has the share that was predicted of it."""
    off: int
    """By how many tokens the predicted input of each call missed what was billed, added up."""
    surplus: Surplus
    losses: tuple[Loss, ...]
    """What was lost, by cause, the most expensive first."""
    breaks: tuple[Break, ...]
    """The newest breaks, the newest first."""
    deeds: Mapping[str, int]
    """How often the ledger had to decide something, by what it did."""
    moves: tuple[Moved, ...]
    """The newest of these, the newest first."""

    @property
    def error(self) -> float | None:
        """How far predicted counts of tokens were off, as a share of what was billed."""
        return self.off / self.reported.tokens if self.reported.tokens else None

    @property
    def broken(self) -> int:
        """How many breaks there were."""
        return sum(loss.breaks for loss in self.losses)

    @property
    def tokens(self) -> int:
        """What was billed again in all."""
        return sum(loss.tokens for loss in self.losses)

    @property
    def usd(self) -> float | None:
        """What was lost in all, or None where nobody knows a price."""
        known = [loss.usd for loss in self.losses if loss.usd is not None]
        return sum(known) if known else None


def read_asked(asked: Mapping[str, str], reader: Reader, now: datetime) -> Filter:
    """Read which calls are asked about; today's unless a period is named."""
    since, until = asked.get("since") or "", asked.get("until") or ""
    period = read_whole(since or ("" if until else "today"), until, now, reader.timezone)
    return Filter(session=asked.get("session") or "", user=asked.get("user") or "", period=period)


def find_breaks(connection: sqlite3.Connection, reader: Reader, wanted: Filter) -> Breaks:
    """Find what was read from caches and what was lost, in the calls that fit and that the reader may see."""
    calls, prompts = (replace(wanted, type=kind, level=None) for kind in (CALL, PROMPT))
    rows = sum_causes(connection, reader, calls)
    losses = [
        Loss(cause=str(cause), breaks=broken, tokens=tokens or 0, usd=usd, unpriced=broken - priced)
        for cause, broken, _, _, _, tokens, usd, priced, *_ in rows
        if cause is not None
    ]
    billed = sum(row[2] or 0 for row in rows)
    moves = list(find_told(connection, reader, prompts, LEDGER))
    return Breaks(
        period=wanted.period,
        calls=sum(row[1] for row in rows),
        reported=Share(tokens=billed, read=sum(row[3] or 0 for row in rows)),
        predicted=Share(tokens=billed, read=round(sum(row[4] or 0 for row in rows))),
        off=sum(row[8] or 0 for row in rows),
        surplus=Surplus(calls=sum(row[9] for row in rows), tokens=sum(row[10] or 0 for row in rows)),
        losses=tuple(sorted(losses, key=lambda loss: (-(loss.usd or 0), -loss.tokens, loss.cause))),
        breaks=tuple(filter(None, map(read_break, find_told(connection, reader, calls, BLAME)))),
        deeds=count_deeds(connection, reader, prompts) if moves else {},
        moves=tuple(filter(None, map(read_moved, moves))),
    )


def find_way(connection: sqlite3.Connection, reader: Reader, wanted: Filter) -> tuple[Way, str, list[Any]]:
    """Find the way to rows of one type, and the condition that they fulfil."""
    where, values = make_condition(reader, wanted)
    (way,) = choose_ways(connection, reader, wanted)  # only levels have several
    return way, where, values


def sum_causes(connection: sqlite3.Connection, reader: Reader, wanted: Filter) -> list[tuple[Any, ...]]:
    """Sum up calls by the cause of their break; those without one have none."""
    way, where, values = find_way(connection, reader, wanted)
    terms = " AND ".join([*way.terms, where])
    inner = f"SELECT tokens_in, cache_read, {CACHE} AS cache FROM events INDEXED BY {way.index} WHERE {terms}"  # noqa: S608
    return connection.execute(SUMS.format(inner=inner), [*way.values, *values]).fetchall()


def find_told(connection: sqlite3.Connection, reader: Reader, wanted: Filter, fact: str) -> Iterator[Record]:
    """Find the newest events that have a fact to tell."""
    way, where, values = find_way(connection, reader, wanted)
    return map(read_record, islice(walk(connection, way, f"{where} AND {fact} IS NOT NULL", values), NEWEST))


def count_deeds(connection: sqlite3.Connection, reader: Reader, wanted: Filter) -> Mapping[str, int]:
    """Count what the ledger did about prompts."""
    way, where, values = find_way(connection, reader, wanted)
    terms = " AND ".join([*way.terms, where, f"{LEDGER} IS NOT NULL"])
    rows = connection.execute(
        f"SELECT json_extract(metadata, '$.ledger.deed'), count(*) FROM events INDEXED BY {way.index}"  # noqa: S608
        f" WHERE {terms} GROUP BY 1 ORDER BY 2 DESC, 1",
        [*way.values, *values],
    )
    return {str(deed): number for deed, number in rows if deed is not None}


def show_breaks(found: Breaks, zone: ZoneInfo) -> Iterator[str]:
    """Show what was read and what was lost, in lines."""
    since, until = found.period.since, found.period.until
    ends = f"since {show_time(since, zone)}" if since else "since the beginning"
    ends += f" until {show_time(until, zone)}" if until else ""
    if not found.calls:
        yield f"{ends} ({zone.key}): no call is recorded that the ledger followed"
        return
    read, predicted = (show_share(one.read, one.tokens) for one in (found.reported, found.predicted))
    off = show_share(found.off, found.reported.tokens)
    yield (
        f"{ends} ({zone.key}): {count(found.calls, 'call')}, {read} of {found.reported.tokens:,} input tokens were read"
        f" from the cache; {predicted} were predicted, with counts off by {off}"
    )
    if found.surplus.calls:
        yield f"{show_surplus(found.surplus)}: {BEYOND}"
    if not found.losses:
        yield "no break: what a provider had was read"
        return
    yield f"{count(found.broken, 'break')}: {show_lost(found)}"


def show_surplus(surplus: Surplus) -> str:
    """Show what was read beyond what was predicted."""
    return f"{count(surplus.calls, 'call')} read {surplus.tokens:,} tokens more than predicted"


def show_causes(found: Breaks, trace: str = "foreword_trace") -> Iterator[str]:
    """Show the share read from caches, the cost of each cause of a break, and the newest break, for a model.

    `trace` is the name of the tool that explains a turn.
    """
    if not found.calls:
        return
    read, predicted = (show_share(one.read, one.tokens) for one in (found.reported, found.predicted))
    yield f"cache: {read} of the input was read from it, {predicted} were predicted"
    if found.surplus.calls:
        yield f"- {show_surplus(found.surplus)}: {BEYOND}"
    for loss in found.losses:
        yield f"- broken by {show_word(loss.cause)}: {count(loss.breaks, 'time')}, {show_lost(loss)}"
    for one in found.breaks[:1]:
        yield f"newest break: {show_word(show_cause(one))} in turn {one.turn[:SHORT]}; {trace} says why"


def show_lost(lost: Breaks | Loss) -> str:
    """Show what was billed again, and what that cost, if anybody knows."""
    cost = "at a price that nobody knows" if lost.usd is None else f"{show_cost(lost.usd)} lost"
    return f"{count(lost.tokens, 'token')} billed again, {cost}"


def tell_breaks(found: Breaks) -> dict[str, Any]:
    """Tell all of it as JSON-ready values."""
    since, until = found.period.since, found.period.until
    return {
        "since": since and stamp(since),
        "until": until and stamp(until),
        "calls": found.calls,
        "reported": tell_share(found.reported),
        "predicted": tell_share(found.predicted),
        "error": found.error,
        "surplus": asdict(found.surplus),
        "lost": {
            "breaks": found.broken,
            "tokens": found.tokens,
            "usd": found.usd,
            "causes": [asdict(loss) for loss in found.losses],
        },
        "breaks": [tell_value(one) for one in found.breaks],
        "deeds": dict(found.deeds),
        "moves": [tell_value(one) for one in found.moves],
    }


def tell_share(share: Share) -> dict[str, float | None]:
    """Tell a share."""
    return {"tokens": share.tokens, "read": share.read, "share": share.part}
