"""Counts on disk: a small SQLite file in the workspace's state, which may be deleted at any time."""

import os
from collections.abc import Mapping, Sequence
from contextlib import closing

MOST = 200_000  # rows; the oldest go first

SCHEMA = """
CREATE TABLE IF NOT EXISTS counts (
    vocabulary TEXT NOT NULL, content BLOB NOT NULL, tokens INTEGER NOT NULL,
    PRIMARY KEY (vocabulary, content)
)
"""


class CountShelf:
    """Keeps token counts by content hash; a disk that fails costs time, never a turn."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._file = os.path.join(folder, "counts.sqlite")

    def load(self, vocabulary: str) -> dict[bytes, int]:
        """Return every count of a vocabulary, or nothing where there is no usable file."""
        import sqlite3

        if not os.path.exists(self._file):
            return {}
        try:
            with closing(sqlite3.connect(self._file, timeout=1)) as database:
                rows = database.execute("SELECT content, tokens FROM counts WHERE vocabulary = ?", (vocabulary,))
                return dict(rows.fetchall())
        except sqlite3.Error:
            return {}

    def save(self, vocabulary: str, counts: Mapping[bytes, int]) -> None:
        """Add counts, and drop the oldest ones beyond a limit; a file that is no database is replaced."""
        import sqlite3

        rows = [(vocabulary, content, tokens) for content, tokens in counts.items()]
        try:
            os.makedirs(self._folder, exist_ok=True)
            try:
                self._write(rows)
            except sqlite3.OperationalError:
                return
            except sqlite3.DatabaseError:
                os.remove(self._file)
                self._write(rows)
        except (sqlite3.Error, OSError):
            return

    def _write(self, rows: Sequence[tuple[str, bytes, int]]) -> None:
        import sqlite3

        with closing(sqlite3.connect(self._file, timeout=1)) as database, database:
            database.execute(SCHEMA)
            database.executemany("INSERT OR REPLACE INTO counts VALUES (?, ?, ?)", rows)
            database.execute("DELETE FROM counts WHERE rowid <= (SELECT max(rowid) FROM counts) - ?", (MOST,))
