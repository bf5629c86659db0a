"""Prompts that cannot be stored: no other prompt is lost, and the log records it."""

import os
import sqlite3
from contextlib import closing
from datetime import datetime

import pytest

from foreword.events.event import Reader
from foreword.events.log import EventLog
from foreword.events.query import query_log
from foreword.events.sent_prompts import PromptStore, SentPrompt, find_prompts
from foreword.testing import NOON, EventStream, make_workspace
from foreword.types import Trust
from night import BUSY, CONFIG, LONG, USAGE, Reply, make_night, make_turn

DEED = "The deed is in the attic."


@pytest.fixture
def workspace(tmp_path):
    """A small workspace."""
    return make_workspace(tmp_path / "home", {"foreword.yaml": CONFIG, **LONG})


def look(folder, query):
    """Query the database file directly."""
    with closing(sqlite3.connect(folder / "events.sqlite")) as connection:
        return connection.execute(query).fetchall()


def test_a_strange_name(workspace, tmp_path):
    """A prompt with a name that is not valid UTF-8 is stored, and so is the next one."""
    with EventLog(str(tmp_path)) as log:
        for user in ("x\ud800", "alice"):
            PromptStore(log).keep(workspace.assemble(make_turn(user=user)))
        assert log.flush()
    assert log.lost == 0
    assert look(tmp_path, "SELECT count(*) FROM prompts") == [(2,)]


def test_one_that_cannot_be_written(workspace, tmp_path):
    """Only the unwritable prompt is lost, and a row for full trust records it."""
    moments = iter([NOON, "no moment", NOON])
    with EventLog(str(tmp_path)) as log:
        prompts = PromptStore(log, lambda: next(moments))
        for words in ("one", "two", "three"):
            prompts.keep(workspace.assemble(make_turn(message=words * 50)))
    assert log.lost == 1
    assert look(tmp_path, "SELECT count(*) FROM prompts") == [(2,)]
    ((trust, level, error),) = look(tmp_path, "SELECT trust, level, error FROM events WHERE event_type = 'events_lost'")
    assert (trust, level) == (3, "warn")
    assert error.startswith("1 prompt was lost: AttributeError in a prompt: ")


def test_a_file_that_was_replaced(workspace, tmp_path):
    """A prompt that was stored in the old file is stored again in its replacement."""
    log = EventLog(str(tmp_path / "state"))
    prompts = PromptStore(log)
    assembly = workspace.assemble(make_turn())
    prompts.keep(assembly)
    assert log.flush()
    for name in os.listdir(tmp_path / "state"):
        os.remove(tmp_path / "state" / name)
    prompts.keep(assembly)
    assert log.flush()
    log.close()
    assert look(tmp_path / "state", "SELECT count(*) FROM prompts") == [(1,)]


def test_last_used(workspace, tmp_path):
    """The last day on which a prompt was used is stored, regardless of who stored it first."""
    moments = [datetime(2026, 11, day, hour, tzinfo=NOON.tzinfo) for day, hour in ((16, 9), (16, 11), (18, 8), (17, 8))]
    assembly = workspace.assemble(make_turn(now=NOON))
    for moment in moments:
        with EventLog(str(tmp_path)) as log:
            PromptStore(log, lambda moment=moment: moment).keep(assembly)
    assert look(tmp_path, "SELECT substr(first_used, 1, 10), substr(last_used, 1, 13) FROM prompts") == [
        ("2026-11-16", "2026-11-18T08")
    ]


def deliver_at_full_trust(tmp_path) -> tuple[str, list[SentPrompt]]:
    """Queue a message of bob's, raise him to full trust, deliver it; return what he reads at the old trust."""
    config = f"{CONFIG}prompt: {{files: [{{path: NOTES.md, trust: full}}]}}\n"
    state = str(tmp_path / "state")
    with EventLog(state) as log:
        listeners = EventStream(recorder=log, prompts=PromptStore(log))
        night = make_night(tmp_path / "home", listeners, config, {"NOTES.md": f"{DEED}\n"})
        trace = night.say(make_turn(user="bob", session="b"), *[BUSY] * 4)
        files = {"foreword.yaml": config.replace("bob: {trust: familiar}", "bob: {trust: full}")}
        night.workspace = make_workspace(tmp_path / "later", {**files, "NOTES.md": f"{DEED}\n"})
        night.clock.move(60)
        night.deliver_by(Reply(text="Yes.", usage=USAGE))
    bob = Reader(user="bob", clearance=Trust.FAMILIAR)
    return state, query_log(state, lambda log: find_prompts(log, bob, trace.id))[0]


def test_delivered_at_another_clearance(tmp_path):
    """A later delivery is recorded at the clearance of its prompt, and no reader below it sees that prompt."""
    state, sent = deliver_at_full_trust(tmp_path)
    assert [one.facts["clearance"]["level"] for one in sent] == ["familiar"]
    assert DEED not in str(sent)
    trusts = look(tmp_path / "state", "SELECT DISTINCT trust FROM events WHERE event_type = 'prompt_built' ORDER BY id")
    assert trusts == [(1,), (3,)]
    assert os.path.isdir(state)


def test_read_within_the_clearance(tmp_path):
    """A prompt built for a higher clearance is not readable, even through an event below it."""
    state, _ = deliver_at_full_trust(tmp_path)
    with closing(sqlite3.connect(f"{state}/events.sqlite")) as connection, connection:
        connection.execute("UPDATE events SET trust = 1")
        (trace,) = connection.execute("SELECT trace_id FROM events WHERE event_type = 'prompt_built'").fetchone()
    for clearance, count in ((Trust.FAMILIAR, 1), (Trust.FULL, 2)):
        reader = Reader(user="bob", clearance=clearance)
        assert len(query_log(state, lambda log, reader=reader: find_prompts(log, reader, trace))[0]) == count
