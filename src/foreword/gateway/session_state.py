"""Session ledgers: read before a turn, and stored with each of its steps, so that history and ledger agree.

Session state for a turn (tasks, workflow, bulletins, writing style), and learning from its message. Cache of session
histories and ledgers, so that a turn only parses new rows.
"""

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime

from foreword.agent.conversation import Messages, convert_to_texts
from foreword.agent.providers.model_clients import EMBEDDED_PREFIX
from foreword.events.event import Reader, sees_all
from foreword.gateway.history import HistoryRow, KnownRows, load_history_rows
from foreword.promptcache.decision import CacheContext, SessionLedger
from foreword.promptcache.ledger import LedgerState, clear_ledger, mark_lost
from foreword.promptcache.rules import NO_CALIBRATION, Calibration, update_calibration
from foreword.storage import ledgers
from foreword.storage.profiles import read_bulletins, read_profile
from foreword.storage.sessions import Lane, Session, is_own
from foreword.storage.tasks import find_workflow, read_tasks
from foreword.tokens.prices import PricedRequest, find_prices
from foreword.turn import Communication, State, Turn
from foreword.types import EditPolicy, Trust, frozen
from foreword.workspace import Workspace


@frozen
class StoredLedger:
    """The stored ledger of a session, as read before a turn."""

    frozen: LedgerState | None = None
    edits: Mapping[tuple[str, str], EditPolicy] = field(default_factory=dict)
    calibrations: Mapping[str, Calibration] = field(default_factory=dict)
    """Token calibration of each model."""
    damaged: bool = False
    """Whether the stored ledger cannot be read, so that the sent prefix is unknown."""

    def follow(self, since: datetime | None) -> "StoredLedger":
        """Mark the prefix as lost if it was sent before the engine's start time."""
        known = self.frozen
        return replace(self, frozen=mark_lost(known)) if known and since and known.last.at < since else self

    def reveal(self, reader: Reader) -> "StoredLedger":
        """Leave out the calibrations, which depend on other people's calls, unless the reader sees everything."""
        return self if sees_all(reader) else replace(self, calibrations={})

    def open(
        self, workspace: Workspace, turn: Turn, now: datetime, *, folded: bool = False, taken: Messages = ()
    ) -> SessionLedger:
        """Open the ledger for a turn."""
        config = workspace.config
        model = turn.model or config.agents[turn.agent or next(iter(config.agents))].model
        facts = workspace.ground.measure(model).facts
        known = self.calibrations.get(facts.name, NO_CALIBRATION)
        tokens = known.correct(self.frozen.last.tokens) if self.frozen else 0
        prices = find_prices(facts.name, config.models, PricedRequest(tokens=tokens, now=now))
        moment = CacheContext(now=now, facts=facts.cache, prices=prices, known=known)
        said = tuple(message.text for message in convert_to_texts(taken))
        return SessionLedger(
            frozen=self.frozen, moment=moment, edits=self.edits, folded=folded, taken=said, damaged=self.damaged
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

    frozen: LedgerState | None
    """What the session has sent so far; None resets the ledger."""
    lessons: tuple[TokenLesson, ...] = ()
    anew: bool = False
    """Whether the turn began with an empty ledger."""


def ignore_ledger(_session: str, _row: ledgers.LedgerRow, _frozen: LedgerState) -> None:
    """Ignore the stored ledger."""


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
        frozen=known,
        edits=ledgers.read_edits(state),
        calibrations=ledgers.read_calibrations(state),
        damaged=known is None and ledgers.has_ledger(state, session),
    )


def store_ledger_entry(
    state: sqlite3.Connection,
    session: str,
    entry: LedgerEntry,
    keep: Callable[[str, ledgers.LedgerRow, LedgerState], None] = ignore_ledger,
) -> None:
    """Store the ledger of a session and its calibration, and pass the ledger to `keep` for caching."""
    if entry.frozen is None:
        ledgers.drop_ledger(state, session)
    elif not entry.anew and ledgers.is_ledger_empty(state, session):
        # Text erased while the turn ran is still in the turn's own ledger and must not be stored again.
        ledgers.remove_update_texts(state, session, [update.said for update in entry.frozen.updates])
        ledgers.replace_ledger(state, session, ledgers.build_ledger_row(clear_ledger(entry.frozen)))
    else:
        row = ledgers.build_ledger_row(entry.frozen)
        ledgers.replace_ledger(state, session, row)
        keep(session, row, entry.frozen)
    known = ledgers.read_calibrations(state) if entry.lessons else {}
    for lesson in entry.lessons:
        learned = known.get(lesson.model, Calibration(model=lesson.model))
        ledgers.write_calibration(state, update_calibration(learned, lesson.counted, lesson.reported))


def read_session_state(state: sqlite3.Connection, session: Session, policy: str) -> State:
    """Read the state of a session that its clearance may see under the current memory policy."""
    lane = session.lane
    known = lane.clearance > Trust.PUBLIC
    return State(
        workflow=find_workflow(state, session.id),
        tasks=read_tasks(state, session.id),
        communication=find_writing_style(state, lane),
        bulletins=read_bulletins(state, lane.agent, lane.clearance, policy) if known else (),
    )


def find_writing_style(state: sqlite3.Connection, lane: Lane) -> Communication | None:
    """Find the writing style of the person of a session key; None in company."""
    return read_profile(state, lane.user, lane.clearance) if is_own(lane) else None


MAX_CACHE_BYTES = 32_000_000  # stored bytes of rows and ledgers; the parsed values take several times as much


def clear_nothing() -> None:
    """Do nothing."""


class CachedSession:
    """The cached data of one session."""

    __slots__ = ("ledger", "rows", "size")

    def __init__(self) -> None:
        self.rows: KnownRows = {}
        self.size = 0
        self.ledger: tuple[str, str, LedgerState] | None = None
        """The stored ledger row, the name of its prefix, and the parsed ledger."""

    def weigh(self) -> int:
        """Compute the size again; return the difference."""
        before, self.size = self.size, sum([len(found[2]) for found, _ in self.rows.values()])
        if self.ledger:
            row, _, frozen = self.ledger
            self.size += len(row) + len(frozen.base.text)
        return self.size - before


class SessionCache:
    """An LRU cache of sessions.

    `forget` is called after an erasure, so that other caches are cleared as well.
    """

    def __init__(self, largest: int = MAX_CACHE_BYTES, forget: Callable[[], None] = clear_nothing) -> None:
        self._largest = largest
        self._forget = forget
        self._sessions: OrderedDict[str, CachedSession] = OrderedDict()
        self._size = 0
        self._version = 0
        self._lock = threading.Lock()  # the writer thread also reads

    def read(self, state: sqlite3.Connection, session: str) -> Sequence[HistoryRow]:
        """Read the active history of a session."""
        with self._lock:
            self._look(state)
            going = self._sessions.setdefault(session, CachedSession())
            self._sessions.move_to_end(session)
            going.rows = load_history_rows(state, session, going.rows)
            self._size += going.weigh()
            while self._size > self._largest:
                self._size -= self._sessions.popitem(last=False)[1].size
            return [row for _, row in going.rows.values()]

    def read_ledger(self, state: sqlite3.Connection, session: str) -> LedgerState | None:
        """Read the ledger of a session."""
        row = ledgers.find_ledger(state, session)
        with self._lock:
            self._look(state)
            going = self._sessions.get(session)
            if row and going and going.ledger and going.ledger[:2] == (row.frozen, row.base):
                return going.ledger[2]
        return ledgers.parse_ledger_row(row)

    def cache_ledger(self, session: str, row: ledgers.LedgerRow, frozen: LedgerState) -> None:
        """Cache a ledger that is about to be stored; if that fails, its row will not match."""
        with self._lock:
            if going := self._sessions.get(session):
                going.ledger = (row.frozen, row.base, frozen)
                self._size += going.weigh()

    def _look(self, state: sqlite3.Connection) -> None:
        """Clear the cache after an erasure, which vacuums the file and so changes its schema version."""
        (version,) = state.execute("PRAGMA schema_version").fetchone()
        if version != self._version:
            self._version, self._size = version, 0
            self._sessions.clear()
            self._forget()
