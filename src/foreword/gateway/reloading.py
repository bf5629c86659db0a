"""Reloading: an edit of the workspace is in force within a second, also where nobody writes.

The disk is looked at four times a second; nothing has to say that it changed, since what would say so misses some
mounts. What was read at the start and is not read again, such as the keys, is named as soon as it changes.
"""

import asyncio
import os
import sqlite3
from collections.abc import Callable, Collection, Coroutine, Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any

from foreword.config.schema import Config
from foreword.errors import InputError
from foreword.events.event import NOBODY, EventType, Level
from foreword.events.listening import Listeners
from foreword.events.notices import Board, Notice
from foreword.events.reloads import Reloaded, Reloads
from foreword.events.trace import Timepiece, Trace, describe_error, make_id
from foreword.frozen import frozen
from foreword.gateway.letter import Letter, post
from foreword.gateway.schedule.destination import clear, find_address
from foreword.gateway.schedule.schedules import Destination
from foreword.gateway.writer import Writer
from foreword.sources.files import SWEEP
from foreword.words import Trust
from foreword.workspace import Workspace

KEYS = ".env"


@frozen
class Fixed:
    """Settings that are taken at the start; an edit of one waits for the next start."""

    started: Config
    names: tuple[str, ...]

    def follow(self, _: Config, after: Config) -> Iterable[str]:
        """Name those that are edited."""
        return [name for name in self.names if getattr(after, name) != getattr(self.started, name)]


def always(_before: Config, _after: Config) -> bool:
    """Follow every edit."""
    return True


class Soon:
    """Follows an edit with asynchronous work; the work is repeated elsewhere if the disk refuses it here."""

    def __init__(
        self, work: Callable[[Config], Coroutine[Any, Any, object]], when: Callable[[Config, Config], bool] = always
    ) -> None:
        self._work = work
        self._when = when
        self._tasks: set[asyncio.Task[None]] = set()

    def follow(self, before: Config, after: Config) -> Iterable[str]:
        """Start the work if the edit calls for it."""
        if not self._when(before, after):
            return ()
        task = asyncio.create_task(self._try(after))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return ()

    async def _try(self, config: Config) -> None:
        with suppress(sqlite3.Error):
            await self._work(config)


class ByLetter:
    """Tells the owner in private, at the address they used last on a channel that delivers."""

    def __init__(
        self, workspace: Workspace, writer: Writer, clock: Callable[[], datetime], channels: Collection[str]
    ) -> None:
        self._workspace = workspace
        self._writer = writer
        self._clock = clock
        self._channels = channels
        self._tasks: set[asyncio.Task[None]] = set()

    def notify(self, notice: Notice) -> None:
        """Begin to post a notice; it has a key of its own, so that it is one letter however often it is tried."""
        task = asyncio.create_task(self._post(notice, f"fault\x00{make_id(128)}"))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _post(self, notice: Notice, key: str) -> None:
        def work(state: sqlite3.Connection) -> None:
            config = self._workspace.config
            found = find_address(state, config, config.owner, self._channels)
            # It names files and settings, which nobody below full trust is told, not even the owner elsewhere.
            if found and clear(config.owner, Destination(channel=found[0], address=found[1]), config) is Trust.FULL:
                letter = Letter(key=key, channel=found[0], address=found[1], text=notice.text)
                post(state, letter, self._clock())

        with suppress(sqlite3.Error):  # it is in the log, too
            await self._writer.do(work)


class Reloading:
    """Has everything in a gateway hold to the workspace as it is now."""

    def __init__(self, workspace: Workspace, listeners: Listeners, timepiece: Timepiece, board: Board) -> None:
        self.board = board
        """Where the owner is told."""
        self._workspace = workspace
        self._listeners = listeners
        self._timepiece = timepiece
        self._reloads = Reloads(workspace, listeners.recorder, timepiece, board)
        self.followers = self._reloads.followers
        """Who is told that the configuration is another now: before, after."""
        self.followers.append(listeners)
        self._keys = self._sign_keys()
        self._failure = ""

    def look(self, *, now: bool = False) -> Reloaded:
        """See what changed in the workspace, and have it followed and told; call it on the thread of the loop."""
        if now:  # report on every text, also on those that no turn has read yet
            self._workspace.refresh(now=True)
            self._workspace.files.reread()
            list(self._workspace.preview())
        return self._reloads.look([KEYS] if self._sign_keys() != self._keys else [], now=now)

    async def keep(self) -> None:
        """Look again and again until cancelled."""
        await self._try(first=True)
        while True:
            await asyncio.sleep(SWEEP)
            await self._try()

    async def _try(self, *, first: bool = False) -> None:
        try:
            # Whatever has to be read is read beside the loop; the look itself then finds it done.
            await asyncio.to_thread(self._read_all if first else self._read_again)
            self.look()
        except Exception as error:  # noqa: BLE001 - a gateway that looks no more would hold to an old configuration
            said = describe_error(error)
            if said["error"] != self._failure:
                self._failure = said["error"]
                trace = Trace(self._listeners.recorder, NOBODY, self._timepiece)
                trace.tell(EventType.CONFIG_RELOADED, level=Level.ERROR, **said)

    def _read_all(self) -> None:
        """Read the blueprints and files of all agents, so that there is a good one to keep when an edit breaks one."""
        for agent in self._workspace.config.agents.values():
            with suppress(InputError):  # a turn of this agent says what is wrong
                self._workspace.blueprint(agent.blueprint)
        list(self._workspace.preview())

    def _read_again(self) -> None:
        """Read what was edited since it was read, also where no turn asks for it: a broken edit is told at once."""
        self._workspace.refresh()
        self._workspace.files.reread()

    def _sign_keys(self) -> tuple[int, int] | None:
        with suppress(OSError):
            facts = os.stat(os.path.join(self._workspace.files.root, KEYS))
            return facts.st_mtime_ns, facts.st_size
        return None
