"""Claims about chunks."""

from foreword.memory.chunk import LONGEST, Chunk, cut_line, find_day, split

NOTES = """\
# House

The boiler is in the cellar.

## Garden

- Roses
- A shed

```
# no heading

code
```
"""


def test_paragraphs() -> None:
    """A chunk is a paragraph with its lines and the headings it stands under; fenced code stays whole."""
    assert [(one.first, one.last, one.heading, one.text) for one in split(NOTES)] == [
        (3, 3, "House", "The boiler is in the cellar."),
        (7, 8, "House › Garden", "- Roses\n- A shed"),
        (10, 14, "House › Garden", "```\n# no heading\n\ncode\n```"),
    ]


def test_heading_of_a_higher_level() -> None:
    """A heading ends those of its own level and below."""
    assert [one.heading for one in split("# A\n## B\nx\n\n# C\ny")] == ["A › B", "C"]


def test_nothing() -> None:
    """A text without words has no chunks, and a heading alone is none."""
    assert list(split("")) == list(split("\n \n")) == list(split("# Only a heading")) == []


def test_speaker() -> None:
    """Who speaks is known by the words before a colon where people talk; labels and unreviewed words say nothing."""
    talk = "Carol: hello\n\n**Bob**: hi\n\nNo one here.\n\nCarol: bye"
    assert [one.author for one in split(talk)] == ["Carol", "Bob", "", "Carol"]
    assert [one.author for one in split(talk, author="mallory")] == ["mallory"] * 4
    assert [one.author for one in split("Phone: 555 1234\n\nBirthday: 3 May")] == ["", ""]


def test_day() -> None:
    """The day of a chunk is its own, else its heading's, else its document's."""
    text = "Then.\n\n# 8 May, 2023\n\nToday.\n\nOn 2024-01-02 it rained."
    assert [one.when for one in split(text, when="2020-01")] == ["2020-01", "2023-05-08", "2024-01-02"]


def test_find_day() -> None:
    """Days are found as people write them, and no day is found where there is none."""
    assert find_day("1:56 pm on 8 May, 2023") == find_day("May 8th, 2023") == find_day("2023-05-08") == "2023-05-08"
    assert find_day("in June 2021") == find_day("31 June 2021") == "2021-06"
    assert find_day("maybe 2021") == find_day("may I?") == find_day("2023-13-01") == find_day("") == ""


def test_long_paragraph() -> None:
    """A paragraph that is too long is several chunks, each on its own lines, and nothing is lost."""
    text = "\n".join(f"line {number} of many words" for number in range(200))
    chunks = list(split(text))
    assert all(len(one.text) <= LONGEST for one in chunks)
    assert "\n".join(one.text for one in chunks) == text
    assert [one.first for one in chunks[1:]] == [one.last + 1 for one in chunks[:-1]]


def test_long_line() -> None:
    """A line that is too long is cut after sentences, or anywhere where it has none, and nothing is lost."""
    sentences = " ".join(f"Sentence {number} says something." for number in range(200))
    pieces = list(cut_line(sentences))
    assert all(len(piece) <= LONGEST and piece.endswith(".") for piece in pieces)
    assert " ".join(pieces) == sentences
    assert "".join(cut_line("x" * 5_000)) == "x" * 5_000
    assert {(one.first, one.last) for one in split(sentences)} == {(1, 1)}


def test_flags() -> None:
    """A chunk knows whether it only asks and whether it says when."""
    asks = Chunk(first=1, last=1, heading="", text="Are you well? ")
    tells = Chunk(first=1, last=1, heading="", text="We met last week.")
    assert (asks.is_question, asks.tells_time, tells.is_question, tells.tells_time) == (True, False, False, True)
