"""Queries for totals of usage and cost, by day, session, user, agent, channel, model or section.

Totals of usage and cost, updated with the rows they count, so that queries need not read the rows. Spending of a
period: totals by day, session, user and so on.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from operator import itemgetter
from typing import Any
from zoneinfo import ZoneInfo

from foreword.errors import UnknownName
from foreword.events.event import GROUPINGS, EventType, Grouping, Reader, build_visibility_condition
from foreword.events.lines import show_cost, show_count_of, show_time, show_word
from foreword.events.period import Period, PeriodParts, format_timestamp, parse_unpaged_period, split_period
from foreword.events.record import EVENT_COLUMNS, EventRow, read_sections
from foreword.host import load_zone
from foreword.types import Trust, frozen

FIGURES = ("turns", "calls", "unpriced", "tokens_in", "tokens_out", "cache_read", "cache_write", "cost_usd")
TOTALS_KEY = ("kind", "owner", "room", "start", "name", "trust")
TURN_TYPE, CALL_TYPE = EventType.TURN_STARTED.value, EventType.API_CALL.value
COUNTED_TYPES = (TURN_TYPE, CALL_TYPE)
SECTION_GROUPING = Grouping.SECTION.value
QUARTER_STARTS = ("00", "15", "30", "45")
MAX_CALL_FIGURE = 10**12  # limit for the tokens or dollars of one call, so that no total overflows

TotalsKey = tuple[str, str, str, str, str, int]
Sums = dict[TotalsKey, list[Any]]

_AT = {column: place for place, column in enumerate(EVENT_COLUMNS)}
_TYPE, _TIME, _METADATA = _AT["event_type"], _AT["timestamp"], _AT["metadata"]
_find_place = itemgetter(
    *(_AT[name] for name in ("session_id", "user_id", "agent_id", "channel", "model", "room", "trust"))
)
_find_usage = itemgetter(*(_AT[name] for name in ("tokens_in", "tokens_out", "cache_read", "cache_write", "cost_usd")))


def find_quarter(timestamp: str) -> str:
    """Return the start of the quarter-hour of a timestamp."""
    return timestamp[:14] + QUARTER_STARTS[int(timestamp[14:16]) // 15]


def write_totals(connection: sqlite3.Connection, rows: Iterable[EventRow]) -> None:
    """Add rows to the totals, inside the transaction that writes them."""
    quarters = count_rows(rows)
    if not quarters:
        return
    days: Sums = {}
    for (kind, owner, room, start, name, trust), figures in quarters.items():
        add_figures(days, (kind, owner, room, start[:10], name, trust), figures)
    for table, sums in (("totals_quarter", quarters), ("totals_day", days)):
        connection.executemany(_UPSERT[table], [(*key, *figures) for key, figures in sorted(sums.items())])


def count_rows(rows: Iterable[EventRow]) -> Sums:
    """Count rows into totals per quarter-hour.

    Rows are first counted by place, since most rows of a batch share theirs with others.
    """
    places: dict[tuple[Any, ...], list[Any]] = {}
    sections: dict[tuple[Any, ...], dict[str, list[Any]]] = {}
    for values, parts in rows:
        kind = values[_TYPE]
        if kind not in COUNTED_TYPES:
            continue
        start = find_quarter(values[_TIME])
        place = (start, *_find_place(values))
        figures = places.get(place)
        if figures is None:
            figures = places[place] = [0, 0, 0, 0, 0, 0, 0, 0.0]
        if kind == TURN_TYPE:
            figures[0] += is_first_attempt(values[_METADATA])
            continue
        count_call(figures, values)
        if parts:
            _, _, user, _, _, _, room, trust = place
            count_sections(sections.setdefault((start, user, room, trust), {}), parts)
    sums: Sums = {}
    for place, figures in places.items():
        add_to_totals(sums, place, figures)
    for (start, user, room, trust), shares in sections.items():
        for owner, where in list_scopes(user, room):
            for name, figures in shares.items():
                add_figures(sums, (SECTION_GROUPING, owner, where, start, name, trust), figures)
    return sums


def is_first_attempt(metadata: str | None) -> bool:
    """Return whether this is the first attempt of a turn, not a retry."""
    return metadata is None or '"attempt"' not in metadata or json.loads(metadata).get("attempt") in (None, 1)


def count_call(figures: list[Any], values: Sequence[Any]) -> None:
    """Add a call to the figures of its place."""
    tokens_in, tokens_out, read, written, cost = _find_usage(values)
    figures[1] += 1
    if cost is None:
        figures[2] += 1
    else:
        figures[7] += clamp_figure(cost)
    figures[3] += clamp_figure(tokens_in or 0)
    figures[4] += clamp_figure(tokens_out or 0)
    figures[5] += clamp_figure(read or 0)
    figures[6] += clamp_figure(written or 0)


def count_sections(shares: dict[str, list[Any]], parts: Iterable[Sequence[Any]]) -> None:
    """Add the sections of a call to their figures."""
    for name, tokens, cached, usd in parts:
        figures = shares.get(name)
        if figures is None:
            figures = shares[name] = [0, 0, 0, 0, 0, 0, 0, 0.0]
        figures[1] += 1
        if usd is None:
            figures[2] += 1
        else:
            figures[7] += clamp_figure(usd)
        figures[3] += clamp_figure(tokens)
        figures[5] += clamp_figure(cached)


def clamp_figure(figure: float) -> float:
    """Limit a figure of one call."""
    return (
        figure if -MAX_CALL_FIGURE <= figure <= MAX_CALL_FIGURE else MAX_CALL_FIGURE if figure > 0 else -MAX_CALL_FIGURE
    )


def add_to_totals(sums: Sums, place: Sequence[Any], figures: Sequence[Any]) -> None:
    """Add the figures of one place to every total that includes it."""
    start, session, user, agent, channel, model, room, trust = place
    names = {"all": "", "session": session, "agent": agent, "channel": channel, "model": model}
    for owner, where in list_scopes(user, room):
        for kind, name in names.items():
            add_figures(sums, (kind, owner, where, start, name or "", trust), figures)
        if not owner:  # for the user alone this equals the overall total
            add_figures(sums, ("user", owner, where, start, user or "", trust), figures)


def list_scopes(user: str | None, room: str | None) -> Iterator[tuple[str, str]]:
    """List the scopes of a row: everybody, its user, its room, and its user in that room."""
    yield "", ""
    if user:
        yield user, ""
    if room:
        yield "", room
    if user and room:
        yield user, room


def add_figures(sums: dict[Any, list[Any]], key: Any, figures: Sequence[Any]) -> None:
    """Add figures to those of a key."""
    known = sums.get(key)
    sums[key] = list(figures) if known is None else [one + other for one, other in zip(known, figures, strict=True)]


def _write_upsert(table: str) -> str:
    columns = (*TOTALS_KEY, *FIGURES)
    added = ", ".join(f"{figure} = {figure} + excluded.{figure}" for figure in FIGURES)
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) "
        f"ON CONFLICT ({', '.join(TOTALS_KEY)}) DO UPDATE SET {added}"
    )


_UPSERT = {table: _write_upsert(table) for table in ("totals_quarter", "totals_day")}


MAX_TOTALS = 1_000  # totals in one answer
MAX_DAYS = 400  # days in one answer

Figures = list[Any]
_SUMMED = ", ".join(f"sum({figure})" for figure in FIGURES)
_COLUMNS = {"session": "session_id", "user": "user_id", "agent": "agent_id", "channel": "channel", "model": "model"}
_USED = ", ".join(f"coalesce(sum({figure}), 0)" for figure in FIGURES[3:])
_FIRST = "coalesce(json_extract(metadata, '$.attempt'), 1) = 1"  # a retry is not another turn
_COUNTED = {
    TURN_TYPE: f"coalesce(sum({_FIRST}), 0), 0, 0, 0, 0, 0, 0, 0.0",
    CALL_TYPE: f"0, count(*), sum(cost_usd IS NULL), {_USED}",
}
_TOKENS = "sum(tokens_in) + sum(tokens_out) DESC"
_ORDERS = {"tokens": _TOKENS, "cost": f"sum(cost_usd) DESC, {_TOKENS}"}


@frozen(eq=True)
class Total:
    """Usage and cost under one name in a period."""

    name: str
    """The name: a day such as 2026-11-16, a session, a user and so on. Empty for the overall total."""
    turns: int
    """Turns that started. Sections have none."""
    calls: int
    """Model calls. For a section, the calls that contained it."""
    unpriced: int
    """Calls without a known price."""
    tokens_in: int
    tokens_out: int
    cache_read: int
    cache_write: int
    cost_usd: float | None
    """The sum of the known prices, or None if none is known."""


def sum_usage_by(
    connection: sqlite3.Connection,
    reader: Reader,
    by: Grouping | str,
    since: datetime | None = None,
    until: datetime | None = None,
    *,
    most: str = "tokens",
    limit: int = MAX_TOTALS,
) -> list[Total]:
    """Sum what a reader may see in a period, largest first, or by day.

    `most` is the sort key: tokens or cost. Except for days, only the `limit` largest names are returned; the grouping
    `all` gives the overall total.
    """
    kind = Grouping(by) if by in [word.value for word in Grouping] else by
    if not isinstance(kind, Grouping):
        raise UnknownName("sum", str(by)[:40], [word.value for word in Grouping])
    if most not in _ORDERS:
        raise UnknownName("order", most[:40], _ORDERS)
    limit = max(0, min(limit, MAX_TOTALS))
    desk = TotalsQuery(connection, reader, kind, most, limit)
    if not desk.owner and reader.clearance is not Trust.FULL:
        return []  # rows without a user are visible only at full trust
    if kind is Grouping.DAY:
        return desk.sum_days(since, until)
    sums = desk.sum(split_period(since, until))
    return sorted(map(build_total, sums.items()), key=desk.rank)[:limit]


def count_names(
    connection: sqlite3.Connection, reader: Reader, by: Grouping | str, since: datetime | None, until: datetime | None
) -> int:
    """Count the names with totals that a reader may see in a period. Not for days."""
    desk = TotalsQuery(connection, reader, Grouping(by), "tokens", 0)
    if not desk.owner and reader.clearance is not Trust.FULL:
        return 0  # rows without a user are visible only at full trust
    return desk.count(split_period(since, until))


def count_sessions(connection: sqlite3.Connection, reader: Reader, since: datetime) -> int:
    """Count the visible sessions with a turn or a call since the quarter-hour of a time."""
    desk = TotalsQuery(connection, reader, Grouping.SESSION, "tokens", 0)
    if not desk.owner and reader.clearance is not Trust.FULL:
        return 0  # rows without a user are visible only at full trust
    where, values = desk.scope()
    (count,) = connection.execute(
        f"SELECT count(DISTINCT name) FROM totals_quarter WHERE {where} AND name > '' AND start >= ?",
        [*values, find_quarter(format_timestamp(since))],
    ).fetchone()
    return int(count)


def list_sessions(connection: sqlite3.Connection, reader: Reader, since: datetime, limit: int) -> list[str]:
    """List the sessions that `count_sessions` counts, newest quarter-hour first."""
    desk = TotalsQuery(connection, reader, Grouping.SESSION, "tokens", 0)
    if not desk.owner and reader.clearance is not Trust.FULL:
        return []  # rows without a user are visible only at full trust
    where, values = desk.scope()
    rows = connection.execute(
        f"SELECT name FROM totals_quarter WHERE {where} AND name > '' AND start >= ? "
        "GROUP BY name ORDER BY max(start) DESC, name LIMIT ?",
        [*values, find_quarter(format_timestamp(since)), limit],
    )
    return [name for (name,) in rows]


class TotalsQuery:
    """One query for totals of a reader."""

    def __init__(self, connection: sqlite3.Connection, reader: Reader, by: Grouping, most: str, limit: int) -> None:
        self.connection, self.reader, self.by, self.most, self.limit = connection, reader, by, most, limit
        self.owner = "" if reader.clearance is Trust.FULL else reader.user
        self.kind = self._choose_kind()

    def _choose_kind(self) -> str:
        if self.by is Grouping.DAY or (self.by is Grouping.USER and self.owner):
            return str(Grouping.ALL)
        return str(self.by)

    def rank(self, total: Total) -> tuple[float, int, str]:
        """Return the sort key: largest first, by cost or tokens, then by tokens and name."""
        cost = total.cost_usd or 0.0 if self.most == "cost" else 0.0
        return (-cost, -total.tokens_in - total.tokens_out, total.name)

    def sum(self, stretch: PeriodParts) -> dict[str, Figures]:
        """Sum a period by name.

        Days have many names, so the query finds the largest ones, and then the figures of those and of the names at the
        edges. No other name can be among the largest of both.
        """
        edges = self._sum_edges(stretch)
        if stretch.days is None:
            return self._name(edges)
        sums = self._sum_days_of({*self._find_largest(stretch.days), *edges}, stretch.days)
        for name, figures in edges.items():
            add_figures(sums, name, figures)
        return self._name(sums)

    def count(self, stretch: PeriodParts) -> int:
        """Count the names in a period."""
        edges = self._sum_edges(stretch)
        if stretch.days is None:
            return len(edges)
        where, given = self.scope()
        (count,) = self.connection.execute(
            f"SELECT count(DISTINCT name) FROM totals_day WHERE {where} AND start >= ? AND start < ?",
            [*given, *stretch.days],
        ).fetchone()
        return int(count) + len(edges.keys() - self._sum_days_of({*edges}, stretch.days).keys())

    def _name(self, sums: dict[str, Figures]) -> dict[str, Figures]:
        """Return the totals by name. For a single user, the total by user is the overall total."""
        if self.by is Grouping.USER and self.owner:
            return dict.fromkeys([self.owner], sums[""]) if sums else {}
        return sums

    def _find_largest(self, days: tuple[str, str]) -> Iterator[str]:
        where, given = self.scope()
        rows = self.connection.execute(
            f"SELECT name FROM totals_day WHERE {where} AND start >= ? AND start < ? "
            f"GROUP BY name ORDER BY {_ORDERS[self.most]}, name LIMIT ?",
            [*given, *days, self.limit],
        )
        return (name for (name,) in rows)

    def _sum_days_of(self, names: set[str], days: tuple[str, str]) -> dict[str, Figures]:
        where, given = self.scope()
        rows = self.connection.execute(
            f"SELECT name, {_SUMMED} FROM totals_day WHERE {where} AND start >= ? AND start < ? "
            "AND name IN (SELECT value FROM json_each(?)) GROUP BY name",
            [*given, *days, json.dumps(sorted(names))],
        )
        return {name: list(figures) for name, *figures in rows}

    def _sum_edges(self, stretch: PeriodParts) -> dict[str, Figures]:
        """Sum the quarter-hours around the whole days, and the rows around whole quarter-hours."""
        sums: dict[str, Figures] = {}
        where, given = self.scope()
        for first, last in stretch.quarters:
            rows = self.connection.execute(
                f"SELECT name, {_SUMMED} FROM totals_quarter WHERE {where} AND start >= ? AND start < ? GROUP BY name",
                [*given, first, last],
            )
            for name, *figures in rows:
                add_figures(sums, name, figures)
        for first, last in stretch.moments:
            for name, figures in (
                self._count_sections(first, last) if self.by is Grouping.SECTION else self._count(first, last)
            ):
                add_figures(sums, name, figures)
        return sums

    def _count(self, first: str, last: str) -> Iterator[tuple[str, Figures]]:
        """Count the rows of a range shorter than a quarter-hour."""
        where, values = build_visibility_condition(self.reader)
        column = _COLUMNS.get(self.kind)
        named = f"coalesce({column}, '')" if column else "''"
        for kind, counted in _COUNTED.items():
            rows = self.connection.execute(
                f"SELECT {named}, {counted} FROM events INDEXED BY idx_events_type "
                f"WHERE event_type = ? AND timestamp >= ? AND timestamp < ? AND {where} GROUP BY 1",
                [kind, first, last, *values],
            )
            yield from ((name, figures) for name, *figures in rows)

    def _count_sections(self, first: str, last: str) -> Iterator[tuple[str, Figures]]:
        """Count the sections of the calls in a range shorter than a quarter-hour."""
        where, values = build_visibility_condition(self.reader)
        shares: dict[str, Figures] = {}
        rows = self.connection.execute(
            "SELECT json_extract(metadata, '$.sections') FROM events INDEXED BY idx_events_type "
            f"WHERE event_type = ? AND timestamp >= ? AND timestamp < ? AND {where}",
            [CALL_TYPE, first, last, *values],
        )
        for (sections,) in rows:
            if sections:
                count_sections(shares, read_sections(json.loads(sections)))
        yield from shares.items()

    def scope(self) -> tuple[str, list[Any]]:
        """Return the SQL condition and parameters for the totals of this reader."""
        values = [self.kind, self.owner, self.reader.room, int(self.reader.clearance)]
        return "kind = ? AND owner = ? AND room = ? AND trust <= ?", values

    def sum_days(self, since: datetime | None, until: datetime | None) -> list[Total]:
        """Sum each day of the reader's timezone. Days without usage are left out."""
        zone, _ = load_zone(self.reader.timezone)
        first, last = self._find_ends()
        if first is None or last is None:
            return []
        begin = max(first, since.astimezone(UTC)) if since else first
        end = min(last, until.astimezone(UTC)) if until else last
        day = max(begin.astimezone(zone).date(), end.astimezone(zone).date() - timedelta(days=MAX_DAYS))
        totals = []
        while (start := _begin(day, zone)) < end:
            stop = _begin(day + timedelta(days=1), zone)
            # An end that is not set cuts nothing, so that whole quarter-hours and days can be used.
            low = max(start, since.astimezone(UTC)) if since else start
            high = min(stop, until.astimezone(UTC)) if until else stop
            figures = self.sum(split_period(low, high)).values()
            totals += [build_total((day.isoformat(), one)) for one in figures]
            day += timedelta(days=1)
        return totals

    def _find_ends(self) -> tuple[datetime | None, datetime | None]:
        """Return the first and last time with a visible total, within years that allow date arithmetic."""
        seen = (
            "FROM totals_quarter WHERE kind = 'all' AND owner = ?1 AND room = ?2 AND trust <= ?3 "
            "AND start > '1970' AND start < '9000'"
        )
        first, last = self.connection.execute(
            f"SELECT (SELECT min(start) {seen}), (SELECT max(start) {seen})",
            [self.owner, self.reader.room, int(self.reader.clearance)],
        ).fetchone()
        if first is None:
            return None, None
        length = timedelta(minutes=15)
        return datetime.fromisoformat(f"{first}Z"), datetime.fromisoformat(f"{last}Z") + length


def _begin(day: date, zone: Any) -> datetime:
    """Return the start of a day in a timezone."""
    return datetime.combine(day, time(), zone).astimezone(UTC)


def build_total(named: tuple[str, Figures]) -> Total:
    """Build a total from summed figures."""
    name, (turns, calls, unpriced, tokens_in, tokens_out, cache_read, cache_write, cost) = named
    return Total(
        name=name,
        turns=turns,
        calls=calls,
        unpriced=unpriced,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        cache_read=cache_read,
        cache_write=cache_write,
        cost_usd=cost if calls > unpriced else None,
    )


MAX_ROWS = 50  # totals in one answer
SORT_KEYS = {"session": "tokens"}  # the sort order of totals, if not by cost
NO_USAGE = Total(
    name="", turns=0, calls=0, unpriced=0, tokens_in=0, tokens_out=0, cache_read=0, cache_write=0, cost_usd=None
)


@frozen(eq=True)
class Spending:
    """Spending of a period, limited to what the reader may see."""

    by: str
    period: Period
    whole: Total
    """The total over everything."""
    totals: tuple[Total, ...]
    """Days in order, sessions by tokens, others by cost. Only the largest if there are many."""
    left: int
    """Number of smaller totals that are not included."""
    longest: Total | None
    """The session with the most tokens."""

    @property
    def usd_per_turn(self) -> float | None:
        """The average cost of a turn, or None without a price or a turn."""
        cost = self.whole.cost_usd
        return cost / self.whole.turns if cost is not None and self.whole.turns else None


def find_spending(connection: sqlite3.Connection, reader: Reader, asked: Mapping[str, str], now: datetime) -> Spending:
    """Find the spending by one of `KINDS`. The default period is today."""
    by = asked.get("by") or "day"
    if by not in GROUPINGS:
        raise UnknownName("sum", by[:40], GROUPINGS)
    since, until = asked.get("since") or "", asked.get("until") or ""
    period = parse_unpaged_period(since or ("" if until else "today"), until, now, reader.timezone)
    ends = (period.since, period.until)

    def total(kind: str, limit: int = MAX_ROWS) -> list[Total]:
        most = SORT_KEYS.get(kind, "cost")
        return sum_usage_by(connection, reader, kind, *ends, most=most, limit=limit)

    whole, totals = total("all"), total(by)
    count = len(totals) if by == "day" or len(totals) < MAX_ROWS else count_names(connection, reader, by, *ends)
    # At most one of the two is the total of calls without a session.
    sessions = totals if by == "session" else total("session", 2)
    return Spending(
        by=by,
        period=period,
        whole=whole[0] if whole else NO_USAGE,
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
    whole, ends = spending.whole, spending.period
    since = f"since {show_time(ends.since, zone)}" if ends.since else "since the beginning"
    until = f" until {show_time(ends.until, zone)}" if ends.until else ""
    if not whole.calls and not whole.turns:
        yield f"{since}{until} ({zone.key}): nothing is recorded"
        return
    yield f"{since}{until} ({zone.key}): {show_total(whole, 'day')}"
    if whole.unpriced:
        yield f"not in the cost: {show_count_of(whole.unpriced, 'call')} without a known price"
    if spending.usd_per_turn is not None:
        yield f"on average {show_cost(spending.usd_per_turn)} a turn"
    if spending.longest and spending.longest.name:
        tokens = spending.longest.tokens_in + spending.longest.tokens_out
        yield f"most tokens: session {show_word(spending.longest.name)} with {tokens:,}"


def show_total(total: Total, by: str) -> str:
    """Format one total. A section has no turns and no output."""
    cached = f" ({total.cache_read:,} cached)" if total.cache_read else ""
    if by == "section":
        return f"{show_cost(total.cost_usd)}, {total.tokens_in:,} tokens{cached}"
    parts = [
        show_cost(total.cost_usd),
        show_count_of(total.turns, "turn"),
        show_count_of(total.calls, "call"),
        f"{total.tokens_in:,} tokens in{cached}, {total.tokens_out:,} out",
    ]
    return ", ".join(parts)
