"""A Markdown file as Foreword sees it: front matter, and a body without leading comments."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

FENCE = "---\n"
BREAKS = ("\r\n", "\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029")
LONGEST = 100  # characters of a description


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Document:
    """One file that was read."""

    path: str
    body: str
    meta: Mapping[str, object] = field(default_factory=dict)
    sha256: str
    description: str = ""
    note: str = ""

    def field(self, name: str) -> str:
        """Return a field of the front matter as a text, blank where it is missing or no plain value."""
        return read_field(self.meta, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A file that is there and cannot be used, and what to do about it."""

    path: str
    reason: str


def parse_document(path: str, raw: str) -> Document:
    """Split a text into front matter and body."""
    digest = sha256(raw.encode()).hexdigest()
    text = normalise(raw)
    meta: Mapping[str, object] = {}
    note = ""
    if text.startswith(FENCE) and (end := find_fence(text)) is not None:
        meta, note = parse_meta(text[len(FENCE) : end])
        text = text[end:].partition("\n")[2]
    body = strip_comments(text).strip("\n").rstrip()
    return Document(path=path, body=body, meta=meta, sha256=digest, description=describe(meta, body), note=note)


def normalise(raw: str) -> str:
    """Give every line break one form, so that no line can begin unseen."""
    text = raw.removeprefix("\ufeff")
    for sign in BREAKS:
        text = text.replace(sign, "\n")
    return text


def find_fence(text: str) -> int | None:
    """Find where the line stands that closes the front matter."""
    at = text.find("\n---", len(FENCE) - 1)
    while at != -1:
        line_end = text.find("\n", at + 1)
        line = text[at + 1 : line_end if line_end != -1 else None]
        if line.rstrip() == "---":
            return at + 1
        at = text.find("\n---", at + 4)
    return None


def parse_meta(text: str) -> tuple[Mapping[str, object], str]:
    """Read front matter; a broken one is a note, never a failure."""
    import yaml

    try:
        meta = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe loaders
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" in line {mark.line + 2}" if mark else ""
        return {}, f"its front matter is not valid YAML{line} and was ignored"
    except (ValueError, RecursionError):
        return {}, "its front matter holds a value that cannot be read and was ignored"
    if meta is None:
        return {}, ""
    if not isinstance(meta, dict):
        return {}, "its front matter is not a mapping and was ignored"
    return {str(key): value for key, value in meta.items()}, ""


def strip_comments(text: str) -> str:
    """Drop HTML comments that stand before anything else."""
    text = text.lstrip()
    while text.startswith("<!--") and (end := text.find("-->")) != -1:
        text = text[end + 3 :].lstrip()
    return text


def read_field(meta: Mapping[str, object], name: str) -> str:
    """Read a plain value as a text; anything else counts as blank."""
    value = meta.get(name)
    return str(value).strip() if isinstance(value, str | int | float) else ""


def describe(meta: Mapping[str, object], body: str) -> str:
    """Describe a document in one line: by its front matter, its first heading, or its first sentence."""
    if given := read_field(meta, "description"):
        return shorten_line(given)
    first = body[: 4 * LONGEST].lstrip("#\n ").partition("\n")[0]
    return shorten_line(first if body.startswith("#") else first.partition(". ")[0])


def shorten_line(text: str) -> str:
    """Keep a description on one line of at most 100 characters."""
    line = one_line(text).rstrip(".")
    return line if len(line) <= LONGEST else line[: LONGEST - 1].rstrip() + "…"


def one_line(text: str) -> str:
    """Fold all white space, so that a field cannot begin a line of its own."""
    return " ".join(text.split())
