"""The memory tools with malformed input."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from foreword.agent.tools.registry import BUILT_IN
from foreword.assembly import Assembly
from foreword.errors import InputError, quote_name
from foreword.testing import make_workspace
from foreword.turn import Turn
from foreword.types import Verdict
from foreword.workspace import Workspace

CONFIG = "owner: alice\nusers: {alice: {trust: full}, bob: {trust: familiar}}\nmemory: {recall: true}\n"
FILES = {
    "foreword.yaml": CONFIG,
    "memory/private/DIARY.md": "The surprise is a trip to Lisbon.\n",
    "memory/social/PEOPLE.md": "# People\n\nCarol's birthday is on 14 March.\n",
}
TEXTS = {
    "empty": "",
    "blank": " \t\n\u2028\u00a0",
    "operators": "birthday AND (Carol OR NOT NEAR(x, 3)) *",
    "column": "text: birthday heading:x {text heading}: y",
    "quotes": "\"birthday '' \" `x` “Carol’s”",
    "open": '"birthday',
    "minus": "-birthday ^Carol +x",
    "sql": "birthday'); DROP TABLE stores; --",
    "emoji": "birthday 🎂👩‍👩‍👧‍👦🇫🇷",
    "nul": "birth\0day \0",
    "surrogate": "birthday \ud83d \udc00",
    "controls": "birthday\x1b[31m\x07\u202e\ufeff",
    "long": "birthday " * 12_000,
    "one word": "b" * 100_000,
    "many words": " ".join(f"word{number}" for number in range(20_000)),
    "combining": "birthday" + "\u0301" * 5_000,
}
PATHS = {
    "up": "../foreword.yaml",
    "up inside": "social/../private/DIARY.md",
    "far up": "social/" + "../" * 50 + "etc/passwd",
    "absolute": "/etc/passwd",
    "home": "~/.ssh/id_rsa",
    "backslashes": "social\\..\\private\\DIARY.md",
    "drive": "C:\\Windows\\win.ini",
    "address": "file:///etc/passwd",
    "dot": "./social/PEOPLE.md",
    "doubled": "social//PEOPLE.md",
    "trailing": "social/PEOPLE.md/",
    "encoded": "social/%2e%2e/private/DIARY.md",
    "nul": "social/PEOPLE.md\0.txt",
    "surrogate": "social/\ud800.md",
    "folder": "social",
    "other folder": "memory/private/DIARY.md",
    "capitals": "SOCIAL/people.md",
    "settings": "foreword.yaml",
    "state": ".foreword/memory.sqlite",
    "link": "social/fun.md",
    "link to a folder": "social/folder/DIARY.md",
    "link out": "social/etc.md",
    "loop": "social/loop.md",
    "long": "social/" + "x" * 100_000 + ".md",
    "empty": "",
}


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    """A small workspace with links that lead where they should not."""
    with make_workspace(tmp_path, FILES) as workspace:
        social = tmp_path / "memory" / "social"
        for name, target in (
            ("fun.md", "../private/DIARY.md"),
            ("folder", "../private"),
            ("etc.md", "/etc/passwd"),
            ("loop.md", "loop.md"),
        ):
            os.symlink(target, social / name)
        yield workspace


def stand(ws: Workspace, user: str = "bob", message: str = "") -> Assembly:
    """Assemble a turn of a friend."""
    return ws.assemble(Turn(user=user, situation="dm", tools=BUILT_IN, message=message))


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_any_text(ws: Workspace, text: str) -> None:
    """Any text can be searched, recalled and saved, or is refused with a reason; the answer is valid UTF-8."""
    found = ws.call(stand(ws), "memory_search", {"query": text}).text
    assert ("14 March" in found) is ("birth" in text)
    assert "Lisbon" not in found
    turn = stand(ws, message=text)
    assert turn.prompt.text.encode()
    assert next(row for row in turn.rows() if row.id == "recall").verdict in (Verdict.KEPT, Verdict.ABSENT)
    if not text.strip() or len(text) > 20_000:
        with pytest.raises(InputError, match=r"nothing to save|at most 20,000 characters"):
            ws.call(stand(ws), "save_memory", {"text": text})
        return
    said = ws.call(stand(ws), "save_memory", {"text": text}).text
    path = said.removeprefix("Saved as ").removesuffix(".")
    assert path.startswith("own/familiar/")
    assert Path(ws.files.root, "users/bob/memory", path.removeprefix("own/")).read_bytes().decode()
    assert ws.call(stand(ws), "memory_get", {"path": path}).text.encode()


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_any_path(ws: Workspace, path: str) -> None:
    """An invalid path gets the error of a missing one, and nothing is opened or removed."""
    before = sorted(Path(ws.files.root, "memory").rglob("*"))
    for name, key, words in (
        ("memory_get", "path", " here"),
        ("read_section", "id", " here"),
        ("forget_memory", "path", " of this person here"),
        ("share_memory", "path", " of this person here"),
    ):
        with pytest.raises(InputError) as caught:
            ws.call(stand(ws), name, {key: path, "store": "social"})
        assert str(caught.value) == f"there is no {quote_name(path)}{words}"
        assert str(caught.value).encode()
    for target in (path, f"social/{path}"):
        with pytest.raises(InputError):
            ws.memory.promote("social/inbox/bob/none.md", target, stand(ws).audience, "alice")
    assert sorted(Path(ws.files.root, "memory").rglob("*")) == before


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_any_store(ws: Workspace, path: str) -> None:
    """An unknown store is treated as empty, and takes no entries."""
    if path in ("", "social"):
        return
    assert ws.call(stand(ws), "memory_list", {"store": path}).text == "There is nothing in memory."
    assert ws.call(stand(ws), "memory_search", {"query": "birthday", "store": path}).text.startswith("Nothing")
    saved = ws.call(stand(ws), "save_memory", {"text": "x"}).text.removeprefix("Saved as ").removesuffix(".")
    with pytest.raises(InputError, match=r"^there is no "):
        ws.call(stand(ws), "share_memory", {"path": saved, "store": path})


def test_gone_between_index_and_read(ws: Workspace) -> None:
    """A file deleted during a search is not shown, and reading it reports that it is missing."""
    assembly = stand(ws)
    assert "14 March" in ws.call(assembly, "memory_search", {"query": "birthday"}).text
    Path(ws.files.root, "memory/social/PEOPLE.md").unlink()
    assert ws.call(assembly, "memory_search", {"query": "birthday"}).text == "Nothing in memory answers that."
    ws.refresh(now=True)
    with pytest.raises(InputError, match=r"^there is no 'social/PEOPLE\.md' here$"):
        ws.call(stand(ws), "memory_get", {"path": "social/PEOPLE.md"})


def test_gone_before_it_is_forgotten(ws: Workspace) -> None:
    """An entry deleted by hand cannot be forgotten again; the error says so."""
    path = ws.call(stand(ws), "save_memory", {"text": "Tea."}).text.removeprefix("Saved as ").removesuffix(".")
    Path(ws.files.root, "users/bob/memory", path.removeprefix("own/")).unlink()
    time.sleep(0.3)
    with pytest.raises(InputError, match=r"^there is no "):
        ws.call(stand(ws), "forget_memory", {"path": path})
