"""Cached read access to the state for every turn: agents, instructions, archives and schedules."""

import os
import sqlite3
from collections.abc import Callable, Hashable, Mapping
from datetime import datetime
from threading import Lock
from typing import TypeVar, cast

from foreword.engine.context import NO_CHARACTER, StoredCharacter
from foreword.engine.trust import ArchivedSession
from foreword.promptcache.rules import Calibration
from foreword.storage import database
from foreword.storage.agents import find_character, find_instructions
from foreword.storage.database import FileIdentity
from foreword.storage.ledgers import read_calibrations, read_edits
from foreword.storage.rows import fetch_all, fetch_cell, fetch_column
from foreword.storage.sessions import find_archive_access
from foreword.types import EditPolicy, Trust, frozen

MAX_CACHED_ANSWERS = 4_096  # cached answers until the state changes

T = TypeVar("T")


@frozen
class PendingSchedule:
    """A schedule, reduced to what it shows in a prompt."""

    id: str
    title: str
    user: str
    room: str
    clearance: Trust
    due: datetime


class StateReader:
    """Answers queries on the state of a folder. A missing state is not created and reads as empty.

    An answer is the same object until the state changes. Checking costs a `stat` and a `PRAGMA` per turn.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._path = os.path.join(folder, database.STATE_FILE)
        self._lock = Lock()
        self._state: sqlite3.Connection | None = None
        self._seen: FileIdentity = (0, 0)
        self._version = -1
        self._answers: dict[Hashable, object] = {}

    def find_character(self, agent: str) -> StoredCharacter:
        """Return the stored attributes of an agent."""
        return self._ask((agent,), NO_CHARACTER, lambda state: find_character(state, agent))

    def find_instructions(self, user: str, agent: str, clearance: Trust) -> str | None:
        """Return a user's instructions for an agent, or None if there are none at this clearance."""
        return self._ask((user, agent, clearance), None, lambda state: find_instructions(state, user, agent, clearance))

    def find_archived(self, path: str) -> ArchivedSession | None:
        """Return the access attributes of a transcript file, or None if it is not an archive."""
        return self._ask(("archive", path), None, lambda state: find_archive_access(state, path))

    def list_paired(self, user: str) -> tuple[str, ...]:
        """List the identities paired with a user, oldest first."""
        return self._ask(("paired", user), (), lambda state: list_paired_identities(state, user))

    def list_planned(self) -> "tuple[PendingSchedule, ...]":
        """List the pending schedules, next one first."""
        return self._ask(("planned",), (), list_pending_schedules)

    def find_calibration(self, model: str) -> Calibration:
        """Return the token calibration of a model."""
        nothing = Calibration(model=model)
        return self._ask(("tokens", model), nothing, lambda state: read_calibrations(state).get(model, nothing))

    def find_edits(self) -> Mapping[tuple[str, str], EditPolicy]:
        """Return the decisions about edits, by file and hash of its text."""
        return self._ask(("edits",), {}, read_edits)

    def close(self) -> None:
        """Close the file. The next query opens it again."""
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
                if database.is_damage(error):
                    raise database.make_damage_error(self._path, error) from error
                raise database.StorageError(f"{self._path} cannot be read now: {error}") from error

    def _find(self) -> sqlite3.Connection | None:
        """Return the current state: the file may have been replaced or removed."""
        seen = database.identify_file(self._path)
        if seen != self._seen:
            self._leave()
        if seen == (0, 0):
            return None
        if self._state is None:
            self._state = database.open_state_read_only(self._folder)
            self._seen = database.identify_file(self._path)
        # `data_version` changes when another connection writes; this one never does.
        version = fetch_cell(int, self._state, "PRAGMA data_version") or 0
        if version != self._version or len(self._answers) >= MAX_CACHED_ANSWERS:
            self._answers.clear()
            self._version = version
        return self._state

    def _leave(self) -> None:
        if self._state:
            self._state.close()
        self._state, self._seen, self._version = None, (0, 0), -1
        self._answers.clear()


def list_paired_identities(state: sqlite3.Connection, user: str) -> tuple[str, ...]:
    """List the identities paired with a user, oldest first."""
    return tuple(fetch_column(state, "SELECT identity FROM identities WHERE user_id = ? ORDER BY paired", user))


def list_pending_schedules(state: sqlite3.Connection) -> tuple[PendingSchedule, ...]:
    """List the pending schedules, next one first."""
    query = (
        "SELECT id, coalesce(nullif(name, ''), id) AS title, user_id, room, clearance, due FROM schedules"
        " WHERE state = 'waiting' AND due IS NOT NULL ORDER BY due, id"
    )
    return tuple(fetch_all(PendingSchedule, state, query))
