"""The claim that no text that an audience may not see is shown or changes anything, over generated cases."""

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
    OWN_NAMES,
    PEOPLE,
    TRUSTS,
    Case,
    Twin,
    World,
    draw,
    find_leak,
    hide,
    list_audiences,
    list_marks,
    make_world,
    show,
)

from foreword.cli.main import main
from foreword.engine import trust
from foreword.engine.context import SourceReader
from foreword.engine.sources import memory_sections as menu
from foreword.engine.trust import Audience, list_index_stores
from foreword.memory import stores as memory_stores
from foreword.memory.index import Figures, Index
from foreword.memory.index_sync import IndexSync
from foreword.memory.stores import Memory
from foreword.types import Trust
from foreword.workspace import Workspace

SOAK = bool(os.environ.get("FOREWORD_SOAK"))
SEEDS, CASES = (10, 2_000) if SOAK else (1, 200)
COMMAND_CASES = 500 if SOAK else 20


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A workspace, and for each audience the same without the texts that it may not see."""
    with make_world(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def read_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The same, for tests that only read."""
    with make_world(tmp_path_factory.mktemp("world")) as made:
        yield made


@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_nothing_from_above(world: World, seed: int) -> None:
    """No result, list, prompt, report, error, notice or log shows a text of others or above, or changes with one."""
    assert find_leak(world, seed, CASES) == ""


@pytest.mark.parametrize("user", TRUSTS)
@pytest.mark.parametrize("situation", CEILINGS)
def test_everyone_sees_their_own(read_world: World, user: str, situation: str) -> None:
    """The same cases show everything that an audience may see, so an empty answer proves something."""
    world = read_world
    case = Case(surface="", user=user, situation=situation, store="", query="birthday May", path="", number=20)
    asked = [replace(case, surface=name) for name in LOOKING]
    asked += [replace(case, surface="get", path=f"{store}/A.md", number=1) for store in FOLDERS]
    asked += [replace(case, surface="get", path="memories.json", number=1)]
    asked += [replace(case, surface="get", path=f"own/{name}", number=1) for name in OWN_NAMES]
    seen = "\n".join(show(world, world.whole, one) for one in asked)
    shown, hidden = (list_marks(case.audience, seen=one) for one in (True, False))
    assert [word for word in (*shown, *hidden) if word in seen] == shown


Mend = Callable[[pytest.MonkeyPatch], None]
_open_to, _open, _figures = Memory.open_to, Memory._open, Index.figures
_find_memories, _list_own = menu.list_store_lines, menu.list_own_paths


def count_everywhere(index: Index, store: str) -> Figures:
    """Count as if all stores were one table."""
    return replace(_figures(index, store), chunks=sum(_figures(index, one).chunks for one in LEAST))


MUTATIONS: dict[str, Mend] = {
    "the clearance of a search": lambda patch: patch.setattr(
        Memory,
        "open_to",
        lambda self, audience, store="": _open_to(self, replace(audience, clearance=Trust.FULL), store),
    ),
    "the person of a search": lambda patch: patch.setattr(
        Memory, "_open", lambda self, audience, store="": _open(self, replace(audience, person="bob"), store)
    ),
    "the company of a turn": lambda patch: patch.setattr(trust, "has_other_readers", lambda _: False),
    "the clearance of one's own memory": lambda patch: patch.setattr(
        memory_stores, "list_index_stores", lambda person, _: list_index_stores(person, Trust.FULL)
    ),
    "the clearance of one's own files": lambda patch: patch.setattr(
        menu, "list_own_paths", lambda person, _, files: _list_own(person, Trust.FULL, files)
    ),
    "the clearance of facts": lambda patch: patch.setattr(
        Memory,
        "open_to",
        lambda self, one, store="": sorted({*_open_to(self, one, store), *({"facts"} & {store or "facts"})}),
    ),
    "one table for each store": lambda patch: patch.setattr(Index, "figures", count_everywhere),
    "the look at links of a search": lambda patch: patch.setattr(IndexSync, "_stays_in_store", lambda *_: True),
    "the look at links of a turn": lambda patch: patch.setattr(SourceReader, "_may_follow", lambda *_: True),
    "the clearance of a recall": lambda patch: patch.setattr(
        Workspace,
        "recall",
        lambda self, message, audience, documents: self.memory.recall(
            message, replace(audience, clearance=Trust.FULL), documents
        ),
    ),
    "the clearance of the menu": lambda patch: patch.setattr(
        menu, "list_store_lines", lambda view: _find_memories(replace(view, clearance=Trust.FULL))
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_it_would_be_seen(world: World, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The same cases find a leak as soon as any one of the protections is removed."""
    MUTATIONS[name](monkeypatch)
    world.mirror()
    assert find_leak(world, 1, 2_000).startswith("Case(")


@pytest.mark.parametrize("audience", list_audiences(), ids=lambda one: f"{one.clearance}-{one.person or 'company'}")
def test_rows_of_others_are_never_fetched(read_world: World, audience: Audience) -> None:
    """The audience is part of the query: no statement names the tables of a store that it may not see."""
    world = read_world
    memory = world.whole.workspace.memory
    world.whole.refresh()
    said: list[str] = []
    base = memory._index_sync._opened.index._base
    base.set_trace_callback(said.append)
    memory._index_sync.mark_changed(*memory._open(audience))
    for store in ("", "own", *LEAST):
        memory.search("birthday lake May", audience, limit=20, store=store)
    base.set_trace_callback(None)
    stores = [*LEAST, *(store for person in PEOPLE for store in list_index_stores(person, Trust.FULL))]
    named = {one for one in stores if any(f"_{one.encode().hex()} " in f"{s} " or f"'{one}'" in s for s in said)}
    own = list_index_stores(audience.person, audience.clearance)
    assert named == {*own, *(store for store, least in LEAST.items() if audience.clearance >= least)}


def test_same_words(read_world: World) -> None:
    """A path above the clearance gets the answer of a missing path, from every tool that takes one."""
    for name in ("get", "section", "forget", "promote"):
        case = Case(surface=name, user="bob", situation="dm", store="social", query="", path="private/A.md", number=1)
        above, absent = (
            show(read_world, read_world.whole, replace(case, path=path)) for path in (case.path, "private/Z.md")
        )
        assert above.replace("A.md", "Z.md") == absent
        assert "there is no" in above


def test_same_words_for_the_memory_of_others(world: World) -> None:
    """In company, and for a person without any, own memory gets the answer of a missing store."""
    for name in ("search", "get", "section", "list", "forget", "share"):
        for user, situation in (("alice", "group"), ("bob", "group"), ("mallory", "dm")):
            case = Case(
                surface=name, user=user, situation=situation, store="own", query="lake", path="own/A.md", number=1
            )
            own = show(world, world.whole, case)
            absent = show(world, world.whole, replace(case, store="gone", path="gone/A.md"))
            assert own.replace("own", "gone") == absent.replace("own", "gone")


CONFIRMED = re.compile(r"(?<=alice, )[0-9T:+-]+")  # when an entry is confirmed


def speak(twin: Twin, case: Case, capsys: pytest.CaptureFixture[str]) -> str:
    """Run the command line; return its output without the path of the workspace and the clock."""
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
    """The command line shows nothing that an audience may not see, and its output does not depend on it."""
    dice = random.Random(2)
    for _ in range(COMMAND_CASES):
        case = draw(dice)
        if case.surface not in LOOKING or "\0" in case.query:  # no shell passes a NUL
            continue
        world.logged.clear()
        said = speak(world.whole, case, capsys)
        assert not [word for word in hide(case.audience) if word in "\n".join([said, *world.logged])], case
        assert said == speak(world.less[case.audience], case, capsys), case
        if case.surface in ("prompt", "section"):  # something was promoted or forgotten
            world.mirror(case.audience)
