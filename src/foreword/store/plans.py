"""Plans: what an agent laid out in plan mode, kept for its session until somebody decides on it."""

import sqlite3

from foreword.errors import InputError
from foreword.frozen import frozen
from foreword.store.instructions import stamp
from foreword.words import Word

LIST = "SELECT id, session_id, created, text, state FROM plans WHERE session_id = ? ORDER BY id DESC"


class PlanState(Word):
    """What became of a plan."""

    PROPOSED = "proposed"
    ACCEPTED = "accepted"
    DROPPED = "dropped"


@frozen(eq=True)
class Plan:
    """One plan of a session."""

    id: int
    session: str
    created: str
    text: str
    state: PlanState


def add_plan(state: sqlite3.Connection, session: str, text: str) -> Plan:
    """Keep a plan of a session."""
    if not text.strip():
        raise InputError("a plan without words is none")
    row = (session, stamp(), text.strip(), PlanState.PROPOSED.value)
    cursor = state.execute("INSERT INTO plans (session_id, created, text, state) VALUES (?, ?, ?, ?)", row)
    return read_plan((cursor.lastrowid, *row))


def list_plans(state: sqlite3.Connection, session: str) -> tuple[Plan, ...]:
    """List the plans of a session, the newest first."""
    return tuple(map(read_plan, state.execute(LIST, (session,))))


def find_newest(state: sqlite3.Connection, session: str) -> Plan | None:
    """Find the newest plan of a session."""
    row = state.execute(f"{LIST} LIMIT 1", (session,)).fetchone()
    return read_plan(row) if row else None


def mark_plan(state: sqlite3.Connection, number: int, became: PlanState) -> bool:
    """Say what became of a plan; whether there is such a one."""
    return state.execute("UPDATE plans SET state = ? WHERE id = ?", (became.value, number)).rowcount == 1


def read_plan(row: tuple[object, ...]) -> Plan:
    """Read a plan from its row."""
    number, session, created, text, became = row
    return Plan(
        id=int(str(number)), session=str(session), created=str(created), text=str(text), state=PlanState(str(became))
    )
