"""Reloads: an edited configuration is told once when it comes into force, and once when it cannot.

    reloads = Reloads(workspace, recorder)
    reloads.followers.append(schedule)
    reloads.look()

Whoever depends on the configuration beyond a turn is a follower: it is handed the old one and the new one, and names
the settings that only a restart brings into force. Those are told to the owner; the rest of the edit applies.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from threading import Lock
from typing import Protocol

from foreword.config.schema import Config
from foreword.errors import ConfigError, InputError, WorkspaceError
from foreword.events.event import NOBODY, EventType, Level, Recorder
from foreword.events.notices import Board, Notice, Notices
from foreword.events.trace import REAL_TIME, Timepiece, Trace, describe_error
from foreword.frozen import frozen
from foreword.sources.files import Files

STILL = "what was in force before still is"
INSTEAD = "a built-in text is used instead, or none; sessions that were sent a good text keep it"
NO_PROMPT = "turns in its situation fail until it is mended"
REMEDY = "see: foreword doctor"


class SpoiledText(WorkspaceError):
    """A text became unusable; the words name its path and quote nothing of it."""


class LostText(SpoiledText):
    """A text cannot be used, and no good one was read before it."""


class Configured(Protocol):
    """What has a configuration that is edited while it is used: a workspace."""

    @property
    def config(self) -> Config:
        """The configuration in force."""

    @property
    def faults(self) -> Mapping[str, InputError]:
        """What is wrong with edits that are not in force, by their files."""

    @property
    def files(self) -> Files:
        """What it is read from; texts in it can be faulty, too."""

    def refresh(self, *, now: bool = False) -> None:
        """See what changed on the disk."""


class Follower(Protocol):
    """Something that holds to the configuration for longer than a turn."""

    def follow(self, before: Config, after: Config) -> Iterable[str]:
        """Hold to another configuration from now on, without waiting for anything.

        Name every setting in which it still goes by an earlier one, because only a restart can change that.
        """


@frozen(eq=True)
class Reloaded:
    """What a look has found."""

    changed: tuple[str, ...] = ()
    """The parts of the configuration that are others since the look before."""
    restart: tuple[str, ...] = ()
    """What is edited and comes into force with the next start, such as server.port."""
    faulty: tuple[str, ...] = ()
    """Where edits are wrong, file and line; what was in force before still is."""


class Reloads:
    """Tells of every edit of a configuration, for full trust alone; a loop looks before each turn, and while idle."""

    def __init__(
        self,
        configured: Configured,
        recorder: Recorder,
        timepiece: Timepiece = REAL_TIME,
        notices: Notices | None = None,
    ) -> None:
        self.followers: list[Follower] = []
        self._configured = configured
        self._recorder = recorder
        self._timepiece = timepiece
        self._notices = notices or Board()
        self._lock = Lock()
        self._config = configured.config
        self._waiting: tuple[str, ...] = ()
        self._named: tuple[str, ...] = ()
        self._told: dict[str, str] = {}

    def look(self, further: Iterable[str] = (), *, now: bool = False) -> Reloaded:
        """See whether the configuration in force became another, or an edit is faulty, and tell each once.

        What else only a restart brings into force, such as an edited `.env`, is named by whoever knows.
        """
        with self._lock:
            self._configured.refresh(now=now)
            config, faults = self._configured.config, self._find_faults()
            changed: tuple[str, ...] = ()
            if config is not self._config:
                before, self._config = self._config, config
                changed = tuple(find_changes(before, config))
                self._waiting = tuple(dict.fromkeys(self._follow(before, config)))
                self._tell(Level.INFO, changed=", ".join(changed) or "nothing")
            restart = tuple(dict.fromkeys((*self._waiting, *further)))
            self._tell_restart(restart)
            self._tell_faults(faults)
            places = (place for path, fault in faults.items() for place in find_places(path, fault))
            return Reloaded(changed=changed, restart=restart, faulty=tuple(places))

    def _follow(self, before: Config, after: Config) -> Iterable[str]:
        """Hand the configuration on; a follower that fails keeps it from nobody else."""
        for follower in [*self.followers]:
            try:
                yield from follower.follow(before, after)
            except Exception as error:  # noqa: BLE001 - whatever fails in one part, the others are to have the edit
                said = f"the edit came into force only in part, {describe_error(error)['error']}"
                self._warn(said, "a part of Foreword could not follow an edit of foreword.yaml; see: foreword logs")

    def _tell_restart(self, names: tuple[str, ...]) -> None:
        """Tell what waits for a restart, each as long as it does once."""
        fresh = [name for name in names if name not in self._named]
        self._named = names
        if fresh:
            said = f"{' and '.join(fresh)} {'needs' if len(fresh) == 1 else 'need'} a restart"
            self._warn(f"{said}: {STILL}", f"{said}; until then {STILL}")

    def _find_faults(self) -> Mapping[str, InputError]:
        spoiled = self._configured.files.faults
        texts = {path: SpoiledText(f"{path} {trouble.reason}") for path, trouble in spoiled.items()}
        lost = {path: LostText(f"{path} {trouble.reason}") for path, trouble in self._configured.files.losses.items()}
        return {**lost, **texts, **self._configured.faults}

    def _tell_faults(self, faults: Mapping[str, InputError]) -> None:
        """Tell what is wrong, each fault once until it is gone, and that it is."""
        words = {path: str(fault) for path, fault in faults.items()}
        for path, fault in faults.items():
            if self._told.get(path) != words[path]:
                instead = tell_instead(path, self._config) if isinstance(fault, LostText) else STILL
                said = f"{self._describe(path, fault)}: {instead}; {REMEDY}"
                self._warn(said, said)
        for path in self._told.keys() - words.keys():
            self._tell(Level.INFO, mended=f"{path} is {'good again' if self._configured.files.has(path) else 'gone'}")
        self._told = words

    def _describe(self, path: str, fault: InputError) -> str:
        if isinstance(fault, SpoiledText):
            return str(fault)
        if not isinstance(fault, ConfigError) and not self._configured.files.has(path):
            return f"{path} is gone"
        return " and ".join(f"{place} is faulty" for place in find_places(path, fault))

    def _warn(self, error: str, notice: str) -> None:
        self._tell(Level.ERROR, error=error)
        self._notices.notify(Notice(text=notice))

    def _tell(self, level: Level, **said: str) -> None:
        Trace(self._recorder, NOBODY, self._timepiece).tell(EventType.CONFIG_RELOADED, level=level, **said)


def tell_instead(path: str, config: Config) -> str:
    """Say what becomes of turns that need a text which was never good: without an overlay there is no prompt."""
    overlays = [situation.prompt_overlay for situation in config.situations.values()]
    return NO_PROMPT if path in overlays else INSTEAD


def find_changes(before: Config, after: Config) -> list[str]:
    """Name the parts of a configuration that are others now; what they say may be a secret."""
    return [part.name for part in fields(Config) if getattr(before, part.name) != getattr(after, part.name)]


def find_places(path: str, fault: InputError) -> list[str]:
    """Find where the faults are, file and line; the words of a fault may quote the file, and that may be a secret."""
    if not isinstance(fault, ConfigError):
        return [path]
    return [*dict.fromkeys(one.file if one.line is None else f"{one.file}:{one.line}" for one in fault.faults)]
