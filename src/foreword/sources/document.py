"""A Markdown file as Foreword sees it: front matter, and a body without leading comments."""

import re
from collections.abc import Mapping
from dataclasses import field
from hashlib import sha256

from foreword.errors import ConfigError
from foreword.frozen import frozen

FENCE = "---\n"
BREAKS = ("\r\n", "\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029")
LONGEST = 100  # characters of a description
# A field that means the same to a YAML parser and to a reader: a plain word, and a text without signs of its own.
FIELD = re.compile(r"([A-Za-z_][\w-]*):(?:[ ]+([^\s\[\]{}&*!|>'\"%@`#,?:~-](?:[^#:\n]|:(?=\S)|(?<=\S)#)*)?)?\s*")
NOTHING = (None, "null", "Null", "NULL", "~")
READ = ("name", "description", "emoji", "creature", "vibe", "timezone", "location")
SIGN = re.compile(r"\S")
SIGNS = re.compile(r"^(?:[#>*+-]+\s+|\d+[.)]\s+)+")


@frozen
class Document:
    """One file that was read."""

    path: str
    body: str
    meta: Mapping[str, str] = field(default_factory=dict)
    sha256: str
    description: str = ""
    note: str = ""
    first: int = 1
    """The line of the file in which the body begins."""

    def field(self, name: str) -> str:
        """Return a field of the front matter, blank where it is missing or no plain value."""
        return self.meta.get(name, "").strip()


@frozen(eq=True)
class Trouble:
    """A file that is there and cannot be used, and what to do about it."""

    path: str
    reason: str
    stays: bool = False
    """Whether it is the file that was there before, for all that is known, and not something in its place."""


def parse_document(path: str, raw: str) -> Document:
    """Split a text into front matter and body."""
    digest = sha256(raw.encode()).hexdigest()
    text = whole = normalise(raw)
    meta: Mapping[str, str] = {}
    note = ""
    if text.startswith(FENCE) and (end := find_fence(text)) is not None:
        meta, note = parse_meta(text[len(FENCE) : end])
        text = text[end:].partition("\n")[2]
    elif text.startswith(FENCE) and FIELD.match(text, len(FENCE)):
        note = "its front matter has no line --- at its end, so it is taken for text"
    text = strip_comments(text).lstrip("\n")
    body = text.rstrip()
    return Document(
        path=path,
        body=body,
        meta=meta,
        sha256=digest,
        description=describe(meta, body),
        note=note,
        first=whole.count("\n", 0, len(whole) - len(text)) + 1,
    )


def normalise(raw: str) -> str:
    """Give every line break one form, so that no line can begin unseen."""
    if raw.isprintable():
        return raw
    text = raw.removeprefix("\ufeff").encode("utf-8", "replace").decode() if not raw.isascii() else raw
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


def parse_meta(text: str) -> tuple[Mapping[str, str], str]:
    """Read the plain fields of front matter; a broken one is a note, never a failure."""
    simple = {}
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not (field := FIELD.fullmatch(line)):
            return compose_meta(text)
        simple[field[1]] = "" if field[2] in NOTHING else field[2]
    return simple, ""


def compose_meta(text: str) -> tuple[Mapping[str, str], str]:
    """Read front matter that takes a YAML parser."""
    from foreword.config.composer import compose
    from foreword.config.nodes import Scalar, Table

    try:
        root = compose(text, "front matter")
    except ConfigError as error:
        line = (error.faults[0].line or 0) + 1
        return {}, f"its front matter is not valid YAML in line {line} and was ignored"
    if not isinstance(root, Table):
        return {}, "its front matter is not a mapping and was ignored"
    named = {key.text: value for key, value in root.entries if isinstance(key, Scalar)}
    fields = {name: value.text for name, value in named.items() if isinstance(value, Scalar) and value.tag != "null"}
    odd = ", ".join(name for name in READ if name in named and not isinstance(named[name], Scalar))
    return fields, f"its front matter has no plain value for {odd}" if odd else ""


def strip_comments(text: str) -> str:
    """Drop HTML comments that stand before anything else."""
    at = skip_space(text, 0)
    while text.startswith("<!--", at) and (end := text.find("-->", at)) != -1:
        at = skip_space(text, end + 3)
    return text[at:]


def skip_space(text: str, at: int) -> int:
    """Return where the next sign stands that is no white space."""
    found = SIGN.search(text, at)
    return found.start() if found else len(text)


def describe(meta: Mapping[str, str], body: str) -> str:
    """Describe a document in one line: by its front matter, its first heading, or its first sentence."""
    if given := meta.get("description", "").strip():
        return shorten_line(given)
    for line in body[: 10 * LONGEST].splitlines():
        text = SIGNS.sub("", line)
        if any(map(str.isalnum, text)):
            return shorten_line(text if line.startswith("#") else text.partition(". ")[0])
    return ""


def shorten_line(text: str) -> str:
    """Keep a description on one line of at most 100 characters."""
    line = one_line(text).rstrip(".")
    return line if len(line) <= LONGEST else line[: LONGEST - 1].rstrip() + "…"


def make_unicode(text: str) -> str:
    """Replace halves of characters, which no request can hold; every other text stays as it is."""
    return text if text.isascii() or is_unicode(text) else text.encode("utf-8", "replace").decode()


def is_unicode(text: str) -> bool:
    """Whether a text has whole characters only."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def escape_markup(text: str) -> str:
    """Write a text so that it cannot open or close an element."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escape_attribute(text: str) -> str:
    """Write a text so that it cannot end the attribute it stands in."""
    return escape_markup(one_line(text)).replace('"', "&quot;")


def one_line(text: str) -> str:
    """Fold all white space, so that a field cannot begin a line of its own."""
    return " ".join(text.split())
