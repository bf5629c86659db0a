"""Git state of projects: read outside the event loop, at most every half minute."""

import asyncio
import threading

from foreword.gateway.equipment import GIT_CACHE_S, MAX_CACHED_PROJECTS, GitStates
from foreword.turn import Git
from waiting import PATIENCE


class FakeRepositories:
    """Fake repositories that record reads, with a manual clock."""

    def __init__(self):
        self.reads, self.now, self.gate = [], 0.0, threading.Event()
        self.gate.set()

    def find(self, path):
        """Read one."""
        self.reads.append(path)
        self.gate.wait(PATIENCE)
        return Git(branch=f"{path}-{len(self.reads)}")

    def open(self, **more):
        """Open the cache."""
        return GitStates(self.find, lambda: self.now, **more)


def test_fresh():
    """Within half a minute the state is cached; afterwards it is read again."""
    fake = FakeRepositories()

    async def run():
        repositories = fake.open()
        found = [await repositories.find("a")]
        fake.now = GIT_CACHE_S - 1
        found += [await repositories.find("a"), await repositories.find("b")]
        fake.now = GIT_CACHE_S
        return [*found, await repositories.find("a")]

    assert [git.branch for git in asyncio.run(run())] == ["a-1", "a-1", "b-2", "a-3"]


def test_at_once():
    """Concurrent requests share one read, and cancelling one does not cancel the others."""
    fake = FakeRepositories()
    fake.gate.clear()

    async def run():
        repositories = fake.open()
        asking = [asyncio.create_task(repositories.find("a")) for _ in range(5)]
        await asyncio.sleep(0.02)
        asking[0].cancel()
        fake.gate.set()
        return await asyncio.gather(*asking, return_exceptions=True)

    first, *others = asyncio.run(run())
    assert isinstance(first, asyncio.CancelledError)
    assert {git.branch for git in others} == {"a-1"}
    assert fake.reads == ["a"]


def test_slow():
    """A turn does not wait long: it continues without the state, and the next one has it."""
    fake = FakeRepositories()
    fake.gate.clear()

    async def run():
        repositories = fake.open(timeout_s=0.02)
        first = await repositories.find("a")
        fake.gate.set()
        async with asyncio.timeout(PATIENCE):
            while (second := await repositories.find("a")) is None:
                pass
        return first, second

    first, second = asyncio.run(run())
    assert first is None
    assert second.branch == "a-1"


def test_bounded():
    """The number of cached projects is bounded."""
    fake = FakeRepositories()

    async def run():
        repositories = fake.open()
        for number in range(MAX_CACHED_PROJECTS + 3):
            await repositories.find(str(number))
        await repositories.find("0")
        return len(repositories._queries)

    assert asyncio.run(run()) == MAX_CACHED_PROJECTS
    assert fake.reads.count("0") == 2
