"""Claims about prompts that cannot be kept: they cost nobody else's, and the log says so."""

import os
import sqlite3
from contextlib import closing
from datetime import datetime

import pytest
from night import BUSY, CONFIG, LONG, USAGE, make_night, make_turn

from foreword.events.asking import ask
from foreword.events.event import Reader
from foreword.events.log import EventLog
from foreword.events.prompts import Prompts, find_prompts
from foreword.events.sent import Sent
from foreword.testing import NOON, Listeners, Reply, make_workspace
from foreword.words import Trust

DEED = "The deed is in the attic."


@pytest.fixture
def workspace(tmp_path):
    """A small workspace."""
    return make_workspace(tmp_path / "home", {"foreword.yaml": CONFIG, **LONG})


def look(folder, query):
    """Ask the file itself."""
    with closing(sqlite3.connect(folder / "events.sqlite")) as connection:
        return connection.execute(query).fetchall()


def test_a_strange_name(workspace, tmp_path):
    """A prompt for a name that cannot be written as UTF-8 is kept, and so is the next one."""
    prompts = Prompts(str(tmp_path))
    for user in ("x\ud800", "alice"):
        prompts.keep(workspace.assemble(make_turn(user=user)))
    assert prompts.flush()
    prompts.close()
    assert prompts.lost == 0
    assert look(tmp_path, "SELECT count(*) FROM prompts") == [(2,)]


def test_one_that_cannot_be_written(workspace, tmp_path):
    """A prompt that cannot be written is lost alone, and a row for full trust says so."""
    moments = iter([NOON, "no moment", NOON])
    prompts = Prompts(str(tmp_path), lambda: next(moments))
    for words in ("one", "two", "three"):
        prompts.keep(workspace.assemble(make_turn(message=words * 50)))
    assert prompts.flush()
    prompts.close()
    assert prompts.lost == 1
    assert look(tmp_path, "SELECT count(*) FROM prompts") == [(2,)]
    ((trust, level, error),) = look(tmp_path, "SELECT trust, level, error FROM events WHERE event_type = 'events_lost'")
    assert (trust, level) == (3, "warn")
    assert error.startswith("1 prompt was not kept: ")


def test_a_file_that_was_replaced(workspace, tmp_path):
    """A prompt that the old file has is written into the one that took its place."""
    prompts = Prompts(str(tmp_path / "state"))
    assembly = workspace.assemble(make_turn())
    prompts.keep(assembly)
    assert prompts.flush()
    for name in os.listdir(tmp_path / "state"):
        os.remove(tmp_path / "state" / name)
    prompts.keep(assembly)
    assert prompts.flush()
    prompts.close()
    assert look(tmp_path / "state", "SELECT count(*) FROM prompts") == [(1,)]


def test_last_used(workspace, tmp_path):
    """The day on which a prompt was last used is kept, whoever kept it first."""
    moments = [datetime(2026, 11, day, hour, tzinfo=NOON.tzinfo) for day, hour in ((16, 9), (16, 11), (18, 8), (17, 8))]
    assembly = workspace.assemble(make_turn(now=NOON))
    for moment in moments:
        prompts = Prompts(str(tmp_path), lambda moment=moment: moment)
        prompts.keep(assembly)
        prompts.close()
    assert look(tmp_path, "SELECT substr(first_used, 1, 10), substr(last_used, 1, 13) FROM prompts") == [
        ("2026-11-16", "2026-11-18T08")
    ]


def deliver_at_full_trust(tmp_path) -> tuple[str, list[Sent]]:
    """Queue a message of bob's, let him have full trust, and deliver it; return what he reads of it at the old one."""
    config = f"{CONFIG}prompt: {{files: [{{path: NOTES.md, trust: full}}]}}\n"
    state = str(tmp_path / "state")
    with EventLog(state) as log:
        prompts = Prompts(state)
        listeners = Listeners(recorder=log, prompts=prompts)
        loop, clock = make_night(tmp_path / "home", listeners, config, {"NOTES.md": f"{DEED}\n"})
        trace = loop.receive(make_turn(user="bob", session="b"), [BUSY] * 4)
        files = {"foreword.yaml": config.replace("bob: {trust: familiar}", "bob: {trust: full}")}
        loop._workspace = make_workspace(tmp_path / "later", {**files, "NOTES.md": f"{DEED}\n"})
        clock.move(60)
        loop.deliver([Reply(text="Yes.", usage=USAGE)])
        prompts.close()
    bob = Reader(user="bob", clearance=Trust.FAMILIAR)
    return state, ask(state, lambda log: find_prompts(log, bob, trace.id))[0]


def test_delivered_at_another_clearance(tmp_path):
    """What is delivered later is told at the clearance at which it was made, and nobody below reads that prompt."""
    state, sent = deliver_at_full_trust(tmp_path)
    assert [one.facts["clearance"]["level"] for one in sent] == ["familiar"]
    assert DEED not in str(sent)
    trusts = look(tmp_path / "state", "SELECT DISTINCT trust FROM events WHERE event_type = 'prompt_built' ORDER BY id")
    assert trusts == [(1,), (3,)]
    assert os.path.isdir(state)


def test_read_within_the_clearance(tmp_path):
    """A prompt that was made for a higher clearance is not read, even where an event below it names it."""
    state, _ = deliver_at_full_trust(tmp_path)
    with closing(sqlite3.connect(f"{state}/events.sqlite")) as connection, connection:
        connection.execute("UPDATE events SET trust = 1")
        (trace,) = connection.execute("SELECT trace_id FROM events WHERE event_type = 'prompt_built'").fetchone()
    for clearance, count in ((Trust.FAMILIAR, 1), (Trust.FULL, 2)):
        reader = Reader(user="bob", clearance=clearance)
        assert len(ask(state, lambda log, reader=reader: find_prompts(log, reader, trace))[0]) == count
