"""Files beside the bases: a person's own folder, what was typed in the terminal, and counts by hash."""

import os
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress

from foreword.erasure.archived import list_archives
from foreword.erasure.holding import DISK, Bases, Given
from foreword.erasure.person import Person
from foreword.erasure.remembered import read_whole
from foreword.erasure.rewriting import rewrite
from foreword.frozen import frozen
from foreword.sources.archived import is_archive
from foreword.sources.own_memory import find_own_person
from foreword.store.archives import find_archived
from foreword.words import Trust

COUNTS = "counts.sqlite"
TYPED = re.compile(r"typed-\w+")
ENTRY = re.compile(r"(?m)\n?# [^\n]*\n(?:\+[^\n]*\n?)+")


@frozen(eq=True)
class Folder:
    """Their own files, `users/NAME/`."""

    name: str = "own files"
    base: str = DISK
    where: str = "users/NAME/"
    claims: tuple[str, ...] = ()

    def find(self, bases: Bases, person: Person) -> int:
        """Count the files, or the link that stands there; transcripts and memories are counted as such."""
        archived = {os.path.join(bases.root, *archive.path.split("/")) for archive in list_archives(bases.state)}
        return sum(place not in archived and not is_own_memory(bases, place) for place in self._list(bases, person))

    def give(self, bases: Bases, person: Person) -> Iterator[Given]:
        """Give each file whole, a transcript at the clearance of its session; memories are given as such."""
        for place in self._list(bases, person):
            if is_own_memory(bases, place):
                continue
            path = os.path.relpath(place, bases.root).replace(os.sep, "/")
            text = "" if os.path.islink(place) else read_whole(place)
            yield Given(row={"path": path, "text": text}, trust=find_trust(bases.state, path))

    def forget(self, bases: Bases, person: Person) -> int:
        """Remove the folder; of a link only itself goes, and what it leads to stays."""
        found = len(list(self._list(bases, person)))
        place = locate(bases, person)
        if place and os.path.islink(place):
            os.unlink(place)
        elif place and os.path.isdir(place):
            shutil.rmtree(place)
        return found

    def _list(self, bases: Bases, person: Person) -> Iterator[str]:
        place = locate(bases, person)
        if place and os.path.islink(place):
            yield place
        elif place:
            for folder, _, names in os.walk(place):
                yield from (os.path.join(folder, name) for name in sorted(names))


def is_own_memory(bases: Bases, place: str) -> bool:
    """Whether a file of the folder is a memory of its person."""
    path = os.path.relpath(place, bases.root).replace(os.sep, "/")
    return bool(find_own_person(path)) and not os.path.islink(place)


def find_trust(state: sqlite3.Connection | None, path: str) -> Trust:
    """Find from which clearance on a file is its person's; what lies among transcripts and is none needs full."""
    if not is_archive(path):
        return Trust.PUBLIC
    archived = find_archived(state, path) if state else None
    return archived.clearance if archived else Trust.FULL


def locate(bases: Bases, person: Person) -> str:
    """Find the folder of a person; a name that is no name of a folder has none."""
    if person.name != os.path.basename(person.name) or person.name in ("", ".", ".."):
        return ""
    return os.path.join(bases.root, "users", person.name)


@frozen(eq=True)
class Typed:
    """What was typed in the terminal, which is kept by clearance and not by person: what became a turn of theirs."""

    name: str = "typed lines"
    base: str = DISK
    where: str = ".foreword/typed-*"
    claims: tuple[str, ...] = ()

    def find(self, bases: Bases, person: Person) -> int:
        """Count the lines."""
        return sum(count for _, _, count in self._cut(bases, person))

    def give(self, bases: Bases, person: Person) -> Iterator[Given]:  # noqa: ARG002
        """Give nothing: each is given as the turn that it became."""
        return iter(())

    def forget(self, bases: Bases, person: Person) -> int:
        """Take the lines out."""
        changed = list(self._cut(bases, person))
        for place, text, _ in changed:
            rewrite(place, text)
        return sum(count for _, _, count in changed)

    def _cut(self, bases: Bases, person: Person) -> Iterator[tuple[str, str, int]]:
        said = {text.strip() for text in person.said}
        for name in sorted(os.listdir(bases.folder)) if os.path.isdir(bases.folder) else ():
            place = os.path.join(bases.folder, name)
            if not TYPED.fullmatch(name) or os.path.islink(place):
                continue
            text = read_whole(place)
            theirs = [entry[0] for entry in ENTRY.finditer(text) if read_entry(entry[0]) in said]
            if theirs:
                for entry in set(theirs):
                    text = text.replace(entry, "")
                yield place, text, len(theirs)


def read_entry(entry: str) -> str:
    """Read what was typed from an entry of the file: each of its lines begins with a plus."""
    return "\n".join(line[1:] for line in entry.splitlines() if line.startswith("+")).strip()


@frozen(eq=True)
class Counts:
    """Counts of tokens by the hash of a text: no words, but a hash confirms a guess, and they are counted again."""

    name: str = "token counts"
    base: str = DISK
    where: str = f".foreword/{COUNTS}"
    claims: tuple[str, ...] = ()

    def find(self, bases: Bases, person: Person) -> int:  # noqa: ARG002
        """Count nothing: nobody can tell whose they are."""
        return 0

    def give(self, bases: Bases, person: Person) -> Iterator[Given]:  # noqa: ARG002
        """Give nothing."""
        return iter(())

    def forget(self, bases: Bases, person: Person) -> int:  # noqa: ARG002
        """Empty them."""
        place = os.path.join(bases.folder, COUNTS)
        if os.path.isfile(place):
            with suppress(sqlite3.Error), closing(sqlite3.connect(place, timeout=5, isolation_level=None)) as base:
                base.execute("PRAGMA secure_delete=ON")
                base.execute("DELETE FROM counts")
                base.execute("VACUUM")
        return 0
