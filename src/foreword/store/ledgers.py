"""Ledgers as rows: what each session has sent, with bases that many of them share, and decisions about single edits."""

import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

from foreword.frozen import frozen
from foreword.ledger import Base, Frozen
from foreword.ledger.calibration import Calibration
from foreword.ledger.state import empty
from foreword.ledger.writing import name_base, read, read_base, write, write_base
from foreword.store.instructions import stamp
from foreword.store.state import STATE_FILE, use_state
from foreword.words import Policy

FIND = (
    "SELECT ledgers.frozen, ledgers.base, bases.lines FROM ledgers JOIN bases ON bases.name = ledgers.base"
    " WHERE session_id = ?"
)
UNUSED = "DELETE FROM bases WHERE name = ? AND NOT EXISTS (SELECT 1 FROM ledgers WHERE ledgers.base = bases.name)"


@frozen(eq=True)
class Row:
    """The ledger of a session as it is kept."""

    frozen: str
    base: str
    """The name of its base."""
    lines: str


@frozen(eq=True)
class Edit:
    """What was decided about one edit of a file."""

    path: str
    sha256: str
    """Of the text that it is about."""
    policy: Policy
    decided: str


def find_ledger(state: sqlite3.Connection, session: str) -> Row | None:
    """Find the ledger of a session."""
    row = state.execute(FIND, (session,)).fetchone()
    return Row(frozen=row[0], base=row[1], lines=row[2]) if row else None


def replace_ledger(state: sqlite3.Connection, session: str, row: Row) -> None:
    """Keep a ledger in the place of the session's; a base that nobody has any more goes."""
    was = state.execute("SELECT base FROM ledgers WHERE session_id = ?", (session,)).fetchone()
    moved = was is None or was[0] != row.base
    if moved:
        state.execute("INSERT OR IGNORE INTO bases (name, lines) VALUES (?, ?)", (row.base, row.lines))
    state.execute(
        "INSERT INTO ledgers (session_id, base, frozen) VALUES (?, ?, ?)"
        " ON CONFLICT (session_id) DO UPDATE SET base = excluded.base, frozen = excluded.frozen",
        (session, row.base, row.frozen),
    )
    if was and moved:
        state.execute(UNUSED, (was[0],))


def drop_ledger(state: sqlite3.Connection, session: str) -> None:
    """Drop the ledger of a session."""
    was = state.execute("DELETE FROM ledgers WHERE session_id = ? RETURNING base", (session,)).fetchall()
    for (base,) in was:
        state.execute(UNUSED, (base,))


def copy_ledger(state: sqlite3.Connection, session: str, into: str) -> None:
    """Let another session have sent what this one has."""
    state.execute(
        "INSERT OR IGNORE INTO ledgers (session_id, base, frozen)"
        " SELECT ?, base, frozen FROM ledgers WHERE session_id = ?",
        (into, session),
    )


def find_touched(state: sqlite3.Connection, touches: Callable[[str], bool]) -> Iterator[str]:
    """Find the sessions that were sent a text of some kind."""
    for session in list_ledgers(state):
        row = find_ledger(state, session)
        if row and any(map(touches, list_texts(row))):
            yield session


def list_texts(row: Row) -> Iterator[str]:
    """List every text that a ledger has of a prompt."""
    held = json.loads(row.frozen)
    lines = [line for block in json.loads(row.lines) for line in block]
    for update in (*held["updates"], *held["settled"]):
        yield from (update["title"], update["said"])
        lines += [update["line"]] if update["line"] else []
    for line in lines:
        yield from (line["title"], line["text"])


def empty_ledger(state: sqlite3.Connection, session: str, touches: Callable[[str], bool]) -> None:
    """Empty the ledger of a session: no text and no such title stays, and its next turn is sent everything anew."""
    row = find_ledger(state, session)
    if row is None:
        return
    emptied = empty(read(row.frozen, read_base(row.lines)))
    updates, settled = (
        tuple(update for update in told if not touches(update.title)) for told in (emptied.updates, emptied.settled)
    )
    replace_ledger(state, session, make_row(replace(emptied, updates=updates, settled=settled)))


def is_empty(state: sqlite3.Connection, session: str) -> bool:
    """Whether the ledger of a session was emptied, and not written since."""
    row = state.execute("SELECT base FROM ledgers WHERE session_id = ?", (session,)).fetchone()
    return row is not None and row[0] == NOTHING


def make_row(frozen: Frozen) -> Row:
    """Make the row of a state."""
    name, lines = write_named(frozen.base)
    return Row(frozen=write(frozen), base=name, lines=lines)


# A workspace has few bases, and its sessions share them.
@lru_cache(maxsize=32)
def write_named(base: Base) -> tuple[str, str]:
    """Write a base, and name it."""
    return name_base(base), write_base(base)


NOTHING = name_base(Base())
"""The name of a base without a line."""


def list_ledgers(state: sqlite3.Connection) -> Iterator[str]:
    """List the sessions that have a ledger, the one that was used last first."""
    asked = "SELECT session_id FROM ledgers JOIN sessions ON sessions.id = session_id ORDER BY used DESC"
    return (session for (session,) in state.execute(asked).fetchall())


def read_edits(state: sqlite3.Connection) -> Mapping[tuple[str, str], Policy]:
    """Read what was decided about single edits, by file and the hash of its text."""
    return {
        (path, sha): Policy(policy) for path, sha, policy in state.execute("SELECT path, sha256, policy FROM edits")
    }


def decide_edit(state: sqlite3.Connection, path: str, sha: str, policy: Policy) -> None:
    """Decide about one edit of a file; the next edit is another."""
    state.execute(
        "INSERT INTO edits (path, sha256, policy, decided) VALUES (?, ?, ?, ?) ON CONFLICT (path) DO UPDATE"
        " SET sha256 = excluded.sha256, policy = excluded.policy, decided = excluded.decided",
        (path, sha, str(policy), stamp()),
    )


def undo_edit(state: sqlite3.Connection, path: str) -> bool:
    """Undo what was decided about an edit of a file; return whether there was something."""
    return state.execute("DELETE FROM edits WHERE path = ?", (path,)).rowcount > 0


def list_edits(state: sqlite3.Connection) -> list[Edit]:
    """List what was decided, the newest first."""
    asked = "SELECT path, sha256, policy, decided FROM edits ORDER BY decided DESC, path"
    return [Edit(path=path, sha256=sha, policy=Policy(policy), decided=decided)
            for path, sha, policy, decided in state.execute(asked)]  # fmt: skip


def read_calibrations(state: sqlite3.Connection) -> Mapping[str, Calibration]:
    """Read what the calls of each model have taught about its tokens."""
    asked = "SELECT model, calls, ratio, raw, error FROM calibrations ORDER BY model"
    return {
        model: Calibration(model=model, calls=calls, ratio=ratio, raw=raw, error=error)
        for model, calls, ratio, raw, error in state.execute(asked)
    }


def find_calibrations(folder: str) -> Mapping[str, Calibration]:
    """Find what was learned in a folder of state; nothing where no state is, and none is made."""
    if not os.path.exists(os.path.join(folder, STATE_FILE)):
        return {}
    with use_state(folder) as state:
        return read_calibrations(state)


def write_calibration(state: sqlite3.Connection, known: Calibration) -> None:
    """Keep what is known of a model's tokens."""
    state.execute(
        "INSERT INTO calibrations (model, calls, ratio, raw, error) VALUES (?, ?, ?, ?, ?) ON CONFLICT (model)"
        " DO UPDATE SET calls = excluded.calls, ratio = excluded.ratio, raw = excluded.raw, error = excluded.error",
        (known.model, known.calls, known.ratio, known.raw, known.error),
    )
