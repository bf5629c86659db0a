"""Claims about adding a promoted entry to a note that people edit, and about the owner's own notes."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Any

import pytest

from foreword.engine.sources.documents import parse_document
from foreword.engine.trust import Audience, Provenance
from foreword.errors import Forbidden, InputError
from foreword.memory import notes as module
from foreword.memory import stores
from foreword.memory.entry import Confirmed, Note, mark_text
from foreword.memory.notes import add_text, list_added, remove_added
from foreword.testing import NOON, make_workspace, write_files
from foreword.turn import Turn
from foreword.types import Trust
from foreword.workspace import Workspace

OWNER = Audience(clearance=Trust.FULL)
CONFIG = """\
owner: alice
users: {alice: {trust: full}, carol: {trust: inner}, bob: {trust: familiar}}
"""
PEOPLE = "---\ndescription: People\n---\n# People\n\n## The house\n- Carol sings.\n\n## Next door\nBob repairs bikes.\n"
FILES = {"foreword.yaml": CONFIG, "memory/social/PEOPLE.md": PEOPLE}
ORIGIN = Provenance(author="bob", clearance="familiar", channel="telegram", session="s1", time="2026-11-14T12:00:00Z")
ENTRY = Confirmed(text="Rex is the dog.", origin=ORIGIN, by="alice, 2026-11-15")
RECORD = (
    '<!-- promoted: author="bob" clearance="familiar" channel="telegram" session="s1" time="2026-11-14T12:00:00Z" '
    f'confirmed="alice, 2026-11-15" heading="A" lines="1" text="{mark_text(ENTRY.text)}" -->\n'
)


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    """A workspace with a note of people."""
    with make_workspace(tmp_path, FILES) as workspace:
        yield workspace


def save(ws: Workspace, text: str) -> str:
    """Save an entry of an acquaintance and return its path."""
    return ws.memory.save(Note(text=text, author="bob", clearance=Trust.FAMILIAR, time=NOON), "social").path


def add(text: str, heading: str, entry: Confirmed = ENTRY) -> str:
    """Add an entry to a text."""
    return add_text(text, "PEOPLE.md", heading, entry)


@pytest.mark.parametrize(
    ("before", "heading", "after"),
    [
        ("# A\n\none\n\n# B\n\ntwo\n", "A", "# A\n\none\n\nRex is the dog.\n\n# B\n\ntwo\n"),
        ("# A\n\none\n\n# B\n\ntwo\n", "B", "# A\n\none\n\n# B\n\ntwo\n\nRex is the dog.\n"),
        ("# A\none\n## Sub\ntwo\n", "A", "# A\none\n\nRex is the dog.\n\n## Sub\ntwo\n"),
        ("# A\n# B\n", "a", "# A\n\nRex is the dog.\n\n# B\n"),
        ("# A\n\none", "A", "# A\n\none\n\nRex is the dog.\n"),
        ("# A\n\none\n\n\n", "A", "# A\n\none\n\nRex is the dog.\n\n\n"),
        ("one\n", "New one", "one\n\n## New one\n\nRex is the dog.\n"),
        ("", "New", "## New\n\nRex is the dog.\n"),
        ("```\n# A\n```\n", "A", "```\n# A\n```\n\n## A\n\nRex is the dog.\n"),
        ("<!--\n# A\n-->\n# B\n", "A", "<!--\n# A\n-->\n# B\n\n## A\n\nRex is the dog.\n"),
    ],
)
def test_under_a_heading(before: str, heading: str, after: str) -> None:
    """A text is added at the end of a heading's own section; a missing heading is made at the end."""
    assert add(before, heading) == RECORD.replace('heading="A"', f'heading="{heading}"') + after


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_line_ends(end: str) -> None:
    """A file keeps its line endings and its byte order mark."""
    before = "\ufeff" + "---\nname: x\n---\n# A\n\none\n\n# B\n".replace("\n", end)
    after = "\ufeff" + f"---\nname: x\n---\n{RECORD}# A\n\none\n\nRex is the dog.\n\n# B\n".replace("\n", end)
    assert add(before, "A") == after


def test_never_in_a_prompt() -> None:
    """The record of the author is no part of the body, and the rest of the body does not change."""
    document = parse_document("x.md", add(PEOPLE, "The house"))
    assert document.body == parse_document("x.md", PEOPLE).body.replace(
        "- Carol sings.", "- Carol sings.\n\nRex is the dog."
    )
    assert document.field("description") == "People"


@pytest.mark.parametrize("name", ['x" -->\n# Heading', "--><b>", "a&quot;", "\x1b[1m", "日本"])
def test_record_stays_a_record(name: str) -> None:
    """No name can end its record, and the name can be read back."""
    entry = replace(ENTRY, origin=replace(ORIGIN, author=name))
    after = add("# A\n", "A", entry)
    assert parse_document("", after).body == "# A\n\nRex is the dog."
    (added,) = list_added(after)
    assert added.author == " ".join("".join(filter(str.isprintable, " ".join(name.split()))).split())


def test_two_headings() -> None:
    """Two equal headings are ambiguous: the error names both."""
    with pytest.raises(InputError, match="has the heading 'A' in lines 1, 3; rename one of them first"):
        add("# A\n\n# A\n", "A")


@pytest.mark.parametrize(
    "before", [add("# A\n", "A"), "# A\n\n# B\n\nRex is the dog.\n", "# B\none\nRex is the dog.\ntwo\n"]
)
def test_said_already(before: str) -> None:
    """A text that the note has already, in any section, is not added again."""
    with pytest.raises(InputError, match="has this text already; forget the entry instead"):
        add(before, "A")


@pytest.mark.parametrize("place", ["# A\n", "# B\n"])
def test_owner_repeats_an_added_text(place: str) -> None:
    """Where the owner wrote the same line later, before or after it, the text below its heading is the one removed."""
    before = "# A\n\n# Hers\n\n# B\n"
    repeated = place + "\nRex is the dog.\n"
    after = add(before, "Hers").replace(place, repeated)
    assert remove_added(after, {"bob"}) == before.replace(place, repeated)


def test_moved_text() -> None:
    """An added text that the owner moved below another heading is still recognised."""
    after = add("# A\n\none\n", "A").replace(
        "# A\n\none\n\nRex is the dog.\n", "# B\n\nRex is the dog.\n\n# A\n\none\n"
    )
    assert remove_added(after, {"bob"}) == "# B\n\n# A\n\none\n"


def test_no_line_belongs_to_two_texts() -> None:
    """Two records of one text have different lines, and a text that is a part of another has separate lines."""
    twice = f"{RECORD}{RECORD}# A\n\nRex is the dog.\n\n# B\n\nRex is the dog.\n"
    assert [(one.first, one.last) for one in list_added(twice)] == [(4, 5), (8, 9)]
    assert remove_added(twice, {"bob"}) == "# A\n\n# B\n"
    long = replace(ENTRY, text="Rex is the dog.\n\nHe barks.", origin=replace(ORIGIN, author="carol"))
    both = add(add("# B\n\n# A\n", "A"), "B", long)
    assert {one.author: one.text for one in list_added(both)} == {"bob": ENTRY.text, "carol": long.text}
    assert remove_added(remove_added(both, {"bob"}), {"carol"}) == "# B\n\n# A\n"


def test_removed_again() -> None:
    """Removing an added text restores the file; a text that was edited since stays."""
    text = replace(ENTRY, text="Rex is the dog.\n\n- He barks.\n- He bites.")
    after = add(add(PEOPLE, "Next door", replace(ENTRY, origin=replace(ORIGIN, author="carol"))), "The house", text)
    assert remove_added(remove_added(after, {"bob"}), {"carol"}) == PEOPLE
    assert "He bites." not in remove_added(after, {"bob"})
    assert "Rex is the dog." in remove_added(after, {"bob"})
    edited = after.replace("He bites", "He licks")
    assert "He licks." in remove_added(edited, {"bob"})
    assert 'author="bob"' not in remove_added(edited, {"bob"})


def test_forged_record() -> None:
    """A record in the body of a note proves nothing."""
    assert list_added(f"# A\n\n{RECORD}\nRex is the dog.\n") == []


def test_promoted_under_a_heading(ws: Workspace) -> None:
    """An entry is added to an existing note, found there at once, and gone from the inbox."""
    path = save(ws, "Rex is the dog.")
    place = Path(ws.files.root, "memory/social/PEOPLE.md")
    place.chmod(0o640)
    planned = ws.memory.promote(path, "social/PEOPLE.md", OWNER, "alice", "The house", preview=True)
    assert place.read_text() == PEOPLE
    done = ws.memory.promote(path, "social/PEOPLE.md", OWNER, "alice", "The house")
    assert (done, done.after, done.before) == (planned, place.read_text(), PEOPLE)
    assert " - Carol sings.\n \n+Rex is the dog.\n+\n ## Next door" in done.diff
    assert stat.S_IMODE(place.stat().st_mode) == 0o640
    (hit,) = ws.memory.search("dog", Audience(clearance=Trust.FAMILIAR), limit=1)
    assert (hit.path, hit.heading, hit.text) == ("social/PEOPLE.md", "People › The house", "Rex is the dog.")
    assert list(ws.memory.entries(OWNER)) == []
    assert sorted(os.listdir(place.parent)) == ["PEOPLE.md", "inbox"]
    reading = ws.call(ws.assemble(Turn(user="alice", situation="dm")), "memory_get", {"path": "social/PEOPLE.md"})
    assert "promoted:" not in reading.text


def test_new_note_with_a_heading(ws: Workspace) -> None:
    """A note that does not exist yet is made with the heading."""
    done = ws.memory.promote(save(ws, "Rex."), "social/DOGS.md", OWNER, "alice", "## Next door")
    assert done.before is None
    assert Path(ws.files.root, "memory/social/DOGS.md").read_text().endswith(" -->\n## Next door\n\nRex.\n")


@pytest.mark.parametrize("more", ["", "description: Dogs\n"])
def test_added_to_a_promoted_entry(ws: Workspace, more: str) -> None:
    """A note that was an entry keeps its origin as a record, so that each text has one author."""
    place = Path(ws.files.root, "memory/social/DOGS.md")
    ws.memory.promote(save(ws, "Rex is big.\n\nHe barks."), "social/DOGS.md", OWNER, "alice")
    place.write_text(place.read_text().replace("---\n", f"---\n{more}", 1))
    note = Note(text="Fido is small.", author="carol", clearance=Trust.INNER, time=NOON)
    path = ws.memory.save(note, "shared").path
    ws.memory.promote(path, "social/DOGS.md", OWNER, "alice", "Small ones")
    text = place.read_text()
    assert {one.author: one.text for one in list_added(text)} == {
        "bob": "Rex is big.\n\nHe barks.",
        "carol": "Fido is small.",
    }
    body = "Rex is big.\n\nHe barks.\n\n## Small ones\n\nFido is small."
    document = parse_document("", text)
    assert (document.body, document.field("author")) == (body, "")
    assert text.startswith(f"---\n{more}---\n<!--" if more else "<!--")
    assert "Fido is small." in remove_added(text, {"bob"})
    assert "Rex" not in remove_added(text, {"bob"})


OWNERS = "The owner's own paragraph."


def promote_two(ws: Workspace, edit: Callable[[str], str]) -> str:
    """Promote an entry of bob's to a note, edit the note, and add a text of carol's to it."""
    place = Path(ws.files.root, "memory/social/DOGS.md")
    ws.memory.promote(save(ws, "Rex is big.\n\nHe barks."), "social/DOGS.md", OWNER, "alice")
    place.write_text(edit(place.read_text()))
    note = Note(text="Fido is small.", author="carol", clearance=Trust.INNER, time=NOON)
    path = ws.memory.save(note, "shared").path
    ws.memory.promote(path, "social/DOGS.md", OWNER, "alice", "Small ones")
    return place.read_text()


def test_owner_wrote_more(ws: Workspace) -> None:
    """Text that the owner wrote in a promoted note is the owner's, even after a second text is added."""
    text = promote_two(ws, lambda text: f"{text}\n{OWNERS}\n")
    assert {one.author: one.text for one in list_added(text)} == {
        "bob": "Rex is big.\n\nHe barks.",
        "carol": "Fido is small.",
    }
    left = parse_document("", remove_added(text, {"bob"})).body
    assert left == f"{OWNERS}\n\n## Small ones\n\nFido is small."


def test_owner_edited_a_promoted_note(ws: Workspace) -> None:
    """A promoted note that was edited before a second text was added has no text of its author any more."""
    text = promote_two(ws, lambda text: text.replace("He barks", "He sings"))
    assert {one.author: one.text for one in list_added(text)} == {"bob": "", "carol": "Fido is small."}
    assert "He sings." in remove_added(text, {"bob"})


def test_note_of_an_older_version(ws: Workspace) -> None:
    """A promoted note without a hash is its author's as a whole, as its front matter says."""
    text = promote_two(ws, lambda text: "".join(one for one in text.splitlines(True) if not one.startswith("text:")))
    assert {one.author: one.text for one in list_added(text)}["bob"] == "Rex is big.\n\nHe barks."


def test_taken_name(ws: Workspace) -> None:
    """Without a heading an existing note is not changed, and the message says how to add to it."""
    with pytest.raises(InputError, match="is there already; add to it with --heading TEXT, or choose another name"):
        ws.memory.promote(save(ws, "Rex."), "social/PEOPLE.md", OWNER, "alice")


@pytest.mark.parametrize("heading", [" ", "#", "x" * 201, "a\x1bb"])
def test_bad_heading(ws: Workspace, heading: str) -> None:
    """An invalid heading is refused, and nothing is written."""
    path = save(ws, "Rex.")
    with pytest.raises(InputError, match="a heading is one line"):
        ws.memory.promote(path, "social/PEOPLE.md", OWNER, "alice", heading)
    assert Path(ws.files.root, "memory/social/PEOPLE.md").read_text() == PEOPLE
    assert [entry.path for entry in ws.memory.entries(OWNER)] == [path]


@pytest.mark.parametrize("kind", ["link", "folder", "bytes", "facts"])
def test_bad_note(ws: Workspace, kind: str) -> None:
    """A target that is no plain note is refused with the remedy, and the entry stays."""
    place = Path(ws.files.root, "memory/social/X.md")
    path, target = save(ws, "Rex."), "memories.json" if kind == "facts" else "social/X.md"
    if kind == "link":
        place.symlink_to("PEOPLE.md")
    elif kind == "folder":
        place.mkdir()
    elif kind == "bytes":
        place.write_bytes(b"# A\n\xff\n")
    said = {"link": "name the file", "folder": "Is a directory", "bytes": "save it as UTF-8", "facts": "no headings"}
    with pytest.raises(InputError, match=said[kind]):
        ws.memory.promote(path, target, OWNER, "alice", "A")
    assert Path(ws.files.root, "memory/social/PEOPLE.md").read_text() == PEOPLE
    assert [entry.path for entry in ws.memory.entries(OWNER)] == [path]


def test_edited_meanwhile(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """An edit that is saved while an entry is being added is not lost: nothing is written, and the entry stays."""
    path, place = save(ws, "Rex."), Path(ws.files.root, "memory/social/PEOPLE.md")

    def edit(*_: object) -> None:
        place.write_text("# Edited\n")

    monkeypatch.setattr(module.shutil, "copymode", edit)
    with pytest.raises(InputError, match="was changed meanwhile; nothing was written; try again"):
        ws.memory.promote(path, "social/PEOPLE.md", OWNER, "alice", "The house")
    assert place.read_text() == "# Edited\n"
    assert sorted(os.listdir(place.parent)) == ["PEOPLE.md", "inbox"]
    assert [entry.path for entry in ws.memory.entries(OWNER)] == [path]


def test_two_threads(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads that promote one entry to two notes make one of them."""
    path, memory = save(ws, "Rex."), ws.memory
    edit_file, both = stores.edit_file, Barrier(2)

    def edit_slowly(*given: Any) -> Any:
        with suppress(BrokenBarrierError):
            both.wait(0.5)  # both threads have the entry by now, unless one waits for the other
        return edit_file(*given)

    def promote(name: str) -> str:
        try:
            return memory.promote(path, f"social/{name}.md", OWNER, "alice").target
        except InputError as error:
            return str(error)

    monkeypatch.setattr(stores, "edit_file", edit_slowly)
    with ThreadPoolExecutor(2) as threads:
        made = sorted(threads.map(promote, ("ONE", "TWO")))
    assert made[1].startswith("there is no entry")
    assert sorted(os.listdir(Path(ws.files.root, "memory/social"))) == sorted(
        [made[0].removeprefix("social/"), "PEOPLE.md", "inbox"]
    )


PROMOTER = """
import sys, foreword
from foreword.memory.entry import Note
from foreword.testing import NOON
from foreword.engine.trust import Audience
from foreword.types import Trust

OWNER = Audience(clearance=Trust.FULL)
with foreword.open(sys.argv[1]) as ws:
    for number in range(12):
        note = Note(text=f"{sys.argv[2]} saw comet {number}.", author="bob", clearance=Trust.FAMILIAR, time=NOON)
        ws.memory.promote(ws.memory.save(note, "social").path, "social/PEOPLE.md", OWNER, "alice", "The house")
"""


def test_two_processes(ws: Workspace) -> None:
    """Two processes that add to one note at once lose nothing."""
    command = [sys.executable, "-c", PROMOTER, ws.files.root]
    both = [subprocess.Popen([*command, name], stderr=subprocess.PIPE, text=True) for name in ("ada", "ben")]
    ends = [process.communicate(timeout=120)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], ends
    text = Path(ws.files.root, "memory/social/PEOPLE.md").read_text()
    assert {added.text for added in list_added(text)} == {
        f"{name} saw comet {number}." for name in ("ada", "ben") for number in range(12)
    }
    assert remove_added(text, {"bob"}) == PEOPLE


def test_only_the_owner_adds(ws: Workspace) -> None:
    """Only the owner, at full trust, adds an entry to a note or sees the change."""
    path = save(ws, "Bob may use the car.")
    for person, level in (("bob", Trust.FAMILIAR), ("alice", Trust.FAMILIAR), ("carol", Trust.FULL)):
        for preview in (True, False):
            with pytest.raises(Forbidden, match=r"^only the owner promotes an entry"):
                ws.memory.promote(
                    path, "social/PEOPLE.md", Audience(clearance=level), person, "The house", preview=preview
                )


def test_owners_own_note(ws: Workspace) -> None:
    """A text saved by the owner is a reviewed note with its origin, and read_memory shows it."""
    note = Note(text="The ring is in the drawer.", author="alice", clearance=Trust.FULL, channel="terminal", time=NOON)
    saved = ws.memory.save_reviewed(note, "private")
    assert saved.path == f"private/notes/20261115-{mark_text(note.text)}.md"
    assert list(ws.memory.entries(OWNER)) == []
    (hit,) = ws.memory.search("ring", OWNER)
    assert (hit.path, hit.provenance) == (saved.path, None)
    text = Path(ws.files.root, "memory", saved.path).read_text()
    assert 'author: "alice"' in text
    assert 'confirmed: "alice, 2026-11-15T12:00:00+00:00"' in text
    assert ws.memory.save_reviewed(note, "private") == replace(saved, known=True)
    seen = ws.call(ws.assemble(Turn(user="alice", situation="dm")), "read_memory", {}).text
    assert f"- The ring is in the drawer. ({saved.path})" in seen
    group = ws.call(ws.assemble(Turn(user="alice", situation="group", room="den")), "read_memory", {}).text
    assert "ring" not in group


def test_owner_repeats_an_entry(ws: Workspace) -> None:
    """The owner's text is saved even if an equal entry waits for review."""
    path = save(ws, "Tea at four.")
    note = Note(text="Tea at four.", author="alice", clearance=Trust.FULL, time=NOON)
    assert ws.memory.save_reviewed(note, "social").known is False
    assert [entry.path for entry in ws.memory.entries(OWNER)] == [path]


@pytest.mark.parametrize(("author", "level"), [("bob", Trust.FULL), ("alice", Trust.FAMILIAR), ("", Trust.FULL)])
def test_nobody_elses_own_note(ws: Workspace, author: str, level: Trust) -> None:
    """Only the owner, at full trust, saves without a review."""
    with pytest.raises(Forbidden, match="only the owner"):
        ws.memory.save_reviewed(Note(text="x", author=author, clearance=level, time=NOON), "social")


def test_large_note(ws: Workspace) -> None:
    """A note of several megabytes can be added to."""
    lines = "".join(f"- Line {number} of a long list.\n" for number in range(100_000))
    write_files(ws.files.root, {"memory/social/LONG.md": f"# List\n{lines}\n# End\n"})
    done = ws.memory.promote(save(ws, "Rex."), "social/LONG.md", OWNER, "alice", "List")
    assert done.after.endswith("list.\n\nRex.\n\n# End\n")
    assert len(done.diff) < 1_000
