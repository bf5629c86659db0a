"""Splitting for Telegram: each message fits, no text is lost, and no format, word or character is broken."""

import os

from hypothesis import given, settings
from hypothesis import strategies as st
from wcwidth import iter_graphemes

from foreword.gateway.channels.telegram.markup import (
    MAX_MESSAGE_UNITS,
    MAX_STYLED_RANGES,
    FormattedText,
    TextStyle,
    count_utf16_units,
    parse_markdown,
    split_messages,
    strip_html,
    write_html,
)

COUNT = 2_000 if os.environ.get("FOREWORD_SOAK") else 30
CLUSTERS = st.sampled_from(
    ["a", "é", "e\u0301", "日", "👍🏽", "👨\u200d👩\u200d👧", "🇫🇷", "x", "ß", "ก็", " ", " ", "\n", ". "]
)
PLAIN = st.lists(CLUSTERS, max_size=120).map("".join)
BLOCKS = st.sampled_from(
    [
        "A sentence with **bold words** and `code`. ",
        "\n\n",
        "\n```python\nfor x in y:\n    print(x)\n\n    done()\n```\n",
        "\n- one\n- two _is_ longer\n",
        "\n> quoted words go here\n",
        "[a link](https://a.example)",
        "# A heading\n\n",
        "👩🏽‍🚀",
        "word ",
    ]
)
RICH = st.lists(BLOCKS, max_size=40).map("".join)


def strip_space(text):
    """Remove white space."""
    return "".join(text.split())


@settings(max_examples=COUNT)
@given(
    st.one_of(PLAIN.map(lambda text: FormattedText(text=text.strip())), RICH.map(parse_markdown)), st.integers(20, 200)
)
def test_laws(formatted, longest):
    """Pieces fit, are consecutive slices separated only by white space, and keep their styled ranges."""
    pieces = list(split_messages(formatted, longest))
    assert all(0 < count_utf16_units(piece.text) <= longest for piece in pieces)
    assert strip_space("".join(piece.text for piece in pieces)) == strip_space(formatted.text)
    at = 0
    for piece in pieces:
        start = formatted.text.index(piece.text, at)
        assert not formatted.text[at:start].strip()
        assert piece == formatted.cut(start, start + len(piece.text))
        at = start + len(piece.text)
        assert strip_html(write_html(piece)) == piece.text
        for mark in piece.marks:
            assert 0 <= mark.start < mark.end <= len(piece.text)


@settings(max_examples=COUNT)
@given(PLAIN, st.integers(30, 60))
def test_characters_stay_whole(text, longest):
    """No grapheme cluster is split."""
    text = text.strip()
    bounds, place = {0}, 0
    for cluster in iter_graphemes(text):
        place += len(cluster)
        bounds.add(place)
    at = 0
    for piece in split_messages(FormattedText(text=text), longest):
        start = text.index(piece.text, at)
        at = start + len(piece.text)
        assert {start, at} <= bounds


@settings(max_examples=COUNT)
@given(st.lists(st.text("abcdef", min_size=1, max_size=12), min_size=1, max_size=60), st.integers(20, 80))
def test_words_stay_whole(words, longest):
    """A word that fits into a message is not split."""
    pieces = split_messages(FormattedText(text=" ".join(words)), longest)
    assert [word for piece in pieces for word in piece.text.split()] == words


def test_as_telegram_counts():
    """The limit counts UTF-16 units: half as many of these emoji fit as letters, and tags do not count."""
    assert [len(piece.text) for piece in split_messages(FormattedText(text="x" * 5_000))] == [4_096, 904]
    assert [len(piece.text) for piece in split_messages(FormattedText(text="👍" * 3_000))] == [2_048, 952]
    bold = parse_markdown(f"**{'x' * MAX_MESSAGE_UNITS}**")
    assert len(list(split_messages(bold))) == 1


def test_fences_reopen():
    """Code longer than a message continues as code in the next one, line by line, with its indentation."""
    lines = [f"    line_{number} = {number}" for number in range(600)]
    pieces = list(split_messages(parse_markdown("Here:\n\n```python\n" + "\n".join(lines) + "\n```\n\nThat is all.")))
    assert len(pieces) > 2
    assert all(
        any(mark.style is TextStyle.BLOCK and mark.value == "python" for mark in piece.marks) for piece in pieces
    )
    shown = "\n".join(piece.text for piece in pieces)
    assert all(f"{line}\n" in f"{shown}\n" for line in lines)


def test_between_blocks():
    """A code block that fits into the next message is not split."""
    code = "\n".join("x" * 50 for _ in range(40))
    text = "\n\n".join(["words " * 100] * 5 + [f"```\n{code}\n```"])
    pieces = list(split_messages(parse_markdown(text)))
    assert [piece.text.count("x") for piece in pieces] == [0, 2_000]


def test_marks_are_counted():
    """A message has no more styled ranges than Telegram shows."""
    pieces = list(split_messages(parse_markdown(" ".join(f"**b{number}**" for number in range(350)))))
    assert [len(piece.marks) for piece in pieces] == [MAX_STYLED_RANGES, MAX_STYLED_RANGES, MAX_STYLED_RANGES, 50]


def test_one_endless_character():
    """A grapheme cluster longer than a message is split, and the split terminates."""
    pieces = list(split_messages(FormattedText(text="e" + "\u0301" * 9_000)))
    assert "".join(piece.text for piece in pieces) == "e" + "\u0301" * 9_000


def test_no_message_of_white_space():
    """A message of white space alone is omitted, since Telegram refuses it."""
    pieces = list(split_messages(parse_markdown("```\na" + "\n" * (3 * MAX_MESSAGE_UNITS) + "b\n```")))
    assert [piece.text.strip() for piece in pieces] == ["a", "b"]
