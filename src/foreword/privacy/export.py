"""Export of the event log, and of a person's data, as JSON Lines."""

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime
from secrets import token_hex
from typing import TextIO

from foreword.errors import InputError
from foreword.events.event import Reader, build_visibility_condition, format_timestamp, sees_all
from foreword.events.log import prune_log
from foreword.events.query import open_log
from foreword.events.record import RECORD_SELECT, read_record
from foreword.privacy.erasure import DATA_LOCATIONS, check_person, format_location
from foreword.privacy.subject import identify_subject, open_databases
from foreword.storage.database import FILE_MODE, OpenDatabase, open_events, read_events
from foreword.types import Trust, frozen
from foreword.workspace import Workspace

PAGE_ROWS = 2_000  # rows per read; nothing is held open between two pages

PeriodEnds = tuple[datetime | None, datetime | None]
# Called with the number of rows done and the total; for a restricted reader with the rows written and None.
Progress = Callable[[int, int | None], None]
ALL_TIME: PeriodEnds = (None, None)


def ignore_progress(done: int, total: int | None) -> None:
    """Report no progress."""


@frozen(eq=True)
class ExportResult:
    """The result of an export."""

    rows: int
    last: int  # the id of the last row at the start; later rows are not included
    pruned: int = 0


def export_log(
    folder: str, reader: Reader, file: TextIO, ends: PeriodEnds = ALL_TIME, progress: Progress = ignore_progress
) -> ExportResult:
    """Export the rows that a reader may see. A damaged log is reported and not read again."""
    with open_intact_log(folder, read_events) as connection:
        return write_lines(connection, reader, file, ends, progress)


def export_and_prune_log(
    folder: str, path: str, before: datetime, progress: Progress = ignore_progress
) -> ExportResult:
    """Export all rows before a time to a file, and prune them once the file is synced to disk.

    The file appears complete or not at all, and an existing file is never overwritten.
    """
    reader = Reader(user="", clearance=Trust.FULL)
    with open_intact_log(folder, open_events) as connection:
        with open_draft(path) as file:
            result = write_lines(connection, reader, file, (None, before), progress)
        try:
            return replace(result, pruned=sum(prune_log(connection, before, result.last)))
        except sqlite3.Error as error:
            problem = f"its events could not all be deleted from the log: {error}"
            raise InputError(f"{path} is written, but {problem}") from None


@contextmanager
def open_intact_log(folder: str, opener: Callable[[str], OpenDatabase]) -> Iterator[sqlite3.Connection]:
    """Open the log, or raise InputError if a damaged one was replaced and nothing can be exported."""
    opened = open_log(folder, opener)
    with closing(opened.connection):
        if opened.note:
            raise InputError(opened.note)
        yield opened.connection


@contextmanager
def open_draft(path: str) -> Iterator[TextIO]:
    """Open a temporary file that gets its name once it is complete and synced to disk.

    An existing file of that name is not changed. On any error the temporary file is removed.
    """
    part = f"{path}.{token_hex(4)}.part"
    try:
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE_MODE))  # reserves the name
        try:
            with open(part, "w", encoding="utf-8") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.link(part, path)  # unlike a rename, this fails if the name exists
        finally:
            os.unlink(part)
    except OSError as error:
        # Report the requested path: the user does not know the temporary name.
        raise OSError(error.errno, error.strerror, path) from None


def write_lines(
    connection: sqlite3.Connection, reader: Reader, file: TextIO, ends: PeriodEnds = ALL_TIME,
    progress: Progress = ignore_progress,
) -> ExportResult:  # fmt: skip
    """Write the visible rows between two times as JSON objects, one per line, in the order of writing."""
    condition, values = build_visibility_condition(reader)
    since, until = (end and format_timestamp(end) for end in ends)
    query = (
        f"SELECT {RECORD_SELECT} FROM events NOT INDEXED "
        f"WHERE id > ? AND id <= ? AND timestamp >= ? AND timestamp < ? AND {condition} ORDER BY id"
    )
    written = 0
    try:
        first, last = connection.execute("SELECT min(id), max(id) FROM events").fetchone()
        for start in range(first - 1, last, PAGE_ROWS) if last is not None else ():
            stop = min(start + PAGE_ROWS, last)
            rows = connection.execute(query, [start, stop, since or "", until or "~", *values]).fetchall()
            records = map(read_record, rows)
            file.writelines(json.dumps(record.to_dict(reader), ensure_ascii=False) + "\n" for record in records)
            written += len(rows)
            if sees_all(reader):
                progress(stop - first + 1, last - first + 1)
            elif rows:
                progress(written, None)
    except sqlite3.DatabaseError as error:
        raise InputError(f"the event log could be read for only {written:,} events: {error}") from None
    return ExportResult(rows=written, last=last or 0)


EXPORT_SCHEMA = "foreword-person/1"


@frozen(eq=True)
class PersonExport:
    """The result of an export."""

    user: str
    given: dict[str, int]  # number of exported items per data location
    above: int = 0  # number of items above the clearance, which are not exported; only the owner sees this number


def export_person(workspace: Workspace, user: str, level: Trust, file: TextIO) -> PersonExport:
    """Export all data of a person that was learned at or below a clearance."""
    given: Counter[str] = Counter()
    above = 0
    with open_databases(workspace) as databases:
        check_person(workspace, databases, user)
        person = identify_subject(databases, user)
        write_line(file, {"schema": EXPORT_SCHEMA, "user": user, "clearance": str(level)})
        for location in DATA_LOCATIONS:
            where = format_location(location, user)
            for row, trust in location.export(databases, person):
                if trust > level:
                    above += 1
                    continue
                write_line(file, {"holding": location.name, "where": where, "row": row})
                given[location.name] += 1
    return PersonExport(user=user, given=dict(given), above=above)


def write_line(file: TextIO, value: object) -> None:
    """Write one line of JSON."""
    file.write(json.dumps(value, ensure_ascii=False) + "\n")
