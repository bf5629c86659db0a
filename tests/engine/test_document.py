"""Claims about Markdown files."""

import subprocess
import sys
import time
from hashlib import sha256

import pytest

from foreword.engine.sources.documents import Document, parse_document

OPEN = "its front matter has no line --- at its end, so it is taken for text"


def read(raw: str) -> Document:
    """Parse a text."""
    return parse_document("X.md", raw)


def test_plain() -> None:
    """A text without front matter is its body, and its hash is that of its bytes."""
    document = read("\n\n# Hi\n\nText.  \n\n")
    assert (document.body, document.meta, document.note) == ("# Hi\n\nText.", {}, "")
    assert document.sha256 == sha256(b"\n\n# Hi\n\nText.  \n\n").hexdigest()


@pytest.mark.parametrize(
    ("raw", "meta", "body", "note"),
    [
        ("---\nname: Reid\n---\nHi\n", {"name": "Reid"}, "Hi", ""),
        ("---\r\nname: Reid\r\n---\r\nHi\r\n", {"name": "Reid"}, "Hi", ""),
        ("\ufeff---\nname: Reid\n---\nHi", {"name": "Reid"}, "Hi", ""),
        ("---\nname: Reid\n---   \nHi", {"name": "Reid"}, "Hi", ""),
        ("---\n---\nHi", {}, "Hi", ""),
        ("---\n# nothing\n---\nHi", {}, "Hi", ""),
        ("---\n# a comment\nname: Reid  # and one more\n---\nHi", {"name": "Reid"}, "Hi", ""),
        ("---\nname: Reid\n---", {"name": "Reid"}, "", ""),
        ("---\nname: Reid\n----\nHi", {}, "---\nname: Reid\n----\nHi", OPEN),
        ("---\nname: Reid\nHi", {}, "---\nname: Reid\nHi", OPEN),
        ("---\n\nA rule above a text.", {}, "---\n\nA rule above a text.", ""),
        ("---\na: [1\n---\nHi", {}, "Hi", "its front matter is not valid YAML in line 2 and was ignored"),
        ("---\nname: Reid\na: b: c\n---\nHi", {}, "Hi", "its front matter is not valid YAML in line 3 and was ignored"),
        ("---\n- a\n- b\n---\nHi", {}, "Hi", "its front matter is not a mapping and was ignored"),
        ("---\njust words\n---\nHi", {}, "Hi", "its front matter is not a mapping and was ignored"),
        ("---\n1: one\n---\nHi", {"1": "one"}, "Hi", ""),
        ("Text\n---\na: b\n---\n", {}, "Text\n---\na: b\n---", ""),
        ("", {}, "", ""),
    ],
)
def test_front_matter(raw: str, meta: dict, body: str, note: str) -> None:
    """Front matter is a mapping between two fences at the very beginning; a broken one is a note, never a failure."""
    document = read(raw)
    assert (document.meta, document.body, document.note) == (meta, body, note)


@pytest.mark.parametrize("more", ["", "q: 'quoted'\n"], ids=["plain", "yaml"])
@pytest.mark.parametrize(
    ("line", "meta"),
    [
        ("a: 2026-99-99", {"a": "2026-99-99"}),
        ("a: 3.10", {"a": "3.10"}),
        ("a: no", {"a": "no"}),
        ("a: O'Neil & Söhne", {"a": "O'Neil & Söhne"}),
        ("a: http://x.org/#y", {"a": "http://x.org/#y"}),
        ("a: 12:30", {"a": "12:30"}),
        ("a: b   ", {"a": "b"}),
        ("a: [1, 2]", {}),
        ("a: {b: c}", {}),
        ("a: ~", {}),
    ],
)
def test_fields_are_texts(line: str, meta: dict, more: str) -> None:
    """A field is the text in the file, read with a parser or without; a list or a mapping is not a field."""
    document = read(f"---\n{line}\n{more}---\nHi")
    assert document.field("q") == ("quoted" if more else "")
    assert {name: document.field(name) for name in document.meta if name != "q"} == meta


@pytest.mark.parametrize(
    "raw", ["a: null", "a: Null", "a: NULL", "a: ~", "a: null\nq: 'quoted'", "a:", "a:\nq: 'quoted'"]
)
def test_no_value_is_a_blank_field(raw: str) -> None:
    """A field without a value is blank, however it is read."""
    assert read(f"---\n{raw}\n---\nHi").field("a") == ""


def test_plain_fields_need_no_parser() -> None:
    """Plain fields are read without importing a YAML parser."""
    script = (
        "import sys\nfrom foreword.engine.sources.documents import parse_document\n"
        "assert parse_document('X.md', '---\\nname: Reid\\nvibe: calm\\n---\\nHi').field('vibe') == 'calm'\n"
        "print('yaml' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_no_code_in_front_matter() -> None:
    """A tag that would run code is broken front matter and nothing else."""
    document = read("---\na: !!python/object/apply:os.getcwd []\n---\nHi")
    assert document.meta == {}
    assert "not valid YAML" in document.note


@pytest.mark.parametrize("signs", ["[" * 200_000, "{a: " * 200_000, "[" * 200_000 + "]" * 200_000, "- " * 200_000])
def test_deep_front_matter(signs: str) -> None:
    """Excessive nesting is a note, and neither a crash nor a delay."""
    begin = time.thread_time()
    document = read(f"---\na: {signs}\n---\nHi")
    assert time.thread_time() - begin < 1
    assert (document.body, document.meta) == ("Hi", {})
    assert document.note == "its front matter is not valid YAML in line 2 and was ignored"


@pytest.mark.parametrize(
    ("raw", "body"),
    [
        ("<!-- for editors -->\n# Hi", "# Hi"),
        ("<!-- a -->\n\n<!-- b\nc -->\nHi <!-- stays -->", "Hi <!-- stays -->"),
        ("---\na: b\n---\n<!-- a -->\nHi", "Hi"),
        ("<!-- never closed\nHi", "<!-- never closed\nHi"),
        ("<!-- only -->", ""),
    ],
)
def test_comments(raw: str, body: str) -> None:
    """Comments before anything else are dropped; one that never closes is text."""
    assert read(raw).body == body


@pytest.mark.parametrize(
    ("raw", "body"),
    [
        ("<!---->" * 150_000 + "Hi", "Hi"),
        ("<!-- -->\n" * 120_000, ""),
        ("<!--" * 250_000, "<!--" * 250_000),
        ("\n" * 1_000_000 + "Hi", "Hi"),
        ("---\n" + "--- x\n" * 170_000, ("---\n" + "--- x\n" * 170_000).rstrip()),
    ],
    ids=["comments", "lines of comments", "open comments", "blank lines", "fences"],
)
def test_a_megabyte_is_quick(raw: str, body: str) -> None:
    """Parsing a megabyte of special characters takes linear time."""
    begin = time.thread_time()
    document = read(raw)
    assert time.thread_time() - begin < 2
    assert document.body == body


@pytest.mark.parametrize("sign", ["\r\n", "\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029"])
def test_line_breaks(sign: str) -> None:
    """Every line break becomes one form, so that no line can begin unseen."""
    assert read(f"a{sign}## Core").body == "a\n## Core"


@pytest.mark.parametrize(
    ("raw", "description"),
    [
        ("---\ndescription: About people.\n---\n# Heading", "About people"),
        ("# The heading\n\nText.", "The heading"),
        ("\n\nFirst sentence. Second.", "First sentence"),
        ("---\ndescription: [a]\n---\nText", "Text"),
        ("---\ndescription: |\n  two\n  lines\n---\n", "two lines"),
        ("", ""),
        ("a" * 100, "a" * 100),
        ("a" * 101, "a" * 99 + "…"),
    ],
)
def test_description(raw: str, description: str) -> None:
    """A file is described by its front matter, its first heading or its first sentence, in one line."""
    assert read(raw).description == description


@pytest.mark.parametrize(
    ("raw", "description"),
    [
        ("1. Buy milk.\n2. Buy eggs.\n", "Buy milk"),
        ("- Buy milk.\n", "Buy milk"),
        ("* [ ] Buy milk. Today.\n", "[ ] Buy milk"),
        ("2) Buy milk.\n", "Buy milk"),
        ("> Quoted.\n", "Quoted"),
        ("> - Quoted.\n", "Quoted"),
        ("\n---\n\nText", "Text"),
        ("***\n* * *\nText", "Text"),
        ("-5 degrees\n", "-5 degrees"),
        ("...\n", ""),
    ],
)
def test_description_of_list(raw: str, description: str) -> None:
    """A file that begins with a list, a rule or a quote is described by the first words in it."""
    assert read(raw).description == description


def test_fields() -> None:
    """A field is a plain value as text; anything else is blank."""
    document = read("---\na: ' x '\nb: 3\nc: [1]\nd: null\ne: {}\n---\n")
    assert [document.field(name) for name in "abcdef"] == ["x", "3", "", "", "", ""]


@pytest.mark.parametrize("value", ["[1, 2]", "{a: b}", "\n  - a\n  - b"])
def test_field_that_is_no_plain_value(value: str) -> None:
    """A field that is read and is a list or a mapping is blank, with a note; an unread field has no note."""
    document = read(f"---\nname: {value}\nmine: {value}\n---\nHi")
    assert (document.field("name"), document.body) == ("", "Hi")
    assert document.note == "its front matter has no plain value for name"
