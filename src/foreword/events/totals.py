"""Totals of usage and cost, queried for a reader from the sums per quarter-hour and day."""

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from foreword.errors import UnknownName
from foreword.events import record
from foreword.events.event import GROUPINGS, Grouping, Reader, build_visibility_condition, format_timestamp
from foreword.events.lines import show_cost, show_count_of, show_period, show_word
from foreword.events.period import Period, parse_report_period
from foreword.host import load_zone
from foreword.types import Trust, frozen

MAX_TOTALS = 1_000  # totals in one answer
MAX_DAYS = 400  # days in one answer
QUARTER_HOUR, ONE_DAY = timedelta(minutes=15), timedelta(days=1)
FIRST_DAY, LAST_DAY = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)  # the open ends of a period
NO_OWNER = "\0"  # no user has this name: a reader without a name has no totals

_SUMMED = ", ".join(f"sum({figure})" for figure in record.FIGURES)


@frozen(eq=True)
class Total:
    """Usage and cost under one name in a period."""

    name: str  # the name: a day such as 2026-11-16, a session, a user and so on; empty for the overall total
    turns: int = 0  # turns that started; sections have none
    calls: int = 0  # model calls; for a section, the calls that contained it
    unpriced: int = 0  # calls without a known price
    tokens_in: int = 0
    tokens_out: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost_usd: float | None = None  # the sum of the known prices, or None if none is known

    @property
    def tokens(self) -> int:
        """All tokens, in and out."""
        return self.tokens_in + self.tokens_out


def sum_usage_by(
    connection: sqlite3.Connection,
    reader: Reader,
    by: Grouping | str,
    since: datetime | None = None,
    until: datetime | None = None,
    *,
    most: str = "tokens",
    limit: int = MAX_TOTALS,
) -> tuple[list[Total], int]:
    """Sum what a reader may see in a period, largest by tokens or cost first, or all days in order.

    Return at most `limit` totals, and the number of all names.
    """
    try:
        grouping = Grouping(by)
    except ValueError:
        raise UnknownName("sum", str(by)[:40], [each.value for each in Grouping]) from None
    if grouping is Grouping.DAY:
        days = list(sum_days(connection, reader, since, until))
        return days, len(days)
    sums = sum_figures(connection, reader, grouping, since, until)
    own = reader.user if grouping is Grouping.USER and reader.clearance is not Trust.FULL else ""
    named: dict[str, Any] = {name: dict(zip(record.FIGURES, figures, strict=True)) for name, figures in sums.items()}
    totals = [Total(name=own or name, **figures) for name, figures in named.items()]
    totals.sort(key=lambda each: (-(each.cost_usd or 0.0) if most == "cost" else 0, -each.tokens, each.name))
    shown = totals[: min(limit, MAX_TOTALS)]
    return [each if each.calls > each.unpriced else replace(each, cost_usd=None) for each in shown], len(totals)


def sum_figures(
    connection: sqlite3.Connection, reader: Reader, by: Grouping, since: datetime | None, until: datetime | None
) -> dict[str, record.Figures]:
    """Sum the figures of a period by name: from totals, and from single rows at its ends."""
    scope, values = build_scope(reader, by)
    visible, visible_values = build_visibility_condition(reader)
    sums: dict[str, record.Figures] = {}
    for table, first, last in split_period(since, until):
        if table == "events":
            rows = connection.execute(
                f"SELECT {', '.join(record.EVENT_COLUMNS)} FROM events INDEXED BY idx_events_type"
                f" WHERE event_type IN (?, ?) AND timestamp >= ? AND timestamp < ? AND {visible}",
                [record.TURN_TYPE, record.CALL_TYPE, first, last, *visible_values],
            )
            counted = record.count_rows(
                record.EventRow(
                    row, record.read_sections(record.parse_facts(row[record.METADATA_PLACE]).get("sections"))
                )
                for row in rows
            )
            for (kind, owner, room, _, name, _), figures in counted.items():
                if [kind, owner, room] == values[:3]:
                    record.add_figures(sums, name, figures)
            continue
        query = f"SELECT name, {_SUMMED} FROM {table} WHERE {scope} AND start >= ? AND start < ? GROUP BY name"
        for name, *figures in connection.execute(query, [*values, first, last]):
            record.add_figures(sums, name, figures)
    return sums


def build_scope(reader: Reader, by: Grouping) -> tuple[str, list[Any]]:
    """Return the SQL condition and parameters for the totals of a reader. One user's total is their overall total."""
    owner = "" if reader.clearance is Trust.FULL else reader.user or NO_OWNER
    kind = Grouping.ALL if by is Grouping.DAY or (by is Grouping.USER and owner) else by
    return "kind = ? AND owner = ? AND room = ? AND trust <= ?", [str(kind), owner, reader.room, int(reader.clearance)]


def split_period(since: datetime | None, until: datetime | None) -> list[tuple[str, str, str]]:
    """Split a period into whole days, quarter-hours and single rows: ranges of a table, as it stores times."""
    begin, end = since or FIRST_DAY, until or LAST_DAY
    first, last = round_inwards(begin, end, QUARTER_HOUR)
    dawn, dusk = round_inwards(first, last, ONE_DAY)
    ranges = [
        ("events", begin, first, 27),
        ("totals_quarter", first, dawn, 16),
        ("totals_day", dawn, dusk, 10),
        ("totals_quarter", dusk, last, 16),
        ("events", last, end, 27),
    ]
    return [
        (table, format_timestamp(start)[:length], format_timestamp(stop)[:length])
        for table, start, stop, length in ranges
        if start < stop
    ]


def round_inwards(start: datetime, end: datetime, step: timedelta) -> tuple[datetime, datetime]:
    """Round a period to whole steps of a UTC day. Without one, both ends are its end."""
    ends = [moment.astimezone(UTC) for moment in (start, end)]
    low, high = (moment - (moment - FIRST_DAY) % step for moment in ends)
    low += step if low < ends[0] else timedelta()
    return (low, high) if low <= high else (end, end)


def sum_days(
    connection: sqlite3.Connection, reader: Reader, since: datetime | None, until: datetime | None
) -> Iterator[Total]:
    """Sum each day of the reader's timezone. Days without usage are left out."""
    zone, _ = load_zone(reader.timezone)
    scope, values = build_scope(reader, Grouping.ALL)
    # These years allow date arithmetic in every timezone.
    seen = f"FROM totals_quarter WHERE {scope} AND start > '1970' AND start < '9000'"
    first, last = connection.execute(
        f"SELECT (SELECT min(start) {seen}), (SELECT max(start) {seen})", [*values, *values]
    ).fetchone()
    if first is None:
        return
    begin = max(filter(None, (datetime.fromisoformat(f"{first}Z"), since)))
    end = min(filter(None, (datetime.fromisoformat(f"{last}Z") + QUARTER_HOUR, until)))
    day = max(begin.astimezone(zone).date(), end.astimezone(zone).date() - timedelta(days=MAX_DAYS))
    while (start := find_day_start(day, zone)) < end:
        following = day + ONE_DAY
        # A whole day is not cut at its first or last usage, so that stored totals can be used.
        low = max(filter(None, (start, since)))
        high = min(filter(None, (find_day_start(following, zone), until)))
        for total in sum_usage_by(connection, reader, Grouping.ALL, low, high)[0]:
            yield replace(total, name=day.isoformat())
        day = following


def find_day_start(day: date, zone: ZoneInfo) -> datetime:
    """Return the start of a day in a timezone."""
    return datetime.combine(day, time(), zone).astimezone(UTC)


def list_sessions(connection: sqlite3.Connection, reader: Reader, since: datetime, limit: int) -> tuple[list[str], int]:
    """List the visible sessions since the quarter-hour of a time, newest first, and count all of them."""
    scope, values = build_scope(reader, Grouping.SESSION)
    rows = connection.execute(
        f"SELECT name, count(*) OVER () FROM totals_quarter WHERE {scope} AND name > '' AND start >= ? "
        "GROUP BY name ORDER BY max(start) DESC, name LIMIT ?",
        [*values, record.find_quarter(format_timestamp(since)), limit],
    ).fetchall()
    return [name for name, _ in rows], rows[0][1] if rows else 0


MAX_ROWS = 50  # totals in one answer


@frozen(eq=True)
class Spending:
    """Spending of a period, limited to what the reader may see."""

    by: str
    period: Period
    whole: Total  # the total over everything
    totals: tuple[Total, ...]  # days in order, sessions by tokens, others by cost; only the largest if there are many
    left: int  # number of smaller totals that are not included
    longest: Total | None  # the session with the most tokens

    @property
    def usd_per_turn(self) -> float | None:
        """The average cost of a turn, or None without a price or a turn."""
        cost = self.whole.cost_usd
        return cost / self.whole.turns if cost is not None and self.whole.turns else None


def find_spending(
    connection: sqlite3.Connection, reader: Reader, options: Mapping[str, str], now: datetime
) -> Spending:
    """Find the spending by one of `GROUPINGS`. The default period is today."""
    by = options.get("by") or "day"
    if by not in GROUPINGS:
        raise UnknownName("sum", by[:40], GROUPINGS)
    period = parse_report_period(options, now, reader.timezone)
    ends = (period.since, period.until)
    whole, _ = sum_usage_by(connection, reader, Grouping.ALL, *ends)
    order = "tokens" if by == "session" else "cost"
    totals, count = sum_usage_by(connection, reader, by, *ends, most=order, limit=MAX_ROWS)
    # At most one of two is the total of calls without a session.
    sessions = totals if by == "session" else sum_usage_by(connection, reader, "session", *ends, limit=2)[0]
    return Spending(
        by=by,
        period=period,
        whole=whole[0] if whole else Total(name=""),
        totals=tuple(totals[-MAX_ROWS:]),
        left=max(0, count - MAX_ROWS),
        longest=next((total for total in sessions if total.name), None),
    )


def show_spending(spending: Spending, zone: ZoneInfo) -> Iterator[str]:
    """Format spending as lines for a model."""
    yield from show_spending_summary(spending, zone)
    if not spending.totals:
        return
    yield f"by {spending.by}:"
    for total in spending.totals:
        yield f"- {show_word(total.name) if total.name else '(none)'}: {show_total(total, spending.by)}"
    if spending.left:
        yield f"({spending.left:,} more, each smaller or earlier)"


def show_spending_summary(spending: Spending, zone: ZoneInfo) -> Iterator[str]:
    """Format the total cost, the cost per turn and the session with the most tokens."""
    whole, longest = spending.whole, spending.longest
    period = show_period(spending.period, zone)
    if not whole.calls and not whole.turns:
        yield f"{period}: nothing is recorded"
        return
    yield f"{period}: {show_total(whole, 'day')}"
    if whole.unpriced:
        yield f"not in the cost: {show_count_of(whole.unpriced, 'call')} without a known price"
    if spending.usd_per_turn is not None:
        yield f"on average {show_cost(spending.usd_per_turn)} a turn"
    if longest:
        yield f"most tokens: session {show_word(longest.name)} with {longest.tokens:,}"


def show_total(total: Total, by: str) -> str:
    """Format one total. A section has no turns and no output."""
    cached = f" ({total.cache_read:,} cached)" if total.cache_read else ""
    if by == "section":
        return f"{show_cost(total.cost_usd)}, {total.tokens_in:,} tokens{cached}"
    return (
        f"{show_cost(total.cost_usd)}, {show_count_of(total.turns, 'turn')}, {show_count_of(total.calls, 'call')}, "
        f"{total.tokens_in:,} tokens in{cached}, {total.tokens_out:,} out"
    )
