"""Entries: what an agent saves, one Markdown file each, with who said it, where, when and at which clearance."""

import os
import re
from datetime import UTC, datetime
from hashlib import sha256

from foreword.errors import InputError
from foreword.frozen import frozen
from foreword.sources.document import normalise, one_line, strip_comments
from foreword.sources.provenance import INBOX
from foreword.words import Trust

LONGEST = 20_000  # characters of an entry
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
NOBODY = "unknown"


@frozen(eq=True)
class Note:
    """Something to be remembered, and where it comes from."""

    text: str
    author: str
    clearance: Trust
    channel: str = ""
    session: str = ""
    time: datetime
    wanted: str = ""
    """The store with more readers that it is meant for, once a person has confirmed that."""


def check_text(text: str) -> str:
    """Take the text of an entry, or refuse one that is empty or too long."""
    clean = strip_comments(normalise(text).replace("\0", "")).strip()
    if not clean:
        raise InputError("there is nothing to save; give a text")
    if len(clean) > LONGEST:
        raise InputError(f"an entry has at most {LONGEST:,} characters, and this one has {len(clean):,}; save a part")
    return clean


def find_place(store: str, note: Note) -> str:
    """Find the path of an entry; its name says nothing of its text."""
    author = note.author if NAME.fullmatch(note.author) else NOBODY
    moment = note.time.astimezone(UTC)
    mark = sha256(f"{note.text}\0{moment.isoformat()}".encode()).hexdigest()[:8]
    return f"memory/{store}/{INBOX}/{author}/{moment:%Y%m%dT%H%M%S}-{mark}.md"


def write_note(note: Note) -> str:
    """Write an entry as a file, its origin in the front matter."""
    fields = {
        "author": note.author or NOBODY,
        "clearance": str(note.clearance),
        "channel": note.channel,
        "session": note.session,
        "time": note.time.astimezone(UTC).isoformat(timespec="seconds"),
        "wanted": note.wanted,
    }
    head = "".join(f"{name}: {quote(value)}\n" for name, value in fields.items() if value)
    return f"---\n{head}---\n{note.text}\n"


def quote(value: str) -> str:
    """Write a field so that it stays one text on one line."""
    line = one_line(normalise(value)).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{line}"'


class Taken(InputError):
    """There is a file already where a new one was to be."""


def put(draft: str, place: str, path: str) -> None:
    """Put a draft in its place; what is there already stays, as it would not if it were renamed."""
    try:
        os.link(draft, place)
    except FileExistsError:
        raise Taken(f"{path} is there already; nothing was saved") from None


def write_file(root: str, path: str, text: str) -> None:
    """Write a new file whole or not at all."""
    place = os.path.join(root, *path.split("/"))
    folder = os.path.dirname(place)
    draft = f"{place}.{os.getpid()}.new"
    try:
        if os.path.realpath(folder) != folder:
            raise InputError(f"{path} lies behind a link, which is not written through; nothing was saved")
        os.makedirs(folder, exist_ok=True)
        with open(draft, "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        put(draft, place, path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}; nothing was saved") from None
    finally:
        if os.path.lexists(draft):
            os.unlink(draft)
