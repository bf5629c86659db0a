"""Export: the rows of the log as JSON Lines, for whoever keeps them longer than the log does."""

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime
from secrets import token_hex
from typing import TextIO

from foreword.errors import InputError
from foreword.events.asking import open_log
from foreword.events.event import Reader
from foreword.events.moment import stamp
from foreword.events.record import SELECTED, Record, read_record
from foreword.events.retention import prune
from foreword.events.visible import sees_all, visible
from foreword.frozen import frozen
from foreword.store.open import Opened, open_events, read_events
from foreword.store.schema import OURS_ALONE
from foreword.words import Trust

PAGE = 2_000  # rows that are read at once; between two pages nothing is held open

Ends = tuple[datetime | None, datetime | None]
Progress = Callable[[int, int | None], None]
"""Told how many rows are done, and of how many at most; to who may not see all of them, those written and None."""
ALWAYS: Ends = (None, None)


def keep_quiet(done: int, whole: int | None) -> None:
    """Tell nobody how far an export is."""


@frozen(eq=True)
class Exported:
    """What an export wrote."""

    rows: int
    last: int
    """The id of the last row that there was; what came later is not in it."""
    pruned: int = 0


def export(folder: str, reader: Reader, file: TextIO, ends: Ends = ALWAYS, progress: Progress = keep_quiet) -> Exported:
    """Write what a reader may see of the log in a folder; what is damaged is said, and never read a second time."""
    with closing(open_whole(folder, read_events)) as connection:
        return write_lines(connection, reader, file, ends, progress)


def export_and_prune(folder: str, path: str, before: datetime, progress: Progress = keep_quiet) -> Exported:
    """Write everything before a moment to a file, and prune it once it is safe on the disk.

    The file appears whole or not at all, and an existing one is never written over.
    """
    reader = Reader(user="", clearance=Trust.FULL)
    with closing(open_whole(folder, open_events)) as connection:
        with draft(path) as file:
            done = write_lines(connection, reader, file, (None, before), progress)
        try:
            return replace(done, pruned=sum(prune(connection, before, done.last)))
        except sqlite3.Error as error:
            raise InputError(f"{path} is written, but not all of it could be deleted here: {error}") from None


def open_whole(folder: str, way: Callable[[str], Opened]) -> sqlite3.Connection:
    """Open the log; where a damaged one had to make room for a new one there is nothing to export, and that is said."""
    opened = open_log(folder, way)
    if opened.note:
        opened.connection.close()
        raise InputError(opened.note)
    return opened.connection


@contextmanager
def draft(path: str) -> Iterator[TextIO]:
    """Open a file that takes its name once it is whole and safe on the disk; a name that is taken stays what it is.

    Until then it has a name of its own beside it, and where anything goes wrong it is gone.
    """
    part = f"{path}.{token_hex(4)}.part"
    try:
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, OURS_ALONE))  # the name is ours from here on
        try:
            with open(part, "w", encoding="utf-8") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.link(part, path)  # unlike a rename, this fails where the name is taken
        finally:
            os.unlink(part)
    except OSError as error:
        # Nobody knows the name beside it.
        raise OSError(error.errno, error.strerror, path) from None


def write_lines(
    connection: sqlite3.Connection,
    reader: Reader,
    file: TextIO,
    ends: Ends = ALWAYS,
    progress: Progress = keep_quiet,
) -> Exported:
    """Write what a reader may see between two moments as one JSON object a line, in the order of writing."""
    rows = 0
    try:
        first, last = connection.execute("SELECT min(id), max(id) FROM events").fetchone()
        if last is None:
            return Exported(rows=0, last=0)
        for place, records in read_pages(connection, reader, ends, (first - 1, last)):
            file.writelines(json.dumps(record.to_dict(reader), ensure_ascii=False) + "\n" for record in records)
            rows += len(records)
            if sees_all(reader):
                progress(place - first + 1, last - first + 1)
            elif records:
                progress(rows, None)
    except sqlite3.DatabaseError as error:
        raise InputError(f"the event log could be read for {rows:,} events and no further: {error}") from None
    return Exported(rows=rows, last=last)


def read_pages(
    connection: sqlite3.Connection, reader: Reader, ends: Ends, span: tuple[int, int]
) -> Iterator[tuple[int, list[Record]]]:
    """Read the rows after one and up to another page by page, each page with the place reached."""
    where, values = visible(reader)
    since, until = (end and stamp(end) for end in ends)
    query = (
        f"SELECT {SELECTED} FROM events NOT INDEXED "  # noqa: S608 - our own names
        f"WHERE id > ? AND id <= ? AND timestamp >= ? AND timestamp < ? AND {where} ORDER BY id"
    )
    place, last = span
    while place < last:
        stop = min(place + PAGE, last)
        found = connection.execute(query, [place, stop, since or "", until or "~", *values]).fetchall()
        yield stop, [read_record(row) for row in found]
        place = stop
