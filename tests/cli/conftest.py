"""Shared fixtures of the command line tests: a small workspace, and functions to run commands."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from processes import run, sit_at_terminal

from foreword.cli.main import main
from foreword.testing import write_files

CONFIG = """\
owner: alice
agents:
  reid: {model: "anthropic:claude-sonnet-5"}
users:
  alice: {trust: full, timezone: Europe/Paris}
  bob: {trust: familiar}
rooms:
  family: {situation: group}
"""
FILES = {
    "foreword.yaml": CONFIG,
    "SOUL.md": "You are calm.\n",
    "AGENTS.md": "Answer first.\n" * 400,
    "USER.md": "Alice binds books.\n",
    "memory/private/NOTES.md": "A secret.\n",
}


@dataclass(frozen=True)
class Answer:
    """The result of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The output as JSON."""
        return json.loads(self.out)


Say = Callable[..., Answer]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Make a workspace, change into it, and fix the host name."""
    place = tmp_path / "ws"
    write_files(place, FILES)
    monkeypatch.chdir(place)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    return place


@pytest.fixture
def say(capsys) -> Say:
    """Run a command and return its result."""

    def type_in(*words: str) -> Answer:
        capsys.readouterr()
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return type_in


@pytest.fixture
def start(tmp_path) -> Say:
    """Run a command in a separate process, with piped or typed input, and return its result."""

    def type_in(*words: str, piped: bytes = b"", typed: str | None = None) -> Answer:
        with ExitStack() as opened:
            (tmp_path / "in").write_bytes(piped)
            stdin = str(tmp_path / "in") if typed is None else opened.enter_context(sit_at_terminal(typed))
            code = run([str(word) for word in words], tmp_path, stdin)
        return Answer(code, *((tmp_path / name).read_text(encoding="utf-8") for name in ("out", "err")))

    return type_in
