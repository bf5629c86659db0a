"""Claims about the one thread that writes."""

import asyncio
import contextvars
import os
import sqlite3
import threading
from contextlib import closing

import pytest

from foreword.gateway.writer import PIECE, Writer, write_again
from waiting import PATIENCE


def open_rows(path, patience=0.05):
    """Open a file with one table."""
    connection = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE IF NOT EXISTS rows (number INTEGER PRIMARY KEY, text TEXT)")
    return connection


class Disk:
    """A disk that fails as often as it is told to; it sees whether its file was written to since."""

    def __init__(self, *, fails):
        self.fails = fails
        self.seen = []

    def __call__(self, file):
        """Take what was written, or fail; a system that has failed once believes that nothing is left to write."""
        self.seen.append(os.fstat(file).st_mtime_ns > 0)
        os.utime(file, ns=(0, 0))
        if len(self.seen) <= self.fails:
            raise OSError("I/O error")


def put(number, text=""):
    """Make the work that adds a row."""
    return lambda state: state.execute("INSERT INTO rows VALUES (?, ?)", (number, text)).rowcount


def read_numbers(path):
    """Read what is durable, as another process would."""
    with closing(sqlite3.connect(path)) as other:
        return [number for (number,) in other.execute("SELECT number FROM rows ORDER BY rowid")]


async def hold(writer, hand_in):
    """Hold the thread until everything is handed in, so that it shares one transaction."""
    gate, held = threading.Event(), threading.Event()
    first = asyncio.ensure_future(writer.do(lambda _: held.set() or gate.wait(PATIENCE)))
    await asyncio.to_thread(held.wait, PATIENCE)
    rest = [asyncio.ensure_future(one) for one in hand_in]
    await asyncio.sleep(0)
    gate.set()
    await first
    return await asyncio.gather(*rest, return_exceptions=True)


@pytest.fixture
def path(tmp_path):
    """A file for rows."""
    return str(tmp_path / "rows.sqlite")


def test_durable_when_it_returns(path):
    """What was done is there for everybody when the caller goes on."""

    async def run(writer):
        assert await writer.do(put(1)) == 1
        assert read_numbers(path) == [1]

    with closing(Writer(open_rows(path))) as writer:
        asyncio.run(run(writer))


def test_one_failure_takes_nothing_from_others(path):
    """Of work that shares a transaction a part may fail, and only that part is undone, wholly."""

    def half(state):
        put(50)(state)
        raise ZeroDivisionError

    async def run(writer):
        work = [put(1), half, put(1), put(2), lambda _: (_ for _ in ()).throw(KeyError("x")), put(3)]
        return await hold(writer, [writer.do(one) for one in work])

    with closing(Writer(open_rows(path))) as writer:
        got = asyncio.run(run(writer))
    assert [one if isinstance(one, int) else type(one) for one in got] == [
        1, ZeroDivisionError, sqlite3.IntegrityError, 1, KeyError, 1,
    ]  # fmt: skip
    assert read_numbers(path) == [1, 2, 3]


def test_order(path):
    """A thousand pieces of work are done in the order in which they were handed in."""
    done = []

    async def run(writer):
        await hold(writer, [writer.do(lambda _, number=number: done.append(number)) for number in range(1_000)])

    with closing(Writer(open_rows(path))) as writer:
        asyncio.run(run(writer))
    assert done == list(range(1_000))


def test_who_is_cancelled_undoes_nothing(path):
    """Who does not wait any longer takes nothing back, and nobody else notices."""

    async def run(writer):
        gate = threading.Event()
        first = asyncio.ensure_future(writer.do(lambda _: gate.wait(PATIENCE)))
        left, stays = asyncio.ensure_future(writer.do(put(1))), asyncio.ensure_future(writer.do(put(2)))
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
    """Work that meets a lock fails with words, and the next is done once the lock is gone."""

    async def run(writer, other):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            await writer.do(put(1))
        other.execute("ROLLBACK")
        assert await writer.do(put(1)) == 1

    with closing(Writer(open_rows(path))) as writer, closing(open_rows(path)) as other:
        asyncio.run(run(writer, other))


def test_a_full_disk(path):
    """What does not fit fails and leaves nothing; what fits beside it is not lost in silence."""
    connection = open_rows(path)
    connection.execute("PRAGMA max_page_count=20")

    async def run(writer):
        work = [put(1), put(2, "x" * 200_000), put(3)]
        got = await hold(writer, [writer.do(one) for one in work])
        assert isinstance(got[1], sqlite3.OperationalError)
        kept = [number for number, one in zip((1, 3), (got[0], got[2]), strict=True) if one == 1]
        assert read_numbers(path) == kept
        await writer.do(lambda state: state.execute("PRAGMA max_page_count=1000").fetchall())
        assert await writer.do(put(2, "x" * 200_000)) == 1

    with closing(Writer(connection)) as writer:
        asyncio.run(run(writer))


def test_a_loop_that_is_gone(path):
    """Whoever asked may be gone with their loop; what they asked for is done, and the thread serves the next one."""
    gate = threading.Event()

    async def leave(writer):
        task = asyncio.ensure_future(writer.do(lambda state: gate.wait(PATIENCE) and put(1)(state)))
        await asyncio.sleep(0.01)
        task.cancel()

    async def come(writer):
        return await writer.do(put(2))

    with closing(Writer(open_rows(path))) as writer:
        asyncio.run(leave(writer))
        gate.set()
        assert asyncio.run(come(writer)) == 1
    assert read_numbers(path) == [1, 2]


def test_closed(path):
    """A writer that closes finishes what it was given; afterwards nobody waits for it in vain."""
    writer = Writer(open_rows(path))

    async def run():
        tasks = [asyncio.ensure_future(writer.do(put(number))) for number in range(10)]
        await asyncio.sleep(0)
        await asyncio.to_thread(writer.close)
        assert await asyncio.gather(*tasks) == [1] * 10
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            await writer.do(put(99))

    asyncio.run(run())
    assert read_numbers(path) == list(range(10))


def test_begun_before_it_is_sealed(path):
    """Who waits for the disk is told before that what was written, in the context in which they handed it in."""
    whose = contextvars.ContextVar("whose", default="nobody")
    told = []

    async def run(writer):
        whose.set("alice")
        done = await writer.seal(put(1), lambda got: told.append((got, whose.get(), read_numbers(path))))
        told.append(done)

    with closing(Writer(open_rows(path))) as writer:
        asyncio.run(run(writer))
    assert told == [(1, "alice", [1]), 1]


def test_failed_before_it_is_sealed(path):
    """What failed is not begun with."""
    told = []

    async def run(writer):
        await writer.do(put(1))
        with pytest.raises(sqlite3.IntegrityError):
            await writer.seal(put(1), told.append)

    with closing(Writer(open_rows(path))) as writer:
        asyncio.run(run(writer))
    assert told == []


def test_without_a_journal_beside_it(tmp_path):
    """A file whose journal is of another kind is sealed all the same."""
    path = str(tmp_path / "plain.sqlite")
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, text TEXT)")

    async def run(writer):
        assert await writer.seal(put(1)) == 1
        assert read_numbers(path) == [1]

    with closing(Writer(connection)) as writer:
        asyncio.run(run(writer))


def test_a_disk_that_takes_nothing(path):
    """Who has begun hears the result, and why it is not sealed; who has not begun hears of the failure alone."""
    told = []

    async def run(writer):
        work = [writer.seal(put(1), told.append, told.append), writer.seal(put(2)), writer.do(put(3))]
        return await hold(writer, work)

    with closing(Writer(open_rows(path), Disk(fails=1))) as writer:
        begun, sealed, done = asyncio.run(run(writer))
    assert (begun, done) == (1, 1)
    assert "the disk did not take it: I/O error" in str(sealed)
    assert told == [1, sealed]
    assert read_numbers(path) == [1, 2, 3]


def test_a_sync_is_not_believed(path):
    """After a sync that failed everything is written again before the next, though there is nothing new to write."""

    async def run(writer):
        for _ in range(2):
            with pytest.raises(sqlite3.OperationalError, match="did not take it"):
                await writer.seal(lambda state: None if read_numbers(path) else put(1)(state))
        for _ in range(2):
            await writer.seal(lambda _: None)

    disk = Disk(fails=2)
    with closing(Writer(open_rows(path), disk)) as writer:
        asyncio.run(run(writer))
    assert disk.seen == [True, True, True]  # and what is sealed is not sealed once more
    assert read_numbers(path) == [1]


@pytest.mark.parametrize("size", [0, 1, PIECE, 2 * PIECE + 1])
def test_written_again(tmp_path, size):
    """What is written again is the same file, all of it: a file full of holes has none afterwards."""
    file = tmp_path / "file"
    file.touch()
    os.truncate(file, size)
    write_again(str(file))
    assert file.read_bytes() == bytes(size)
    assert file.stat().st_blocks * 512 >= size


def test_what_cannot_be_written_again(path):
    """As long as the lost part cannot be written again, nothing is sealed, and what needs no seal is done."""

    async def run(writer):
        with pytest.raises(sqlite3.OperationalError, match="did not take it"):
            await writer.seal(put(1))
        writer._path = f"{path}.away"
        with pytest.raises(sqlite3.OperationalError, match="did not take it"):
            await writer.seal(put(2))
        assert await writer.do(put(3)) == 1
        writer._path = path
        assert await writer.seal(put(4)) == 1

    with closing(Writer(open_rows(path), Disk(fails=1))) as writer:
        asyncio.run(run(writer))
    assert read_numbers(path) == [1, 2, 3, 4]
