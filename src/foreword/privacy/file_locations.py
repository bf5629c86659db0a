"""Personal data in memory: entries, notes and facts with the person as author, quotations, and the search index.

Archived transcripts: private ones are deleted, shared ones are rewritten from the state. Files with personal data
outside the databases: the user's folder, the terminal history and token counts.
"""

import json
import os
import re
import shutil
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing, suppress
from dataclasses import replace

from foreword.engine.file_access import (
    MEMORY_FOLDER,
    UNKNOWN_AUTHOR,
    USERS_ROOT,
    find_author,
    find_own_folder,
    find_own_level,
    find_own_person,
    is_archive,
    list_index_stores,
)
from foreword.engine.sources.documents import Document, join_lines
from foreword.engine.sources.files import Files
from foreword.engine.sources.memory_sections import FACTS_FILE, find_fact_text
from foreword.memory.facts import PATIENCE, claim
from foreword.memory.index import Damaged
from foreword.memory.notes import edit_note, has_more, list_added, remove_added
from foreword.memory.sqlite_index import FILE, SqliteIndex, remove, translate
from foreword.privacy.locations import (
    STATE_DATABASE,
    Databases,
    DataLocation,
    ExportedItem,
    ItemLocation,
    replace_file,
)
from foreword.privacy.subject import NAMES_SQL, Redactor, Subject, list_folders
from foreword.storage.sessions import COLUMNS, Archive, convert_archive_row, drop_archive, find_archive_access
from foreword.types import Trust

ENTRY_FIELDS = ("author", "clearance", "time")  # front matter fields of an entry, also after its promotion


class MemoryLocation(DataLocation):
    """The person's own memory, and memories with the person as author, in an inbox or promoted."""

    name = "memories"
    where = "memory/ and users/NAME/memory/"

    def find(self, bases: Databases, person: Subject) -> int:
        """Count the memory files."""
        return sum(1 for _ in list_authored_files(bases.root, person.names))

    def give(self, bases: Databases, person: Subject) -> Iterator[ExportedItem]:
        """Export each file at the trust of its store, own memory at the clearance at which it was learned."""
        for path in list_authored_files(bases.root, person.names):
            store = bases.config.stores.get(path.split("/")[1])
            trust = find_own_level(path) if find_own_person(path) else store.trust if store else Trust.FULL
            yield ExportedItem(row={"path": path, "text": read_file_text(os.path.join(bases.root, path))}, trust=trust)

    def forget(self, bases: Databases, person: Subject) -> int:
        """Delete the files and the empty inbox folders."""
        found = list(list_authored_files(bases.root, person.names))
        for path in found:
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(bases.root, path))
        for store in list_folders(os.path.join(bases.root, "memory")):
            with suppress(OSError):
                os.rmdir(os.path.join(bases.root, "memory", store, "inbox", person.name))
        return len(found)


def list_memory_files(root: str) -> Iterator[str]:
    """List all memory files, also outside of configured stores; links are not followed."""
    people = sorted(list_folders(os.path.join(root, USERS_ROOT)))
    for top in (MEMORY_FOLDER, *map(find_own_folder, people)):
        if top != MEMORY_FOLDER and os.path.realpath(os.path.join(root, top)) != os.path.join(
            os.path.realpath(root), top
        ):
            continue  # do not follow a link out of the person's folder
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                path = os.path.join(folder, name)
                if os.path.isfile(path) and not os.path.islink(path):
                    yield os.path.relpath(path, root).replace(os.sep, "/")


def list_authored_files(root: str, names: Collection[str]) -> Iterator[str]:
    """List the memories whose author, by folder or by front matter, is one of the names.

    All files of a person's own memory belong to the person, regardless of the author.
    """
    files = Files(root)
    for path in list_memory_files(root):
        author = find_own_person(path) or find_author(path)
        if author in names or (author in ("", UNKNOWN_AUTHOR) and names_author(files, path, names)):
            yield path


def names_author(files: Files, path: str, names: Collection[str]) -> bool:
    """Return whether the front matter names one of the people as author of an entry, promoted ones included.

    A promoted entry with later additions counts as a note of the owner.
    """
    document = files.read(path) if path.endswith(".md") else None
    if not isinstance(document, Document) or has_more(document):
        return False
    fields = [join_lines(document.field(mark)) for mark in ENTRY_FIELDS]
    return all(fields) and fields[0] in names


def read_own_memories(root: str, names: Collection[str]) -> list[str]:
    """Return the texts of all entries, facts and additions of the given authors."""
    files = Files(root)
    found = (files.read(path) for path in list_authored_files(root, names))
    bodies = [one.body for one in found if isinstance(one, Document)]
    added = [text for _, text in list_additions(root, names) if text]
    return [*bodies, *(text for _, text in list_facts(root, names)), *added]


def read_other_memories(root: str, names: Collection[str]) -> Iterator[str]:
    """Return all other memory texts, by other authors or written by hand."""
    own = frozenset(list_authored_files(root, names))
    texts = (read_file_text(os.path.join(root, path)) for path in list_memory_files(root) if path not in own)
    return (remove_added(text, names) for text in texts)


def read_file_text(place: str) -> str:
    """Read a file without newline conversion."""
    with open(place, encoding="utf-8", errors="replace", newline="") as file:
        return file.read()


class NoteAdditionLocation(DataLocation):
    """Texts of the person that were promoted into a note of the owner."""

    name = "texts added to notes"
    where = "memory/"

    def find(self, bases: Databases, person: Subject) -> int:
        """Count the texts; a text edited after its promotion belongs to the owner."""
        return sum(1 for _, text in list_additions(bases.root, person.names) if text)

    def give(self, bases: Databases, person: Subject) -> Iterator[ExportedItem]:
        """Export each text at the trust of its store; a text edited after its promotion belongs to the owner."""
        for path, text in list_additions(bases.root, person.names):
            store = bases.config.stores.get(path.split("/")[1])
            if text:
                yield ExportedItem(row={"path": path, "text": text}, trust=store.trust if store else Trust.FULL)

    def forget(self, bases: Databases, person: Subject) -> int:
        """Remove the texts and all records with the person's name from the notes."""
        found = list(list_additions(bases.root, person.names))
        for path in dict.fromkeys(path for path, _ in found):
            edit_note(bases.root, path, lambda text: remove_added(text, person.names))
        return sum(1 for _, text in found if text)


def list_additions(root: str, names: Collection[str]) -> Iterator[tuple[str, str]]:
    """List the texts by these authors in notes, each with its file; an edited text is empty."""
    for path in list_memory_files(root):
        if path.endswith(".md") and not find_author(path):
            added = list_added(read_file_text(os.path.join(root, path)))
            yield from ((path, one.text) for one in added if one.author in names)


class FactLocation(DataLocation):
    """Facts promoted from entries of the person."""

    name = "facts"
    where = FACTS_FILE

    def find(self, bases: Databases, person: Subject) -> int:
        """Count the facts."""
        return len(list_facts(bases.root, person.names))

    def give(self, bases: Databases, person: Subject) -> Iterator[ExportedItem]:
        """Export the facts."""
        return (ExportedItem(row={"text": text}, trust=Trust.INNER) for _, text in list_facts(bases.root, person.names))

    def forget(self, bases: Databases, person: Subject) -> int:
        """Rewrite the file without the person's facts."""
        place = os.path.join(bases.root, FACTS_FILE)
        if not list_facts(bases.root, person.names):
            return 0
        with claim(f"{place}.new", PATIENCE) as file:
            gone = {at for at, _ in list_facts(bases.root, person.names)}  # read again under the lock
            held = [one for at, one in enumerate(load_facts(bases.root)) if at not in gone]
            json.dump(held, file, ensure_ascii=False, indent=2)
            file.flush()
            os.fsync(file.fileno())
            os.chmod(file.name, os.stat(place).st_mode & 0o777)
            os.replace(file.name, place)
        return len(gone)


def load_facts(root: str) -> list[object]:
    """Load the facts; empty if the file is missing or invalid."""
    try:
        with open(os.path.join(root, FACTS_FILE), encoding="utf-8") as file:
            held = json.load(file)
    except (OSError, ValueError, RecursionError):
        return []
    return held if isinstance(held, list) else []


def list_facts(root: str, names: Collection[str]) -> list[tuple[int, str]]:
    """List the facts by these authors, each with its index."""
    authored = [
        (at, one) for at, one in enumerate(load_facts(root)) if isinstance(one, dict) and one.get("author") in names
    ]
    return [(at, next(find_fact_text(one), "")) for at, one in authored]


class QuotingMemoryLocation(ItemLocation):
    """Memories that agents saved for others and that quote the person; files written by hand are not included."""

    name = "memories saved for others that quote them"
    where = "memory/ and users/"

    def list_changes(self, bases: Databases, person: Subject) -> Iterator[tuple[str, str]]:
        """List the path of each file and its text without the quotations."""
        blotter = Redactor(person, memories=False)
        own = frozenset(list_authored_files(bases.root, person.names))
        for path in list_memory_files(bases.root):
            if path in own or not find_author(path):
                continue
            place = os.path.join(bases.root, path)
            text = read_file_text(place)
            if (after := blotter.wipe(text)) != text:
                yield place, after

    def apply(self, _: Databases, change: tuple[str, str]) -> None:
        """Replace a file."""
        replace_file(*change)


class SearchIndexLocation(DataLocation):
    """The search index of the person's memories."""

    name = "search index"
    where = f".foreword/{FILE}"

    def find(self, bases: Databases, person: Subject) -> int:
        """Count the person's documents in the index."""
        own = frozenset(list_authored_files(bases.root, person.names))
        known = list_indexed(bases.folder)
        documents = sum(path in own or is_subject_file(path, person) for _, path, _ in known)
        return documents or len(list_own_stores(bases.folder, person))

    def forget(self, bases: Databases, person: Subject) -> int:
        """Remove documents whose file is missing or changed, and vacuum the index; delete a damaged index."""
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


def is_subject_file(path: str, person: Subject) -> bool:
    """Return whether a file is an entry of the person or in their own memory."""
    return (find_own_person(path) or find_author(path)) in person.names


def list_own_stores(folder: str, person: Subject) -> list[str]:
    """List the index stores of a person's own memory."""
    mine = {store for name in person.names for store in list_index_stores(name, Trust.FULL)}
    return [store for store in list_stores(folder) if store in mine]


def list_stores(folder: str) -> list[str]:
    """List the stores of the index; empty if the index cannot be read."""
    place = os.path.join(folder, FILE)
    if not os.path.isfile(place):
        return []
    with suppress(sqlite3.Error), closing(sqlite3.connect(place, timeout=5, isolation_level=None)) as base:
        return [name for (name,) in base.execute("SELECT name FROM stores")]
    return []


def list_indexed(folder: str) -> list[tuple[str, str, str]]:
    """List store, path and hash of each indexed document; empty if the index cannot be read."""
    stores = list_stores(folder)
    if not stores:
        return []
    found: list[tuple[str, str, str]] = []
    with suppress(sqlite3.Error), closing(sqlite3.connect(os.path.join(folder, FILE), timeout=5)) as base:
        for store in stores:
            rows = base.execute(f"SELECT path, sha256 FROM documents_{store.encode().hex()}")
            found += [(store, path, sha256) for path, sha256 in rows]
    return found


SPEAKS_SQL = f"user_id IN {NAMES_SQL} OR EXISTS (SELECT 1 FROM json_each(people) WHERE value IN {NAMES_SQL})"
OWN_TRANSCRIPTS_SQL = f"SELECT {COLUMNS} FROM archives WHERE {SPEAKS_SQL} ORDER BY path"
OTHER_TRANSCRIPTS_SQL = f"SELECT {COLUMNS} FROM archives WHERE NOT ({SPEAKS_SQL}) ORDER BY path"
QUOTE_PREFIX = re.compile(r"(?m)^> ?")


class TranscriptLocation(ItemLocation):
    """Transcripts in which the person speaks, and those of others in which an agent quotes the person."""

    name = "archived transcripts"
    base = STATE_DATABASE
    where = "groups/ and users/"
    claims = ("state.archives.*",)

    def list_changes(self, bases: Databases, person: Subject) -> Iterator[tuple[Archive, str | None]]:
        """List the person's transcripts, and those that quote them with the redacted text."""
        yield from ((archive, None) for archive in list_archives(bases.state))
        yield from list_quoting_archives(bases, person)

    def apply(self, bases: Databases, change: tuple[Archive, str | None]) -> None:
        """Delete a private transcript, render a shared one again without the person, or redact one of others.

        This runs after the state was changed.
        """
        from foreword.gateway.transcripts import write_transcript_file

        archive, redacted = change
        assert bases.state is not None
        if redacted:
            write_transcript_file(bases.root, archive.path, redacted)
            return
        delete_archive(bases, bases.state, archive)
        if redacted is None and not archive.is_own:
            rewrite_archive(bases, bases.state, archive)


def list_archives(state: sqlite3.Connection | None) -> list[Archive]:
    """List the transcripts in which the person speaks."""
    return [convert_archive_row(row) for row in state.execute(OWN_TRANSCRIPTS_SQL)] if state else []


def list_quoting_archives(bases: Databases, person: Subject) -> Iterator[tuple[Archive, str]]:
    """List the transcripts of others that quote the person, each with its redacted text; empty means delete.

    Messages written by other people stay, even if they quote the person, as in the state.
    """
    blotter = Redactor(person)
    for row in bases.state.execute(OTHER_TRANSCRIPTS_SQL).fetchall() if bases.state else ():
        archive = convert_archive_row(row)
        place = get_archive_path(bases, archive)
        if not os.path.isfile(place) or os.path.realpath(place) != place:
            continue  # transcripts are never written through a link
        text = read_file_text(place)
        plain = QUOTE_PREFIX.sub("", text)
        if blotter.wipe(plain) == plain:
            continue
        assert bases.state is not None
        after = render_redacted(bases, bases.state, archive, blotter)
        if after != text:
            yield archive, after


def render_redacted(bases: Databases, state: sqlite3.Connection, archive: Archive, blotter: Redactor) -> str:
    """Render a transcript from the state, with the person's words redacted from the agent's replies."""
    from foreword.gateway.transcripts import read_transcript, render_transcript
    from foreword.storage.sessions import get_session

    session = get_session(state, archive.session)
    transcript = read_transcript(state, session) if session else None
    if transcript is None or not transcript.exchanges:
        return ""
    exchanges = tuple(replace(one, reply=blotter.wipe_value(one.reply)) for one in transcript.exchanges)
    return render_transcript(replace(transcript, exchanges=exchanges), bases.config)


def delete_archive(bases: Databases, state: sqlite3.Connection, archive: Archive) -> None:
    """Delete a transcript and its row."""
    with suppress(FileNotFoundError):
        os.unlink(get_archive_path(bases, archive))
    drop_archive(state, archive.path)


def get_archive_path(bases: Databases, archive: Archive) -> str:
    """Return the path of a transcript."""
    return os.path.join(bases.root, *archive.path.split("/"))


def rewrite_archive(bases: Databases, state: sqlite3.Connection, archive: Archive) -> None:
    """Rewrite the transcript of a room from the state; write nothing if no turns are left."""
    from foreword.gateway.transcripts import (
        describe_archive,
        find_archive_path,
        read_transcript,
        render_transcript,
        write_transcript_file,
    )
    from foreword.storage.database import format_moment
    from foreword.storage.sessions import get_session, record_written, reserve_path

    session = get_session(state, archive.session)
    transcript = read_transcript(state, session) if session else None
    if transcript is None or not transcript.exchanges:
        return
    renewed = describe_archive(transcript, bases.config)
    path = reserve_path(state, renewed, find_archive_path(transcript, bases.config, archive.session))
    write_transcript_file(bases.root, path, render_transcript(transcript, bases.config))
    record_written(state, replace(renewed, path=path), format_moment(transcript.exchanges[-1].finished))


COUNTS_FILE = "counts.sqlite"
HISTORY_FILE_NAME = re.compile(r"typed-\w+")
HISTORY_ENTRY = re.compile(r"(?m)\n?# [^\n]*\n(?:\+[^\n]*\n?)+")


class UserFolderLocation(DataLocation):
    """The user's folder, `users/NAME/`."""

    name = "own files"
    where = "users/NAME/"

    def find(self, bases: Databases, person: Subject) -> int:
        """Count the files; transcripts and memories are counted by their own locations."""
        archived = {os.path.join(bases.root, *archive.path.split("/")) for archive in list_archives(bases.state)}
        return sum(place not in archived and not is_own_memory(bases, place) for place in self._list(bases, person))

    def give(self, bases: Databases, person: Subject) -> Iterator[ExportedItem]:
        """Export each file, a transcript at the clearance of its session; memories are exported separately."""
        for place in self._list(bases, person):
            if is_own_memory(bases, place):
                continue
            path = os.path.relpath(place, bases.root).replace(os.sep, "/")
            text = "" if os.path.islink(place) else read_file_text(place)
            yield ExportedItem(row={"path": path, "text": text}, trust=get_file_trust(bases.state, path))

    def forget(self, bases: Databases, person: Subject) -> int:
        """Delete the folder; a symbolic link is removed without its target."""
        found = len(list(self._list(bases, person)))
        place = get_user_folder(bases, person)
        if place and os.path.islink(place):
            os.unlink(place)
        elif place and os.path.isdir(place):
            shutil.rmtree(place)
        return found

    def _list(self, bases: Databases, person: Subject) -> Iterator[str]:
        place = get_user_folder(bases, person)
        if place and os.path.islink(place):
            yield place
        elif place:
            for folder, _, names in os.walk(place):
                yield from (os.path.join(folder, name) for name in sorted(names))


def is_own_memory(bases: Databases, place: str) -> bool:
    """Return whether a file of the folder is a memory of the user."""
    path = os.path.relpath(place, bases.root).replace(os.sep, "/")
    return bool(find_own_person(path)) and not os.path.islink(place)


def get_file_trust(state: sqlite3.Connection | None, path: str) -> Trust:
    """Return the clearance needed to export a file; an unknown file among the transcripts needs full trust."""
    if not is_archive(path):
        return Trust.PUBLIC
    archived = find_archive_access(state, path) if state else None
    return archived.clearance if archived else Trust.FULL


def get_user_folder(bases: Databases, person: Subject) -> str:
    """Return the folder of a person; empty if the name is not a valid folder name."""
    if person.name != os.path.basename(person.name) or person.name in ("", ".", ".."):
        return ""
    return os.path.join(bases.root, "users", person.name)


class TerminalHistoryLocation(DataLocation):
    """The terminal's input history, which is stored by clearance: entries equal to a turn of the person."""

    name = "typed lines"
    where = ".foreword/typed-*"

    def find(self, bases: Databases, person: Subject) -> int:
        """Count the entries."""
        return sum(count for _, _, count in self._cut(bases, person))

    def forget(self, bases: Databases, person: Subject) -> int:
        """Remove the entries."""
        changed = list(self._cut(bases, person))
        for place, text, _ in changed:
            replace_file(place, text)
        return sum(count for _, _, count in changed)

    def _cut(self, bases: Databases, person: Subject) -> Iterator[tuple[str, str, int]]:
        said = {text.strip() for text in person.said}
        for name in sorted(os.listdir(bases.folder)) if os.path.isdir(bases.folder) else ():
            place = os.path.join(bases.folder, name)
            if not HISTORY_FILE_NAME.fullmatch(name) or os.path.islink(place):
                continue
            text = read_file_text(place)
            theirs = [entry[0] for entry in HISTORY_ENTRY.finditer(text) if read_history_entry(entry[0]) in said]
            if theirs:
                for entry in set(theirs):
                    text = text.replace(entry, "")
                yield place, text, len(theirs)


def read_history_entry(entry: str) -> str:
    """Return the text of an entry of the history file, whose lines start with a plus."""
    return "\n".join(line[1:] for line in entry.splitlines() if line.startswith("+")).strip()


class TokenCountLocation(DataLocation):
    """Cached token counts by the hash of a text. A hash can confirm a guess, and counts can be computed again."""

    name = "token counts"
    where = f".foreword/{COUNTS_FILE}"

    def find(self, bases: Databases, person: Subject) -> int:  # noqa: ARG002
        """Return 0: the counts cannot be assigned to a person."""
        return 0

    def forget(self, bases: Databases, person: Subject) -> int:  # noqa: ARG002
        """Delete all counts."""
        place = os.path.join(bases.folder, COUNTS_FILE)
        if os.path.isfile(place):
            with suppress(sqlite3.Error), closing(sqlite3.connect(place, timeout=5, isolation_level=None)) as base:
                base.execute("PRAGMA secure_delete=ON")
                base.execute("DELETE FROM counts")
                base.execute("VACUUM")
        return 0
