"""Claims about text on its way to a terminal: whatever a model says, it steers nothing."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.cli.chat.clean import clean, clean_line


@given(st.text())
def test_no_control_passes(text):
    """No control sign and no sign that reorders a line is left, except line breaks and tabs."""
    left = {sign for sign in clean(text) if unicodedata.category(sign) in ("Cc", "Cs") or "\u202a" <= sign <= "\u202e"}
    assert left <= {"\n", "\t"}


@given(st.lists(st.text()))
def test_pieces_join(pieces):
    """A text that is cleaned in pieces is the same as one that is cleaned whole."""
    assert "".join(map(clean, pieces)) == clean("".join(pieces))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b]0;title\x07", "�[31mred�]0;title�"),
        ("one\r\ntwo\rthree", "one\ntwothree"),
        ("\u202egpj.exe", "�gpj.exe"),
        ("\x9b2J", "�2J"),
        ("\ud800", "�"),
        ("👩‍🔧 naïve – 日本\tx", "👩‍🔧 naïve – 日本\tx"),
    ],
    ids=["escape", "carriage-return", "reordering", "c1", "surrogate", "untouched"],
)
def test_examples(text, shown):
    """What could steer is made visible, and everything else is left as it is."""
    assert clean(text) == shown


def test_line():
    """A name or a note is one line, whatever is in it."""
    assert clean_line("a\nb\x1b[2J\t c") == "a b�[2J c"
