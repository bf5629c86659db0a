"""What is remembered of a person: entries and facts that they are the author of, and the index of both."""

import json
import os
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing, suppress

from foreword.erasure.blotting import Blotter
from foreword.erasure.holding import DISK, Bases, Given
from foreword.erasure.person import Person, list_folders
from foreword.erasure.rewriting import rewrite
from foreword.frozen import frozen
from foreword.memory.facts import PATIENCE, claim
from foreword.memory.index import Damaged
from foreword.memory.notes import edit_note, has_more, list_added, remove_added
from foreword.memory.sqlite_index import FILE, SqliteIndex, remove, translate
from foreword.sources.document import Document, one_line
from foreword.sources.files import Files
from foreword.sources.memories import FACTS, find_texts
from foreword.sources.own_memory import (
    FOLDER,
    PEOPLE,
    find_own_folder,
    find_own_level,
    find_own_person,
    list_index_stores,
)
from foreword.sources.provenance import NOBODY, find_author
from foreword.words import Trust

MARKS = ("author", "clearance", "time")  # what an entry says of itself, also once it was promoted


@frozen(eq=True)
class Entries:
    """Their own memory, and memories that they are the author of: in their inboxes, or promoted out of one."""

    name: str = "memories"
    base: str = DISK
    where: str = "memory/ and users/NAME/memory/"
    claims: tuple[str, ...] = ()

    def find(self, bases: Bases, person: Person) -> int:
        """Count the files."""
        return sum(1 for _ in list_entries(bases.root, person.names))

    def give(self, bases: Bases, person: Person) -> Iterator[Given]:
        """Give each file whole, at the trust of its store; of their own memory at the clearance it was learned at."""
        for path in list_entries(bases.root, person.names):
            store = bases.config.stores.get(path.split("/")[1])
            trust = find_own_level(path) if find_own_person(path) else store.trust if store else Trust.FULL
            yield Given(row={"path": path, "text": read_whole(os.path.join(bases.root, path))}, trust=trust)

    def forget(self, bases: Bases, person: Person) -> int:
        """Remove the files, and the folders of their inboxes once these are empty."""
        found = list(list_entries(bases.root, person.names))
        for path in found:
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(bases.root, path))
        for store in list_folders(os.path.join(bases.root, "memory")):
            with suppress(OSError):
                os.rmdir(os.path.join(bases.root, "memory", store, "inbox", person.name))
        return len(found)


def list_memories(root: str) -> Iterator[str]:
    """List every file of memory, whatever the configuration calls a store; links are not followed."""
    people = sorted(list_folders(os.path.join(root, PEOPLE)))
    for top in (FOLDER, *map(find_own_folder, people)):
        if top != FOLDER and os.path.realpath(os.path.join(root, top)) != os.path.join(os.path.realpath(root), top):
            continue  # a link leads to what is not this person's
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                path = os.path.join(folder, name)
                if os.path.isfile(path) and not os.path.islink(path):
                    yield os.path.relpath(path, root).replace(os.sep, "/")


def list_entries(root: str, names: Collection[str]) -> Iterator[str]:
    """List the memories that somebody is the author of, by the folder, or where that is nobody's by the file itself.

    All of a person's own memory is theirs, whoever wrote it there.
    """
    files = Files(root)
    for path in list_memories(root):
        author = find_own_person(path) or find_author(path)
        if author in names or (author in ("", NOBODY) and says_author(files, path, names)):
            yield path


def says_author(files: Files, path: str, names: Collection[str]) -> bool:
    """Whether a file says that it is an entry of somebody's, or was one before it was promoted.

    A promoted entry to which more was added since is a note of the owner's with a text of theirs.
    """
    document = files.read(path) if path.endswith(".md") else None
    if not isinstance(document, Document) or has_more(document):
        return False
    fields = [one_line(document.field(mark)) for mark in MARKS]
    return all(fields) and fields[0] in names


def read_kept(root: str, names: Collection[str]) -> list[str]:
    """Read the words of everything that is remembered of somebody."""
    files = Files(root)
    found = (files.read(path) for path in list_entries(root, names))
    bodies = [one.body for one in found if isinstance(one, Document)]
    added = [text for _, text in list_additions(root, names) if text]
    return [*bodies, *(text for _, text in list_facts(root, names)), *added]


def read_others(root: str, names: Collection[str]) -> Iterator[str]:
    """Read what is remembered otherwise: of other people, or written by hand."""
    own = frozenset(list_entries(root, names))
    texts = (read_whole(os.path.join(root, path)) for path in list_memories(root) if path not in own)
    return (remove_added(text, names) for text in texts)


def read_whole(place: str) -> str:
    """Read a file as it is."""
    with open(place, encoding="utf-8", errors="replace", newline="") as file:
        return file.read()


@frozen(eq=True)
class Additions:
    """Texts that were promoted from an entry of theirs and added to a note of the owner's."""

    name: str = "texts added to notes"
    base: str = DISK
    where: str = "memory/"
    claims: tuple[str, ...] = ()

    def find(self, bases: Bases, person: Person) -> int:
        """Count them; a text that was edited since is the owner's by now."""
        return sum(1 for _, text in list_additions(bases.root, person.names) if text)

    def give(self, bases: Bases, person: Person) -> Iterator[Given]:
        """Give each, at the trust of its store; a text that was edited since is the owner's by now."""
        for path, text in list_additions(bases.root, person.names):
            store = bases.config.stores.get(path.split("/")[1])
            if text:
                yield Given(row={"path": path, "text": text}, trust=store.trust if store else Trust.FULL)

    def forget(self, bases: Bases, person: Person) -> int:
        """Remove them from the notes, with every record that names the person; the rest of a note stays as it is."""
        found = list(list_additions(bases.root, person.names))
        for path in dict.fromkeys(path for path, _ in found):
            edit_note(bases.root, path, lambda text: remove_added(text, person.names))
        return sum(1 for _, text in found if text)


def list_additions(root: str, names: Collection[str]) -> Iterator[tuple[str, str]]:
    """List the texts of somebody that were added to notes, each with the file; an edited text is empty."""
    for path in list_memories(root):
        if path.endswith(".md") and not find_author(path):
            added = list_added(read_whole(os.path.join(root, path)))
            yield from ((path, one.text) for one in added if one.author in names)


@frozen(eq=True)
class Facts:
    """Facts that were promoted from an entry of theirs."""

    name: str = "facts"
    base: str = DISK
    where: str = FACTS
    claims: tuple[str, ...] = ()

    def find(self, bases: Bases, person: Person) -> int:
        """Count them."""
        return len(list_facts(bases.root, person.names))

    def give(self, bases: Bases, person: Person) -> Iterator[Given]:
        """Give them."""
        return (Given(row={"text": text}, trust=Trust.INNER) for _, text in list_facts(bases.root, person.names))

    def forget(self, bases: Bases, person: Person) -> int:
        """Write the file anew without them."""
        place = os.path.join(bases.root, FACTS)
        if not list_facts(bases.root, person.names):
            return 0
        with claim(f"{place}.new", PATIENCE) as file:
            gone = {at for at, _ in list_facts(bases.root, person.names)}  # as it is now, whoever wrote it last
            held = [one for at, one in enumerate(load(bases.root)) if at not in gone]
            json.dump(held, file, ensure_ascii=False, indent=2)
            file.flush()
            os.fsync(file.fileno())
            os.chmod(file.name, os.stat(place).st_mode & 0o777)
            os.replace(file.name, place)
        return len(gone)


def load(root: str) -> list[object]:
    """Load the list of the facts; what is no list has none of anybody's."""
    try:
        with open(os.path.join(root, FACTS), encoding="utf-8") as file:
            held = json.load(file)
    except (OSError, ValueError, RecursionError):
        return []
    return held if isinstance(held, list) else []


def list_facts(root: str, names: Collection[str]) -> list[tuple[int, str]]:
    """List the facts that say that they are somebody's, each with its place."""
    authored = [(at, one) for at, one in enumerate(load(root)) if isinstance(one, dict) and one.get("author") in names]
    return [(at, next(find_texts(one), "")) for at, one in authored]


@frozen(eq=True)
class Retold:
    """What agents saved for others, as far as it repeats their words. What people wrote by hand is left to these."""

    name: str = "memories saved for others that quote them"
    base: str = DISK
    where: str = "memory/ and users/"
    claims: tuple[str, ...] = ()

    def find(self, bases: Bases, person: Person) -> int:
        """Count the files."""
        return sum(1 for _ in self._blot(bases.root, person))

    def give(self, bases: Bases, person: Person) -> Iterator[Given]:  # noqa: ARG002
        """Give nothing: the memories are others'."""
        return iter(())

    def forget(self, bases: Bases, person: Person) -> int:
        """Write each anew, with a word in the place of theirs."""
        changed = list(self._blot(bases.root, person))
        for path, text in changed:
            rewrite(os.path.join(bases.root, path), text)
        return len(changed)

    def _blot(self, root: str, person: Person) -> Iterator[tuple[str, str]]:
        blotter = Blotter(person, memories=False)
        own = frozenset(list_entries(root, person.names))
        for path in list_memories(root):
            if path in own or not find_author(path):
                continue
            text = read_whole(os.path.join(root, path))
            if (after := blotter.wipe(text)) != text:
                yield path, after


@frozen(eq=True)
class Indexed:
    """What the search knows of their memories, and of files that are not as they were indexed."""

    name: str = "search index"
    base: str = DISK
    where: str = f".foreword/{FILE}"
    claims: tuple[str, ...] = ()

    def find(self, bases: Bases, person: Person) -> int:
        """Count the documents of theirs that the index has."""
        own = frozenset(list_entries(bases.root, person.names))
        known = list_indexed(bases.folder)
        documents = sum(path in own or is_theirs(path, person) for _, path, _ in known)
        return documents or len(list_own_stores(bases.folder, person))

    def give(self, bases: Bases, person: Person) -> Iterator[Given]:  # noqa: ARG002
        """Give nothing: it holds what the files say."""
        return iter(())

    def forget(self, bases: Bases, person: Person) -> int:
        """Take out whatever no file says any more, to the last byte; one that is damaged is built anew by itself."""
        known = list_indexed(bases.folder)
        if not os.path.isfile(os.path.join(bases.folder, FILE)):
            return 0
        found = self.find(bases, person)
        try:
            with translate(), closing(SqliteIndex(bases.folder)) as index:
                files = Files(bases.root)
                with index.writing():
                    for store, path, sha256 in known:
                        document = files.read(path)
                        if not isinstance(document, Document) or document.sha256 != sha256:
                            index.drop(store, path)
                    for store in list_own_stores(bases.folder, person):
                        index.remove(store)
                for store in index.stores():
                    index.scrub(store)
        except Damaged:
            remove(bases.folder)
        return found


def is_theirs(path: str, person: Person) -> bool:
    """Whether a file is an entry of a person's, or in their own memory."""
    return (find_own_person(path) or find_author(path)) in person.names


def list_own_stores(folder: str, person: Person) -> list[str]:
    """Name the stores of the index for a person's own memory, which have the person's name."""
    mine = {store for name in person.names for store in list_index_stores(name, Trust.FULL)}
    return [store for store in list_stores(folder) if store in mine]


def list_stores(folder: str) -> list[str]:
    """Name the stores that the index has; one that cannot be read has none."""
    place = os.path.join(folder, FILE)
    if not os.path.isfile(place):
        return []
    with suppress(sqlite3.Error), closing(sqlite3.connect(place, timeout=5, isolation_level=None)) as base:
        return [name for (name,) in base.execute("SELECT name FROM stores")]
    return []


def list_indexed(folder: str) -> list[tuple[str, str, str]]:
    """List what the index has: the store, the path and the hash of each document; one that cannot be read has none."""
    stores = list_stores(folder)
    if not stores:
        return []
    found: list[tuple[str, str, str]] = []
    with suppress(sqlite3.Error), closing(sqlite3.connect(os.path.join(folder, FILE), timeout=5)) as base:
        for store in stores:
            rows = base.execute(f"SELECT path, sha256 FROM documents_{store.encode().hex()}")
            found += [(store, path, sha256) for path, sha256 in rows]
    return found
