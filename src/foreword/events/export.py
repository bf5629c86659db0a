"""Export: the rows of the log as JSON Lines, for whoever keeps them longer than the log does."""

import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import Any, TextIO

from foreword.events.event import Reader
from foreword.events.retention import prune
from foreword.events.row import COLUMNS
from foreword.events.stretch import stamp
from foreword.events.visible import visible
from foreword.frozen import frozen
from foreword.store.open import open_events
from foreword.words import Trust

PAGE = 2_000  # rows that are read at once; between two pages nothing is held open

Progress = Callable[[int, int], None]
"""Told how many rows are done, and of how many at most."""


def keep_quiet(done: int, whole: int) -> None:
    """Tell nobody how far an export is."""


@frozen(eq=True)
class Exported:
    """What an export wrote."""

    rows: int
    last: int
    """The id of the last row that there was; what came later is not in it."""
    pruned: int = 0


def write_lines(
    connection: sqlite3.Connection,
    reader: Reader,
    file: TextIO,
    ends: tuple[datetime | None, datetime | None] = (None, None),
    progress: Progress = keep_quiet,
) -> Exported:
    """Write what a reader may see between two moments as one JSON object a line, in the order of writing."""
    first, last = connection.execute("SELECT min(id), max(id) FROM events").fetchone()
    if last is None:
        return Exported(rows=0, last=0)
    rows = 0
    for place, records in read_pages(connection, reader, ends, last):
        file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        rows += len(records)
        progress(place - first + 1, last - first + 1)
    return Exported(rows=rows, last=last)


def read_pages(
    connection: sqlite3.Connection, reader: Reader, ends: tuple[datetime | None, datetime | None], last: int
) -> Iterator[tuple[int, list[Mapping[str, Any]]]]:
    """Read rows page by page, each with the place reached."""
    where, values = visible(reader)
    since, until = (end and stamp(end.astimezone(UTC)) for end in ends)
    query = (
        f"SELECT id, {', '.join(COLUMNS)} FROM events NOT INDEXED "  # noqa: S608 - our own names
        f"WHERE id > ? AND id <= ? AND timestamp >= ? AND timestamp < ? AND {where} ORDER BY id"
    )
    (place,) = connection.execute("SELECT coalesce(min(id), 0) - 1 FROM events").fetchone()
    while place < last:
        stop = min(place + PAGE, last)
        found = connection.execute(query, [place, stop, since or "", until or "~", *values]).fetchall()
        yield stop, [read_line(row) for row in found]
        place = stop


def read_line(row: tuple[Any, ...]) -> Mapping[str, Any]:
    """Make the object of one line: the columns, with the trust as a word and the metadata as an object."""
    values = dict(zip(("id", *COLUMNS), row, strict=True))
    values["trust"] = str(Trust(values["trust"]))
    values["metadata"] = json.loads(values["metadata"]) if values["metadata"] else {}
    return values


def export_and_prune(folder: str, path: str, before: datetime, progress: Progress = keep_quiet) -> Exported:
    """Write everything before a moment to a file, and prune it once it is safe on the disk.

    The file appears whole or not at all, and an existing one is never written over.
    """
    reader = Reader(user="", clearance=Trust.FULL)
    part = f"{path}.part"
    with closing(open_events(folder).connection) as connection:
        try:
            with open(part, "w", encoding="utf-8") as file:
                done = write_lines(connection, reader, file, (None, before), progress)
                file.flush()
                os.fsync(file.fileno())
            os.link(part, path)  # unlike a rename, this fails where the name is taken
        finally:
            os.unlink(part)
        pruned = sum(prune(connection, before, done.last))
    return Exported(rows=done.rows, last=done.last, pruned=pruned)
