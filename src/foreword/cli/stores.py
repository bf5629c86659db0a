"""Checks of the files of rows: those that are damaged are named, and nothing about them is changed."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing

from foreword.cli.checks import Check, doubt, refuse

SHORT = 1.0  # seconds to wait for a file that another process holds


def check_stores(folder: str) -> Iterator[Check]:
    """Check that the state, the log and the budgets can be read, as far as there are any."""
    from foreword.store.open import BUDGETS, FILE
    from foreword.store.state import STATE_FILE

    remedies = {
        STATE_FILE: f"restore it from a backup, or move it away with {STATE_FILE}-wal and {STATE_FILE}-shm beside it, "
        "to begin without its sessions",
        FILE: "the next start puts it aside and begins a new one; restore it from a backup to keep what it tells",
        BUDGETS: "the next start puts it aside and counts what is spent anew; restore it from a backup",
    }
    for name, remedy in remedies.items():
        path = os.path.join(folder, name)
        if not os.path.lexists(path):
            continue
        level = refuse if name == STATE_FILE else doubt
        damage, reason = find_damage(path)
        if damage:
            yield level(name, f"{path} is damaged ({damage})", remedy)
        elif reason:
            yield level(name, f"{path} cannot be read: {reason}", "see who holds it, and that it is yours")


def find_damage(path: str) -> tuple[str, str]:
    """Read a file of rows through, and say what is broken in it, or else why it cannot be read now."""
    from foreword.store.legacy import quote_path
    from foreword.store.open import is_damage

    try:
        with closing(sqlite3.connect(f"file:{quote_path(path)}?mode=ro", uri=True, timeout=SHORT)) as rows:
            (verdict,) = rows.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        return (str(error), "") if is_damage(error) else ("", str(error))
    return ("" if verdict == "ok" else str(verdict)), ""
