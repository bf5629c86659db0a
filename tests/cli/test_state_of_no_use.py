"""Claims about a state that cannot be used when a command begins: it is said in words, and never by a traceback."""

import pytest

COMMANDS = (("token", "create", "alice"), ("token", "list"), ("serve", "--port", "0"), ("chat", "Hello"))


@pytest.fixture(autouse=True)
def key(monkeypatch):
    """Have a key."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")


@pytest.mark.parametrize("words", COMMANDS)
def test_it_cannot_be_opened(start, folder, words):
    """A state that SQLite cannot open is named, with what it may be and what to do."""
    (folder / ".foreword" / "state.sqlite").mkdir(parents=True)
    answer = start(*words)
    assert (answer.code, answer.out) == (2, "")
    assert "state.sqlite cannot be used now: unable to open database file" in answer.err
    assert "full or read-only, or another process may hold the file; try again" in answer.err


@pytest.mark.parametrize("words", COMMANDS)
def test_its_folder_is_a_file(start, folder, words):
    """A file where the folder of the state should be is named as what it is."""
    (folder / ".foreword").write_text("")
    answer = start(*words)
    assert answer.code == 2
    assert ".foreword is no folder, and the state is kept in it; move it away" in answer.err
