"""Claims about the rows of a past that are remembered between turns."""

from foreword.gateway.past import Remembered
from foreword.runtime.history import dump, say


def store(text):
    """Store one message."""
    return dump([say(text)])


def test_read_once():
    """A row is read once, however long it is."""
    remembered, stored = Remembered(), store("x" * 1_000_000)
    assert remembered.recall(bytes(bytearray(stored))) is remembered.recall(stored)


def test_never_more_than_that():
    """Of many rows those asked for last are remembered: so many, and so many bytes in all."""
    rows = [store(f"{number}: " + "x" * 1_000) for number in range(10)]
    for remembered in (Remembered(rows=3), Remembered(largest=3 * len(rows[0]))):
        first = [remembered.recall(row) for row in rows]
        again = [remembered.recall(row) for row in reversed(rows)]
        assert [one is other for one, other in zip(first, reversed(again), strict=True)] == [False] * 7 + [True] * 3


def test_longer_than_all():
    """A row that is longer than all that may be remembered is read all the same, and nothing is kept of it."""
    remembered, stored = Remembered(largest=100), store("x" * 100)
    read = remembered.recall(stored)
    assert dump(read) == stored
    assert remembered.recall(stored) is not read
