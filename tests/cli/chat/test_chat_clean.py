"""Text for a terminal: a model's output cannot control the terminal."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foreword.cli.output import clean_line, clean_text


@given(st.text())
def test_no_control_passes(text):
    """Control characters and bidirectional characters are replaced, except line breaks and tabs."""
    left = {
        sign for sign in clean_text(text) if unicodedata.category(sign) in ("Cc", "Cs") or "\u202a" <= sign <= "\u202e"
    }
    assert left <= {"\n", "\t"}


@given(st.lists(st.text()))
def test_pieces_join(pieces):
    """Cleaning a text in parts gives the same result as cleaning it whole."""
    assert "".join(map(clean_text, pieces)) == clean_text("".join(pieces))


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
    """Control sequences are made visible, and all other text is unchanged."""
    assert clean_text(text) == shown


def test_line():
    """A name or a note is always one line."""
    assert clean_line("a\nb\x1b[2J\t c") == "a b�[2J c"
