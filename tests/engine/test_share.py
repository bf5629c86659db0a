"""Claims about how texts share a budget."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import build, file_slot, lines, list_verdicts, why, wish

from foreword.engine.budget import compute_parts, raise_to_level

WISHES = st.lists(st.tuples(st.integers(0, 500), st.integers(0, 200)), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("wishes", "room", "parts"),
    [
        ([10, 20, 30], 60, [10, 20, 30]),
        ([10, 20, 30], 59, [10, 20, 29]),
        ([10, 100, 100], 110, [10, 50, 50]),
        ([100, 100, 100], 100, [33, 33, 33]),
        ([10, 20, 300], 0, [0, 0, 0]),
        ([], 10, []),
    ],
)
def test_level(wishes: list[int], room: int, parts: list[int]) -> None:
    """Small wishes are met, and the rest is divided equally among the large ones."""
    assert compute_parts([wish(one) for one in wishes], room) == parts


@given(WISHES, st.integers(0, 3_000))
def test_water(wishes: list[tuple[int, int]], room: int) -> None:
    """No part exceeds its wish, all parts fit the room, and a part exceeds a short one only by its floor."""
    made = [wish(wanted, floor) for wanted, floor in wishes]
    parts = compute_parts(made, room)
    assert sum(parts) <= room
    assert all(part <= one.wanted for one, part in zip(made, parts, strict=True))
    if sum(one.floor for one in made) > room:
        # A wish without a floor counts like the one with the highest.
        highest = max(one.floor for one in made)
        assert all(part <= (one.floor or highest) for one, part in zip(made, parts, strict=True))
        assert room - sum(parts) < len(made)
        return
    assert all(part >= one.floor for one, part in zip(made, parts, strict=True))
    short = [part for one, part in zip(made, parts, strict=True) if part < one.wanted]
    for one, part in zip(made, parts, strict=True):
        assert all(part <= max(other, one.floor) for other in short)
    if short:
        assert room - sum(parts) < len(short)


def test_floors_first() -> None:
    """Floors are met before anything is shared."""
    assert compute_parts([wish(500), wish(100, floor=80)], 100) == [20, 80]


def test_floors_beyond_the_room() -> None:
    """Where the floors themselves do not fit, the small ones are still met and the large ones are reduced."""
    assert compute_parts([wish(11, floor=300), wish(400, floor=300)], 200) == [11, 189]


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 200), st.integers(0, 40)), max_size=8), st.integers(0, 900)
)
def test_bases(wishes: list[tuple[int, int, int]], room: int) -> None:
    """The line that names an omission is reserved for each text, as long as there is room for all of these lines."""
    made = [wish(*one) for one in wishes]
    parts = compute_parts(made, room)
    assert sum(parts) <= room
    if sum(one.base for one in made) <= room:
        assert all(one.base <= part for one, part in zip(made, parts, strict=True))


@pytest.mark.parametrize(
    ("wishes", "room", "parts"),
    [
        ([(500, 300, 30), (500, 300, 30)], 100, [50, 50]),
        ([(500, 300, 90), (500, 300, 30)], 130, [90, 40]),
        ([(20, 0, 30), (500, 0, 30)], 60, [20, 40]),
        ([(500, 0, 30), (500, 0, 30)], 59, [29, 29]),
    ],
)
def test_base(wishes: list[tuple[int, int, int]], room: int, parts: list[int]) -> None:
    """No part is levelled below its base, which is at most the text; without room for all bases, none applies."""
    assert compute_parts([wish(*one) for one in wishes], room) == parts


@pytest.mark.parametrize(
    ("least", "most", "room", "parts"),
    [
        ([0, 0], [10, 10], 10, [5, 5]),
        ([8, 0], [10, 10], 10, [8, 2]),
        ([0, 0, 0], [1, 100, 100], 21, [1, 10, 10]),
        ([0], [10], 99, [10]),
        ([], [], 5, []),
    ],
)
def test_pour(least: list[int], most: list[int], room: int, parts: list[int]) -> None:
    """Every part is raised to one level, none below its least or above its most."""
    assert raise_to_level(least, most, room) == parts


def test_small_soul_survives(tmp_path: Path) -> None:
    """One token above a tier costs the longest text a line, and does not drop a short one."""
    slots = [file_slot("soul", "floor: 300"), file_slot("agents", "floor: 300")]
    files = {"SOUL.md": "Be kind.\n", "AGENTS.md": lines(20)}
    whole = build(tmp_path / "whole", "least: 20", slots, files)
    tight = build(tmp_path / "tight", f"least: 20, system: {whole.system_tokens - 1}", slots, files)
    assert list_verdicts(tight) == {"soul": "kept", "agents": "shortened"}


def test_in_order(tmp_path: Path) -> None:
    """In order, the first file takes all it needs and the last one gets the rest."""
    slots = [file_slot("a"), file_slot("b"), file_slot("c")]
    files = {"A.md": lines(30), "B.md": lines(30), "C.md": lines(2)}
    assembly = build(tmp_path, "least: 20, fitting: sequential, system: 300", slots, files)
    assert list_verdicts(assembly) == {"a": "kept", "b": "shortened", "c": "dropped"}


def test_fairly(tmp_path: Path) -> None:
    """Fairly, the last file loses no more than the first."""
    slots = [file_slot("a"), file_slot("b"), file_slot("c")]
    files = {"A.md": lines(30), "B.md": lines(30), "C.md": lines(2)}
    assembly = build(tmp_path, "least: 20, fitting: fair, system: 300", slots, files)
    assert list_verdicts(assembly) == {"a": "shortened", "b": "shortened", "c": "kept"}
    kept = [row.tokens for row in assembly.rows()]
    assert kept[0] == kept[1]


def test_useless_part_is_given_on(tmp_path: Path) -> None:
    """A part too small to be useful goes to the other texts; the last text is dropped first."""
    slots = [file_slot(name) for name in "abc"]
    files = {f"{name.upper()}.md": lines(30) for name in "abc"}
    assembly = build(tmp_path, "least: 100, system: 250", slots, files)
    assert list_verdicts(assembly) == {"a": "shortened", "b": "shortened", "c": "dropped"}
    assert assembly.system_tokens > 200


@pytest.mark.parametrize(("room", "count"), [(99, 0), (100, 1), (199, 1), (200, 2), (499, 4), (500, 5)])
def test_as_many_as_can_stay(tmp_path: Path, room: int, count: int) -> None:
    """Of texts that cannot each have a useful part, as many as possible stay, and the last ones are dropped."""
    slots = [file_slot(name) for name in "abcdef"]
    files = {f"{name.upper()}.md": lines(30) for name in "abcdef"}
    shown = list(list_verdicts(build(tmp_path, f"least: 100, system: {room}", slots, files)).values())
    assert shown == ["shortened"] * count + ["dropped"] * (6 - count)


def test_reason_names_the_part(tmp_path: Path) -> None:
    """The reason of a loss names the room that the text really had."""
    assembly = build(tmp_path, "least: 81, system: 80", [file_slot("a")], {"A.md": lines(30)})
    assert why(assembly, "a") == "static slots have 80 of 80 tokens; wants 240, and its part is 80"


def test_reason_names_its_own_part(tmp_path: Path) -> None:
    """A short text that fits whole does not lower the part that a long one's reason names."""
    slots, files = [file_slot("a"), file_slot("b")], {"A.md": lines(30), "B.md": lines(1)}
    assembly = build(tmp_path, "least: 100, system: 80", slots, files)
    assert list_verdicts(assembly) == {"a": "dropped", "b": "kept"}
    rest = 80 - next(row.tokens for row in assembly.rows() if row.id == "b")
    assert why(assembly, "a").endswith(f"wants 240, and its part is {rest}")


def test_never_cut(tmp_path: Path) -> None:
    """A slot that is never cut is whole or not there."""
    slots = [file_slot("a", "cut: never"), file_slot("b")]
    assembly = build(tmp_path, "least: 20, system: 150", slots, {"A.md": lines(30), "B.md": lines(5)})
    assert list_verdicts(assembly) == {"a": "dropped", "b": "kept"}
