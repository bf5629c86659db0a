"""The event log: queues events and prompts without blocking, writes them from its own thread, and prunes old ones."""

import atexit
import os
import sqlite3
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Self

from foreword.events.event import Event, Level, format_timestamp, read_utc_now
from foreword.events.record import INSERT_EVENT, TOTALS_TABLES, EventRow, make_row, make_warning_row, write_totals
from foreword.storage import database
from foreword.types import frozen

PRUNE_BATCH_ROWS = 500  # rows per transaction, a few milliseconds
PRUNE_BATCH_PROMPTS = 50  # prompts per transaction


def find_cutoff(now: datetime, days: int) -> datetime:
    """Return the time before which rows are deleted: the start of a UTC day, so that days stay complete."""
    oldest = now.astimezone(UTC) - timedelta(days=max(0, days))
    return oldest.replace(hour=0, minute=0, second=0, microsecond=0)


def prune_log(connection: sqlite3.Connection, before: datetime, last: int | None = None) -> Iterator[int]:
    """Delete rows and their totals in steps of one transaction. Yield the rows deleted by each step.

    With `last`, rows with a higher id remain, such as those written after an export.
    """
    moment = format_timestamp(before)
    old = "SELECT id FROM events INDEXED BY idx_events_time WHERE timestamp < ? AND (? OR id <= ?)"
    query = f"DELETE FROM events WHERE id IN ({old} ORDER BY timestamp LIMIT {PRUNE_BATCH_ROWS})"
    taken = PRUNE_BATCH_ROWS
    while taken == PRUNE_BATCH_ROWS:
        taken = connection.execute(query, (moment, last is None, last)).rowcount
        yield taken
    for table in TOTALS_TABLES:
        connection.execute(f"DELETE FROM {table} WHERE start < ?", [moment[:10]])
        yield 0
    while prune_prompts(connection, before):
        yield 0


def prune_prompts(connection: sqlite3.Connection, before: datetime) -> int:
    """Delete a batch of prompts last used before a time, and texts that no other prompt uses. Return how many."""
    with database.writing(connection):
        old = connection.execute(
            "SELECT id FROM prompts WHERE last_used < ? ORDER BY last_used LIMIT ?",
            (format_timestamp(before), PRUNE_BATCH_PROMPTS),
        ).fetchall()
        for prompt in old:
            texts = set(connection.execute("SELECT section_id FROM prompt_pieces WHERE prompt_id = ?", prompt))
            connection.execute("DELETE FROM prompt_pieces WHERE prompt_id = ?", prompt)
            connection.execute("DELETE FROM prompts WHERE id = ?", prompt)
            connection.executemany(
                "DELETE FROM sections WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM prompt_pieces WHERE section_id = ?1)",
                texts,
            )
    return len(old)


MAX_BATCH_ROWS = 8_000  # rows in one transaction, so that other processes do not wait long
MAX_QUEUED_PROMPTS = 1_000  # queued rows and prompts after which further prompts are lost
CLOSE_RETRY_S = 0.05  # seconds between attempts while closing
PRUNE_PAUSE_S = 0.002  # seconds between two pruning steps
PRUNE_BUSY_S = 0.02  # seconds of pruning while rows are waiting
LOST_EVENTS_TYPE = "events_lost"  # the log's own event type for losses


@frozen(eq=True)
class LogLimits:
    """Limits of the log: queue sizes and waiting times in seconds."""

    rows: int = 20_000  # in the queue; warnings and errors may use twice as many
    batch_s: float = 0.1  # to collect a batch; including the write, a crash loses less than 200 ms of info rows
    write_timeout_s: float = 0.5  # that `record` waits until a warning or an error is written
    lock_timeout_s: float = 2.0  # that the writer waits for another process's lock before it retries
    retry_delay_s: float = 0.5  # between attempts on a full disk or a locked database
    close_timeout_s: float = 5.0  # that closing waits for the last rows
    days: int | None = None  # after which rows are pruned; None disables pruning
    prune_interval_s: float = 3_600.0  # between two pruning runs


DEFAULT_LOG_LIMITS = LogLimits()
QueuedPrompt = Callable[[sqlite3.Connection], None]
"""Stores a prompt. The caller holds the transaction."""
FlushMarker = Future[bool]
"""A marker in the queue. Its result is whether all earlier rows are written."""


class EventLog:
    """The event log of one folder, a Recorder.

    An info row is written within 200 ms. A warning or an error is in the database when `record` returns, unless the
    wait times out: a full disk or a locked database never blocks a turn. A later row has the number of lost events.
    """

    def __init__(
        self, folder: str, clock: Callable[[], datetime] = read_utc_now, limits: LogLimits = DEFAULT_LOG_LIMITS
    ) -> None:
        self.folder, self.limits, self._clock = folder, limits, clock
        self.lost = 0
        """Total number of lost events and prompts."""
        self.notice = ""
        """A message for people about the file, such as where a damaged one was moved."""
        self._lost: Counter[str] = Counter()  # losses to report, by `event` or `prompt`
        self._lost_since, self._reason = read_utc_now(), ""
        self._queue: deque[EventRow | QueuedPrompt | FlushMarker] = deque()
        self._taken = 0  # rows taken from the queue but not yet written
        self._lock = threading.Lock()
        self._wake, self._flush, self._ending = threading.Event(), threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._closed = self._stuck = False
        self._deadline = 0.0  # of closing
        self._opened: database.OpenDatabase | None = None
        self._file, self._damage = (0, 0), ""
        self._pruning: Iterator[int] | None = None
        self._next_pruning = 0.0
        _LOGS.add(self)

    def record(self, event: Event) -> None:
        """Record an event. Wait a limited time until a warning or an error is written."""
        try:
            row = make_row(event)
        except Exception as error:  # noqa: BLE001 - an invalid event must not end a turn
            self._lose(f"{type(error).__name__} in an event")
            self._start()
            return
        if event.level is Level.INFO:
            self._put(row, self.limits.rows)
        elif self._put(row, 2 * self.limits.rows) and not self._stuck:
            self.flush(self.limits.write_timeout_s)

    def record_prompt(self, prompt: QueuedPrompt) -> None:
        """Store a prompt with the next rows."""
        self._put(prompt, MAX_QUEUED_PROMPTS)

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until everything recorded is written. Return whether it is."""
        if self._thread is None and not self._queue:
            return True
        marker = FlushMarker()
        self._queue.append(marker)
        self._flush.set()
        self._start()
        try:
            return marker.result(self.limits.close_timeout_s if timeout_s is None else timeout_s)
        except TimeoutError:
            self._stuck = True  # other callers do not wait until rows can be written again
            return False

    def close(self) -> None:
        """Write the remaining rows and stop. Later events are lost."""
        with self._lock:
            if self._closed:
                return
            self._deadline = time.monotonic() + self.limits.close_timeout_s
            self._closed = True
        if self._thread is not None:
            for event in (self._ending, self._flush, self._wake):
                event.set()
            self._thread.join(self.limits.close_timeout_s + 2 * self.limits.lock_timeout_s + 4 * CLOSE_RETRY_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _put(self, item: EventRow | QueuedPrompt, limit: int) -> bool:
        """Append an item to the queue unless it is full."""
        if self._closed or len(self._queue) + self._taken >= limit:
            full = self._reason or "they arrived faster than they could be written"
            self._lose("the log is closed" if self._closed else full, kind=name_kind(item))
            return False
        self._queue.append(item)
        if not self._wake.is_set():
            self._start()
        return True

    def _start(self) -> None:
        """Wake the writer thread and start it if necessary."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="foreword-events", daemon=True)
                self._thread.start()
        self._wake.set()

    def _lose(self, reason: str, count: int = 1, kind: str = "event") -> None:
        with self._lock:
            if not self._lost:
                self._lost_since = self._clock()
            self._lost[kind] += count
            self.lost += count
            self._reason = reason

    def _run(self) -> None:
        """Write batches until closed, and prune even while no events are recorded."""
        while True:
            self._wake.wait(self.limits.prune_interval_s)
            if not self._closed:
                self._flush.wait(self.limits.batch_s)
            self._wake.clear()
            self._flush.clear()
            try:
                self._write_all()
                self._prune()
            except Exception as error:  # noqa: BLE001 - the writer must survive any error
                self._lose(f"{type(error).__name__}: {error}", self._taken)
                self._taken = 0
            if self._closed and not self._queue:
                break
        self._disconnect()

    def _write_all(self) -> None:
        """Write all queued rows. Rows that cannot be written now stay in the queue."""
        while self._queue or self._lost:
            count = self._taken = min(len(self._queue), MAX_BATCH_ROWS)
            batch = [self._queue.popleft() for _ in range(count)]
            items = [item for item in batch if not isinstance(item, Future)]
            try:
                complete = self._write_parts(items)
            except Exception as error:  # noqa: BLE001 - the remaining rows are retried after any error
                release_waiters(batch, written=False)
                self._queue.extendleft(reversed(items))
                self._stuck, self._taken, self._reason = True, 0, str(error)
                self._disconnect()
                if isinstance(error, sqlite3.Error) and database.is_damage(error):
                    self._damage = str(error)
                if self._closed and time.monotonic() > self._deadline:
                    release_waiters(self._queue, written=False)
                    self.lost += sum(not isinstance(item, Future) for item in self._queue)
                    self._queue.clear()
                    return
                if self._closed:
                    time.sleep(CLOSE_RETRY_S)  # `_ending` is already set, so the wait below returns at once
                self._ending.wait(self.limits.retry_delay_s)
                continue
            self._stuck, self._taken = False, 0
            release_waiters(batch, written=complete)

    def _write_parts(self, items: list[EventRow | QueuedPrompt]) -> bool:
        """Write items together, or else one by one without those that the database rejects. Return whether all were.

        Written and dropped items are removed from the list, so the remaining ones can be retried.
        """
        complete, size = True, len(items)
        while True:
            try:
                self._write(items[:size])
            except Exception as error:
                if database.is_file_error(error) or not size:
                    raise
                if size > 1:
                    size = 1
                    continue
                kind = name_kind(items[0])
                self._lose(f"{type(error).__name__} in a {'row' if kind == 'event' else kind}: {error}", kind=kind)
                complete = False
            del items[:size]
            if not items:
                return complete

    def _write(self, items: list[EventRow | QueuedPrompt]) -> None:
        """Write rows, their totals, prompts and the number of losses in one transaction."""
        connection = self._connect()
        with self._lock:
            lost, since, reason = self._lost.copy(), self._lost_since, self._reason
        rows = [item for item in items if isinstance(item, EventRow)]
        written = [*rows, *self._report_losses(lost, since, reason)]
        # Rows that `record` has confirmed must survive a power failure.
        durable = any(row.values[1] != "info" for row in written)
        connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
        with database.writing(connection):
            for item in items:
                if not isinstance(item, EventRow):
                    item(connection)
            connection.executemany(INSERT_EVENT, [row.values for row in written])
            write_totals(connection, rows)
        with self._lock:
            self._lost -= lost
            self._reason = self._reason if self._lost else ""

    def _report_losses(self, losses: Counter[str], since: datetime, reason: str) -> Iterable[EventRow]:
        for kind, lost in losses.items():
            facts = {"lost" if kind == "event" else "lost_prompts": lost, "since": format_timestamp(since)}
            number = f"1 {kind} was" if lost == 1 else f"{lost:,} {kind}s were"
            yield make_warning_row(self._clock(), LOST_EVENTS_TYPE, f"{number} lost: {reason}", facts)

    def _prune(self) -> None:
        """Prune while the queue is empty, and briefly even if it is not."""
        begin = time.monotonic()
        if self.limits.days is None or self._opened is None or begin < self._next_pruning:
            return
        with suppress(Exception):  # retried in the next run
            if self._pruning is None:
                self._pruning = prune_log(self._opened.connection, find_cutoff(self._clock(), self.limits.days))
            for _ in self._pruning:
                # Between two steps other connections can take the lock.
                if self._wake.wait(PRUNE_PAUSE_S) and (self._closed or time.monotonic() - begin > PRUNE_BUSY_S):
                    return
        self._pruning = None
        self._next_pruning = time.monotonic() + self.limits.prune_interval_s

    def _connect(self) -> sqlite3.Connection:
        """Open the file, or reopen it if it is damaged or another process has replaced it."""
        path = os.path.join(self.folder, database.EVENTS_FILE)
        if self._opened is not None:
            if self._file == database.identify_file(path):
                return self._opened.connection
            self._disconnect()
        note = database.move_damaged_aside(path, self._file, self._damage) if self._damage else ""
        self._damage = ""
        self._opened = database.open_events(self.folder, self.limits.lock_timeout_s)
        self._file = database.identify_file(path)
        self.notice = self._opened.note or note or self.notice
        return self._opened.connection

    def _disconnect(self) -> None:
        opened, self._opened, self._pruning = self._opened, None, None
        if opened is not None:
            with suppress(sqlite3.Error):
                opened.connection.close()


def name_kind(item: EventRow | QueuedPrompt) -> str:
    """Return what a queued item is: an event or a prompt."""
    return "event" if isinstance(item, EventRow) else "prompt"


def release_waiters(batch: Iterable[object], *, written: bool) -> None:
    """Release all waiters in a batch."""
    for item in batch:
        if isinstance(item, Future):
            item.set_result(written)


_LOGS: "weakref.WeakSet[EventLog]" = weakref.WeakSet()


@atexit.register
def close_all_logs() -> None:
    """Close all open logs when the interpreter exits."""
    for log in list(_LOGS):
        log.close()
