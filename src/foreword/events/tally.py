"""Sums of what was used and what it cost: kept with the rows they count, so that no question reads the rows again.

A row counts in several sums at once: in all, and by session, user, agent, channel, model and section; for everybody,
for its user alone, and for its room; in its quarter of an hour and in its day. So each reader's sum is a short walk
over rows that hold nothing but what this reader may see.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any

from foreword.events.event import EventType
from foreword.events.kinds import By
from foreword.events.row import COLUMNS, Row

FIGURES = ("turns", "calls", "unpriced", "tokens_in", "tokens_out", "cache_read", "cache_write", "cost_usd")
KEY = ("kind", "owner", "room", "start", "name", "trust")
TURN, CALL = EventType.TURN_STARTED.value, EventType.API_CALL.value
COUNTED = (TURN, CALL)
SECTION = By.SECTION.value
QUARTERS = ("00", "15", "30", "45")
MOST = 10**12  # tokens or dollars of one call that are counted: no sum grows beyond what the database adds

Key = tuple[str, str, str, str, str, int]
Sums = dict[Key, list[Any]]

_AT = {column: place for place, column in enumerate(COLUMNS)}
_TYPE, _TIME, _METADATA = _AT["event_type"], _AT["timestamp"], _AT["metadata"]
_find_place = itemgetter(
    *(_AT[name] for name in ("session_id", "user_id", "agent_id", "channel", "model", "room", "trust"))
)
_find_usage = itemgetter(*(_AT[name] for name in ("tokens_in", "tokens_out", "cache_read", "cache_write", "cost_usd")))


def find_quarter(timestamp: str) -> str:
    """Find the quarter of an hour in which a moment lies."""
    return timestamp[:14] + QUARTERS[int(timestamp[14:16]) // 15]


def write_totals(connection: sqlite3.Connection, rows: Iterable[Row]) -> None:
    """Add rows to the sums, inside the transaction that writes them."""
    quarters = tally(rows)
    if not quarters:
        return
    days: Sums = {}
    for (kind, owner, room, start, name, trust), figures in quarters.items():
        add(days, (kind, owner, room, start[:10], name, trust), figures)
    for table, sums in (("totals_quarter", quarters), ("totals_day", days)):
        connection.executemany(_UPSERT[table], [(*key, *figures) for key, figures in sorted(sums.items())])


def tally(rows: Iterable[Row]) -> Sums:
    """Count rows into the sums of their quarters.

    They are counted by place first, since most rows of a batch share theirs with others.
    """
    places: dict[tuple[Any, ...], list[Any]] = {}
    sections: dict[tuple[Any, ...], dict[str, list[Any]]] = {}
    for values, parts in rows:
        kind = values[_TYPE]
        if kind not in COUNTED:
            continue
        start = find_quarter(values[_TIME])
        place = (start, *_find_place(values))
        figures = places.get(place)
        if figures is None:
            figures = places[place] = [0, 0, 0, 0, 0, 0, 0, 0.0]
        if kind == TURN:
            figures[0] += is_first(values[_METADATA])
            continue
        count_call(figures, values)
        if parts:
            _, _, user, _, _, _, room, trust = place
            count_sections(sections.setdefault((start, user, room, trust), {}), parts)
    sums: Sums = {}
    for place, figures in places.items():
        spread(sums, place, figures)
    for (start, user, room, trust), shares in sections.items():
        for owner, where in list_scopes(user, room):
            for name, figures in shares.items():
                add(sums, (SECTION, owner, where, start, name, trust), figures)
    return sums


def is_first(metadata: str | None) -> bool:
    """Whether a turn begins for the first time, as opposed to one that was queued and is tried again."""
    return metadata is None or '"attempt"' not in metadata or json.loads(metadata).get("attempt") in (None, 1)


def count_call(figures: list[Any], values: Sequence[Any]) -> None:
    """Add a call to the figures of its place."""
    tokens_in, tokens_out, read, written, cost = _find_usage(values)
    figures[1] += 1
    if cost is None:
        figures[2] += 1
    else:
        figures[7] += bound(cost)
    figures[3] += bound(tokens_in or 0)
    figures[4] += bound(tokens_out or 0)
    figures[5] += bound(read or 0)
    figures[6] += bound(written or 0)


def count_sections(shares: dict[str, list[Any]], parts: Iterable[Sequence[Any]]) -> None:
    """Add a call's sections to the figures of each."""
    for name, tokens, cached, usd in parts:
        figures = shares.get(name)
        if figures is None:
            figures = shares[name] = [0, 0, 0, 0, 0, 0, 0, 0.0]
        figures[1] += 1
        if usd is None:
            figures[2] += 1
        else:
            figures[7] += bound(usd)
        figures[3] += bound(tokens)
        figures[5] += bound(cached)


def bound(figure: float) -> float:
    """Bound what one call adds to a sum."""
    return figure if -MOST <= figure <= MOST else MOST if figure > 0 else -MOST


def spread(sums: Sums, place: Sequence[Any], figures: Sequence[Any]) -> None:
    """Add what was counted in one place to every sum that it belongs to."""
    start, session, user, agent, channel, model, room, trust = place
    names = {"all": "", "session": session, "agent": agent, "channel": channel, "model": model}
    for owner, where in list_scopes(user, room):
        for kind, name in names.items():
            add(sums, (kind, owner, where, start, name or "", trust), figures)
        if not owner:  # for one's own eyes this is the sum of all
            add(sums, ("user", owner, where, start, user or "", trust), figures)


def list_scopes(user: str | None, room: str | None) -> Iterator[tuple[str, str]]:
    """List for whom a row counts: everybody, its user, everybody in its room, and its user in that room."""
    yield "", ""
    if user:
        yield user, ""
    if room:
        yield "", room
    if user and room:
        yield user, room


def add(sums: dict[Any, list[Any]], key: Any, figures: Sequence[Any]) -> None:
    """Add figures to those of a key."""
    known = sums.get(key)
    sums[key] = list(figures) if known is None else [one + other for one, other in zip(known, figures, strict=True)]


def _write_upsert(table: str) -> str:
    columns = (*KEY, *FIGURES)
    added = ", ".join(f"{figure} = {figure} + excluded.{figure}" for figure in FIGURES)
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) "  # noqa: S608 - our names
        f"ON CONFLICT ({', '.join(KEY)}) DO UPDATE SET {added}"
    )


_UPSERT = {table: _write_upsert(table) for table in ("totals_quarter", "totals_day")}
