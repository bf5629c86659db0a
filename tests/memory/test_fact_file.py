"""Claims about promoting an entry to one of the facts that all agents share."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from foreword.engine.trust import Audience
from foreword.errors import InputError
from foreword.memory.entry import Note
from foreword.testing import NOON, make_workspace
from foreword.types import Trust
from foreword.workspace import Workspace

FACTS = "memories.json"


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    """A workspace with one fact."""
    with make_workspace(tmp_path, {FACTS: '["Carol likes rye."]'}) as workspace:
        yield workspace


def promote(ws: Workspace, text: str) -> None:
    """Save an entry and promote it."""
    saved = ws.memory.save(Note(text=text, author="bob", clearance=Trust.FAMILIAR, time=NOON), "social")
    ws.memory.promote(saved.path, FACTS, Audience(clearance=Trust.FULL), "alice")


def read(ws: Workspace) -> object:
    """Read the raw file."""
    held = json.loads(Path(ws.files.root, FACTS).read_text(encoding="utf-8"))
    return [one["text"] if isinstance(one, dict) else one for one in held]


def test_promoted(ws: Workspace) -> None:
    """An entry becomes a fact on one line, is found as one at once, and its file is gone."""
    promote(ws, "The ferry\nleaves at noon.")
    assert read(ws) == ["Carol likes rye.", "The ferry leaves at noon."]
    assert [hit.path for hit in ws.memory.search("ferry", Audience(clearance=Trust.INNER), limit=1)] == [FACTS]
    assert list(ws.memory.entries(Audience(clearance=Trust.FULL))) == []


@pytest.mark.parametrize("text", ["Carol likes\nrye.", "x" * 201])
def test_refused(ws: Workspace, text: str) -> None:
    """A fact that exists already, or is too long, stays an entry."""
    with pytest.raises(InputError):
        promote(ws, text)
    assert read(ws) == ["Carol likes rye."]
    assert len(list(ws.memory.entries(Audience(clearance=Trust.FULL)))) == 1


@pytest.mark.parametrize("text", ["{}", "nonsense", "[1]", '{"memories": []}'])
def test_no_list(ws: Workspace, text: str) -> None:
    """A file that holds no plain list is left unchanged."""
    Path(ws.files.root, FACTS).write_text(text)
    with pytest.raises(InputError, match="is not a plain list of texts; correct it first"):
        promote(ws, "The ferry leaves at noon.")
    assert Path(ws.files.root, FACTS).read_text() == text


def test_form(ws: Workspace) -> None:
    """Existing facts are unchanged, and a new one names its author and who confirmed it."""
    Path(ws.files.root, FACTS).write_text('[{"text": "Rye.", "since": 2020}]')
    promote(ws, "The ferry leaves at noon.")
    old, new = json.loads(Path(ws.files.root, FACTS).read_text(encoding="utf-8"))
    assert old == {"text": "Rye.", "since": 2020}
    assert new == {
        "text": "The ferry leaves at noon.",
        "author": "bob",
        "clearance": "familiar",
        "time": "2026-11-15T12:00:00+00:00",
        "confirmed": "alice, 2026-11-15T12:00:00+00:00",
    }


def test_half_a_pair(ws: Workspace) -> None:
    """A fact with half of a pair of surrogates, which only JSON can name, is unchanged.

    Seen to fail while the file was written as strict UTF-8.
    """
    Path(ws.files.root, FACTS).write_text(r'["odd \ud800 fact"]')
    promote(ws, "The ferry leaves at noon.")
    assert read(ws) == ["odd \ud800 fact", "The ferry leaves at noon."]


def test_mode(ws: Workspace) -> None:
    """A file that only its owner may read stays one.

    Seen to fail while the new file had the mode of any new file.
    """
    place = Path(ws.files.root, FACTS)
    place.chmod(0o600)
    promote(ws, "The ferry leaves at noon.")
    assert stat.S_IMODE(place.stat().st_mode) == 0o600


def test_claimed(ws: Workspace) -> None:
    """While another process writes the file, it is not overwritten; the message says what to do."""
    draft = Path(ws.files.root, f"{FACTS}.new")
    draft.write_text("[half")
    with pytest.raises(InputError, match=r"another process; if there is none, remove memories\.json\.new"):
        promote(ws, "The ferry leaves at noon.")
    assert (draft.read_text(), read(ws)) == ("[half", ["Carol likes rye."])
    draft.unlink()
    promote(ws, "The ferry leaves at noon.")
    assert os.listdir(ws.files.root).count(f"{FACTS}.new") == 0


PROMOTER = """
import sys, foreword
from foreword.memory.entry import Note
from foreword.testing import NOON
from foreword.engine.trust import Audience
from foreword.types import Trust
with foreword.open(sys.argv[1]) as ws:
    for number in range(25):
        note = Note(text=f"{sys.argv[2]} saw comet {number}.", author="bob", clearance=Trust.FAMILIAR, time=NOON)
        ws.memory.promote(ws.memory.save(note, "social").path, "memories.json", Audience(clearance=Trust.FULL), "alice")
"""


def test_two_processes(ws: Workspace) -> None:
    """Two processes that promote facts at once lose none.

    Seen to fail while each wrote what it had read before the other wrote.
    """
    command = [sys.executable, "-c", PROMOTER, ws.files.root]
    both = [subprocess.Popen([*command, name], stderr=subprocess.PIPE, text=True) for name in ("ada", "ben")]
    ends = [process.communicate(timeout=120)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], ends
    wanted = {f"{name} saw comet {number}." for name in ("ada", "ben") for number in range(25)}
    assert set(read(ws)) == {"Carol likes rye.", *wanted}
    assert len(read(ws)) == 51


FULL_DISK = """
import resource, sys, foreword
from foreword.errors import InputError
from foreword.engine.trust import Audience
from foreword.types import Trust
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), int(sys.argv[3])))
ws = foreword.open(sys.argv[1])
try:
    ws.memory.promote(sys.argv[2], sys.argv[4], Audience(clearance=Trust.FULL), "alice")
except InputError as error:
    print(error)
"""


@pytest.mark.parametrize("room", [0, 10, 150])
@pytest.mark.parametrize("target", [FACTS, "social/FERRY.md"])
def test_full_disk(ws: Workspace, room: int, target: str) -> None:
    """On a full disk a promotion says so, the entry stays in its inbox, and no file is half written."""
    before = json.dumps([f"Fact {number}." for number in range(20)])
    Path(ws.files.root, FACTS).write_text(before)
    note = Note(text="The ferry leaves at noon. " * 7, author="bob", clearance=Trust.FAMILIAR, time=NOON)
    saved = ws.memory.save(note, "social")
    run = [sys.executable, "-c", FULL_DISK, ws.files.root, saved.path, str(room), target]
    done = subprocess.run(run, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert "cannot be written: File too large; nothing was" in done.stdout
    assert Path(ws.files.root, FACTS).read_text() == before
    files = [path.name for path in Path(ws.files.root).rglob("*") if path.is_file() and ".foreword" not in path.parts]
    assert sorted(files) == sorted(["foreword.yaml", FACTS, Path(saved.path).name])
    ws.memory.promote(saved.path, target, Audience(clearance=Trust.FULL), "alice")
    assert ws.memory.search("ferry", Audience(clearance=Trust.FULL))[0].path == target
