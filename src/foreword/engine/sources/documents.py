"""Documents: Markdown files with front matter, the built-in texts, and what makes a text unusable."""

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import field
from functools import cache
from hashlib import sha256

from foreword.engine.sources.template_language import InvalidTemplate, compile_template
from foreword.errors import ConfigError
from foreword.resources import list_prompts, read_resource
from foreword.types import frozen

FRONT_MATTER_FENCE = "---\n"
CLOSING_FENCE = re.compile(r"^---[^\S\n]*$", re.MULTILINE)
LINE_BREAKS = ("\r\n", "\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029")
MAX_DESCRIPTION_CHARS = 100  # the maximum characters of a description
# A field that means the same to a YAML parser and to a person: a plain key, and a value without YAML syntax.
FIELD = re.compile(r"([A-Za-z_][\w-]*):(?:[ ]+([^\s\[\]{}&*!|>'\"%@`#,?:~-](?:[^#:\n]|:(?=\S)|(?<=\S)#)*)?)?\s*")
NOTHING = (None, "null", "Null", "NULL", "~")
KNOWN_FIELDS = ("name", "description", "emoji", "creature", "vibe", "timezone", "location")
# White space and comments at the start of a text.
COMMENTS = re.compile(r"\s*(?:<!(?=--).*?-->\s*)*", re.DOTALL)
CODE_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
SIGNS = re.compile(r"^(?:[#>*+-]+\s+|\d+[.)]\s+)+")


@frozen
class Document:
    """A parsed file."""

    path: str
    body: str
    meta: Mapping[str, str] = field(default_factory=dict)
    sha256: str
    description: str = ""
    note: str = ""
    first: int = 1
    """The line of the file where the body begins."""

    def field(self, name: str) -> str:
        """Return a field of the front matter; empty if it is missing or not a plain value."""
        return self.meta.get(name, "").strip()


@frozen(eq=True)
class FileProblem:
    """A file that exists but cannot be used, and the reason."""

    path: str
    reason: str
    stays: bool = False
    """Whether it is, as far as known, the same file as before, and not a replacement."""


def parse_document(path: str, raw: str) -> Document:
    """Split a text into front matter and body."""
    digest = sha256(raw.encode()).hexdigest()
    text = whole = normalise_lines(raw)
    meta: Mapping[str, str] = {}
    note = ""
    if text.startswith(FRONT_MATTER_FENCE) and (end := find_fence(text)) is not None:
        meta, note = parse_meta(text[len(FRONT_MATTER_FENCE) : end])
        text = text[end:].partition("\n")[2]
    elif text.startswith(FRONT_MATTER_FENCE) and FIELD.match(text, len(FRONT_MATTER_FENCE)):
        note = "its front matter has no line --- at its end, so it is taken for text"
    text = strip_comments(text)
    body = text.rstrip()
    return Document(
        path=path,
        body=body,
        meta=meta,
        sha256=digest,
        description=describe_document(meta, body),
        note=note,
        first=whole.count("\n", 0, len(whole) - len(text)) + 1,
    )


def normalise_lines(raw: str) -> str:
    """Normalise every line break to a newline, so that no line can begin unnoticed."""
    if raw.isprintable():
        return raw
    text = raw.removeprefix("\ufeff").encode("utf-8", "replace").decode() if not raw.isascii() else raw
    for sign in LINE_BREAKS:
        text = text.replace(sign, "\n")
    return text


def find_fence(text: str) -> int | None:
    """Return the position of the line that closes the front matter, or None."""
    found = CLOSING_FENCE.search(text, len(FRONT_MATTER_FENCE))
    return found.start() if found else None


def parse_meta(text: str) -> tuple[Mapping[str, str], str]:
    """Parse the plain fields of front matter; broken front matter gives a note and never fails."""
    simple = {}
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not (field := FIELD.fullmatch(line)):
            return compose_meta(text)
        simple[field[1]] = "" if field[2] in NOTHING else field[2]
    return simple, ""


def compose_meta(text: str) -> tuple[Mapping[str, str], str]:
    """Parse front matter that needs a YAML parser."""
    from foreword.config.structure import MappingNode, ScalarNode
    from foreword.config.yaml import parse_nodes

    try:
        root = parse_nodes(text, "front matter")
    except ConfigError as error:
        line = (error.faults[0].line or 0) + 1
        return {}, f"its front matter is not valid YAML in line {line} and was ignored"
    if not isinstance(root, MappingNode):
        return {}, "its front matter is not a mapping and was ignored"
    named = {key.text: value for key, value in root.entries if isinstance(key, ScalarNode)}
    fields = {
        name: value.text for name, value in named.items() if isinstance(value, ScalarNode) and value.tag != "null"
    }
    odd = ", ".join(name for name in KNOWN_FIELDS if name in named and not isinstance(named[name], ScalarNode))
    return fields, f"its front matter has no plain value for {odd}" if odd else ""


def strip_comments(text: str) -> str:
    """Remove white space and HTML comments at the start of a text."""
    return COMMENTS.sub("", text, count=1)


def describe_document(meta: Mapping[str, str], body: str) -> str:
    """Describe a document in one line: its `description`, its first heading, or its first sentence."""
    if given := meta.get("description", "").strip():
        return shorten_line(given)
    for line in body[: 10 * MAX_DESCRIPTION_CHARS].splitlines():
        text = SIGNS.sub("", line)
        if any(map(str.isalnum, text)):
            return shorten_line(text if line.startswith("#") else text.partition(". ")[0])
    return ""


def shorten_line(text: str) -> str:
    """Shorten a description to one line of at most 100 characters."""
    line = join_lines(text).rstrip(".")
    return line if len(line) <= MAX_DESCRIPTION_CHARS else line[: MAX_DESCRIPTION_CHARS - 1].rstrip() + "…"


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot encode; any other text is returned unchanged."""
    return text if text.isascii() or is_unicode(text) else text.encode("utf-8", "replace").decode()


def is_unicode(text: str) -> bool:
    """Return whether a text has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def track_fence(fence: str, line: str) -> str:
    """Return the fence of the code block that is open after a line, given the one that is open before it."""
    found = CODE_FENCE.match(line)
    if not found:
        return fence
    if not fence:
        return found[1]
    return "" if found[1].startswith(fence) and line.strip() == found[1] else fence


def escape_markup(text: str) -> str:
    """Escape a text so that it cannot open or close an element."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escape_attribute(text: str) -> str:
    """Escape a text so that it cannot end its attribute."""
    return escape_markup(join_lines(text)).replace('"', "&quot;")


def join_lines(text: str) -> str:
    """Collapse all white space into single spaces, so that the text stays on one line."""
    return " ".join(text.split())


def read_builtin(name: str) -> str:
    """Return a built-in text without its front matter, or an empty string if it does not exist."""
    return read_prompt(name) if name in list_prompts() else ""


@cache
def read_prompt(name: str) -> str:
    """Read an existing built-in text."""
    return parse_document(name, read_resource("prompts", f"{name}.md") or "").body


TEMPLATE_FILE = "SYSTEM.md"  # a template in any folder; other files are if the configuration says so
FIELDS_FILE = "IDENTITY.md"  # its front matter is its content
# The endings of notes about files that are used nevertheless.
HARMLESS_ENDINGS = (" and was ignored", ", so it is taken for text")


def find_text_problem(path: str, text: str, templates: Collection[str]) -> str:
    """Return why a text cannot be used, with the line; empty if it can."""
    name = os.path.basename(path)
    if name == TEMPLATE_FILE or path in templates:
        document = parse_document(path, text)
        try:
            compile_template(document.body)
        except InvalidTemplate as fault:
            line = fault.below(document.first - 1).line  # without the message, which may quote the file
            return f"is not a valid template{f' in line {line:,}' if line else ''} (foreword lint says why)"
    if name == FIELDS_FILE:
        document = parse_document(path, text)
        if document.note and not document.meta:
            note = document.note
            for words in HARMLESS_ENDINGS:
                note = note.removesuffix(words)
            return f"cannot be used: {note}"
    return ""
