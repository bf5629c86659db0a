"""Provenance: whose words a memory holds, where no owner has reviewed it."""

import re
from collections.abc import Iterable

from foreword.frozen import frozen
from foreword.sources.document import Document, one_line
from foreword.sources.own_memory import find_own_person, is_own_entry

INBOX = "inbox"  # the folder of a store for what agents save, one folder for each author in it
NOBODY = "unknown"  # the author of what lies in an inbox and in nobody's folder
CLAIM = re.compile(r"(?m)^\((?=unreviewed|saved for )")  # a line that looks as if it said whose words follow


@frozen(eq=True)
class Provenance:
    """Where an entry comes from: its author by the folder it lies in, the rest as the entry itself says."""

    author: str
    clearance: str = ""
    channel: str = ""
    session: str = ""
    time: str = ""
    wanted: str = ""
    """The store that an entry of an older version was meant for; nothing has confirmed it."""
    own: bool = False
    """Whether it lies in the author's own memory, which no owner reviews."""

    def __str__(self) -> str:
        at = f" at {self.clearance}" if self.clearance else ""
        on = f" on {self.channel}" if self.channel else ""
        review = "" if self.own else "unreviewed, "
        return f"{review}saved for {self.author}{at}{on}{', ' + self.time[:10] if self.time else ''}"


def find_author(path: str) -> str:
    """Return for whom an agent saved a memory, by the folder it lies in; nothing for what people wrote by hand."""
    if is_own_entry(path):
        return find_own_person(path)
    parts = path.split("/")
    if len(parts) < 4 or parts[0] != "memory" or parts[2] != INBOX:
        return ""
    return parts[3] if len(parts) > 4 else NOBODY


def find_provenance(path: str, document: Document) -> Provenance | None:
    """Find where an entry comes from; any other file is the word of the person who wrote it."""
    author = find_author(path)
    if not author:
        return None
    return Provenance(
        author=author,
        clearance=one_line(document.field("clearance")),
        channel=one_line(document.field("channel")),
        session=one_line(document.field("session")),
        time=one_line(document.field("time")),
        wanted=one_line(document.field("wanted")),
        own=is_own_entry(path),
    )


def show_entries(entries: Iterable[Document]) -> str:
    """Show entries of one author, each with where it comes from."""
    return "\n\n".join(f"({find_provenance(entry.path, entry)})\n{show_body(entry.body)}" for entry in entries)


def show_body(text: str) -> str:
    """Show words that nobody has reviewed so that none of them says whose they are."""
    return CLAIM.sub(r"\\(", text)
