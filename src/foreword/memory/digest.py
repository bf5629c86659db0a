"""Digests: a short view of the memory that a clearance may read, as input of a summary or in its place.

Only text that the owner wrote or reviewed: unreviewed entries are always shown with their author.
"""

from collections.abc import Iterable, Iterator

from foreword.engine.sources.documents import Document, join_lines
from foreword.engine.sources.memory_sections import FACTS_FILE, load_facts
from foreword.engine.trust import show_path
from foreword.secret import find_secrets
from foreword.types import frozen

LINE = 160  # characters that a digest has for one memory
SHARE = 1_500  # characters of one memory in the input of a summary


@frozen(eq=True)
class Survey:
    """The memories to summarise, before any is read."""

    stamp: str
    """Changes with any of the memories; empty if there is none."""
    paths: tuple[str, ...]
    """The files, those changed last first."""


def write_digest(documents: Iterable[Document], most: int) -> str:
    """Sum up by rule: a line for each memory as long as there is room."""
    return fill((f"- {name_memory(one)}: {shorten(tell_first(one), LINE)}" for one in documents), most)


def write_excerpts(documents: Iterable[Document], most: int) -> str:
    """Write the beginning of each memory, for a model that sums them up."""
    return fill((f"[{name_memory(one)}]\n{shorten(tell_body(one), SHARE)}\n" for one in documents), most)


def fill(parts: Iterable[str], most: int) -> str:
    """Join as many parts as there is room for; one that may hold a secret is left out."""
    kept: list[str] = []
    for part in parts:
        most -= len(part) + 1
        if most < 0:
            break
        if next(find_secrets(part), None) is None:
            kept.append(part)
    return "\n".join(kept)


def name_memory(document: Document) -> str:
    """Name a memory by its path, as memory_get reads it."""
    return join_lines(show_path(document.path))


def tell_body(document: Document) -> str:
    """Return the whole text of a memory; facts as a list."""
    return "\n".join(load_facts(document) or ()) if document.path == FACTS_FILE else document.body


def tell_first(document: Document) -> str:
    """Return the description of a memory, else its beginning."""
    return join_lines(document.field("description")) or next(list_words(tell_body(document)), "")


def list_words(text: str) -> Iterator[str]:
    """List the lines of a text that are more than a heading or a rule."""
    for line in text.splitlines():
        if not line.startswith("#") and (plain := join_lines(line).strip("-*_=> ")):
            yield plain


def shorten(text: str, most: int) -> str:
    """Cut a text to its beginning, at a word."""
    return text if len(text) <= most else f"{text[: most - 1].rpartition(' ')[0] or text[: most - 1]}…"
