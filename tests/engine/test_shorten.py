"""Claims about shortening."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import build, file_slot, lines, list_verdicts

from foreword.agent.tools.reading_tools import READING_TOOLS
from foreword.assembly import Assembly
from foreword.engine.cuts import count_lines, find_boundary

MARKER = re.compile(r"\[cut [^\n]*\]")


def cut(folder: Path, text: str, room: int, more: str = "", **facts: object) -> Assembly:
    """Assemble a prompt of one file with so many tokens of room."""
    return build(folder, f"least: 1, system: {room}, menu_share: 0.0", [file_slot("a", more)], {"A.md": text}, **facts)


def test_whole_lines(tmp_path: Path) -> None:
    """A shortened text has whole lines from the top, then the marker."""
    *kept, marker = cut(tmp_path, lines(50), 100).prompt.text.rstrip("\n").split("\n")
    assert kept == lines(50).split("\n")[: len(kept)]
    assert marker.endswith(f", lines {len(kept) + 1}–50 of 50]")


def test_marker_counts(tmp_path: Path) -> None:
    """The marker counts the shown and the total tokens of the file's own text."""
    assembly = cut(tmp_path, lines(50), 100)
    kept = assembly.prompt.text[: MARKER.search(assembly.prompt.text).start()].rstrip("\n")
    count = assembly.meter.count
    assert f"[cut {count(kept)}/{count(lines(50).rstrip())}, " in assembly.prompt.text


@given(st.lists(st.text("ab #`\n-", max_size=30), min_size=2, max_size=40), st.integers(20, 200))
def test_fits(tmp_path_factory: pytest.TempPathFactory, words: list[str], room: int) -> None:
    """Any text, once shortened, fits its room, measured as rendered."""
    assembly = cut(tmp_path_factory.mktemp("x"), "\n".join(words), room)
    assert assembly.system_tokens <= room
    assert assembly.meter.count(assembly.prompt.text) <= room


def test_no_room_for_a_line(tmp_path: Path) -> None:
    """Where not even the first line fits together with the marker, that line is cut after a word."""
    assembly = cut(tmp_path, "word " * 500, 100)
    assert list_verdicts(assembly) == {"a": "shortened"}
    assert re.match(r"(word )+word\n\[cut \d+/500, lines 1–1 of 1", assembly.prompt.text)


def test_both_ends(tmp_path: Path) -> None:
    """With both ends retained, the marker is between them and its call requests only the lines between."""
    slots = ["id: a, source: instructions, pace: session, cut: head_tail"]
    budget = "least: 1, system: 420, menu_share: 0.0"
    text = build(tmp_path, budget, slots, {}, instructions=lines(60), tools=READING_TOOLS).prompt.text
    head, marker, tail = re.split(r"\n(\[cut .*\])\n", text)
    first = len(head.split("\n")) + 1
    last = 60 - len(tail.rstrip("\n").split("\n"))
    assert f'lines {first}–{last} of 60: read_section("a", from={first}, lines={last - first + 1})' in marker
    assert len(head) > 2 * len(tail) > 0


@pytest.mark.parametrize(
    ("text", "head", "boundary"),
    [
        (["a", "b", "c", "d", "e"], 4, 4),
        (["a", "b", "c", "", "d"], 4, 3),
        (["a", "b", "# c", "d"], 3, 2),
        (["a", "b", "# c", "", "d"], 4, 2),
        (["# a", "", "b"], 2, 0),
        ([*"abcdefgh", "## i", "j", "k"], 9, 8),
        ([*"abcdefgh", "## i", "j", "k"], 10, 10),
        ([*"abcdefgh", "#i", "j", "k"], 9, 9),
        ([], 0, 0),
    ],
)
def test_boundary(text: list[str], head: int, boundary: int) -> None:
    """A cut goes to a heading that is near, and never leaves a heading or a blank line at the end."""
    assert find_boundary(text, head) == boundary


def test_count_lines() -> None:
    """Lines are counted while they fit."""
    assert [count_lines([5, 5, 5], room) for room in (-1, 0, 4, 5, 9, 10, 99)] == [0, 0, 0, 1, 1, 2, 3]


@pytest.mark.parametrize("fence", ["```", "~~~", "````"])
def test_code_is_closed(tmp_path: Path, fence: str) -> None:
    """A cut in the middle of a code block closes it before the marker, with the sign that opened it."""
    text = cut(tmp_path, f"{fence}\n{lines(50)}{fence}\n", 100).prompt.text
    before, _, _ = text.partition("[cut")
    assert before.endswith(f"\n{fence}\n")


def test_calls(tmp_path: Path) -> None:
    """A file is read on with memory_get, anything else with read_section, and without tools there is no call."""
    with_tools = cut(tmp_path / "a", lines(60), 320, tools=READING_TOOLS).prompt.text
    assert re.search(r'memory_get\("A.md", from=\d+\)\]', with_tools)
    assert "memory_get" not in cut(tmp_path / "b", lines(60), 100).prompt.text


def test_front_matter_is_no_file(tmp_path: Path) -> None:
    """A text that is not the file's own, since fields were put into words, is read on as a section."""
    slots = ["id: a, source: identity, form: forms/identity, file: A.md, pace: static"]
    text = "---\nname: Reid\n---\n" + lines(60)
    assembly = build(tmp_path, "least: 1, system: 320, menu_share: 0.0", slots, {"A.md": text}, tools=READING_TOOLS)
    assert 'read_section("a", from=' in assembly.prompt.text
