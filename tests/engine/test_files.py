"""Claims about the files of a workspace."""

import os
import resource
import time
from pathlib import Path

import pytest

from foreword.engine.sources.documents import Document, FileProblem
from foreword.engine.sources.files import MAX_FILE_BYTES, MAX_VISITED_FOLDERS, RACY_WINDOW_NS, REFRESH_INTERVAL_S, Files
from foreword.errors import PathRefused
from foreword.testing import write_files

OLD = 1_700_000_000_000_000_000  # long ago, so that nothing counts as just written


class Hand:
    """A clock that moves on request."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture
def hand() -> Hand:
    """A clock."""
    return Hand()


@pytest.fixture
def files(tmp_path: Path, hand: Hand) -> Files:
    """A folder with a file in it, and another folder next to it."""
    write_files(tmp_path, {"home/SOUL.md": "Be kind.\n", "home/rules/a.md": "A\n", "away/secret.md": "SECRET\n"})
    for path in (tmp_path / "home").rglob("*"):
        os.utime(path, ns=(OLD, OLD))
    return Files(os.fspath(tmp_path / "home"), hand)


def age(path: Path) -> None:
    """Make a file look as if it had been written long ago."""
    os.utime(path, ns=(OLD, OLD))


def explain(files: Files, path: str) -> str:
    """Return the problem of a file."""
    found = files.read(path)
    assert isinstance(found, FileProblem), found
    return found.reason


def test_read(files: Files) -> None:
    """A file is a document; a missing file is nothing, and no problem."""
    assert isinstance(found := files.read("SOUL.md"), Document)
    assert found.body == "Be kind."
    assert files.read("GONE.md") is None
    assert files.read("rules/gone/GONE.md") is None


@pytest.mark.parametrize(
    "path",
    [
        "../away/secret.md",
        "rules/../../away/secret.md",
        "/etc/passwd",
        "~/x.md",
        "",
        "a\\b.md",
        "C:/x.md",
        "..",
        "a\0b",
    ],
)
def test_climbing_is_refused(files: Files, path: str) -> None:
    """A path that is absolute or climbs is refused before the disk is touched, also where it would lead back in."""
    assert explain(files, path) == "is refused; paths are relative to the workspace and stay below it"
    assert isinstance(files.read_text(path), FileProblem)
    with pytest.raises(PathRefused, match="stay below it"):
        files.locate(path)


def test_link_out(files: Files, tmp_path: Path) -> None:
    """A symbolic link that leads out of the workspace is refused, to a file or through a folder."""
    (tmp_path / "home/LINK.md").symlink_to(tmp_path / "away/secret.md")
    (tmp_path / "home/door").symlink_to(tmp_path / "away")
    assert explain(files, "LINK.md") == "leads out of its workspace or project and is refused"
    assert explain(files, "door/secret.md") == "leads out of its workspace or project and is refused"
    assert files.list("door") == ()


def test_link_out_below_folder(files: Files, tmp_path: Path) -> None:
    """A listed file that is a link out of the workspace is refused when it is read."""
    (tmp_path / "home/rules/b.md").symlink_to(tmp_path / "away/secret.md")
    assert "rules/b.md" in files.list("rules")
    assert explain(files, "rules/b.md") == "leads out of its workspace or project and is refused"


def test_link_to_neighbour(files: Files, tmp_path: Path) -> None:
    """A folder whose name only begins like the root's is not inside it."""
    write_files(tmp_path, {"home-other/x.md": "SECRET\n"})
    (tmp_path / "home/X.md").symlink_to(tmp_path / "home-other/x.md")
    assert explain(files, "X.md") == "leads out of its workspace or project and is refused"


def test_link_inside(files: Files, tmp_path: Path) -> None:
    """A symbolic link that stays inside is followed."""
    (tmp_path / "home/ALIAS.md").symlink_to("SOUL.md")
    assert isinstance(found := files.read("ALIAS.md"), Document)
    assert found.body == "Be kind."


def test_linked_root(tmp_path: Path) -> None:
    """A workspace may itself be reached through a link."""
    write_files(tmp_path / "real", {"SOUL.md": "Be kind.\n"})
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert isinstance(Files(os.fspath(tmp_path / "link")).read("SOUL.md"), Document)


def test_link_loop(files: Files, tmp_path: Path) -> None:
    """A loop of links is named as one."""
    (tmp_path / "home/A.md").symlink_to("B.md")
    (tmp_path / "home/B.md").symlink_to("A.md")
    assert explain(files, "A.md") == "is a loop of symbolic links"


def test_folder_loop(files: Files, tmp_path: Path) -> None:
    """A folder that links to itself is listed once and ends."""
    (tmp_path / "home/rules/again").symlink_to(".")
    assert files.list("rules") == ("rules/a.md",)


def test_pipe(files: Files, tmp_path: Path) -> None:
    """A pipe in the place of a file does not hang the turn."""
    os.mkfifo(tmp_path / "home/PIPE.md")
    assert explain(files, "PIPE.md") == "is not a regular file"


def test_directory(files: Files, tmp_path: Path) -> None:
    """A directory where a file should be is named as one."""
    (tmp_path / "home/AGENTS.md").mkdir()
    assert explain(files, "AGENTS.md") == "is a directory; a file is expected here"


def test_below_a_file(files: Files) -> None:
    """A path below a file does not crash."""
    assert explain(files, "SOUL.md/x.md") == "lies below something that is no directory"


def test_not_utf8(files: Files, tmp_path: Path) -> None:
    """A file in another encoding is refused with the line of its first wrong byte, and the remedy."""
    (tmp_path / "home/X.md").write_bytes(b"one\ntwo\ngr\xfc\xdfe\n")
    assert explain(files, "X.md") == "is not UTF-8 in line 3; save it as UTF-8"


def test_nul(files: Files, tmp_path: Path) -> None:
    """A file with a NUL byte is no text."""
    (tmp_path / "home/X.md").write_bytes(b"one\0two")
    assert explain(files, "X.md") == "has a NUL byte at 3 and is no text"


@pytest.mark.parametrize(
    ("size", "read"), [(MAX_FILE_BYTES - 1, True), (MAX_FILE_BYTES, True), (MAX_FILE_BYTES + 1, False)]
)
def test_largest(files: Files, tmp_path: Path, size: int, read: bool) -> None:
    """A file of the largest size is read; one byte more is refused, with the sizes."""
    (tmp_path / "home/X.md").write_bytes(b"x" * size)
    found = files.read("X.md")
    assert isinstance(found, Document if read else FileProblem)
    if isinstance(found, FileProblem):
        assert found.reason == "has 4,000,001 bytes; at most 4,000,000 are read, so split it"


def test_huge(files: Files, tmp_path: Path) -> None:
    """A file of 200 MB is refused without being read into memory."""
    with (tmp_path / "home/X.md").open("wb") as file:
        file.truncate(200_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "200,000,000 bytes" in explain(files, "X.md")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_permission(files: Files, tmp_path: Path) -> None:
    """A file that may not be read is named as such."""
    (tmp_path / "home/X.md").write_text("x")
    (tmp_path / "home/X.md").chmod(0)
    assert explain(files, "X.md") == "cannot be read: permission denied"


def test_edit_is_seen(files: Files, tmp_path: Path, hand: Hand) -> None:
    """An edit is seen at the next sweep, which is due well within a second, and the generation moves."""
    files.read("SOUL.md")
    (tmp_path / "home/SOUL.md").write_text("Be exact.\n")
    generation = files.refresh()
    assert files.read("SOUL.md").body == "Be kind."
    hand.now += REFRESH_INTERVAL_S
    assert files.refresh() == generation + 1
    assert files.read("SOUL.md").body == "Be exact."
    assert REFRESH_INTERVAL_S < 1


def test_racy_edit_is_seen(files: Files, tmp_path: Path) -> None:
    """A file that was just written is read again, so that an edit of the same size in the same tick is not missed."""
    place = tmp_path / "home/X.md"
    place.write_text("one")
    facts = place.stat()
    assert files.read("X.md").body == "one"
    place.write_text("two")
    os.utime(place, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    files.refresh(now=True)
    assert files.read("X.md").body == "two"


def test_same_size_edit_is_seen(files: Files, tmp_path: Path) -> None:
    """An edit that restores size and time of change is still seen."""
    place = tmp_path / "home/SOUL.md"
    assert files.read("SOUL.md").body == "Be kind."
    place.write_text("Be wise.\n")
    age(place)
    files.refresh(now=True)
    assert files.read("SOUL.md").body == "Be wise."


def test_new_file_is_seen(files: Files, tmp_path: Path) -> None:
    """A file that was missing when it was requested is seen once it exists."""
    assert files.read("NEW.md") is None
    (tmp_path / "home/NEW.md").write_text("New.\n")
    files.refresh(now=True)
    assert files.read("NEW.md").body == "New."


def test_deleted_file_is_seen(files: Files, tmp_path: Path) -> None:
    """A deleted file is gone."""
    assert files.read("SOUL.md") is not None
    (tmp_path / "home/SOUL.md").unlink()
    files.refresh(now=True)
    assert files.read("SOUL.md") is None


def test_list_follows(files: Files, tmp_path: Path) -> None:
    """A list follows created and deleted files, also in new folders, sorted regardless of the disk's order."""
    assert files.list("rules") == ("rules/a.md",)
    assert files.list("skills", "SKILL.md") == ()
    write_files(tmp_path / "home", {"rules/sub/0.md": "0\n", "rules/B.md": "B\n", "skills/x/SKILL.md": "X\n"})
    files.refresh(now=True)
    assert files.list("rules") == ("rules/B.md", "rules/a.md", "rules/sub/0.md")
    assert files.list("skills", "SKILL.md") == ("skills/x/SKILL.md",)
    (tmp_path / "home/rules/B.md").unlink()
    files.refresh(now=True)
    assert files.list("rules") == ("rules/a.md", "rules/sub/0.md")


def test_list_climbing(files: Files) -> None:
    """A folder outside the workspace lists nothing."""
    assert files.list("../away") == ()


def test_link_that_turns_out(files: Files, tmp_path: Path) -> None:
    """A link that is redirected outside after it was read is refused at the next sweep."""
    place = tmp_path / "home/ALIAS.md"
    place.symlink_to("SOUL.md")
    assert isinstance(files.read("ALIAS.md"), Document)
    place.unlink()
    place.symlink_to(tmp_path / "away/secret.md")
    files.refresh(now=True)
    assert explain(files, "ALIAS.md") == "leads out of its workspace or project and is refused"


def test_sweeps_are_rare(files: Files, hand: Hand, tmp_path: Path) -> None:
    """However many builds and edits there are, the disk is checked once in 250 ms, or on request."""
    files.read("SOUL.md")
    before = files.generation
    for number in range(1_000):
        (tmp_path / "home/SOUL.md").write_text(f"Calm {number}.\n")
        hand.now += 0.001
        files.refresh()
        files.read("SOUL.md")
    assert files.generation == before + 4
    (tmp_path / "home/SOUL.md").write_text("Calm again.\n")
    files.refresh(now=True)
    assert files.generation == before + 5


def test_quiet_sweep(files: Files) -> None:
    """A sweep without changes returns the same document objects, once no write can go unseen."""
    time.sleep(2 * RACY_WINDOW_NS / 1e9)
    first, generation = files.read("SOUL.md"), files.generation
    files.refresh(now=True)
    assert files.read("SOUL.md") is first
    assert files.generation == generation


def test_root_of_the_file_system() -> None:
    """The root of the file system holds all paths below it, although its name ends in a slash."""
    name = next((name for name in ("etc/hostname", "etc/passwd") if os.access(f"/{name}", os.R_OK)), "")
    if not name:
        pytest.skip("nothing here is readable by everybody")
    assert isinstance(Files("/").read_text(name), str)
    assert Files("/").find_target(name) == os.path.realpath(f"/{name}").removeprefix("/")


def test_left_folder(tmp_path: Path) -> None:
    """A folder that was not visited for long is dropped, and the generation changes."""
    files = Files(str(tmp_path))
    visited = files.visit("/a")
    for number in range(MAX_VISITED_FOLDERS):
        files.visit(f"/b{number}")
    generation = files.generation
    assert files.refresh(now=True) == generation + 1
    assert files.visit("/a") is not visited


def spoil(place: Path, raw: bytes | None) -> None:
    """Write bytes into a file, or put a folder in its place."""
    if raw is None:
        place.unlink()
        place.mkdir()
    else:
        place.write_bytes(raw)


@pytest.mark.parametrize("raw", [b"a\0b", b"gr\xfc\xdfe", b"x" * (MAX_FILE_BYTES + 1), None])
def test_a_broken_edit(files: Files, tmp_path: Path, raw: bytes | None) -> None:
    """An unusable edit leaves the last good text in force and is a fault until it is corrected."""
    place = tmp_path / "home/SOUL.md"
    files.read("SOUL.md")
    spoil(place, raw)
    for _ in range(3):  # a file that was just written is read again and again
        files.refresh(now=True)
        files.reread()
        assert list(files.faults) == ["SOUL.md"]
        assert files.read("SOUL.md").body == "Be kind."
    assert isinstance(Files(files.root).read("SOUL.md"), FileProblem)
    if raw is None:
        place.rmdir()
    place.write_text("Be exact.\n")
    files.refresh(now=True)
    files.reread()
    assert files.faults == {}
    assert files.read("SOUL.md").body == "Be exact."


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_closed_while_in_force(files: Files, tmp_path: Path) -> None:
    """A text that may not be read any more is still in force, and a fault."""
    files.read("SOUL.md")
    (tmp_path / "home/SOUL.md").chmod(0)
    files.refresh(now=True)
    assert files.read("SOUL.md").body == "Be kind."
    assert files.faults["SOUL.md"].reason == "cannot be read: permission denied"


def test_gone_is_gone(files: Files, tmp_path: Path) -> None:
    """A deleted text is not held, neither after a broken edit nor when something broken takes its place."""
    place = tmp_path / "home/SOUL.md"
    files.read("SOUL.md")
    place.write_bytes(b"\0")
    files.refresh(now=True)
    files.reread()
    place.unlink()
    files.refresh(now=True)
    assert (files.read("SOUL.md"), files.faults) == (None, {})
    place.write_bytes(b"\0")
    files.refresh(now=True)
    assert explain(files, "SOUL.md") == "has a NUL byte at 0 and is no text"


def test_a_link_to_something_broken(files: Files, tmp_path: Path) -> None:
    """A text read through a link is held while the link leads to the same file, and not when it leads elsewhere."""
    place, target = tmp_path / "home/ALIAS.md", tmp_path / "home/SOUL.md"
    place.symlink_to("SOUL.md")
    files.read("ALIAS.md")
    target.write_bytes(b"\0")
    files.refresh(now=True)
    assert files.read("ALIAS.md").body == "Be kind."
    (tmp_path / "home/rules/a.md").write_bytes(b"\0")
    place.unlink()
    place.symlink_to("rules/a.md")
    files.refresh(now=True)
    assert explain(files, "ALIAS.md") == "has a NUL byte at 0 and is no text"
    assert files.faults == {}


def test_a_broken_edit_elsewhere(files: Files, tmp_path: Path) -> None:
    """A broken edit in a visited folder is a fault with its full path."""
    visited = files.visit(os.fspath(tmp_path / "away"))
    visited.read("secret.md")
    (tmp_path / "away/secret.md").write_bytes(b"\0")
    files.refresh(now=True)
    files.reread()
    assert list(files.faults) == [os.fspath(tmp_path / "away/secret.md")]


def test_a_sweep_opens_nothing(files: Files, tmp_path: Path) -> None:
    """A sweep finds that a text changed without opening it: it may belong to another person's turn."""
    files.read("SOUL.md")
    (tmp_path / "home/SOUL.md").write_bytes(b"\0")
    files.refresh(now=True)
    assert files.faults == {}
    files.reread()
    assert list(files.faults) == ["SOUL.md"]
