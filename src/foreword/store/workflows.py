"""Workflows: where a session stands in what it is going through, one text for each."""

import sqlite3

from foreword.errors import InputError
from foreword.store.instructions import is_whole, stamp

LONGEST = 2_000  # characters; more of it would crowd out the rest of what travels with a message
FIND = "SELECT text FROM workflows WHERE session_id = ?"
REPLACE = (
    "INSERT INTO workflows (session_id, text, updated) VALUES (?, ?, ?)"
    " ON CONFLICT (session_id) DO UPDATE SET text = excluded.text, updated = excluded.updated"
)


def find_workflow(state: sqlite3.Connection, session: str) -> str:
    """Find the workflow of a session; empty where none is active."""
    row = state.execute(FIND, (session,)).fetchone()
    return str(row[0]) if row else ""


def replace_workflow(state: sqlite3.Connection, session: str, text: str) -> str:
    """Keep a text in the place of a session's workflow, whole or not at all; a blank one ends it.

    Returns what is kept.
    """
    kept = text.strip()
    if len(kept) > LONGEST:
        raise InputError(f"a workflow has {LONGEST:,} characters at most, and this one has {len(kept):,}")
    if "\0" in kept or not is_whole(kept):
        raise InputError("the workflow has signs that are no characters; nothing was changed")
    if kept:
        state.execute(REPLACE, (session, kept, stamp()))
    else:
        state.execute("DELETE FROM workflows WHERE session_id = ?", (session,))
    return kept


def copy_workflow(state: sqlite3.Connection, session: str, into: str) -> None:
    """Let another session stand where this one does."""
    replace_workflow(state, into, find_workflow(state, session))
