"""Formatting for Telegram: Markdown becomes supported HTML, and no visible text is lost."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.gateway.channels.telegram.markup import (
    MAX_NESTING,
    FormattedText,
    StyledRange,
    TextStyle,
    parse_markdown,
    strip_html,
    write_html,
)

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
    """Each Markdown construct has its HTML form."""
    assert write_html(parse_markdown(written)) == shown


def test_too_deep():
    """A text with excessive nesting is shown unformatted and complete."""
    text = ">" * (MAX_NESTING * 2) + " the end"
    assert parse_markdown(text).text == text


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
    """Every letter of the input is shown, in order, whatever the Markdown around it."""
    made = parse_markdown(text)
    unfenced = re.sub(r"(?m)^([ \t>•\d.\-]*)(`{3,}).*$", "", text)  # the info string of a fence is a language name
    wanted = [char for char in unfenced if char.isalpha()]
    shown = iter(made.text + "".join(mark.value for mark in made.marks))
    assert all(char in shown for char in wanted if char not in "htpsaexml")


@given(WRITTEN)
def test_well_formed(text):
    """Styled ranges are nested, non-empty and within the text, and match the HTML tags."""
    made = parse_markdown(text)
    for mark in made.marks:
        assert 0 <= mark.start < mark.end <= len(made.text)
    for one in made.marks:
        for other in made.marks:
            assert one.end <= other.start or other.end <= one.start or covers(one, other) or covers(other, one)
    assert strip_html(write_html(made)) == made.text
    assert check_tags(write_html(made))


def covers(outer, inner):
    """Return whether one range contains another."""
    return outer.start <= inner.start and inner.end <= outer.end


def check_tags(written):
    """Return whether every tag is closed in order."""
    opened = []
    for closing, name in re.findall(r"<(/?)(\w+)[^>]*>", written):
        if not closing:
            opened.append(name)
        elif not opened or opened.pop() != name:
            return False
    return not opened


def test_cut_code():
    """A split code block is a code block of the same language on both sides."""
    made = FormattedText(text="a\nb\nc", marks=(StyledRange(style=TextStyle.BLOCK, start=0, end=5, value="python"),))
    assert write_html(made.cut(2, 5)) == '<pre><code class="language-python">b\nc</code></pre>'
