"""Index updates: bring the search index up to date with the files, and rebuild a damaged index."""

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

MAX_ATTEMPTS = 2  # to use an index that may be damaged
UNRELIABLE_STAMPS = ("", LINK_STAMP)  # stamps that do not show whether a file has changed
DAMAGE_ERRORS = (LookupError, TypeError, ValueError, ArithmeticError)  # errors that wrong bytes in an index can cause
BATCH_DOCUMENTS = 200  # documents that are indexed at once
BATCH_CHUNKS = 1_000  # chunks of one document that are indexed at once

T = TypeVar("T")


@frozen(eq=True)
class Stock:
    """The documents of one store, and how many of them are indexed in their current version."""

    store: str
    documents: int
    unreviewed: int
    """Entries that agents saved and the owner has not reviewed."""
    indexed: int
    """Documents indexed in their current version; a search indexes the others first."""


@frozen(eq=True)
class Progress:
    """Progress of indexing a store."""

    store: str
    documents: int
    total: int
    chunks: int
    """Passages indexed so far, including those of an unfinished document."""


SINGLE_FILE_STORES = {FACT_STORE: FACTS_FILE, MAIN_STORE: MAIN_FILE}  # stores that are one file


class OpenIndex:
    """The open index of a folder, shared by all configurations of the workspace."""

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


class IndexSync:
    """Keeps the index of all stores up to date."""

    def __init__(self, files: Files, listed: Iterable[str], opened: OpenIndex) -> None:
        self._files = files
        self._listed = frozenset(listed)
        self._opened = opened
        self._synced: dict[str, float] = {}
        self.lock = opened.lock

    def share(self, listed: Iterable[str]) -> "IndexSync":
        """Return a copy for another configuration that uses the same index."""
        return IndexSync(self._files, listed, self._opened)

    @property
    def notice(self) -> str:
        """A repair that the owner should know about."""
        return self._opened.notice

    def query(self, read: Callable[[Index], T]) -> T:
        """Run a query on the index; if the index is damaged, rebuild it and run the query again."""
        with self.lock:
            for _ in range(MAX_ATTEMPTS):
                with suppress(Damaged), self._guarded() as index:
                    return read(index)
            raise self._give_up()

    def _give_up(self) -> InputError:
        return InputError(f"the memory index cannot be built: {self.notice}; remove .foreword/{FILE}")

    def reindex(self, stores: Iterable[str]) -> Iterator[Progress]:
        """Rebuild the index, and report progress."""
        names = list(stores)
        with self.lock:
            self.query(lambda index: empty({*names, *index.stores()}, index))
            yield from self.update(names)

    def update(self, stores: Iterable[str]) -> Iterator[Progress]:
        """Bring the index of some stores up to date, and report progress; begin again if it is damaged."""
        names = list(stores)
        with self.lock:
            for _ in range(MAX_ATTEMPTS):
                with suppress(Damaged), self._guarded() as index:
                    for name in names:
                        yield from self._sync(name, index, now=True)
                    return
            raise self._give_up()

    def close(self) -> None:
        """Close the index."""
        with self.lock:
            self._opened.close()
            self._synced.clear()

    def is_listed(self, path: str) -> bool:
        """Return whether the configuration lists a file by name; such a file is not memory."""
        return path in self._listed

    def list(self, store: str) -> list[str]:
        """List the files of a store."""
        return list(self._list_stamps(store))

    def count_stock(self, store: str, index: Index) -> Stock:
        """Count the documents of a store and those that are indexed."""
        stamps, known = self._list_stamps(store), index.stamps(store)
        return Stock(
            store=store,
            documents=len(stamps),
            unreviewed=sum(bool(find_author(path)) and not is_own_entry(path) for path in stamps),
            indexed=sum(path in known and self._is_same(path, stamp, known[path]) for path, stamp in stamps.items()),
        )

    def _is_same(self, path: str, stamp: str, known: tuple[str, str]) -> bool:
        """Return whether a file is unchanged since it was indexed, by its stamp, else by its text."""
        if stamp == known[0] and stamp not in UNRELIABLE_STAMPS:
            return True
        document = self._files.read(path)
        return isinstance(document, Document) and document.sha256 == known[1]

    def mark_changed(self, *stores: str) -> None:
        """Sync these stores at the next query, without waiting for the interval."""
        self._files.refresh(now=True)
        for store in stores:
            self._synced.pop(store, None)

    def sync(self, stores: Iterable[str], index: Index) -> None:
        """Bring the index of some stores up to date."""
        for name in stores:
            deque(self._sync(name, index), maxlen=0)

    @contextmanager
    def _guarded(self) -> Iterator[Index]:
        """Yield the index; discard it and set the notice if it is damaged."""
        try:
            with translate():
                if self._opened.index is None:
                    make_room(os.path.join(self._opened.folder, FILE))
                    self._opened.index = Index(self._opened.folder)
                yield self._opened.index
        except (Damaged, *DAMAGE_ERRORS) as damage:
            self._discard()
            self._opened.notice = f"the memory index was damaged ({damage}) and was rebuilt"
            raise Damaged(str(damage)) from None

    def _discard(self) -> None:
        """Delete the index file; the next query builds it from the memory files."""
        self.close()
        with translate():
            remove(self._opened.folder)

    def _list_stamps(self, store: str) -> dict[str, str]:
        """Return the files of a store with their change stamps.

        Links that leave the store and files that the configuration lists by name are left out.
        """
        folder, files = find_store_folder(store), self._files
        if store in SINGLE_FILE_STORES:
            path = SINGLE_FILE_STORES[store]
            found = isinstance(files.read(path), Document) and files.find_target(path) == path
            return files.stamps((path,)) if found and (path == MAIN_FILE or path not in self._listed) else {}
        if files.find_target(folder) != folder:
            return {}
        paths = [path for path in files.list(folder) if path not in self._listed]
        if not folder.startswith(STORES_PREFIX):  # a person's own memory is one store for each clearance
            paths = [path for path in paths if find_index_store(path) == store]
        stamps = files.stamps(paths)
        if LINK_STAMP not in stamps.values():
            return stamps
        return {path: stamp for path, stamp in stamps.items() if stamp != LINK_STAMP or self._stays_in_store(path)}

    def _stays_in_store(self, path: str) -> bool:
        """Return whether a link leads to another file of its store."""
        target = self._files.find_target(path)
        inside = is_memory(target) and find_index_store(target) == find_index_store(path)
        return target != path and inside and target not in self._listed

    def _sync(self, store: str, index: Index, *, now: bool = False) -> Iterator[Progress]:
        """Bring the index of one store up to date, at most every 250 ms unless `now` is set."""
        clock = time.monotonic()
        if not now and clock - self._synced.get(store, -REFRESH_INTERVAL_S) < REFRESH_INTERVAL_S:
            return
        self._files.refresh(now=now)
        known = index.stamps(store)
        stamps = self._list_stamps(store)
        gone = known.keys() - stamps.keys()
        if gone:
            with index.writing():
                for path in gone:
                    index.drop(store, path)
        stale = [
            path
            for path, stamp in stamps.items()
            if stamp in UNRELIABLE_STAMPS or known.get(path, ("", ""))[0] != stamp
        ]
        chunks = 0
        for start in range(0, len(stale), BATCH_DOCUMENTS):
            with index.writing():
                known = index.stamps(store)  # another process may have indexed them while this one waited
                for at, path in enumerate(stale[start : start + BATCH_DOCUMENTS], start):
                    for count in self._put(store, path, stamps[path], known, index):
                        chunks += count
                        if count == BATCH_CHUNKS:
                            yield Progress(store=store, documents=at, total=len(stale), chunks=chunks)
            yield Progress(
                store=store, documents=min(start + BATCH_DOCUMENTS, len(stale)), total=len(stale), chunks=chunks
            )
        if len(stale) > BATCH_DOCUMENTS or chunks > BATCH_CHUNKS:
            index.optimize(store)
        self._synced[store] = clock

    def _put(
        self, store: str, path: str, stamp: str, known: Mapping[str, tuple[str, str]], index: Index
    ) -> Iterator[int]:
        """Index a document whose text has changed; yield the number of chunks after each batch."""
        document = Files(self._files.root).read(path)  # uncached: every cached file is checked again with each sweep
        if not isinstance(document, Document):
            index.drop(store, path)
        elif document.sha256 == known.get(path, ("", ""))[1]:
            index.restamp(store, path, stamp)
        else:
            chunks = split_document(path, document)
            index.put(store, path, (stamp, document.sha256), step := list(islice(chunks, BATCH_CHUNKS)))
            while step:
                yield len(step)
                index.append(store, path, step := list(islice(chunks, BATCH_CHUNKS)))


def make_room(place: str) -> None:
    """Rename anything at the path of the index that is not a file; it may be valuable."""
    if os.path.isfile(place) or not os.path.lexists(place):
        return
    try:
        os.replace(place, f"{place}.aside")
    except OSError as error:
        raise InputError(f"{place} is not a file: {error.strerror or error}; move it away") from None
    raise Damaged(f"it was not a file and was renamed to {FILE}.aside")


def empty(stores: Iterable[str], index: Index) -> None:
    """Empty stores in the index; the file stays, since other processes may be reading it."""
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
        yield replace(chunk, about=about) if about else chunk
        about = ""
