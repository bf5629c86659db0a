"""Tasks: what a session has set out to do, in its own order."""

import json
import sqlite3
from collections.abc import Sequence

from foreword.turn import Step, Task

ACTIVE = "active"
ADD = "INSERT INTO tasks (session_id, id, title, description, status, steps, position) VALUES (?, ?, ?, ?, ?, ?, ?)"


def read_tasks(state: sqlite3.Connection, session: str) -> tuple[Task, ...]:
    """Read the tasks of a session, in their order."""
    rows = state.execute(
        "SELECT id, title, description, status, steps FROM tasks WHERE session_id = ? ORDER BY position", (session,)
    )
    return tuple(
        Task(id=number, title=title, description=description, status=status, steps=read_steps(steps))
        for number, title, description, status, steps in rows
    )


def read_steps(raw: str) -> tuple[Step, ...]:
    """Read the steps of a task from JSON."""
    return tuple(Step(text=step["text"], status=step["status"]) for step in json.loads(raw))


def find_bound(tasks: Sequence[Task]) -> Task | None:
    """Find the task that a session is bound to: the one that is under way."""
    return next((task for task in tasks if task.status == ACTIVE), None)


def replace_tasks(state: sqlite3.Connection, session: str, tasks: Sequence[Task]) -> None:
    """Keep these tasks in the place of all that a session had, or change nothing."""
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
    state.execute("SAVEPOINT tasks")  # the caller may be in a transaction of its own
    try:
        state.execute("DELETE FROM tasks WHERE session_id = ?", (session,))
        state.executemany(ADD, rows)
    except BaseException:
        state.execute("ROLLBACK TO tasks")
        raise
    finally:
        state.execute("RELEASE tasks")


def copy_tasks(state: sqlite3.Connection, session: str, into: str) -> None:
    """Let another session have set out to do the same."""
    replace_tasks(state, into, read_tasks(state, session))
