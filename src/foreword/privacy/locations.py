"""Data locations: the protocol to find, export and erase a person's data in one place, and the open databases.

Every table, column or file with personal data must belong to a data location; a test checks this.

Atomic replacement of a file's content. Data location of table rows that belong to one person and are deleted whole.
"""

import json
import os
import shutil
import sqlite3
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, nullcontext
from sqlite3 import Connection
from typing import Any, Protocol

from foreword.config.schema import Config
from foreword.events.query import open_log
from foreword.memory.entry import drafted
from foreword.privacy.subject import Subject
from foreword.storage.database import (
    BUDGETS_FILE,
    EVENTS_FILE,
    STATE_FILE,
    explain_sqlite_errors,
    open_budgets,
    open_events,
    open_state,
    writing,
)
from foreword.types import Trust, frozen
from foreword.workspace import Workspace

STATE_DATABASE, LOG_DATABASE, BUDGET_DATABASE, NO_DATABASE = "state", "log", "budgets", ""
"""The storage of a data location: one of the three databases, or separate files."""
PRAGMAS = ("PRAGMA secure_delete=ON", "PRAGMA temp_store=MEMORY")


@frozen
class Databases:
    """The open databases of a workspace, None for missing ones, and its folders."""

    root: str
    folder: str
    config: Config
    state: sqlite3.Connection | None = None
    log: sqlite3.Connection | None = None
    budgets: sqlite3.Connection | None = None

    def get(self, base: str) -> sqlite3.Connection | None:
        """Return the connection of a database."""
        return {STATE_DATABASE: self.state, LOG_DATABASE: self.log, BUDGET_DATABASE: self.budgets}.get(base)


@frozen(eq=True)
class ExportedItem:
    """One exported item."""

    row: Mapping[str, Any]
    trust: Trust = Trust.PUBLIC
    """The clearance at which it was learned; exports below this clearance leave it out."""


class DataLocation(Protocol):
    """A place that stores personal data."""

    @property
    def name(self) -> str:
        """The name shown in reports."""

    @property
    def base(self) -> str:
        """The database that contains it, which is changed in one transaction; empty for files."""
        return NO_DATABASE

    @property
    def where(self) -> str:
        """The path shown in reports; NAME is replaced with the person's name."""

    @property
    def claims(self) -> tuple[str, ...]:
        """The columns it covers: `state.turns.*` is a whole table, `state.history.messages` one column."""
        return ()

    def find(self, bases: Databases, person: Subject) -> int:
        """Count the items of a person."""

    def give(self, bases: Databases, person: Subject) -> Iterator[ExportedItem]:  # noqa: ARG002
        """Export the items of a person alone; the default exports nothing: copies, and texts of several people."""
        return iter(())

    def forget(self, bases: Databases, person: Subject) -> int:
        """Erase the items of a person and return their number; repeating this has no effect."""


class ItemLocation(DataLocation, Protocol):
    """A data location whose items are listed first and then changed one by one."""

    def list_changes(self, bases: Databases, person: Subject) -> Iterator[Any]:
        """List the change of each item that contains data of a person; in a database, an SQL statement with values."""

    def apply(self, bases: Databases, change: Any) -> None:
        """Apply one change."""
        if connection := bases.get(self.base):
            connection.execute(*change)

    def find(self, bases: Databases, person: Subject) -> int:
        """Count the items to change."""
        return sum(1 for _ in self.list_changes(bases, person))

    def forget(self, bases: Databases, person: Subject) -> int:
        """Change every item."""
        changes = list(self.list_changes(bases, person))
        for change in changes:
            self.apply(bases, change)
        return len(changes)


@contextmanager
def open_databases(workspace: Workspace) -> Iterator[Databases]:
    """Open the existing databases with `secure_delete`; create none."""
    folder = workspace.state
    with explain_sqlite_errors(folder), ExitStack() as opened:
        found: dict[str, sqlite3.Connection] = {}
        if os.path.exists(os.path.join(folder, STATE_FILE)):
            found["state"] = open_state(folder).connection
        if os.path.exists(os.path.join(folder, EVENTS_FILE)):
            found["log"] = open_log(folder, open_events).connection
        if os.path.exists(os.path.join(folder, BUDGETS_FILE)):
            found["budgets"] = open_log(folder, open_budgets).connection
        for connection in found.values():
            opened.enter_context(closing(connection))
            for order in PRAGMAS:
                connection.execute(order)
        yield Databases(root=workspace.files.root, folder=folder, config=workspace.config, **found)


@contextmanager
def open_transaction(connection: sqlite3.Connection | None) -> Iterator[None]:
    """Change a database in one transaction."""
    with writing(connection) if connection else nullcontext():
        yield


def replace_file(place: str, text: str) -> None:
    """Replace the content of a file atomically and keep its permissions."""
    with drafted(place, text) as draft:
        shutil.copymode(place, draft)
        os.replace(draft, place)


HAS_USER_COLUMN_SQL = "SELECT 1 FROM pragma_table_info(?) WHERE name = 'user_id'"
SECRET_COLUMNS = frozenset({"hash", "lease_owner", "lease_until"})  # credentials, and process leases


@frozen(eq=True)
class RowLocation:
    """The rows of a table that belong to a person; the temporary table `theirs` has the person's ids."""

    name: str
    base: str
    where: str
    table: str
    mine: str
    """SQL condition for the person's rows."""
    given: str = ""
    """Further SQL condition for exported rows; empty exports all."""
    trust: str = "0"
    """SQL expression for the clearance at which a row was learned."""
    claims: tuple[str, ...] = ()
    optional: bool = False
    """Whether the table exists only in states imported from an older database."""

    def _find_base(self, bases: Databases) -> Connection | None:
        """Return the database, or None if it lacks an optional table."""
        base = bases.get(self.base)
        if base is None or not self.optional:
            return base
        return base if base.execute(HAS_USER_COLUMN_SQL, (self.table,)).fetchone() else None

    def find(self, bases: Databases, person: Subject) -> int:
        """Count the person's rows."""
        base = self._find_base(bases)
        if base is None:
            return 0
        (count,) = base.execute(
            f"SELECT count(*) FROM {self.table} WHERE {self.mine}", make_parameters(person)
        ).fetchone()
        return int(count)

    def give(self, bases: Databases, person: Subject) -> Iterator[ExportedItem]:
        """Export the person's rows without credentials and leases."""
        base = self._find_base(bases)
        if base is None:
            return
        where = f"({self.mine}) AND ({self.given})" if self.given else self.mine
        found = base.execute(f"SELECT {self.trust}, * FROM {self.table} WHERE {where}", make_parameters(person))
        names = [column[0] for column in found.description][1:]
        for trust, *row in found.fetchall():
            shown = {
                name: to_json_value(value) for name, value in zip(names, row, strict=True) if name not in SECRET_COLUMNS
            }
            yield ExportedItem(row=shown, trust=Trust(trust or 0))

    def forget(self, bases: Databases, person: Subject) -> int:
        """Delete the person's rows."""
        base = self._find_base(bases)
        return (
            base.execute(f"DELETE FROM {self.table} WHERE {self.mine}", make_parameters(person)).rowcount if base else 0
        )


def make_parameters(person: Subject) -> dict[str, Any]:
    """Return the parameters of the SQL conditions."""
    return {"kept": len(person.kept)}


def to_json_value(value: Any) -> Any:
    """Convert a column to a JSON value: bytes with JSON are parsed, other bytes are base64."""
    if not isinstance(value, bytes):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return b64encode(value).decode()
