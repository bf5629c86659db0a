"""A holding: one place that keeps something of people, and how it is found, given and removed there.

A new table, column or file that can hold a person's words or name belongs to a holding; a test fails until it does.
"""

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, nullcontext
from typing import Any, Protocol

from foreword.config.schema import Config
from foreword.erasure.person import Person
from foreword.events.asking import open_log
from foreword.events.prompts import writing
from foreword.frozen import frozen
from foreword.store.open import BUDGETS, FILE, open_budgets, open_events
from foreword.store.state import STATE_FILE, in_words, open_state
from foreword.words import Trust

STATE, LOG, PURSE, DISK = "state", "log", "budgets", ""
"""What a holding lies in: one of the three bases, or files of its own."""
AT_HAND = ("PRAGMA secure_delete=ON", "PRAGMA temp_store=MEMORY")


@frozen
class Bases:
    """The files of a workspace that hold rows, as far as they exist, and the folder around them."""

    root: str
    folder: str
    config: Config
    state: sqlite3.Connection | None = None
    log: sqlite3.Connection | None = None
    budgets: sqlite3.Connection | None = None

    def get(self, base: str) -> sqlite3.Connection | None:
        """Get the connection of a base."""
        return {STATE: self.state, LOG: self.log, PURSE: self.budgets}.get(base)


@frozen(eq=True)
class Given:
    """One thing that is kept of a person, as they are given it."""

    row: Mapping[str, Any]
    trust: Trust = Trust.PUBLIC
    """The clearance at which it was learned: whoever has less now is not given it."""


class Holding(Protocol):
    """One place that keeps something of people."""

    @property
    def name(self) -> str:
        """What a person is told that it is."""

    @property
    def base(self) -> str:
        """Whether it is a part of the state, of the log or of the budgets, which then change as one; else nothing."""

    @property
    def where(self) -> str:
        """The file or the folder, as the report shows it; NAME is the person's."""

    @property
    def claims(self) -> tuple[str, ...]:
        """What it answers for: `state.turns.*` is a whole table, `state.history.messages` a column of a shared one."""

    def find(self, bases: Bases, person: Person) -> int:
        """Count what there is of a person."""

    def give(self, bases: Bases, person: Person) -> Iterator[Given]:
        """Give what there is of a person, and nothing of another; what was made of many people's words is nobody's."""

    def forget(self, bases: Bases, person: Person) -> int:
        """Remove it, and return how much; where it is gone already, nothing happens."""


@contextmanager
def open_bases(root: str, folder: str, config: Config) -> Iterator[Bases]:
    """Open what there is; nothing is made where nothing was. What is removed leaves no byte in a free page."""
    with in_words(folder), ExitStack() as opened:
        found: dict[str, sqlite3.Connection] = {}
        if os.path.exists(os.path.join(folder, STATE_FILE)):
            found["state"] = open_state(folder).connection
        if os.path.exists(os.path.join(folder, FILE)):
            found["log"] = open_log(folder, open_events).connection
        if os.path.exists(os.path.join(folder, BUDGETS)):
            found["budgets"] = open_log(folder, open_budgets).connection
        for connection in found.values():
            opened.enter_context(closing(connection))
            for order in AT_HAND:
                connection.execute(order)
        yield Bases(root=root, folder=folder, config=config, **found)


@contextmanager
def changing(connection: sqlite3.Connection | None) -> Iterator[None]:
    """Change a base: all of it or nothing."""
    with writing(connection) if connection else nullcontext():
        yield
