"""The index in one SQLite file: a full-text table per store, so that words of one store move no score of another."""

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress

from foreword.errors import InputError
from foreword.memory.chunk import Chunk
from foreword.memory.index import Damaged, Figures, Found, Row

FILE = "memory.sqlite"
VERSION = 6  # of the tables and of how documents are split; an index of another version is rebuilt
PATIENCE = 5.0  # seconds to wait for another process that writes
TOKENIZE = "porter unicode61 remove_diacritics 2"
KINDS = ("vocabulary", "counts", "words", "chunks", "documents", "authors")  # in the order in which they can go
COMMON = 1_000  # chunks with a word, from which on counting them takes long enough to remember the count
MATCHES = 4_000  # rows of a query that says next to nothing
CACHE = 32_000  # KiB of the page cache
GAP = 3  # rows between two documents; neighbours are at most two apart


class SqliteIndex:
    """The index of a workspace's memory, in one SQLite file; without a folder, in memory."""

    def __init__(self, folder: str = "") -> None:
        self.path = os.path.join(folder, FILE) if folder else ":memory:"
        if folder:
            os.makedirs(folder, exist_ok=True)
        self._stores: dict[str, str] = {}
        self._figures: dict[str, tuple[int, Figures]] = {}
        self._stamps: dict[str, tuple[int, dict[str, tuple[str, str]]]] = {}
        self._common: dict[str, tuple[int, dict[str, int]]] = {}
        self._schema = 0
        self._open()

    def _open(self) -> None:
        self._base = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        self._base.execute("PRAGMA journal_mode=WAL")
        with suppress(OSError):
            os.chmod(self.path, 0o600)  # it holds the words of every store
        self._base.execute("PRAGMA synchronous=NORMAL")
        self._base.execute(f"PRAGMA cache_size=-{CACHE}")
        self._base.execute("PRAGMA secure_delete=ON")  # deleted text must not stay in free pages
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
            self._undo()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write everything that is done inside, or nothing of it."""
        self._base.execute("BEGIN IMMEDIATE")
        try:
            self._follow_schema()
            yield
            self._base.execute("COMMIT")
        except BaseException:
            self._undo()
            raise

    def _follow_schema(self) -> None:
        """Forget which tables there are where another process has made or removed some."""
        (schema,) = self._base.execute("PRAGMA schema_version").fetchone()
        if schema != self._schema:
            self._schema = schema
            for known in (self._stores, self._figures, self._common, self._stamps):
                known.clear()

    def _undo(self) -> None:
        if self._base.in_transaction:  # a disk that is full has ended it already
            self._base.execute("ROLLBACK")

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def clear(self) -> None:
        """Drop every table."""
        found = [name for (name,) in self._base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        names = [name for kind in KINDS for name in found if name.partition("_")[0] == kind]
        with self.writing():
            for name in names:
                if name.count("_") == 1:  # the others belong to a full-text table and go with it
                    self._base.execute(f"DROP TABLE IF EXISTS {name}")
            self._base.execute("DROP TABLE IF EXISTS stores")
        self._stores.clear()
        self._figures.clear()
        self._common.clear()
        self._stamps.clear()

    def _name(self, store: str) -> str:
        """Return the ending of a store's tables, which are made when they are first needed.

        It follows from the name alone: a number could mean another store once another process has cleared the file.
        """
        name = self._stores.get(store)
        if name is not None:
            return name
        name = store.encode().hex()
        if self._base.execute("SELECT 1 FROM stores WHERE name = ?", (store,)).fetchone() is None:
            inside = self._base.in_transaction
            with nullcontext() if inside else self.writing():
                # Changes are counted from anywhere: after a clearing, the same number means the same content.
                self._base.execute("INSERT OR IGNORE INTO stores(name, changes) VALUES (?, random() / 2)", (store,))
                self._make(name)
            if inside:
                return name  # it may yet be rolled back
        self._stores[store] = name
        return name

    def _make(self, name: str) -> None:
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

    def stores(self) -> Collection[str]:
        """Name the stores of which something is indexed."""
        return [name for (name,) in self._base.execute("SELECT name FROM stores ORDER BY name")]

    def stamps(self, store: str) -> Mapping[str, tuple[str, str]]:
        """Return the indexed documents of a store: path, stamp of the file and hash of the text."""
        self._follow_schema()
        name = self._name(store)
        (changes,) = self._base.execute("SELECT changes FROM stores WHERE name = ?", (store,)).fetchone()
        known = self._stamps.get(store)
        if known is None or known[0] != changes:
            rows = self._base.execute(f"SELECT path, stamp, sha256 FROM documents_{name}")
            known = self._stamps[store] = (changes, {path: (stamp, sha256) for path, stamp, sha256 in rows})
        return known[1]

    def restamp(self, store: str, path: str, stamp: str) -> None:
        """Note that a file was touched and says what it said, inside `writing`."""
        self._base.execute(f"UPDATE documents_{self._name(store)} SET stamp = ? WHERE path = ?", (stamp, path))
        self._touch(store, 0, 0)

    def put(self, store: str, path: str, mark: tuple[str, str], chunks: Iterable[Chunk]) -> None:
        """Index a document, replacing its chunks, inside `writing`."""
        name = self._name(store)
        self.drop(store, path)
        # Rows are left free between documents, so that no chunk is near one of another document.
        self._base.execute(
            f"INSERT INTO documents_{name}(path, stamp, sha256, start, words) VALUES (?, ?, ?, ?, 0)",
            (path, *mark, self._find_last(name) + GAP),
        )
        self.append(store, path, chunks)

    def append(self, store: str, path: str, chunks: Iterable[Chunk]) -> None:
        """Index more chunks of the document that was put last, inside `writing`."""
        name, base = self._name(store), self._base
        document, start = base.execute(f"SELECT id, start FROM documents_{name} WHERE path = ?", (path,)).fetchone()
        free = max(start, self._find_last(name) + 1)
        rows = [
            (
                free + at,
                document,
                one.first,
                one.last,
                len(one.text.split()),
                one.is_question,
                one.author,
                number_month(one.when),
                one.heading,
                one.about,
                one.text,
            )
            for at, one in enumerate(chunks)
        ]
        words = sum(one[4] for one in rows)
        base.executemany(f"INSERT INTO chunks_{name} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        base.executemany(
            f"INSERT INTO words_{name}(rowid, text, heading, about) VALUES (?, ?, ?, ?)",
            [(one[0], one[10], one[8], one[9]) for one in rows],
        )
        base.executemany(
            f"INSERT INTO authors_{name} VALUES (?, ?) "
            "ON CONFLICT (name) DO UPDATE SET chunks = chunks + excluded.chunks",
            sorted(Counter(one[6] for one in rows if one[6]).items()),
        )
        base.execute(f"UPDATE documents_{name} SET words = words + ? WHERE id = ?", (words, document))
        self._touch(store, len(rows), words)

    def _find_last(self, name: str) -> int:
        """Return the last row of a store's chunks."""
        (last,) = self._base.execute(f"SELECT coalesce(max(id), 0) FROM chunks_{name}").fetchone()
        return int(last)

    def drop(self, store: str, path: str) -> None:
        """Forget a document, inside `writing`."""
        name = self._name(store)
        base = self._base
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
        self._touch(store, -chunks, -words)

    def empty(self, store: str) -> None:
        """Forget every document of a store, inside `writing`."""
        name = self._name(store)
        self._base.execute(f"INSERT INTO words_{name}(words_{name}) VALUES ('delete-all')")
        for kind in ("chunks", "documents", "authors"):
            self._base.execute(f"DELETE FROM {kind}_{name}")
        self._base.execute("UPDATE stores SET changes = changes + 1, chunks = 0, words = 0 WHERE name = ?", (store,))

    def remove(self, store: str) -> None:
        """Forget a store and its name, inside `writing`."""
        name = store.encode().hex()
        for kind in KINDS:
            self._base.execute(f"DROP TABLE IF EXISTS {kind}_{name}")
        self._base.execute("DELETE FROM stores WHERE name = ?", (store,))
        for known in (self._stores, self._figures, self._common, self._stamps):
            known.pop(store, None)

    def settle(self, store: str) -> None:
        """Bring the words of a store together after many were indexed; a search looks in each heap of them."""
        name = self._name(store)
        self._base.execute(f"INSERT INTO words_{name}(words_{name}) VALUES ('optimize')")

    def scrub(self, store: str) -> None:
        """Overwrite the bytes of dropped documents in the file."""
        self.settle(store)
        self._base.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _touch(self, store: str, chunks: int, words: int) -> None:
        self._base.execute(
            "UPDATE stores SET changes = changes + 1, chunks = chunks + ?, words = words + ? WHERE name = ?",
            (chunks, words, store),
        )

    def figures(self, store: str) -> Figures:
        """Return the totals of a store, read again only when the store has changed."""
        name = self._name(store)
        changes, chunks, words = self._base.execute(
            "SELECT changes, chunks, words FROM stores WHERE name = ?", (store,)
        ).fetchone()
        known = self._figures.get(store)
        if known is None or known[0] != changes:
            pages = self._base.execute(f"SELECT start, words FROM documents_{name} ORDER BY start, words").fetchall()
            authors = self._base.execute(f"SELECT name FROM authors_{name}").fetchall()
            figures = Figures(
                chunks=chunks,
                words=words,
                starts=tuple(start for start, _ in pages),
                sizes=tuple(size for _, size in pages),
                authors=tuple(author for (author,) in authors),
            )
            known = self._figures[store] = (changes, figures)
        return known[1]

    def stem(self, text: str) -> tuple[str, ...]:
        """Return the words of a text as the index knows them, in their order."""
        self._base.execute("INSERT INTO temp.spoken(rowid, text) VALUES (1, ?)", (text,))
        words = self._base.execute("SELECT term FROM temp.spoken_words ORDER BY offset").fetchall()
        self._base.execute("DELETE FROM temp.spoken")
        return tuple(word for (word,) in words)

    def frequency(self, store: str, word: str) -> int:
        """Count the chunks of a store that have a word; a common word is counted again only after a change."""
        name = self._name(store)
        (changes,) = self._base.execute("SELECT changes FROM stores WHERE name = ?", (store,)).fetchone()
        known, counts = self._common.get(store, (None, {}))
        if known == changes and word in counts:
            return counts[word]
        row = self._base.execute(f"SELECT doc FROM counts_{name} WHERE term = ?", (word,)).fetchone()
        count = int(row[0]) if row else 0
        if count >= COMMON:
            self._common[store] = (changes, {**(counts if known == changes else {}), word: count})
        return count

    def postings(self, store: str, word: str) -> list[tuple[int, str, int]]:
        """Return every place of a word in a store: the row, the column and the place in it."""
        name = self._name(store)
        return self._base.execute(f"SELECT doc, col, offset FROM vocabulary_{name} WHERE term = ?", (word,)).fetchall()

    def match(self, store: str, word: str, others: Sequence[str]) -> list[int]:
        """Return the rows that have a word, and any of some others where there are any; of very many, some."""
        table = f"words_{self._name(store)}"
        query = f"{quote(word)} AND ({' OR '.join(map(quote, others))})" if others else quote(word)
        found = self._base.execute(f"SELECT rowid FROM {table} WHERE {table} MATCH ? LIMIT {MATCHES}", (query,))
        return [row for (row,) in found]

    def rows(self, store: str, rows: Sequence[int]) -> Mapping[int, Row]:
        """Return some rows without their text; missing rows are left out."""
        found = self._base.execute(
            f"SELECT id, words, first, asks, author, month FROM chunks_{self._name(store)} "
            "WHERE id IN (SELECT value FROM json_each(?))",
            (json.dumps(list(rows)),),
        )
        return {one[0]: Row(*one[1:]) for one in found}

    def fetch(self, store: str, rows: Sequence[int]) -> Mapping[int, Found]:
        """Return some chunks of a store."""
        name = self._name(store)
        marks = ",".join("?" * len(rows))
        found = self._base.execute(
            f"SELECT c.id, d.path, c.first, c.last, c.heading, c.text FROM chunks_{name} c "
            f"JOIN documents_{name} d ON d.id = c.document WHERE c.id IN ({marks})",
            tuple(rows),
        )
        return {
            row: Found(path=path, first=first, last=last, heading=heading, text=text)
            for row, path, first, last, heading, text in found
        }


def number_month(when: str) -> int:
    """Write the month of a day as yyyymm; 0 if unknown."""
    return int(when[:7].replace("-", "")) if when else 0


def quote(word: str) -> str:
    """Write a word so that it is no operator."""
    return '"' + word.replace('"', '""') + '"'


def remove(folder: str) -> None:
    """Remove the file; it is built from the memories again."""
    for ending in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, FILE + ending))


@contextmanager
def translate() -> Iterator[None]:
    """Translate errors of SQLite and of the file system to those of the interface."""
    try:
        yield
    except OSError as error:
        raise InputError(f"the memory index cannot be used: {error.strerror or error}") from None
    except sqlite3.DatabaseError as error:
        if is_damage(error):
            raise Damaged(str(error)) from None
        remedy = "make .foreword writable" if is_closed(error) else "make room, or try again"
        raise InputError(f"the memory index cannot be used: {error}; {remedy}") from None


def is_closed(error: sqlite3.Error) -> bool:
    """Whether the file cannot be written for good."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the file is no usable index, as opposed to a disk that is full, locked or not to be written."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (0, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_MISMATCH)
