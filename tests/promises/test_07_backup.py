"""The contents of `.foreword/` are documented, and the documented backup is complete."""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from foreword.cli.main import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/backup.md").read_text(encoding="utf-8")


def test_gitignore_says_what_the_state_holds(tmp_path: Path) -> None:
    """The `.gitignore` of `init` says that `.foreword/` cannot be recreated, and how to back it up."""
    assert main(["init", str(tmp_path / "ws")]) == 0
    text = (tmp_path / "ws/.gitignore").read_text()
    assert "can be made again" not in text
    for word in ("conversations", "tokens", "schedules", "back it up"):
        assert word in text
    assert {".foreword/", ".env"} <= set(text.splitlines())


def test_every_kept_file_is_listed() -> None:
    """The page lists every database that the package stores in `.foreword/`."""
    kept = set()
    for path in (ROOT / "src/foreword").rglob("*.py"):
        kept |= set(re.findall(r'"(\w+\.sqlite)"', path.read_text(encoding="utf-8")))
    kept.discard("old.sqlite")
    assert kept == {"state.sqlite", "events.sqlite", "budgets.sqlite", "memory.sqlite", "counts.sqlite"}
    assert [name for name in sorted(kept) if f".foreword/{name}" not in PAGE] == []


def test_backup_of_a_running_workspace_is_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The commands of the page copy databases in use, including writes that are only in the WAL."""
    place = tmp_path / "ws"
    assert main(["init", str(place), "--owner", "alice"]) == 0
    assert main(["-w", str(place), "instructions", "set", "Call me Al.", "--user", "alice"]) == 0
    (script,) = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "python3").symlink_to(sys.executable)
    environment = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}"}
    with closing(sqlite3.connect(place / ".foreword/state.sqlite", isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("PRAGMA wal_autocheckpoint=0")
        writer.execute("CREATE TABLE late (said TEXT)")
        writer.execute("INSERT INTO late VALUES ('the newest word')")
        assert (place / ".foreword/state.sqlite-wal").stat().st_size > 0
        for _ in range(2):  # a second backup replaces the first
            subprocess.run(["/bin/sh", "-e", "-c", script], cwd=place, env=environment, check=True)
    copy = tmp_path / "backup/.foreword/state.sqlite"
    assert copy.stat().st_mode & 0o077 == 0
    with closing(sqlite3.connect(copy)) as base:
        assert base.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert base.execute("SELECT said FROM late").fetchall() == [("the newest word",)]
        base.execute("DROP TABLE late")
        base.commit()
    shutil.rmtree(place / ".foreword")
    shutil.copytree(tmp_path / "backup/.foreword", place / ".foreword")
    capsys.readouterr()
    assert main(["-w", str(place), "instructions", "show", "--user", "alice"]) == 0
    assert "Call me Al." in capsys.readouterr().out
