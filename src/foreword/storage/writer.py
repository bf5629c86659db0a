"""The state's writer: one thread with one connection that batches concurrent writes into one transaction.

`write` survives a crash of the process. `write_durable` also survives a power loss, as do all writes before it: it
waits for one fsync per batch. Its caller can start work that loses nothing by it, such as a model call, as soon as the
write is committed. It then gets an fsync error in addition to the result, not instead of it.

Lease owners: process names that show whether the process is still alive.
"""

import asyncio
import os
import socket
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from itertools import count
from queue import SimpleQueue
from typing import Any, TypeVar

from foreword.events.tracer import make_id
from foreword.types import frozen

_names: set[str] = set()


def make_lease_owner() -> str:
    """Name this process; other processes on the same machine can check whether it is alive."""
    name = f"{socket.gethostname()}:{os.getpid()}:{make_id(64)}"
    _names.add(name)
    return name


def is_dead_owner(owner: str) -> bool:
    """Return whether an owner is a dead process of this machine; for other machines only the lease counts."""
    host, number, _ = owner.rsplit(":", 2)
    if host != socket.gethostname():
        return False
    if int(number) == os.getpid():
        return owner not in _names  # in a container, process ids repeat across restarts
    try:
        os.kill(int(number), 0)
    except OSError as error:
        return isinstance(error, ProcessLookupError)
    return False


T = TypeVar("T")
MAX_JOBS_PER_BATCH = 256  # jobs in one transaction
REWRITE_CHUNK_BYTES = 1 << 20  # bytes per write when the WAL is rewritten
sync = getattr(os, "fdatasync", os.fsync)  # fdatasync is faster where it exists


@frozen
class WriteJob:
    """A unit of work, and the future that waits for it."""

    work: Callable[[sqlite3.Connection], Any]
    future: "asyncio.Future[Any]"
    context: Context
    durable: bool = False
    on_commit: Callable[[Any], None] | None = None
    on_sync_error: Callable[[sqlite3.Error], None] | None = None

    def call(self, what: Callable[..., None], *said: Any) -> None:
        """Call a function on the event loop."""
        with suppress(RuntimeError):  # the loop may be closed
            self.future.get_loop().call_soon_threadsafe(what, *said, context=self.context)

    def resolve(self, result: Any, error: BaseException | None) -> None:
        """Set the result or the error of the future, unless it is done."""

        def set_outcome() -> None:
            if not self.future.done():
                self.future.set_result(result) if error is None else self.future.set_exception(error)

        self.call(set_outcome)


async def write_until_stored(
    write: Callable[[], Awaitable[object]],
    delays: Sequence[float],
    on_first_failure: Callable[[sqlite3.Error], None] | None = None,
) -> None:
    """Repeat a write until the disk accepts it; the last delay repeats."""
    for attempt in count():
        try:
            await write()
        except sqlite3.Error as error:
            if attempt == 0 and on_first_failure:
                on_first_failure(error)
            await asyncio.sleep(delays[min(attempt, len(delays) - 1)])
        else:
            return


class Writer:
    """Runs jobs in order on one connection; each is atomic, and committed when it returns."""

    def __init__(self, connection: sqlite3.Connection, sync: Callable[[int], None] = sync) -> None:
        self._connection = connection
        self._wait = sync
        connection.execute("PRAGMA synchronous=NORMAL")  # the writer calls fsync itself, after the commit
        (_, _, self._path) = connection.execute("PRAGMA database_list").fetchone()
        self._unsynced = True
        self._fault: sqlite3.Error | None = None
        self._reader = sqlite3.connect(self._path, timeout=0, isolation_level=None, check_same_thread=False)
        self._reader.execute("PRAGMA query_only=ON")
        self._jobs: SimpleQueue[WriteJob | None] = SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="foreword-state", daemon=True)
        self._thread.start()

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Write: run a job in a transaction; cancelling the caller does not undo it."""
        return await self._submit(work)

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Read: at once on this thread, or through the writer if the state is locked."""
        if not self._closed:
            try:
                self._reader.execute("BEGIN")
                try:
                    return work(self._reader)
                finally:
                    self._reader.execute("COMMIT")
            except sqlite3.OperationalError:
                pass
        return await self.write(work)

    async def write_durable(
        self,
        work: Callable[[sqlite3.Connection], T],
        on_commit: Callable[[T], None] | None = None,
        on_sync_error: Callable[[sqlite3.Error], None] | None = None,
    ) -> T:
        """Write durably: run a job and wait for the fsync, or raise its error.

        `on_commit` is called on the event loop before the fsync. A caller that continues even if the fsync fails passes
        `on_sync_error`: it is called with the error, and the result is returned.
        """
        return await self._submit(work, durable=True, on_commit=on_commit, on_sync_error=on_sync_error)

    def _submit(self, work: Callable[[sqlite3.Connection], T], **options: Any) -> "asyncio.Future[T]":
        if self._closed:
            raise sqlite3.ProgrammingError("the state is closed")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs.put(WriteJob(work=work, future=future, context=copy_context(), **options))
        return future

    def close(self) -> None:
        """Finish the queued jobs, and close the connection."""
        self._closed = True
        self._jobs.put(None)
        self._thread.join()
        self._reader.close()
        self._connection.close()

    def _run(self) -> None:
        job = self._jobs.get()
        while job is not None:
            batch = [job]
            while len(batch) < MAX_JOBS_PER_BATCH and not self._jobs.empty() and (job := self._jobs.get()) is not None:
                batch.append(job)
            self._work(batch)
            job = job and self._jobs.get()

    def _work(self, batch: list[WriteJob]) -> None:
        before = self._connection.total_changes
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._rewrite_wal()
            results = [(job, *self._attempt(job)) for job in batch]
            self._connection.execute("COMMIT")
        except BaseException as error:  # noqa: BLE001 - the callers get the error, and the thread continues
            with suppress(sqlite3.Error):
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            for job in batch:
                job.resolve(None, error)
            return
        self._unsynced = self._unsynced or self._connection.total_changes != before
        durable = [(job, result) for job, result, failure in results if job.durable and failure is None]
        for job, result, failure in results:
            if not job.durable or failure is not None:
                job.resolve(result, failure)
            elif job.on_commit:
                job.call(job.on_commit, result)
        fault = self._sync() if durable else None
        for job, result in durable:
            if fault is not None and job.on_sync_error:
                job.call(job.on_sync_error, fault)
            job.resolve(result, None if job.on_sync_error else fault)

    def _rewrite_wal(self) -> None:
        """Rewrite the WAL after a failed fsync, within a write transaction; until then no fsync is trusted."""
        if self._fault is not None:
            with suppress(OSError):
                rewrite_file(f"{self._path}-wal")
                self._fault = None

    def _sync(self) -> sqlite3.Error | None:
        """Call fsync on the WAL; return the error, if any."""
        if self._unsynced and self._fault is None:
            try:
                file = os.open(f"{self._path}-wal", os.O_RDWR)
            except FileNotFoundError:  # without a WAL, SQLite syncs in every transaction
                return None
            try:
                self._wait(file)
                self._unsynced = False
            except OSError as error:
                self._fault = sqlite3.OperationalError(f"fsync failed: {error}")
            finally:
                os.close(file)
        return self._fault

    def _attempt(self, job: WriteJob) -> tuple[Any, BaseException | None]:
        """Run one job in a savepoint of the batch's transaction."""
        self._connection.execute("SAVEPOINT job")
        try:
            result = job.work(self._connection)
        except Exception as error:
            if not self._connection.in_transaction:
                raise  # the disk is full or the file is damaged: the whole transaction is rolled back
            self._connection.execute("ROLLBACK TO job")
            self._connection.execute("RELEASE job")
            return None, error
        self._connection.execute("RELEASE job")
        return result, None


def probe_write(connection: sqlite3.Connection) -> None:
    """Rewrite a header value unchanged: a write that needs disk space and changes nothing."""
    (number,) = connection.execute("PRAGMA user_version").fetchone()
    connection.execute(f"PRAGMA user_version={number}")


def rewrite_file(path: str) -> None:
    """Rewrite a file byte for byte: after a failed fsync, the system may regard lost pages as written.

    Appending to the WAL would not help, because SQLite reads it only up to the first gap.
    """
    with open(path, "r+b", buffering=0) as file:
        while piece := file.read(REWRITE_CHUNK_BYTES):
            file.seek(-len(piece), os.SEEK_CUR)
            file.write(piece)  # a short write is continued by the next read
