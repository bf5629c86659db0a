"""What sessions go on from, as it was read and written lately: a turn pays for what is new, not for all that was said.

Every row is read in every turn and compared with what is remembered, byte for byte. So it does not matter who rewrote,
folded or removed one: what is not in the state is neither sent nor remembered any longer.
"""

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

from foreword.gateway.past import Known, Row, read_known
from foreword.ledger import Frozen
from foreword.store import ledgers

LARGEST = 32_000_000  # bytes of rows and ledgers as they are stored; what is made of them takes several times as much


def forget_nothing() -> None:
    """Let go of nothing else."""


class Going:
    """What is remembered of one session."""

    __slots__ = ("ledger", "rows", "size")

    def __init__(self) -> None:
        self.rows: Known = {}
        self.size = 0
        self.ledger: tuple[str, str, Frozen] | None = None
        """What it has sent, with the row that says so and the name of its base."""

    def weigh(self) -> int:
        """Weigh it again, and return by how much more that is."""
        before, self.size = self.size, sum([len(found[2]) for found, _ in self.rows.values()])
        if self.ledger:
            row, _, frozen = self.ledger
            self.size += len(row) + len(frozen.base.text)
        return self.size - before


class Remembered:
    """What was read lately, session by session; the session that was read longest ago is let go first.

    `forget` is called when somebody was forgotten, so that others let go of what they remember, too.
    """

    def __init__(self, largest: int = LARGEST, forget: Callable[[], None] = forget_nothing) -> None:
        self._largest = largest
        self._forget = forget
        self._sessions: OrderedDict[str, Going] = OrderedDict()
        self._size = 0
        self._version = 0
        self._lock = threading.Lock()  # the one who writes reads, too

    def read(self, state: sqlite3.Connection, session: str) -> Sequence[Row]:
        """Read what a session goes on from."""
        with self._lock:
            self._look(state)
            going = self._sessions.setdefault(session, Going())
            self._sessions.move_to_end(session)
            going.rows = read_known(state, session, going.rows)
            self._size += going.weigh()
            while self._size > self._largest:
                self._size -= self._sessions.popitem(last=False)[1].size
            return [row for _, row in going.rows.values()]

    def read_ledger(self, state: sqlite3.Connection, session: str) -> Frozen | None:
        """Read what a session has sent."""
        row = ledgers.find_ledger(state, session)
        with self._lock:
            self._look(state)
            going = self._sessions.get(session)
            if row and going and going.ledger and going.ledger[:2] == (row.frozen, row.base):
                return going.ledger[2]
        return ledgers.read_row(row)

    def keep_ledger(self, session: str, row: ledgers.Row, frozen: Frozen) -> None:
        """Remember what a session has sent, as it is about to be kept; should it not be, the row will be another."""
        with self._lock:
            if going := self._sessions.get(session):
                going.ledger = (row.frozen, row.base, frozen)
                self._size += going.weigh()

    def _look(self, state: sqlite3.Connection) -> None:
        """Let go of everything when somebody was forgotten: whoever does that writes the whole file anew at its end."""
        (version,) = state.execute("PRAGMA schema_version").fetchone()
        if version != self._version:
            self._version, self._size = version, 0
            self._sessions.clear()
            self._forget()
