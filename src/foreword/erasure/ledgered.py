"""What ledgers have of a person: those of their sessions go; others lose their words, and every hash that had them."""

import json
import sqlite3
from collections.abc import Iterator
from typing import Any

from foreword.erasure.blotting import Blotter
from foreword.erasure.holding import STATE, Bases, Given
from foreword.erasure.person import Person
from foreword.frozen import frozen
from foreword.ledger.writing import dump, name_base, read_base
from foreword.store.ledgers import Row, drop_ledger, find_ledger, replace_ledger

THEIRS = "session_id IN (SELECT id FROM theirs WHERE kind = 'session')"
SPOKE = "session_id IN (SELECT session_id FROM turns WHERE id IN (SELECT id FROM theirs WHERE kind = 'turn'))"


@frozen(eq=True)
class Ledgers:
    """What sessions have sent to providers, as far as it is theirs, quotes them, or is hashed with their words."""

    name: str = "ledgers of what was sent"
    base: str = STATE
    where: str = ".foreword/state.sqlite"
    claims: tuple[str, ...] = ("state.ledgers.frozen", "state.ledgers.base", "state.bases.*")

    def find(self, bases: Bases, person: Person) -> int:
        """Count them."""
        state = bases.state
        return len(list_own(state)) + sum(1 for _ in list_touched(state, person)) if state else 0

    def give(self, bases: Bases, person: Person) -> Iterator[Given]:  # noqa: ARG002
        """Give nothing: what was sent is given as the prompts that were recorded."""
        return iter(())

    def forget(self, bases: Bases, person: Person) -> int:
        """Remove theirs; another counts as cold, so that its session is sent everything anew."""
        state = bases.state
        if state is None:
            return 0
        own, touched = list_own(state), list(list_touched(state, person))
        for session in own:
            drop_ledger(state, session)
        for session, row in touched:
            replace_ledger(state, session, row)
        return len(own) + len(touched)


def list_own(state: sqlite3.Connection) -> list[str]:
    """List the sessions of theirs that have a ledger."""
    return [session for (session,) in state.execute(f"SELECT session_id FROM ledgers WHERE {THEIRS}")]


def list_touched(state: sqlite3.Connection, person: Person) -> Iterator[tuple[str, Row]]:
    """List the ledgers of other sessions that have to change, each with what it is to be."""
    blotter = Blotter(person)
    asked = f"SELECT session_id, {SPOKE} FROM ledgers WHERE NOT {THEIRS}"
    for session, spoke in state.execute(asked).fetchall():
        row = find_ledger(state, session)
        if row is None:
            continue
        held, lines = json.loads(row.frozen), json.loads(row.lines)
        wiped, written = wipe(blotter, held), wipe(blotter, lines)
        if spoke or wiped != held or written != lines:
            base = dump(written)
            yield session, Row(frozen=dump(cool(wiped)), base=name_base(read_base(base)), lines=base)


def wipe(blotter: Blotter, value: Any) -> Any:
    """Take a person's words out of every text in a value; what is no prose stays as it is."""
    if isinstance(value, dict):
        return {name: wipe(blotter, one) for name, one in value.items()}
    if isinstance(value, list):
        return [wipe(blotter, one) for one in value]
    return blotter.wipe(value) if isinstance(value, str) and " " in value else value


def cool(held: dict[str, Any]) -> dict[str, Any]:
    """Forget what a provider may still have, and the hashes of what was said."""
    return {**held, "alive": [], "heard": [0, ""], "last": {**held["last"], "pieces": []}}
