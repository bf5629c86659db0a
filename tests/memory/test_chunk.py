"""Claims about chunks."""

import pytest

from foreword.memory.chunk import (
    MAX_MESSAGE_CHARS,
    MAX_PARAGRAPH_CHARS,
    Chunk,
    cut_line,
    find_day,
    split,
    split_message,
)
from waiting import assert_linear

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
    """A chunk is a paragraph with its lines and the headings above it; fenced code stays whole."""
    assert [(one.first, one.last, one.heading, one.text) for one in split(NOTES)] == [
        (3, 3, "House", "The boiler is in the cellar."),
        (7, 8, "House › Garden", "- Roses\n- A shed"),
        (10, 14, "House › Garden", "```\n# no heading\n\ncode\n```"),
    ]


def test_heading_of_a_higher_level() -> None:
    """A heading ends those of the same level and below."""
    assert [one.heading for one in split("# A\n## B\nx\n\n# C\ny")] == ["A › B", "C"]


def test_nothing() -> None:
    """A text without words has no chunks, and a heading alone is none."""
    assert list(split("")) == list(split("\n \n")) == list(split("# Only a heading")) == []


def test_speaker() -> None:
    """A name before a colon is a speaker where people talk; labels and unreviewed words name none."""
    talk = "Carol: hello\n\n**Bob**: hi\n\nCarol: bye"
    assert [one.author for one in split(talk)] == ["Carol", "Bob", "Carol"]
    assert [one.author for one in split("Phone: 555 1234\n\nBirthday: 3 May")] == ["", ""]


def test_entry() -> None:
    """An entry by one author is one chunk, regardless of the speakers that its text claims."""
    body = "# Plan\n\nAlice: send money\n\nBob: yes\n\nAlice: now"
    (chunk,) = split_message(body, "mallory", "2024-05")
    assert (chunk.first, chunk.last, chunk.author, chunk.when, chunk.text) == (1, 7, "mallory", "2024-05", body)


def test_lower_case_speaker() -> None:
    """A chat export may write names in lower case; in a text with a few such labels they are no speakers."""
    chat = "elise: hello\n\nKate: hi\n\nelise: bye"
    assert [one.author for one in split(chat)] == ["elise", "Kate", "elise"]
    notes = "todo: paint\n\ntodo: sand\n\ndone: buy\n\n" + "\n\n".join(["A paragraph of prose."] * 5)
    assert {one.author for one in split(notes)} == {""}


@pytest.mark.parametrize(
    ("export", "days"),
    [
        ("[2026-03-14 10:05] Ann: Hello\nthere\n[2026-03-15 11:06] Ben: Hi: you\n", ["2026-03-14", "2026-03-15"]),
        ("14.03.2026, 10:05 - Ann: Hello\nthere\n15.03.2026, 11:06 - Ben: Hi: you", ["2026-03-14", "2026-03-15"]),
        ("[3/14/26, 10:05:12 AM] Ann: Hello\nthere\n[3/15/26, 11:06:00 AM] Ben: Hi: you", ["", ""]),
    ],
)
def test_export_of_a_messenger(export, days) -> None:
    """An export with one message a line has a chunk for each message, with its author and, if clear, its day."""
    chunks = list(split(f"{export}\n{export}"))
    assert [chunk.author for chunk in chunks] == ["Ann", "Ben"] * 2
    assert [chunk.when for chunk in chunks] == days * 2
    assert chunks[0].text.endswith("Ann: Hello\nthere")
    assert (chunks[0].first, chunks[0].last, chunks[1].first) == (1, 2, 3)


def test_log_without_speakers() -> None:
    """Lines with a time and no speaker are separate paragraphs."""
    assert [chunk.author for chunk in split("2026-03-14 10:05 started\n2026-03-14 10:06 stopped")] == ["", ""]


def test_message() -> None:
    """A message keeps its paragraphs, its lists and its lines, up to the next speaker or heading."""
    talk = "User: Make a plan.\n\nAssistant: Here it is.\n\n- one\n- two\n\nDone.\n\nUser: Thanks.\n\n# Later\n\nAside."
    assert [(one.first, one.last, one.author, one.text) for one in split(talk)] == [
        (1, 1, "User", "User: Make a plan."),
        (3, 8, "Assistant", "Assistant: Here it is.\n\n- one\n- two\n\nDone."),
        (10, 10, "User", "User: Thanks."),
        (14, 14, "", "Aside."),
    ]


def test_long_message() -> None:
    """A message is one chunk up to its own limit, beyond which it is cut and nothing is lost."""
    words = "word " * 1_000
    assert [one.author for one in split(f"A: {words}\n\nB: hi\n\nA: bye")] == ["A", "B", "A"]
    chunks = [one for one in split(f"A: {words * 8}\n\nB: hi\n\nA: bye") if one.first == 1]
    assert len(chunks) > 1
    assert all(len(one.text) <= MAX_MESSAGE_CHARS and one.author == "A" for one in chunks)
    assert " ".join(one.text for one in chunks).split() == f"A: {words * 8}".split()


def test_day() -> None:
    """The day of a chunk is its own, else its heading's, else its document's."""
    text = "Then.\n\n# 8 May, 2023\n\nToday.\n\nOn 2024-01-02 it rained."
    assert [one.when for one in split(text, when="2020-01")] == ["2020-01", "2023-05-08", "2024-01-02"]


def test_find_day() -> None:
    """Days are found as people write them, and no day is found where there is none."""
    assert find_day("1:56 pm on 8 May, 2023") == find_day("May 8th, 2023") == find_day("2023-05-08") == "2023-05-08"
    assert find_day("29.12.2023, 22:42:04") == "2023-12-29"
    assert find_day("version 1.13.2023") == ""
    assert find_day("in June 2021") == find_day("31 June 2021") == "2021-06"
    assert find_day("maybe 2021") == find_day("may I?") == find_day("2023-13-01") == find_day("") == ""


def test_long_paragraph() -> None:
    """A paragraph that is too long is several chunks, each on its own lines, and nothing is lost."""
    text = "\n".join(f"line {number} of many words" for number in range(200))
    chunks = list(split(text))
    assert all(len(one.text) <= MAX_PARAGRAPH_CHARS for one in chunks)
    assert "\n".join(one.text for one in chunks) == text
    assert [one.first for one in chunks[1:]] == [one.last + 1 for one in chunks[:-1]]


def test_long_line() -> None:
    """A line that is too long is cut after sentences, or anywhere where it has none, and nothing is lost."""
    sentences = " ".join(f"Sentence {number} says something." for number in range(200))
    pieces = list(cut_line(sentences, MAX_PARAGRAPH_CHARS))
    assert all(len(piece) <= MAX_PARAGRAPH_CHARS and piece.endswith(".") for piece in pieces)
    assert " ".join(pieces) == sentences
    assert "".join(cut_line("x" * 5_000, MAX_PARAGRAPH_CHARS)) == "x" * 5_000
    assert {(one.first, one.last) for one in split(sentences)} == {(1, 1)}


def test_line_of_many_megabytes() -> None:
    """The time to cut a line without sentences grows with its length."""
    assert_linear(lambda words: list(cut_line("word " * words, MAX_PARAGRAPH_CHARS)), 6_000_000)


@pytest.mark.parametrize("line", [f"# {'long ' * 1_000}", f"# {' ' * 100_000}x", f"{'#' * 100_000}"])
def test_long_heading(line: str) -> None:
    """A line that is too long for a heading is a paragraph; the chunks below do not repeat it."""
    chunks = list(split(f"# House\n\n{line}\n\nText."))
    assert {one.heading for one in chunks} == {"House"}
    assert "".join("".join(one.text for one in chunks).split()) == "".join(f"{line}Text.".split())


def test_is_question() -> None:
    """A chunk knows whether it ends with a question."""
    assert Chunk(first=1, last=1, heading="", text="Are you well? ").is_question
    assert not Chunk(first=1, last=1, heading="", text="Are you well? I am.").is_question
