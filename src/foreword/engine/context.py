"""The assembly context: configuration, files, meters and caches that outlive a turn.

The stored character of an agent: soul, identity and responsibilities set while it runs. A cache for pure functions.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import field
from threading import Lock
from typing import Any, TypeVar

from foreword.config.schema import Config, Identity, Responsibility
from foreword.engine.blueprint import Blueprint
from foreword.engine.file_access import ArchivedSession, FileGuard, find_no_archive
from foreword.engine.selection import Hook
from foreword.engine.sources.files import Files, TextFiles
from foreword.engine.sources.sections import Recall
from foreword.tokens.count import Meter
from foreword.types import Trust, frozen

STORED_IDENTITY_TRUST = (
    Trust.FAMILIAR
)  # the lowest clearance that sees a stored identity; below it, the configured identity is used


@frozen(eq=True)
class StoredCharacter:
    """The stored character of an agent. A value that is set takes precedence over configuration and files."""

    soul: str = ""
    identity: Identity | str | None = None
    responsibilities: tuple[Responsibility, ...] = ()
    """Responsibilities added while the agent runs, in addition to the configured ones."""


NO_CHARACTER = StoredCharacter()


def find_no_character(_: str) -> StoredCharacter:
    """Return an empty character: the default of an agent without stored state."""
    return NO_CHARACTER


T = TypeVar("T")

MAX_CACHED_RESULTS = 4_096


class ResultCache:
    """Caches results by argument identity (`once`) or by an equal key (`recall`)."""

    __slots__ = ("_by_identity", "_by_key", "_kept")

    def __init__(self, kept: int = MAX_CACHED_RESULTS) -> None:
        self._kept = kept
        self._by_identity: dict[tuple[Any, ...], tuple[Any, tuple[Any, ...]]] = {}
        self._by_key: dict[Hashable, Any] = {}

    def once(self, function: Callable[..., T], *args: object) -> T:
        """Call a pure function once for these objects; the cache holds them, so that their ids stay unique."""
        key = (function, *map(id, args))
        known = self._by_identity.get(key)
        if known is None:
            if len(self._by_identity) >= self._kept:
                self._by_identity.clear()
            known = self._by_identity[key] = (function(*args), args)
        value: T = known[0]
        return value

    def recall(self, key: Hashable, make: Callable[[], T]) -> T:
        """Create a value once per key."""
        known: T | None = self._by_key.get(key)
        if known is None:
            if len(self._by_key) >= self._kept:
                self._by_key.clear()
            known = self._by_key[key] = make()
        return known


@frozen
class AssemblyContext:
    """Everything a turn needs that outlives it; replaced as a whole when the configuration changes."""

    config: Config
    files: Files | TextFiles
    measure: Callable[[str], Meter]
    hooks: Mapping[str, Hook] = field(default_factory=dict)
    characters: Callable[[str], StoredCharacter] = find_no_character
    """Returns the stored character of an agent; the same object until it changes, so that caches stay valid."""
    archives: Callable[[str], ArchivedSession | None] = find_no_archive
    """Returns the session of a transcript."""
    memories: Recall | None = None
    """The memory search, used if the prompt mode or the configuration enables recall."""
    memo: ResultCache = field(default_factory=ResultCache)
    scratch: ResultCache = field(default_factory=lambda: ResultCache(65_536))
    lock: Lock = field(default_factory=Lock)
    """Held while files are read, so that two threads cannot mix their traces."""

    def guard(self, blueprint: Blueprint) -> FileGuard:
        """Return the file guard of a blueprint."""
        return self.memo.recall(("guard", blueprint), lambda: FileGuard(blueprint, self.config))
