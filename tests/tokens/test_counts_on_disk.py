"""Claims about counts on disk."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from foreword.testing import make_workspace
from foreword.tokens.count import SqliteCountStore
from foreword.turn import Turn

LONG = "Ask before you buy anything, and keep the receipt. " * 20
SCRIPT = """
import sys
from foreword import Turn, open
with open(sys.argv[1]) as ws:
    assembly = ws.assemble(Turn(user="alice", situation="dm", model="openai:gpt-5"))
    print(assembly.used, sum(counter.fresh for counter in ws._counters.values()))
"""


def run(folder: Path) -> tuple[int, int]:
    """Assemble in another process; return the tokens used and how many texts had to be counted."""
    done = subprocess.run([sys.executable, "-c", SCRIPT, folder], capture_output=True, text=True, check=True)
    used, fresh = done.stdout.split()
    return int(used), int(fresh)


def test_counts_outlive_the_process(tmp_path: Path) -> None:
    """A process finds the counts of an earlier process."""
    make_workspace(tmp_path, {"SOUL.md": LONG, "AGENTS.md": LONG * 2})
    first, second = run(tmp_path), run(tmp_path)
    assert first[0] == second[0]
    assert first[1] > 0
    assert second[1] == 0


@pytest.mark.parametrize("junk", [b"", b"not a database at all" * 100, b"SQLite format 3\0" + b"\xff" * 5_000])
def test_corrupt_file(tmp_path: Path, junk: bytes) -> None:
    """A file that is no database costs time, but no turn and no wrong count."""
    ws = make_workspace(tmp_path, {"SOUL.md": LONG, ".foreword/x": ""})
    turn = Turn(user="alice", situation="dm", model="openai:gpt-5")
    right = ws.assemble(turn).used
    (tmp_path / ".foreword/counts.sqlite").write_bytes(junk)
    with make_workspace(tmp_path, {}) as again:
        assert again.assemble(turn).used == right


def test_other_schema(tmp_path: Path) -> None:
    """A database with another table of that name is not used and does not interfere."""
    (tmp_path / ".foreword").mkdir()
    with sqlite3.connect(tmp_path / ".foreword/counts.sqlite") as database:
        database.execute("CREATE TABLE counts (something TEXT)")
    database.close()
    shelf = SqliteCountStore(os.fspath(tmp_path / ".foreword"))
    shelf.save("o200k", {b"x": 1})
    assert shelf.load("o200k") == {}


def test_round_trip(tmp_path: Path) -> None:
    """Counts are cached per vocabulary, and a newer one replaces the older."""
    shelf = SqliteCountStore(os.fspath(tmp_path / "state"))
    shelf.save("o200k", {b"x": 1, b"y": 2})
    shelf.save("o200k", {b"x": 3})
    shelf.save("cl100k", {b"x": 9})
    assert shelf.load("o200k") == {b"x": 3, b"y": 2}
    assert shelf.load("cl100k") == {b"x": 9}


def test_nowhere_to_write(tmp_path: Path) -> None:
    """Where nothing can be written, nothing is cached and nothing fails."""
    (tmp_path / "state").write_text("a file")
    shelf = SqliteCountStore(os.fspath(tmp_path / "state"))
    shelf.save("o200k", {b"x": 1})
    assert shelf.load("o200k") == {}


@pytest.mark.parametrize("name", ["with space", "a?b", "a#b", "a%20b"])
def test_odd_folder(tmp_path: Path, name: str) -> None:
    """A workspace may be in a folder of any name."""
    shelf = SqliteCountStore(os.fspath(tmp_path / name))
    shelf.save("o200k", {b"x": 1})
    assert shelf.load("o200k") == {b"x": 1}
