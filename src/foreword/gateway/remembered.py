"""What sessions go on from, as it was read and written lately: a turn pays for what is new, not for all that was said.

Every row is read in every turn and compared with what is remembered, byte for byte. So it does not matter who rewrote,
folded or removed one: what is not in the state is neither sent nor remembered any longer.
"""

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Sequence

from foreword.gateway.past import Known, Row, read_known

LARGEST = 64_000_000  # bytes of all rows as they are stored; with all that is made of them they take five times as much


class Remembered:
    """The rows that were read lately, session by session; the session that was read longest ago is let go first."""

    def __init__(self, largest: int = LARGEST) -> None:
        self._largest = largest
        self._sessions: OrderedDict[str, Known] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._size = 0
        self._version = 0
        self._lock = threading.Lock()  # the one who writes reads, too

    def read(self, state: sqlite3.Connection, session: str) -> Sequence[Row]:
        """Read what a session goes on from."""
        with self._lock:
            self._look(state)
            read = read_known(state, session, self._sessions.get(session, {}))
            self._let_go(session)
            self._sessions[session] = read
            self._sizes[session] = sum([len(found[2]) for found, _ in read.values()])
            self._size += self._sizes[session]
            while self._size > self._largest:
                self._let_go(next(iter(self._sessions)))
            return [row for _, row in read.values()]

    def _look(self, state: sqlite3.Connection) -> None:
        """Let go of everything when somebody was forgotten: whoever does that writes the whole file anew at its end."""
        (version,) = state.execute("PRAGMA schema_version").fetchone()
        if version != self._version:
            self._version, self._size = version, 0
            self._sessions.clear()
            self._sizes.clear()

    def _let_go(self, session: str) -> None:
        self._sessions.pop(session, None)
        self._size -= self._sizes.pop(session, 0)
