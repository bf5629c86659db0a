"""The claim that no text above a clearance is shown by anything, or changes anything, over generated cases."""

import os
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from clearance_world import (
    CEILINGS,
    FOLDERS,
    LEAST,
    LOOKING,
    TRUSTS,
    Case,
    Twin,
    World,
    draw,
    find_leak,
    hide,
    make_world,
    show,
)

from foreword import Workspace
from foreword.cli import main
from foreword.memory import Memory
from foreword.memory.index import Figures
from foreword.memory.sqlite_index import SqliteIndex
from foreword.memory.upkeep import Upkeep
from foreword.sources import catalogue as menu
from foreword.sources.trace import Reader
from foreword.words import Trust

SOAK = bool(os.environ.get("FOREWORD_SOAK"))
CASES = 100_000 if SOAK else 2_000
SPOKEN = 500 if SOAK else 60  # cases at the command line


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A workspace, and the same without what is above each clearance."""
    with make_world(tmp_path) as made:
        yield made


def test_nothing_from_above(world: World) -> None:
    """No result, list, prompt, report, error, notice or log shows a text above the clearance, or changes with one."""
    assert find_leak(world, 1, CASES) == ""


@pytest.mark.parametrize("user", TRUSTS)
@pytest.mark.parametrize("situation", CEILINGS)
def test_everybody_sees_their_own(world: World, user: str, situation: str) -> None:
    """The same cases show everything that a clearance may see, so that silence proves something."""
    case = Case(surface="", user=user, situation=situation, store="", query="birthday May", path="", number=20)
    asked = [replace(case, surface=name) for name in LOOKING]
    asked += [replace(case, surface="get", path=f"{store}/A.md", number=1) for store in FOLDERS]
    asked += [replace(case, surface="get", path="memories.json", number=1)]
    seen = "\n".join(show(world, world.whole, one) for one in asked)
    assert {store for store in LEAST if f"mark{store}" in seen} == {
        store for store, least in LEAST.items() if case.level >= least
    }


Mend = Callable[[pytest.MonkeyPatch], None]
_open_to, _figures, _find_memories = Memory.open_to, SqliteIndex.figures, menu.find_memories


def count_everywhere(index: SqliteIndex, store: str) -> Figures:
    """Count as if all stores were one table."""
    return replace(_figures(index, store), chunks=sum(_figures(index, one).chunks for one in LEAST))


MUTATIONS: dict[str, Mend] = {
    "the clearance of a search": lambda patch: patch.setattr(
        Memory, "open_to", lambda self, _, store="": _open_to(self, Trust.FULL, store)
    ),
    "the clearance of facts": lambda patch: patch.setattr(
        Memory,
        "open_to",
        lambda self, level, store="": sorted({*_open_to(self, level, store), *({"facts"} & {store or "facts"})}),
    ),
    "one table for each store": lambda patch: patch.setattr(SqliteIndex, "figures", count_everywhere),
    "the look at links of a search": lambda patch: patch.setattr(Upkeep, "_holds", lambda *_: True),
    "the look at links of a turn": lambda patch: patch.setattr(Reader, "_may_follow", lambda *_: True),
    "the clearance of a recall": lambda patch: patch.setattr(
        Workspace, "recall", lambda self, message, _, documents: self.memory.recall(message, Trust.FULL, documents)
    ),
    "the clearance of the menu": lambda patch: patch.setattr(
        menu, "find_memories", lambda view: _find_memories(replace(view, clearance=Trust.FULL))
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_it_would_be_seen(world: World, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The same cases find a leak as soon as any one of the things that hold is taken away."""
    MUTATIONS[name](monkeypatch)
    world.mirror()
    assert find_leak(world, 1, 2_000).startswith("Case(")


@pytest.mark.parametrize("level", Trust)
def test_rows_above_are_never_fetched(world: World, level: Trust) -> None:
    """The clearance is part of the query: no statement names the tables of a store above it."""
    memory = world.whole.workspace.memory
    memory.search("birthday", Trust.FULL)
    said: list[str] = []
    base = memory._upkeep._opened.index._base
    base.set_trace_callback(said.append)
    memory._upkeep.see(*LEAST)
    for store in ("", *LEAST):
        memory.search("birthday lake May", level, limit=20, store=store)
    base.set_trace_callback(None)
    named = {store for store in LEAST if any(store.encode().hex() in one or f"'{store}'" in one for one in said)}
    assert named == {store for store, least in LEAST.items() if level >= least}


def test_same_words(world: World) -> None:
    """A path above the clearance gets the words of a path that does not exist, from every tool that takes one."""
    for name in ("get", "section", "forget", "promote"):
        case = Case(surface=name, user="bob", situation="dm", store="social", query="", path="private/A.md", number=1)
        above, absent = (show(world, world.whole, replace(case, path=path)) for path in (case.path, "private/Z.md"))
        assert above.replace("A.md", "Z.md") == absent
        assert "there is no" in above


CONFIRMED = re.compile(r"(?<=alice, )[0-9T:+-]+")  # when an entry is confirmed


def speak(twin: Twin, case: Case, capsys: pytest.CaptureFixture[str]) -> str:
    """Ask at the command line, and return all that it says, without the place of the workspace and the clock."""
    heading = ["--heading", "Notes"] if case.number % 3 else []
    actions = {
        "search": ["search", case.query or "x", "--limit", str(case.number)],
        "get": ["get", case.path or "x"],
        "list": ["list"],
        "read": ["review"],
        "prompt": ["review", case.path or "x", "--promote", "private/P.md", *heading],
        "section": ["forget", case.path or "x"],
    }
    words = ["-w", str(twin.root), "memory", *actions[case.surface]]
    words += ["--user", case.user, "--situation", case.situation, "--store", case.store]
    code = main([*words, "--json"] if case.number % 2 else words)
    said = capsys.readouterr()
    return CONFIRMED.sub("NOW", f"{code}\n{said.out}\n{said.err}".replace(str(twin.root), "HERE"))


def test_nothing_at_the_command_line(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """The command line shows nothing above a clearance, nor does anything that it says change with it."""
    dice = random.Random(2)
    for _ in range(SPOKEN):
        case = draw(dice)
        if case.surface not in LOOKING or "\0" in case.query:  # no shell passes a NUL
            continue
        world.logged.clear()
        said = speak(world.whole, case, capsys)
        assert not [word for word in hide(case.level) if word in "\n".join([said, *world.logged])], case
        assert said == speak(world.less[case.level], case, capsys), case
        if case.surface in ("prompt", "section"):  # something was promoted or forgotten
            world.mirror()
