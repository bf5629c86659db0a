"""The memory of a workspace: found by search, listed with prices, saved with provenance, only for who may read it."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from hashlib import sha256

from foreword.config.schema import Config, Store
from foreword.engine.context import ResultCache
from foreword.engine.signal import is_noise
from foreword.engine.sources.documents import Document, join_lines
from foreword.engine.sources.files import Files
from foreword.engine.sources.memory_sections import FACT_STORE, FACTS_FILE, MAIN_FILE, MAIN_STORE, list_stores
from foreword.engine.sources.sections import Passage
from foreword.engine.trust import (
    LEVELS,
    OWN_STORE,
    Audience,
    Provenance,
    find_author,
    find_index_store,
    find_provenance,
    list_index_stores,
    locate_path,
    show_path,
)
from foreword.errors import Forbidden, InputError, quote_name
from foreword.memory.chunk import split_items
from foreword.memory.entry import (
    Confirmed,
    Note,
    check_text,
    find_places,
    write_confirmed,
    write_file,
    write_note,
    write_time,
)
from foreword.memory.index import Found, Index
from foreword.memory.index_sync import IndexSync, OpenIndex, Progress, Stock
from foreword.memory.notes import (
    NOTES,
    Promotion,
    add_fact,
    change_note,
    check_heading,
    edit_file,
    read_note,
)
from foreword.memory.search import (
    Question,
    Ranked,
    SearchWords,
    Snippet,
    find_snippet,
    rank,
    read_question,
    read_search_words,
)
from foreword.tokens.count import Meter
from foreword.turn import check_name, normalize_name
from foreword.types import Trust, frozen

MAX_QUERY_CHARS = 2_000  # the rest of a query is ignored
MAX_RESULTS = 50  # results of one search
MAX_RECALLED = 4  # passages of one turn
# Minimums of a result. bench/memory_recall.py measures how much irrelevant text and how much evidence they leave out.
MIN_SHARE = 0.12  # of the question's words, by rarity, in a store that is large enough for word statistics
LARGE_STORE_CHUNKS = 100
MIN_OF_BEST = 0.5  # of the best result's score
MIN_RECALL_SHARE, MIN_RECALL_SCORE = 0.5, 6.5  # to travel with a message that did not ask for it
PASSAGE_CHARS = 400  # characters of a passage that is recalled
BRIEF_PASSAGE_CHARS = 250  # the same in a brief prompt
BRIEF_CANDIDATES = 8  # hits of each index from which the passages of a brief prompt are chosen
MIN_BRIEF_SHARE = 0.25  # of the question, in a brief prompt
MIN_BRIEF_OF_BEST = 0.6  # of the best passage's share; weaker ones distract
DOCUMENTS = "documents"  # the name of the only store of an index in memory
MAX_DOCUMENT_INDEXES = 16  # sets of documents with an index in memory


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
    share: float = 0.0
    """How much of the question it has, from 0 to 1, weighted by rarity; in a conversation, neighbours count."""
    provenance: Provenance | None = None
    part: bool = False
    """Whether it is a part of a longer line."""


@frozen(eq=True)
class Entry:
    """A saved entry that the owner has not reviewed."""

    path: str
    text: str
    provenance: Provenance


@frozen(eq=True)
class Saved:
    """The result of a save."""

    path: str
    store: str
    known: bool = False
    """Whether the store had the same text, so that nothing was written."""


@frozen(eq=True)
class Survey:
    """The memories to summarise, before any is read."""

    stamp: str
    """Changes with any of the memories; empty if there is none."""
    paths: tuple[str, ...]
    """The files, those changed last first."""


class Memory:
    """The stores of one workspace."""

    def __init__(self, files: Files, config: Config, folder: str, clock: Callable[[], datetime]) -> None:
        self._files = files
        self._stores = config.stores
        self._owner = config.owner
        self._users = frozenset(config.users)
        listed = {entry.path: entry.trust for entry in config.prompt.files if not entry.per_user}
        main = Store(trust=listed.get(MAIN_FILE, Trust.FULL))
        self._readable = {FACT_STORE: Store(trust=Trust.INNER), MAIN_STORE: main, **config.stores}
        trusts = sorted((name, int(store.trust)) for name, store in self._readable.items())
        self.policy = digest(f"{trusts} {sorted(entry.path for entry in config.prompt.files)}")
        """A hash of the settings that decide which files are memory and who may read them."""
        self._index_sync = IndexSync(files, (entry.path for entry in config.prompt.files), OpenIndex(folder))
        self.folder = folder
        """The folder of the workspace's state: index and log."""
        self._search_words: SearchWords | None = None
        self._passing = ResultCache(MAX_DOCUMENT_INDEXES)
        self.now = clock

    def follow(self, config: Config) -> "Memory":
        """Return the memory for another configuration, over the same index."""
        made = Memory(self._files, config, self.folder, self.now)
        made._index_sync = self._index_sync.share(entry.path for entry in config.prompt.files)
        return made

    @property
    def notice(self) -> str:
        """A repair that the owner should know about."""
        return self._index_sync.notice

    def open_to(self, audience: Audience, store: str = "") -> list[str]:
        """List the stores that an audience may see, limited to `store` if it is set."""
        names = sorted(name for name, settings in self._readable.items() if audience.clearance >= settings.trust)
        own = [OWN_STORE] if self._has_own(audience) else []
        return [name for name in (*names, *own) if store in ("", name)]

    def _has_own(self, audience: Audience) -> bool:
        """Return whether an audience is one person who has an own memory."""
        return audience.person in self._users and audience.clearance >= LEVELS[0]

    def _open(self, audience: Audience, store: str = "") -> list[str]:
        """List the index stores that an audience may see; personal memory has one for each clearance."""
        names = self.open_to(audience, store)
        own = list_index_stores(audience.person, audience.clearance) if OWN_STORE in names else []
        return [*(name for name in names if name != OWN_STORE), *own]

    def search(self, query: str, audience: Audience, *, limit: int = 5, store: str = "") -> list[Hit]:
        """Find what answers a query in the stores that the audience may see; no other store is touched."""
        if limit < 1:
            raise InputError("limit must be at least 1")
        names = self._open(audience, store)
        text = query[:MAX_QUERY_CHARS].encode("utf-8", "replace").decode()
        if not text.strip() or not names:
            return []
        return self._index_sync.query(lambda index: self._find(text, names, min(limit, MAX_RESULTS), index))

    def _find(self, text: str, names: Iterable[str], limit: int, index: Index) -> list[Hit]:
        question = self._read_question(text, index)
        self._index_sync.sync(names, index)
        with index.reading():
            ranked = {name: self._rank(question, name, index, limit) for name in names}
            least = MIN_OF_BEST * max((one.score for found in ranked.values() for one in found), default=0.0)
            strong = {name: [one for one in found if one.score >= least] for name, found in ranked.items()}
            hits = [hit for name, found in strong.items() for hit in self._show(name, found, index)]
        # Among equals the path and the line decide: rows are numbered by when they were indexed.
        return sorted(hits, key=lambda hit: (-hit.score, hit.path, hit.first))[:limit]

    def _read_question(self, text: str, index: Index) -> Question:
        self._search_words = self._search_words or read_search_words(index)
        return read_question(text, index, self._search_words)

    def _rank(self, question: Question, store: str, index: Index, limit: int) -> list[Ranked]:
        """Rank the chunks of a store that have enough of the question; in a small store one word is enough.

        Twice the limit is ranked, so that others take the place of those that have too little.
        """
        least = MIN_SHARE if index.figures(store).chunks >= LARGE_STORE_CHUNKS else 0.0
        return [one for one in rank(question, store, index, 2 * limit) if one.share > least]

    def _show(self, store: str, ranked: Iterable[Ranked], index: Index) -> Iterator[Hit]:
        best = list(ranked)
        found = index.fetch(store, [row for _, row, _ in best])
        for score, row, share in best:
            one = found[row]
            # Only entries are opened, for their origin: every opened file is checked again with each sweep.
            document = self._files.read(one.path) if find_author(one.path) else None
            origin = find_provenance(one.path, document) if isinstance(document, Document) else None
            if not (origin if find_author(one.path) else self._files.has(one.path)):
                continue  # removed since it was indexed
            yield make_hit(one, score, share, path=show_path(one.path), provenance=origin)

    def recall(self, message: str, audience: Audience, documents: Sequence[Document] = ()) -> Sequence[Passage]:
        """Find the few passages that clearly match a message, best first; small talk recalls nothing.

        Search the stores of the audience and `documents`; the caller checks access to the documents.
        """
        make = partial(self._make_passage, message=message, person=audience.person)
        if is_noise(message):
            return ()
        if not documents:
            hits = self.search(message, audience, limit=MAX_RECALLED)
            clear = [hit for hit in hits if hit.share >= MIN_RECALL_SHARE and hit.score >= MIN_RECALL_SCORE]
            return [make(hit, known={}, most=PASSAGE_CHARS) for hit in clear]
        hits = [*self.search(message, audience, limit=BRIEF_CANDIDATES), *self._search_documents(message, documents)]
        # Scores of different indexes do not compare; the share of the question that each passage has does.
        best = sorted(hits, key=lambda hit: (-hit.share, -hit.score, hit.path, hit.first))[:MAX_RECALLED]
        least = max(MIN_BRIEF_SHARE, MIN_BRIEF_OF_BEST * best[0].share) if best else MIN_BRIEF_SHARE
        known = {document.path: document for document in documents}
        return [make(hit, known=known, most=BRIEF_PASSAGE_CHARS) for hit in best if hit.share >= least]

    def _search_documents(self, message: str, documents: Sequence[Document]) -> list[Hit]:
        """Search documents outside the memory in an index of their own."""
        text = message[:MAX_QUERY_CHARS].encode("utf-8", "replace").decode()
        if not documents or not text.strip():
            return []
        key = tuple((document.path, document.sha256) for document in documents)
        with self._index_sync.lock:
            index = self._passing.recall(key, lambda: index_documents(documents))
            ranked = rank(self._read_question(text, index), DOCUMENTS, index, BRIEF_CANDIDATES)
            found = index.fetch(DOCUMENTS, [row for _, row, _ in ranked])
        return [make_hit(found[row], score, share, path=found[row].path) for score, row, share in ranked]

    def _make_passage(
        self, hit: Hit, *, message: str, person: str, known: Mapping[str, Document], most: int
    ) -> Passage:
        """Make a passage of a hit, with its line in the file as an editor counts lines."""
        file = hit.path if hit.path in known or hit.path in (FACTS_FILE, MAIN_FILE) else locate_path(hit.path, person)
        document = known.get(file) or Files(self._files.root).read(file)
        if not isinstance(document, Document):
            return make_passage(hit, find_snippet(hit.text, message, most))
        snippet = find_snippet(hit.text, message, most)
        line = 0 if file == FACTS_FILE else document.first + hit.first - 1 + snippet.line
        return replace(make_passage(hit, snippet), file=file, line=line)

    def save(self, note: Note, store: str) -> Saved:
        """Save a note in its author's personal memory or in a store's inbox, unless the same text is there."""
        text = check_text(note.text)
        author = Audience(clearance=note.clearance, person=note.author)
        if store not in self._stores and not (store == OWN_STORE and self._has_own(author)):
            raise InputError(f"there is no store {store!r}")
        if store != OWN_STORE and self.is_below(store, note.clearance) and not note.confirmed:
            raise Forbidden(f"{store} has more readers than {note.clearance}; a person has to confirm that")
        clean = replace(note, text=text)
        names = self._open(author, store) if store == OWN_STORE else [store]
        return self._save(store, names, find_places(store, clean), (text, write_note(clean)), author=note.author)

    def save_reviewed(self, note: Note, store: str) -> Saved:
        """Save a note of the owner without review, unless the same text is there."""
        text = check_text(note.text)
        if store not in self._stores:
            raise InputError(f"there is no store {store!r}")
        if not self.may_promote(note.author, note.clearance):
            raise Forbidden("only the owner, at full trust, saves without review")
        clean = replace(note, text=text)
        written = write_confirmed(Confirmed(text=text, origin=note.origin, by=self._write_confirmation(note.author)))
        return self._save(store, [store], find_places(store, clean, NOTES), (text, written))

    def _save(
        self, store: str, names: Sequence[str], places: Iterable[str], said: tuple[str, str], *, author: str = ""
    ) -> Saved:
        """Write a text, as its file has it, to the first place that is free, unless the store has the text already.

        It is compared with reviewed text and with the entries of its author. What somebody else said is not known of
        this person, and reviewed text, which has no author here, is not known by a waiting entry.
        """
        text, written = said
        with self._index_sync.lock:
            self._files.refresh(now=True)
            for path in self._list(names):
                if find_author(path) in ("", author) and self._has_text(path, text):
                    return Saved(path=show_path(path), store=store, known=True)
            for path in places:
                new = write_file(self._files.root, path, written)
                self._index_sync.mark_changed(*names)
                if new or self._has_text(path, text):  # another process may have saved the same text
                    return Saved(path=show_path(path), store=store, known=not new)
            raise InputError("two other entries have the name of this one; nothing was saved")

    def _has_text(self, path: str, text: str) -> bool:
        document = self._files.read(path)
        return isinstance(document, Document) and document.body == text

    def find_own(self, author: str, audience: Audience) -> Iterator["Entry"]:
        """Find the entries saved for a person in the stores that the audience may see, newest first."""
        return (entry for entry in self._find_entries(audience) if entry.provenance.author == author)

    def entries(self, audience: Audience) -> Iterator["Entry"]:
        """Find the entries that wait for review in the stores that the audience may see, newest first."""
        return (entry for entry in self._find_entries(audience) if not entry.provenance.own)

    def _find_entries(self, audience: Audience) -> list["Entry"]:
        self._files.refresh(now=True)
        found: list[Entry] = []
        for path in self._list(self._open(audience)):
            document = self._files.read(path)
            origin = find_provenance(path, document) if isinstance(document, Document) else None
            if origin and isinstance(document, Document):
                found.append(Entry(path=show_path(path), text=document.body, provenance=origin))
        return sorted(found, key=lambda entry: (entry.provenance.time, entry.path), reverse=True)

    def find_notes(self, author: str, audience: Audience) -> Iterator["Entry"]:
        """Find the reviewed entries of a person among the notes without a name, newest first."""
        self._files.refresh(now=True)
        found: list[Entry] = []
        for store in self.list_shared(audience):
            for path in self._index_sync.list(store):
                document = self._files.read(path) if path.startswith(f"memory/{store}/{NOTES}/") else None
                if isinstance(document, Document) and document.field("author") == author:
                    origin = Provenance(author=author, time=join_lines(document.field("time")))
                    found.append(Entry(path=show_path(path), text=document.body, provenance=origin))
        return iter(sorted(found, key=lambda entry: (entry.provenance.time, entry.path), reverse=True))

    def menu(self, audience: Audience, meter: Meter, store: str = "") -> list[str]:
        """List the memories that the audience may load with their prices, as the menu does."""
        self._files.refresh(now=True)
        lines, troubles = list_stores(self._open(audience, store), self._index_sync.list, self._files.read, meter)
        return [*lines, *(f"({trouble})" for trouble in troubles)]

    def count_stocks(self, audience: Audience) -> list[Stock]:
        """Count the documents and indexed documents of the stores that the audience may see."""
        self._files.refresh(now=True)
        names = self._open(audience)
        stocks = self._index_sync.query(lambda index: [self._index_sync.count_stock(name, index) for name in names])
        own = [stock for stock in stocks if stock.store not in self._readable]
        mine = Stock(
            store=OWN_STORE,
            documents=sum(stock.documents for stock in own),
            unreviewed=0,
            indexed=sum(stock.indexed for stock in own),
        )
        shared = [stock for stock in stocks if stock.store in self._readable]
        return [stock for stock in (*shared, mine) if stock.documents or stock.store in self._stores]

    def survey(self, clearance: Trust) -> Survey:
        """List the reviewed memories of the stores that the clearance may see, without opening them.

        A digest is shared by everyone of this clearance, so personal memory is left out.
        """
        self._files.refresh(now=True)
        listed = self._list(self._open(Audience(clearance=clearance)))
        stamps = self._files.stamps(path for path in listed if not find_author(path))
        paths = sorted(stamps, key=lambda path: (-find_change(stamps[path]), path))
        mark = "\n".join(f"{path}\0{stamps[path]}" for path in sorted(stamps))
        return Survey(stamp=f"{self.policy}:{digest(mark)}" if stamps else "", paths=tuple(paths))

    def open_all(self, paths: Iterable[str]) -> list[Document]:
        """Read the files of a survey without caching them: every cached file is checked again with each sweep."""
        files = Files(self._files.root)
        return [found for path in paths if isinstance(found := files.read(path), Document) and found.body.strip()]

    def forget(self, path: str, audience: Audience) -> str:
        """Remove a memory from the files and from the index; return its text, so that callers can redact copies."""
        place = locate_path(path, audience.person)
        store = find_index_store(place)
        if place not in self._list_for(path, audience):
            if path in (FACTS_FILE, MAIN_FILE) and audience.clearance is Trust.FULL:
                raise InputError(f"{path} is edited by hand; remove the line there")
            raise InputError(f"there is no {quote_name(path)} here")
        document = self._files.read(place)
        if os.path.islink(self._files.locate(place)):
            raise InputError(f"{path} is a link; forget what it leads to: {show_path(self._files.find_target(place))}")
        with self._index_sync.lock:  # the index first: if it fails, the file remains for another try
            self._index_sync.query(lambda index: drop(store, place, index))
            self._remove(place)
            # Once more: another process may have indexed the file again in between.
            self._index_sync.query(lambda index: drop(store, place, index))
            self._index_sync.mark_changed(store)
        return document.body if isinstance(document, Document) else ""

    def count_lines_by_hand(self, path: str, audience: Audience) -> int:
        """Count the lines of a memory that a person wrote by hand; 0 for entries, promoted notes and missing files."""
        place = locate_path(path, audience.person)
        document = self._files.read(place) if place in self._list_for(path, audience) else None
        if not isinstance(document, Document) or find_author(place) or document.field("author"):
            return 0
        return document.body.count("\n") + 1

    def promote(
        self, path: str, target: str, audience: Audience, person: str, heading: str = "", *, preview: bool = False
    ) -> Promotion:
        """Move an entry out of its inbox to a reviewed file; only the owner can. A preview writes nothing.

        With a heading, the entry is added to a note, which may exist. The file records author, reviewer and time.
        """
        with self._index_sync.lock:  # two threads must not promote one entry to two places
            entry = self._find_waiting(path, audience, person)
            store, file, title = self._check_target(target, heading)
            root = self._files.root

            def edit(before: str | None) -> str:
                return add_fact(before, entry) if store == FACT_STORE else change_note(before, file, title, entry)

            if preview:
                before = read_note(root, file)
                return Promotion(path=path, target=target, before=before, after=edit(before))
            before, after = edit_file(root, file, edit)
            self._remove(f"memory/{path}")
            self._index_sync.mark_changed(store, path.partition("/")[0])
        return Promotion(path=path, target=target, before=before, after=after)

    def suggest_place(self, entry: "Entry") -> str:
        """Suggest a path for a promoted entry: in the store its author wanted, else in its current store."""
        wanted = entry.provenance.wanted
        store = wanted if wanted in self._stores else entry.path.partition("/")[0]
        return f"{store}/{NOTES}/{entry.path.rpartition('/')[2]}"

    def find_lower_trust(self, target: str, origin: Provenance) -> Trust | None:
        """Return the trust of a file's store if it is below the clearance at which an entry was learned."""
        store = FACT_STORE if target == FACTS_FILE else target.partition("/")[0]
        trust = self._readable[store].trust if store in self._readable else Trust.FULL
        learned = next((level for level in Trust if str(level) == origin.clearance), Trust.PUBLIC)
        return trust if trust < learned else None

    def may_promote(self, person: str, clearance: Trust) -> bool:
        """Return whether a person may promote entries: only the owner, at full trust."""
        return bool(person) and person == self._owner and clearance is Trust.FULL

    def _write_confirmation(self, person: str) -> str:
        return f"{person}, {write_time(self.now())}"

    def _find_waiting(self, path: str, audience: Audience, person: str) -> Confirmed:
        """Find an entry that waits for review, and confirm it."""
        self._files.refresh(now=True)
        place = f"memory/{path}"
        document = self._files.read(place) if place in self._list_for(path, audience) else None
        origin = find_provenance(place, document) if isinstance(document, Document) else None
        if not isinstance(document, Document) or origin is None:
            raise InputError(f"there is no entry {quote_name(path)} that waits for review")
        if not self.may_promote(person, audience.clearance):
            raise Forbidden("only the owner promotes an entry, in a private conversation")
        if not document.body.strip():
            raise InputError(f"{path} has no text to promote; remove it with: foreword memory forget {path}")
        return Confirmed(text=document.body, origin=origin, by=self._write_confirmation(person))

    def _check_target(self, target: str, heading: str) -> tuple[str, str, str]:
        """Check that an entry can be promoted to a file; return store, path and the heading without its `#` signs."""
        if target == FACTS_FILE and not self._index_sync.is_listed(FACTS_FILE):
            if heading:
                raise InputError(f"{FACTS_FILE} has no headings; omit --heading")
            return FACT_STORE, FACTS_FILE, ""
        path, (store, _, name) = f"memory/{target}", normalize_name(target).partition("/")
        fits = store in self._stores and not check_name(name.removeprefix(f"{NOTES}/")) and name.endswith(".md")
        if not fits or self._index_sync.is_listed(path):
            raise InputError(f"{target} is not a memory path; write STORE/NAME.md, or {FACTS_FILE} for a short fact")
        return store, path, check_heading(heading) if heading else ""

    def _remove(self, place: str) -> None:
        try:
            os.unlink(self._files.locate(place))
        except OSError as error:
            raise InputError(f"{place} cannot be removed: {error.strerror or error}") from None

    def _list(self, names: Iterable[str]) -> list[str]:
        """List the files of some stores of the index."""
        return [path for name in names for path in self._index_sync.list(name)]

    def _list_for(self, path: str, audience: Audience) -> list[str]:
        """List the files of the store of a path, as far as the audience may see them."""
        return self._list(self._open(audience, path.partition("/")[0]))

    def find_store(self, audience: Audience) -> str:
        """Return the store for a new entry: personal memory in private, else the store with exactly this trust."""
        if self._has_own(audience):
            return OWN_STORE
        clearance = audience.clearance
        found = next((name for name, settings in self._stores.items() if settings.trust == clearance), "")
        if not found:
            raise InputError(f"no store has {clearance} trust, so nothing can be saved here")
        return found

    def list_shared(self, audience: Audience) -> list[str]:
        """Name the stores that an audience may see and that entries can be shared in."""
        return [name for name in self.open_to(audience) if name in self._stores]

    def is_below(self, store: str, clearance: Trust) -> bool:
        """Return whether a store can be read below the clearance at which something was learned."""
        return self._stores[store].trust < clearance

    def close(self) -> None:
        """Close the index."""
        self._index_sync.close()

    def update_index(self, audience: Audience, store: str = "") -> Iterator[Progress]:
        """Bring the index of the stores that an audience may see up to date, as a search does, and report progress."""
        return self._index_sync.update(self._open(audience, store))

    def reindex(self) -> Iterator[Progress]:
        """Rebuild the index, and report progress.

        A person's own memory is indexed by their next search.
        """
        return self._index_sync.reindex(sorted(self._readable))


def make_hit(found: Found, score: float, share: float, *, path: str, provenance: Provenance | None = None) -> Hit:
    """Make a hit of a chunk of an index."""
    return Hit(
        path=path,
        first=found.first,
        last=found.last,
        heading=found.heading,
        text=found.text,
        score=round(score, 4),
        share=round(share, 4),
        provenance=provenance,
        part=found.part,
    )


def make_passage(hit: Hit, snippet: Snippet) -> Passage:
    """Make a passage from the snippet of a hit."""
    return Passage(
        path=hit.path,
        first=hit.first,
        last=hit.last,
        heading=hit.heading,
        text=snippet.text,
        cut=snippet.text != join_lines(hit.text),
        origin=str(hit.provenance or ""),
    )


def index_documents(documents: Iterable[Document]) -> Index:
    """Index documents in memory, by their paragraphs and the items of their lists."""
    index = Index()
    with index.writing():
        for document in documents:
            index.put(DOCUMENTS, document.path, ("", document.sha256), split_items(document.body))
    return index


def digest(text: str) -> str:
    """Return a short hash of a text."""
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def find_change(stamp: str) -> int:
    """Return when a file was changed, from its stamp; recent changes and links count as newest."""
    moment = stamp.partition(":")[0]
    return int(moment) if moment.isdecimal() else 1 << 63


def drop(store: str, path: str, index: Index) -> None:
    """Remove a document from the index and overwrite its bytes."""
    with index.writing():
        index.drop(store, path)
    index.scrub(store)
