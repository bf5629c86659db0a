"""Opens the files of the event log and of the budgets: makes, checks and upgrades them, and puts damaged ones aside."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime

from foreword.errors import InputError
from foreword.frozen import frozen
from foreword.shipped import read_shipped

FILE = "events.sqlite"
BUDGETS = "budgets.sqlite"  # apart, so that what was spent outlives a log that is damaged
PATIENCE = 5.0  # seconds to wait for another process that writes
DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
COMPANIONS = ("-wal", "-shm")  # what SQLite keeps beside a file; it belongs to that file alone
OURS, OURS_ALONE = 0o700, 0o600  # a folder and a file that nobody else on the machine reads
REPLACED = "log_replaced"  # the type of the row that tells of a file that was put aside
TOLD = (
    "INSERT INTO events (timestamp, level, category, event_type, error, metadata, trust)"
    " VALUES (?, 'error', 'log', ?, ?, '{}', 3)"
)


class StoreError(InputError):
    """The file of the log cannot be used as it is; the message says what to do."""


Identity = tuple[int, int]


@frozen
class Opened:
    """An open log, and what there is to say about how it was opened."""

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
    os.makedirs(os.path.dirname(path) or ".", OURS, exist_ok=True)
    seen = identify(path)
    try:
        return Opened(connection=_open(path, patience), path=path)
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        note = put_aside(path, seen, str(error))
    return Opened(connection=_open(path, patience), path=path, note=note)


def read_events(folder: str, patience: float = PATIENCE) -> Opened:
    """Open the log of a folder for reading; where there is none, nothing is made and every answer is empty."""
    path = os.path.join(folder, FILE)
    if not os.path.exists(path):
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        connection.executescript(_schema())
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
    with _guard(path):
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
    with suppress(sqlite3.Error, OSError, StoreError), closing(_open(os.path.join(folder, FILE), PATIENCE)) as log:
        log.execute(TOLD, (f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}Z", REPLACED, note))


def _open(path: str, patience: float) -> sqlite3.Connection:
    _make(path)
    connection = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        _bring_up(connection, path)
        _look(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _make(path: str) -> None:
    """Make an empty file that is ours alone; what SQLite keeps beside it is then, too. One that exists stays."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, OURS_ALONE))


def _look(connection: sqlite3.Connection) -> None:
    """Look at both ends of the table, where rows come and go; who meets a broken page between them says so then."""
    try:
        connection.execute("SELECT min(id), max(id), max(timestamp) FROM events").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_ERROR:  # no such table, no such column
            error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise


def _bring_up(connection: sqlite3.Connection, path: str) -> None:
    """Make the tables in a fresh file, or upgrade those of an older Foreword."""
    found, wanted = _revision(connection), _schema().split("\n", 1)[0].split()[2].rstrip(",")
    if found == "":
        connection.execute("BEGIN IMMEDIATE")
        try:
            if _revision(connection) == "":  # else another process was quicker
                for statement in _schema().split(";\n"):
                    connection.execute(statement)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # a disk that is full has ended it already
                connection.execute("ROLLBACK")
            raise
    elif found > wanted:
        raise StoreError(
            f"{path} was written by a newer Foreword: its schema is {found}, ours {wanted}; upgrade this one"
        )
    elif found < wanted:
        try:
            from foreword.store.migrate import upgrade
        except ModuleNotFoundError as error:
            raise StoreError(
                f"{path} was written by an older Foreword, and {error.name} is needed to upgrade it: "
                "pip install 'foreword[store]'"
            ) from None
        with _guard(path):
            upgrade(connection)


def _revision(connection: sqlite3.Connection) -> str:
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone() is None:
        return ""
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return str(row[0]) if row else ""


def _schema() -> str:
    return read_shipped("store", "schema.sql") or ""


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


@contextmanager
def _guard(path: str) -> Iterator[None]:
    """Let one process at a time change what the file is.

    The lock is that of an empty database beside it: it works on every system, and a process that dies lets go of it.
    """
    _make(f"{path}.guard")
    with closing(sqlite3.connect(f"{path}.guard", timeout=PATIENCE, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield
