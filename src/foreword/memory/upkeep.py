"""Upkeep: keeps the index in step with the files, and rebuilds a damaged index."""

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from threading import RLock
from typing import TypeVar

from foreword.engine.sources.documents import Document, join_lines
from foreword.engine.sources.files import LINK_STAMP, REFRESH_INTERVAL_S, Files
from foreword.engine.sources.memory_sections import FACT_STORE, FACTS_FILE, MAIN_FILE, MAIN_STORE, load_facts
from foreword.engine.trust import (
    STORES_PREFIX,
    find_author,
    find_index_store,
    find_provenance,
    find_store_folder,
    is_memory,
    is_own_entry,
)
from foreword.errors import InputError
from foreword.memory.chunk import Chunk, find_day, split, split_message
from foreword.memory.index import FILE, Damaged, Index, remove, translate
from foreword.types import frozen

ATTEMPTS = 2  # to use an index that may be damaged
UNSURE = ("", LINK_STAMP)  # stamps that do not show whether a file has changed
NONSENSE = (LookupError, TypeError, ValueError, ArithmeticError)  # errors that wrong bytes in an index can cause
BATCH = 200  # documents that are indexed at once
STEP = 1_000  # chunks of one document that are indexed at once

T = TypeVar("T")


@frozen(eq=True)
class Stock:
    """The documents of one store, and how many of them are indexed in their current version."""

    store: str
    documents: int
    unreviewed: int
    """Entries among them that agents saved and that no owner has looked at yet."""
    indexed: int
    """Documents that the index knows and that have not changed since; a search indexes the others first."""


@frozen(eq=True)
class Progress:
    """How far the index of a store is built."""

    store: str
    documents: int
    total: int
    chunks: int
    """Passages that were indexed so far, those of a document that is not done included."""


ALONE = {FACT_STORE: FACTS_FILE, MAIN_STORE: MAIN_FILE}  # stores that are one file


class OpenIndex:
    """The index of a folder while it is open: one for everybody, whichever configuration each of them holds to."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.lock = RLock()
        self.index: Index | None = None
        self.notice = ""
        """A repair that the owner should know about."""

    def close(self) -> None:
        """Close the index; the next use opens it again."""
        with self.lock:
            if self.index:
                self.index.close()
            self.index = None


class Upkeep:
    """The files of all stores, and the index that is made of them."""

    def __init__(self, files: Files, listed: Iterable[str], opened: OpenIndex) -> None:
        self._files = files
        self._listed = frozenset(listed)
        self._opened = opened
        self._synced: dict[str, float] = {}
        self.lock = opened.lock

    def share(self, listed: Iterable[str]) -> "Upkeep":
        """Keep the same index under another configuration; who still works under this one is not disturbed."""
        return Upkeep(self._files, listed, self._opened)

    @property
    def notice(self) -> str:
        """A repair that the owner should know about."""
        return self._opened.notice

    def ask(self, ask: Callable[[Index], T]) -> T:
        """Query the index; rebuild it and query again if it is damaged."""
        with self.lock:
            for _ in range(ATTEMPTS):
                with suppress(Damaged), self._guarded() as index:
                    return ask(index)
            raise InputError(f"the memory index cannot be built: {self.notice}; remove .foreword/{FILE}")

    def reindex(self, stores: Iterable[str]) -> Iterator[Progress]:
        """Rebuild the index, and report progress."""
        names = list(stores)
        with self.lock:
            self.ask(lambda index: empty({*names, *index.stores()}, index))
            try:
                with self._guarded() as index:
                    for name in names:
                        yield from self._sync(name, index, now=True)
            except Damaged:
                raise InputError(f"{self.notice}; try again") from None

    def close(self) -> None:
        """Close the index."""
        with self.lock:
            self._opened.close()
            self._synced.clear()

    def is_listed(self, path: str) -> bool:
        """Whether the configuration lists a file by name, so that it is no memory."""
        return path in self._listed

    def list(self, store: str) -> list[str]:
        """List the files of a store."""
        return list(self._look(store))

    def weigh(self, store: str, index: Index) -> Stock:
        """Count what a store holds, and what the index knows of it."""
        stamps, known = self._look(store), index.stamps(store)
        return Stock(
            store=store,
            documents=len(stamps),
            unreviewed=sum(bool(find_author(path)) and not is_own_entry(path) for path in stamps),
            indexed=sum(path in known and self._is_same(path, stamp, known[path]) for path, stamp in stamps.items()),
        )

    def _is_same(self, path: str, stamp: str, known: tuple[str, str]) -> bool:
        """Return whether a file is unchanged since it was indexed, by its stamp, else by its text."""
        if stamp == known[0] and stamp not in UNSURE:
            return True
        document = self._files.read(path)
        return isinstance(document, Document) and document.sha256 == known[1]

    def see(self, *stores: str) -> None:
        """See an own write at once."""
        self._files.refresh(now=True)
        for store in stores:
            self._synced.pop(store, None)

    def follow(self, stores: Iterable[str], index: Index) -> None:
        """Bring the index of some stores up to date."""
        for name in stores:
            deque(self._sync(name, index), maxlen=0)

    @contextmanager
    def _guarded(self) -> Iterator[Index]:
        """Hand out the index; one that is damaged is thrown away, and said so."""
        try:
            with translate():
                if self._opened.index is None:
                    make_room(os.path.join(self._opened.folder, FILE))
                    self._opened.index = Index(self._opened.folder)
                yield self._opened.index
        except (Damaged, *NONSENSE) as damage:
            self._discard()
            self._opened.notice = f"the memory index was damaged ({damage}) and is built anew"
            raise Damaged(str(damage)) from None

    def _discard(self) -> None:
        """Throw the index away; the files are the truth, and it is built from them again."""
        self.close()
        with translate():
            remove(self._opened.folder)

    def _look(self, store: str) -> dict[str, str]:
        """Look at the files of a store: each with the stamp by which a change is seen, nothing where that is unsure.

        A link may not lead out of its store, and what the configuration lists by name is no memory.
        """
        folder, files = find_store_folder(store), self._files
        if store in ALONE:
            path = ALONE[store]
            found = isinstance(files.read(path), Document) and files.find_target(path) == path
            return {path: files.stamp(path)} if found and (path == MAIN_FILE or path not in self._listed) else {}
        if files.find_target(folder) != folder:
            return {}
        paths = [path for path in files.list(folder) if path not in self._listed]
        if not folder.startswith(STORES_PREFIX):  # a person's own memory is one store for each clearance
            paths = [path for path in paths if find_index_store(path) == store]
        stamps = files.stamps(paths)
        if LINK_STAMP not in stamps.values():
            return stamps
        return {path: stamp for path, stamp in stamps.items() if stamp != LINK_STAMP or self._holds(path)}

    def _holds(self, path: str) -> bool:
        """Whether a link leads to another file of its store."""
        target = self._files.find_target(path)
        inside = is_memory(target) and find_index_store(target) == find_index_store(path)
        return target != path and inside and target not in self._listed

    def _sync(self, store: str, index: Index, *, now: bool = False) -> Iterator[Progress]:
        """Bring the index of one store up to date, at most every 250 ms unless asked to do it now."""
        clock = time.monotonic()
        if not now and clock - self._synced.get(store, -REFRESH_INTERVAL_S) < REFRESH_INTERVAL_S:
            return
        self._files.refresh(now=now)
        known = index.stamps(store)
        stamps = self._look(store)
        gone = known.keys() - stamps.keys()
        if gone:
            with index.writing():
                for path in gone:
                    index.drop(store, path)
        stale = [path for path, stamp in stamps.items() if stamp in UNSURE or known.get(path, ("", ""))[0] != stamp]
        chunks = 0
        for start in range(0, len(stale), BATCH):
            with index.writing():
                for at, path in enumerate(stale[start : start + BATCH], start):
                    for count in self._put(store, path, stamps[path], known, index):
                        chunks += count
                        if count == STEP:
                            yield Progress(store=store, documents=at, total=len(stale), chunks=chunks)
            yield Progress(store=store, documents=min(start + BATCH, len(stale)), total=len(stale), chunks=chunks)
        if len(stale) > BATCH or chunks > STEP:
            index.optimize(store)
        self._synced[store] = clock

    def _put(
        self, store: str, path: str, stamp: str, known: Mapping[str, tuple[str, str]], index: Index
    ) -> Iterator[int]:
        """Index a document whose file has changed, unless its text has not; yields how many chunks each step took."""
        document = Files(self._files.root).read(path)  # uncached: every cached file is checked again with each sweep
        if not isinstance(document, Document):
            index.drop(store, path)
        elif document.sha256 == known.get(path, ("", ""))[1]:
            index.restamp(store, path, stamp)
        else:
            chunks = split_document(path, document)
            index.put(store, path, (stamp, document.sha256), step := list(islice(chunks, STEP)))
            while step:
                yield len(step)
                index.append(store, path, step := list(islice(chunks, STEP)))


def make_room(place: str) -> None:
    """Move away anything at the path of the index that is no file; it may be valuable."""
    if os.path.isfile(place) or not os.path.lexists(place):
        return
    try:
        os.replace(place, f"{place}.aside")
    except OSError as error:
        raise InputError(f"{place} is no file: {error.strerror or error}; move it away") from None
    raise Damaged(f"it was no file, and what it was is now {FILE}.aside")


def empty(stores: Iterable[str], index: Index) -> None:
    """Empty stores in the index; not by removing the file, which other processes may be reading."""
    with index.writing():
        for store in stores:
            index.empty(store)


def split_document(path: str, document: Document) -> Iterator[Chunk]:
    """Split a memory into chunks: its facts, one entry, or its messages and paragraphs."""
    if path == FACTS_FILE:
        for at, fact in enumerate(load_facts(document) or (), 1):
            yield Chunk(first=at, last=at, heading="", text=fact, when=find_day(fact))
        return
    about = join_lines(document.field("description"))
    origin = find_provenance(path, document)
    when = find_day(document.field("date") or document.field("time") or path)
    for chunk in split_message(document.body, origin.author, when) if origin else split(document.body, when):
        yield replace(chunk, about=about)
        about = ""
