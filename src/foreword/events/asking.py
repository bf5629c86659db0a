"""Asking the log: opened for one question, read as it is at one moment, and put aside if it turns out to be damaged."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import TypeVar

from foreword.errors import InputError
from foreword.store.open import Opened, is_damage, put_aside, read_events

ATTEMPTS = 2  # to read a log that may be damaged

T = TypeVar("T")


def ask(folder: str, question: Callable[[sqlite3.Connection], T]) -> tuple[T, str]:
    """Ask the log in a folder; returns the answer, and what had to be mended for it. Where no log is, all is empty.

    A question may be asked twice, so it does nothing but read.
    """
    note = ""
    for _ in range(ATTEMPTS):
        opened = open_log(folder)
        note = note or opened.note
        with closing(opened.connection) as connection:
            try:
                connection.execute("BEGIN")
                return question(connection), note
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise InputError(f"the event log cannot be read: {error}; try again") from None
        note = mend(opened.path)
    raise InputError("the event log cannot be read: it is damaged and could not be put aside")


def open_log(folder: str, way: Callable[[str], Opened] = read_events) -> Opened:
    """Open the log, for reading unless another way is said, or raise InputError with why that is not possible."""
    try:
        return way(folder)
    except sqlite3.DatabaseError as error:
        raise InputError(f"the event log cannot be read: {error}; try again") from None
    except OSError as error:
        raise InputError(f"the event log cannot be read: {error.strerror or error}") from None


def mend(path: str) -> str:
    """Put a damaged log aside, and return what there is to say about it."""
    try:
        return put_aside(path)
    except (sqlite3.DatabaseError, OSError) as error:
        raise InputError(f"the event log is damaged and cannot be put aside: {error}") from None
