"""Asking the log: opened for one question, read as it is at one moment, and put aside if it turns out to be damaged."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import TypeVar

from foreword.errors import InputError
from foreword.store.open import is_damage, put_aside, read_events

ATTEMPTS = 2  # to read a log that may be damaged

T = TypeVar("T")


def ask(folder: str, question: Callable[[sqlite3.Connection], T]) -> tuple[T, str]:
    """Ask the log in a folder; returns the answer, and what had to be mended for it. Where no log is, all is empty."""
    note = ""
    for _ in range(ATTEMPTS):
        path = ""
        try:
            opened = read_events(folder)
            path, note = opened.path, note or opened.note
            with closing(opened.connection) as connection:
                connection.execute("BEGIN")
                return question(connection), note
        except sqlite3.DatabaseError as error:
            if not path or not is_damage(error):
                raise InputError(f"the event log cannot be read: {error}; try again") from None
            note = put_aside(path)
        except OSError as error:
            raise InputError(f"the event log cannot be read: {error.strerror or error}") from None
    raise InputError("the event log cannot be read: it is damaged and could not be put aside")
