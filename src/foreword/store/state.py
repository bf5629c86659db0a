"""Opens the state: sessions, turns, their histories, plans, tasks, tokens, and what the store says of agents and users.

The log may begin anew when its file is damaged; the state never does, for it holds what cannot be told again.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from foreword.store.open import Opened, is_damage, open_file
from foreword.store.schema import PATIENCE, Schema, StoreError

STATE_FILE = "state.sqlite"
STATE = Schema(
    text="state.sql",
    migrations="state",
    synchronous="FULL",  # a message that was accepted outlives a loss of power
    probe="SELECT (SELECT max(used) FROM sessions), (SELECT max(rowid) FROM turns), (SELECT max(id) FROM outbox)",
    older="user_agent_prompt_customizations",  # a database of SPEC-010 can become the state
    linked=True,
)


def open_state(folder: str, patience: float = PATIENCE) -> Opened:
    """Open the state of a folder; it is made if need be, and one that is damaged is refused and left as it is."""
    path = os.path.join(folder, STATE_FILE)
    try:
        return Opened(connection=open_file(path, STATE, patience), path=path)
    except sqlite3.DatabaseError as error:
        if is_damage(error):
            raise refuse_damaged(path, error) from error
        raise


@contextmanager
def use_state(folder: str) -> Iterator[sqlite3.Connection]:
    """Open the state of a folder for a moment; whatever SQLite has to say becomes an error that speaks to a reader."""
    with in_words(folder), closing(open_state(folder).connection) as state:
        yield state


@contextmanager
def in_words(folder: str) -> Iterator[None]:
    """Say in words what SQLite says about the state of a folder: that it is damaged, or why it is of no use now."""
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise StoreError(f"{folder} is no folder, and the state is kept in it; move it away")
    path = os.path.join(folder, STATE_FILE)
    try:
        yield
    except sqlite3.Error as error:
        if is_damage(error):
            raise refuse_damaged(path, error) from error
        raise StoreError(
            f"{path} cannot be used now: {error}; the disk may be full or read-only, "
            "or another process may hold the file; try again"
        ) from error


def refuse_damaged(path: str, error: sqlite3.Error) -> StoreError:
    """Say that the state is damaged and what to do; nothing is replaced, since sessions would be lost."""
    return StoreError(
        f"{path} is damaged ({error}); restore it from a backup, or move it away by hand, "
        f"with {STATE_FILE}-wal and {STATE_FILE}-shm beside it, to begin without its sessions"
    )
