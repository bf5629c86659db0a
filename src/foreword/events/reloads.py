"""Reloads: an edited configuration is told once when it comes into force, and once when it cannot."""

from dataclasses import fields
from threading import Lock
from typing import Protocol

from foreword.config.schema import Config
from foreword.errors import ConfigError, InputError
from foreword.events.event import NOBODY, EventType, Level, Recorder
from foreword.events.trace import REAL_TIME, Timepiece, Trace

CONFIG = "foreword.yaml"


class Configured(Protocol):
    """What has a configuration that is edited while it is used: a workspace."""

    @property
    def config(self) -> Config:
        """The configuration in force."""

    @property
    def fault(self) -> InputError | None:
        """What is wrong with the edit that is not in force."""

    def refresh(self) -> None:
        """See what changed on the disk."""


class Reloads:
    """Tells of every edit of a configuration, for full trust alone; a loop looks before each turn, and while idle."""

    def __init__(self, configured: Configured, recorder: Recorder, timepiece: Timepiece = REAL_TIME) -> None:
        self._configured = configured
        self._recorder = recorder
        self._timepiece = timepiece
        self._lock = Lock()
        self._config = configured.config
        self._told: InputError | None = None

    def look(self) -> None:
        """See whether the configuration in force became another, or an edit is faulty, and tell each once."""
        with self._lock:
            self._configured.refresh()
            config, fault = self._configured.config, self._configured.fault
            if config is not self._config:
                before, self._config = self._config, config
                self._tell(Level.INFO, changed=", ".join(find_changes(before, config)) or "nothing")
            if fault is None:
                self._told = None if is_of_config(self._told) else self._told
            elif str(fault) != str(self._told or ""):
                self._told = fault
                self._tell(Level.ERROR, error=f"{' and '.join(find_places(fault))}: what was in force before still is")

    def _tell(self, level: Level, **said: str) -> None:
        Trace(self._recorder, NOBODY, self._timepiece).tell(EventType.CONFIG_RELOADED, level=level, **said)


def find_changes(before: Config, after: Config) -> list[str]:
    """Name the parts of a configuration that are others now; what they say may be a secret."""
    return [part.name for part in fields(Config) if getattr(before, part.name) != getattr(after, part.name)]


def is_of_config(fault: InputError | None) -> bool:
    """Whether a fault is gone as soon as nobody mentions it; one of a blueprint is mentioned only when that is used."""
    return not isinstance(fault, ConfigError) or all(one.file == CONFIG for one in fault.faults)


def find_places(fault: InputError) -> list[str]:
    """Find where the faults are, file and line; the words of a fault may quote the file, and that may be a secret."""
    if not isinstance(fault, ConfigError):
        return [f"{CONFIG} cannot be used"]
    places = [one.file if one.line is None else f"{one.file}:{one.line}" for one in fault.faults]
    return [f"{place} is faulty" for place in dict.fromkeys(places)]
