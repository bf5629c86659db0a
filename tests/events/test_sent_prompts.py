"""Sent prompts: reproduced exactly, stored once, shown to permitted readers, and erased on request."""

import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from foreword.agent.tools.registry import BUILT_IN
from foreword.errors import InputError
from foreword.events.event import Context, EventType, Reader
from foreword.events.log import EventLog, prune_prompts
from foreword.events.redaction import ForgottenMemory, make_redactor, remove_memory, remove_recorded_memory
from foreword.events.sent_prompts import PromptStore, find_prompt_at, find_prompts, hash_prompt
from foreword.events.tracer import Tracer
from foreword.storage.database import open_events
from foreword.testing import NOON, EventStream, FakeRecorder, make_workspace
from foreword.types import Trust
from night import CONFIG, LONG, USAGE, Reply, make_night, make_turn
from waiting import PATIENCE

OWNER = Reader(user="alice", clearance=Trust.FULL)
SECRET = "The safe behind the painting opens with the number nine four seven one, says Alice."
FILES = {**LONG, "NOTES.md": f"# Notes\n\n{SECRET}\n", "USER.md": "Alice likes rye bread.\n"}


@pytest.fixture
def kept(tmp_path):
    """Store the prompts of turns and record that they were built."""
    state = str(tmp_path / "state")
    files = {"foreword.yaml": f"{CONFIG}prompt: {{files: [{{path: NOTES.md, trust: full}}]}}\n", **FILES}
    workspace = make_workspace(tmp_path / "home", files)
    log = EventLog(state)

    def keep(**changes):
        assembly = workspace.assemble(make_turn(tools=BUILT_IN, now=NOON, **changes))
        turn = assembly.turn
        context = Context(trust=assembly.clearance.level, user=turn.user, room=turn.room)
        trace = Tracer(log, context)
        trace.emit(EventType.PROMPT_BUILT, prompt_hash=PromptStore(log).keep(assembly))
        assert log.flush()
        return assembly, trace.id

    with closing(open_events(state).connection) as keep.connection:
        yield keep
    log.close()


def test_shown_again_exactly(kept):
    """A stored prompt has the same text, blocks, cache breakpoints, schemas, rows and table."""
    assembly, turn = kept()
    (sent,) = find_prompts(kept.connection, OWNER, turn)
    whole, again = assembly.to_dict(Trust.FULL), sent.to_dict()
    assert sent.text == assembly.prompt.text
    assert again["hash"] == hash_prompt(assembly)
    assert {name: again[name] for name in whole} == whole
    assert sent.explain() == assembly.explain(Trust.FULL)
    assert [tool["name"] for tool in sent.tools] == [tool.name for tool in assembly.tools.tools]


def test_by_time(kept):
    """The prompt at a time is the last one built before it."""
    assembly, _ = kept()
    now = datetime.now(UTC)
    assert find_prompt_at(kept.connection, OWNER, now).hash == hash_prompt(assembly)
    assert find_prompt_at(kept.connection, OWNER, now - timedelta(hours=1)) is None


def test_by_time_leaves_out_what_is_private(kept):
    """The prompt at a time is the last one that the reader may see; private prompts of others are skipped."""
    assembly, _ = kept()
    kept(user="bob")
    assert find_prompt_at(kept.connection, OWNER, datetime.now(UTC)).hash == hash_prompt(assembly)


def test_stored_once(kept):
    """Each distinct text is stored once: a later turn adds only its new sections."""
    kept()
    before = count(kept.connection, "sections")
    kept(message="And now?")
    assert count(kept.connection, "prompts") == 2
    assert count(kept.connection, "sections") - before <= 2
    kept(message="And now?")
    assert count(kept.connection, "prompts") == 2


def count(connection, table):
    return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


def test_another_verdict_is_another_prompt(kept):
    """Two turns with the same text but different verdicts are two prompts."""
    first, second = kept()[0], kept(user="bob")[0]
    assert hash_prompt(first) != hash_prompt(second)


@pytest.mark.parametrize(
    ("reader", "seen"),
    [
        (OWNER, {"alice", "room"}),
        (Reader(user="carol", clearance=Trust.FULL), {"room"}),
        (Reader(user="", clearance=Trust.FULL), {"alice", "bob", "room"}),
        (Reader(user="alice", clearance=Trust.INNER), set()),
        (Reader(user="bob", clearance=Trust.FAMILIAR), {"bob", "room"}),
        (Reader(user="bob", clearance=Trust.PUBLIC), set()),
        (Reader(user="bob", clearance=Trust.FAMILIAR, room="kitchen"), {"room"}),
        (Reader(user="carol", clearance=Trust.INNER), set()),
        (Reader(user="", clearance=Trust.FAMILIAR), set()),
    ],
)
def test_readers(kept, reader, seen):
    """A private turn's prompt is shown to its user, and a room's prompt also at full trust.

    Neither is shown below the clearance of its turn. The reader without a name is the program itself.
    """
    turns = {
        "alice": kept()[1],
        "bob": kept(user="bob")[1],
        "room": kept(user="bob", room="kitchen", situation="group")[1],
    }
    assert {name for name, turn in turns.items() if find_prompts(kept.connection, reader, turn)} == seen


def test_rows_above_the_reader(kept):
    """The table of a turn shows withheld slots to the owner only."""
    _, turn = kept(user="bob", room="kitchen", situation="group")
    bob = Reader(user="bob", clearance=Trust.FAMILIAR)
    (mine,), (whole,) = find_prompts(kept.connection, bob, turn), find_prompts(kept.connection, OWNER, turn)
    assert all(row.trust <= Trust.FAMILIAR for row in mine.rows)
    assert "NOTES.md" not in mine.explain()
    assert "NOTES.md" in whole.explain()
    assert SECRET not in mine.text + str(whole.to_dict())


def test_forget(kept, tmp_path):
    """An erased text is removed from every prompt and every byte of the file, and a placeholder replaces it."""
    _, turn = kept()
    assert SECRET in find_prompts(kept.connection, OWNER, turn)[0].text
    assert remove_memory(kept.connection, ForgottenMemory(path="private/x.md", text=SECRET)) == 1
    (sent,) = find_prompts(kept.connection, OWNER, turn)
    assert sent.forgotten
    assert "[forgotten]" in sent.text
    assert "painting" not in sent.text
    kept.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for name in os.listdir(tmp_path / "state"):
        assert b"behind the painting" not in (tmp_path / "state" / name).read_bytes(), name
    assert remove_memory(kept.connection, ForgottenMemory(path="private/x.md", text=SECRET)) == 0


def test_by_path_alone(kept):
    """A user other than the owner can erase the lines that name the path, and no other text."""
    assembly, turn = kept(instructions="Mind this.\n- Bob likes rye. (social/inbox/bob/x.md, line 1)\nRye is good.")
    assert remove_memory(kept.connection, ForgottenMemory(path="social/inbox/bob/y.md")) == 0
    assert remove_memory(kept.connection, ForgottenMemory(path="social/inbox/bob/x.md")) == 1
    before, after = assembly.prompt.text, find_prompts(kept.connection, OWNER, turn)[0].text
    assert after == before.replace("- Bob likes rye. (social/inbox/bob/x.md, line 1)", "[forgotten]")


def test_other_prompts_stay(kept):
    """Erasing removes nothing else, and a text that is sent again afterwards is stored again."""
    first, turn = kept()
    remove_memory(kept.connection, ForgottenMemory(path="private/x.md", text=SECRET))
    (sent,) = find_prompts(kept.connection, OWNER, turn)
    assert sent.text.replace("[forgotten]", SECRET.rstrip(".")) == first.prompt.text
    _, again = kept(message="Once more?")
    assert SECRET in find_prompts(kept.connection, OWNER, again)[0].text


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("Alice said: the safe behind the\n  painting opens with the number nine four!", "Alice said: [forgotten]!"),
        ("> … painting opens with the number nine four seven one, says…", "> … [forgotten]…"),
        ("The safe is behind the painting.", "The safe is behind the painting."),
        ("", ""),
    ],
)
def test_blotted(text, after):
    """A text is found even if wrapped, cut or quoted; a few common words are no match."""
    assert make_redactor(ForgottenMemory(path="private/x.md", text=SECRET))(text) == after


def test_short_texts():
    """A text of one or two words is erased only if it is alone on its line."""
    redactor = make_redactor(ForgottenMemory(path="private/x.md", text="Yes"))
    assert redactor("Yes, I do.\n- yes\nYes!") == "Yes, I do.\n- [forgotten]\n[forgotten]"


@pytest.mark.parametrize("text", ["", "  ", "—!"])
def test_nothing_to_forget(kept, text):
    """A text without a word erases nothing."""
    kept()
    assert remove_memory(kept.connection, ForgottenMemory(path="private/x.md", text=text)) == 0


def test_prune(kept):
    """Old prompts are pruned in steps, with the texts that no other prompt uses; newer prompts remain readable."""
    _, turn = kept()
    kept.connection.execute("UPDATE prompts SET last_used = '2020-01-01T00:00:00.000000Z'")
    assembly, newer = kept(message="And now?")
    assert prune_prompts(kept.connection, datetime(2021, 1, 1, tzinfo=UTC)) == 1
    assert prune_prompts(kept.connection, datetime(2021, 1, 1, tzinfo=UTC)) == 0
    assert find_prompts(kept.connection, OWNER, turn) == []
    assert find_prompts(kept.connection, OWNER, newer)[0].text == assembly.prompt.text
    orphans = "SELECT count(*) FROM sections WHERE id NOT IN (SELECT section_id FROM prompt_pieces)"
    assert kept.connection.execute(orphans).fetchone() == (0,)


def test_an_unknown_turn(kept):
    """An unknown turn has no prompt; an invalid id is bad input."""
    kept()
    assert find_prompts(kept.connection, OWNER, "ab" * 16) == []
    with pytest.raises(InputError):
        find_prompts(kept.connection, OWNER, "' OR 1=1 --")


def test_a_locked_database(tmp_path):
    """A locked database does not delay the turn, and the prompt is written afterwards."""
    night = make_night(tmp_path / "home", EventStream(recorder=FakeRecorder()))
    state = str(tmp_path / "state")
    blocker = open_events(state).connection
    blocker.execute("BEGIN IMMEDIATE")
    log = EventLog(state)
    PromptStore(log).keep(night.workspace.assemble(make_turn()))  # returns, though the lock is held until it has
    assert not log.flush(0.1)
    blocker.execute("ROLLBACK")
    assert log.flush(PATIENCE)
    assert count(blocker, "prompts") == 1
    log.close()
    blocker.close()


def test_many_threads(tmp_path):
    """Many threads store prompts at once, and each distinct text is still stored once."""
    night = make_night(tmp_path / "home", EventStream(recorder=FakeRecorder()))
    log = EventLog(str(tmp_path / "state"))
    prompts = PromptStore(log)
    assemblies = [night.workspace.assemble(make_turn(message=f"{'word ' * at}", now=NOON)) for at in range(20)]
    threads = [threading.Thread(target=lambda: [prompts.keep(one) for one in assemblies]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()
    assert log.lost == 0
    with closing(sqlite3.connect(tmp_path / "state" / "events.sqlite")) as connection:
        assert count(connection, "prompts") == 20
        assert connection.execute("SELECT count(*) = count(DISTINCT hash) FROM sections").fetchone() == (1,)


def test_written_at_the_end(tmp_path):
    """Queued prompts are written when the interpreter exits."""
    make_workspace(tmp_path / "home", {"foreword.yaml": CONFIG, **LONG})
    code = (
        "import sys, foreword\n"
        "from foreword.events.log import EventLog\n"
        "from foreword.events.sent_prompts import PromptStore\n"
        "assembly = foreword.open(sys.argv[1]).assemble(foreword.Turn(user='alice', situation='dm'))\n"
        "print(PromptStore(EventLog(sys.argv[2])).keep(assembly))\n"
    )
    folders = [str(tmp_path / "home"), str(tmp_path / "state")]
    done = subprocess.run(
        [sys.executable, "-c", code, *folders], capture_output=True, text=True, timeout=120, check=True
    )
    with closing(sqlite3.connect(tmp_path / "state" / "events.sqlite")) as connection:
        assert connection.execute("SELECT hash FROM prompts").fetchall() == [(done.stdout.strip(),)]


def test_a_loop_keeps_its_prompts(tmp_path):
    """Every call of a scripted turn names the prompt that it sent."""
    state = str(tmp_path / "state")
    with EventLog(state) as log:
        night = make_night(tmp_path / "home", EventStream(recorder=log, prompts=PromptStore(log)))
        trace = night.say(make_turn(), Reply(tools=("bash",)), Reply(text="Yes.", usage=USAGE))
    with closing(open_events(state).connection) as connection:
        (sent,) = find_prompts(connection, OWNER, trace.id)
        asked = "SELECT count(*) FROM events WHERE event_type = 'api_call' AND prompt_hash = ?"
        assert connection.execute(asked, (sent.hash,)).fetchone() == (2,)


def test_the_tool_forgets_both(tmp_path):
    """Erasing a memory also removes its text from stored prompts and reports it, including logs moved aside."""
    workspace = make_workspace(tmp_path, {"foreword.yaml": CONFIG, **LONG})
    turn = make_turn(tools=BUILT_IN)
    assembly = workspace.assemble(turn)
    saved = workspace.call(assembly, "save_memory", {"text": SECRET}).text
    path = saved.removeprefix("Saved as ").rstrip(".")
    state = str(tmp_path / ".foreword")
    assert workspace.call(workspace.assemble(turn), "read_memory", {}).text.count(SECRET) == 1
    with EventLog(state) as log:
        PromptStore(log).keep(workspace.assemble(make_turn(instructions=f"Remember: {SECRET}")))
    (tmp_path / ".foreword" / "events.sqlite.damaged-20261116T000000Z").touch()
    said = workspace.call(assembly, "forget_memory", {"path": path}).text
    assert said == (
        f"Forgotten: {path}. Recorded prompts no longer show it."
        " A damaged log that was put aside may still hold it: events.sqlite.damaged-20261116T000000Z."
    )
    with closing(sqlite3.connect(f"{state}/events.sqlite")) as connection:
        assert connection.execute("SELECT count(*) FROM sections WHERE text LIKE '%painting%'").fetchone() == (0,)


def test_no_log_to_forget_in(tmp_path):
    """Erasing does not create a log if none exists."""
    assert remove_recorded_memory(str(tmp_path / "none"), ForgottenMemory(path="private/x.md", text=SECRET)) == ""
    assert remove_recorded_memory(str(tmp_path), ForgottenMemory(path="private/x.md", text=SECRET)) == ""
    assert os.listdir(tmp_path) == []
