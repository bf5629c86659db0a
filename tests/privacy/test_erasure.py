"""Erasure of a person."""

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from people import CONFIG, dump_rows, find_token, make_people, read_all, sentence

from foreword.agent.conversation import (
    Answer,
    CallPart,
    ResultPart,
    ToolResults,
    dump_messages,
    load_messages,
    make_answer,
    make_user_message,
)
from foreword.engine.trust import Audience, Provenance
from foreword.errors import InputError, UnknownName
from foreword.events.redaction import FORGOTTEN_MARKER
from foreword.memory.entry import Confirmed
from foreword.memory.notes import add_fact, edit_file
from foreword.privacy.erasure import DATA_LOCATIONS, preview_erasure
from foreword.privacy.erasure import erase_person as forget_patiently
from foreword.storage.database import format_moment
from foreword.storage.history import HistoryKind, HistoryPiece, append_piece
from foreword.testing import make_workspace, write_files
from foreword.turn import Turn
from foreword.types import Trust

# Tables whose rows are rewritten without the person, and how many leading columns identify a row. A prefix has no
# stable key: its name is the hash of its content.
RETOLD = {"history": 2, "ledgers": 1, "bases": 0}
ALWAYS_THERE = {".foreword/state.sqlite-wal", ".foreword/memory.sqlite-wal", ".foreword/events.sqlite-wal"}


def erase(house, user):
    """Forget a user without a concurrent process."""
    return forget_patiently(house, user, 1.0)


@pytest.fixture
def people(tmp_path):
    """A workspace with the owner and two users, whose state database is open."""
    made = make_people(tmp_path / "ws", {"bob": "zebrabob", "carol": "zebracarol"})
    yield made
    made.close()


def test_no_byte_is_left(people):
    """No file contains a token of the forgotten user; all tokens of others remain."""
    before = {token: find_token(people.folder, token) for token in ("zebracarol", "OWNERTOKEN")}
    assert len(find_token(people.folder, "zebrabob")) > 4
    report = erase(people.house, "bob")
    assert report.done
    assert find_token(people.folder, "zebrabob") == []
    for token, places in before.items():
        assert set(places) - set(find_token(people.folder, token)) <= ALWAYS_THERE


def test_own_memory_goes_with_its_name(people):
    """The memory index drops the store of the forgotten user; other users still find their private memory."""
    index = os.path.join(people.folder, ".foreword", "memory.sqlite")

    def list_own():
        with closing(sqlite3.connect(index)) as base:
            return [name for (name,) in base.execute("SELECT name FROM stores WHERE name LIKE 'users/%'")]

    assert {name.split("/")[1] for name in list_own()} == {"bob", "carol"}
    assert erase(people.house, "bob").done
    assert {name.split("/")[1] for name in list_own()} == {"carol"}
    with open(index, "rb") as file:
        raw = file.read()
    assert b"users/bob/".hex().encode() not in raw
    memory = people.workspace.memory
    bob, carol = (Audience(clearance=Trust.FAMILIAR, person=name) for name in ("bob", "carol"))
    assert memory.search("zebracarol33 wish", carol, store="own")
    assert memory.search("zebrabob33 wish", bob, store="own") == []
    assert memory.notice == ""


def test_own_memory_of_another_that_quotes_them(people):
    """An entry in another user's private memory loses the quotation; that user's handwritten file is unchanged."""
    quote = sentence("zebrabob1")
    entry = people.keep_own("carol", f"Bob said: {quote}, and carol noted it.")
    write_files(people.folder, {"users/carol/memory/hand.md": f"Bob said: {quote}.\n"})
    report = erase(people.house, "bob")
    assert report.done
    text = Path(people.folder, "users/carol/memory", entry.removeprefix("own/")).read_text()
    assert FORGOTTEN_MARKER in text
    assert "carol noted it" in text
    assert "the private memory of carol quotes them; ask carol to edit it" in report.stays
    assert not any("hand.md" in one for one in report.stays)


def test_bytes_of_earlier_removals_go_too(people):
    """Data that was overwritten or deleted earlier and remained in a free page is erased as well."""
    people.do(lambda state: state.execute("UPDATE profiles SET learned = '{}' WHERE user_id = 'bob'"))
    people.do(lambda state: state.execute("DELETE FROM workflows"))
    erase(people.house, "bob")
    assert find_token(people.folder, "zebrabob") == []


def test_rows_of_others_stay_byte_for_byte(people):
    """Rows of other users are unchanged, and no rows are added except those rewritten without the user."""
    before = dump_rows(people.folder)
    erase(people.house, "bob")
    after = dump_rows(people.folder)
    own_sessions = {row[0] for row in before["sessions"] if row[5] == "bob"}
    gone = {turn[1] for turn in before["turns"] if turn[3] == "bob"}
    # A ledger refers to a person through its prefix, which is a separate row, or through the hash of their words.
    bases = {row[0] for row in before["bases"] if "bob" in repr(row)}
    spoke = {turn[2] for turn in before["turns"] if turn[3] == "bob"}
    emptied = {row[0] for row in before["ledgers"] if row[1] in bases or row[0] in spoke or "bob" in repr(row)}
    # A prefix that no other ledger uses is deleted.
    alone = {row[1] for row in before["ledgers"] if row[0] in own_sessions | emptied}
    others = {"ledgers": emptied, "bases": alone - {row[1] for row in after["ledgers"]}}

    def is_theirs(table, row):
        return "bob" in repr(row) or bool((own_sessions | gone) & set(row)) or row[0] in others.get(table, ())

    for table, rows in before.items():
        kept = [row for row in rows if not is_theirs(table, row)]
        assert [row for row in kept if row not in after[table]] == [], table
        width = RETOLD.get(table)
        touched = set() if width is None else {row[:width] for row in rows if is_theirs(table, row)}
        assert [row for row in after[table] if row not in rows and row[:width] not in touched] == [], table


def test_a_look_changes_nothing(people):
    """A preview counts all data and changes no row."""
    rows = dump_rows(people.folder)
    report = preview_erasure(people.house, "bob")
    found = {line.name: line.found for line in report.lines}
    assert (found["turns"], found["sessions"], found["memories"], found["own files"]) == (2, 1, 3, 1)
    assert found["events"] > 8
    assert not report.done
    assert dump_rows(people.folder) == rows


def test_the_report_has_no_words(people):
    """The report contains counts and places, but no text of the user."""
    report = erase(people.house, "bob")
    assert "zebra" not in repr(report)
    assert all(line.removed == line.found for line in report.lines)


def test_a_second_time_there_is_nothing(people):
    """A second erasure finds nothing; the user is still in the configuration."""
    erase(people.house, "bob")
    again = erase(people.house, "bob")
    assert again.done
    assert again.found == 0


def test_a_summary_of_a_room_goes_and_what_others_said_stands_again(people):
    """A summary that includes the user's words is deleted, and the messages of others that it replaced are restored."""
    place = {"room": "kitchen", "situation": "group", "channel": "telegram"}
    room = people.talk("dave", "Good morning from davetoken", "Morning.", **place)
    people.sum_up(room, "They keep a zebrabob3 somewhere.")
    erase(people.house, "bob")
    with closing(sqlite3.connect(os.path.join(people.state, "state.sqlite"))) as state:
        rows = state.execute(
            "SELECT kind, folded, messages FROM history WHERE session_id = ? ORDER BY position", (room.id,)
        ).fetchall()
    assert [kind for kind, _, _ in rows if kind == "summary"] == []
    assert {folded for _, folded, _ in rows} == {0}
    assert any(b"davetoken" in messages for _, _, messages in rows)
    assert find_token(people.folder, "zebrabob") == []


def test_a_summary_from_before_they_spoke_stays(tmp_path):
    """A summary of messages from before the user joined is unchanged, and so is the history it replaced."""
    people = make_people(tmp_path / "ws", {"carol": "zebracarol"})
    place = {"room": "kitchen", "situation": "group", "channel": "telegram"}
    room = people.talk("dave", "Good morning", "Morning.", **place)
    people.sum_up(room, "dave and carol said hello: summarytoken")
    people.talk("bob", sentence("zebrabob"), "Noted.", **place)
    erase(people.house, "bob")
    assert find_token(people.folder, "summarytoken")
    assert find_token(people.folder, "zebrabob") == []
    with closing(sqlite3.connect(os.path.join(people.state, "state.sqlite"))) as state:
        asked = "SELECT kind, folded FROM history WHERE session_id = ? ORDER BY kind"
        found = set(state.execute(asked, (room.id,)).fetchall())
    people.close()
    assert found - {("room", 1)} == {("summary", 0), ("turn", 1)}


def test_other_session_keys_forget_what_they_were_told(people):
    """A session of another clearance that shares the room loses the user's lines and nothing else."""
    place = {"room": "kitchen", "situation": "group", "channel": "telegram"}
    people.talk("nobodyknown", "Hello from strangertoken", "Hello.", **place)
    erase(people.house, "bob")
    assert find_token(people.folder, "zebrabob") == []
    assert find_token(people.folder, "strangertoken")


def test_an_agent_that_quotes_them_is_blotted(people):
    """A quotation in an agent's reply to another user is replaced by a marker; the rest of the reply is unchanged."""
    quotes = "texts of agents that quote them"
    before = {line.name: line.found for line in preview_erasure(people.house, "bob").lines}[quotes]
    people.talk("carol", "What did he say?", f"He said: {sentence('zebrabob1')}. And owltoken.")
    report = erase(people.house, "bob")
    assert {line.name: line.removed for line in report.lines}[quotes] == before + 2
    assert find_token(people.folder, "zebrabob") == []
    assert find_token(people.folder, "owltoken")
    assert b"He said: [forgotten]. And owltoken." in b"".join(read_all(people.folder).values())


def test_what_another_person_wrote_is_theirs(people):
    """A message of another user is unchanged, even if it repeats the words of the forgotten user."""
    people.talk("carol", f"Listen: {sentence('zebrabob1')}", "I see.")
    before = dump_rows(people.folder)
    erase(people.house, "bob")
    (turn,) = [row for row in before["turns"] if row[5].startswith("Listen")]
    assert turn in dump_rows(people.folder)["turns"]


def test_overheard_words_that_a_room_was_told_of(people):
    """Overheard lines that were added to a turn of the room lose the lines of the forgotten user."""
    place = {"room": "kitchen", "situation": "group", "channel": "telegram"}
    heard = [("carol", "carolsline\nand more"), ("bob", "zebrabob77\nzebrabob78"), ("dave", "last")]
    for user, text in heard:
        row = (None, "telegram", "kitchen", user, user, text, format_moment(people.clock()), None)
        people.clock.move(1)
        people.do(lambda state, row=row: state.execute("INSERT INTO overheard VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row))
    people.talk("dave", "Hi", "Hi.", **place)
    people.do(lambda state: state.execute("DELETE FROM overheard"))  # overheard lines expire after a day
    assert b"bob: zebrabob77" in b"".join(read_all(people.folder).values())
    erase(people.house, "bob")
    reported = [json.loads(row[4]) for row in dump_rows(people.folder)["history"] if b"carolsline" in row[4]]
    assert reported
    assert all("carol: carolsline\n  and more\ndave: last" in str(one[0]["parts"][0]["text"]) for one in reported)
    assert find_token(people.folder, "zebrabob") == []


def test_bulletins_are_made_anew(people):
    """Bulletins are deleted, because they are composed from the memories of all users."""
    row = ("reid", 1, "All that is new: zebrabob5", "rule", "2026-11-15")
    order = "INSERT INTO bulletins (agent, clearance, text, author, made) VALUES (?, ?, ?, ?, ?)"
    people.do(lambda state: state.execute(order, row))
    erase(people.house, "bob")
    assert dump_rows(people.folder)["bulletins"] == []


def test_a_memory_that_was_promoted(people):
    """A promoted memory records its author and is deleted, both as a file and as a confirmed fact."""
    origin = Provenance(author="bob", clearance="familiar", channel="web", time="2026-11-15T12:00:00+00:00")
    for fact in (
        Confirmed(text="Likes zebrabob80 very much.", origin=origin, by="alice"),
        Confirmed(text="Carol is here: owltoken.", origin=Provenance(author="carol"), by=""),
    ):
        edit_file(people.folder, "memories.json", lambda text, fact=fact: add_fact(text, fact))
    path = people.remember("bob", "zebrabob81 is the name of the cat")
    people.workspace.memory.promote(path, "social/cat.md", Audience(clearance=Trust.FULL), "alice")
    people.workspace.memory.search("cat name", Audience(clearance=Trust.FULL))
    erase(people.house, "bob")
    assert find_token(people.folder, "zebrabob") == []
    assert find_token(people.folder, "owltoken")
    assert not os.path.exists(os.path.join(people.folder, "memory/social/cat.md"))


def test_words_inside_a_tool_call(people):
    """Words that another person's agent passed to a tool, or got from one, are redacted inside their JSON."""
    words = "zebrabob90 keeps the blue key under the old stone"
    people.talk("bob", words)
    people.talk("carol", "owltoken is here")
    quoted = json.dumps({"text": f"He said:\n{words}", "at": "noon"})
    call = CallPart(id="c1", name="note", arguments=quoted)
    messages = dump_messages(
        [
            make_user_message("Note it."),
            Answer(parts=(call,)),
            ToolResults(parts=(ResultPart(id="c1", name="note", text=quoted),)),
            make_answer("Noted."),
        ]
    )

    def keep(state):
        (session,) = state.execute("SELECT id FROM sessions WHERE user_id = 'carol'").fetchone()
        append_piece(state, session, HistoryPiece(kind=HistoryKind.TURN, messages=messages, tokens=9))

    people.do(keep)
    erase(people.house, "bob")
    assert find_token(people.folder, "zebrabob") == []
    (row,) = [row[4] for row in dump_rows(people.folder)["history"] if b'"note"' in row[4]]
    _, asked, results, _ = load_messages(row)
    assert asked.calls[0].read_arguments()["at"] == json.loads(results.parts[0].text)["at"] == "noon"


def test_a_damaged_row_does_not_stop_an_erasure(people):
    """A history row that cannot be read as messages is redacted as text."""
    words = "zebrabob91 keeps the blue key under the old stone"
    people.talk("bob", words)
    people.talk("carol", "owltoken is here")
    for damaged in (f'[{{"role": "user", "parts": [{{"text": "{words}"}}]}}]', f"no JSON: {words}"):
        people.do(
            lambda state, damaged=damaged: state.execute(
                "UPDATE history SET messages = ? WHERE session_id IN (SELECT id FROM sessions WHERE user_id = 'carol')",
                (damaged.encode(),),
            )
        )
        erase(people.house, "bob")
        assert find_token(people.folder, "zebrabob") == []
        people.talk("bob", words)


def test_facts_behind_a_link(people):
    """Facts in a file that `memories.json` links to are deleted there, and the link stays."""
    fact = Confirmed(text="Likes zebrabob80 very much.", origin=Provenance(author="bob"), by="alice")
    edit_file(people.folder, "memories.json", lambda text: add_fact(text, fact))
    place, target = Path(people.folder, "memories.json"), Path(people.folder, "kept.json")
    place.rename(target)
    place.symlink_to(target)
    erase(people.house, "bob")
    assert "zebrabob" not in target.read_text()
    assert place.is_symlink()


def test_a_memory_that_was_added_to_a_note(people):
    """A text promoted into a note is deleted with its record; the rest of the note is unchanged."""
    place = os.path.join(people.folder, "memory/social/NOTE.md")
    write_files(people.folder, {"memory/social/NOTE.md": "# House\n\nThe owltoken is here.\n\n# Cats\n\nMany.\n"})
    before = Path(place).read_text()
    for text, heading in (("zebrabob81 is the name of the cat", "Cats"), ("zebrabob82 is\n\nthe dog", "House")):
        path = people.remember("bob", text)
        people.workspace.memory.promote(path, "social/NOTE.md", Audience(clearance=Trust.FULL), "alice", heading)
    people.workspace.memory.search("cat name", Audience(clearance=Trust.FULL))
    erase(people.house, "bob")
    assert find_token(people.folder, "zebrabob") == []
    assert Path(place).read_text() == before


def promote_cat(people, target, heading=""):
    """Promote a memory of bob as the owner."""
    path = people.remember("bob", "zebrabob81 is the name of the cat")
    people.workspace.memory.promote(path, target, Audience(clearance=Trust.FULL), "alice", heading)
    return Path(people.folder, "memory", target)


def test_an_added_text_that_was_edited(people):
    """A promoted text that was edited later remains, is reported but not counted, and loses its record."""
    write_files(people.folder, {"memory/social/NOTE.md": "# Cats\n\nMany.\n"})
    place = promote_cat(people, "social/NOTE.md", "Cats")
    place.write_text(place.read_text().replace("zebrabob81 is", "Owltoken is"))
    said = "memory/social/NOTE.md: one of their texts was edited after its promotion and stays"
    assert said in preview_erasure(people.house, "bob").stays
    report = erase(people.house, "bob")
    (line,) = [line for line in report.lines if line.name == "texts added to notes"]
    assert (line.found, line.removed, line.left) == (0, 0, 0)
    assert (said in report.stays, report.done) == (True, True)
    assert place.read_text() == "# Cats\n\nMany.\n\nOwltoken is the name of the cat\n"


def test_what_the_owner_added_to_a_promoted_memory(people):
    """Text that the owner wrote below a promoted memory remains; the memory and its origin are deleted."""
    place = promote_cat(people, "social/cat.md")
    place.write_text(place.read_text() + "\nThe owner's own owltoken.\n")
    report = erase(people.house, "bob")
    (line,) = [line for line in report.lines if line.name == "texts added to notes"]
    assert (line.found, line.removed, line.left) == (1, 1, 0)
    assert place.read_text().strip() == "The owner's own owltoken."
    assert find_token(people.folder, "zebrabob") == []


def test_the_report_names_both_places_of_memories(people):
    """The report names both places of memories: the stores and the user's private memory."""
    places = {line.name: line.where for line in preview_erasure(people.house, "bob").lines}
    assert places["memories"] == "memory/ and users/bob/memory/"


def test_tables_of_an_older_database(people):
    """Rows in the tables of an imported older database are deleted as well."""
    for name in ("old_user_agent_prompt_customizations", "old_agent_long_term_memory", "agent_long_term_memory"):
        people.do(lambda state, name=name: state.execute(f"CREATE TABLE {name} (user_id, text)"))
        rows = [("bob", f"zebrabob of {name}"), ("carol", f"owltoken of {name}")]
        people.do(lambda state, name=name, rows=rows: state.executemany(f"INSERT INTO {name} VALUES (?, ?)", rows))
    erase(people.house, "bob")
    assert find_token(people.folder, "zebrabob") == []
    assert find_token(people.folder, "owltoken")


def test_the_prompts_of_others_no_longer_show_their_memories(people):
    """A recorded prompt of another user that recalled the user's entry loses it and is marked."""
    with closing(sqlite3.connect(os.path.join(people.state, "events.sqlite"), isolation_level=None)) as log:
        menu = "- social/inbox/bob (20 tok) — 1 unreviewed entry from bob"
        text = f"{menu}\n\nzebrabob5 is what they like best of all things"
        section = log.execute("INSERT INTO sections (hash, text) VALUES ('zebra', ?)", (text,)).lastrowid
        (prompt,) = log.execute("SELECT id FROM prompts ORDER BY id LIMIT 1").fetchone()  # alice's
        log.execute("INSERT INTO prompt_pieces VALUES (?, 999, 'text', 0, 'recall', 1, ?)", (prompt, section))
    erase(people.house, "bob")
    with closing(sqlite3.connect(os.path.join(people.state, "events.sqlite"))) as log:
        found = log.execute("SELECT text, hash, forgotten FROM sections WHERE id = ?", (section,)).fetchone()
    assert found == ("[forgotten]\n\n[forgotten]", None, 1)
    assert find_token(people.folder, "zebrabob") == []


def test_a_memory_saved_for_another_that_quotes_them(people):
    """A memory saved by an agent for another user loses the quotation; a handwritten file is reported and unchanged."""
    people.remember("carol", f"He told me: {sentence('zebrabob3')}. Owltoken.")
    write_files(people.folder, {"memory/social/notes.md": f"By hand: {sentence('zebrabob3')}\n"})
    report = erase(people.house, "bob")
    assert find_token(people.folder, "zebrabob") == ["memory/social/notes.md"]
    assert find_token(people.folder, "owltoken")
    assert "memory/social/notes.md was written by hand and quotes them; edit the file" in report.stays


def test_ledgers_of_others_lose_them_and_their_hashes(people):
    """The owner's ledger loses all updates about the user, including hashes, and her session continues."""
    (own,) = (row[0] for row in dump_rows(people.folder)["sessions"] if row[5] == "alice")
    held = {row[0]: json.loads(row[2]) for row in dump_rows(people.folder)["ledgers"]}[own]
    assert any("inbox/bob" in update["said"] or "zebrabob" in update["said"] for update in held["updates"])
    assert held["heard"][1]
    assert held["last"]["pieces"]
    erase(people.house, "bob")
    rows = dump_rows(people.folder)
    after = {row[0]: json.loads(row[2]) for row in rows["ledgers"]}[own]
    assert "bob" not in json.dumps([after, rows["bases"]])
    assert (after["heard"], after["last"]["pieces"], after["alive"]) == ([0, ""], [], [])
    people.talk("alice", "And now?", "Still here.")
    again = {row[0]: json.loads(row[2]) for row in dump_rows(people.folder)["ledgers"]}[own]
    assert again["turns"] == held["turns"] + 1
    assert again["updates"] == []


def test_their_own_ledgers_go(people):
    """Ledgers of the user's sessions are deleted, with every prefix that no other ledger uses."""
    erase(people.house, "bob")
    rows = dump_rows(people.folder)
    assert {row[0] for row in rows["ledgers"]} <= {row[0] for row in rows["sessions"]}
    assert {row[0] for row in rows["bases"]} == {row[1] for row in rows["ledgers"]}


def test_a_search_finds_them_no_more(people):
    """The search index contains no words of the user and all words of others."""
    erase(people.house, "bob")
    (hit,) = people.workspace.memory.search("zebrabob5 like best", Audience(clearance=Trust.FULL), limit=9)
    assert hit.path.startswith("social/inbox/carol")


def test_money_stays_spent_without_the_name(people):
    """Total costs per day and quarter are unchanged; no total is recorded under the user's name."""

    def read():
        with closing(sqlite3.connect(os.path.join(people.state, "events.sqlite"))) as log:
            asked = "SELECT kind, sum(cost_usd), sum(calls), sum(turns) FROM totals_day WHERE owner = '' GROUP BY kind"
            named = "SELECT count(*) FROM totals_day WHERE 'bob' IN (owner, name)"
            return log.execute(asked).fetchall(), log.execute(named).fetchone()[0]

    before, _ = read()
    erase(people.house, "bob")
    after, named = read()
    assert after == before
    assert named == 0


def test_an_event_of_nobody_that_names_them(people):
    """Restricted events about the user, such as a budget warning, are deleted with their turn."""
    erase(people.house, "bob")
    with closing(sqlite3.connect(os.path.join(people.state, "events.sqlite"))) as log:
        assert log.execute("SELECT count(*) FROM events WHERE instr(metadata, 'user bob')").fetchone() == (0,)
        assert log.execute("SELECT count(*) FROM events WHERE instr(metadata, 'user carol')").fetchone() > (0,)


def test_what_stays_is_named_with_its_line(people):
    """The report lists each configuration line that names the user."""
    report = preview_erasure(people.house, "bob")
    line = 1 + CONFIG[: CONFIG.index("  bob:")].count("\n")
    assert f"foreword.yaml:{line}: users.bob names them; the owner can edit the configuration" in report.stays
    assert any("budgets.users.bob" in one for one in report.stays)


def test_a_damaged_log_that_was_put_aside_is_named(people):
    """The report lists damaged event logs, which cannot be searched."""
    write_files(people.state, {"events.sqlite.damaged-20261115T120000Z": "?"})
    assert any("events.sqlite.damaged-20261115T120000Z" in one for one in preview_erasure(people.house, "bob").stays)


def test_somebody_who_is_not_configured_any_more(tmp_path):
    """A user who is not in the configuration but has data can be forgotten."""
    people = make_people(tmp_path / "ws", {"carol": "zebracarol"})
    people.talk("telegram:999", sentence("zebrastranger"), "Hello.")
    assert erase(people.house, "telegram:999").done
    assert find_token(people.folder, "zebrastranger") == []
    with pytest.raises(UnknownName):
        erase(people.house, "telegram:999")
    people.close()


def test_letters_to_their_addresses(people):
    """Outbound messages to an address of the user are deleted, even if no turn of theirs caused them."""
    letter = (
        "INSERT INTO outbox (key, channel, address, text, state) VALUES ('k', 'telegram', '7', 'zebrabob90', 'sent')"
    )
    people.do(lambda state: state.execute("INSERT INTO identities VALUES ('telegram:7', 'bob', '', '')"))
    people.do(lambda state: state.execute(letter))
    erase(people.house, "bob")
    assert find_token(people.folder, "zebrabob") == []


def test_what_they_said_as_a_stranger(people):
    """Data stored under a paired identity, from before the pairing, is the user's and is deleted."""
    people.do(lambda state: state.execute("INSERT INTO identities VALUES ('telegram:7', 'bob', 'Bobby', '')"))
    place = {"room": "kitchen", "situation": "group", "channel": "telegram"}
    people.talk("telegram:7", sentence("zebrabob70"), "Hello zebrabob71.", **place)
    people.talk("telegram:7", sentence("zebrabob72"), "Hello.", channel="telegram")
    people.remember("telegram:7", "zebrabob73 is what this stranger likes")
    people.talk("telegram:8", sentence("owltoken"), "Hello.", channel="telegram")
    key = "answer\0telegram\0-100/7\0k"
    letter = "INSERT INTO outbox (key, channel, address, text, state) VALUES (?, 'telegram:bot', '-100', ?, 'sent')"
    people.do(lambda state: state.execute(letter, (key, "zebrabob74")))
    assert erase(people.house, "bob").done
    assert find_token(people.folder, "zebrabob") == []
    assert find_token(people.folder, "owltoken")
    assert "telegram:7" not in repr(dump_rows(people.folder))


def test_words_that_two_people_said_are_no_quotation(people):
    """A sentence that another user also wrote is not treated as a quotation of the forgotten user."""
    question = "what is the weather going to be like tomorrow in our town"
    people.talk("bob", question, "Rain.")
    people.talk("carol", question, f"You asked {question}: rain.")
    before = dump_rows(people.folder)
    erase(people.house, "bob")
    after = dump_rows(people.folder)
    assert [row for row in before["turns"] if row[3] == "carol"] == [row for row in after["turns"] if row[3] == "carol"]


@pytest.mark.parametrize("name", ["", " ", "x" * 2_000, "a\nb", "../carol"])
def test_no_name(people, name):
    """An invalid name is refused, and nothing changes."""
    rows = dump_rows(people.folder)
    with pytest.raises(InputError):
        erase(people.house, name)
    assert dump_rows(people.folder) == rows


def test_the_owner_is_not_forgotten(people):
    """The owner cannot be forgotten; the error says what to do instead."""
    with pytest.raises(InputError, match="owns this workspace"):
        erase(people.house, "alice")


def test_the_nearest_name_is_offered(people):
    """The error for a mistyped name suggests the nearest one."""
    with pytest.raises(UnknownName, match="did you mean 'bob'"):
        erase(people.house, "bobb")


def test_a_house_without_a_state(tmp_path):
    """In a workspace without state there is nothing to remove, and no database is created."""
    house = make_workspace(tmp_path, {"foreword.yaml": CONFIG})
    assert preview_erasure(house, "bob").found == 0
    assert not (tmp_path / ".foreword").exists()
    assert erase(house, "bob").done
    assert not (tmp_path / ".foreword" / "state.sqlite").exists()


def test_archived_transcripts(people):
    """The transcript of a room is rewritten without the user, under a file name without their words."""
    place = {"room": "hall", "situation": "group", "channel": "telegram"}
    people.talk("bob", "zebrabob60 is what I say first", "Yes, zebrabob61.", **place)
    room = people.talk("dave", "And I say owltoken", "Good.", **place)
    people.archive(room)
    assert any("groups" in path for path in find_token(people.folder, "zebrabob60"))
    assert erase(people.house, "bob").done
    assert find_token(people.folder, "zebrabob") == []
    assert not any("zebrabob" in path for path in read_all(people.folder))
    assert any(path.startswith("groups/") for path in find_token(people.folder, "owltoken"))


def test_archived_transcripts_of_others(people):
    """In another user's private transcript the agent's quotations are redacted; that user's words are unchanged."""
    reply = f"He said: {sentence('zebrabob1')}. And owltoken."
    quoting = people.archive(people.talk("carol", "What did Bob say?", reply))
    wrote = people.archive(people.talk("dave", f"I know that {sentence('zebrabob3')}", "Good."))
    path, before = os.path.join(people.folder, quoting), read_all(people.folder)[wrote]
    assert erase(people.house, "bob").done
    with open(path, encoding="utf-8") as file:
        text = file.read()
    assert ("zebrabob" in text, FORGOTTEN_MARKER in text, "And owltoken." in text) == (False, True, True)
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert read_all(people.folder)[wrote] == before


def test_a_private_transcript_is_counted_once(people):
    """A transcript in the user's folder is counted once, and every line of the report is complete."""
    before = {line.name: line.found for line in preview_erasure(people.house, "bob").lines}
    private = people.talk("bob", "zebrabob62 is between us", "Yes.", situation="dm")
    assert people.archive(private).startswith("users/bob/")
    lines = {line.name: line for line in erase(people.house, "bob").lines}
    transcripts = lines["archived transcripts"]
    assert (transcripts.found, transcripts.removed, transcripts.where) == (1, 1, "groups/ and users/")
    assert lines["own files"].found == lines["own files"].removed == before["own files"]
    assert [line for line in lines.values() if line.removed < line.found] == []


def test_a_link_is_not_followed(people, tmp_path):
    """A user folder that is a symlink is deleted as a link; its target is unchanged."""
    write_files(tmp_path, {"elsewhere/keep.md": "kept"})
    os.rename(os.path.join(people.folder, "users/bob"), str(tmp_path / "away"))
    os.symlink(str(tmp_path / "elsewhere"), os.path.join(people.folder, "users/bob"))
    assert erase(people.house, "bob").done
    assert not os.path.lexists(os.path.join(people.folder, "users/bob"))
    assert (tmp_path / "elsewhere" / "keep.md").read_text() == "kept"


def test_the_next_prompt_of_others_is_as_before(people):
    """The prompts of other users change only by the memories of the forgotten user."""
    turn = Turn(user="carol", situation="dm", message="Hello")
    before = people.workspace.assemble(turn).prompt.text
    erase(people.house, "bob")
    people.workspace.refresh(now=True)
    after = people.workspace.assemble(turn).prompt.text
    assert [line for line in before.splitlines() if line not in after.splitlines()] == [
        line for line in before.splitlines() if "inbox/bob" in line or "zebrabob" in line
    ]


def test_every_holding_has_a_name_of_its_own():
    """Every data location has a unique name, so the report has one line for each."""
    assert len({one.name for one in DATA_LOCATIONS}) == len(DATA_LOCATIONS)
