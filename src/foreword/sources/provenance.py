"""Provenance: whose words a memory holds, where no owner has reviewed it."""

from collections.abc import Iterable

from foreword.frozen import frozen
from foreword.sources.document import Document, one_line

INBOX = "inbox"  # the folder of a store for what agents save, one folder for each author in it


@frozen(eq=True)
class Provenance:
    """Where an entry comes from: its author by the folder it lies in, the rest as the entry itself says."""

    author: str
    clearance: str = ""
    channel: str = ""
    time: str = ""
    wanted: str = ""

    def __str__(self) -> str:
        at = f" at {self.clearance}" if self.clearance else ""
        on = f" on {self.channel}" if self.channel else ""
        return f"unreviewed, saved for {self.author}{at}{on}{', ' + self.time[:10] if self.time else ''}"


def find_author(path: str) -> str:
    """Return whose unreviewed words a memory holds, by the inbox it lies in; nothing for the owner's own."""
    parts = path.split("/")
    return parts[3] if len(parts) > 4 and parts[2] == INBOX else ""


def find_provenance(path: str, document: Document) -> Provenance | None:
    """Find where an entry of an inbox comes from; a file outside one is the owner's word."""
    author = find_author(path)
    if not author:
        return None
    return Provenance(
        author=author,
        clearance=one_line(document.field("clearance")),
        channel=one_line(document.field("channel")),
        time=one_line(document.field("time")),
        wanted=one_line(document.field("wanted")),
    )


def show_entries(entries: Iterable[Document]) -> str:
    """Show all that waits for review from one author, each with where it comes from."""
    return "\n\n".join(f"({find_provenance(entry.path, entry)})\n{entry.body}" for entry in entries)
