"""The event log: accepts events and prompts without blocking and writes them in batches from its own thread.

Fork handling: a forked process resets threads, locks and connections inherited from its parent. Retention: deletes old
rows in small steps, so that no writer waits long.
"""

import atexit
import os
import sqlite3
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Protocol, Self

from foreword.events.event import Event, Level
from foreword.events.period import format_timestamp
from foreword.events.record import INSERT_EVENT, EventRow, LogReport, make_row
from foreword.events.totals import write_totals
from foreword.storage.database import (
    EVENTS_FILE,
    OpenDatabase,
    identify_file,
    is_damage,
    is_file_error,
    move_damaged_aside,
    open_events,
    writing,
)
from foreword.types import frozen


class ForkAware(Protocol):
    """An object to reset in a forked process."""

    def reset(self) -> None:
        """Drop everything that belongs to the parent process."""


_ALL: "weakref.WeakSet[ForkAware]" = weakref.WeakSet()
_INHERITED: list[object] = []


def reset_after_fork(one: ForkAware) -> None:
    """Reset an object in every process forked from this one."""
    _ALL.add(one)


def retain_inherited(connection: object) -> None:
    """Keep a reference to a parent's connection. Closing it here would affect the parent's file."""
    _INHERITED.append(connection)


def reset_all_forked() -> None:
    """Reset all registered objects in a forked process."""
    for one in list(_ALL):
        one.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=reset_all_forked)


PRUNE_BATCH_ROWS = 500  # rows per transaction, a few milliseconds
PRUNE_BATCH_PROMPTS = 50  # prompts per transaction
TOTALS_KEY_COLUMNS = "kind, owner, room, start, name, trust"
TOTALS_TABLES = ("totals_quarter", "totals_day")


def find_cutoff(now: datetime, days: int) -> datetime:
    """Return the time before which rows are deleted: the start of a UTC day, so that days stay complete."""
    oldest = now.astimezone(UTC) - timedelta(days=max(0, days))
    return oldest.replace(hour=0, minute=0, second=0, microsecond=0)


def prune_log(connection: sqlite3.Connection, before: datetime, last: int | None = None) -> Iterator[int]:
    """Delete rows and their totals in steps of one transaction. Yield the rows deleted by each step.

    With `last`, rows with a higher id remain, such as those written after an export.
    """
    moment = format_timestamp(before)
    bound = "" if last is None else "AND id <= ?"
    values = [moment] if last is None else [moment, last]
    taken = PRUNE_BATCH_ROWS
    while taken == PRUNE_BATCH_ROWS:
        taken = connection.execute(
            "DELETE FROM events WHERE id IN (SELECT id FROM events INDEXED BY idx_events_time "
            f"WHERE timestamp < ? {bound} ORDER BY timestamp LIMIT {PRUNE_BATCH_ROWS})",
            values,
        ).rowcount
        yield taken
    for table in TOTALS_TABLES:
        yield from _prune_sums(connection, table, moment[:10])
    while prune_prompts(connection, before):
        yield 0


def _prune_sums(connection: sqlite3.Connection, table: str, before: str) -> Iterator[int]:
    """Delete the totals of deleted days, owner by owner: the key starts with the owner, not the time."""
    place: tuple[str, str, str] | None = ("", "", "")
    while place is not None:
        place = connection.execute(
            f"SELECT kind, owner, room FROM {table} WHERE (kind, owner, room) > (?, ?, ?) "
            "ORDER BY kind, owner, room LIMIT 1",
            place,
        ).fetchone()
        if place is None:
            return
        while _find_old(connection, table, place, before):
            connection.execute(
                f"DELETE FROM {table} WHERE ({TOTALS_KEY_COLUMNS}) IN (SELECT {TOTALS_KEY_COLUMNS} FROM {table} "
                f"WHERE kind = ? AND owner = ? AND room = ? AND start < ? LIMIT {PRUNE_BATCH_ROWS})",
                [*place, before],
            )
            yield 0


def _find_old(connection: sqlite3.Connection, table: str, place: tuple[str, str, str], before: str) -> bool:
    query = f"SELECT 1 FROM {table} WHERE kind = ? AND owner = ? AND room = ? AND start < ? LIMIT 1"
    return connection.execute(query, [*place, before]).fetchone() is not None


def prune_prompts(connection: sqlite3.Connection, before: datetime) -> int:
    """Delete a batch of prompts last used before a time, and texts that no other prompt uses.

    Return how many. Each call is one short transaction; call it until it returns 0.
    """
    with writing(connection):
        old = connection.execute(
            "SELECT id FROM prompts WHERE last_used < ? ORDER BY last_used LIMIT ?",
            (format_timestamp(before), PRUNE_BATCH_PROMPTS),
        ).fetchall()
        for (prompt,) in old:
            texts = connection.execute(
                "SELECT DISTINCT section_id FROM prompt_pieces WHERE prompt_id = ?", (prompt,)
            ).fetchall()
            connection.execute("DELETE FROM prompt_pieces WHERE prompt_id = ?", (prompt,))
            connection.execute("DELETE FROM prompts WHERE id = ?", (prompt,))
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
LOST_EVENTS_TYPE = (
    "events_lost"  # the log's own event type for losses; `log_replaced` is written by the code that replaces a file
)


@frozen(eq=True)
class LogLimits:
    """Limits of the log: queue sizes and waiting times."""

    rows: int = 20_000
    """Maximum number of queued rows. Warnings and errors may use twice as many."""
    gather: float = 0.1
    """Seconds to collect a batch. Including the write, a crash loses less than 200 ms of info rows."""
    write_timeout_s: float = 0.5
    """Maximum seconds that `record` waits until a warning or an error is written."""
    patience: float = 2.0
    """Seconds that the writer waits for another process's lock before it retries."""
    pause: float = 0.5
    """Seconds between attempts on a full disk or a locked database."""
    closing: float = 5.0
    """Maximum seconds that closing waits for the last rows."""
    days: int | None = None
    """Days after which rows are pruned. None disables pruning."""
    prune: float = 3_600.0
    """Seconds between two pruning runs."""


DEFAULT_LOG_LIMITS = LogLimits()


def read_utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


QueuedPrompt = Callable[[sqlite3.Connection], None]
"""Stores a prompt. The caller holds the transaction."""


class FlushMarker:
    """A marker in the queue: its waiter is released once all earlier rows are written."""

    __slots__ = ("_done", "written")

    def __init__(self) -> None:
        self._done = threading.Event()
        self.written = False

    def settle(self, *, written: bool) -> None:
        """Release the waiter."""
        self.written = written
        self._done.set()

    @property
    def settled(self) -> bool:
        """Whether the writer has reached this marker."""
        return self._done.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds` for the rows. Return whether they are in the database."""
        return self._done.wait(seconds) and self.written


class EventLog:
    """The event log of one folder, a Recorder.

    An info row is queued in microseconds and written within 200 ms. A warning or an error is in the database when
    `record` returns, unless the wait times out: a full disk or a locked database never blocks a turn. Lost events are
    counted, and a row reports the number once rows can be written again. Prompts are queued and counted like info rows.
    """

    lost: int
    """Total number of lost events and prompts."""
    notice: str
    """A message for people about the file, such as where a damaged one was moved."""

    def __init__(
        self, folder: str, clock: Callable[[], datetime] = read_utc_now, bounds: LogLimits = DEFAULT_LOG_LIMITS
    ) -> None:
        self.folder, self.bounds = folder, bounds
        self._clock = clock
        self._opened: OpenDatabase | None = None
        self.reset()
        _LOGS.add(self)
        reset_after_fork(self)

    def reset(self) -> None:
        """Start without thread and rows. A forked process must not use its parent's."""
        if self._opened is not None:
            retain_inherited(self._opened)
        self._queue: deque[EventRow | QueuedPrompt | FlushMarker] = deque()
        self._lock = threading.Lock()
        self._wake, self._hurry, self._ending = threading.Event(), threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._opened = None
        self._file = (0, 0)
        self._damage = self.notice = ""
        self._held = 0  # rows taken from the queue but not yet written
        self._pruning: Iterator[int] | None = None
        self._next_round = self._give_up = 0.0
        self._closed = self._stuck = False
        self._lost: Counter[str] = Counter()  # losses to report, by `event` or `prompt`
        self._lost_since = self._reason = ""
        self.lost = 0

    def record(self, event: Event) -> None:
        """Record an event. Wait a limited time until a warning or an error is written."""
        try:
            row = make_row(event)
        except Exception as error:  # noqa: BLE001 - an invalid event must not end a turn
            self._lose(f"{type(error).__name__} in an event")
            self._rouse()
            return
        if event.level is Level.INFO:
            self._put(row, self.bounds.rows)
        elif self._put(row, 2 * self.bounds.rows) and not self._stuck:
            self._await(self.bounds.write_timeout_s)

    def record_prompt(self, prompt: QueuedPrompt) -> None:
        """Store a prompt with the next rows."""
        self._put(prompt, MAX_QUEUED_PROMPTS)

    def flush(self, seconds: float | None = None) -> bool:
        """Wait until everything recorded is written. Return whether they are."""
        return self._await(self.bounds.closing if seconds is None else seconds)

    def close(self) -> None:
        """Write the remaining rows and stop. Later events are lost."""
        with self._lock:
            if self._closed:
                return
            self._give_up = time.monotonic() + self.bounds.closing
            self._closed = True
        if self._thread is not None:
            self._ending.set()
            self._hurry.set()
            self._wake.set()
            self._thread.join(self.bounds.closing + 2 * self.bounds.patience + 4 * CLOSE_RETRY_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _put(self, row: EventRow | QueuedPrompt, most: int) -> bool:
        """Append a row to the queue unless it is full."""
        if self._closed or len(self._queue) + self._held >= most:
            full = self._reason or "they arrived faster than they could be written"
            self._lose("the log is closed" if self._closed else full, kind=find_kind(row))
            return False
        self._queue.append(row)
        if not self._wake.is_set():
            self._rouse()
        return True

    def _rouse(self) -> None:
        """Wake the writer thread and start it if necessary."""
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="foreword-events", daemon=True)
                    self._thread.start()
        self._wake.set()

    def _await(self, seconds: float) -> bool:
        if self._thread is None and not self._queue:
            return True
        ticket = FlushMarker()
        self._queue.append(ticket)
        self._hurry.set()
        self._rouse()
        done = ticket.wait(seconds)
        if not ticket.settled:
            self._stuck = True  # other callers do not wait until rows can be written again
        return done

    def _lose(self, reason: str, count: int = 1, kind: str = "event") -> None:
        with self._lock:
            if not self._lost:
                self._lost_since = self._now()
            self._lost[kind] += count
            self.lost += count
            self._reason = reason

    def _now(self) -> str:
        try:
            now = self._clock()
        except Exception:  # noqa: BLE001 - a loss is recorded even if the given clock fails
            now = read_utc_now()
        return format_timestamp(now)

    def _run(self) -> None:
        """Write batches until closed, and prune even while no events are recorded."""
        while True:
            self._wake.wait(self.bounds.prune)
            if not self._closed:
                self._hurry.wait(self.bounds.gather)
            self._wake.clear()
            self._hurry.clear()
            try:
                self._write_all()
                self._tidy()
            except Exception as error:  # noqa: BLE001 - the writer must survive any error
                self._lose(f"{type(error).__name__}: {error}", self._held)
                self._held = 0
            if self._closed and not self._queue:
                break
        self._disconnect()

    def _write_all(self) -> None:
        """Write all queued rows. Rows that cannot be written now stay in the queue."""
        while self._queue or self._lost:
            batch, rows = self._take()
            try:
                whole = self._write_apart(rows)
            except Exception as error:  # noqa: BLE001 - the remaining rows are retried after any error
                release_waiters(batch, written=False)
                self._hold(rows, error)
                if self._is_late():
                    release_waiters(self._queue, written=False)
                    self.lost += sum(not isinstance(one, FlushMarker) for one in self._queue)
                    self._queue.clear()
                    return
                if self._closed:
                    time.sleep(CLOSE_RETRY_S)  # `_ending` is already set, so the wait below returns at once
                self._ending.wait(self.bounds.pause)
                continue
            self._stuck, self._held = False, 0
            release_waiters(batch, written=whole)

    def _is_late(self) -> bool:
        """Return whether the time for closing has passed."""
        return self._closed and time.monotonic() > self._give_up

    def _write_apart(self, rows: list[EventRow | QueuedPrompt]) -> bool:
        """Write rows in one or several parts and drop only rows that the database rejects.

        Written and dropped rows are removed from the list, so the remaining ones can be retried.
        """
        size, whole = len(rows), True
        while True:
            try:
                self._write(rows[:size])
            except Exception as error:
                if is_file_error(error) or not size:
                    raise
                if size > 1:
                    size = (size + 1) // 2
                    continue
                kind = find_kind(rows[0])
                self._lose(f"{type(error).__name__} in a {'row' if kind == 'event' else kind}: {error}", kind=kind)
                whole = False
            del rows[:size]
            if not rows:
                return whole
            size = min(2 * size, len(rows))

    def _tidy(self) -> None:
        """Prune while the queue is empty, and briefly even if it is not."""
        begin = time.monotonic()
        if self.bounds.days is None or self._opened is None or begin < self._next_round:
            return
        try:
            if self._pruning is None:
                self._pruning = prune_log(self._opened.connection, find_cutoff(self._clock(), self.bounds.days))
            for _ in self._pruning:
                # Between two steps other connections can take the lock.
                if self._wake.wait(PRUNE_PAUSE_S) and (self._closed or time.monotonic() - begin > PRUNE_BUSY_S):
                    return
        except Exception:  # noqa: BLE001, S110 - retried in the next run
            pass
        self._pruning = None
        self._next_round = time.monotonic() + self.bounds.prune

    def _take(self) -> tuple[list[EventRow | QueuedPrompt | FlushMarker], list[EventRow | QueuedPrompt]]:
        """Take a batch from the front of the queue. Only this method removes rows."""
        count = self._held = min(len(self._queue), MAX_BATCH_ROWS)
        batch = [self._queue.popleft() for _ in range(count)]
        return batch, [one for one in batch if not isinstance(one, FlushMarker)]

    def _hold(self, rows: list[EventRow | QueuedPrompt], error: Exception) -> None:
        """Put rows back into the queue for the next attempt."""
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

    def _write(self, items: list[EventRow | QueuedPrompt]) -> None:
        """Write rows, their totals, prompts and the number of losses in one transaction."""
        connection = self._connect()
        with self._lock:
            lost, since, reason = self._lost.copy(), self._lost_since, self._reason
        rows = [one for one in items if isinstance(one, EventRow)]
        told = [*rows, *self._report(lost, since, reason)]
        # Rows that `record` has confirmed must survive a power failure.
        durable = any(row.values[1] != "info" for row in told)
        connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
        with writing(connection):
            for one in items:
                if not isinstance(one, EventRow):
                    one(connection)
            connection.executemany(INSERT_EVENT, [row.values for row in told])
            write_totals(connection, rows)
        with self._lock:
            self._lost -= lost
            self._reason = "" if not self._lost else self._reason

    def _report(self, losses: Counter[str], since: str, reason: str) -> Iterable[EventRow]:
        for kind, lost in losses.items():
            facts = {"lost" if kind == "event" else "lost_prompts": lost, "since": since}
            number = f"1 {kind} was" if lost == 1 else f"{lost:,} {kind}s were"
            yield LogReport(self._now(), "warn", LOST_EVENTS_TYPE, f"{number} lost: {reason}", facts).to_row()

    def _connect(self) -> sqlite3.Connection:
        """Open the file, or reopen it if it is damaged or another process has replaced it."""
        path = os.path.join(self.folder, EVENTS_FILE)
        if self._opened is not None:
            if self._file == identify_file(path):
                return self._opened.connection
            self._disconnect()
        note = move_damaged_aside(path, self._file, self._damage) if self._damage else ""
        self._damage = ""
        opened = open_events(self.folder, self.bounds.patience)
        self._opened, self._file = opened, identify_file(path)
        self.notice = opened.note or note or self.notice
        return opened.connection


def find_kind(item: EventRow | QueuedPrompt) -> str:
    """Return what a queued item is: an event or a prompt."""
    return "event" if isinstance(item, EventRow) else "prompt"


def release_waiters(batch: Iterable[EventRow | QueuedPrompt | FlushMarker], *, written: bool) -> None:
    """Release all waiters in a batch."""
    for one in batch:
        if isinstance(one, FlushMarker):
            one.settle(written=written)


_LOGS: "weakref.WeakSet[EventLog]" = weakref.WeakSet()


@atexit.register
def close_all_logs() -> None:
    """Close all open logs when the interpreter exits."""
    for log in list(_LOGS):
        log.close()
