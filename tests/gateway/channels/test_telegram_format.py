"""Claims about formatting for Telegram: Markdown becomes what it accepts, and nothing that a person reads is lost."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.gateway.channels.telegram.formatted import Formatted, Mark, Style, read_plain, write_html
from foreword.gateway.channels.telegram.markdown import DEEPEST, read_markdown

SHOWN = [
    ("# Title with **weight**", "<b>Title with weight</b>"),
    ("**bold _and_ `code`**", "<b>bold <i>and</i> <code>code</code></b>"),
    ("~~gone~~", "<s>gone</s>"),
    ("[here](https://a.example/?x=1&y=2)", '<a href="https://a.example/?x=1&amp;y=2">here</a>'),
    ("[here](notes/today.md)", "here (notes/today.md)"),
    ("![a cat](https://a.example/cat.png)", '<a href="https://a.example/cat.png">a cat</a>'),
    ("[`code`](https://a.example)", '<a href="https://a.example">code</a>'),
    ("```python\nx = 1 < 2\n```", '<pre><code class="language-python">x = 1 &lt; 2</code></pre>'),
    ("```\n    deep\n```", "<pre>    deep</pre>"),
    ("> said\n> > before", "<blockquote>said\n\nbefore</blockquote>"),
    ("- one\n- two\n  - three", "• one\n• two\n  • three"),
    ("3. one\n4. two", "3. one\n4. two"),
    ("one\n\n---\n\ntwo", "one\n\n———\n\ntwo"),
    ("| a | bb |\n|---|---|\n| ccc | d |", "<pre>a   | bb\n----+---\nccc | d</pre>"),
    ("<b>not a tag</b> & so on", "&lt;b&gt;not a tag&lt;/b&gt; &amp; so on"),
    ("snake_case_name 2 * 3 * 4", "snake_case_name 2 * 3 * 4"),
    ("[1]: https://a.example", "[1]: https://a.example"),
    ("an unclosed **star", "an unclosed **star"),
    ("```", "```"),
]


@pytest.mark.parametrize(("written", "shown"), SHOWN)
def test_shown(written, shown):
    """Each kind of Markdown has its form."""
    assert write_html(read_markdown(written)) == shown


def test_too_deep():
    """A text that is nested deeper than anybody reads is shown as it is written, whole."""
    text = ">" * (DEEPEST * 2) + " the end"
    assert read_markdown(text).text == text


PIECES = st.sampled_from(
    [
        "**",
        "*",
        "_",
        "`",
        "```",
        "~~",
        "\n",
        "\n\n",
        "# ",
        "- ",
        "1. ",
        "> ",
        "[",
        "](https://a.example)",
        "|",
        "\\",
        "    ",
    ]
)
WORDS = st.text(st.characters(categories=("L", "N", "S")), min_size=1, max_size=8)
WRITTEN = st.lists(st.one_of(PIECES, WORDS, st.just(" ")), max_size=60).map("".join)


@given(WRITTEN)
def test_nothing_is_lost(text):
    """Every letter and digit that was written is shown, in order, whatever the Markdown around it."""
    made = read_markdown(text)
    unfenced = re.sub(
        r"(?m)^([ \t>•\d.\-]*)(`{3,}).*$", "", text
    )  # what stands behind a fence is the name of a language
    wanted = [char for char in unfenced if char.isalpha()]
    shown = iter(made.text + "".join(mark.value for mark in made.marks))
    assert all(char in shown for char in wanted if char not in "htpsaexml")


@given(WRITTEN)
def test_well_formed(text):
    """Marks are nested, within the text and not empty, and the tags say the same."""
    made = read_markdown(text)
    for mark in made.marks:
        assert 0 <= mark.start < mark.end <= len(made.text)
    for one in made.marks:
        for other in made.marks:
            assert one.end <= other.start or other.end <= one.start or covers(one, other) or covers(other, one)
    assert read_plain(write_html(made)) == made.text
    assert check_tags(write_html(made))


def covers(outer, inner):
    """Whether one mark holds another."""
    return outer.start <= inner.start and inner.end <= outer.end


def check_tags(written):
    """Whether every tag is closed in order."""
    opened = []
    for closing, name in re.findall(r"<(/?)(\w+)[^>]*>", written):
        if not closing:
            opened.append(name)
        elif not opened or opened.pop() != name:
            return False
    return not opened


def test_cut_code():
    """Code that is cut is code on both sides, in its language."""
    made = Formatted(text="a\nb\nc", marks=(Mark(style=Style.BLOCK, start=0, end=5, value="python"),))
    assert write_html(made.cut(2, 5)) == '<pre><code class="language-python">b\nc</code></pre>'
