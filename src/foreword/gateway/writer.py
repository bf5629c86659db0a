"""One thread that writes: what comes while it is busy shares one transaction, and everybody waits for the disk once.

What is done outlives the process. What is sealed outlives a loss of power, too, and so does all that was done before.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from foreword.frozen import frozen

T = TypeVar("T")
MOST = 256  # pieces of work in one transaction


@frozen
class Job:
    """A piece of work, and who waits for it."""

    work: Callable[[sqlite3.Connection], Any]
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Any]"
    sealed: bool


class Writer:
    """Runs pieces of work on one connection, in order; each is all or nothing, and written when it returns."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._reader = open_reader(connection)
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

    async def seal(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do a piece of work, and wait until the disk itself has it."""
        return await self._hand_in(work, sealed=True)

    def _hand_in(self, work: Callable[[sqlite3.Connection], T], *, sealed: bool) -> "asyncio.Future[T]":
        if self._closed:
            raise sqlite3.ProgrammingError("the state is closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.put(Job(work=work, loop=loop, future=future, sealed=sealed))
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
        results: list[tuple[Job, Any, BaseException | None]] = []
        try:
            sealed = any(job.sealed for job in batch)
            self._connection.execute(f"PRAGMA synchronous={'FULL' if sealed else 'NORMAL'}")
            self._connection.execute("BEGIN IMMEDIATE")
            results = [(job, *self._attempt(job)) for job in batch]
            self._connection.execute("COMMIT")
        except BaseException as error:  # noqa: BLE001 - whoever waits is told, and the thread lives on
            with suppress(sqlite3.Error):
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            results = [(job, None, error) for job in batch]
        for job, result, failure in results:
            with suppress(RuntimeError):  # the loop of who asked may be closed by now
                job.loop.call_soon_threadsafe(answer, job.future, result, failure)

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


def open_reader(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Open a second connection to the same file, which writes nothing and waits for nobody."""
    (_, _, path) = connection.execute("PRAGMA database_list").fetchone()
    reader = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    reader.execute("PRAGMA query_only=ON")
    return reader


def rewrite(connection: sqlite3.Connection) -> None:
    """Write a page as it is: that takes a place on the disk as every write does, and changes nothing."""
    (number,) = connection.execute("PRAGMA user_version").fetchone()
    connection.execute(f"PRAGMA user_version={number}")


def answer(future: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    """Answer who waits, if they still do."""
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
