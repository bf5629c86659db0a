"""Claims about Markdown files."""

from hashlib import sha256

import pytest

from foreword.sources.document import Document, parse_document


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
        ("---\nname: Reid\n---", {"name": "Reid"}, "", ""),
        ("---\nname: Reid\n----\nHi", {}, "---\nname: Reid\n----\nHi", ""),
        ("---\nname: Reid\nHi", {}, "---\nname: Reid\nHi", ""),
        ("---\na: [1\n---\nHi", {}, "Hi", "its front matter is not valid YAML in line 3 and was ignored"),
        ("---\n- a\n- b\n---\nHi", {}, "Hi", "its front matter is not a mapping and was ignored"),
        ("---\njust words\n---\nHi", {}, "Hi", "its front matter is not a mapping and was ignored"),
        ("---\nd: 2026-99-99\n---\nHi", {}, "Hi", "its front matter holds a value that cannot be read and was ignored"),
        ("---\n1: one\n---\nHi", {"1": "one"}, "Hi", ""),
        ("Text\n---\na: b\n---\n", {}, "Text\n---\na: b\n---", ""),
        ("", {}, "", ""),
    ],
)
def test_front_matter(raw: str, meta: dict, body: str, note: str) -> None:
    """Front matter is a mapping between two fences at the very beginning; a broken one is a note, never a failure."""
    document = read(raw)
    assert (document.meta, document.body, document.note) == (meta, body, note)


def test_no_code_in_front_matter() -> None:
    """A tag that would run code is broken front matter and nothing else."""
    document = read("---\na: !!python/object/apply:os.getcwd []\n---\nHi")
    assert document.meta == {}
    assert "not valid YAML" in document.note


def test_deep_front_matter() -> None:
    """Nesting beyond all reason is a note."""
    assert read("---\na: " + "[" * 5_000 + "\n---\nHi").note


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
        ("> Quoted.\n", "Quoted"),
        ("\n---\n\nText", "Text"),
    ],
)
@pytest.mark.xfail(strict=True, reason="a list's first line is described by its number or sign: `1`, `- Buy milk`")
def test_description_of_list(raw: str, description: str) -> None:
    """A file that begins with a list is described by the words of its first line."""
    assert read(raw).description == description


def test_fields() -> None:
    """A field is a plain value as text; anything else is blank."""
    document = read("---\na: ' x '\nb: 3\nc: [1]\nd: null\ne: {}\n---\n")
    assert [document.field(name) for name in "abcdef"] == ["x", "3", "", "", "", ""]
