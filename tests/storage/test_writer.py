"""The writer thread of the state."""

import asyncio
import contextvars
import os
import sqlite3
import threading
from contextlib import closing

import pytest

from foreword.storage.writer import REWRITE_CHUNK_BYTES, Writer, rewrite_file
from waiting import PATIENCE


def open_rows(path, patience=0.05):
    """Open a database with one table."""
    connection = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE IF NOT EXISTS rows (number INTEGER PRIMARY KEY, text TEXT)")
    return connection


class Disk:
    """A fake fsync that fails some times and records whether its file was written since."""

    def __init__(self, *, fails):
        self.fails = fails
        self.seen = []

    def __call__(self, file):
        """Sync or fail; after a failed fsync the kernel considers the pages clean."""
        self.seen.append(os.fstat(file).st_mtime_ns > 0)
        os.utime(file, ns=(0, 0))
        if len(self.seen) <= self.fails:
            raise OSError("I/O error")


def put(number, text=""):
    """Make a function that inserts a row."""
    return lambda state: state.execute("INSERT INTO rows VALUES (?, ?)", (number, text)).rowcount


def read_numbers(path):
    """Read the committed rows, as another process would."""
    with closing(sqlite3.connect(path)) as other:
        return [number for (number,) in other.execute("SELECT number FROM rows ORDER BY rowid")]


async def hold(writer, hand_in):
    """Block the thread until all work is queued, so that it shares one transaction."""
    gate, held = threading.Event(), threading.Event()
    first = asyncio.ensure_future(writer.write(lambda _: held.set() or gate.wait(PATIENCE)))
    await asyncio.to_thread(held.wait, PATIENCE)
    rest = [asyncio.ensure_future(one) for one in hand_in]
    await asyncio.sleep(0)
    gate.set()
    await first
    return await asyncio.gather(*rest, return_exceptions=True)


@pytest.fixture
def path(tmp_path):
    """A path for a database."""
    return str(tmp_path / "rows.sqlite")


def test_durable_when_it_returns(path):
    """Work is committed when the call returns."""

    async def run(writer):
        assert await writer.write(put(1)) == 1
        assert read_numbers(path) == [1]

    with closing(Writer(open_rows(path))) as writer:
        asyncio.run(run(writer))


def test_one_failure_takes_nothing_from_others(path):
    """In a shared transaction only the failing work is rolled back, completely."""

    def half(state):
        put(50)(state)
        raise ZeroDivisionError

    async def run(writer):
        work = [put(1), half, put(1), put(2), lambda _: (_ for _ in ()).throw(KeyError("x")), put(3)]
        return await hold(writer, [writer.write(one) for one in work])

    with closing(Writer(open_rows(path))) as writer:
        got = asyncio.run(run(writer))
    assert [one if isinstance(one, int) else type(one) for one in got] == [
        1, ZeroDivisionError, sqlite3.IntegrityError, 1, KeyError, 1,
    ]  # fmt: skip
    assert read_numbers(path) == [1, 2, 3]


def test_order(path):
    """A thousand pieces of work run in the order of submission."""
    done = []

    async def run(writer):
        await hold(writer, [writer.write(lambda _, number=number: done.append(number)) for number in range(1_000)])

    with closing(Writer(open_rows(path))) as writer:
        asyncio.run(run(writer))
    assert done == list(range(1_000))


def test_who_is_cancelled_undoes_nothing(path):
    """Cancelling a call does not undo its work and does not affect others."""

    async def run(writer):
        gate = threading.Event()
        first = asyncio.ensure_future(writer.write(lambda _: gate.wait(PATIENCE)))
        left, stays = asyncio.ensure_future(writer.write(put(1))), asyncio.ensure_future(writer.write(put(2)))
        await asyncio.sleep(0)
        left.cancel()
        gate.set()
        assert await stays == 1
        await first
        assert left.cancelled()

    with closing(Writer(open_rows(path))) as writer:
        asyncio.run(run(writer))
    assert read_numbers(path) == [1, 2]


def test_a_lock_of_another_process(path):
    """Work that meets a lock fails with an error, and the next succeeds once the lock is released."""

    async def run(writer, other):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            await writer.write(put(1))
        other.execute("ROLLBACK")
        assert await writer.write(put(1)) == 1

    with closing(Writer(open_rows(path))) as writer, closing(open_rows(path)) as other:
        asyncio.run(run(writer, other))


def test_a_full_disk(path):
    """Work that does not fit on the disk fails without a trace, and other work is stored or raises."""
    connection = open_rows(path)
    connection.execute("PRAGMA max_page_count=20")

    async def run(writer):
        work = [put(1), put(2, "x" * 200_000), put(3)]
        got = await hold(writer, [writer.write(one) for one in work])
        assert isinstance(got[1], sqlite3.OperationalError)
        kept = [number for number, one in zip((1, 3), (got[0], got[2]), strict=True) if one == 1]
        assert read_numbers(path) == kept
        await writer.write(lambda state: state.execute("PRAGMA max_page_count=1000").fetchall())
        assert await writer.write(put(2, "x" * 200_000)) == 1

    with closing(Writer(connection)) as writer:
        asyncio.run(run(writer))


def test_a_loop_that_is_gone(path):
    """If the caller's event loop is gone, its work is still done, and the thread serves the next caller."""
    gate = threading.Event()

    async def leave(writer):
        task = asyncio.ensure_future(writer.write(lambda state: gate.wait(PATIENCE) and put(1)(state)))
        await asyncio.sleep(0.01)
        task.cancel()

    async def come(writer):
        return await writer.write(put(2))

    with closing(Writer(open_rows(path))) as writer:
        asyncio.run(leave(writer))
        gate.set()
        assert asyncio.run(come(writer)) == 1
    assert read_numbers(path) == [1, 2]


def test_closed(path):
    """A closing writer finishes its queue; afterwards calls raise."""
    writer = Writer(open_rows(path))

    async def run():
        tasks = [asyncio.ensure_future(writer.write(put(number))) for number in range(10)]
        await asyncio.sleep(0)
        await asyncio.to_thread(writer.close)
        assert await asyncio.gather(*tasks) == [1] * 10
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            await writer.write(put(99))

    asyncio.run(run())
    assert read_numbers(path) == list(range(10))


def test_begun_before_it_is_sealed(path):
    """The callback of write_durable runs before the fsync, in the caller's context."""
    whose = contextvars.ContextVar("whose", default="nobody")
    shown = []

    async def run(writer):
        whose.set("alice")
        done = await writer.write_durable(put(1), lambda got: shown.append((got, whose.get(), read_numbers(path))))
        shown.append(done)

    with closing(Writer(open_rows(path))) as writer:
        asyncio.run(run(writer))
    assert shown == [(1, "alice", [1]), 1]


def test_failed_before_it_is_sealed(path):
    """The callback is not called for failed work."""
    shown = []

    async def run(writer):
        await writer.write(put(1))
        with pytest.raises(sqlite3.IntegrityError):
            await writer.write_durable(put(1), shown.append)

    with closing(Writer(open_rows(path))) as writer:
        asyncio.run(run(writer))
    assert shown == []


def test_without_a_journal_beside_it(tmp_path):
    """write_durable works with another journal mode."""
    path = str(tmp_path / "plain.sqlite")
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, text TEXT)")

    async def run(writer):
        assert await writer.write_durable(put(1)) == 1
        assert read_numbers(path) == [1]

    with closing(Writer(connection)) as writer:
        asyncio.run(run(writer))


def test_a_disk_that_takes_nothing(path):
    """After a failed fsync a call with callbacks returns its result and reports the error; one without raises."""
    shown = []

    async def run(writer):
        work = [
            writer.write_durable(put(1), shown.append, shown.append),
            writer.write_durable(put(2)),
            writer.write(put(3)),
        ]
        return await hold(writer, work)

    with closing(Writer(open_rows(path), Disk(fails=1))) as writer:
        begun, sealed, done = asyncio.run(run(writer))
    assert (begun, done) == (1, 1)
    assert "fsync failed: I/O error" in str(sealed)
    assert shown == [1, sealed]
    assert read_numbers(path) == [1, 2, 3]


def test_a_sync_is_not_believed(path):
    """After a failed fsync the WAL is rewritten before the next one, even if there is nothing new to write."""

    async def run(writer):
        for _ in range(2):
            with pytest.raises(sqlite3.OperationalError, match="fsync failed"):
                await writer.write_durable(lambda state: None if read_numbers(path) else put(1)(state))
        for _ in range(2):
            await writer.write_durable(lambda _: None)

    disk = Disk(fails=2)
    with closing(Writer(open_rows(path), disk)) as writer:
        asyncio.run(run(writer))
    assert disk.seen == [True, True, True]  # a successful sync is not repeated
    assert read_numbers(path) == [1]


@pytest.mark.parametrize("size", [0, 1, REWRITE_CHUNK_BYTES, 2 * REWRITE_CHUNK_BYTES + 1])
def test_written_again(tmp_path, size):
    """rewrite_file writes the whole file, including holes."""
    file = tmp_path / "file"
    file.touch()
    os.truncate(file, size)
    rewrite_file(str(file))
    assert file.read_bytes() == bytes(size)
    assert file.stat().st_blocks * 512 >= size


def test_what_cannot_be_written_again(path):
    """While the rewrite fails, durable writes fail and other writes succeed."""

    async def run(writer):
        with pytest.raises(sqlite3.OperationalError, match="fsync failed"):
            await writer.write_durable(put(1))
        writer._path = f"{path}.away"
        with pytest.raises(sqlite3.OperationalError, match="fsync failed"):
            await writer.write_durable(put(2))
        assert await writer.write(put(3)) == 1
        writer._path = path
        assert await writer.write_durable(put(4)) == 1

    with closing(Writer(open_rows(path), Disk(fails=1))) as writer:
        asyncio.run(run(writer))
    assert read_numbers(path) == [1, 2, 3, 4]
