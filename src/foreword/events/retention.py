"""Retention: what is older than it may be goes, in steps so small that nobody waits for them."""

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from foreword.events.moment import stamp

STEP = 500  # rows of one transaction: a few milliseconds
KEY = "kind, owner, room, start, name, trust"
SUMS = ("totals_quarter", "totals_day")


def find_cutoff(now: datetime, days: int) -> datetime:
    """Find the moment before which rows go: a whole day of UTC, so that each kept day and its sums are complete."""
    oldest = now.astimezone(UTC) - timedelta(days=max(0, days))
    return oldest.replace(hour=0, minute=0, second=0, microsecond=0)


def prune(connection: sqlite3.Connection, before: datetime, last: int | None = None) -> Iterator[int]:
    """Delete rows and their sums in steps, each a transaction of its own; yields how many rows each step took.

    With `last`, no row beyond that id goes, such as one that came after an export.
    """
    moment = stamp(before)
    bound = "" if last is None else "AND id <= ?"
    values = [moment] if last is None else [moment, last]
    taken = STEP
    while taken == STEP:
        taken = connection.execute(
            "DELETE FROM events WHERE id IN (SELECT id FROM events INDEXED BY idx_events_time "  # noqa: S608 - our own words
            f"WHERE timestamp < ? {bound} ORDER BY timestamp LIMIT {STEP})",
            values,
        ).rowcount
        yield taken
    for table in SUMS:
        yield from _prune_sums(connection, table, moment[:10])
    yield from _prune_prompts(connection, before)


def _prune_sums(connection: sqlite3.Connection, table: str, before: str) -> Iterator[int]:
    """Delete the sums of days that are gone, owner by owner: they are kept in this order, not in that of time."""
    place: tuple[str, str, str] | None = ("", "", "")
    while place is not None:
        place = connection.execute(
            f"SELECT kind, owner, room FROM {table} WHERE (kind, owner, room) > (?, ?, ?) "  # noqa: S608 - our own names
            "ORDER BY kind, owner, room LIMIT 1",
            place,
        ).fetchone()
        if place is None:
            return
        while _find_old(connection, table, place, before):
            connection.execute(
                f"DELETE FROM {table} WHERE ({KEY}) IN (SELECT {KEY} FROM {table} "  # noqa: S608 - our own names
                f"WHERE kind = ? AND owner = ? AND room = ? AND start < ? LIMIT {STEP})",
                [*place, before],
            )
            yield 0


def _find_old(connection: sqlite3.Connection, table: str, place: tuple[str, str, str], before: str) -> bool:
    query = f"SELECT 1 FROM {table} WHERE kind = ? AND owner = ? AND room = ? AND start < ? LIMIT 1"  # noqa: S608
    return connection.execute(query, [*place, before]).fetchone() is not None


def _prune_prompts(connection: sqlite3.Connection, before: datetime) -> Iterator[int]:
    """Delete the prompts that no kept turn has sent."""
    from foreword.events.prompts import prune_prompts

    while prune_prompts(connection, before):
        yield 0
