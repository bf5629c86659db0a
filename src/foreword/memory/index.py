"""The search index of the memory stores: one SQLite file with a full-text table per store.

Each store has its own tables, so the words of one store never change a score in another.
"""

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from foreword.errors import InputError
from foreword.memory.chunk import Chunk
from foreword.storage.database import use_wal
from foreword.types import frozen

FILE = "memory.sqlite"
VERSION = 6  # of the tables and of how documents are split; an index of another version is rebuilt
BUSY_TIMEOUT_S = 30.0  # another process may be indexing a large file
TOKENIZE = "porter unicode61 remove_diacritics 2"
TABLES = ("vocabulary", "counts", "words", "chunks", "documents", "authors")  # in the order in which they are dropped
COMMON_WORD_CHUNKS = 1_000  # the count of a word in at least this many chunks is cached
MAX_MATCHES = 4_000  # rows of a query that consists of common words only
CACHE_KIB = 32_000
GAP_ROWS = 3  # between two documents; neighbours are at most two rows apart
STEM_CACHE = 256  # texts

REMEDIES = {
    sqlite3.SQLITE_CANTOPEN: "make .foreword writable",
    sqlite3.SQLITE_READONLY: "make .foreword writable",
    sqlite3.SQLITE_BUSY: "another process is indexing; try again when it has finished",
}


class Damaged(Exception):
    """The index is damaged and must be rebuilt."""


@frozen
class Figures:
    """Totals of a store."""

    chunks: int
    words: int
    starts: tuple[int, ...]
    """The first row of each document, in order."""
    sizes: tuple[int, ...]
    """The words of each document, in the same order."""
    authors: tuple[str, ...]


class Row(NamedTuple):
    """A chunk without its text, as the ranking needs it."""

    id: int
    words: int
    first: int
    """Its first line in the document; the parts of one long line share it."""
    asks: bool
    """Whether it ends with a question."""
    author: str
    month: int
    """The month it is about, as yyyymm; 0 if unknown."""


class Postings(NamedTuple):
    """The rows that contain a word."""

    text: Mapping[int, int]
    """How often the text of each row contains it."""
    headings: frozenset[int]
    """The rows that have it in their heading or description but not in their text."""


@frozen(eq=True)
class Found:
    """A chunk of the index with its text."""

    path: str
    first: int
    last: int
    heading: str
    text: str
    part: bool
    """Whether it is a part of a longer line."""


@dataclass(slots=True)
class Cache:
    """Data read from a store; valid while its change counter is unchanged."""

    changes: int
    chunks: int
    words: int
    stamps: dict[str, tuple[str, str]] | None = None
    figures: Figures | None = None
    common: dict[str, int] = field(default_factory=dict)
    """How many chunks have each common word."""


class Index:
    """The index of a workspace's memory in one SQLite file; without a folder, in memory."""

    def __init__(self, folder: str = "") -> None:
        self.path = os.path.join(folder, FILE) if folder else ":memory:"
        if folder:
            os.makedirs(folder, exist_ok=True)
        self._stores: dict[str, str] = {}
        self._caches: dict[str, Cache] = {}
        self._schema = 0
        self.stem = lru_cache(STEM_CACHE)(self._stem)
        self._open()

    def _open(self) -> None:
        self._base = sqlite3.connect(self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
        if self.path != ":memory:":
            use_wal(self._base, self.path)
        with suppress(OSError):
            os.chmod(self.path, 0o600)  # it contains the words of every store
        self._base.execute("PRAGMA synchronous=NORMAL")
        self._base.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
        self._base.execute("PRAGMA secure_delete=ON")  # deleted text must not remain in free pages
        if self._base.execute("PRAGMA user_version").fetchone()[0] not in (0, VERSION):
            self.clear()
        self._base.execute(f"CREATE VIRTUAL TABLE temp.spoken USING fts5(text, tokenize='{TOKENIZE}')")
        self._base.execute("CREATE VIRTUAL TABLE temp.spoken_words USING fts5vocab(temp, spoken, instance)")
        with self.writing():
            self._base.execute(
                "CREATE TABLE IF NOT EXISTS stores(name TEXT PRIMARY KEY, "
                "changes INTEGER DEFAULT 0, chunks INTEGER DEFAULT 0, words INTEGER DEFAULT 0)"
            )
            self._base.execute(f"PRAGMA user_version={VERSION}")

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read a consistent snapshot, whatever other processes write."""
        self._base.execute("BEGIN")
        try:
            self._follow_schema()
            yield
        finally:
            self._roll_back()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write everything that is done inside, or nothing of it."""
        self._base.execute("BEGIN IMMEDIATE")
        try:
            self._follow_schema()
            yield
            self._base.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise

    def _follow_schema(self) -> None:
        """Clear the caches when another process has created or dropped tables."""
        (schema,) = self._base.execute("PRAGMA schema_version").fetchone()
        if schema != self._schema:
            self._schema = schema
            self._stores.clear()
            self._caches.clear()

    def _roll_back(self) -> None:
        if self._base.in_transaction:  # a full disk has ended it already
            self._base.execute("ROLLBACK")

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def clear(self) -> None:
        """Drop every table."""
        found = [name for (name,) in self._base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        names = [name for kind in TABLES for name in found if name.partition("_")[0] == kind]
        with self.writing():
            for name in names:
                if name.count("_") == 1:  # the others belong to a full-text table and are dropped with it
                    self._base.execute(f"DROP TABLE IF EXISTS {name}")
            self._base.execute("DROP TABLE IF EXISTS stores")
        self._stores.clear()
        self._caches.clear()

    def _name(self, store: str) -> str:
        """Return the suffix of a store's tables; create them at the first use.

        The suffix is the encoded name: a number could mean another store after another process cleared the file.
        """
        name = self._stores.get(store)
        if name is not None:
            return name
        name = store.encode().hex()
        if self._base.execute("SELECT 1 FROM stores WHERE name = ?", (store,)).fetchone() is None:
            inside = self._base.in_transaction
            with nullcontext() if inside else self.writing():
                # The counter starts at a random number, so that equal counters mean equal content after a clear.
                self._base.execute("INSERT OR IGNORE INTO stores(name, changes) VALUES (?, random() / 2)", (store,))
                self._create_tables(name)
            if inside:
                return name  # it may still be rolled back
        self._stores[store] = name
        return name

    def _create_tables(self, name: str) -> None:
        base = self._base
        base.execute(
            f"CREATE TABLE IF NOT EXISTS documents_{name}"
            "(id INTEGER PRIMARY KEY, path TEXT UNIQUE, stamp TEXT, sha256 TEXT, start INTEGER, words INTEGER)"
        )
        base.execute(
            f"CREATE TABLE IF NOT EXISTS chunks_{name}(id INTEGER PRIMARY KEY, document INTEGER, "
            "first INTEGER, last INTEGER, words INTEGER, asks INTEGER, author TEXT, month INTEGER, "
            "heading TEXT, about TEXT, text TEXT)"
        )
        base.execute(
            f"CREATE VIRTUAL TABLE IF NOT EXISTS words_{name} USING fts5(text, heading, about, "
            f"content='chunks_{name}', content_rowid='id', tokenize='{TOKENIZE}')"
        )
        base.execute(f"CREATE VIRTUAL TABLE IF NOT EXISTS vocabulary_{name} USING fts5vocab(words_{name}, instance)")
        base.execute(f"CREATE VIRTUAL TABLE IF NOT EXISTS counts_{name} USING fts5vocab(words_{name}, row)")
        base.execute(f"CREATE TABLE IF NOT EXISTS authors_{name}(name TEXT PRIMARY KEY, chunks INTEGER) WITHOUT ROWID")
        base.execute(f"CREATE INDEX IF NOT EXISTS chunks_{name}_document ON chunks_{name}(document)")

    def _cache(self, store: str) -> tuple[str, Cache]:
        """Return the suffix of a store's tables and its cache, emptied if the store has changed."""
        name = self._name(store)
        state = self._base.execute("SELECT changes, chunks, words FROM stores WHERE name = ?", (store,)).fetchone()
        cache = self._caches.get(store)
        if cache is None or cache.changes != state[0]:
            cache = self._caches[store] = Cache(*state)
        return name, cache

    def stores(self) -> Collection[str]:
        """Name the stores in the index."""
        return [name for (name,) in self._base.execute("SELECT name FROM stores ORDER BY name")]

    def stamps(self, store: str) -> Mapping[str, tuple[str, str]]:
        """Return the indexed documents of a store: path, stamp of the file and hash of the text."""
        self._follow_schema()
        name, cache = self._cache(store)
        if cache.stamps is None:
            rows = self._base.execute(f"SELECT path, stamp, sha256 FROM documents_{name}")
            cache.stamps = {path: (stamp, sha256) for path, stamp, sha256 in rows}
        return cache.stamps

    def restamp(self, store: str, path: str, stamp: str) -> None:
        """Store the new stamp of a touched file with the same text, inside `writing`."""
        self._base.execute(f"UPDATE documents_{self._name(store)} SET stamp = ? WHERE path = ?", (stamp, path))
        self._count_change(store, 0, 0)

    def put(self, store: str, path: str, mark: tuple[str, str], chunks: Iterable[Chunk]) -> None:
        """Index a document, replacing its chunks, inside `writing`."""
        name = self._name(store)
        self.drop(store, path)
        self._base.execute(
            f"INSERT INTO documents_{name}(path, stamp, sha256, start, words) VALUES (?, ?, ?, ?, 0)",
            (path, *mark, self._find_last(name) + GAP_ROWS),
        )
        self.append(store, path, chunks)

    def append(self, store: str, path: str, chunks: Iterable[Chunk]) -> None:
        """Index more chunks of the document that was put last, inside `writing`."""
        name, base = self._name(store), self._base
        document, start = base.execute(f"SELECT id, start FROM documents_{name} WHERE path = ?", (path,)).fetchone()
        free = max(start, self._find_last(name) + 1)
        rows = [
            (
                row,
                document,
                chunk.first,
                chunk.last,
                len(chunk.text.split()),
                chunk.is_question,
                chunk.author,
                number_month(chunk.when),
                chunk.heading,
                chunk.about,
                chunk.text,
            )
            for row, chunk in enumerate(chunks, free)
        ]
        words = sum(row[4] for row in rows)
        base.executemany(f"INSERT INTO chunks_{name} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        base.executemany(
            f"INSERT INTO words_{name}(rowid, text, heading, about) VALUES (?, ?, ?, ?)",
            [(row[0], row[10], row[8], row[9]) for row in rows],
        )
        base.executemany(
            f"INSERT INTO authors_{name} VALUES (?, ?) "
            "ON CONFLICT (name) DO UPDATE SET chunks = chunks + excluded.chunks",
            sorted(Counter(row[6] for row in rows if row[6]).items()),
        )
        base.execute(f"UPDATE documents_{name} SET words = words + ? WHERE id = ?", (words, document))
        self._count_change(store, len(rows), words)

    def _find_last(self, name: str) -> int:
        (last,) = self._base.execute(f"SELECT coalesce(max(id), 0) FROM chunks_{name}").fetchone()
        return int(last)

    def drop(self, store: str, path: str) -> None:
        """Remove a document from the index, inside `writing`."""
        name, base = self._name(store), self._base
        found = base.execute(f"SELECT id FROM documents_{name} WHERE path = ?", (path,)).fetchone()
        if found is None:
            return
        base.execute(
            f"INSERT INTO words_{name}(words_{name}, rowid, text, heading, about) "
            f"SELECT 'delete', id, text, heading, about FROM chunks_{name} WHERE document = ?",
            found,
        )
        gone = base.execute(f"SELECT count(*), author FROM chunks_{name} WHERE document = ? GROUP BY author", found)
        base.executemany(f"UPDATE authors_{name} SET chunks = chunks - ? WHERE name = ?", gone.fetchall())
        base.execute(f"DELETE FROM authors_{name} WHERE chunks <= 0")
        chunks = base.execute(f"DELETE FROM chunks_{name} WHERE document = ?", found).rowcount
        (words,) = base.execute(f"DELETE FROM documents_{name} WHERE id = ? RETURNING words", found).fetchone()
        self._count_change(store, -chunks, -words)

    def empty(self, store: str) -> None:
        """Remove every document of a store, inside `writing`."""
        name = self._name(store)
        self._base.execute(f"INSERT INTO words_{name}(words_{name}) VALUES ('delete-all')")
        for kind in ("chunks", "documents", "authors"):
            self._base.execute(f"DELETE FROM {kind}_{name}")
        self._base.execute("UPDATE stores SET changes = changes + 1, chunks = 0, words = 0 WHERE name = ?", (store,))

    def remove(self, store: str) -> None:
        """Remove a store with its name, inside `writing`."""
        name = store.encode().hex()
        for kind in TABLES:
            self._base.execute(f"DROP TABLE IF EXISTS {kind}_{name}")
        self._base.execute("DELETE FROM stores WHERE name = ?", (store,))
        self._stores.pop(store, None)
        self._caches.pop(store, None)

    def optimize(self, store: str) -> None:
        """Merge the segments of a store's full-text table; many small ones make searches slow."""
        name = self._name(store)
        self._base.execute(f"INSERT INTO words_{name}(words_{name}) VALUES ('optimize')")

    def scrub(self, store: str) -> None:
        """Overwrite the bytes of dropped documents in the file."""
        self.optimize(store)
        self._base.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _count_change(self, store: str, chunks: int, words: int) -> None:
        self._base.execute(
            "UPDATE stores SET changes = changes + 1, chunks = chunks + ?, words = words + ? WHERE name = ?",
            (chunks, words, store),
        )

    def figures(self, store: str) -> Figures:
        """Return the totals of a store."""
        name, cache = self._cache(store)
        if cache.figures is None:
            pages = self._base.execute(f"SELECT start, words FROM documents_{name} ORDER BY start, words").fetchall()
            authors = self._base.execute(f"SELECT name FROM authors_{name}").fetchall()
            cache.figures = Figures(
                chunks=cache.chunks,
                words=cache.words,
                starts=tuple(start for start, _ in pages),
                sizes=tuple(size for _, size in pages),
                authors=tuple(author for (author,) in authors),
            )
        return cache.figures

    def _stem(self, text: str) -> tuple[str, ...]:
        """Return the words of a text as the index stores them, in their order."""
        self._base.execute("INSERT INTO temp.spoken(rowid, text) VALUES (1, ?)", (text,))
        words = self._base.execute("SELECT term FROM temp.spoken_words ORDER BY offset").fetchall()
        self._base.execute("DELETE FROM temp.spoken")
        return tuple(word for (word,) in words)

    def frequencies(self, store: str, words: Iterable[str]) -> dict[str, int]:
        """Count the chunks of a store that have each word; the counts of common words are cached."""
        name, cache = self._cache(store)
        counts = {word: cache.common.get(word, 0) for word in words}
        unknown = [word for word, count in counts.items() if not count]
        found = self._base.execute(
            f"SELECT term, doc FROM json_each(?) CROSS JOIN counts_{name} ON term = value", (json.dumps(unknown),)
        ).fetchall()
        counts.update(found)
        cache.common.update((word, count) for word, count in found if count >= COMMON_WORD_CHUNKS)
        return counts

    def postings(self, store: str, words: Iterable[str]) -> dict[str, Postings]:
        """Return every row of a store that has a word, for each of the words."""
        # One string of numbers, headings negative: SQLite builds it much faster than Python reads that many rows.
        found = self._base.execute(
            "SELECT value, (SELECT group_concat(iif(col = 'text', doc, -doc)) "
            f"FROM vocabulary_{self._name(store)} WHERE term = value) FROM json_each(?)",
            (json.dumps(list(words)),),
        )
        return {word: read_places(places or "") for word, places in found}

    def match(self, store: str, word: str, others: Sequence[str]) -> list[int]:
        """Return the rows that have a word and, if others are given, any of them; at most MAX_MATCHES."""
        table = f"words_{self._name(store)}"
        query = f"{quote(word)} AND ({' OR '.join(map(quote, others))})" if others else quote(word)
        found = self._base.execute(f"SELECT rowid FROM {table} WHERE {table} MATCH ? LIMIT {MAX_MATCHES}", (query,))
        return [row for (row,) in found]

    def rows(self, store: str, rows: Iterable[int]) -> dict[int, Row]:
        """Return some rows without their text; missing rows are left out."""
        found = self._base.execute(
            f"SELECT id, words, first, asks, author, month FROM chunks_{self._name(store)} "
            "WHERE id IN (SELECT value FROM json_each(?))",
            (json.dumps(list(rows)),),
        )
        return {row[0]: row for row in map(Row._make, found)}

    def fetch(self, store: str, rows: Sequence[int]) -> Mapping[int, Found]:
        """Return some chunks of a store."""
        name = self._name(store)
        found = self._base.execute(
            f"SELECT c.id, d.path, c.first, c.last, c.heading, c.text, EXISTS(SELECT 1 FROM chunks_{name} n WHERE "
            "n.id IN (c.id - 1, c.id + 1) AND n.document = c.document AND n.first = c.first) "
            f"FROM chunks_{name} c JOIN documents_{name} d ON d.id = c.document "
            "WHERE c.id IN (SELECT value FROM json_each(?))",
            (json.dumps(list(rows)),),
        )
        return {
            row: Found(path=path, first=first, last=last, heading=heading, text=text, part=bool(part))
            for row, path, first, last, heading, text, part in found
        }


def read_places(places: str) -> Postings:
    """Read the rows of a word, separated by commas; a negative one has it in its heading."""
    counts = Counter(json.loads(f"[{places}]"))
    if min(counts, default=0) >= 0:
        return Postings(counts, frozenset())
    text = {row: count for row, count in counts.items() if row > 0}
    return Postings(text, frozenset(-row for row in counts if row < 0 and -row not in text))


def number_month(when: str) -> int:
    """Return the month of a day as yyyymm; 0 if unknown."""
    return int(when[:7].replace("-", "")) if when else 0


def quote(word: str) -> str:
    """Quote a word, so that it is no operator."""
    return '"' + word.replace('"', '""') + '"'


def remove(folder: str) -> None:
    """Remove the file; it is rebuilt from the memories."""
    for ending in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, FILE + ending))


@contextmanager
def translate() -> Iterator[None]:
    """Translate errors of SQLite and of the file system to `Damaged` and `InputError`."""
    try:
        yield
    except OSError as error:
        raise InputError(f"the memory index cannot be used: {error.strerror or error}") from None
    except sqlite3.DatabaseError as error:
        if is_damage(error):
            raise Damaged(str(error)) from None
        remedy = REMEDIES.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, "make room, or try again")
        raise InputError(f"the memory index cannot be used: {error}; {remedy}") from None


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether the file is no usable index, as opposed to a disk that is full, locked or not writable."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (0, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_MISMATCH)
