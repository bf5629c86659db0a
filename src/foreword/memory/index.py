"""The index as a search needs it; any store of rows and words can fill it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from foreword.memory.chunk import Chunk
from foreword.types import frozen


class Damaged(Exception):
    """The index is damaged and must be rebuilt."""


@frozen
class Figures:
    """What a search needs to know of a store as a whole."""

    chunks: int
    words: int
    starts: tuple[int, ...]
    """The first row of each document, in order."""
    sizes: tuple[int, ...]
    """The words of each document, in the same order."""
    authors: tuple[str, ...]


class Row(NamedTuple):
    """What a search needs to know of one chunk."""

    words: int
    first: int
    """Its first line in the document; the pieces of one long line share it."""
    asks: bool
    """Whether it ends with a question."""
    author: str
    month: int
    """The month it speaks of as yyyymm; 0 if unknown."""


@frozen(eq=True)
class Found:
    """One chunk of the index."""

    path: str
    first: int
    last: int
    heading: str
    text: str


class Index(Protocol):
    """The interface of an index; the words of one store never affect another."""

    def reading(self) -> AbstractContextManager[None]:
        """Read a consistent snapshot, whatever other processes write."""

    def writing(self) -> AbstractContextManager[None]:
        """Write everything that is done inside, or nothing of it."""

    def close(self) -> None:
        """Let go of it."""

    def stores(self) -> Collection[str]:
        """Name the stores of which something is indexed."""

    def stamps(self, store: str) -> Mapping[str, tuple[str, str]]:
        """Return the indexed documents of a store: path, stamp of the file and hash of the text."""

    def restamp(self, store: str, path: str, stamp: str) -> None:
        """Note that a file was touched and says what it said, inside `writing`."""

    def put(self, store: str, path: str, mark: tuple[str, str], chunks: Iterable[Chunk]) -> None:
        """Index a document, replacing its chunks, inside `writing`."""

    def append(self, store: str, path: str, chunks: Iterable[Chunk]) -> None:
        """Index more chunks of the document that was put last, inside `writing`."""

    def drop(self, store: str, path: str) -> None:
        """Forget a document, inside `writing`."""

    def empty(self, store: str) -> None:
        """Forget every document of a store, inside `writing`."""

    def remove(self, store: str) -> None:
        """Forget a store and its name, inside `writing`."""

    def settle(self, store: str) -> None:
        """Make searches quick again after many documents were indexed."""

    def scrub(self, store: str) -> None:
        """Overwrite the bytes of dropped documents."""

    def figures(self, store: str) -> Figures:
        """Return the totals of a store."""

    def stem(self, text: str) -> tuple[str, ...]:
        """Return the words of a text as the index knows them, in their order."""

    def frequency(self, store: str, word: str) -> int:
        """Count the chunks of a store that have a word."""

    def postings(self, store: str, word: str) -> list[tuple[int, str, int]]:
        """Return every place of a word in a store: the row, the column and the place in it."""

    def match(self, store: str, word: str, others: Sequence[str]) -> list[int]:
        """Return the rows that have a word, and any of some others where there are any."""

    def rows(self, store: str, rows: Sequence[int]) -> Mapping[int, Row]:
        """Return some rows without their text; missing rows are left out."""

    def fetch(self, store: str, rows: Sequence[int]) -> Mapping[int, Found]:
        """Return some chunks of a store."""
