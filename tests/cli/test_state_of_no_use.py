"""An unusable state at the start of a command is an error message, never a traceback."""

import pytest

COMMANDS = (("token", "create", "alice"), ("token", "list"), ("serve", "--port", "0"), ("chat", "Hello"))


@pytest.fixture(autouse=True)
def key(monkeypatch):
    """Set a key."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")


@pytest.mark.parametrize("words", COMMANDS)
def test_it_cannot_be_opened(start, folder, words):
    """A state that SQLite cannot open is named, with a likely cause and a remedy."""
    (folder / ".foreword" / "state.sqlite").mkdir(parents=True)
    answer = start(*words)
    assert (answer.code, answer.out) == (2, "")
    assert "state.sqlite cannot be used now: unable to open database file" in answer.err
    assert "full or read-only, or another process may hold the file; try again" in answer.err


@pytest.mark.parametrize("words", COMMANDS)
def test_its_folder_is_a_file(start, folder, words):
    """A file in place of the state folder is named as such."""
    (folder / ".foreword").write_text("")
    answer = start(*words)
    assert answer.code == 2
    assert ".foreword is not a folder, but the state is stored in it; move it away" in answer.err
