"""Claims about splitting for Telegram: each message fits, nothing is lost, and no format, word or character breaks."""

import os

from hypothesis import given, settings
from hypothesis import strategies as st
from wcwidth import iter_graphemes

from foreword.gateway.channels.telegram.formatted import Formatted, Style, measure, read_plain, write_html
from foreword.gateway.channels.telegram.markdown import read_markdown
from foreword.gateway.channels.telegram.splitting import LONGEST, MOST, split

COUNT = 2_000 if os.environ.get("FOREWORD_SOAK") else 100
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
    """Leave out white space."""
    return "".join(text.split())


@settings(max_examples=COUNT)
@given(st.one_of(PLAIN.map(lambda text: Formatted(text=text.strip())), RICH.map(read_markdown)), st.integers(20, 200))
def test_laws(formatted, longest):
    """Pieces fit, are slices in order with only white space between, and keep their marks."""
    pieces = list(split(formatted, longest))
    assert all(0 < measure(piece.text) <= longest for piece in pieces)
    assert strip_space("".join(piece.text for piece in pieces)) == strip_space(formatted.text)
    at = 0
    for piece in pieces:
        start = formatted.text.index(piece.text, at)
        assert not formatted.text[at:start].strip()
        assert piece == formatted.cut(start, start + len(piece.text))
        at = start + len(piece.text)
        assert read_plain(write_html(piece)) == piece.text
        for mark in piece.marks:
            assert 0 <= mark.start < mark.end <= len(piece.text)


@settings(max_examples=COUNT)
@given(PLAIN, st.integers(30, 60))
def test_characters_stay_whole(text, longest):
    """No character as a reader sees it is divided."""
    text = text.strip()
    bounds, place = {0}, 0
    for cluster in iter_graphemes(text):
        place += len(cluster)
        bounds.add(place)
    at = 0
    for piece in split(Formatted(text=text), longest):
        start = text.index(piece.text, at)
        at = start + len(piece.text)
        assert {start, at} <= bounds


@settings(max_examples=COUNT)
@given(st.lists(st.text("abcdef", min_size=1, max_size=12), min_size=1, max_size=60), st.integers(20, 80))
def test_words_stay_whole(words, longest):
    """A word that fits into a message is not divided."""
    pieces = split(Formatted(text=" ".join(words)), longest)
    assert [word for piece in pieces for word in piece.text.split()] == words


def test_as_telegram_counts():
    """The limit is in units of UTF-16: of these emoji half as many fit as letters, and no tag counts."""
    assert [len(piece.text) for piece in split(Formatted(text="x" * 5_000))] == [4_096, 904]
    assert [len(piece.text) for piece in split(Formatted(text="👍" * 3_000))] == [2_048, 952]
    bold = read_markdown(f"**{'x' * LONGEST}**")
    assert len(list(split(bold))) == 1


def test_fences_reopen():
    """Code that is longer than a message goes on as code in the next one, line by line, with its indents."""
    lines = [f"    line_{number} = {number}" for number in range(600)]
    pieces = list(split(read_markdown("Here:\n\n```python\n" + "\n".join(lines) + "\n```\n\nThat is all.")))
    assert len(pieces) > 2
    assert all(any(mark.style is Style.BLOCK and mark.value == "python" for mark in piece.marks) for piece in pieces)
    shown = "\n".join(piece.text for piece in pieces)
    assert all(f"{line}\n" in f"{shown}\n" for line in lines)


def test_between_blocks():
    """A block of code that fits into the next message is not divided."""
    code = "\n".join("x" * 50 for _ in range(40))
    text = "\n\n".join(["words " * 100] * 5 + [f"```\n{code}\n```"])
    pieces = list(split(read_markdown(text)))
    assert [piece.text.count("x") for piece in pieces] == [0, 2_000]


def test_marks_are_counted():
    """A message has no more marks than Telegram shows."""
    pieces = list(split(read_markdown(" ".join(f"**b{number}**" for number in range(350)))))
    assert [len(piece.marks) for piece in pieces] == [MOST, MOST, MOST, 50]


def test_one_endless_character():
    """A character that is longer than a message is cut all the same, and ends."""
    pieces = list(split(Formatted(text="e" + "\u0301" * 9_000)))
    assert "".join(piece.text for piece in pieces) == "e" + "\u0301" * 9_000


def test_no_message_of_white_space():
    """What would be a message of white space alone is left out, since Telegram takes none."""
    pieces = list(split(read_markdown("```\na" + "\n" * (3 * LONGEST) + "b\n```")))
    assert [piece.text.strip() for piece in pieces] == ["a", "b"]
