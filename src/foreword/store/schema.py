"""What tables a file has: made in a fresh file, upgraded in one of an older Foreword, refused in one of a newer."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from foreword.errors import InputError
from foreword.frozen import frozen
from foreword.shipped import read_shipped

PATIENCE = 5.0  # seconds to wait for another process that writes
OURS_ALONE = 0o600  # a file that nobody else on the machine reads


class StoreError(InputError):
    """A file of the store cannot be used as it is; the message says what to do."""


@frozen
class Schema:
    """The tables of one kind of file, and how such a file is opened."""

    text: str
    """The file beside this one that makes all tables at once; its first line names the revision."""
    migrations: str
    """The folder of `migrations` with the steps that led there."""
    synchronous: str
    """FULL where what was written must outlive a loss of power, NORMAL where a crash of the process is enough."""
    probe: str
    """A short question that a sound file answers."""
    older: str = ""
    """A table that a file may have from before our first step; then the steps are gone one by one."""
    linked: bool = False
    """Whether SQLite holds rows to the rows they name."""

    def read(self) -> str:
        """Read the text that makes all tables."""
        return read_shipped("store", self.text) or ""


def bring_up(connection: sqlite3.Connection, path: str, schema: Schema) -> None:
    """Make the tables in a fresh file, or upgrade those of an older Foreword."""
    found, wanted = find_revision(connection), schema.read().split("\n", 1)[0].split()[2].rstrip(",")
    if found == "" and not (schema.older and has_table(connection, schema.older)):
        _begin(connection, schema)
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
        with guard(path):
            upgrade(connection, schema)


def _begin(connection: sqlite3.Connection, schema: Schema) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        if find_revision(connection) == "":  # else another process was quicker
            for statement in schema.read().split(";\n"):
                connection.execute(statement)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a disk that is full has ended it already
            connection.execute("ROLLBACK")
        raise


def find_revision(connection: sqlite3.Connection) -> str:
    """Find which revision the tables of a file have; a file without them has none."""
    if not has_table(connection, "alembic_version"):
        return ""
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return str(row[0]) if row else ""


def has_table(connection: sqlite3.Connection, name: str) -> bool:
    """Whether a file has a table of this name."""
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone() is not None


def make(path: str) -> None:
    """Make an empty file that is ours alone; what SQLite keeps beside it is then, too. One that exists stays."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, OURS_ALONE))


@contextmanager
def guard(path: str, patience: float = PATIENCE) -> Iterator[None]:
    """Let one process at a time change what the file is.

    The lock is that of an empty database beside it: it works on every system, and a process that dies lets go of it.
    """
    make(f"{path}.guard")
    with closing(sqlite3.connect(f"{path}.guard", timeout=patience, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield
