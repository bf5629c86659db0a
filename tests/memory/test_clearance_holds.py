"""The claim that no text above a clearance is shown by anything, over generated cases."""

import os
import random
from pathlib import Path

import pytest

from foreword import Turn, Workspace
from foreword.errors import InputError
from foreword.memory import Memory
from foreword.memory.upkeep import Upkeep
from foreword.testing import make_workspace
from foreword.tools import BUILT_IN
from foreword.words import Trust

CASES = 100_000 if os.environ.get("FOREWORD_SOAK") else 3_000
CONFIG = """\
owner: alice
users: {alice: {trust: full}, carol: {trust: inner}, bob: {trust: familiar}}
situations: {dm: {ceiling: full}, group: {ceiling: familiar}, open: {ceiling: public}}
stores: {private: {trust: full}, shared: {trust: inner}, social: {trust: familiar}, vault: {trust: full}}
"""
LEAST = {"private": Trust.FULL, "vault": Trust.FULL, "shared": Trust.INNER, "social": Trust.FAMILIAR}
TRUSTS = {"alice": Trust.FULL, "carol": Trust.INNER, "bob": Trust.FAMILIAR, "mallory": Trust.PUBLIC}
CEILINGS = {"dm": Trust.FULL, "group": Trust.FAMILIAR, "open": Trust.PUBLIC}
WORDS = (
    "birthday",
    "lake",
    "garden",
    "ring",
    "tax",
    "noon",
    "ferry",
    "bread",
    "OR",
    "NOT",
    '"',
    "*",
    "🙂",
    "private",
    "",
)
NAMES = ("A.md", "B.md", "deep/C.md", "inbox/bob/d.md", "inbox/alice/e.md", "link.md", "up", "nothing.md", "")
SHAPES = ("{store}/{name}", "memory/{store}/{name}", "social/../{store}/{name}", "/{store}/{name}", "{store}/./{name}")


def mark(store: str) -> str:
    """Return a word that stands in every text of one store and nowhere else."""
    return f"mark{store}"


def make_files() -> dict[str, str]:
    """Make the same words in every store, each with the mark of its store in text, heading and front matter."""
    files = {"foreword.yaml": CONFIG}
    for store in LEAST:
        word = mark(store)
        for name in NAMES[:5]:
            head = f"---\ndescription: {word} described\ntime: {word}\nchannel: {word}\n---\n"
            text = f"# Heading {word}\n\nThe birthday at the lake, {word}.\n\nA ring, a garden, tax at noon {word}.\n"
            files[f"memory/{store}/{name}"] = head + text
    return files


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    """A workspace with links from the lowest store to every other."""
    workspace = make_workspace(tmp_path, make_files())
    social = tmp_path / "memory" / "social"
    os.symlink("../private/A.md", social / "link.md")
    os.symlink("../vault", social / "up")
    os.symlink("../shared/deep/C.md", social / "deep" / "link.md")
    yield workspace
    workspace.close()


def find_leak(ws: Workspace, seed: int, cases: int) -> str:
    """Try generated cases, and return the first that shows a mark above its clearance, or nothing."""
    dice = random.Random(seed)
    turns = {
        (user, situation): ws.assemble(Turn(user=user, situation=situation, tools=BUILT_IN))
        for user in TRUSTS
        for situation in CEILINGS
    }
    for _ in range(cases):
        user, situation = dice.choice(list(TRUSTS)), dice.choice(list(CEILINGS))
        level = min(TRUSTS[user], CEILINGS[situation])
        hidden = [mark(store) for store, least in LEAST.items() if level < least]
        store = dice.choice([*LEAST, "", "nope"])
        query = " ".join(dice.choices([*WORDS, *hidden], k=dice.randint(1, 4)))
        path = dice.choice(SHAPES).format(store=store, name=dice.choice(NAMES))
        name, arguments = dice.choice(
            [
                ("memory_search", {"query": query, "store": store, "limit": dice.randint(1, 20)}),
                ("memory_get", {"path": path}),
                ("memory_list", {"store": store}),
                ("read_memory", {}),
            ]
        )
        shown = answer(ws, turns[user, situation], name, arguments)
        for word in hidden:
            if word in shown:
                return f"{user} in {situation}: {name} {arguments} shows {word}"
        if name == "memory_search":
            hits = ws.memory.search(query, level, limit=20, store=store)
            if any(word in repr(hits) for word in hidden):
                return f"{level}: {query!r} in {store!r}"
    return ""


def answer(ws: Workspace, assembly: object, name: str, arguments: dict[str, object]) -> str:
    """Return all that a call shows, be it an error."""
    try:
        return repr(ws.call(assembly, name, arguments))
    except InputError as error:
        return str(error)


def test_nothing_from_above(ws: Workspace) -> None:
    """No result, list or error shows a text above the clearance."""
    assert find_leak(ws, 1, CASES) == ""


def test_it_would_be_seen(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the filter the same cases find a leak."""
    monkeypatch.setattr(Memory, "open_to", lambda self, _, store="": [store] if store else list(self._stores))
    assert "shows mark" in find_leak(ws, 1, CASES)


def test_links_would_be_seen(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the look at links the same cases find a leak."""
    monkeypatch.setattr(Upkeep, "_holds", lambda *_: True)
    assert "shows mark" in find_leak(ws, 1, CASES)


def test_same_words(ws: Workspace) -> None:
    """A path above the clearance gets the words of a path that does not exist."""
    assembly = ws.assemble(Turn(user="bob", situation="dm", tools=BUILT_IN))
    for name in ("memory_get", "forget_memory"):
        above = answer(ws, assembly, name, {"path": "private/A.md"})
        assert above.replace("A.md", "Z.md") == answer(ws, assembly, name, {"path": "private/Z.md"})
