"""The SQLite files of a workspace: the state, the event log and the budgets.

Opening a file creates its tables, upgrades an older schema, refuses a newer one and checks for damage.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from itertools import chain, count

from foreword.errors import InputError
from foreword.resources import read_resource
from foreword.types import frozen

TIMESTAMP_FORMAT = "%Y-%m-%dT%H:%M:%S.%fZ"  # UTC, as text that sorts by time


def format_moment(moment: datetime) -> str:
    """Write a time as text."""
    return moment.astimezone(UTC).strftime(TIMESTAMP_FORMAT)


def parse_moment(text: str) -> datetime:
    """Read a stored time."""
    return datetime.strptime(text, TIMESTAMP_FORMAT).replace(tzinfo=UTC)


def stamp() -> str:
    """Return the current time as stored in the state."""
    return format_moment(datetime.now(UTC))


LOCK_TIMEOUT_S = 5.0  # seconds to wait for another process's write lock
FILE_MODE = 0o600  # a file readable only by its owner


class StorageError(InputError):
    """A file of the storage cannot be used. The message says what to do."""


@frozen
class DatabaseSchema:
    """The schema of one kind of file, and how to open it."""

    text: str  # the SQL file in this folder that creates all tables; its first line names the revision
    migrations: str  # the subfolder of `migrations`
    synchronous: str  # FULL if writes must survive a power failure, NORMAL if a process crash is enough
    probe: str  # a short query that succeeds on an intact file
    older: str = ""  # a table that can exist from before the first migration; then all migrations run
    linked: bool = False  # whether SQLite enforces foreign keys

    def read(self) -> str:
        """Read the SQL that creates all tables."""
        return read_resource("storage", self.text) or ""


def create_or_upgrade(connection: sqlite3.Connection, path: str, schema: DatabaseSchema) -> None:
    """Create the tables in a new file, or upgrade an older one."""
    found, wanted = find_revision(connection), schema.read().split("\n", 1)[0].split()[2].rstrip(",")
    if found == "" and not (schema.older and has_table(connection, schema.older)):
        with writing(connection):
            if find_revision(connection) == "":  # else another process was faster
                run_statements(connection, schema.read())
    elif found > wanted:
        raise StorageError(
            f"{path} was written by a newer Foreword: its schema is {found}, ours {wanted}; upgrade this one"
        )
    elif found < wanted:
        from foreword.storage.migration import upgrade_database

        with lock_file(path):
            upgrade_database(connection, schema)


def run_statements(connection: sqlite3.Connection, sql: str) -> None:
    """Run the statements of an SQL file in the current transaction, which `executescript` would commit."""
    for statement in sql.split(";\n"):
        connection.execute(statement)


def find_revision(connection: sqlite3.Connection) -> str:
    """Return the schema revision of a file, or an empty string."""
    if not has_table(connection, "alembic_version"):
        return ""
    return "".join(version for (version,) in connection.execute("SELECT version_num FROM alembic_version"))


def has_table(connection: sqlite3.Connection, name: str) -> bool:
    """Return whether a table exists."""
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone() is not None


def create_private_file(path: str) -> None:
    """Create an empty file readable only by its owner; SQLite's companion files get the same mode.

    An existing file is unchanged.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE_MODE))


@contextmanager
def lock_file(path: str, patience: float = LOCK_TIMEOUT_S) -> Iterator[None]:
    """Hold a lock for changes to the file itself, across processes.

    The lock is that of an empty database with the suffix `.guard`. It works on every system, and is released when its
    process dies.
    """
    create_private_file(f"{path}.guard")
    with closing(sqlite3.connect(f"{path}.guard", timeout=patience, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield


EVENTS_FILE = "events.sqlite"
BUDGETS_FILE = "budgets.sqlite"  # separate, so that spending survives a damaged log
DAMAGE_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
COMPANION_SUFFIXES = ("-wal", "-shm")  # SQLite's companions of a database file
FOLDER_MODE = 0o700  # a folder readable only by its owner
INSERT_REPLACED = """
INSERT INTO events (timestamp, level, category, event_type, error, metadata, trust)
VALUES (?, 'error', 'log', ?, ?, '{}', 3)"""
LOG_REPLACED_TYPE = "log_replaced"  # the type of the row that reports a replaced file
# Checks both ends of the table, where rows are added and deleted. Other damage shows on access.
EVENTS_SCHEMA = DatabaseSchema(
    text="schema.sql",
    migrations="events",
    synchronous="NORMAL",
    probe="SELECT min(id), max(id), max(timestamp) FROM events",
)
FileIdentity = tuple[int, int]


@frozen
class OpenDatabase:
    """An open database file."""

    connection: sqlite3.Connection
    path: str
    note: str = ""  # a message if a damaged file was moved aside, with its new name


def open_events(folder: str, patience: float = LOCK_TIMEOUT_S, *, file: str = EVENTS_FILE) -> OpenDatabase:
    """Open the log of a folder for writing. Create it if missing, and replace it if damaged."""
    path, note = os.path.join(folder, file), ""
    seen = identify_file(path)
    try:
        connection = open_database(path, EVENTS_SCHEMA, patience)
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        note = move_damaged_aside(path, seen, str(error))
        connection = open_database(path, EVENTS_SCHEMA, patience)
    return OpenDatabase(connection=connection, path=path, note=note)


def open_budgets(folder: str, patience: float = LOCK_TIMEOUT_S) -> OpenDatabase:
    """Open the budgets of a folder. The file has the schema of the log and uses only the budget tables."""
    return open_events(folder, patience, file=BUDGETS_FILE)


def read_events(folder: str, patience: float = LOCK_TIMEOUT_S) -> OpenDatabase:
    """Open the log of a folder read-only. A missing log is not created and reads as empty."""
    path = os.path.join(folder, EVENTS_FILE)
    if not os.path.exists(path):
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        connection.executescript(EVENTS_SCHEMA.read())
        return OpenDatabase(connection=connection, path=path)
    opened = open_events(folder, patience)
    opened.connection.execute("PRAGMA query_only=ON")
    return opened


def connect_read_only(path: str, *, immutable: bool = False, timeout: float = LOCK_TIMEOUT_S) -> sqlite3.Connection:
    """Open an existing file of any schema without changing it; an immutable one is read without locks."""
    from urllib.parse import quote

    options = "mode=ro&immutable=1" if immutable else "mode=ro"
    return sqlite3.connect(f"file:{quote(os.path.abspath(path))}?{options}", uri=True, timeout=timeout)


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether an error means a corrupt file, not a busy one, a full disk or a wrong statement."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in DAMAGE_CODES


def is_file_error(error: Exception) -> bool:
    """Return whether an error concerns the file (busy, full or corrupt) and not the data to write."""
    if isinstance(error, sqlite3.Error):
        return isinstance(error, sqlite3.OperationalError) or is_damage(error)
    return isinstance(error, OSError | StorageError)


def identify_file(path: str) -> FileIdentity:
    """Return device and inode of a file. They change when another process replaces it."""
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0)
    return (found.st_dev, found.st_ino)


def move_damaged_aside(path: str, seen: FileIdentity, reason: str) -> str:
    """Move a damaged file aside and return a message, or an empty string if it was already replaced.

    The log records the replacement. `seen` is the identity of the damaged file, so that a new file of another process
    is never moved.
    """
    with lock_file(path):
        if seen != identify_file(path):
            return ""
        place = f"{path}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        names = chain([place], (f"{place}-{number}" for number in count(2)))
        place = next(name for name in names if not os.path.exists(name))
        os.replace(path, place)
        for ending in COMPANION_SUFFIXES:
            if os.path.exists(path + ending):
                os.replace(path + ending, place + ending)
    folder, name = os.path.split(path)
    what = "the budget file with all recorded spending was" if name == BUDGETS_FILE else "the event log was"
    note = f"{what} damaged ({reason}); it was renamed to {os.path.basename(place)}, and a new one was created"
    with (
        suppress(sqlite3.Error, OSError, StorageError),  # if the log cannot be written, the caller has the message
        closing(open_database(os.path.join(folder, EVENTS_FILE), EVENTS_SCHEMA)) as log,
    ):
        log.execute(INSERT_REPLACED, (stamp(), LOG_REPLACED_TYPE, note))
    return note


def open_database(path: str, schema: DatabaseSchema, patience: float = LOCK_TIMEOUT_S) -> sqlite3.Connection:
    """Open a database file with the current schema and check it. Create it if missing, readable only by us."""
    os.makedirs(os.path.dirname(path) or ".", FOLDER_MODE, exist_ok=True)
    create_private_file(path)
    connection = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
    try:
        use_wal(connection, path)
        connection.execute(f"PRAGMA synchronous={schema.synchronous}")
        create_or_upgrade(connection, path, schema)
        if schema.linked:  # only now: a migration that recreates a table would break its foreign keys meanwhile
            connection.execute("PRAGMA foreign_keys=ON")
        probe_file(connection, schema.probe)
    except BaseException:
        connection.close()
        raise
    return connection


def use_wal(connection: sqlite3.Connection, path: str) -> None:
    """Switch a file to write-ahead logging, one process at a time: SQLite waits for no lock while it switches."""
    if connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        with lock_file(path):
            connection.execute("PRAGMA journal_mode=WAL")


def probe_file(connection: sqlite3.Connection, probe: str) -> None:
    """Run a query that succeeds on an intact file; a missing table or column counts as damage."""
    try:
        connection.execute(probe).fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_ERROR:
            error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise


def is_whole(text: str) -> bool:
    """Return whether a text can be encoded as UTF-8: a lone surrogate cannot."""
    return text.isascii() or not any("\ud800" <= sign <= "\udfff" for sign in text)


def check_text(subject: str, text: str, most: int) -> None:
    """Refuse a text that is too long or cannot be stored completely; `subject` begins the message: "the title has"."""
    if len(text) > most:
        problem = f"{len(text):,} characters, but may have at most {most:,}"
        raise InputError(f"{subject} {problem}; nothing was changed")
    if "\0" in text or not is_whole(text):
        raise InputError(f"{subject} invalid characters; nothing was changed")


STATE_FILE = "state.sqlite"
STATE_SCHEMA = DatabaseSchema(
    text="state.sql",
    migrations="state",
    synchronous="FULL",  # an accepted message must survive a power failure
    probe="SELECT (SELECT max(used) FROM sessions), (SELECT max(rowid) FROM turns), (SELECT max(id) FROM outbox)",
    older="user_agent_prompt_customizations",  # a SPEC-010 database can become the state
    linked=True,
)


def open_state(folder: str, patience: float = LOCK_TIMEOUT_S) -> OpenDatabase:
    """Open the state of a folder. Create it if missing, and refuse a damaged one without changes."""
    path = os.path.join(folder, STATE_FILE)
    try:
        return OpenDatabase(connection=open_database(path, STATE_SCHEMA, patience), path=path)
    except sqlite3.DatabaseError as error:
        if is_damage(error):
            raise make_damage_error(path, error) from error
        raise


def find_schema_version(state: sqlite3.Connection) -> int:
    """Return a number that changes when the file is vacuumed, as an erasure does."""
    return int(state.execute("PRAGMA schema_version").fetchone()[0])


def open_state_read_only(folder: str) -> sqlite3.Connection:
    """Open the state of a folder for reading; a missing one is created."""
    state = open_state(folder).connection
    state.execute("PRAGMA query_only=ON")
    return state


@contextmanager
def use_state(folder: str) -> Iterator[sqlite3.Connection]:
    """Open the state of a folder for one operation. SQLite errors become readable errors."""
    with explain_sqlite_errors(folder), closing(open_state(folder).connection) as state:
        yield state


@contextmanager
def explain_sqlite_errors(folder: str) -> Iterator[None]:
    """Convert SQLite errors about the state of a folder to readable errors."""
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise StorageError(f"{folder} is not a folder, but the state is stored in it; move it away")
    path = os.path.join(folder, STATE_FILE)
    try:
        yield
    except sqlite3.Error as error:
        if is_damage(error):
            raise make_damage_error(path, error) from error
        raise StorageError(
            f"{path} cannot be used now: {error}; the disk may be full or read-only, "
            "or another process may hold the file; try again"
        ) from error


def make_damage_error(path: str, error: sqlite3.Error) -> StorageError:
    """Return the error for a damaged state. It is not replaced, since sessions would be lost."""
    return StorageError(
        f"{path} is damaged ({error}); restore it from a backup, or move it away by hand, "
        f"together with {STATE_FILE}-wal and {STATE_FILE}-shm, to start without its sessions"
    )


@contextmanager
def writing(connection: sqlite3.Connection) -> Iterator[None]:
    """Run a block in a transaction."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk has already ended it
            connection.execute("ROLLBACK")
        raise
