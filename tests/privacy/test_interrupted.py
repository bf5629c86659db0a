"""Erasure with interruptions: running turns, a crash in the middle, concurrent readers."""

import asyncio
import os
import sqlite3
import threading
from contextlib import closing

import pytest
from people import dump_rows, find_token, make_people, sentence

from foreword.errors import InputError
from foreword.gateway.messages import RoutedMessage
from foreword.privacy.erasure import DATA_LOCATIONS, PENDING_FILE, erase_person
from foreword.storage.database import lock_file


class Ends(Exception):
    """Simulates a crash of the process."""


class Breaking:
    """A data location that crashes after its erasure."""

    def __init__(self, holding):
        self.holding = holding
        self.name, self.base, self.where, self.claims = holding.name, holding.base, holding.where, holding.claims

    def find(self, bases, person):
        """Delegate."""
        return self.holding.find(bases, person)

    def export(self, bases, person):
        """Delegate."""
        return self.holding.export(bases, person)

    def erase(self, bases, person):
        """Erase, then crash."""
        self.holding.erase(bases, person)
        raise Ends


class Keeping(Breaking):
    """A data location that removes nothing, as if a concurrent process wrote the rows again."""

    def erase(self, bases, person):  # noqa: ARG002
        """Remove nothing."""
        return 0


def replace(number, kind):
    """Wrap the data location at one position."""
    return [kind(one) if at == number else one for at, one in enumerate(DATA_LOCATIONS)]


@pytest.fixture
def people(tmp_path):
    """A workspace with two users."""
    made = make_people(tmp_path / "ws", {"bob": "zebrabob", "carol": "zebracarol"})
    place = {"room": "kitchen", "situation": "group", "channel": "telegram"}
    room = made.talk("carol", "What was it?", f"He said: {sentence('zebrabob3')}", **place)
    made.sum_up(room, "zebrabob3 and more")
    made.do(lambda state: state.execute("INSERT INTO identities VALUES ('telegram:7', 'bob', '', '')"))
    made.talk("telegram:7", sentence("zebrabob70"), "Hello zebrabob71.", channel="telegram")
    assert made.house  # flushes all events
    yield made
    made.close()


EVERY = range(len(DATA_LOCATIONS))
CRASHES = EVERY if os.environ.get("FOREWORD_SOAK") else EVERY[::9]


@pytest.mark.parametrize("number", CRASHES, ids=lambda number: DATA_LOCATIONS[number].name.replace(" ", "_"))
def test_an_interrupted_erasure_is_completed(people, number):
    """After a crash at any data location the next run completes the erasure; until then no other user can be erased."""
    with pytest.raises(Ends):
        erase_person(people.house, "bob", 1.0, locations=replace(number, Breaking))
    with pytest.raises(InputError, match="foreword forget bob"):
        erase_person(people.house, "carol", 1.0)
    assert erase_person(people.house, "bob", 1.0).done
    assert find_token(people.folder, "zebrabob") == []
    assert find_token(people.folder, "zebracarol")
    assert not os.path.exists(os.path.join(people.state, PENDING_FILE))


def test_what_is_still_there_is_not_called_gone(people):
    """If the check after erasure finds rows, the report counts them and is not marked as done."""
    tokens = next(at for at, one in enumerate(DATA_LOCATIONS) if one.name == "tokens")
    report = erase_person(people.house, "bob", 1.0, locations=replace(tokens, Keeping))
    assert not report.done
    assert {line.name: line.left for line in report.lines if line.left} == {"tokens": 1}
    assert erase_person(people.house, "bob", 1.0).done


def test_who_reads_keeps_the_journal(people):
    """While a reader holds a snapshot the WAL cannot be truncated; the report says so, and the next run does it."""
    with closing(sqlite3.connect(os.path.join(people.state, "state.sqlite"), isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM turns").fetchone()
        report = erase_person(people.house, "bob", timeout_s=0.2)
        reader.execute("COMMIT")
    assert not report.done
    assert "state.sqlite-wal may still contain deleted data" in report.trouble[0]
    assert erase_person(people.house, "bob", 1.0).done
    assert find_token(people.folder, "zebrabob") == []


def test_two_at_once(people):
    """Only one erasure runs at a time."""
    with (
        lock_file(os.path.join(people.state, PENDING_FILE)),
        pytest.raises(InputError, match="another erasure is running"),
    ):
        erase_person(people.house, "bob", 0.1)
    assert erase_person(people.house, "bob", 1.0).done


def test_a_turn_under_way(people):
    """A running turn of the user is asked to stop; until it ends, no row of the state is deleted."""
    asyncio.run(people.begin(RoutedMessage(text="zebrabob99", user="bob")))
    before = len(dump_rows(people.folder)["turns"])
    move_lease(people)
    with pytest.raises(InputError, match="a turn of bob is still running"):
        erase_person(people.house, "bob", timeout_s=0.1)
    rows = dump_rows(people.folder)["turns"]
    assert len(rows) == before
    assert [row[-2] for row in rows if row[5] == "zebrabob99"] == [1]  # stop


def test_a_turn_of_another_in_their_room(people):
    """Erasure waits for another user's turn in a room in which the person spoke, and does not stop it."""
    place = {"room": "kitchen", "situation": "group", "channel": "telegram"}
    asyncio.run(people.begin(RoutedMessage(text="hello there", user="carol", **place)))
    move_lease(people)
    with pytest.raises(InputError, match="a turn in a shared room is still running"):
        erase_person(people.house, "bob", timeout_s=0.1)
    assert [row[-2] for row in dump_rows(people.folder)["turns"] if row[5] == "hello there"] == [0]


def test_a_turn_that_a_dead_process_left(people):
    """An unfinished turn of a dead process is deleted with the rest."""
    asyncio.run(people.begin(RoutedMessage(text="zebrabob99", user="bob")))
    people.do(lambda state: state.execute("UPDATE turns SET lease_until = 9e9, lease_owner = 'elsewhere:1:x'"))
    people.do(lambda state: state.execute("UPDATE turns SET lease_until = 1 WHERE finished IS NULL"))
    assert erase_person(people.house, "bob", timeout_s=0.1).done
    assert find_token(people.folder, "zebrabob") == []


def test_a_turn_that_ends_meanwhile(people):
    """Once the running turn has ended, everything is deleted, including the rows it wrote last."""
    claimed, _ = asyncio.run(people.begin(RoutedMessage(text=sentence("zebrabob99"), user="bob")))
    move_lease(people)
    ending = "UPDATE turns SET state = 'stopped', reply = 'zebrabob100', finished = 'now' WHERE id = ?"
    later = threading.Timer(0.3, lambda: people.do(lambda state: state.execute(ending, (claimed.turn,))))
    later.start()
    assert erase_person(people.house, "bob", 1.0).done
    later.join()
    assert find_token(people.folder, "zebrabob") == []


def test_a_turn_of_another_that_had_their_memory(people):
    """Erasure waits for another user's turn that recalled the person's memory, and redacts its reply."""
    claimed, _ = asyncio.run(people.begin(RoutedMessage(text="What do you remember?", user="carol")))
    move_lease(people)
    reported = "I remember: zebrabob5 is what they like best of all things, owltoken."
    ending = "UPDATE turns SET state = 'answered', reply = ?, finished = 'now' WHERE id = ?"
    later = threading.Timer(1.5, lambda: people.do(lambda state: state.execute(ending, (reported, claimed.turn))))
    later.start()
    assert erase_person(people.house, "bob").done
    later.join()
    assert find_token(people.folder, "zebrabob") == []
    assert find_token(people.folder, "owltoken")


def move_lease(people):
    """Extend the leases of running turns: erasure uses the system clock, the test a manual one."""
    people.do(lambda state: state.execute("UPDATE turns SET lease_until = 9e9 WHERE finished IS NULL"))
