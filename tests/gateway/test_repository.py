"""Git state of projects: read outside the event loop, at most every half minute."""

import asyncio
import threading

from desk import open_desk

from foreword.gateway.equipment import GIT_CACHE_S, MAX_CACHED_PROJECTS, EquipmentFinder, GitStates
from foreword.testing import make_workspace
from foreword.turn import NO_TOOLS, Git
from waiting import PATIENCE


class Shelf:
    """Fake repositories that record reads, with a manual clock."""

    def __init__(self):
        self.looks, self.now, self.gate = [], 0.0, threading.Event()
        self.gate.set()

    def find(self, path):
        """Read one."""
        self.looks.append(path)
        self.gate.wait(PATIENCE)
        return Git(branch=f"{path}-{len(self.looks)}")

    def open(self, **more):
        """Open the cache."""
        return GitStates(self.find, lambda: self.now, **more)


def test_fresh():
    """Within half a minute the state is cached; afterwards it is read again."""
    shelf = Shelf()

    async def run():
        repositories = shelf.open()
        found = [await repositories.find("a")]
        shelf.now = GIT_CACHE_S - 1
        found += [await repositories.find("a"), await repositories.find("b")]
        shelf.now = GIT_CACHE_S
        return [*found, await repositories.find("a")]

    assert [git.branch for git in asyncio.run(run())] == ["a-1", "a-1", "b-2", "a-3"]


def test_at_once():
    """Concurrent requests share one read, and cancelling one does not cancel the others."""
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
    """A turn does not wait long: it continues without the state, and the next one has it."""
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
    """The number of cached projects is bounded."""
    shelf = Shelf()

    async def run():
        repositories = shelf.open()
        for number in range(MAX_CACHED_PROJECTS + 3):
            await repositories.find(str(number))
        await repositories.find("0")
        return len(repositories._looks)

    assert asyncio.run(run()) == MAX_CACHED_PROJECTS
    assert shelf.looks.count("0") == 2


class Chosen:
    """A fake that always returns the same model and no tools."""

    async def choose(self, _agent, _named=""):
        """Return the model."""
        return "anthropic:claude-sonnet-5"

    async def find(self, _agent, session=""):  # noqa: ARG002 - no tools in any session
        """Return no tools."""
        return NO_TOOLS, ()


def test_not_even_opened(tmp_path):
    """Below inner trust, or without a project, no repository is read."""
    shelf = Shelf()

    async def run():
        workspace = make_workspace(tmp_path / "ws", {"foreword.yaml": "owner: alice\nusers: {alice: {trust: full}}\n"})
        with open_desk(tmp_path) as desk:
            equipping = EquipmentFinder(workspace, Chosen(), Chosen(), desk.writer, (), repositories=shelf.open())
            for fields in ({"user": "bob", "project": "a"}, {"user": "alice"}, {"user": "alice", "room": "kitchen"}):
                assert (await equipping.equip(await desk.accept(**fields))).git is None
            assert shelf.looks == []
            claimed = await desk.accept(user="carol", project="a")
            assert (await equipping.equip(claimed)).git == Git(branch="a-1")

    asyncio.run(run())
