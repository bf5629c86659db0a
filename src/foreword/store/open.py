"""Opens the files of the event log and of the budgets: makes, checks and upgrades them, and puts damaged ones aside."""

import os
import sqlite3
from contextlib import closing, suppress
from datetime import UTC, datetime

from foreword.frozen import frozen
from foreword.store.schema import PATIENCE, Schema, StoreError, bring_up, guard, make

FILE = "events.sqlite"
BUDGETS = "budgets.sqlite"  # apart, so that what was spent outlives a log that is damaged
DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
COMPANIONS = ("-wal", "-shm")  # what SQLite keeps beside a file; it belongs to that file alone
OURS = 0o700  # a folder that nobody else on the machine reads
REPLACED = "log_replaced"  # the type of the row that tells of a file that was put aside
# Both ends of the table, where rows come and go; who meets a broken page between them says so then.
EVENTS = Schema(
    text="schema.sql",
    migrations="events",
    synchronous="NORMAL",
    probe="SELECT min(id), max(id), max(timestamp) FROM events",
)
TOLD = (
    "INSERT INTO events (timestamp, level, category, event_type, error, metadata, trust)"
    " VALUES (?, 'error', 'log', ?, ?, '{}', 3)"
)


Identity = tuple[int, int]


@frozen
class Opened:
    """An open file of rows, and what there is to say about how it was opened."""

    connection: sqlite3.Connection
    path: str
    note: str = ""
    """Says that a damaged file was put aside, and where it is now."""


def open_events(folder: str, patience: float = PATIENCE) -> Opened:
    """Open the log of a folder for writing; it is made if need be, and one that is damaged makes room for a new one."""
    return _open_or_replace(os.path.join(folder, FILE), patience)


def open_budgets(folder: str, patience: float = PATIENCE) -> Opened:
    """Open the budgets of a folder, which have the tables of the log and use those of budgets alone."""
    return _open_or_replace(os.path.join(folder, BUDGETS), patience)


def _open_or_replace(path: str, patience: float) -> Opened:
    seen = identify(path)
    try:
        return Opened(connection=open_file(path, EVENTS, patience), path=path)
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        note = put_aside(path, seen, str(error))
    return Opened(connection=open_file(path, EVENTS, patience), path=path, note=note)


def read_events(folder: str, patience: float = PATIENCE) -> Opened:
    """Open the log of a folder for reading; where there is none, nothing is made and every answer is empty."""
    path = os.path.join(folder, FILE)
    if not os.path.exists(path):
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        connection.executescript(EVENTS.read())
        return Opened(connection=connection, path=path)
    opened = open_events(folder, patience)
    opened.connection.execute("PRAGMA query_only=ON")
    return opened


def is_damage(error: sqlite3.Error) -> bool:
    """Whether an error says that the file itself is broken, rather than busy, full or wrongly asked."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in DAMAGE


def is_passing(error: Exception) -> bool:
    """Whether an error is about the file, busy, full or broken, and not about what was to be written."""
    if isinstance(error, sqlite3.Error):
        return isinstance(error, sqlite3.OperationalError) or is_damage(error)
    return isinstance(error, OSError | StoreError)


def identify(path: str) -> Identity:
    """Tell which file a path leads to; another process may have put the one we know aside."""
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0)
    return (found.st_dev, found.st_ino)


def put_aside(path: str, seen: Identity | None = None, reason: str = "") -> str:
    """Rename the damaged file that was seen, so that a new one can begin; say so, unless another process did it.

    Whoever does it, a row of the log tells of it.
    Who cannot say which file they saw has it read through first, so that nobody's new file is put aside.
    """
    with guard(path):
        reason = reason or _find_damage(path)
        if not reason or seen not in (None, identify(path)):
            return ""
        place = _find_place(path)
        os.replace(path, place)
        for ending in COMPANIONS:
            if os.path.exists(path + ending):
                os.replace(path + ending, place + ending)
    note = f"{_name(path)} damaged ({reason}); it is now {os.path.basename(place)}, and a new one was begun"
    _tell(os.path.dirname(path), note)
    return note


def _name(path: str) -> str:
    budgets = os.path.basename(path) == BUDGETS
    return "the file of the budgets, with what was spent until now, was" if budgets else "the event log was"


def _tell(folder: str, note: str) -> None:
    """Tell in the log that a file was put aside; where that cannot be written, whoever asked has the note."""
    with suppress(sqlite3.Error, OSError, StoreError), closing(open_file(os.path.join(folder, FILE), EVENTS)) as log:
        log.execute(TOLD, (f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}Z", REPLACED, note))


def open_file(path: str, schema: Schema, patience: float = PATIENCE) -> sqlite3.Connection:
    """Open a file of rows, made if need be and ours alone, with the tables of today and a look at what it holds."""
    os.makedirs(os.path.dirname(path) or ".", OURS, exist_ok=True)
    make(path)
    connection = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA synchronous={schema.synchronous}")
        bring_up(connection, path, schema)
        if schema.linked:  # only now: a migration that makes a table anew would break its links on the way
            connection.execute("PRAGMA foreign_keys=ON")
        _look(connection, schema.probe)
    except BaseException:
        connection.close()
        raise
    return connection


def _look(connection: sqlite3.Connection, probe: str) -> None:
    try:
        connection.execute(probe).fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_ERROR:  # no such table, no such column
            error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise


def _find_damage(path: str) -> str:
    """Read a file through and say what is wrong with it."""
    if not os.path.exists(path):
        return ""
    try:
        with closing(sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)) as connection:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        return str(error)
    return "" if verdict == "ok" else str(verdict)


def _find_place(path: str) -> str:
    """Find a name for a damaged file that no other has."""
    place = f"{path}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    number = 1
    while os.path.exists(place if number == 1 else f"{place}-{number}"):
        number += 1
    return place if number == 1 else f"{place}-{number}"
