"""Claims about what comes in between: a turn under way, an end in the middle, somebody who reads."""

import asyncio
import os
import sqlite3
import threading
from contextlib import closing

import pytest
from people import dump_rows, find_token, make_people, sentence

from foreword.erasure.forgetting import PENDING, forget
from foreword.erasure.holdings import HOLDINGS
from foreword.errors import InputError
from foreword.gateway.message import Incoming
from foreword.store.schema import guard


class Ends(Exception):
    """The process ends here."""


class Breaking:
    """A holding at which the process ends, before or after its own work was done."""

    def __init__(self, holding):
        self.holding = holding
        self.name, self.base, self.where, self.claims = holding.name, holding.base, holding.where, holding.claims

    def find(self, bases, person):
        """Find what there is."""
        return self.holding.find(bases, person)

    def give(self, bases, person):
        """Give what there is."""
        return self.holding.give(bases, person)

    def forget(self, bases, person):
        """End."""
        self.holding.forget(bases, person)
        raise Ends


class Keeping(Breaking):
    """A holding that removes nothing, as where somebody writes it anew at once."""

    def forget(self, bases, person):  # noqa: ARG002
        """Remove nothing."""
        return 0


def replace(number, kind):
    """Put another holding in the place of one."""
    return [kind(one) if at == number else one for at, one in enumerate(HOLDINGS)]


@pytest.fixture
def people(tmp_path):
    """A house with two people."""
    made = make_people(tmp_path / "ws", {"bob": "zebrabob", "carol": "zebracarol"})
    place = {"room": "kitchen", "situation": "group", "channel": "telegram"}
    room = made.talk("carol", "What was it?", f"He said: {sentence('zebrabob3')}", **place)
    made.sum_up(room, "zebrabob3 and more")
    made.do(lambda state: state.execute("INSERT INTO identities VALUES ('telegram:7', 'bob', '', '')"))
    made.talk("telegram:7", sentence("zebrabob70"), "Hello zebrabob71.", channel="telegram")
    assert made.house  # everything is written
    yield made
    made.close()


@pytest.mark.parametrize("number", range(len(HOLDINGS)), ids=lambda number: HOLDINGS[number].name.replace(" ", "_"))
def test_whoever_is_interrupted_begins_again(people, number):
    """Wherever it ends in the middle, the next run finds the rest, though no other may begin before."""
    with pytest.raises(Ends):
        forget(people.house, "bob", 1.0, holdings=replace(number, Breaking))
    with pytest.raises(InputError, match="foreword forget bob"):
        forget(people.house, "carol", 1.0)
    assert forget(people.house, "bob", 1.0).done
    assert find_token(people.folder, "zebrabob") == []
    assert find_token(people.folder, "zebracarol")
    assert not os.path.exists(os.path.join(people.state, PENDING))


def test_what_is_still_there_is_not_called_gone(people):
    """Where a second look finds something, it is said how much, and nobody says that it was done."""
    tokens = next(at for at, one in enumerate(HOLDINGS) if one.name == "tokens")
    report = forget(people.house, "bob", 1.0, holdings=replace(tokens, Keeping))
    assert not report.done
    assert {line.name: line.left for line in report.lines if line.left} == {"tokens": 1}
    assert forget(people.house, "bob", 1.0).done


def test_who_reads_keeps_the_journal(people):
    """While somebody reads an older state its journal cannot be emptied: that is said, and the next run does it."""
    with closing(sqlite3.connect(os.path.join(people.state, "state.sqlite"), isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM turns").fetchone()
        report = forget(people.house, "bob", patience=0.2)
        reader.execute("COMMIT")
    assert not report.done
    assert "state.sqlite-wal may still hold bytes" in report.trouble[0]
    assert forget(people.house, "bob", 1.0).done
    assert find_token(people.folder, "zebrabob") == []


def test_two_at_once(people):
    """Only one person is forgotten at a time."""
    with guard(os.path.join(people.state, PENDING)), pytest.raises(InputError, match="already"):
        forget(people.house, "bob", 0.1)
    assert forget(people.house, "bob", 1.0).done


def test_a_turn_under_way(people):
    """While a turn of theirs is under way it is asked to stop, and until it has, no row of the state goes."""
    asyncio.run(people.begin(Incoming(text="zebrabob99", user="bob")))
    before = len(dump_rows(people.folder)["turns"])
    move_lease(people)
    with pytest.raises(InputError, match="a turn of bob is still under way"):
        forget(people.house, "bob", patience=0.1)
    rows = dump_rows(people.folder)["turns"]
    assert len(rows) == before
    assert [row[-2] for row in rows if row[5] == "zebrabob99"] == [1]  # stop


def test_a_turn_of_another_in_their_room(people):
    """A turn in a room in which they spoke may be summing up their words: it is waited for, and not stopped."""
    place = {"room": "kitchen", "situation": "group", "channel": "telegram"}
    asyncio.run(people.begin(Incoming(text="hello there", user="carol", **place)))
    move_lease(people)
    with pytest.raises(InputError, match="a turn in a room in which they spoke"):
        forget(people.house, "bob", patience=0.1)
    assert [row[-2] for row in dump_rows(people.folder)["turns"] if row[5] == "hello there"] == [0]


def test_a_turn_that_a_dead_process_left(people):
    """A turn that nobody works on any more goes with the rest."""
    asyncio.run(people.begin(Incoming(text="zebrabob99", user="bob")))
    people.do(lambda state: state.execute("UPDATE turns SET lease_until = 9e9, lease_owner = 'elsewhere:1:x'"))
    people.do(lambda state: state.execute("UPDATE turns SET lease_until = 1 WHERE finished IS NULL"))
    assert forget(people.house, "bob", patience=0.1).done
    assert find_token(people.folder, "zebrabob") == []


def test_a_turn_that_ends_meanwhile(people):
    """Once the turn under way has ended, everything goes, what it wrote at its end included."""
    claimed, _ = asyncio.run(people.begin(Incoming(text=sentence("zebrabob99"), user="bob")))
    move_lease(people)
    ending = "UPDATE turns SET state = 'stopped', reply = 'zebrabob100', finished = 'now' WHERE id = ?"
    later = threading.Timer(0.3, lambda: people.do(lambda state: state.execute(ending, (claimed.turn,))))
    later.start()
    assert forget(people.house, "bob", 1.0).done
    later.join()
    assert find_token(people.folder, "zebrabob") == []


def test_a_turn_of_another_that_had_their_memory(people):
    """A turn of somebody else that began with a memory of theirs is waited for, and what it quotes is blotted."""
    claimed, _ = asyncio.run(people.begin(Incoming(text="What do you remember?", user="carol")))
    move_lease(people)
    told = "I remember: zebrabob5 is what they like best of all things, owltoken."
    ending = "UPDATE turns SET state = 'answered', reply = ?, finished = 'now' WHERE id = ?"
    later = threading.Timer(1.5, lambda: people.do(lambda state: state.execute(ending, (told, claimed.turn))))
    later.start()
    assert forget(people.house, "bob").done
    later.join()
    assert find_token(people.folder, "zebrabob") == []
    assert find_token(people.folder, "owltoken")


def move_lease(people):
    """Let the lease of turns under way last by the clock of the host; the tests' own stands still."""
    people.do(lambda state: state.execute("UPDATE turns SET lease_until = 9e9 WHERE finished IS NULL"))
