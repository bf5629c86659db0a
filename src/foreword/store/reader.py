"""Reads the state as it is now, for every turn anew: what is kept of agents, and what people want of them."""

import os
import sqlite3
from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from threading import Lock
from typing import TypeVar, cast

from foreword.frozen import frozen
from foreword.ledger.calibration import Calibration
from foreword.sources.archived import Archived
from foreword.sources.character import UNKEPT, Character
from foreword.store.agents import find_character
from foreword.store.archives import find_archived
from foreword.store.instructions import find_instructions
from foreword.store.ledgers import read_calibrations
from foreword.store.open import Identity, identify, is_damage
from foreword.store.schema import StoreError
from foreword.store.state import STATE_FILE, open_state, refuse_damaged
from foreword.words import Trust

MOST = 4_096  # answers that are kept until the state changes

T = TypeVar("T")


@frozen
class Planned:
    """A schedule, as far as it is told of one that it runs."""

    id: str
    title: str
    user: str
    room: str
    clearance: Trust
    due: datetime


class StateReader:
    """Answers from the state of a folder; where there is none, nothing is made and every answer is empty.

    An answer is the very same object until somebody writes, which costs a turn one look at the file and one at SQLite.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._path = os.path.join(folder, STATE_FILE)
        self._lock = Lock()
        self._state: sqlite3.Connection | None = None
        self._seen: Identity = (0, 0)
        self._version = -1
        self._answers: dict[Hashable, object] = {}

    def find_character(self, agent: str) -> Character:
        """Find what is kept of an agent."""
        return self._ask((agent,), UNKEPT, lambda state: find_character(state, agent))

    def find_instructions(self, user: str, agent: str, clearance: Trust) -> str | None:
        """Find a person's standing instructions for an agent; None says that a clearance knows of none."""
        return self._ask((user, agent, clearance), None, lambda state: find_instructions(state, user, agent, clearance))

    def find_archived(self, path: str) -> Archived | None:
        """Find whose transcript a file of the workspace is; None says that the archive did not write it."""
        return self._ask(("archive", path), None, lambda state: find_archived(state, path))

    def list_paired(self, user: str) -> tuple[str, ...]:
        """List the identities that were paired with a person, the oldest first."""
        return self._ask(("paired", user), (), lambda state: list_paired(state, user))

    def list_planned(self) -> "tuple[Planned, ...]":
        """List the schedules that are due at some time, the next one first."""
        return self._ask(("planned",), (), list_planned)

    def find_calibration(self, model: str) -> Calibration:
        """Find what the calls of a model have taught about its tokens."""
        nothing = Calibration(model=model)
        return self._ask(("tokens", model), nothing, lambda state: read_calibrations(state).get(model, nothing))

    def close(self) -> None:
        """Let go of the file; the next question opens it again."""
        with self._lock:
            self._leave()

    def _ask(self, key: Hashable, nothing: T, question: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            try:
                state = self._find()
                if state is None:
                    return nothing
                if key not in self._answers:
                    self._answers[key] = question(state)
                return cast("T", self._answers[key])
            except sqlite3.Error as error:
                self._leave()
                if is_damage(error):
                    raise refuse_damaged(self._path, error) from error
                raise StoreError(f"{self._path} cannot be read now: {error}") from error

    def _find(self) -> sqlite3.Connection | None:
        """Find the state as it is now: another file may have taken its place, or there may be none any more."""
        seen = identify(self._path)
        if seen != self._seen:
            self._leave()
        if seen == (0, 0):
            return None
        if self._state is None:
            self._state = open_state(self._folder).connection
            self._state.execute("PRAGMA query_only=ON")
            self._seen = identify(self._path)
        # It tells of what others wrote; this connection writes nothing.
        (version,) = self._state.execute("PRAGMA data_version").fetchone()
        if version != self._version or len(self._answers) >= MOST:
            self._answers.clear()
            self._version = version
        return self._state

    def _leave(self) -> None:
        if self._state:
            self._state.close()
        self._state, self._seen, self._version = None, (0, 0), -1
        self._answers.clear()


def list_paired(state: sqlite3.Connection, user: str) -> tuple[str, ...]:
    """List the identities that were paired with a person, the oldest first."""
    rows = state.execute("SELECT identity FROM identities WHERE user_id = ? ORDER BY paired", (user,))
    return tuple(str(identity) for (identity,) in rows)


def list_planned(state: sqlite3.Connection) -> tuple[Planned, ...]:
    """List the schedules that are due at some time, the next one first."""
    rows = state.execute(
        "SELECT id, name, user_id, room, clearance, due FROM schedules"
        " WHERE state = 'waiting' AND due IS NOT NULL ORDER BY due, id"
    )
    return tuple(
        Planned(
            id=key,
            title=name or key,
            user=user,
            room=room,
            clearance=Trust(clearance),
            due=datetime.fromtimestamp(due, UTC),
        )
        for key, name, user, room, clearance, due in rows
    )
