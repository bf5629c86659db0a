"""Provenance: whose words a memory holds, where no owner has reviewed it."""

import re
from collections.abc import Iterable

from foreword.frozen import frozen
from foreword.sources.document import Document, one_line

INBOX = "inbox"  # the folder of a store for what agents save, one folder for each author in it
NOBODY = "unknown"  # the author of what lies in an inbox and in nobody's folder
CLAIM = re.compile(r"(?m)^\((?=unreviewed)")  # a line that looks as if it said whose words follow


@frozen(eq=True)
class Provenance:
    """Where an entry comes from: its author by the folder it lies in, the rest as the entry itself says."""

    author: str
    clearance: str = ""
    channel: str = ""
    session: str = ""
    time: str = ""
    wanted: str = ""

    def __str__(self) -> str:
        at = f" at {self.clearance}" if self.clearance else ""
        on = f" on {self.channel}" if self.channel else ""
        return f"unreviewed, saved for {self.author}{at}{on}{', ' + self.time[:10] if self.time else ''}"


def find_author(path: str) -> str:
    """Return whose unreviewed words a memory holds, by the inbox it lies in; nothing for the owner's own."""
    parts = path.split("/")
    if len(parts) < 4 or parts[0] != "memory" or parts[2] != INBOX:
        return ""
    return parts[3] if len(parts) > 4 else NOBODY


def find_provenance(path: str, document: Document) -> Provenance | None:
    """Find where an entry of an inbox comes from; a file outside one is the owner's word."""
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
    )


def show_entries(entries: Iterable[Document]) -> str:
    """Show all that waits for review from one author, each with where it comes from."""
    return "\n\n".join(f"({find_provenance(entry.path, entry)})\n{show_body(entry.body)}" for entry in entries)


def show_body(text: str) -> str:
    """Show words that nobody has reviewed so that none of them says whose they are."""
    return CLAIM.sub(r"\\(", text)
