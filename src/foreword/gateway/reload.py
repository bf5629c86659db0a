"""Reload: an edit of the workspace takes effect within a second, and is recorded once when it does or is invalid.

A component that uses the configuration beyond a turn is a follower. It gets the old and the new configuration, and
returns the settings that need a restart. The owner is notified of those; the rest of the edit applies.
"""

import asyncio
import os
import sqlite3
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import fields
from datetime import datetime
from typing import Any, Protocol

from foreword.config.schema import Config
from foreword.engine.sources.files import REFRESH_INTERVAL_S
from foreword.errors import ConfigError, InputError, WorkspaceError
from foreword.events.event import NO_CONTEXT, EventType, Level, Notice, NoticeFanout, Recorder, read_utc_now
from foreword.events.tracer import Tracer, describe_error
from foreword.types import frozen
from foreword.workspace import Workspace

PREVIOUS_IN_USE = "the previous version stays in use"
BUILT_IN_USED = "a built-in text is used instead, or none; sessions that were sent a good text keep it"
TURNS_FAIL = "turns in its situation fail until it is fixed"
DOCTOR_HINT = "see: foreword doctor"


class InvalidText(WorkspaceError):
    """A text has become invalid. The message names its path and quotes no content."""


class NeverValidText(InvalidText):
    """A text is invalid, and no valid version was read before."""


class Follower(Protocol):
    """A component that uses the configuration for longer than a turn."""

    def follow(self, before: Config, after: Config) -> Iterable[str]:
        """Apply a new configuration without blocking.

        Return every setting that keeps its old value until a restart.
        """


@frozen(eq=True)
class ReloadResult:
    """The result of a check."""

    changed: tuple[str, ...] = ()
    """The parts of the configuration that changed since the last check."""
    restart: tuple[str, ...] = ()
    """Edited settings that need a restart, such as server.port."""
    faulty: tuple[str, ...] = ()
    """File and line of invalid edits. The previous version stays in use."""


def explain_fallback(path: str, config: Config) -> str:
    """Say what replaces a text that was never valid. Without an overlay there is no prompt."""
    overlays = [situation.prompt_overlay for situation in config.situations.values()]
    return TURNS_FAIL if path in overlays else BUILT_IN_USED


def find_changes(before: Config, after: Config) -> list[str]:
    """List the parts of a configuration that changed. Values may be secret and are not included."""
    return [part.name for part in fields(Config) if getattr(before, part.name) != getattr(after, part.name)]


def list_fault_locations(path: str, fault: InputError) -> list[str]:
    """Return file and line of the errors. Messages may quote a file and thus a secret."""
    if not isinstance(fault, ConfigError):
        return [path]
    return [*dict.fromkeys(one.file if one.line is None else f"{one.file}:{one.line}" for one in fault.faults)]


ENV_FILE = ".env"


@frozen
class StartupSettings:
    """Settings that are read only at the start; a changed one needs a restart."""

    started: Config
    names: tuple[str, ...]

    def follow(self, _: Config, after: Config) -> Iterable[str]:
        """List the settings that have changed since the start."""
        return [name for name in self.names if getattr(after, name) != getattr(self.started, name)]


def follow_always(_before: Config, _after: Config) -> bool:
    """Apply every edit."""
    return True


class AsyncFollower:
    """Applies an edit with asynchronous work; database errors are ignored, because the work is repeated elsewhere."""

    def __init__(
        self,
        work: Callable[[Config], Coroutine[Any, Any, object]],
        when: Callable[[Config, Config], bool] = follow_always,
    ) -> None:
        self._work = work
        self._when = when
        self._tasks: set[asyncio.Task[None]] = set()

    def follow(self, before: Config, after: Config) -> Iterable[str]:
        """Start the work if the edit requires it."""
        if not self._when(before, after):
            return ()
        task = asyncio.create_task(self._try(after))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return ()

    async def _try(self, config: Config) -> None:
        with suppress(sqlite3.Error):
            await self._work(config)


class Reloader:
    """Keeps a process up to date with its workspace: applies, logs and reports every edit, at full trust."""

    def __init__(
        self,
        workspace: Workspace,
        recorder: Recorder,
        clock: Callable[[], datetime] = read_utc_now,
        board: NoticeFanout | None = None,
    ) -> None:
        self.board = board or NoticeFanout()
        """Where the owner is notified."""
        self.followers: list[Follower] = []
        """Called with the old and the new configuration after each change."""
        self._workspace = workspace
        self._recorder = recorder
        self._clock = clock
        self._config = workspace.config
        self._pending: tuple[str, ...] = ()
        self._reported_settings: tuple[str, ...] = ()
        self._reported_faults: dict[str, str] = {}
        self._env_file = self._stat_env_file()
        self._failure = ""

    def look(self, *, now: bool = False) -> ReloadResult:
        """Check the workspace for changes, apply and report each once; call it on the event loop's thread."""
        self._workspace.refresh(now=now)
        if now:  # also report files that no turn has read yet
            self._workspace.files.reread()
            list(self._workspace.preview())
        config, faults = self._workspace.config, self._find_faults()
        changed: tuple[str, ...] = ()
        if config is not self._config:
            before, self._config = self._config, config
            changed = tuple(find_changes(before, config))
            self._pending = tuple(dict.fromkeys(self._follow(before, config)))
            self._emit(Level.INFO, changed=", ".join(changed) or "nothing")
        env_file = [ENV_FILE] if self._stat_env_file() != self._env_file else []
        restart = tuple(dict.fromkeys((*self._pending, *env_file)))
        self._report_restart(restart)
        self._report_faults(faults)
        places = (place for path, fault in faults.items() for place in list_fault_locations(path, fault))
        return ReloadResult(changed=changed, restart=restart, faulty=tuple(places))

    async def keep(self) -> None:
        """Check for changes until cancelled."""
        await self._try(first=True)
        while True:
            await asyncio.sleep(REFRESH_INTERVAL_S)
            await self._try()

    async def _try(self, *, first: bool = False) -> None:
        try:
            # Read files in a thread, so that the check below does not block the event loop.
            await asyncio.to_thread(self._read_all if first else self._read_again)
            self.look()
        except Exception as error:  # noqa: BLE001 - if this loop ended, the gateway would keep an old configuration
            said = describe_error(error)
            if said["error"] != self._failure:
                self._failure = said["error"]
                self._emit(Level.ERROR, **said)

    def _read_all(self) -> None:
        """Read the blueprints and files of all agents, as the last valid version if a later edit is broken."""
        for agent in self._workspace.config.agents.values():
            with suppress(InputError):  # a turn of this agent reports the error
                self._workspace.blueprint(agent.blueprint)
        list(self._workspace.preview())

    def _read_again(self) -> None:
        """Read edited files again, even if no turn needs them, so that a broken edit is reported at once."""
        self._workspace.refresh()
        self._workspace.files.reread()

    def _stat_env_file(self) -> tuple[int, int] | None:
        with suppress(OSError):
            facts = os.stat(os.path.join(self._workspace.files.root, ENV_FILE))
            return facts.st_mtime_ns, facts.st_size
        return None

    def _follow(self, before: Config, after: Config) -> Iterable[str]:
        """Pass the configuration to all followers. An error of one does not affect the others."""
        for follower in [*self.followers]:
            try:
                yield from follower.follow(before, after)
            except Exception as error:  # noqa: BLE001 - the other followers must still get the edit
                said = f"the edit was applied only in part, {describe_error(error)['error']}"
                self._warn(said, "a part of Foreword could not apply an edit of foreword.yaml; see: foreword logs")

    def _report_restart(self, names: tuple[str, ...]) -> None:
        """Report settings that need a restart, each once while it is pending."""
        fresh = [name for name in names if name not in self._reported_settings]
        self._reported_settings = names
        if fresh:
            said = f"{' and '.join(fresh)} {'needs' if len(fresh) == 1 else 'need'} a restart"
            self._warn(f"{said}: {PREVIOUS_IN_USE}", f"{said}; until then {PREVIOUS_IN_USE}")

    def _find_faults(self) -> Mapping[str, InputError]:
        spoiled = self._workspace.files.faults
        texts = {path: InvalidText(f"{path} {trouble.reason}") for path, trouble in spoiled.items()}
        lost = {
            path: NeverValidText(f"{path} {trouble.reason}") for path, trouble in self._workspace.files.losses.items()
        }
        return {**lost, **texts, **self._workspace.faults}

    def _report_faults(self, faults: Mapping[str, InputError]) -> None:
        """Report each error once until it is fixed, and then that it is."""
        words = {path: str(fault) for path, fault in faults.items()}
        for path, fault in faults.items():
            if self._reported_faults.get(path) != words[path]:
                instead = explain_fallback(path, self._config) if isinstance(fault, NeverValidText) else PREVIOUS_IN_USE
                said = f"{self._describe(path, fault)}: {instead}; {DOCTOR_HINT}"
                self._warn(said, said)
        for path in self._reported_faults.keys() - words.keys():
            self._emit(Level.INFO, mended=f"{path} is {'good again' if self._workspace.files.has(path) else 'gone'}")
        self._reported_faults = words

    def _describe(self, path: str, fault: InputError) -> str:
        if isinstance(fault, InvalidText):
            return str(fault)
        if not isinstance(fault, ConfigError) and not self._workspace.files.has(path):
            return f"{path} is gone"
        return " and ".join(f"{place} is faulty" for place in list_fault_locations(path, fault))

    def _warn(self, error: str, notice: str) -> None:
        self._emit(Level.ERROR, error=error)
        self.board.notify(Notice(text=notice))

    def _emit(self, level: Level, **said: str) -> None:
        Tracer(self._recorder, NO_CONTEXT, self._clock).emit(EventType.CONFIG_RELOADED, level=level, **said)
