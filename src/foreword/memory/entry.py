"""Entries: what an agent saves, one Markdown file each, with who said it, where, when and at which clearance."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from threading import get_ident

from foreword.engine.sources.documents import join_lines, normalise_lines, strip_comments
from foreword.engine.trust import INBOX, OWN_STORE, UNKNOWN_AUTHOR, Provenance, find_own_folder, find_own_person
from foreword.errors import InputError
from foreword.turn import check_name
from foreword.types import Trust, frozen

MAX_ENTRY_CHARS = 20_000  # characters of an entry
PRIVATE_FILE_MODE = 0o600  # of a file that only one person may read


@frozen(eq=True)
class Note:
    """A text to save, with its provenance."""

    text: str
    author: str
    clearance: Trust
    channel: str = ""
    session: str = ""
    time: datetime
    confirmed: str = ""
    """The person who confirmed that it is for more readers than where it was learned."""

    @property
    def origin(self) -> Provenance:
        """Its origin as front matter states it."""
        return Provenance(
            author=self.author or UNKNOWN_AUTHOR,
            clearance=str(self.clearance),
            channel=self.channel,
            session=self.session,
            time=write_time(self.time),
        )


@frozen(eq=True)
class Confirmed:
    """An entry that a person confirmed."""

    text: str
    origin: Provenance
    by: str
    """Who confirmed it and when."""


def check_text(text: str) -> str:
    """Return the cleaned text of an entry; raise InputError if it is empty or too long."""
    clean = strip_comments(normalise_lines(text).replace("\0", "")).strip()
    if not clean:
        raise InputError("there is nothing to save; give a text")
    if len(clean) > MAX_ENTRY_CHARS:
        raise InputError(
            f"an entry has at most {MAX_ENTRY_CHARS:,} characters; this one has {len(clean):,}, so save a part"
        )
    return clean


def find_places(store: str, note: Note, folder: str = "") -> Iterator[str]:
    """Yield the path of an entry, then a second one for use when the first is taken by an edited version.

    Without `folder`, an entry of a store goes to the author's inbox.
    """
    moment = note.time.astimezone(UTC)
    if store == OWN_STORE:  # the author is part of the name: two people's paths are never the same
        folder, text = f"{find_own_folder(note.author)}/{note.clearance}", f"{note.author}\0{note.text}"
    else:
        author = UNKNOWN_AUTHOR if check_name(note.author) else note.author
        folder, text = f"memory/{store}/{folder or f'{INBOX}/{author}'}", note.text
    mark = sha256(text.encode()).hexdigest()[:12]
    for form in ("%Y%m%d", "%Y%m%dT%H%M%S%f"):
        yield f"{folder}/{moment.strftime(form)}-{mark}.md"


def write_time(moment: datetime) -> str:
    """Write a moment as front matter has it."""
    return moment.astimezone(UTC).isoformat(timespec="seconds")


def write_note(note: Note) -> str:
    """Write an entry as a file, its origin in the front matter."""
    return write_head(list_fields(Confirmed(text=note.text, origin=note.origin, by=note.confirmed))) + f"{note.text}\n"


def write_confirmed(entry: Confirmed) -> str:
    """Write a promoted entry as a file that names its author and the person who confirmed it."""
    return write_head({**list_fields(entry), **list_marks(entry.text)}) + f"{entry.text}\n"


def list_fields(entry: Confirmed) -> dict[str, str]:
    """List the known origin of a promoted entry, and who confirmed it."""
    names = ("author", "clearance", "channel", "session", "time")
    fields = {name: getattr(entry.origin, name) for name in names} | {"confirmed": entry.by}
    return {name: value for name, value in fields.items() if value}


def list_marks(text: str) -> dict[str, str]:
    """Return the number of lines and the hash that identify a promoted text in its file."""
    return {"lines": str(text.count("\n") + 1), "text": mark_text(text)}


def mark_text(text: str) -> str:
    """Return the short hash of a text; the name of an entry's file contains it."""
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:12]


def write_head(fields: Mapping[str, str]) -> str:
    """Write front matter with the fields that have a value."""
    lines = "".join(f"{name}: {quote(value)}\n" for name, value in fields.items() if value)
    return f"---\n{lines}---\n"


def quote(value: str) -> str:
    """Quote a field value on one line."""
    plain = "".join(sign for sign in join_lines(normalise_lines(value)) if sign.isprintable())
    line = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{line}"'


def write_file(root: str, path: str, text: str) -> bool:
    """Create a file atomically; return False if it exists. Files of personal memory get mode 0600."""
    place = os.path.join(root, *path.split("/"))
    folder = os.path.dirname(place)
    try:
        if os.path.realpath(folder) != folder:
            raise InputError(f"{path} is behind a link; nothing was saved")
        os.makedirs(folder, exist_ok=True)
        with drafted(place, text) as draft:
            if find_own_person(path):
                os.chmod(draft, PRIVATE_FILE_MODE)
            return link(draft, place)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}; nothing was saved") from None


@contextmanager
def drafted(place: str, text: str) -> Iterator[str]:
    """Write a text to a synced temporary file in the target folder; remove the file at the end."""
    draft = f"{place}.{os.getpid()}-{get_ident()}.new"
    try:
        with open(draft, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        yield draft
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)


def link(draft: str, place: str) -> bool:
    """Link a draft to its target; unlike a rename, this never replaces an existing file."""
    try:
        os.link(draft, place)
    except FileExistsError:
        return False
    return True
