"""Turns under way: one that has a person's words could bring them back, so nothing is removed beside it."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager

from foreword.erasure.holding import Bases
from foreword.erasure.person import NAMES, Person
from foreword.errors import InputError
from foreword.gateway.owner import is_dead

PAUSE = 0.05
# Theirs, and those of others in rooms in which they spoke: such a turn may be summing up what was said.
UNDER_WAY = f"""
SELECT user_id, lease_owner FROM turns WHERE finished IS NULL AND state = 'running' AND lease_until > ? AND
    (user_id IN {NAMES} OR session_id IN (SELECT id FROM theirs WHERE kind = 'session')
    OR session_id IN (SELECT session_id FROM history WHERE turn_id IN (SELECT id FROM theirs WHERE kind = 'turn'))
    OR session_id IN (SELECT session_id FROM turns AS said WHERE said.user_id IN {NAMES}))"""


@contextmanager
def wait_for_turns(bases: Bases, person: Person, patience: float) -> Iterator[None]:
    """Hold the state at a moment at which nobody works on what has their words; else refuse, and change nothing."""
    state = bases.state
    assert state is not None
    end = time.monotonic() + patience
    while True:
        state.execute("BEGIN IMMEDIATE")
        try:
            busy = list_busy(state)
            if not busy:
                yield
                state.execute("COMMIT")
                return
            state.execute(f"UPDATE turns SET stop = 1 WHERE user_id IN {NAMES} AND state = 'running'")
            state.execute("COMMIT")
        except BaseException:
            if state.in_transaction:
                state.execute("ROLLBACK")
            raise
        if time.monotonic() > end:
            own = sum(user in person.names for user in busy)
            whose = f"a turn of {person.name} is" if own else "a turn in a room in which they spoke is"
            raise InputError(
                f"{whose} still under way, and would bring their words back; nothing more was removed: "
                "wait until it has ended, or stop the gateway, and run this again"
            )
        time.sleep(PAUSE)


def wait_for_others(state: sqlite3.Connection, patience: float) -> bool:
    """Wait until every turn that is under way now has ended; False where one goes on."""
    before = list_running(state)
    end = time.monotonic() + patience
    while before & list_running(state):
        if time.monotonic() > end:
            return False
        time.sleep(PAUSE)
    return True


def list_running(state: sqlite3.Connection) -> set[str]:
    """List the turns that a process which lives is working on."""
    asked = "SELECT id, lease_owner FROM turns WHERE finished IS NULL AND state = 'running' AND lease_until > ?"
    return {turn for turn, owner in state.execute(asked, (time.time(),)) if owner and not is_dead(owner)}


def list_busy(state: sqlite3.Connection) -> list[str]:
    """List whose turns are under way in a process that lives."""
    found = state.execute(UNDER_WAY, (time.time(),)).fetchall()
    return [user for user, owner in found if owner and not is_dead(owner)]
