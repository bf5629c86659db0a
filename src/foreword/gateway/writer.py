"""One thread that writes: what comes while it is busy shares one transaction, and everybody waits for the disk once.

What is done outlives the process. What is sealed outlives a loss of power, too, and so does all that was done before.
Whoever waits for a seal can begin with what loses nothing by that, such as asking a model, as soon as it is written;
as they have begun then, they hear of a disk that did not take it beside the result, and not in its place.
"""

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from foreword.frozen import frozen

T = TypeVar("T")
MOST = 256  # pieces of work in one transaction
PIECE = 1 << 20  # bytes that are written again at a time
sync = getattr(os, "fdatasync", os.fsync)  # where the size of a file is known to its system, too, the first is quicker


def ignore(_: Any) -> None:
    """Begin with nothing before the disk has it."""


@frozen
class Job:
    """A piece of work, and who waits for it."""

    work: Callable[[sqlite3.Connection], Any]
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Any]"
    sealed: bool
    written: Callable[[Any], None]
    """Called with the result as soon as that is written, before the disk has it."""
    unsealed: Callable[[sqlite3.Error], None]
    """Called with the reason where the disk did not take what somebody goes on with."""
    context: Context


class Writer:
    """Runs pieces of work on one connection, in order; each is all or nothing, and written when it returns."""

    def __init__(self, connection: sqlite3.Connection, sync: Callable[[int], None] = sync) -> None:
        self._connection = connection
        self._wait = sync
        connection.execute("PRAGMA synchronous=NORMAL")  # the disk is waited for once what was written is known
        self._path = find_path(connection)
        self._unsynced = True
        self._fault: sqlite3.Error | None = None
        self._reader = open_reader(self._path)
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="foreword-state", daemon=True)
        self._thread.start()

    async def do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do a piece of work; who is cancelled while waiting does not undo it."""
        return await self._hand_in(work, sealed=False)

    async def look(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Read: at once and on this thread, or in line with what is written where something is in the way."""
        if not self._closed:
            try:
                self._reader.execute("BEGIN")
                try:
                    return work(self._reader)
                finally:
                    self._reader.execute("COMMIT")
            except sqlite3.OperationalError:
                pass
        return await self.do(work)

    async def seal(
        self,
        work: Callable[[sqlite3.Connection], T],
        written: Callable[[T], None] = ignore,
        unsealed: Callable[[sqlite3.Error], None] = ignore,
    ) -> T:
        """Do a piece of work, and wait until the disk itself has it, or raise why it has not.

        `written` is called on the loop before that. Whoever goes on with what is written, whether the disk has it or
        not, gives `unsealed`: that is called with the reason then, and the result is returned.
        """
        return await self._hand_in(work, sealed=True, written=written, unsealed=unsealed)

    def _hand_in(
        self,
        work: Callable[[sqlite3.Connection], T],
        *,
        sealed: bool,
        written: Callable[[T], None] = ignore,
        unsealed: Callable[[sqlite3.Error], None] = ignore,
    ) -> "asyncio.Future[T]":
        if self._closed:
            raise sqlite3.ProgrammingError("the state is closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        job = Job(
            work=work,
            loop=loop,
            future=future,
            sealed=sealed,
            written=written,
            unsealed=unsealed,
            context=copy_context(),
        )
        self._jobs.put(job)
        return future

    def close(self) -> None:
        """Finish what was handed in, and close the connection."""
        self._closed = True
        self._jobs.put(None)
        self._thread.join()
        self._reader.close()
        self._connection.close()

    def _run(self) -> None:
        while True:
            first = self._jobs.get()
            if first is None:
                return
            batch, last = [first], False
            with suppress(Empty):
                while len(batch) < MOST:
                    job = self._jobs.get_nowait()
                    if job is None:
                        last = True
                        break
                    batch.append(job)
            self._work(batch)
            if last:
                return

    def _work(self, batch: list[Job]) -> None:
        before = self._connection.total_changes
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._make_good()
            results = [(job, *self._attempt(job)) for job in batch]
            self._connection.execute("COMMIT")
        except BaseException as error:  # noqa: BLE001 - whoever waits is told, and the thread lives on
            with suppress(sqlite3.Error):
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            for job in batch:
                tell(job, answer, job.future, None, error)
            return
        self._unsynced = self._unsynced or self._connection.total_changes != before
        for job, result, failure in results:
            if not job.sealed or failure is not None:
                tell(job, answer, job.future, result, failure)
            elif job.written is not ignore:
                tell(job, job.written, result)
        if sealed := [(job, result) for job, result, failure in results if job.sealed and failure is None]:
            fault = self._sync()
            for job, result in sealed:
                goes_on = job.unsealed is not ignore
                if goes_on and fault is not None:
                    tell(job, job.unsealed, fault)
                tell(job, answer, job.future, result, None if goes_on else fault)

    def _make_good(self) -> None:
        """Write again what the disk did not take, while nobody else writes; until then no sync is believed."""
        if self._fault is not None:
            with suppress(OSError):
                write_again(f"{self._path}-wal")
                self._fault = None

    def _sync(self) -> sqlite3.Error | None:
        """Wait until the disk has everything that was written; return what kept it from that."""
        if self._unsynced and self._fault is None:
            try:
                file = os.open(f"{self._path}-wal", os.O_RDWR)
            except FileNotFoundError:  # a file without a journal of this kind waits for the disk in every transaction
                return None
            try:
                self._wait(file)
                self._unsynced = False
            except OSError as error:
                self._fault = sqlite3.OperationalError(f"the disk did not take it: {error}")
            finally:
                os.close(file)
        return self._fault

    def _attempt(self, job: Job) -> tuple[Any, BaseException | None]:
        """Do one piece of work inside the transaction of its batch."""
        self._connection.execute("SAVEPOINT job")
        try:
            result = job.work(self._connection)
        except Exception as error:
            if not self._connection.in_transaction:
                raise  # the disk is full, or the file broken: all of it is undone already
            self._connection.execute("ROLLBACK TO job")
            self._connection.execute("RELEASE job")
            return None, error
        self._connection.execute("RELEASE job")
        return result, None


def find_path(connection: sqlite3.Connection) -> str:
    """Find the file that a connection has open."""
    (_, _, path) = connection.execute("PRAGMA database_list").fetchone()
    return str(path)


def open_reader(path: str) -> sqlite3.Connection:
    """Open a second connection to the same file, which writes nothing and waits for nobody."""
    reader = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    reader.execute("PRAGMA query_only=ON")
    return reader


def rewrite(connection: sqlite3.Connection) -> None:
    """Write a page as it is: that takes a place on the disk as every write does, and changes nothing."""
    (number,) = connection.execute("PRAGMA user_version").fetchone()
    connection.execute(f"PRAGMA user_version={number}")


def write_again(path: str) -> None:
    """Write a file again, byte for byte: after a sync that failed, a system may take for written what it has lost.

    What is added behind the lost part makes up for nothing, since a journal is read up to its first gap.
    """
    with open(path, "r+b", buffering=0) as file:
        while piece := file.read(PIECE):
            file.seek(-len(piece), os.SEEK_CUR)
            file.write(piece)  # what is left of the piece, if anything, is read and written next


def tell(job: Job, what: Callable[..., None], *said: Any) -> None:
    """Tell whoever waits for a job, on their loop."""
    with suppress(RuntimeError):  # it may be closed by now
        job.loop.call_soon_threadsafe(what, *said, context=job.context)


def answer(future: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    """Answer who waits, if they still do."""
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
