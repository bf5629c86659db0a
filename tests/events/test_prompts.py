"""Claims about sent prompts: shown again exactly, stored once, for whoever may see them, and forgotten on request."""

import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from night import CONFIG, LONG, USAGE, make_night, make_turn

from foreword.errors import InputError
from foreword.events.event import Context, EventType, Reader
from foreword.events.forgetting import Forgotten, blot, forget, forget_recorded
from foreword.events.log import EventLog
from foreword.events.prompts import Prompts, find_prompt_at, find_prompts, prune_prompts
from foreword.events.sent import identify
from foreword.events.trace import Trace
from foreword.store.open import open_events
from foreword.testing import NOON, Heard, Listeners, Reply, make_workspace
from foreword.tools import BUILT_IN
from foreword.words import Trust
from waiting import PATIENCE

OWNER = Reader(user="alice", clearance=Trust.FULL)
SECRET = "The safe behind the painting opens with the number nine four seven one, says Alice."
FILES = {**LONG, "NOTES.md": f"# Notes\n\n{SECRET}\n", "USER.md": "Alice likes rye bread.\n"}


@pytest.fixture
def kept(tmp_path):
    """Keep the prompts of turns, and tell that they were built."""
    state = str(tmp_path / "state")
    files = {"foreword.yaml": f"{CONFIG}prompt: {{files: [{{path: NOTES.md, trust: full}}]}}\n", **FILES}
    workspace = make_workspace(tmp_path / "home", files)
    prompts = Prompts(state)

    def keep(**changes):
        assembly = workspace.assemble(make_turn(tools=BUILT_IN, now=NOON, **changes))
        with EventLog(state) as log:
            turn = assembly.turn
            context = Context(trust=assembly.clearance.level, user=turn.user, room=turn.room)
            trace = Trace(log, context)
            trace.tell(EventType.PROMPT_BUILT, prompt_hash=prompts.keep(assembly))
        assert prompts.flush()
        return assembly, trace.id

    with closing(open_events(state).connection) as keep.connection:
        yield keep
    prompts.close()


def test_shown_again_exactly(kept):
    """What the model saw is shown again: the same text, blocks, marks, schemas, rows and table."""
    assembly, turn = kept()
    (sent,) = find_prompts(kept.connection, OWNER, turn)
    whole, again = assembly.to_dict(Trust.FULL), sent.to_dict()
    assert sent.text == assembly.prompt.text
    assert again["hash"] == identify(assembly)
    assert {name: again[name] for name in whole} == whole
    assert sent.explain() == assembly.explain(Trust.FULL)
    assert [tool["name"] for tool in sent.tools] == [tool.name for tool in assembly.terms.tools.tools]


def test_by_time(kept):
    """What the model saw at a moment is what was built last before it."""
    assembly, _ = kept()
    now = datetime.now(UTC)
    assert find_prompt_at(kept.connection, OWNER, now).hash == identify(assembly)
    assert find_prompt_at(kept.connection, OWNER, now - timedelta(hours=1)) is None


def test_by_time_leaves_out_what_is_private(kept):
    """The last prompt of a moment is the last one that the reader may see: another's private one is passed over."""
    assembly, _ = kept()
    kept(user="bob")
    assert find_prompt_at(kept.connection, OWNER, datetime.now(UTC)).hash == identify(assembly)


def test_stored_once(kept):
    """Each distinct text is stored once: a further turn adds its own sections alone."""
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
    """Two turns with one text that came about differently are two prompts."""
    first, second = kept()[0], kept(user="bob")[0]
    assert identify(first) != identify(second)


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
    """The prompt of a private turn is shown to its person, and that of a room also at full trust.

    Neither is shown below the clearance of its turn. The reader without a name is the program itself.
    """
    turns = {
        "alice": kept()[1],
        "bob": kept(user="bob")[1],
        "room": kept(user="bob", room="kitchen", situation="group")[1],
    }
    assert {name for name, turn in turns.items() if find_prompts(kept.connection, reader, turn)} == seen


def test_rows_above_the_reader(kept):
    """The table of a turn tells its own reader nothing of what was withheld, and the owner that it was."""
    _, turn = kept(user="bob", room="kitchen", situation="group")
    bob = Reader(user="bob", clearance=Trust.FAMILIAR)
    (mine,), (whole,) = find_prompts(kept.connection, bob, turn), find_prompts(kept.connection, OWNER, turn)
    assert all(row.trust <= Trust.FAMILIAR for row in mine.rows)
    assert "NOTES.md" not in mine.explain()
    assert "NOTES.md" in whole.explain()
    assert SECRET not in mine.text + str(whole.to_dict())


def test_forget(kept, tmp_path):
    """A forgotten text leaves every prompt and every byte of the file, and a word stands in its place."""
    _, turn = kept()
    assert SECRET in find_prompts(kept.connection, OWNER, turn)[0].text
    assert forget(kept.connection, Forgotten(path="private/x.md", text=SECRET)) == 1
    (sent,) = find_prompts(kept.connection, OWNER, turn)
    assert sent.forgotten
    assert "[forgotten]" in sent.text
    assert "painting" not in sent.text
    kept.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for name in os.listdir(tmp_path / "state"):
        assert b"behind the painting" not in (tmp_path / "state" / name).read_bytes(), name
    assert forget(kept.connection, Forgotten(path="private/x.md", text=SECRET)) == 0


def test_by_path_alone(kept):
    """Whoever is not the owner has the lines forgotten that name the path, and not one word beside them."""
    assembly, turn = kept(instructions="Mind this.\n- Bob likes rye. (social/inbox/bob/x.md, line 1)\nRye is good.")
    assert forget(kept.connection, Forgotten(path="social/inbox/bob/y.md")) == 0
    assert forget(kept.connection, Forgotten(path="social/inbox/bob/x.md")) == 1
    before, after = assembly.prompt.text, find_prompts(kept.connection, OWNER, turn)[0].text
    assert after == before.replace("- Bob likes rye. (social/inbox/bob/x.md, line 1)", "[forgotten]")


def test_other_prompts_stay(kept):
    """What is forgotten takes nothing else with it, and a text that is sent again afterwards is kept again."""
    first, turn = kept()
    forget(kept.connection, Forgotten(path="private/x.md", text=SECRET))
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
    """A text is found however it was wrapped, cut or quoted; a few words in common are chance."""
    words = SECRET.lower().replace(",", "").rstrip(".").split()
    assert blot(text, words) == after


def test_short_texts():
    """A text of a word or two goes only where it stands alone on its line."""
    assert blot("Yes, I do.\n- yes\nYes!", ["yes"]) == "Yes, I do.\n- [forgotten]\n[forgotten]"


@pytest.mark.parametrize("text", ["", "  ", "—!"])
def test_nothing_to_forget(kept, text):
    """A text without a word changes nothing."""
    kept()
    assert forget(kept.connection, Forgotten(path="private/x.md", text=text)) == 0


def test_prune(kept):
    """Old prompts go in steps, with the texts that no other prompt has; newer ones can still be shown."""
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
    """A turn that nobody knows has no prompt; what is no id at all is bad input."""
    kept()
    assert find_prompts(kept.connection, OWNER, "ab" * 16) == []
    with pytest.raises(InputError):
        find_prompts(kept.connection, OWNER, "' OR 1=1 --")


def test_a_locked_database(tmp_path):
    """While the database is locked a turn does not wait, and the prompt is written once it can be."""
    loop, _ = make_night(tmp_path / "home", Listeners(recorder=Heard()))
    state = str(tmp_path / "state")
    blocker = open_events(state).connection
    blocker.execute("BEGIN IMMEDIATE")
    prompts = Prompts(state)
    prompts.keep(loop._workspace.assemble(make_turn()))  # returns, though the lock is held until it has
    assert not prompts.flush(0.1)
    blocker.execute("ROLLBACK")
    assert prompts.flush(PATIENCE)
    assert count(blocker, "prompts") == 1
    prompts.close()
    blocker.close()


def test_many_threads(tmp_path):
    """Many threads keep prompts at once, and each distinct text is still stored once."""
    loop, _ = make_night(tmp_path / "home", Listeners(recorder=Heard()))
    prompts = Prompts(str(tmp_path / "state"))
    assemblies = [loop._workspace.assemble(make_turn(message=f"{'word ' * at}", now=NOON)) for at in range(20)]
    threads = [threading.Thread(target=lambda: [prompts.keep(one) for one in assemblies]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    prompts.close()
    assert prompts.lost == 0
    with closing(sqlite3.connect(tmp_path / "state" / "events.sqlite")) as connection:
        assert count(connection, "prompts") == 20
        assert connection.execute("SELECT count(*) = count(DISTINCT hash) FROM sections").fetchone() == (1,)


def test_forked(tmp_path):
    """A process that was forked keeps prompts of its own, with a thread of its own."""
    make_workspace(tmp_path / "home", {"foreword.yaml": CONFIG, **LONG})
    code = (
        "import os, sys, foreword\n"
        "from foreword.events.prompts import Prompts\n"
        "workspace, prompts = foreword.open(sys.argv[1]), Prompts(sys.argv[2])\n"
        "turn = lambda words: foreword.Turn(user='alice', situation='dm', message=words)\n"
        "keep = lambda words: prompts.keep(workspace.assemble(turn(words)))\n"
        "keep('parent')\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    keep('a child')\n"
        "    os._exit(not prompts.flush())\n"
        "assert os.waitpid(child, 0)[1] == 0 and prompts.flush()\n"
    )
    folders = [str(tmp_path / "home"), str(tmp_path / "state")]
    subprocess.run([sys.executable, "-c", code, *folders], timeout=120, check=True)
    with closing(sqlite3.connect(tmp_path / "state" / "events.sqlite")) as connection:
        assert count(connection, "prompts") == 2


def test_written_at_the_end(tmp_path):
    """What was kept is written when the interpreter ends."""
    make_workspace(tmp_path / "home", {"foreword.yaml": CONFIG, **LONG})
    code = (
        "import sys, foreword\n"
        "from foreword.events.prompts import Prompts\n"
        "assembly = foreword.open(sys.argv[1]).assemble(foreword.Turn(user='alice', situation='dm'))\n"
        "print(Prompts(sys.argv[2]).keep(assembly))\n"
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
        prompts = Prompts(state)
        loop, _ = make_night(tmp_path / "home", Listeners(recorder=log, prompts=prompts))
        trace = loop.receive(make_turn(), [Reply(text="", tools=("bash",)), Reply(text="Yes.", usage=USAGE)])
        prompts.close()
    with closing(open_events(state).connection) as connection:
        (sent,) = find_prompts(connection, OWNER, trace.id)
        asked = "SELECT count(*) FROM events WHERE event_type = 'api_call' AND prompt_hash = ?"
        assert connection.execute(asked, (sent.hash,)).fetchone() == (2,)


def test_the_tool_forgets_both(tmp_path):
    """To forget a memory removes its words from recorded prompts too, and says so; a log put aside is named."""
    workspace = make_workspace(tmp_path, {"foreword.yaml": CONFIG, **LONG})
    turn = make_turn(tools=BUILT_IN)
    assembly = workspace.assemble(turn)
    saved = workspace.call(assembly, "save_memory", {"text": SECRET}).text
    path = saved.removeprefix("Saved as ").rstrip(".")
    state = str(tmp_path / ".foreword")
    assert workspace.call(workspace.assemble(turn), "read_memory", {}).text.count(SECRET) == 1
    prompts = Prompts(state)
    prompts.keep(workspace.assemble(make_turn(instructions=f"Remember: {SECRET}")))
    prompts.close()
    (tmp_path / ".foreword" / "events.sqlite.damaged-20261116T000000Z").touch()
    said = workspace.call(assembly, "forget_memory", {"path": path}).text
    assert said == (
        f"Forgotten: {path}. Recorded prompts no longer show it."
        " A damaged log that was put aside may still hold it: events.sqlite.damaged-20261116T000000Z."
    )
    with closing(sqlite3.connect(f"{state}/events.sqlite")) as connection:
        assert connection.execute("SELECT count(*) FROM sections WHERE text LIKE '%painting%'").fetchone() == (0,)


def test_no_log_to_forget_in(tmp_path):
    """Where nothing was ever recorded, to forget makes no log."""
    assert forget_recorded(str(tmp_path / "none"), Forgotten(path="private/x.md", text=SECRET)) == ""
    assert forget_recorded(str(tmp_path), Forgotten(path="private/x.md", text=SECRET)) == ""
    assert os.listdir(tmp_path) == []
