"""Cached reads of the state."""

import os
import threading

import pytest

from foreword.engine.context import NO_CHARACTER
from foreword.storage.agents import replace_instructions, set_character
from foreword.storage.database import STATE_FILE, StorageError, open_state
from foreword.storage.state_reader import StateReader
from foreword.types import Trust


@pytest.fixture
def reader(tmp_path):
    """A reader of a folder that does not exist yet."""
    made = StateReader(str(tmp_path / "state"))
    yield made
    made.close()


def write(folder, text):
    """Write instructions as another process does."""
    connection = open_state(str(folder)).connection
    replace_instructions(connection, "alice", "reid", text)
    set_character(connection, "reid", soul=text)
    connection.close()


def test_nothing_is_made(tmp_path, reader):
    """Without a state every answer is empty and no file is created."""
    assert reader.find_instructions("alice", "reid", Trust.FULL) is None
    assert reader.find_character("reid") is NO_CHARACTER
    assert not (tmp_path / "state").exists()


def test_fresh(tmp_path, reader):
    """A write of another process is visible in the next query; until then an answer is the same object."""
    for text in ("one", "two", ""):
        write(tmp_path / "state", text)
        assert reader.find_instructions("alice", "reid", Trust.FULL) == text
        assert reader.find_character("reid").soul == text
        assert reader.find_character("reid") is reader.find_character("reid")


def test_another_file(tmp_path, reader):
    """After the state is moved away it is no longer read, and a new one in its place is."""
    write(tmp_path / "state", "old")
    assert reader.find_instructions("alice", "reid", Trust.FULL) == "old"
    os.rename(tmp_path / "state", tmp_path / "away")
    assert reader.find_instructions("alice", "reid", Trust.FULL) is None
    write(tmp_path / "state", "new")
    assert reader.find_instructions("alice", "reid", Trust.FULL) == "new"
    reader.close()
    assert reader.find_instructions("alice", "reid", Trust.FULL) == "new"


def test_damaged(tmp_path, reader):
    """A damaged state is an error that says what to do, and a repaired one works again."""
    write(tmp_path / "state", "kept")
    path = tmp_path / "state" / STATE_FILE
    sound = path.read_bytes()
    path.write_text("no database at all, and long enough to be taken for one" * 20)
    for _ in range(2):
        with pytest.raises(StorageError, match="restore it from a backup"):
            reader.find_instructions("alice", "reid", Trust.FULL)
    path.write_bytes(sound)
    assert reader.find_instructions("alice", "reid", Trust.FULL) == "kept"


def test_threads(tmp_path, reader):
    """Threads that share a reader get complete answers while another connection writes."""
    write(tmp_path / "state", "0")
    answers: list[str | None] = []

    def ask():
        answers.extend(reader.find_instructions("alice", "reid", Trust.FULL) for _ in range(50))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(1, 5):
        write(tmp_path / "state", str(number))
    for thread in threads:
        thread.join()
    assert len(answers) == 200
    assert {*answers} <= {"0", "1", "2", "3", "4"}
    assert reader.find_instructions("alice", "reid", Trust.FULL) == "4"
