"""Scrubbing: what was removed, now or earlier, leaves no byte in a file of rows or in what stands beside it."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress

from foreword.erasure.holding import LOG, PURSE, STATE, Bases
from foreword.memory.sqlite_index import FILE as INDEX
from foreword.store.open import BUDGETS, FILE
from foreword.store.state import STATE_FILE

PAUSE = 0.1


def scrub(bases: Bases, patience: float) -> Iterator[str]:
    """Write each file of rows anew; say which one could not be, and what still holds removed rows then."""
    for base, name in ((STATE, STATE_FILE), (LOG, FILE), (PURSE, BUDGETS)):
        connection = bases.get(base)
        if connection is not None and (fault := rewrite_rows(connection, patience)):
            yield describe(name, fault)
    place = os.path.join(bases.folder, INDEX)
    if os.path.isfile(place):
        with closing(sqlite3.connect(place, timeout=patience, isolation_level=None)) as index:
            if fault := rewrite_rows(index, patience):
                yield describe(INDEX, fault)


def describe(name: str, fault: str) -> str:
    """Say that a file may still hold removed bytes."""
    return (
        f".foreword/{name} or {name}-wal may still hold bytes of what was removed ({fault}); "
        "stop what uses it, and run this again"
    )


def rewrite_rows(connection: sqlite3.Connection, patience: float) -> str:
    """Write a file anew and empty its journal; return why that was not possible."""
    end = time.monotonic() + patience
    connection.execute(f"PRAGMA busy_timeout={patience * 1_000:.0f}")
    with suppress(sqlite3.Error):
        connection.execute("PRAGMA secure_delete=ON")
    try:
        connection.execute("VACUUM")
        while True:
            busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if not busy:
                return ""
            if time.monotonic() > end:
                return "somebody is reading it"
            time.sleep(PAUSE)
    except sqlite3.Error as error:
        return str(error)
