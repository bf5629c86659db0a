"""Claims about files whose edits apply once they have settled."""

import time

import pytest

from foreword.engine.sources.files import Files
from foreword.workspace import DEBOUNCE_S, DebouncedFiles


class Seconds:
    """A clock that is moved by hand."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        """Return the time."""
        return self.now


@pytest.fixture
def clock():
    """A clock."""
    return Seconds()


@pytest.fixture
def see(tmp_path, clock):
    """A file that was read, and a function that reads it after so many seconds."""
    path = tmp_path / "a.yaml"
    path.write_text("old")
    files = Files(str(tmp_path))
    settled = DebouncedFiles(files, clock)
    assert settled.read("a.yaml") == "old"

    def look(after=0.0, **how):
        clock.now += after
        files.refresh(now=True)
        return settled.read("a.yaml", **how)

    look.path, look.settled = path, settled
    return look


def test_half_an_edit(see):
    """While a file is being written its old text applies, for any number of reads."""
    for text in ("n", "ne", "new"):
        see.path.write_text(text)
        assert see(DEBOUNCE_S) == "old"
    assert see.settled.is_waiting
    assert see(2 * DEBOUNCE_S) == "new"
    assert not see.settled.is_waiting


def test_gone_for_a_moment(see):
    """A file that an editor removes and writes again was never gone."""
    see.path.unlink()
    assert see() == "old"
    see.path.write_text("old")
    assert see(DEBOUNCE_S) == "old"
    see.path.unlink()
    assert see() == "old"
    assert see(2 * DEBOUNCE_S) is None


def test_an_edit_of_long_ago(see):
    """An edit that is older than the delay applies at once."""
    see.path.write_text("new")
    time.sleep(1.5 * DEBOUNCE_S)
    assert see() == "new"


def test_asked_for(see):
    """A refresh on request returns the current text."""
    see.path.write_text("new")
    assert see(now=True) == "new"
    assert see() == "new"
    see.path.write_text("newer")
    assert see() == "new"
    see.settled.reread(now=True)
    assert see() == "newer"
