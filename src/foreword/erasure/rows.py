"""Rows of one table that belong to one person: they go whole."""

import json
from base64 import b64encode
from collections.abc import Iterator
from sqlite3 import Connection
from typing import Any

from foreword.erasure.holding import Bases, Given
from foreword.erasure.person import Person
from foreword.frozen import frozen
from foreword.words import Trust

HAS_USER = "SELECT 1 FROM pragma_table_info(?) WHERE name = 'user_id'"
SECRET = frozenset({"hash", "lease_owner", "lease_until"})  # what lets one in, and which process worked on it


@frozen(eq=True)
class Rows:
    """The rows of a table that are a person's; the table `theirs` has what belongs to them."""

    name: str
    base: str
    where: str
    table: str
    mine: str
    """The condition under which a row is theirs."""
    given: str = ""
    """The condition under which one of those rows is given, too, where not all are."""
    trust: str = "0"
    """At which clearance a row was learned, as SQL."""
    claims: tuple[str, ...] = ()
    optional: bool = False
    """Whether the table is that of another database which became the state, so that most states lack it."""

    def _find_base(self, bases: Bases) -> Connection | None:
        """Find the base, unless it lacks the table."""
        base = bases.get(self.base)
        if base is None or not self.optional:
            return base
        return base if base.execute(HAS_USER, (self.table,)).fetchone() else None

    def find(self, bases: Bases, person: Person) -> int:
        """Count their rows."""
        base = self._find_base(bases)
        if base is None:
            return 0
        (count,) = base.execute(f"SELECT count(*) FROM {self.table} WHERE {self.mine}", values(person)).fetchone()
        return int(count)

    def give(self, bases: Bases, person: Person) -> Iterator[Given]:
        """Give their rows, without what lets one in."""
        base = self._find_base(bases)
        if base is None:
            return
        where = f"({self.mine}) AND ({self.given})" if self.given else self.mine
        found = base.execute(f"SELECT {self.trust}, * FROM {self.table} WHERE {where}", values(person))
        names = [column[0] for column in found.description][1:]
        for trust, *row in found.fetchall():
            shown = {name: show(value) for name, value in zip(names, row, strict=True) if name not in SECRET}
            yield Given(row=shown, trust=Trust(trust or 0))

    def forget(self, bases: Bases, person: Person) -> int:
        """Remove their rows."""
        base = self._find_base(bases)
        return base.execute(f"DELETE FROM {self.table} WHERE {self.mine}", values(person)).rowcount if base else 0


def values(person: Person) -> dict[str, Any]:
    """Name what conditions ask for."""
    return {"kept": len(person.kept)}


def show(value: Any) -> Any:
    """Show what a column holds as JSON can: messages as what they are, other bytes in base64."""
    if not isinstance(value, bytes):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return b64encode(value).decode()
