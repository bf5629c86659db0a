"""Markdown rendering of answers: no text is lost or interpreted as a control sequence."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from foreword.cli.chat.renderer import MAX_MARKDOWN_CHARS, MarkdownText, split_finished

OURS = re.compile(r"\x1b\[[0-9;]*m")


def draw(text: str, width: int = 60) -> str:
    """Render a page for a terminal."""
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=True, color_system="standard").print(MarkdownText(text))
    return out.getvalue()


def read(text: str, width: int = 60) -> str:
    """Render a page and remove our colours."""
    return "\n".join(line.rstrip() for line in OURS.sub("", draw(text, width)).splitlines())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[bold red]x[/] [link=http://a]b[/link]", "[bold red]x[/] [link=http://a]b[/link]"),
        (":smile: <b>tag</b> <script>x</script>", ":smile: <b>tag</b> <script>x</script>"),
        ("<div>\nblock\n</div>", "<div>\nblock\n</div>"),
        ("[bank](https://evil.example/)", "bank (https://evil.example/)"),
        ("one\ntwo", "one\ntwo"),
        ("&#x202e;fdp", "�fdp"),
        ("&#27;[2J &#x9b;2J", "�[2J �2J"),
        ("`\x1b]52;c;aGk=\x07`", "�]52;c;aGk=�"),
    ],
    ids=["markup", "html", "html-block", "link", "lines", "entity", "control-entity", "clipboard"],
)
def test_nothing_is_an_order(text, shown):
    """Markup, tags, addresses and escape sequences are shown literally."""
    assert read(text) == shown


def test_markdown():
    """Headings, lists, code and tables are rendered."""
    shown = read("# Plan\n\n- one\n- two\n\n```python\nx = 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
    assert "```" not in shown
    assert "• one" in shown
    assert "|--" not in shown
    assert "\x1b[1" in draw("**bold**")


@given(st.text(alphabet="ab <>*_`#[]()!|&;\n\t-1.\x1b\u202e", max_size=80))
def test_any_text(text):
    """Any text renders, and only our colours control the terminal."""
    assert "\x1b" not in OURS.sub("", draw(text))
    assert "\u202e" not in draw(text)


def test_very_long():
    """A text that is too long for Markdown parsing is shown literally."""
    assert "**a**" in read("**a** " * (MAX_MARKDOWN_CHARS // 6 + 1))


@given(
    st.lists(st.sampled_from(["# One\n\n", "two\nlines\n\n", "- a\n- b\n\n", "```\ncode\n\nmore\n```\n\n", "> q\n\n"]))
)
def test_split(blocks):
    """A growing text is split between blocks, and the joined parts equal the text."""
    text = "".join(blocks)
    finished, rest = split_finished(text)
    assert finished + rest == text
    assert not finished or finished.endswith("\n")
    assert rest.count("```") % 2 == 0


def test_open_block_stays():
    """A block that may still change is not finished: an open fence, a list, a line."""
    assert split_finished("Hello\n\n```python\nx = 1\n\ny = 2\n") == ("Hello\n\n", "```python\nx = 1\n\ny = 2\n")
    assert split_finished("- a\n- b\n\n- c") == ("", "- a\n- b\n\n- c")
    assert split_finished("only") == ("", "only")
