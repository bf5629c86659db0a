"""Claims about answers on the screen: Markdown is drawn, and nothing in it is lost or taken for an order."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from foreword.cli.chat.page import LONGEST, Page, split

OURS = re.compile(r"\x1b\[[0-9;]*m")


def draw(text: str, width: int = 60) -> str:
    """Draw a page as a terminal would get it."""
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=True, color_system="standard").print(Page(text))
    return out.getvalue()


def read(text: str, width: int = 60) -> str:
    """Draw a page and take our own colours off."""
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
    """Markup, tags, addresses and escape sequences are shown as they were written."""
    assert read(text) == shown


def test_markdown():
    """Headings, lists, code and tables are drawn."""
    shown = read("# Plan\n\n- one\n- two\n\n```python\nx = 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
    assert "```" not in shown
    assert "• one" in shown
    assert "|--" not in shown
    assert "\x1b[1" in draw("**bold**")


@given(st.text(alphabet="ab <>*_`#[]()!|&;\n\t-1.\x1b\u202e", max_size=80))
def test_any_text(text):
    """Whatever the text is, something is drawn, and only our own colours steer the terminal."""
    assert "\x1b" not in OURS.sub("", draw(text))
    assert "\u202e" not in draw(text)


def test_very_long():
    """A text that is too long to be read as Markdown is shown as it is."""
    assert "**a**" in read("**a** " * (LONGEST // 6 + 1))


@given(
    st.lists(st.sampled_from(["# One\n\n", "two\nlines\n\n", "- a\n- b\n\n", "```\ncode\n\nmore\n```\n\n", "> q\n\n"]))
)
def test_split(blocks):
    """A text that grows is split between blocks, and joined it is what it was."""
    text = "".join(blocks)
    finished, rest = split(text)
    assert finished + rest == text
    assert not finished or finished.endswith("\n")
    assert rest.count("```") % 2 == 0


def test_open_block_stays():
    """The block that may still change is not finished: an open fence, a list, a line."""
    assert split("Hello\n\n```python\nx = 1\n\ny = 2\n") == ("Hello\n\n", "```python\nx = 1\n\ny = 2\n")
    assert split("- a\n- b\n\n- c") == ("", "- a\n- b\n\n- c")
    assert split("only") == ("", "only")
