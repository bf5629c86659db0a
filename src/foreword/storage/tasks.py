"""The task list, the plans and the workflow of a session."""

import json
import sqlite3
from collections.abc import Sequence

from foreword.errors import InputError
from foreword.storage.database import is_whole, stamp
from foreword.turn import Step, Task
from foreword.types import TextEnum, frozen

LIST_PLANS = "SELECT id, session_id, created, text, state FROM plans WHERE session_id = ? ORDER BY id DESC"


class PlanState(TextEnum):
    """The state of a plan."""

    PROPOSED = "proposed"
    ACCEPTED = "accepted"
    DROPPED = "dropped"


@frozen(eq=True)
class SessionPlan:
    """One plan of a session."""

    id: int
    session: str
    created: str
    text: str
    state: PlanState


def add_plan(state: sqlite3.Connection, session: str, text: str) -> SessionPlan:
    """Store a plan of a session."""
    if not text.strip():
        raise InputError("a plan without words is not a plan")
    row = (session, stamp(), text.strip(), PlanState.PROPOSED.value)
    cursor = state.execute("INSERT INTO plans (session_id, created, text, state) VALUES (?, ?, ?, ?)", row)
    return convert_plan_row((cursor.lastrowid, *row))


def list_plans(state: sqlite3.Connection, session: str) -> tuple[SessionPlan, ...]:
    """List the plans of a session, newest first."""
    return tuple(map(convert_plan_row, state.execute(LIST_PLANS, (session,))))


def find_newest_plan(state: sqlite3.Connection, session: str) -> SessionPlan | None:
    """Return the newest plan of a session."""
    row = state.execute(f"{LIST_PLANS} LIMIT 1", (session,)).fetchone()
    return convert_plan_row(row) if row else None


def set_plan_state(state: sqlite3.Connection, number: int, became: PlanState) -> bool:
    """Set the state of a plan. Return whether the plan exists."""
    return state.execute("UPDATE plans SET state = ? WHERE id = ?", (became.value, number)).rowcount == 1


def convert_plan_row(row: tuple[object, ...]) -> SessionPlan:
    """Convert a row to a plan."""
    number, session, created, text, became = row
    return SessionPlan(
        id=int(str(number)), session=str(session), created=str(created), text=str(text), state=PlanState(str(became))
    )


ACTIVE_STATUS = "active"
ADD_TASK = (
    "INSERT INTO tasks (session_id, id, title, description, status, steps, position) VALUES (?, ?, ?, ?, ?, ?, ?)"
)


def read_tasks(state: sqlite3.Connection, session: str) -> tuple[Task, ...]:
    """Return the tasks of a session in order."""
    rows = state.execute(
        "SELECT id, title, description, status, steps FROM tasks WHERE session_id = ? ORDER BY position", (session,)
    )
    return tuple(
        Task(id=number, title=title, description=description, status=status, steps=parse_steps(steps))
        for number, title, description, status, steps in rows
    )


def parse_steps(raw: str) -> tuple[Step, ...]:
    """Parse the steps of a task from JSON."""
    return tuple(Step(text=step["text"], status=step["status"]) for step in json.loads(raw))


def find_active_task(tasks: Sequence[Task]) -> Task | None:
    """Return the active task of a session."""
    return next((task for task in tasks if task.status == ACTIVE_STATUS), None)


def replace_tasks(state: sqlite3.Connection, session: str, tasks: Sequence[Task]) -> None:
    """Replace all tasks of a session, completely or not at all."""
    rows = [
        (
            session,
            task.id,
            task.title,
            task.description,
            task.status,
            json.dumps([{"text": step.text, "status": step.status} for step in task.steps], ensure_ascii=False),
            position,
        )
        for position, task in enumerate(tasks)
    ]
    state.execute("SAVEPOINT tasks")  # the caller may have an open transaction
    try:
        state.execute("DELETE FROM tasks WHERE session_id = ?", (session,))
        state.executemany(ADD_TASK, rows)
    except BaseException:
        state.execute("ROLLBACK TO tasks")
        raise
    finally:
        state.execute("RELEASE tasks")


def copy_tasks(state: sqlite3.Connection, session: str, into: str) -> None:
    """Copy the tasks of a session to another one."""
    replace_tasks(state, into, read_tasks(state, session))


MAX_WORKFLOW_CHARS = 2_000  # characters; a longer text would displace other parts of the tail
FIND_WORKFLOW = "SELECT text FROM workflows WHERE session_id = ?"
REPLACE_WORKFLOW = (
    "INSERT INTO workflows (session_id, text, updated) VALUES (?, ?, ?)"
    " ON CONFLICT (session_id) DO UPDATE SET text = excluded.text, updated = excluded.updated"
)


def find_workflow(state: sqlite3.Connection, session: str) -> str:
    """Return the workflow of a session, or an empty string."""
    row = state.execute(FIND_WORKFLOW, (session,)).fetchone()
    return str(row[0]) if row else ""


def replace_workflow(state: sqlite3.Connection, session: str, text: str) -> str:
    """Store the workflow of a session and return it. A blank text ends the workflow.

    An invalid text changes nothing.
    """
    kept = text.strip()
    if len(kept) > MAX_WORKFLOW_CHARS:
        raise InputError(f"a workflow may have at most {MAX_WORKFLOW_CHARS:,} characters; this one has {len(kept):,}")
    if "\0" in kept or not is_whole(kept):
        raise InputError("the workflow has invalid characters; nothing was changed")
    if kept:
        state.execute(REPLACE_WORKFLOW, (session, kept, stamp()))
    else:
        state.execute("DELETE FROM workflows WHERE session_id = ?", (session,))
    return kept


def copy_workflow(state: sqlite3.Connection, session: str, into: str) -> None:
    """Copy the workflow of a session to another one."""
    replace_workflow(state, into, find_workflow(state, session))
