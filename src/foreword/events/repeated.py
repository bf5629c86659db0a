"""Sessions whose cache breaks again and again for the same cause in the same place, which is no accident any more."""

import sqlite3
from collections.abc import Collection
from datetime import datetime

from foreword.events.blamed import Break, read_break
from foreword.events.breaks import BLAME, CALL, find_way
from foreword.events.event import Reader
from foreword.events.filter import Filter
from foreword.events.moment import Period
from foreword.events.question import walk
from foreword.events.record import read_record
from foreword.frozen import frozen

OFTEN = 3  # breaks from which on it is told


@frozen(eq=True)
class Repeated:
    """A session, and what breaks its cache."""

    session: str
    cause: str
    where: str
    """The section, the tool or the message; nothing where the cause has no place."""
    breaks: int
    tokens: int
    usd: float | None
    turn: str
    """The last turn in which it happened."""


def find_repeated(
    connection: sqlite3.Connection, reader: Reader, since: datetime, causes: Collection[str]
) -> list[Repeated]:
    """Find the sessions in which one of these causes came often since a moment, the most frequent first."""
    wanted = Filter(type=CALL, period=Period(since=since))
    way, where, values = find_way(connection, reader, wanted)
    found: dict[tuple[str, str, str], list[Break]] = {}
    for row in walk(connection, way, f"{where} AND {BLAME} IS NOT NULL", values):
        one = read_break(read_record(row))
        if one and one.session and one.cause in causes:
            # Each message stands elsewhere; that what was said is rewritten is the same cause all the same.
            place = "" if one.cause == "history" else one.where or ""
            found.setdefault((one.session, one.cause, place), []).append(one)
    repeated = [sum_up(session, cause, place, breaks) for (session, cause, place), breaks in found.items()]
    return sorted((one for one in repeated if one.breaks >= OFTEN), key=lambda one: (-one.breaks, one.session))


def sum_up(session: str, cause: str, where: str, breaks: list[Break]) -> Repeated:
    """Sum up breaks that have all in common, the newest of which is the first."""
    known = [one.usd for one in breaks if one.usd is not None]
    return Repeated(
        session=session,
        cause=cause,
        where=where,
        breaks=len(breaks),
        tokens=sum(one.tokens for one in breaks),
        usd=sum(known) if known else None,
        turn=breaks[0].turn,
    )
