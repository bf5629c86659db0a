"""Claims about an index whose file is damaged: it is rebuilt from the memories, with a message."""

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from foreword.engine.trust import Audience
from foreword.errors import InputError
from foreword.memory.stores import Hit
from foreword.testing import NOON, make_workspace
from foreword.types import Trust
from foreword.workspace import Workspace

ROUNDS = 300 if os.environ.get("FOREWORD_SOAK") else 6
STORES = ("private", "shared", "social")
FILES = {
    f"memory/{store}/{name}.md": f"# Head {name}\n\n"
    + "\n\n".join(f"{name} {at} about the birthday at the lake, {store} {at * 7919}" for at in range(30))
    for store in STORES
    for name in "ABC"
}
QUERY = "birthday lake A 7919"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """The file of an index that is whole."""
    with make_workspace(tmp_path, FILES) as workspace:
        ask(workspace)
    return tmp_path / ".foreword" / "memory.sqlite"


def ask(workspace: Workspace) -> list[Hit]:
    """Run the same search as always."""
    return workspace.memory.search(QUERY, Audience(clearance=Trust.FULL), limit=10)


def overwrite(whole: bytes, dice: random.Random) -> bytes:
    """Change some bytes anywhere."""
    damaged = bytearray(whole)
    for _ in range(dice.choice([1, 5, 50, 500])):
        damaged[dice.randrange(len(damaged))] = dice.randrange(256)
    return bytes(damaged)


def truncate(whole: bytes, dice: random.Random) -> bytes:
    """Remove the end."""
    return whole[: dice.randrange(1, len(whole))]


def replace_page(whole: bytes, dice: random.Random) -> bytes:
    """Replace a page with random bytes."""
    start = dice.randrange(len(whole) // 4096) * 4096
    return whole[:start] + dice.randbytes(4096) + whole[start + 4096 :]


def blank(whole: bytes, dice: random.Random) -> bytes:
    """Replace some bytes with zeros."""
    start = dice.randrange(len(whole))
    size = min(dice.randrange(5_000), len(whole) - start)
    return whole[:start] + bytes(size) + whole[start + size :]


@pytest.mark.parametrize("damage", [overwrite, truncate, replace_page, blank])
def test_any_bytes(place: Path, damage: Callable[[bytes, random.Random], bytes]) -> None:
    """With any bytes in the file, a search answers correctly; detected damage is reported.

    Seen to fail while only the errors of the database itself counted as damage.
    """
    whole, root, dice = place.read_bytes(), os.fspath(place.parents[1]), random.Random(3)
    with Workspace(root, lambda: NOON) as workspace:
        wanted = ask(workspace)
    noticed = 0
    for _ in range(ROUNDS):
        place.write_bytes(damage(whole, dice))
        with Workspace(root, lambda: NOON) as workspace:
            hits = ask(workspace)
            assert not workspace.memory.notice or hits == wanted
            assert not workspace.memory.notice or workspace.memory.notice.startswith("the memory index was damaged (")
            noticed += bool(workspace.memory.notice)
            if hits != wanted:  # a file cannot show that other words were written in it
                assert sorted(step.store for step in workspace.memory.reindex()) == sorted(STORES)
                assert ask(workspace) == wanted
    assert noticed > ROUNDS // 4


def make_nothing(place: Path) -> None:
    """Make an empty file."""
    place.write_bytes(b"")


def make_folder(place: Path) -> None:
    """Make a folder with something in it."""
    place.unlink()
    place.mkdir()
    (place / "mine.txt").write_text("mine")


def make_link(place: Path) -> None:
    """Make a link to nothing."""
    place.unlink()
    place.symlink_to("nowhere")


def make_pipe(place: Path) -> None:
    """Make a pipe, which would wait forever."""
    place.unlink()
    os.mkfifo(place)


@pytest.mark.parametrize("make", [make_nothing, make_folder, make_link, make_pipe])
def test_no_file(place: Path, make: Callable[[Path], None]) -> None:
    """Anything in the place of the file, unless it is an empty file, is moved aside, and the index is rebuilt.

    Seen to fail while a folder in the place of the index was said to be a disk that is full.
    """
    make(place)
    with Workspace(os.fspath(place.parents[1]), lambda: NOON) as workspace:
        assert len(ask(workspace)) == 10
        assert ("memory.sqlite.aside" in workspace.memory.notice) is (make is not make_nothing)
    assert place.is_file()
    aside = place.with_name("memory.sqlite.aside")
    assert make is not make_folder or (aside / "mine.txt").read_text() == "mine"


def test_aside_is_taken(place: Path) -> None:
    """Where nothing can be moved aside, nothing is lost, and the message names the obstacle."""
    make_folder(place)
    aside = place.with_name("memory.sqlite.aside")
    aside.mkdir()
    (aside / "also mine.txt").write_text("mine")
    with (
        Workspace(os.fspath(place.parents[1]), lambda: NOON) as workspace,
        pytest.raises(InputError, match="is not a file: Directory not empty; move it away"),
    ):
        ask(workspace)
    assert (aside / "also mine.txt").exists()
