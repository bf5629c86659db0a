"""The repositories of projects, looked at beside the loop and at most every half minute."""

import asyncio
import time
from collections.abc import Callable

from foreword.facts import find_git
from foreword.frozen import frozen
from foreword.turn import Git

FRESH = 30.0  # seconds in which a repository is not looked at again
PATIENCE = 1.0  # seconds that a turn waits for a look; it then goes without, and the next one has what came of it
MANY = 64  # projects that are remembered


@frozen
class Look:
    """One look at a repository, which several turns may wait for."""

    begun: float
    found: "asyncio.Task[Git | None]"


class Repositories:
    """Finds the state of repositories; who asks for one that was just looked at gets the same answer."""

    def __init__(
        self,
        find: Callable[[str], Git | None] = find_git,
        clock: Callable[[], float] = time.monotonic,
        patience: float = PATIENCE,
    ) -> None:
        self._find = find
        self._clock = clock
        self._patience = patience
        self._looks: dict[str, Look] = {}

    async def find(self, project: str) -> Git | None:
        """Find the state of the repository that a folder is in; None where there is none, or where git does not say."""
        look = self._looks.get(project)
        if look is None or self._clock() - look.begun >= FRESH:
            self._looks.pop(project, None)
            while len(self._looks) >= MANY:
                del self._looks[next(iter(self._looks))]
            task = asyncio.create_task(asyncio.to_thread(self._find, project))
            look = self._looks[project] = Look(begun=self._clock(), found=task)
        done, _ = await asyncio.wait((look.found,), timeout=self._patience)
        return look.found.result() if done else None
