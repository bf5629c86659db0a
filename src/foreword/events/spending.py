"""What was spent: the sums of a period by day, session, person and so on, and what they come to."""

import sqlite3
from collections.abc import Iterator, Mapping
from datetime import datetime
from zoneinfo import ZoneInfo

from foreword.errors import UnknownName
from foreword.events.event import Reader
from foreword.events.kinds import KINDS
from foreword.events.line import count, show_cost, show_time, show_word
from foreword.events.moment import Period, read_whole
from foreword.events.totals import Total, count_names, sum_by
from foreword.frozen import frozen

ROWS = 50  # sums that one answer has
ORDERS = {"session": "tokens"}  # what makes a sum large, where it is not the cost
NOTHING = Total(
    name="", turns=0, calls=0, unpriced=0, tokens_in=0, tokens_out=0, cache_read=0, cache_write=0, cost_usd=None
)


@frozen(eq=True)
class Spending:
    """What was spent in a period, as far as the reader may know."""

    by: str
    period: Period
    whole: Total
    """Everything together."""
    totals: tuple[Total, ...]
    """Days in their order, sessions by tokens, everything else by cost; the largest ones of very many."""
    left: int
    """How many smaller sums there are beside."""
    longest: Total | None
    """The session that used the most tokens."""

    @property
    def usd_per_turn(self) -> float | None:
        """What a turn cost on average, or None where nothing is priced or no turn was ended."""
        cost = self.whole.cost_usd
        return cost / self.whole.turns if cost is not None and self.whole.turns else None


def find_spending(connection: sqlite3.Connection, reader: Reader, asked: Mapping[str, str], now: datetime) -> Spending:
    """Find what was spent, summed by one of `KINDS`; today unless a period is asked for."""
    by = asked.get("by") or "day"
    if by not in KINDS:
        raise UnknownName("sum", by[:40], KINDS)
    since, until = asked.get("since") or "", asked.get("until") or ""
    period = read_whole(since or ("" if until else "today"), until, now, reader.timezone)
    ends = (period.since, period.until)

    def total(kind: str, limit: int = ROWS) -> list[Total]:
        most = ORDERS.get(kind, "cost")
        return sum_by(connection, reader, kind, *ends, most=most, limit=limit)

    whole, totals = total("all"), total(by)
    count = len(totals) if by == "day" or len(totals) < ROWS else count_names(connection, reader, by, *ends)
    # One of the two has a name: what belongs to no session is one sum.
    sessions = totals if by == "session" else total("session", 2)
    return Spending(
        by=by,
        period=period,
        whole=whole[0] if whole else NOTHING,
        totals=tuple(totals[-ROWS:]),
        left=max(0, count - ROWS),
        longest=next((total for total in sessions if total.name), None),
    )


def show_spending(spending: Spending, zone: ZoneInfo) -> Iterator[str]:
    """Show what was spent, in lines for a model to read."""
    yield from show_whole(spending, zone)
    if not spending.totals:
        return
    yield f"by {spending.by}:"
    for total in spending.totals:
        yield f"- {show_word(total.name) if total.name else '(none)'}: {show_total(total, spending.by)}"
    if spending.left:
        yield f"({spending.left:,} more, each smaller or earlier)"


def show_whole(spending: Spending, zone: ZoneInfo) -> Iterator[str]:
    """Answer the three questions of the document: what it cost, what a turn cost, and which session used the most."""
    whole, ends = spending.whole, spending.period
    since = f"since {show_time(ends.since, zone)}" if ends.since else "since the beginning"
    until = f" until {show_time(ends.until, zone)}" if ends.until else ""
    if not whole.calls and not whole.turns:
        yield f"{since}{until} ({zone.key}): nothing is recorded"
        return
    yield f"{since}{until} ({zone.key}): {show_total(whole, 'day')}"
    if whole.unpriced:
        yield f"not in the cost: {count(whole.unpriced, 'call')} without a known price"
    if spending.usd_per_turn is not None:
        yield f"on average {show_cost(spending.usd_per_turn)} a turn"
    if spending.longest and spending.longest.name:
        tokens = spending.longest.tokens_in + spending.longest.tokens_out
        yield f"most tokens: session {show_word(spending.longest.name)} with {tokens:,}"


def show_total(total: Total, by: str) -> str:
    """Show one sum; a section is no turn and writes nothing."""
    cached = f" ({total.cache_read:,} cached)" if total.cache_read else ""
    if by == "section":
        return f"{show_cost(total.cost_usd)}, {total.tokens_in:,} tokens{cached}"
    parts = [
        show_cost(total.cost_usd),
        count(total.turns, "turn"),
        count(total.calls, "call"),
        f"{total.tokens_in:,} tokens in{cached}, {total.tokens_out:,} out",
    ]
    return ", ".join(parts)
