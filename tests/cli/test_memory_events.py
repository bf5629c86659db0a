"""Events of the memory commands."""

import json
from pathlib import Path

import pytest

from foreword.cli.main import main
from foreword.testing import write_files

FILES = {
    "foreword.yaml": "owner: alice\nusers: {alice: {trust: full}, bob: {trust: familiar}}\n",
    "memory/social/PEOPLE.md": "Carol's birthday is on 14 March.\n",
}


@pytest.fixture
def say(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Run a command in a workspace and return its output."""
    write_files(tmp_path, FILES)

    def run(*words: str) -> str:
        assert main(["-w", str(tmp_path), *words]) == 0
        return capsys.readouterr().out

    return run


def test_told(say) -> None:
    """A search, a save and a removal are events with their store and their count, but without text."""
    say("memory", "search", "Carol")
    say("memory", "search", "Carol", "--store", "social", "--json")
    saved = say("memory", "save", "The ferry leaves at noon.", "--store", "social").split()[-1]
    say("memory", "save", "The ferry leaves at noon.", "--store", "social")
    say("memory", "forget", saved)
    shown = say("logs", "--json")
    events = [(one["event_type"], one["metadata"]) for one in json.loads(shown)]
    assert events == [
        ("memory_search", {"store": "facts, main, private, shared, social, own", "count": 1}),
        ("memory_search", {"store": "social", "count": 1}),
        ("memory_write", {"store": "social", "count": 1}),
        ("memory_write", {"store": "social", "count": 0}),
        ("memory_write", {"store": "social", "count": 1}),
    ]
    assert "ferry" not in shown
    assert "Carol" not in shown


def test_others(say) -> None:
    """The owner's searches are not visible to another user."""
    say("memory", "search", "Carol")
    say("memory", "search", "Carol", "--user", "bob")
    assert len(json.loads(say("logs", "--json"))) == 2
    (event,) = json.loads(say("logs", "--json", "--reader", "bob"))
    assert event["metadata"] == {"store": "social, own", "count": 1}


def test_a_log_that_cannot_be_written(say, tmp_path: Path) -> None:
    """A search works even if its log cannot be written."""
    (tmp_path / ".foreword" / "events.sqlite").mkdir(parents=True)
    assert "14 March" in say("memory", "search", "Carol")
