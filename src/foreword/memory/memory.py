"""The memory of a workspace: found by search, listed with prices, saved with provenance, never above a clearance."""

import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from threading import RLock
from typing import TypeVar

from foreword.config.schema import Config
from foreword.errors import InputError
from foreword.frozen import frozen
from foreword.memory.chunk import find_day, split
from foreword.memory.entry import (
    NAME,
    Note,
    Provenance,
    check_text,
    find_place,
    find_provenance,
    write_file,
    write_note,
)
from foreword.memory.index import FILE, Index
from foreword.memory.rank import STOP, rank, read_question
from foreword.sources.catalogue import list_stores
from foreword.sources.document import Document
from foreword.sources.files import LINK, SWEEP, Files
from foreword.tokens import Meter
from foreword.words import Trust

LONGEST_QUERY = 2_000  # characters of a query that are looked at
MOST = 50  # results of one search
ATTEMPTS = 2  # to use an index that may be damaged
UNSURE = ("", LINK)  # stamps that do not tell whether a file has changed
BATCH = 200  # documents that are indexed at once

T = TypeVar("T")


@frozen(eq=True)
class Hit:
    """One chunk that a search found."""

    path: str
    """The path by which memory_get reads it: the store, then the file."""
    first: int
    last: int
    heading: str
    text: str
    score: float
    provenance: Provenance | None = None


@frozen(eq=True)
class Entry:
    """Something that was saved and that no owner has looked at yet."""

    path: str
    text: str
    provenance: Provenance


@frozen(eq=True)
class Saved:
    """What was done with something that was to be saved."""

    path: str
    store: str
    known: bool = False
    """Whether the very same text was there already, so that nothing was written."""


@frozen(eq=True)
class Stock:
    """What one store holds, and how much of it the index knows as it is now."""

    store: str
    documents: int
    unreviewed: int
    """Entries among them that agents saved and that no owner has looked at yet."""
    indexed: int
    """Documents that the index knows and that have not changed since; a search indexes the others first."""


class Memory:
    """The stores of one workspace."""

    def __init__(self, files: Files, config: Config, folder: str, clock: Callable[[], datetime]) -> None:
        self._files = files
        self._stores = config.stores
        self._listed = frozenset(entry.path for entry in config.prompt.files)
        self.folder = folder
        """Where the state of the workspace lies: the index, and beside it the log."""
        self.now = clock
        self._lock = RLock()
        self._index: Index | None = None
        self._stop: frozenset[str] = frozenset()
        self._synced: dict[str, float] = {}
        self.notice = ""
        """What was mended on the way, for the owner."""

    def open_to(self, clearance: Trust, store: str = "") -> list[str]:
        """Name the stores that a clearance may see, or the one that is asked for if it is among them."""
        names = sorted(name for name, settings in self._stores.items() if clearance >= settings.trust)
        return [name for name in names if store in ("", name)]

    def search(self, query: str, clearance: Trust, *, limit: int = 5, store: str = "") -> list[Hit]:
        """Find what answers a query in the stores that the clearance may see; no other store is touched."""
        if limit < 1:
            raise InputError("a search has at least one result to find")
        names = self.open_to(clearance, store)
        text = query[:LONGEST_QUERY].encode("utf-8", "replace").decode()
        if not text.strip() or not names:
            return []
        return self._ask(lambda index: self._find(text, names, min(limit, MOST), index))

    def _find(self, text: str, names: Iterable[str], limit: int, index: Index) -> list[Hit]:
        question = read_question(text, index, self._stop)
        for name in names:
            deque(self._sync(name, index), maxlen=0)
        with index.reading():
            ranked = [(score, name, row) for name in names for score, row in rank(question, name, index, limit)]
            ranked.sort(key=lambda one: (-one[0], one[1], one[2]))
            return list(self._show(ranked[:limit], index))

    def _ask(self, ask: Callable[[Index], T]) -> T:
        """Ask the index; if it turns out to be damaged, ask the one that is built anew."""
        with self._lock:
            for _ in range(ATTEMPTS):
                with suppress(Damaged), self._guarded() as index:
                    return ask(index)
            raise InputError(f"the memory index cannot be built: {self.notice}; remove {self.folder}/{FILE}")

    def _show(self, found: Iterable[tuple[float, str, int]], index: Index) -> Iterator[Hit]:
        for score, store, row in found:
            one = index.fetch(store, [row])[row]
            document = self._files.read(one.path)
            if not isinstance(document, Document):
                continue  # it went away between the index and this look
            yield Hit(
                path=one.path.removeprefix("memory/"),
                first=one.first,
                last=one.last,
                heading=one.heading,
                text=one.text,
                score=round(score, 4),
                provenance=find_provenance(one.path, document),
            )

    def save(self, note: Note, store: str) -> Saved:
        """Save a note in a store's inbox, under its author's name; the very same text is not saved twice."""
        text = check_text(note.text)
        if store not in self._stores:
            raise InputError(f"there is no store {store!r}")
        with self._lock:
            self._files.refresh(now=True)
            for path in self._list(store):
                known = self._files.read(path)
                if isinstance(known, Document) and known.body == text:
                    return Saved(path=path.removeprefix("memory/"), store=store, known=True)
            clean = replace(note, text=text)
            path = find_place(store, clean)
            write_file(self._files.root, path, write_note(clean))
            self._notice_change(store)
            return Saved(path=path.removeprefix("memory/"), store=store)

    def find_own(self, author: str, clearance: Trust) -> Iterator["Entry"]:
        """Find what was saved for somebody in the stores that the clearance may see, the newest first."""
        return (entry for entry in self.entries(clearance) if entry.provenance.author == author)

    def entries(self, clearance: Trust) -> Iterator["Entry"]:
        """Find every entry that waits for review in the stores that the clearance may see, the newest first."""
        self._files.refresh(now=True)
        found: list[Entry] = []
        for store in self.open_to(clearance):
            for path in self._list(store):
                document = self._files.read(path)
                origin = find_provenance(path, document) if isinstance(document, Document) else None
                if origin and isinstance(document, Document):
                    found.append(Entry(path=path.removeprefix("memory/"), text=document.body, provenance=origin))
        return iter(sorted(found, key=lambda entry: (entry.provenance.time, entry.path), reverse=True))

    def menu(self, clearance: Trust, meter: Meter, store: str = "") -> list[str]:
        """List what the clearance may load, each with its price, as the menu does."""
        self._files.refresh(now=True)
        names = self.open_to(clearance, store)
        return list_stores(names, self._list, self._files.read, meter)[0]

    def take_stock(self, clearance: Trust) -> list[Stock]:
        """Say what the stores hold that the clearance may see, and how fresh the index of each is."""
        self._files.refresh(now=True)
        return self._ask(lambda index: [self._weigh(name, index) for name in self.open_to(clearance)])

    def _weigh(self, store: str, index: Index) -> Stock:
        stamps, known = self._look(store), index.stamps(store)
        return Stock(
            store=store,
            documents=len(stamps),
            unreviewed=sum(path.startswith(f"memory/{store}/inbox/") for path in stamps),
            indexed=sum(path in known and stamp in (*UNSURE, known[path][0]) for path, stamp in stamps.items()),
        )

    def forget(self, path: str, clearance: Trust) -> None:
        """Remove a memory from the files and from the index."""
        store, place = path.partition("/")[0], f"memory/{path}"
        if place not in self._list_for(store, clearance):
            raise InputError(f"there is no {path!r} here")
        self._remove(place)
        self._notice_change(store)
        self._ask(lambda index: self._drop(store, place, index))

    def _drop(self, store: str, path: str, index: Index) -> None:
        with index.writing():
            index.drop(store, path)
        index.scrub(store)

    def promote(self, path: str, target: str, clearance: Trust) -> str:
        """Move an entry out of its inbox, as the owner's word from then on; a person has confirmed it."""
        self._files.refresh(now=True)
        origin, place = path.partition("/")[0], f"memory/{path}"
        document = self._files.read(place) if place in self._list_for(origin, clearance) else None
        if not isinstance(document, Document) or find_provenance(place, document) is None:
            raise InputError(f"there is no entry {path!r} that waits for review")
        store, _, name = target.partition("/")
        if store not in self.open_to(clearance) or not NAME.fullmatch(name) or not name.endswith(".md"):
            raise InputError(f"{target} is no place for a memory; write STORE/NAME.md")
        write_file(self._files.root, f"memory/{target}", f"{document.body}\n")
        self._remove(place)
        self._notice_change(store, origin)
        return target

    def _remove(self, place: str) -> None:
        try:
            os.unlink(self._files.locate(place))
        except OSError as error:
            raise InputError(f"{place} cannot be removed: {error.strerror or error}") from None

    def _list_for(self, store: str, clearance: Trust) -> list[str]:
        return self._list(store) if store in self.open_to(clearance) else []

    def _notice_change(self, *stores: str) -> None:
        """See an own write at once."""
        self._files.refresh(now=True)
        for store in stores:
            self._synced.pop(store, None)

    def _list(self, store: str) -> list[str]:
        return list(self._look(store))

    def _look(self, store: str) -> dict[str, str]:
        """Look at the files of a store: each with the stamp by which a change is seen, nothing where that is unsure.

        A link may not lead out of its store, and what the configuration lists by name is no memory.
        """
        folder, files = f"memory/{store}", self._files
        if files.find_target(folder) != folder:
            return {}
        paths = [path for path in files.list(folder) if path not in self._listed]
        stamps = {path: files.stamp(path) for path in paths}
        return {path: stamp for path, stamp in stamps.items() if self._holds(path, stamp)}

    def _holds(self, path: str, stamp: str) -> bool:
        if stamp != LINK:
            return True
        target = self._files.find_target(path)
        inside = target.startswith(path[: path.index("/", len("memory/")) + 1])
        return target != path and inside and target not in self._listed

    def find_store(self, clearance: Trust) -> str:
        """Find the store of a clearance: the one with the highest trust that is not above it."""
        fitting = [(settings.trust, name) for name, settings in self._stores.items() if settings.trust <= clearance]
        if not fitting:
            raise InputError("nothing can be remembered at this clearance")
        return max(fitting)[1]

    def close(self) -> None:
        """Close the index."""
        with self._lock:
            if self._index:
                self._index.close()
            self._index = None
            self._synced.clear()

    def reindex(self) -> Iterator[tuple[str, int, int]]:
        """Build the index anew; tells the store, and how many of how many documents are done."""
        with self._lock:
            self._discard()
            try:
                with self._guarded() as index:
                    for name in sorted(self._stores):
                        yield from self._sync(name, index, now=True)
            except Damaged:
                raise InputError(f"{self.notice}; try again") from None

    @contextmanager
    def _guarded(self) -> Iterator[Index]:
        """Hand out the index; one that is damaged is thrown away, and said so."""
        try:
            yield self._open()
        except OSError as error:
            raise InputError(f"the memory index cannot be used: {error.strerror or error}") from None
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise InputError(f"the memory index cannot be used: {error}; make room, or try again") from None
            self._discard()
            self.notice = f"the memory index was damaged ({error}) and is built anew"
            raise Damaged from None

    def _open(self) -> Index:
        if self._index is None:
            self._index = Index(self.folder)
            self._stop = frozenset(self._index.stem(STOP))
        return self._index

    def _discard(self) -> None:
        """Throw the index away; the files are the truth, and it is built from them again."""
        if self._index:
            self._index.close()
        self._index = None
        self._synced.clear()
        for ending in ("", "-wal", "-shm"):
            try:
                os.unlink(os.path.join(self.folder, FILE + ending))
            except FileNotFoundError:
                continue
            except OSError as error:
                raise InputError(f"the memory index cannot be replaced: {error.strerror or error}") from None

    def _sync(self, store: str, index: Index, *, now: bool = False) -> Iterator[tuple[str, int, int]]:
        """Bring the index of one store up to date, at most every 250 ms unless asked to do it now."""
        clock = time.monotonic()
        if not now and clock - self._synced.get(store, -SWEEP) < SWEEP:
            return
        self._files.refresh(now=now)
        known = index.stamps(store)
        stamps = self._look(store)
        gone = known.keys() - stamps.keys()
        stale = [path for path, stamp in stamps.items() if stamp in UNSURE or known.get(path, ("", ""))[0] != stamp]
        for start in range(0, len(stale) + 1, BATCH):
            batch = stale[start : start + BATCH]
            if not batch and not gone:
                break
            with index.writing():
                for path in gone:
                    index.drop(store, path)
                gone = set()
                for path in batch:
                    self._put(store, path, stamps[path], known.get(path, ("", ""))[1], index)
            yield store, start + len(batch), len(stale)
        self._synced[store] = clock

    def _put(self, store: str, path: str, stamp: str, sha256: str, index: Index) -> None:
        """Index one document whose file has changed, unless its text has not."""
        document = Files(self._files.root).read(path)  # not kept: what is kept is looked at again and again
        if not isinstance(document, Document):
            index.drop(store, path)
        elif document.sha256 == sha256:
            index.restamp(store, path, stamp)
        else:
            origin = find_provenance(path, document)
            when = find_day(document.field("date") or document.field("time") or path)
            chunks = split(document.body, author=origin.author if origin else "", when=when)
            index.put(store, path, (stamp, document.sha256), chunks)


class Damaged(Exception):
    """The index was thrown away; what was asked for is to be asked again."""


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the file is no usable index, as opposed to a disk that is full, locked or not to be written."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (0, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_MISMATCH)
