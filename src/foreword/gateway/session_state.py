"""The stored state of a session that a turn reads: history, ledger, tasks, bulletins and writing style.

The ledger is stored with each step of a turn, so that history and ledger agree. A cache keeps the parsed history and
ledger, so that a turn only parses new rows.
"""

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime

from foreword.agent.conversation import Messages, convert_to_texts
from foreword.agent.providers.model_clients import EMBEDDED_PREFIX
from foreword.agent.segments import HistorySegment, convert_segments_to_texts
from foreword.events.event import Reader, sees_all
from foreword.promptcache.decision import CacheContext, SessionLedger
from foreword.promptcache.ledger import LedgerState, clear_ledger, mark_lost
from foreword.promptcache.rules import NO_CALIBRATION, Calibration, update_calibration
from foreword.storage import ledgers
from foreword.storage.database import find_schema_version
from foreword.storage.history import HistoryKind, StoredRow, read_rows
from foreword.storage.profiles import read_bulletins, read_profile
from foreword.storage.sessions import Session, find_workflow, read_tasks
from foreword.tokens.models import PricedRequest, find_prices
from foreword.turn import Message, State, Turn
from foreword.types import EditPolicy, Trust, frozen
from foreword.workspace import Workspace

MAX_CACHE_BYTES = 32_000_000  # stored bytes of rows and ledgers; the parsed values take several times as much


@frozen
class HistoryRow:
    """One row of the history."""

    position: int
    kind: HistoryKind
    segment: HistorySegment
    tokens: int
    turn: str = ""


def parse_history_row(stored: StoredRow) -> HistoryRow:
    """Parse a stored row."""
    position, kind, messages, tokens, turn = stored
    segment = HistorySegment(messages)
    return HistoryRow(position=position, kind=HistoryKind(kind), segment=segment, tokens=tokens, turn=turn or "")


def load_history(state: sqlite3.Connection, session: str) -> list[HistoryRow]:
    """Read the active history of a session."""
    return [parse_history_row(row) for row in read_rows(state, session)]


def list_plain_messages(history: Sequence[HistoryRow]) -> tuple[Message, ...]:
    """Return a history as plain messages."""
    return convert_segments_to_texts([row.segment for row in history])


@frozen
class StoredLedger:
    """The stored ledger of a session, as read before a turn."""

    ledger_state: LedgerState | None = None
    edits: Mapping[tuple[str, str], EditPolicy] = field(default_factory=dict)
    calibrations: Mapping[str, Calibration] = field(default_factory=dict)
    """Token calibration of each model."""
    damaged: bool = False
    """Whether the stored ledger cannot be read, so that the sent prefix is unknown."""

    def follow(self, since: datetime | None) -> "StoredLedger":
        """Mark the prefix as lost if it was sent before the engine's start time."""
        known = self.ledger_state
        return replace(self, ledger_state=mark_lost(known)) if known and since and known.last.at < since else self

    def redact_for(self, reader: Reader) -> "StoredLedger":
        """Leave out the calibrations, which depend on other people's calls, unless the reader sees everything."""
        return self if sees_all(reader) else replace(self, calibrations={})

    def open(
        self, workspace: Workspace, turn: Turn, now: datetime, *, compacted: bool = False, taken: Messages = ()
    ) -> SessionLedger:
        """Open the ledger for a turn."""
        config = workspace.config
        model = turn.model or config.agents[turn.agent or next(iter(config.agents))].model
        facts = workspace.context.measure(model).facts
        calibration = self.calibrations.get(facts.name, NO_CALIBRATION)
        tokens = calibration.correct(self.ledger_state.last.tokens) if self.ledger_state else 0
        prices = find_prices(facts.name, config.models, PricedRequest(tokens=tokens, now=now))
        moment = CacheContext(now=now, facts=facts.cache, prices=prices, known=calibration)
        texts = tuple(message.text for message in convert_to_texts(taken))
        return SessionLedger(
            state=self.ledger_state,
            moment=moment,
            edits=self.edits,
            compacted=compacted,
            taken=texts,
            damaged=self.damaged,
        )


@frozen(eq=True)
class TokenLesson:
    """What one call shows about a model's token count."""

    model: str
    counted: int
    reported: int


@frozen
class LedgerEntry:
    """Ledger data of a turn's calls, stored together with the step that follows them."""

    ledger_state: LedgerState | None
    """What the session has sent so far; None resets the ledger."""
    lessons: tuple[TokenLesson, ...] = ()
    began_empty: bool = False
    """Whether the turn began with an empty ledger."""


def load_ledger(
    state: sqlite3.Connection,
    session: str,
    since: datetime | None = None,
    read: Callable[[sqlite3.Connection, str], LedgerState | None] = ledgers.read_ledger,
) -> StoredLedger:
    """Read the ledger of a session.

    The embedded engine has lost everything sent before its start, at `since` if that is known.
    """
    known = read(state, session)
    if known and since and known.identity.model.partition(":")[0] == EMBEDDED_PREFIX and known.last.at < since:
        known = mark_lost(known)
    return StoredLedger(
        ledger_state=known,
        edits=ledgers.read_edits(state),
        calibrations=ledgers.read_calibrations(state),
        damaged=known is None and ledgers.has_ledger(state, session),
    )


def read_session_state(state: sqlite3.Connection, session: Session, policy: str) -> State:
    """Read the state of a session that its clearance may see under the current memory policy."""
    key = session.key
    return State(
        workflow=find_workflow(state, session.id),
        tasks=read_tasks(state, session.id),
        communication=read_profile(state, key.user, key.clearance) if key.is_own else None,
        bulletins=read_bulletins(state, key.agent, key.clearance, policy) if key.clearance > Trust.PUBLIC else (),
    )


class CachedSession:
    """The cached data of one session."""

    __slots__ = ("ledger", "rows", "size")

    def __init__(self) -> None:
        self.rows: Mapping[StoredRow, HistoryRow] = {}
        self.size = 0
        self.ledger: tuple[str, str, LedgerState] | None = None
        """The stored ledger row, the name of its prefix, and the parsed ledger."""

    def update_size(self) -> int:
        """Compute the size again; return the difference."""
        before, self.size = self.size, sum(len(row[2]) for row in self.rows)
        if self.ledger:
            row, _, known = self.ledger
            self.size += len(row) + len(known.prefix.text)
        return self.size - before


class SessionCache:
    """An LRU cache of sessions.

    `on_erasure` is called after an erasure, so that other caches are cleared as well.
    """

    def __init__(self, max_bytes: int = MAX_CACHE_BYTES, on_erasure: Callable[[], None] = lambda: None) -> None:
        self._max_bytes = max_bytes
        self._on_erasure = on_erasure
        self._sessions: OrderedDict[str, CachedSession] = OrderedDict()
        self._size = 0
        self._version = 0
        self._lock = threading.Lock()  # the writer thread also reads

    def read(self, state: sqlite3.Connection, session: str) -> Sequence[HistoryRow]:
        """Read the active history of a session."""
        with self._lock:
            self._clear_after_erasure(state)
            cached = self._sessions.setdefault(session, CachedSession())
            self._sessions.move_to_end(session)
            cached.rows = {row: cached.rows.get(row) or parse_history_row(row) for row in read_rows(state, session)}
            self._size += cached.update_size()
            while self._size > self._max_bytes:
                self._size -= self._sessions.popitem(last=False)[1].size
            return list(cached.rows.values())

    def read_ledger(self, state: sqlite3.Connection, session: str) -> LedgerState | None:
        """Read the ledger of a session."""
        row = ledgers.find_ledger(state, session)
        with self._lock:
            self._clear_after_erasure(state)
            cached = self._sessions.get(session)
            if row and cached and cached.ledger and cached.ledger[:2] == (row.frozen, row.base):
                return cached.ledger[2]
        return ledgers.parse_ledger_row(row)

    def store_ledger(self, state: sqlite3.Connection, session: str, entry: LedgerEntry) -> None:
        """Store the ledger of a session and its calibration; after a failed transaction the cached row is unused."""
        if entry.ledger_state is None:
            ledgers.drop_ledger(state, session)
        elif not entry.began_empty and ledgers.is_ledger_empty(state, session):
            # Text erased while the turn ran is still in the turn's own ledger and must not be stored again.
            ledgers.remove_update_texts(state, session, [update.said for update in entry.ledger_state.updates])
            ledgers.replace_ledger(state, session, ledgers.build_ledger_row(clear_ledger(entry.ledger_state)))
        else:
            row = ledgers.build_ledger_row(entry.ledger_state)
            ledgers.replace_ledger(state, session, row)
            with self._lock:
                if cached := self._sessions.get(session):
                    cached.ledger = (row.frozen, row.base, entry.ledger_state)
                    self._size += cached.update_size()
        calibrations = ledgers.read_calibrations(state) if entry.lessons else {}
        for lesson in entry.lessons:
            before = calibrations.get(lesson.model, Calibration(model=lesson.model))
            ledgers.write_calibration(state, update_calibration(before, lesson.counted, lesson.reported))

    def _clear_after_erasure(self, state: sqlite3.Connection) -> None:
        """Clear the cache after an erasure, which vacuums the file and so changes its schema version."""
        version = find_schema_version(state)
        if version != self._version:
            self._version, self._size = version, 0
            self._sessions.clear()
            self._on_erasure()
