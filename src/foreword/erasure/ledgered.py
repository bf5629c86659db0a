"""What ledgers have of a person: those of their sessions go; others are emptied if they or a hash had their words."""

import sqlite3
from collections.abc import Callable, Iterator

from foreword.erasure.blotting import Blotter
from foreword.erasure.holding import STATE, Bases, Given
from foreword.erasure.person import Person
from foreword.frozen import frozen
from foreword.store.ledgers import drop_ledger, empty_ledger, find_touched, is_empty

OF_THEIR_SESSIONS = "session_id IN (SELECT id FROM theirs WHERE kind = 'session')"
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
        return len(list_own(state)) + len(set(list_others(state, person))) if state else 0

    def give(self, bases: Bases, person: Person) -> Iterator[Given]:  # noqa: ARG002
        """Give nothing: what was sent is given as the prompts that were recorded."""
        return iter(())

    def forget(self, bases: Bases, person: Person) -> int:
        """Remove theirs, and empty the others, so that their sessions are sent everything anew."""
        state = bases.state
        if state is None:
            return 0
        own, others = list_own(state), set(list_others(state, person))
        for session in own:
            drop_ledger(state, session)
        for session in others:
            empty_ledger(state, session)
        return len(own) + len(others)


def list_own(state: sqlite3.Connection) -> list[str]:
    """List the sessions of theirs that have a ledger."""
    return [session for (session,) in state.execute(f"SELECT session_id FROM ledgers WHERE {OF_THEIR_SESSIONS}")]


def list_others(state: sqlite3.Connection, person: Person) -> Iterator[str]:
    """List the other sessions in which they spoke, or that were sent their words."""
    own = set(list_own(state))
    for (session,) in state.execute(f"SELECT session_id FROM ledgers WHERE {SPOKE}").fetchall():
        if session not in own and not is_empty(state, session):
            yield session
    for session in find_touched(state, touches(person)):
        if session not in own:
            yield session


def touches(person: Person) -> Callable[[str], bool]:
    """Make what says whether a text has their words."""
    blotter = Blotter(person)
    return lambda text: blotter.wipe(text) != text
