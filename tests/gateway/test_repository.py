"""Claims about the repositories of projects: looked at beside the loop, and at most every half minute."""

import asyncio
import threading

from desk import open_desk

from foreword.gateway.equipping import Equipping
from foreword.gateway.repository import FRESH, MANY, Repositories
from foreword.testing import make_workspace
from foreword.turn import NO_TOOLS, Git
from waiting import PATIENCE


class Shelf:
    """Repositories that count how often they are looked at, with a clock that is moved by hand."""

    def __init__(self):
        self.looks, self.now, self.gate = [], 0.0, threading.Event()
        self.gate.set()

    def find(self, path):
        """Look at one."""
        self.looks.append(path)
        self.gate.wait(PATIENCE)
        return Git(branch=f"{path}-{len(self.looks)}")

    def open(self, **more):
        """Open them."""
        return Repositories(self.find, lambda: self.now, **more)


def test_fresh():
    """Within half a minute the answer is the same one, and nobody looks again; after it, somebody does."""
    shelf = Shelf()

    async def run():
        repositories = shelf.open()
        found = [await repositories.find("a")]
        shelf.now = FRESH - 1
        found += [await repositories.find("a"), await repositories.find("b")]
        shelf.now = FRESH
        return [*found, await repositories.find("a")]

    assert [git.branch for git in asyncio.run(run())] == ["a-1", "a-1", "b-2", "a-3"]


def test_at_once():
    """Many who ask at once wait for one look, and who is stopped meanwhile does not stop it for the others."""
    shelf = Shelf()
    shelf.gate.clear()

    async def run():
        repositories = shelf.open()
        asking = [asyncio.create_task(repositories.find("a")) for _ in range(5)]
        await asyncio.sleep(0.02)
        asking[0].cancel()
        shelf.gate.set()
        return await asyncio.gather(*asking, return_exceptions=True)

    first, *others = asyncio.run(run())
    assert isinstance(first, asyncio.CancelledError)
    assert {git.branch for git in others} == {"a-1"}
    assert shelf.looks == ["a"]


def test_slow():
    """A turn does not wait for long: it goes without, and the next one has what came of the look."""
    shelf = Shelf()
    shelf.gate.clear()

    async def run():
        repositories = shelf.open(patience=0.02)
        first = await repositories.find("a")
        shelf.gate.set()
        async with asyncio.timeout(PATIENCE):
            while (second := await repositories.find("a")) is None:
                pass
        return first, second

    first, second = asyncio.run(run())
    assert first is None
    assert second.branch == "a-1"


def test_bounded():
    """However many projects there are, few are remembered."""
    shelf = Shelf()

    async def run():
        repositories = shelf.open()
        for number in range(MANY + 3):
            await repositories.find(str(number))
        await repositories.find("0")
        return len(repositories._looks)

    assert asyncio.run(run()) == MANY
    assert shelf.looks.count("0") == 2


class Chosen:
    """Chooses always the same model, and has no tools."""

    async def choose(self, _agent, _named=""):
        """Choose it."""
        return "anthropic:claude-sonnet-5"

    async def find(self, _agent, session=""):  # noqa: ARG002 - it has none in any session
        """Find nothing."""
        return NO_TOOLS, ()

    async def offer(self, _claimed, tools):
        """Offer what there is."""
        return tools


def test_not_even_opened(tmp_path):
    """Below inner, and without a project, nobody looks at a repository at all."""
    shelf = Shelf()

    async def run():
        workspace = make_workspace(tmp_path / "ws", {"foreword.yaml": "owner: alice\nusers: {alice: {trust: full}}\n"})
        equipping = Equipping(workspace, Chosen(), Chosen(), Chosen(), repositories=shelf.open())
        with open_desk(tmp_path) as desk:
            for fields in ({"user": "bob", "project": "a"}, {"user": "alice"}, {"user": "alice", "room": "kitchen"}):
                assert (await equipping.equip(await desk.accept(**fields))).git is None
            assert shelf.looks == []
            claimed = await desk.accept(user="carol", project="a")
            assert (await equipping.equip(claimed)).git == Git(branch="a-1")

    asyncio.run(run())
