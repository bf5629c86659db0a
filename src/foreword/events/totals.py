"""Totals: what was used and what it cost, for a reader, by day, session, user, agent, channel, model or section."""

import json
import sqlite3
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from foreword.errors import UnknownName
from foreword.events.event import Reader
from foreword.events.kinds import By
from foreword.events.moment import stamp
from foreword.events.row import read_sections
from foreword.events.stretch import Stretch, split
from foreword.events.tally import CALL, FIGURES, TURN, add, count_sections, find_quarter
from foreword.events.visible import visible
from foreword.frozen import frozen
from foreword.sources.clock import find_zone
from foreword.words import Trust

MOST = 1_000  # totals of one answer
LONGEST = 400  # days of one answer

Figures = list[Any]
_SUMMED = ", ".join(f"sum({figure})" for figure in FIGURES)
_COLUMNS = {"session": "session_id", "user": "user_id", "agent": "agent_id", "channel": "channel", "model": "model"}
_USED = ", ".join(f"coalesce(sum({figure}), 0)" for figure in FIGURES[3:])
_FIRST = "coalesce(json_extract(metadata, '$.attempt'), 1) = 1"  # a turn that is tried again is no second turn
_COUNTED = {
    TURN: f"coalesce(sum({_FIRST}), 0), 0, 0, 0, 0, 0, 0, 0.0",
    CALL: f"0, count(*), sum(cost_usd IS NULL), {_USED}",
}
_TOKENS = "sum(tokens_in) + sum(tokens_out) DESC"
_ORDERS = {"tokens": _TOKENS, "cost": f"sum(cost_usd) DESC, {_TOKENS}"}


@frozen(eq=True)
class Total:
    """What was used under one name in some time."""

    name: str
    """The day as 2026-11-16, the session, the user, and so on; empty for all, and for what has no such name."""
    turns: int
    """Turns that began; a section has none."""
    calls: int
    """Calls of a model; for a section those that it was part of."""
    unpriced: int
    """Calls among them whose price nobody knows."""
    tokens_in: int
    tokens_out: int
    cache_read: int
    cache_write: int
    cost_usd: float | None
    """The sum of what is priced, or None where nothing is."""


def sum_by(
    connection: sqlite3.Connection,
    reader: Reader,
    by: By | str,
    since: datetime | None = None,
    until: datetime | None = None,
    *,
    most: str = "tokens",
    limit: int = MOST,
) -> list[Total]:
    """Sum up what a reader may see from one moment up to another, the largest first, or day by day.

    `most` says what is large: tokens or cost. Sums by anything but a day are of the largest `limit` names; the sum of
    everything is that by `all`.
    """
    kind = By(by) if by in [word.value for word in By] else by
    if not isinstance(kind, By):
        raise UnknownName("sum", str(by)[:40], [word.value for word in By])
    if most not in _ORDERS:
        raise UnknownName("order", most[:40], _ORDERS)
    limit = max(0, min(limit, MOST))
    desk = Desk(connection, reader, kind, most, limit)
    if not desk.owner and reader.clearance is not Trust.FULL:
        return []  # what belongs to nobody is told at full trust alone
    if kind is By.DAY:
        return desk.sum_days(since, until)
    sums = desk.sum(split(since, until))
    return sorted(map(make_total, sums.items()), key=desk.rank)[:limit]


def count_names(
    connection: sqlite3.Connection, reader: Reader, by: By | str, since: datetime | None, until: datetime | None
) -> int:
    """Count the names under which a reader may see sums from one moment up to another; days are no names."""
    desk = Desk(connection, reader, By(by), "tokens", 0)
    if not desk.owner and reader.clearance is not Trust.FULL:
        return 0  # what belongs to nobody is told at full trust alone
    return desk.count(split(since, until))


def count_sessions(connection: sqlite3.Connection, reader: Reader, since: datetime) -> int:
    """Count the sessions that a reader may see with a turn or a call since the quarter of an hour of a moment."""
    desk = Desk(connection, reader, By.SESSION, "tokens", 0)
    if not desk.owner and reader.clearance is not Trust.FULL:
        return 0  # what belongs to nobody is told at full trust alone
    where, values = desk.scope()
    (count,) = connection.execute(
        f"SELECT count(DISTINCT name) FROM totals_quarter WHERE {where} AND name > '' AND start >= ?",  # noqa: S608 - ours
        [*values, find_quarter(stamp(since))],
    ).fetchone()
    return int(count)


def list_sessions(connection: sqlite3.Connection, reader: Reader, since: datetime, limit: int) -> list[str]:
    """List the sessions that `count_sessions` counts, those with the newest quarter of an hour first."""
    desk = Desk(connection, reader, By.SESSION, "tokens", 0)
    if not desk.owner and reader.clearance is not Trust.FULL:
        return []  # what belongs to nobody is told at full trust alone
    where, values = desk.scope()
    rows = connection.execute(
        f"SELECT name FROM totals_quarter WHERE {where} AND name > '' AND start >= ? "  # noqa: S608 - ours
        "GROUP BY name ORDER BY max(start) DESC, name LIMIT ?",
        [*values, find_quarter(stamp(since)), limit],
    )
    return [name for (name,) in rows]


class Desk:
    """Where one question about sums is worked out."""

    def __init__(self, connection: sqlite3.Connection, reader: Reader, by: By, most: str, limit: int) -> None:
        self.connection, self.reader, self.by, self.most, self.limit = connection, reader, by, most, limit
        self.owner = "" if reader.clearance is Trust.FULL else reader.user
        self.kind = self._choose_kind()

    def _choose_kind(self) -> str:
        if self.by is By.DAY or (self.by is By.USER and self.owner):
            return str(By.ALL)
        return str(self.by)

    def rank(self, total: Total) -> tuple[float, int, str]:
        """Put the largest first; of what cost the same, such as nothing that is priced, what has the most tokens."""
        cost = total.cost_usd or 0.0 if self.most == "cost" else 0.0
        return (-cost, -total.tokens_in - total.tokens_out, total.name)

    def sum(self, stretch: Stretch) -> dict[str, Figures]:
        """Sum up a stretch of time by name.

        The days alone have many names, so only the largest are found, and then the figures of those and of the names
        at the edges: no other name can be among the largest of both.
        """
        edges = self._sum_edges(stretch)
        if stretch.days is None:
            return self._name(edges)
        sums = self._sum_days_of({*self._find_largest(stretch.days), *edges}, stretch.days)
        for name, figures in edges.items():
            add(sums, name, figures)
        return self._name(sums)

    def count(self, stretch: Stretch) -> int:
        """Count the names of a stretch of time."""
        edges = self._sum_edges(stretch)
        if stretch.days is None:
            return len(edges)
        where, given = self.scope()
        (count,) = self.connection.execute(
            f"SELECT count(DISTINCT name) FROM totals_day WHERE {where} AND start >= ? AND start < ?",  # noqa: S608 - our own names
            [*given, *stretch.days],
        ).fetchone()
        return int(count) + len(edges.keys() - self._sum_days_of({*edges}, stretch.days).keys())

    def _name(self, sums: dict[str, Figures]) -> dict[str, Figures]:
        """For one's own eyes the sum by user is that of all, under one's name."""
        if self.by is By.USER and self.owner:
            return dict.fromkeys([self.owner], sums[""]) if sums else {}
        return sums

    def _find_largest(self, days: tuple[str, str]) -> Iterator[str]:
        where, given = self.scope()
        rows = self.connection.execute(
            f"SELECT name FROM totals_day WHERE {where} AND start >= ? AND start < ? "  # noqa: S608 - our own names
            f"GROUP BY name ORDER BY {_ORDERS[self.most]}, name LIMIT ?",
            [*given, *days, self.limit],
        )
        return (name for (name,) in rows)

    def _sum_days_of(self, names: set[str], days: tuple[str, str]) -> dict[str, Figures]:
        where, given = self.scope()
        rows = self.connection.execute(
            f"SELECT name, {_SUMMED} FROM totals_day WHERE {where} AND start >= ? AND start < ? "  # noqa: S608 - our own names
            "AND name IN (SELECT value FROM json_each(?)) GROUP BY name",
            [*given, *days, json.dumps(sorted(names))],
        )
        return {name: list(figures) for name, *figures in rows}

    def _sum_edges(self, stretch: Stretch) -> dict[str, Figures]:
        """Sum up the quarters before and after the whole days, and the rows before and after whole quarters."""
        sums: dict[str, Figures] = {}
        where, given = self.scope()
        for first, last in stretch.quarters:
            rows = self.connection.execute(
                f"SELECT name, {_SUMMED} FROM totals_quarter "  # noqa: S608 - our own names
                f"WHERE {where} AND start >= ? AND start < ? GROUP BY name",
                [*given, first, last],
            )
            for name, *figures in rows:
                add(sums, name, figures)
        for first, last in stretch.moments:
            for name, figures in (
                self._count_sections(first, last) if self.by is By.SECTION else self._count(first, last)
            ):
                add(sums, name, figures)
        return sums

    def _count(self, first: str, last: str) -> Iterator[tuple[str, Figures]]:
        """Count the rows of less than a quarter of an hour."""
        where, values = visible(self.reader)
        column = _COLUMNS.get(self.kind)
        named = f"coalesce({column}, '')" if column else "''"
        for kind, counted in _COUNTED.items():
            rows = self.connection.execute(
                f"SELECT {named}, {counted} FROM events INDEXED BY idx_events_type "  # noqa: S608 - our own names
                f"WHERE event_type = ? AND timestamp >= ? AND timestamp < ? AND {where} GROUP BY 1",
                [kind, first, last, *values],
            )
            yield from ((name, figures) for name, *figures in rows)

    def _count_sections(self, first: str, last: str) -> Iterator[tuple[str, Figures]]:
        """Count the sections of the calls of less than a quarter of an hour, as they were when they were counted."""
        where, values = visible(self.reader)
        shares: dict[str, Figures] = {}
        rows = self.connection.execute(
            "SELECT json_extract(metadata, '$.sections') FROM events INDEXED BY idx_events_type "  # noqa: S608 - our own names
            f"WHERE event_type = ? AND timestamp >= ? AND timestamp < ? AND {where}",
            [CALL, first, last, *values],
        )
        for (sections,) in rows:
            if sections:
                count_sections(shares, read_sections(json.loads(sections)))
        yield from shares.items()

    def scope(self) -> tuple[str, list[Any]]:
        """Make the condition that the sums are those of this reader."""
        values = [self.kind, self.owner, self.reader.room, int(self.reader.clearance)]
        return "kind = ? AND owner = ? AND room = ? AND trust <= ?", values

    def sum_days(self, since: datetime | None, until: datetime | None) -> list[Total]:
        """Sum up each day of the reader's zone, without those in which nothing was used."""
        zone, _ = find_zone(self.reader.timezone)
        first, last = self._find_ends()
        if first is None or last is None:
            return []
        begin = max(first, since.astimezone(UTC)) if since else first
        end = min(last, until.astimezone(UTC)) if until else last
        day = max(begin.astimezone(zone).date(), end.astimezone(zone).date() - timedelta(days=LONGEST))
        totals = []
        while (start := _begin(day, zone)) < end:
            stop = _begin(day + timedelta(days=1), zone)
            # An end that was not asked for cuts nothing, so that whole quarters and days can be used.
            low = max(start, since.astimezone(UTC)) if since else start
            high = min(stop, until.astimezone(UTC)) if until else stop
            figures = self.sum(split(low, high)).values()
            totals += [make_total((day.isoformat(), one)) for one in figures]
            day += timedelta(days=1)
        return totals

    def _find_ends(self) -> tuple[datetime | None, datetime | None]:
        """Find the quarters between which the reader has anything to sum up, of years that a day can be added to."""
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
    """Find the moment at which a day begins in a zone."""
    return datetime.combine(day, time(), zone).astimezone(UTC)


def make_total(named: tuple[str, Figures]) -> Total:
    """Make a total of summed figures."""
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
