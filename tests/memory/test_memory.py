"""Claims about the memory of a workspace."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from foreword.engine.trust import Audience
from foreword.errors import InputError
from foreword.memory.entry import Note
from foreword.memory.index_sync import BATCH_DOCUMENTS
from foreword.testing import NOON, make_workspace, write_files
from foreword.types import Trust
from foreword.workspace import Workspace, open_workspace

FILES = {
    "memory/private/DIARY.md": "# Diary\n\nThe surprise is a trip to Lisbon.\n",
    "memory/shared/HOUSE.md": "# House\n\nThe valve is in the cellar.\n",
    "memory/social/PEOPLE.md": "# People\n\nCarol's birthday is on 14 March.\n\nBob repairs bicycles.\n",
}


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    """A workspace with one file in each store."""
    with make_workspace(tmp_path, FILES) as workspace:
        yield workspace


def note(text: str, author: str = "bob", clearance: Trust = Trust.FAMILIAR) -> Note:
    """Make a note."""
    return Note(text=text, author=author, clearance=clearance, time=NOON)


def find(ws: Workspace, query: str, clearance: Trust = Trust.FULL, **more: object) -> list[str]:
    """Search, and return the paths."""
    return [hit.path for hit in ws.memory.search(query, Audience(clearance=clearance), **more)]


def test_found(ws: Workspace) -> None:
    """A passage is found with its place and heading."""
    (hit,) = ws.memory.search("When is Carol's birthday?", Audience(clearance=Trust.FAMILIAR), limit=1)
    assert (hit.path, hit.first, hit.last, hit.heading) == ("social/PEOPLE.md", 3, 3, "People")
    assert (hit.text, hit.provenance) == ("Carol's birthday is on 14 March.", None)


@pytest.mark.parametrize("level", Trust)
def test_clearance(ws: Workspace, level: Trust) -> None:
    """A clearance finds in its own stores and in no other; public finds nothing."""
    stores = {path.partition("/")[0] for path in find(ws, "surprise valve birthday Lisbon cellar", level)}
    open_ = {"private": Trust.FULL, "shared": Trust.INNER, "social": Trust.FAMILIAR}
    assert stores == {store for store, least in open_.items() if level >= least}


def test_store(ws: Workspace) -> None:
    """One store can be searched alone, and one above the clearance is treated as missing."""
    assert find(ws, "birthday valve", store="shared") == ["shared/HOUSE.md"]
    assert find(ws, "Lisbon", Trust.FAMILIAR, store="private") == find(ws, "Lisbon", Trust.FAMILIAR, store="nope") == []


QUERIES = [
    "",
    " ",
    '"',
    '""',
    "a AND",
    "NOT x",
    "NEAR(a b)",
    "x*",
    "^x",
    "text:x",
    "-x",
    "(",
    "🙂",
    "\0",
    "\ud800",
    "?",
]


@pytest.mark.parametrize("query", [*QUERIES, "birthday " * 12_000, "x" * 100_000], ids=range(len(QUERIES) + 2))
def test_any_query(ws: Workspace, query: str) -> None:
    """Any text is a query."""
    assert set(find(ws, query)) == ({"social/PEOPLE.md"} if "birthday" in query else set())


def test_operators_are_words(ws: Workspace) -> None:
    """Operators of the full-text search are words like others."""
    for query in ('birthday AND "', "NOT birthday", "birthday*", "(birthday", "heading:birthday", "birthday 🙂"):
        assert find(ws, query, limit=1) == ["social/PEOPLE.md"], query


def test_limit(ws: Workspace) -> None:
    """A search returns at most the requested number of results; a limit below one is refused."""
    assert len(find(ws, "birthday bicycles", limit=1)) == 1
    assert len(find(ws, "birthday bicycles", limit=10_000)) == 2
    with pytest.raises(InputError):
        find(ws, "birthday", limit=0)


def test_own_write_at_once(ws: Workspace) -> None:
    """The very next search finds a saved text, with its origin."""
    find(ws, "anything")
    saved = ws.memory.save(note("The ferry leaves at noon."), "social")
    (hit,) = ws.memory.search("ferry", Audience(clearance=Trust.FAMILIAR))
    assert (hit.path, hit.text) == (saved.path, "The ferry leaves at noon.")
    assert str(hit.provenance) == "unreviewed, saved for bob at familiar, 2026-11-15"


def test_edit_by_hand(ws: Workspace) -> None:
    """An edit, a new file and a deleted one are seen within a second."""
    assert find(ws, "zeppelin") == []
    write_files(ws.files.root, {"memory/social/PEOPLE.md": "A zeppelin.\n", "memory/social/new.md": "A gondola.\n"})
    os.unlink(f"{ws.files.root}/memory/shared/HOUSE.md")
    time.sleep(0.9)
    assert (find(ws, "zeppelin"), find(ws, "gondola")) == (["social/PEOPLE.md"], ["social/new.md"])
    assert find(ws, "birthday") == find(ws, "valve") == []


def test_deleted_before_it_is_read(ws: Workspace) -> None:
    """A file deleted after it was indexed gives no result and no error."""
    assert find(ws, "valve") == ["shared/HOUSE.md"]
    os.unlink(f"{ws.files.root}/memory/shared/HOUSE.md")
    ws.files.refresh(now=True)
    assert find(ws, "valve") == []


def test_entry_deleted_before_it_is_read(ws: Workspace) -> None:
    """An entry deleted after it was indexed gives no result: without its file its author is unknown."""
    saved = ws.memory.save(note("The ferry leaves at noon."), "social")
    assert find(ws, "ferry") == [saved.path]
    os.unlink(f"{ws.files.root}/memory/{saved.path}")
    ws.files.refresh(now=True)
    assert find(ws, "ferry") == []


def test_found_without_opening(ws: Workspace) -> None:
    """A search opens no file of the owner's: every sweep checks again each file that was opened once."""
    assert find(ws, "valve") == ["shared/HOUSE.md"]
    assert "memory/shared/HOUSE.md" not in ws.files._files


def test_many_at_once(ws: Workspace) -> None:
    """Many documents that came at once are all found, and so is one that comes after them."""
    names = [f"memory/social/{number:03}.md" for number in range(BATCH_DOCUMENTS + 1)]
    write_files(ws.files.root, {name: f"Buoy {at} is orange.\n" for at, name in enumerate(names)})
    assert find(ws, f"buoy {BATCH_DOCUMENTS}", limit=1) == [f"social/{BATCH_DOCUMENTS}.md"]
    saved = ws.memory.save(note("The last buoy is green."), "social")
    assert find(ws, "green buoy", limit=1) == [saved.path]


def test_no_duplicates(ws: Workspace) -> None:
    """The same text is not saved twice, whether it is an entry or the owner's own."""
    first = ws.memory.save(note("Tea at four."), "social")
    again = ws.memory.save(note(" Tea at four.\n"), "social")
    assert (first.known, again.known, again.path) == (False, True, first.path)
    body = FILES["memory/shared/HOUSE.md"].strip()
    assert ws.memory.save(note(body), "shared").path == "shared/HOUSE.md"


def test_links(ws: Workspace) -> None:
    """A link out of its store is not listed, searched or removed, under any name."""
    memory = Path(ws.files.root, "memory")
    os.symlink(memory / "private" / "DIARY.md", memory / "social" / "fun.md")
    os.symlink(memory / "private", memory / "social" / "folder")
    os.symlink("/etc/passwd", memory / "social" / "etc.md")
    os.symlink(memory / "social" / "PEOPLE.md", memory / "social" / "inside.md")
    assert find(ws, "Lisbon surprise", Trust.FAMILIAR) == []
    menu = "\n".join(ws.memory.menu(Audience(clearance=Trust.FAMILIAR), ws.context.measure("openai:gpt-5")))
    assert "inside.md" in menu
    assert not any(name in menu for name in ("fun", "folder", "etc", "Diary"))
    for path in ("social/fun.md", "social/folder/DIARY.md", "social/etc.md"):
        with pytest.raises(InputError, match="there is no"):
            ws.memory.forget(path, Audience(clearance=Trust.FAMILIAR))
    assert (memory / "private" / "DIARY.md").exists()


def test_a_store_that_is_a_link(tmp_path: Path) -> None:
    """A store whose folder is a link to another one is empty."""
    with make_workspace(tmp_path, {"memory/private/x.md": "Lisbon.\n"}) as ws:
        os.symlink(tmp_path / "memory" / "private", tmp_path / "memory" / "social")
        assert find(ws, "Lisbon", Trust.FAMILIAR) == []
        with pytest.raises(InputError, match="behind a link"):
            ws.memory.save(note("x"), "social")


def test_listed_files(tmp_path: Path) -> None:
    """A file that the configuration lists with a separate trust is no memory, nor by a link to it."""
    config = """\
owner: alice
users: {alice: {trust: full}}
prompt: {files: [{path: memory/social/secret.md, trust: full}]}
"""
    with make_workspace(tmp_path, {"foreword.yaml": config, "memory/social/secret.md": "Lisbon.\n"}) as ws:
        os.symlink("secret.md", tmp_path / "memory" / "social" / "link.md")
        assert find(ws, "Lisbon", Trust.FAMILIAR) == find(ws, "Lisbon") == []


@pytest.mark.parametrize(
    "path", ["../x.md", "/etc/passwd", "social/../private/DIARY.md", "private/DIARY.md", "", "social"]
)
def test_forget_elsewhere(ws: Workspace, path: str) -> None:
    """An entry above the clearance cannot be deleted; the answer is the one for a missing entry."""
    with pytest.raises(InputError) as caught:
        ws.memory.forget(path, Audience(clearance=Trust.FAMILIAR))
    assert str(caught.value) == f"there is no {path!r} here"


def test_forgotten(ws: Workspace) -> None:
    """A deleted entry is in no file any more, the index included."""
    saved = ws.memory.save(note("Xanthippe keeps ocelots."), "social")
    assert find(ws, "ocelots") == [saved.path]
    ws.memory.forget(saved.path, Audience(clearance=Trust.FAMILIAR))
    assert find(ws, "ocelots") == []
    files = [path for path in Path(ws.files.root).rglob("*") if path.is_file()]
    assert not [path for path in files if b"ocelot" in path.read_bytes() or b"anthipp" in path.read_bytes()]


def test_promoted(ws: Workspace) -> None:
    """A promoted entry is the owner's word: it leaves the inbox and has no origin any more."""
    saved = ws.memory.save(note("The ferry leaves at noon."), "social")
    change = ws.memory.promote(saved.path, "shared/FERRY.md", Audience(clearance=Trust.FULL), "alice")
    assert change.target == "shared/FERRY.md"
    (hit,) = ws.memory.search("ferry", Audience(clearance=Trust.FULL))
    assert (hit.path, hit.provenance) == ("shared/FERRY.md", None)
    assert list(ws.memory.entries(Audience(clearance=Trust.FULL))) == []
    text = (Path(ws.files.root) / "memory/shared/FERRY.md").read_text()
    assert 'confirmed: "alice, 2026-11-15T12:00:00+00:00"' in text
    assert 'author: "bob"' in text


def test_promoted_to_the_facts(ws: Workspace) -> None:
    """A short entry can become one of the facts that all agents share; a long one and a known one cannot."""
    path = Path(ws.files.root) / "memories.json"
    for text in ("The ferry leaves at noon.", "The key is under the stone."):
        ws.memory.promote(
            ws.memory.save(note(text), "social").path, "memories.json", Audience(clearance=Trust.FULL), "alice"
        )
    facts = [fact["text"] for fact in json.loads(path.read_text())]
    assert facts == ["The ferry leaves at noon.", "The key is under the stone."]
    assert ws.memory.search("ferry", Audience(clearance=Trust.FULL))[0].text == "The ferry leaves at noon."
    assert ws.memory.search("key stone", Audience(clearance=Trust.INNER))[0].first == 2
    assert ws.memory.search("ferry", Audience(clearance=Trust.FAMILIAR)) == []
    for text in ("The ferry leaves at noon.", "long " * 50):
        saved = ws.memory.save(note(text), "social")
        with pytest.raises(InputError):
            ws.memory.promote(saved.path, "memories.json", Audience(clearance=Trust.FULL), "alice")
    assert len(json.loads(path.read_text())) == 2


def test_saved_again_after_an_edit(ws: Workspace) -> None:
    """A text whose first file has changed since is saved in a second file."""
    first = ws.memory.save(note("The ferry leaves at noon."), "social")
    (Path(ws.files.root) / "memory" / first.path).write_text("The ferry leaves at one.\n")
    second = ws.memory.save(note("The ferry leaves at noon."), "social")
    assert (second.known, second.path != first.path) == (False, True)
    assert sorted(find(ws, "ferry")) == sorted([first.path, second.path])


@pytest.mark.parametrize(
    "target", ["shared/x", "nope/x.md", "shared/../x.md", "shared/a/b.md", "x.md", "", "social/PEOPLE.md"]
)
def test_not_promoted(ws: Workspace, target: str) -> None:
    """An entry is not moved if its new path is invalid or taken."""
    saved = ws.memory.save(note("The ferry leaves at noon."), "social")
    with pytest.raises(InputError):
        ws.memory.promote(saved.path, target, Audience(clearance=Trust.FULL), "alice")
    assert find(ws, "ferry") == [saved.path]


def test_promotion_above_the_clearance(ws: Workspace) -> None:
    """An entry above the clearance cannot be promoted; the answer is that of a missing entry."""
    saved = ws.memory.save(note("The ring is in the drawer.", "alice", Trust.FULL), "private")
    for path in (saved.path, "private/inbox/alice/nothing.md", "private/DIARY.md"):
        with pytest.raises(InputError) as caught:
            ws.memory.promote(path, "social/RING.md", Audience(clearance=Trust.FAMILIAR), "alice")
        assert str(caught.value) == f"there is no entry {path!r} that waits for review"


@pytest.mark.parametrize("damage", [b"", b"no database at all" * 500, b"SQLite format 3\0" + b"\xff" * 8_000])
def test_damaged(ws: Workspace, damage: bytes) -> None:
    """A damaged index is rebuilt, with a message."""
    find(ws, "birthday")
    ws.memory.close()
    place = Path(ws.files.root, ".foreword", "memory.sqlite")
    place.write_bytes(damage)
    assert find(ws, "birthday", limit=1) == ["social/PEOPLE.md"]
    assert bool(ws.memory.notice) == bool(damage)
    assert not damage or ws.memory.notice.startswith("the memory index was damaged")


def test_damaged_inside(ws: Workspace) -> None:
    """Damage that shows only during a search is repaired in the same search."""
    find(ws, "birthday")
    ws.memory._index_sync._opened.index._base.execute(f"DROP TABLE chunks_{b'social'.hex()}")
    assert find(ws, "birthday", limit=1) == ["social/PEOPLE.md"]
    assert "damaged" in ws.memory.notice


def test_reindexed(ws: Workspace) -> None:
    """The index can be rebuilt, with progress per store."""
    steps = [(step.store, step.documents, step.total) for step in ws.memory.reindex()]
    assert steps == [("private", 1, 1), ("shared", 1, 1), ("social", 1, 1)]
    assert find(ws, "valve") == ["shared/HOUSE.md"]


def test_kept(ws: Workspace) -> None:
    """The next process does not index unchanged files again."""
    time.sleep(0.06)  # a file that was just written is checked again
    find(ws, "valve")
    changes = (
        ws.memory._index_sync._opened.index.figures("shared"),
        dict(ws.memory._index_sync._opened.index.stamps("shared")),
    )
    ws.memory.close()
    with Workspace(ws.files.root, lambda: NOON) as again:
        assert find(again, "valve") == ["shared/HOUSE.md"]
        assert dict(again.memory._index_sync._opened.index.stamps("shared")) == changes[1]


WRITER = """
import sys, foreword
from foreword.memory.entry import Note
from foreword.testing import NOON
from foreword.engine.trust import Audience
from foreword.types import Trust
with foreword.open(sys.argv[1]) as ws:
    for number in range(15):
        text = f"{sys.argv[2]} saw comet{sys.argv[2]}{number}."
        ws.memory.save(Note(text=text, author=sys.argv[2], clearance=Trust.FAMILIAR, time=NOON), "social")
        assert ws.memory.search(f"comet{sys.argv[2]}{number}", Audience(clearance=Trust.FAMILIAR))[0].text == text
"""


def test_two_processes(ws: Workspace) -> None:
    """Two processes that save and search at once lose nothing, and each finds its own entries at once."""
    command = [sys.executable, "-c", WRITER, ws.files.root]
    both = [subprocess.Popen([*command, name], stderr=subprocess.PIPE, text=True) for name in ("ada", "ben")]
    ends = [process.communicate(timeout=120)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], ends
    assert len(list(ws.memory.entries(Audience(clearance=Trust.FULL)))) == 30
    assert len(find(ws, "comet saw ada ben", limit=50)) == 30


MIXED = """
import sys, foreword
from foreword.memory.entry import Note
from foreword.testing import NOON
from foreword.engine.trust import Audience
from foreword.types import Trust
name = sys.argv[2]
with foreword.open(sys.argv[1]) as ws:
    for number in range(12):
        note = Note(text=f"{name} saw comet {number}.", author=name, clearance=Trust.FAMILIAR, time=NOON)
        path = ws.memory.save(note, "social").path
        ws.memory.search("comet birthday", Audience(clearance=Trust.FULL), limit=50)
        if number % 3 == 1:
            ws.memory.forget(path, Audience(clearance=Trust.FULL))
        if number % 3 == 2:
            ws.memory.promote(path, f"shared/{name}-{number}.md", Audience(clearance=Trust.FULL), "alice")
    assert not ws.memory.notice, ws.memory.notice
"""


def test_three_processes(ws: Workspace) -> None:
    """Processes that save, search, forget and promote at once do not disturb one another."""
    command, names = [sys.executable, "-c", MIXED, ws.files.root], ("ada", "ben", "cleo")
    every = [subprocess.Popen([*command, name], stderr=subprocess.PIPE, text=True) for name in names]
    ends = [process.communicate(timeout=120)[1] for process in every]
    assert [process.returncode for process in every] == [0, 0, 0], ends
    ws.refresh(now=True)
    texts = {f"{name} saw comet {number}." for name in names for number in range(12) if number % 3 != 1}
    assert {hit.text for hit in ws.memory.search("saw comet", Audience(clearance=Trust.FULL), limit=50)} == texts
    assert len(list(ws.memory.entries(Audience(clearance=Trust.FULL)))) == 12


SAME = """
import sys, foreword
from foreword.memory.entry import Note
from foreword.testing import NOON
from foreword.types import Trust
with foreword.open(sys.argv[1]) as ws:
    for number in range(40):
        note = Note(text=f"Comet {number}.", author="ada", clearance=Trust.FAMILIAR, time=NOON)
        ws.memory.save(note, "social")
"""


def test_two_processes_with_the_same_words(ws: Workspace) -> None:
    """Two processes that save the same text at once save it once, and neither gets an error."""
    both = [
        subprocess.Popen([sys.executable, "-c", SAME, ws.files.root], stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    ends = [process.communicate(timeout=120)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], ends
    assert len(list(ws.memory.entries(Audience(clearance=Trust.FULL)))) == 40


def test_saved_by_another_in_this_moment(ws: Workspace) -> None:
    """A text that another process has saved in the meantime counts as already known.

    Seen to fail while a file that is there already was an error of the disk.
    """
    with open_workspace(ws.files.root) as other:
        other.memory.save(note("Cake at five."), "social")
        first = ws.memory.save(note("Tea at four."), "social")
        again = other.memory.save(note("Tea at four."), "social")
    assert (again.known, again.path) == (True, first.path)


FULL_DISK = """
import resource, sys, foreword
from foreword.errors import InputError
from foreword.memory.entry import Note
from foreword.testing import NOON
from foreword.engine.trust import Audience
from foreword.types import Trust
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
ws = foreword.open(sys.argv[1])
for act in (
    lambda: ws.memory.save(Note(text="ocelot " * 2_000, author="bob", clearance=Trust.FAMILIAR, time=NOON), "social"),
    lambda: ws.memory.search("birthday", Audience(clearance=Trust.FULL)),
):
    try:
        act()
    except InputError as error:
        print(error)
"""


@pytest.mark.parametrize("room", [0, 5_000])
def test_full_disk(ws: Workspace, room: int) -> None:
    """On a full disk nothing is half written, the message is clear, and saving works once there is room again."""
    run = [sys.executable, "-c", FULL_DISK, ws.files.root, str(room)]
    done = subprocess.run(run, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    first, second = done.stdout.splitlines()
    assert first.endswith("cannot be written: File too large; nothing was saved")
    assert second.startswith("the memory index cannot be used: ")
    left = [path for path in Path(ws.files.root, "memory").rglob("*") if path.is_file()]
    assert len(left) == len(FILES)
    assert find(ws, "birthday", limit=1) == ["social/PEOPLE.md"]


FORGETTER = """
import resource, sys, foreword
from foreword.errors import InputError
from foreword.engine.trust import Audience
from foreword.types import Trust
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    foreword.open(sys.argv[1]).memory.forget(sys.argv[2], Audience(clearance=Trust.FULL))
except InputError as error:
    print(error)
"""


def test_forgotten_on_a_full_disk(ws: Workspace) -> None:
    """An entry that cannot be deleted everywhere stays a file, so that it can be deleted completely later.

    Seen to fail while the file went first, and the words stayed in the index for good.
    """
    saved = ws.memory.save(note("Xanthippe keeps ocelots."), "social")
    assert find(ws, "ocelots") == [saved.path]
    ws.memory.close()
    run = [sys.executable, "-c", FORGETTER, ws.files.root, saved.path]
    done = subprocess.run(run, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("the memory index cannot be used: ")
    ws.memory.forget(saved.path, Audience(clearance=Trust.FULL))
    files = [path for path in Path(ws.files.root).rglob("*") if path.is_file()]
    assert not [path for path in files if b"ocelot" in path.read_bytes()]


def test_not_to_be_written(ws: Workspace) -> None:
    """Where a folder is expected and something else exists, saving and searching report it clearly."""
    write_files(ws.files.root, {"memory/social/inbox": "a file"})
    with pytest.raises(InputError, match="nothing was saved"):
        ws.memory.save(note("x"), "social")
    state = Path(ws.files.root, ".foreword")
    if state.is_dir():
        state.rename(Path(ws.files.root, "old"))
    state.write_text("a file")
    with pytest.raises(InputError, match="the memory index cannot be used"):
        find(ws, "birthday")


def test_store_of_a_clearance(ws: Workspace) -> None:
    """A save belongs in the store of its clearance; public has none."""
    stores = [
        ws.memory.find_store(level)
        for level in (
            Audience(clearance=Trust.FAMILIAR),
            Audience(clearance=Trust.INNER),
            Audience(clearance=Trust.FULL),
        )
    ]
    assert stores == ["social", "shared", "private"]
    with pytest.raises(InputError, match="nothing can be saved here"):
        ws.memory.find_store(Audience(clearance=Trust.PUBLIC))
    with pytest.raises(InputError, match="there is no store"):
        ws.memory.save(note("x"), "nope")


def test_stock(ws: Workspace) -> None:
    """The stock gives the contents of a clearance's stores and how much of it is indexed in its current form."""

    def describe() -> list[tuple[str, int, int, int]]:
        return [
            (s.store, s.documents, s.unreviewed, s.indexed)
            for s in ws.memory.count_stocks(Audience(clearance=Trust.FAMILIAR))
        ]

    assert describe() == [("social", 1, 0, 0)]
    ws.memory.search("bicycles", Audience(clearance=Trust.FAMILIAR))
    assert describe() == [("social", 1, 0, 1)]
    ws.memory.save(Note(text="Rye.", author="bob", clearance=Trust.FAMILIAR, time=NOON), "social")
    assert describe() == [("social", 2, 1, 1)]
    assert [stock.store for stock in ws.memory.count_stocks(Audience(clearance=Trust.FULL))] == [
        "private",
        "shared",
        "social",
    ]
    assert ws.memory.count_stocks(Audience(clearance=Trust.PUBLIC)) == []
