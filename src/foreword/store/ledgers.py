"""Ledgers as rows: what each session has sent, with bases that many of them share, and decisions about single edits."""

import os
import sqlite3
from collections.abc import Iterator, Mapping

from foreword.frozen import frozen
from foreword.ledger.calibration import Calibration
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


def list_ledgers(state: sqlite3.Connection) -> Iterator[str]:
    """List the sessions that have a ledger, the one that was used last first."""
    asked = "SELECT session_id FROM ledgers JOIN sessions ON sessions.id = session_id ORDER BY used DESC"
    return (session for (session,) in state.execute(asked))


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
