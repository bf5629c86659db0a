"""Personal data in files: memories, the search index, transcripts, the user's folder, typed lines and token counts."""

import json
import os
import re
import shutil
import sqlite3
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace

from foreword.agent.images import IMAGE_FOLDER, ImageFolder
from foreword.engine import trust as file_access
from foreword.engine.sources.documents import Document
from foreword.engine.sources.files import Files
from foreword.engine.sources.memory_sections import FACTS_FILE
from foreword.events.redaction import redact_value
from foreword.gateway import transcripts
from foreword.memory.entry import drafted
from foreword.memory.index import FILE, Damaged, Index, remove, translate
from foreword.memory.notes import LOCK_TIMEOUT_S, claim, edit_file, remove_added
from foreword.privacy import subject
from foreword.privacy.database_locations import STATE, DataLocation, ExportedItem
from foreword.privacy.subject import OWN_NAMES_SQL, Databases, Redactor, Subject
from foreword.storage import sessions
from foreword.storage.database import format_moment
from foreword.storage.rows import fetch_all, fetch_column
from foreword.types import Trust


def get_store_trust(databases: Databases, path: str) -> Trust:
    """Return the trust of the store of a memory file; full for an unknown store."""
    store = databases.config.stores.get(path.split("/")[1])
    return store.trust if store else Trust.FULL


def replace_file(path: str, text: str) -> None:
    """Replace the content of a file atomically and keep its permissions."""
    with drafted(path, text) as draft:
        shutil.copymode(path, draft)
        os.replace(draft, path)


class MemoryLocation(DataLocation):
    """The person's own memory, and memories with the person as author, in an inbox or promoted."""

    name = "memories"
    where = "memory/ and users/NAME/memory/"

    def list_changes(self, databases: Databases, person: Subject) -> Iterator[str]:
        """List the paths of the files."""
        return subject.list_authored_files(databases.root, person.names)

    def export(self, databases: Databases, person: Subject) -> Iterator[ExportedItem]:
        """Export each file at the trust of its store, own memory at the clearance at which it was learned."""
        for path in self.list_changes(databases, person):
            own = bool(file_access.find_own_person(path))
            trust = file_access.find_own_level(path) if own else get_store_trust(databases, path)
            text = subject.read_file_text(os.path.join(databases.root, path))
            yield {"path": path, "text": text}, trust

    def apply(self, databases: Databases, change: str) -> None:
        """Delete a file."""
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(databases.root, change))

    def erase(self, databases: Databases, person: Subject) -> int:
        """Delete the files and the empty inbox folders."""
        erased = super().erase(databases, person)
        memory = os.path.join(databases.root, file_access.MEMORY_FOLDER)
        for store in subject.list_folders(memory):
            with suppress(OSError):
                os.rmdir(os.path.join(memory, store, "inbox", person.name))
        return erased


class NoteAdditionLocation(DataLocation):
    """Texts of the person that were promoted into a note of the owner, to whom a text belongs once it was edited."""

    name = "texts added to notes"
    where = "memory/"

    def list_changes(self, databases: Databases, person: Subject) -> Iterator[tuple[str, str]]:
        """List file and text of each addition."""
        return (added for added in subject.list_additions(databases.root, person.names) if added[1])

    def export(self, databases: Databases, person: Subject) -> Iterator[ExportedItem]:
        """Export each text at the trust of its store."""
        for path, text in self.list_changes(databases, person):
            yield {"path": path, "text": text}, get_store_trust(databases, path)

    def erase(self, databases: Databases, person: Subject) -> int:
        """Remove the texts and all records with the person's name from the notes."""
        added = list(subject.list_additions(databases.root, person.names))
        for path in dict.fromkeys(path for path, _ in added):
            if os.path.exists(os.path.join(databases.root, path)):  # not removed meanwhile
                edit_file(databases.root, path, lambda text: remove_added(text or "", person.names))
        return sum(1 for _, text in added if text)


class FactLocation(DataLocation):
    """Facts promoted from entries of the person."""

    name = "facts"
    where = FACTS_FILE

    def list_changes(self, databases: Databases, person: Subject) -> Iterator[str]:
        """List the texts of the facts."""
        return iter(subject.find_facts(databases.root, person.names).values())

    def export(self, databases: Databases, person: Subject) -> Iterator[ExportedItem]:
        """Export the facts."""
        return (({"text": text}, Trust.INNER) for text in self.list_changes(databases, person))

    def erase(self, databases: Databases, person: Subject) -> int:
        """Rewrite the file without the person's facts."""
        root, path = databases.root, os.path.join(databases.root, FACTS_FILE)
        if not subject.find_facts(root, person.names):
            return 0
        with claim(f"{path}.new", LOCK_TIMEOUT_S) as file:
            own = subject.find_facts(root, person.names)  # read again under the lock
            others = [fact for position, fact in enumerate(subject.load_facts(root)) if position not in own]
            json.dump(others, file, ensure_ascii=False, indent=2)
            file.flush()
            os.fsync(file.fileno())
            os.chmod(file.name, os.stat(path).st_mode & 0o777)
            os.replace(file.name, os.path.realpath(path))  # a link stays a link, and its target loses the facts
        return len(own)


class QuotingMemoryLocation(DataLocation):
    """Memories that agents saved for others and that quote the person; files written by hand are not included."""

    name = "memories saved for others that quote them"
    where = "memory/ and users/"

    def list_changes(self, databases: Databases, person: Subject) -> Iterator[tuple[str, str]]:
        """List the path of each file and its text without the quotations."""
        redactor = Redactor(person, memories=False)
        own = frozenset(subject.list_authored_files(databases.root, person.names))
        for path in subject.list_memory_files(databases.root):
            if path not in own and file_access.find_author(path):
                place = os.path.join(databases.root, path)
                text = subject.read_file_text(place)
                if (after := redactor.redact(text)) != text:
                    yield place, after

    def apply(self, databases: Databases, change: tuple[str, str]) -> None:  # noqa: ARG002
        """Replace a file."""
        replace_file(*change)


class SearchIndexLocation(DataLocation):
    """The search index of the person's memories."""

    name = "search index"
    where = f".foreword/{FILE}"

    def find(self, databases: Databases, person: Subject) -> int:
        """Count the person's documents in the index, or else the stores with their name."""
        index = read_index(databases.folder)
        authored = frozenset(subject.list_authored_files(databases.root, person.names))
        paths = [path for documents in index.values() for path in documents]
        authors = [file_access.find_own_person(path) or file_access.find_author(path) for path in paths]
        own = [path for path, author in zip(paths, authors, strict=True) if path in authored or author in person.names]
        return len(own) or len(index.keys() & list_own_stores(person))

    def erase(self, databases: Databases, person: Subject) -> int:
        """Remove documents whose file is missing or changed, and vacuum the index; delete a damaged index."""
        folder, files = databases.folder, Files(databases.root)
        if not os.path.isfile(os.path.join(folder, FILE)):
            return 0
        found, indexed = self.find(databases, person), read_index(folder)
        try:
            with translate(), closing(Index(folder)) as index:
                with index.writing():
                    for store, documents in indexed.items():
                        for path, sha256 in documents.items():
                            document = files.read(path)
                            if not isinstance(document, Document) or document.sha256 != sha256:
                                index.drop(store, path)
                    for store in indexed.keys() & list_own_stores(person):
                        index.remove(store)
                for store in index.stores():
                    index.scrub(store)
        except Damaged:
            remove(folder)
        return found


def list_own_stores(person: Subject) -> set[str]:
    """Return the names of the index stores of a person's own memory."""
    return {store for name in person.names for store in file_access.list_index_stores(name, Trust.FULL)}


def read_index(folder: str) -> dict[str, dict[str, str]]:
    """Return the hash of each indexed document, by store and path; empty if the index cannot be read."""
    path = os.path.join(folder, FILE)
    if not os.path.isfile(path):
        return {}
    with suppress(sqlite3.Error), closing(sqlite3.connect(path, timeout=5, isolation_level=None)) as index:
        stores = fetch_column(index, "SELECT name FROM stores")
        query = "SELECT path, sha256 FROM documents_{}"
        return {store: dict(index.execute(query.format(store.encode().hex()))) for store in stores}
    return {}


SPEAKS_SQL = f"user_id IN {OWN_NAMES_SQL} OR EXISTS (SELECT 1 FROM json_each(people) WHERE value IN {OWN_NAMES_SQL})"
QUOTE_PREFIX = re.compile(r"(?m)^> ?")


class TranscriptLocation(DataLocation):
    """Transcripts in which the person speaks, and those of others in which an agent quotes the person."""

    name = "archived transcripts"
    base = STATE
    where = "groups/ and users/"
    claims = ("state.archives.*",)

    def list_changes(self, databases: Databases, person: Subject) -> Iterator[tuple[sessions.Archive, bool]]:
        """List the person's transcripts, and those of others that quote them, each with whether the person speaks."""
        yield from ((archive, True) for archive in list_archives(databases, SPEAKS_SQL))
        redactor = Redactor(person)
        for archive in list_archives(databases, f"NOT ({SPEAKS_SQL})"):
            path = os.path.join(databases.root, archive.path)
            if not os.path.isfile(path) or os.path.realpath(path) != path:
                continue  # transcripts are never written through a link
            text = subject.read_file_text(path)
            if not redactor.finds_words(QUOTE_PREFIX.sub("", text)):
                continue
            # Messages written by other people stay, even if they quote the person, as in the state.
            transcript = read_transcript(databases, archive)
            if transcript:
                told = (replace(one, reply=redact_value(one.reply, redactor.redact)) for one in transcript.exchanges)
                transcript = replace(transcript, exchanges=tuple(told))
            if transcript is None or text != transcripts.render_transcript(transcript, databases.config):
                yield archive, False

    def apply(self, databases: Databases, change: tuple[sessions.Archive, bool]) -> None:
        """Delete a private transcript of the person; render any other again from the state, without their words.

        This runs after the state was changed. A transcript without remaining turns is deleted.
        """
        archive, speaks = change
        root, state, config = databases.root, databases.state, databases.config
        transcript = read_transcript(databases, archive)
        if transcript and not speaks:
            transcripts.write_transcript_file(root, archive.path, transcripts.render_transcript(transcript, config))
            return
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(root, archive.path))
        sessions.drop_archive(state, archive.path)
        if transcript and not archive.user:
            renewed = transcripts.describe_archive(transcript, config)
            other = transcripts.find_archive_path(transcript, config, archive.session)
            path = sessions.reserve_path(state, renewed, other)
            transcripts.write_transcript_file(root, path, transcripts.render_transcript(transcript, config))
            finished = format_moment(transcript.exchanges[-1].finished)
            sessions.record_written(state, replace(renewed, path=path), finished)


def list_archives(databases: Databases, condition: str) -> list[sessions.Archive]:
    """List the transcripts that match a condition."""
    return fetch_all(sessions.Archive, databases.state, f"SELECT * FROM archives WHERE {condition} ORDER BY path")


def read_transcript(databases: Databases, archive: sessions.Archive) -> transcripts.Transcript | None:
    """Read the turns of an archived session from the state; None if none is left."""
    session = sessions.get_session(databases.state, archive.session)
    transcript = transcripts.read_transcript(databases.state, session) if session else None
    return transcript if transcript and transcript.exchanges else None


class UserFolderLocation(DataLocation):
    """The user's folder, `users/NAME/`; its memories have a location of their own."""

    name = "own files"
    where = "users/NAME/"

    def list_changes(self, databases: Databases, person: Subject) -> Iterator[str]:
        """List the paths of the files, except transcripts, which are counted by their own location."""
        archived = {archive.path for archive in list_archives(databases, SPEAKS_SQL)}
        return (path for path in self._list_files(databases, person) if path not in archived)

    def export(self, databases: Databases, person: Subject) -> Iterator[ExportedItem]:
        """Export each file, a transcript at the clearance of its session, or at full trust if that is unknown."""
        for path in self._list_files(databases, person):
            place, trust = os.path.join(databases.root, path), Trust.PUBLIC
            if file_access.is_archive(path):
                archived = sessions.find_archive_access(databases.state, path)
                trust = archived.clearance if archived else Trust.FULL
            text = "" if os.path.islink(place) else subject.read_file_text(place)
            yield {"path": path, "text": text}, trust

    def erase(self, databases: Databases, person: Subject) -> int:
        """Delete the folder; a symbolic link is removed without its target."""
        found, folder = self.find(databases, person), self._get_folder(databases, person)
        if os.path.islink(folder):
            os.unlink(folder)
        elif os.path.isdir(folder):
            shutil.rmtree(folder)
        return found

    def _list_files(self, databases: Databases, person: Subject) -> Iterator[str]:
        """List the paths of all files except memories; of a link only the link."""
        top = self._get_folder(databases, person)
        walked = (os.path.join(folder, name) for folder, _, names in os.walk(top) for name in sorted(names))
        for place in [top] if os.path.islink(top) else walked:
            path = os.path.relpath(place, databases.root).replace(os.sep, "/")
            if not file_access.find_own_person(path) or os.path.islink(place):
                yield path

    def _get_folder(self, databases: Databases, person: Subject) -> str:
        """Return the folder of a person; empty if the name is not a valid folder name."""
        if person.name != os.path.basename(person.name) or person.name in ("", ".", ".."):
            return ""
        return os.path.join(databases.root, file_access.USERS_FOLDER, person.name)


OWN_IMAGE_TURNS_SQL = f"(turns.id IN {subject.select_ids('turn')} OR turns.user_id IN {OWN_NAMES_SQL})"
IMAGES_SQL = "turns JOIN json_each(iif(json_valid(turns.request), turns.request, '{}'), '$.images') AS image"
OWN_IMAGES_SQL = f"""
SELECT image.value ->> 'sha256' AS name, image.value ->> 'media_type', min(coalesce(sessions.clearance, 3))
FROM {IMAGES_SQL} LEFT JOIN sessions ON sessions.id = turns.session_id
WHERE {OWN_IMAGE_TURNS_SQL} GROUP BY name ORDER BY name"""
OTHER_IMAGES_SQL = f"SELECT image.value ->> 'sha256' FROM {IMAGES_SQL} WHERE NOT {OWN_IMAGE_TURNS_SQL}"
ALL_IMAGES_SQL = f"SELECT image.value ->> 'sha256' FROM {IMAGES_SQL}"
UNUSED_IMAGE_S = 3_600  # seconds after which an image without a message is not one that is just being accepted


class ImageLocation(DataLocation):
    """The images of the person's messages. A file that a message of another person refers to as well stays.

    The person of an image is known by the messages alone, so the files are deleted before them, in one transaction.
    """

    name = "images"
    base = STATE
    where = f".foreword/{IMAGE_FOLDER}/"

    def list_changes(self, databases: Databases, person: Subject) -> Iterator[str]:  # noqa: ARG002
        """List the paths of the files that only messages of the person refer to."""
        others = set(fetch_column(databases.state, OTHER_IMAGES_SQL))
        for name, _, _ in databases.state.execute(OWN_IMAGES_SQL).fetchall():
            path = os.path.join(databases.folder, IMAGE_FOLDER, name)
            if name not in others and os.path.isfile(path):
                yield path

    def export(self, databases: Databases, person: Subject) -> Iterator[ExportedItem]:  # noqa: ARG002
        """Export each image in base64, at the lowest clearance at which it was sent."""
        for name, media_type, trust in databases.state.execute(OWN_IMAGES_SQL).fetchall():
            content = ImageFolder(databases.folder).read(name)
            if content is not None:
                path = f"{self.where}{name}"
                yield {"path": path, "media_type": media_type, "base64": b64encode(content).decode()}, Trust(trust)

    def apply(self, databases: Databases, change: str) -> None:  # noqa: ARG002
        """Delete a file."""
        with suppress(FileNotFoundError):
            os.unlink(change)

    def erase(self, databases: Databases, person: Subject) -> int:
        """Delete the files, and old ones of messages that were never accepted."""
        erased = super().erase(databases, person)
        folder, used = os.path.join(databases.folder, IMAGE_FOLDER), {*fetch_column(databases.state, ALL_IMAGES_SQL)}
        for name in set(os.listdir(folder)) - used if os.path.isdir(folder) else ():
            path = os.path.join(folder, name)
            with suppress(FileNotFoundError):
                if time.time() - os.path.getmtime(path) > UNUSED_IMAGE_S:
                    os.unlink(path)
        return erased


HISTORY_FILE_NAME = re.compile(r"typed-\w+")
HISTORY_ENTRY = re.compile(r"(?m)\n?# [^\n]*\n(?:\+[^\n]*\n?)+")


class TerminalHistoryLocation(DataLocation):
    """The terminal's input history, which is stored by clearance: entries equal to a turn of the person."""

    name = "typed lines"
    where = ".foreword/typed-*"

    def list_changes(self, databases: Databases, person: Subject) -> Iterator[tuple[str, str]]:
        """List file and text of each entry. Its lines start with a plus."""
        messages = {text.strip() for text in person.messages}
        for name in sorted(os.listdir(databases.folder)) if os.path.isdir(databases.folder) else ():
            path = os.path.join(databases.folder, name)
            if HISTORY_FILE_NAME.fullmatch(name) and not os.path.islink(path):
                for entry in HISTORY_ENTRY.findall(subject.read_file_text(path)):
                    lines = [line[1:] for line in entry.splitlines() if line.startswith("+")]
                    if "\n".join(lines).strip() in messages:
                        yield path, entry

    def erase(self, databases: Databases, person: Subject) -> int:
        """Remove the entries."""
        entries = list(self.list_changes(databases, person))
        for path in {path for path, _ in entries}:
            text = subject.read_file_text(path)
            for entry in {entry for place, entry in entries if place == path}:
                text = text.replace(entry, "")
            replace_file(path, text)
        return len(entries)


class TokenCountLocation(DataLocation):
    """Cached token counts by the hash of a text. A hash can confirm a guess, and counts can be computed again."""

    name = "token counts"
    where = ".foreword/counts.sqlite"

    def erase(self, databases: Databases, person: Subject) -> int:  # noqa: ARG002
        """Delete all counts."""
        path = os.path.join(databases.folder, "counts.sqlite")
        if os.path.isfile(path):
            with suppress(sqlite3.Error), closing(sqlite3.connect(path, timeout=5, isolation_level=None)) as counts:
                counts.execute("PRAGMA secure_delete=ON")
                counts.execute("DELETE FROM counts")
                counts.execute("VACUUM")
        return 0
