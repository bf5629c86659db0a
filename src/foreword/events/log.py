"""The log: takes events without making anybody wait, and writes them in batches from a thread of its own."""

import atexit
import os
import sqlite3
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Self

from foreword.events import fork
from foreword.events.event import Event, Level
from foreword.events.retention import find_cutoff, prune
from foreword.events.row import INSERT, Report, Row, make_row
from foreword.events.tally import write_totals
from foreword.frozen import frozen
from foreword.store.open import FILE, Opened, identify, is_damage, is_passing, open_events, put_aside

LAST = 0.05  # seconds between two tries at the end
REST = 0.002  # seconds between two steps of pruning
SHARE = 0.02  # seconds of pruning while rows wait to be written
LOST = "events_lost"  # what the log tells of itself; that a file was replaced is told where it is


@frozen(eq=True)
class Bounds:
    """How much the log holds and how long it waits."""

    rows: int = 20_000
    """Rows that wait to be written; as many again for warnings and errors."""
    batch: int = 8_000
    """Rows of one transaction, so that no other process waits long."""
    gather: float = 0.1
    """Seconds in which rows come together; with the writing, a crash loses less than 200 ms of info rows."""
    acknowledge: float = 0.5
    """Seconds that a warning or an error waits at most until it is written."""
    patience: float = 2.0
    """Seconds that the writer waits for the lock of another process before it tries again."""
    pause: float = 0.5
    """Seconds between two tries on a full disk or a locked database."""
    closing: float = 5.0
    """Seconds that closing waits at most for the last rows."""
    days: int | None = None
    """Days after which rows are pruned; None keeps all of them."""
    prune: float = 3_600.0
    """Seconds between two rounds of pruning."""


USUAL = Bounds()


def read_clock() -> datetime:
    """Read the clock."""
    return datetime.now(UTC)


class Ticket:
    """What somebody waits for: everything that was recorded before it."""

    __slots__ = ("_done", "written")

    def __init__(self) -> None:
        self._done = threading.Event()
        self.written = False

    def settle(self, *, written: bool) -> None:
        """Let go whoever waits."""
        self.written = written
        self._done.set()

    @property
    def settled(self) -> bool:
        """Whether the writer has come to it."""
        return self._done.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait until the rows are in the database, or not longer than this; return whether they are."""
        return self._done.wait(seconds) and self.written


class EventLog:
    """The event log of one folder, a Recorder.

    An info row is handed over in microseconds and written within 200 ms. A warning or an error is in the database when
    `record` returns, or the wait was cut short: a full disk or a locked database never stops a turn. What could not
    be kept is counted, and a row says how much it was once rows can be written again.
    """

    lost: int
    """How many events were lost in all."""
    notice: str
    """What a person should know about the file: that a damaged one was put aside, and where it is."""

    def __init__(self, folder: str, clock: Callable[[], datetime] = read_clock, bounds: Bounds = USUAL) -> None:
        self.folder, self.bounds = folder, bounds
        self._clock = clock
        self._opened: Opened | None = None
        self.reset()
        _LOGS.add(self)
        fork.follow(self)

    def reset(self) -> None:
        """Begin without a thread and without rows, as a forked process must: they are the parent's."""
        if self._opened is not None:
            fork.leave(self._opened)
        self._queue: deque[Row | Ticket] = deque()
        self._lock = threading.Lock()
        self._wake, self._hurry, self._ending = threading.Event(), threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._opened = None
        self._file = (0, 0)
        self._damage = self.notice = ""
        self._held = 0  # rows that are out of the queue and not yet written
        self._pruning: Iterator[int] | None = None
        self._next_round = self._give_up = 0.0
        self._closed = self._stuck = False
        self._lost, self._lost_since, self._reason = 0, "", ""
        self.lost = 0

    def record(self, event: Event) -> None:
        """Take an event; a warning or an error is written when this returns, or after a short while."""
        try:
            row = make_row(event)
        except Exception as error:  # noqa: BLE001 - whatever a caller put into an event, its turn goes on
            self._lose(f"{type(error).__name__} in an event")
            self._rouse()
            return
        if event.level is Level.INFO:
            self._put(row, self.bounds.rows)
        elif self._put(row, 2 * self.bounds.rows) and not self._stuck:
            self._await(self.bounds.acknowledge)

    def flush(self, seconds: float | None = None) -> bool:
        """Wait until everything that was recorded is written; return whether it is."""
        return self._await(self.bounds.closing if seconds is None else seconds)

    def close(self) -> None:
        """Write what is left and end; what comes later is lost."""
        with self._lock:
            if self._closed:
                return
            self._give_up = time.monotonic() + self.bounds.closing
            self._closed = True
        if self._thread is not None:
            self._ending.set()
            self._hurry.set()
            self._wake.set()
            self._thread.join(self.bounds.closing + 2 * self.bounds.patience + 4 * LAST)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _put(self, row: Row, most: int) -> bool:
        """Put a row into the queue, unless it is full."""
        if self._closed or len(self._queue) + self._held >= most:
            self._lose(
                "the log is closed" if self._closed else self._reason or "they came faster than they are written"
            )
            return False
        self._queue.append(row)
        if not self._wake.is_set():
            self._rouse()
        return True

    def _rouse(self) -> None:
        """Wake the writer, and start it if need be."""
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="foreword-events", daemon=True)
                    self._thread.start()
        self._wake.set()

    def _await(self, seconds: float) -> bool:
        if self._thread is None and not self._queue:
            return True
        ticket = Ticket()
        self._queue.append(ticket)
        self._hurry.set()
        self._rouse()
        done = ticket.wait(seconds)
        if not ticket.settled:
            self._stuck = True  # nobody else waits until rows can be written again
        return done

    def _lose(self, reason: str, count: int = 1) -> None:
        with self._lock:
            if not self._lost:
                self._lost_since = self._now()
            self._lost += count
            self.lost += count
            self._reason = reason

    def _now(self) -> str:
        try:
            now = self._clock()
        except Exception:  # noqa: BLE001 - a loss is told even where the clock that was given fails
            now = read_clock()
        return now.astimezone(UTC).isoformat(timespec="microseconds")[:26] + "Z"

    def _run(self) -> None:
        """Write until closed: wake up, let a batch come together, write it; prune also while nothing is recorded."""
        while True:
            self._wake.wait(self.bounds.prune)
            if not self._closed:
                self._hurry.wait(self.bounds.gather)
            self._wake.clear()
            self._hurry.clear()
            try:
                self._write_all()
                self._tidy()
            except Exception as error:  # noqa: BLE001 - whatever happens, the next rows are written
                self._lose(f"{type(error).__name__}: {error}", self._held)
                self._held = 0
            if self._closed and not self._queue:
                break
        self._disconnect()

    def _write_all(self) -> None:
        """Write everything in the queue; what cannot be written now stays in it."""
        while self._queue or self._lost:
            batch, rows = self._take()
            try:
                whole = self._write_apart(rows)
            except Exception as error:  # noqa: BLE001 - what is left is tried again, whatever the error is
                settle(batch, written=False)
                self._hold(rows, error)
                if self._is_late():
                    settle(self._queue, written=False)
                    self.lost += sum(isinstance(one, Row) for one in self._queue)
                    self._queue.clear()
                    return
                if self._closed:
                    time.sleep(LAST)  # what ends all waiting has come already
                self._ending.wait(self.bounds.pause)
                continue
            self._stuck, self._held = False, 0
            settle(batch, written=whole)

    def _is_late(self) -> bool:
        """Whether closing has been tried for as long as it may take."""
        return self._closed and time.monotonic() > self._give_up

    def _write_apart(self, rows: list[Row]) -> bool:
        """Write rows, together or in smaller parts, and lose only those that the database does not take, if any.

        What is written or lost leaves the list, so that what is left in it can be tried again.
        """
        size, whole = len(rows), True
        while True:
            try:
                self._write(rows[:size])
            except Exception as error:
                if is_passing(error) or not size:
                    raise
                if size > 1:
                    size = (size + 1) // 2
                    continue
                self._lose(f"{type(error).__name__} in a row: {error}")
                whole = False
            del rows[:size]
            if not rows:
                return whole
            size = min(2 * size, len(rows))

    def _tidy(self) -> None:
        """Prune while there is nothing to write, and for a moment even if there is."""
        begin = time.monotonic()
        if self.bounds.days is None or self._opened is None or begin < self._next_round:
            return
        try:
            if self._pruning is None:
                self._pruning = prune(self._opened.connection, find_cutoff(self._clock(), self.bounds.days))
            for _ in self._pruning:
                # Between two steps whoever waits for the lock can have it.
                if self._wake.wait(REST) and (self._closed or time.monotonic() - begin > SHARE):
                    return
        except Exception:  # noqa: BLE001, S110 - it is tried again in the next round
            pass
        self._pruning = None
        self._next_round = time.monotonic() + self.bounds.prune

    def _take(self) -> tuple[list[Row | Ticket], list[Row]]:
        """Take a batch from the front; the queue is only ever shortened here."""
        count = self._held = min(len(self._queue), self.bounds.batch)
        batch = [self._queue.popleft() for _ in range(count)]
        return batch, [one for one in batch if isinstance(one, Row)]

    def _hold(self, rows: list[Row], error: Exception) -> None:
        """Keep rows for the next try."""
        self._stuck = True
        self._reason = str(error)
        self._queue.extendleft(reversed(rows))
        self._held = 0
        self._disconnect()
        if isinstance(error, sqlite3.Error) and is_damage(error):
            self._damage = str(error)

    def _disconnect(self) -> None:
        opened, self._opened, self._pruning = self._opened, None, None
        if opened is not None:
            with suppress(sqlite3.Error):
                opened.connection.close()

    def _write(self, rows: list[Row]) -> None:
        """Write rows, their sums, and what was lost before them, in one transaction."""
        connection = self._connect()
        with self._lock:
            lost, since, reason = self._lost, self._lost_since, self._reason
        told = [*rows, *self._report(lost, since, reason)]
        # What somebody was told is written also survives the loss of power.
        durable = any(row.values[1] != "info" for row in told)
        connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.executemany(INSERT, [row.values for row in told])
            write_totals(connection, rows)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # a disk that is full has ended it already
                connection.execute("ROLLBACK")
            raise
        with self._lock:
            self._lost -= lost
            self._reason = "" if not self._lost else self._reason

    def _report(self, lost: int, since: str, reason: str) -> Iterable[Row]:
        if lost:
            facts = {"lost": lost, "since": since}
            events = "1 event was" if lost == 1 else f"{lost:,} events were"
            yield Report(self._now(), "warn", LOST, f"{events} lost: {reason}", facts).to_row()

    def _connect(self) -> sqlite3.Connection:
        """Open the file, or open it again where it was damaged or another process has put it aside."""
        path = os.path.join(self.folder, FILE)
        if self._opened is not None:
            if self._file == identify(path):
                return self._opened.connection
            self._disconnect()
        note = put_aside(path, self._file, self._damage) if self._damage else ""
        self._damage = ""
        opened = open_events(self.folder, self.bounds.patience)
        self._opened, self._file = opened, identify(path)
        self.notice = opened.note or note or self.notice
        return opened.connection


def settle(batch: Iterable[Row | Ticket], *, written: bool) -> None:
    """Tell everybody who waits for something in a batch."""
    for one in batch:
        if isinstance(one, Ticket):
            one.settle(written=written)


_LOGS: "weakref.WeakSet[EventLog]" = weakref.WeakSet()


@atexit.register
def close_all() -> None:
    """Close every log that is still open when the interpreter ends."""
    for log in list(_LOGS):
        log.close()
