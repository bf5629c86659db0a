"""The inputs of an assembly: the context that outlives a turn, and the views of its sources.

A view holds only the data that its pace may depend on.
"""

import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any, TypeVar

from foreword.config.schema import Agent, Config, Identity, Responsibility, Store
from foreword.engine.blueprint import Blueprint
from foreword.engine.selection import Hook
from foreword.engine.sources.documents import Document, FileProblem
from foreword.engine.sources.files import Files, TextFiles
from foreword.engine.sources.sections import Passage, Recall
from foreword.engine.trust import ArchivedSession, FileGuard, is_archive
from foreword.tokens.count import Meter
from foreword.turn import Client, Extension, Git, Host, Sandbox, Signal, State, Task, Toolset
from foreword.types import Delivery, Mode, Trust, frozen

T = TypeVar("T")
MAX_CACHED_RESULTS = 1_024
MEMORY_PREFIX = "memory/"  # a folder that never counts as a project's
# The lowest clearance that sees a stored identity; below it, the configured identity is used.
STORED_IDENTITY_TRUST = Trust.FAMILIAR


@frozen(eq=True)
class StoredCharacter:
    """The stored character of an agent. A value that is set takes precedence over configuration and files."""

    soul: str = ""
    identity: Identity | str | None = None
    responsibilities: tuple[Responsibility, ...] = ()
    """Responsibilities added while the agent runs, in addition to the configured ones."""


NO_CHARACTER = StoredCharacter()


class ResultCache:
    """Caches the results of pure functions by the values that they depend on."""

    def __init__(self, capacity: int = MAX_CACHED_RESULTS) -> None:
        self._capacity = capacity
        self._results: dict[Hashable, Any] = {}

    def recall(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the result of a key, made on first use."""
        result: T | None = self._results.get(key)
        if result is None:
            if len(self._results) >= self._capacity:
                self._results.clear()
            result = self._results[key] = make()
        return result


@frozen
class AssemblyContext:
    """Everything a turn needs that outlives it; replaced as a whole when the configuration changes."""

    config: Config
    files: Files | TextFiles
    measure: Callable[[str], Meter]
    hooks: Mapping[str, Hook] = field(default_factory=dict)
    characters: Callable[[str], StoredCharacter] = lambda _: NO_CHARACTER
    """Returns the stored character of an agent."""
    archives: Callable[[str], ArchivedSession | None] = lambda _: None
    """Returns the session of a transcript."""
    memories: Recall | None = None
    """The memory search, used if the prompt mode or the configuration enables recall."""
    caches: dict[int, ResultCache] = field(default_factory=dict)
    """The results of the current generation of the files."""

    def guard(self, blueprint: Blueprint) -> FileGuard:
        """Return the file guard of a blueprint."""
        return FileGuard(blueprint, self.config)

    def cached(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return a result of the current files, made on first use; the key holds every other value it depends on."""
        generation = self.files.generation
        cache = self.caches.get(generation)
        if cache is None:
            self.caches.clear()
            cache = self.caches[generation] = ResultCache()
        return cache.recall(key, make)


class SourceReader:
    """The files as the sources of one clearance see them: read-only."""

    def __init__(self, files: Files | TextFiles, guard: FileGuard, clearance: Trust) -> None:
        self._files = files
        self._guard = guard
        self._clearance = clearance
        self.results = ResultCache()
        """What sources made of the files, for other turns of the same generation."""

    def read(self, path: str) -> Document | FileProblem | None:
        """Return the document at a path, None if this clearance sees no file there, or the problem with it."""
        return self._files.read(path) if self._may_read(path) else None

    def _may_read(self, path: str) -> bool:
        """Return whether this clearance may open a file: a listed file by its trust, a link by its target's trust."""
        if self._clearance < self._guard.listed.get(path, Trust.PUBLIC):
            return False
        target = self._files.find_target(path)
        if is_internal(target) or (target != path and not self._may_follow(path, target)):
            self._files.watch_link(path)
            return False
        return True

    def _may_follow(self, path: str, target: str) -> bool:
        """Return whether a link may point to a file; a personal file is reachable only from its owner's paths."""
        person = self._guard.find_person(target)
        ours = not person or person == self._guard.find_person(path)
        return ours and self._clearance >= self._guard.find_required_trust(target)

    def list(self, folder: str, name: str = "") -> tuple[str, ...]:
        """Return the Markdown files below a folder, sorted, without those that the configuration lists by name."""
        return tuple([path for path in self._files.list(folder, name) if self._may_list(path)])

    def _may_list(self, path: str) -> bool:
        """Return whether a file belongs to its folder's listing; files listed by name and transcripts do not."""
        return path not in self._guard.listed and not is_archive(path) and self._may_read(path)

    def lists(self, folder: str, path: str) -> bool:
        """Return whether a folder's listing has a file, without checking the other files."""
        return path in self._files.list(folder) and self._may_list(path)

    def is_listed(self, path: str) -> bool:
        """Return whether the configuration lists a file by name, with its own trust."""
        return path in self._guard.listed

    def visit(self, folder: str, person: str) -> "FolderReader":
        """Return a reader of a folder outside the workspace, for a user, or for no user where others read the reply."""
        visited = self._files.visit(folder)
        return FolderReader(
            visited, lambda path: self._may_visit(visited, path, person), is_home=folder == self._files.root
        )

    def _may_visit(self, visited: Files | TextFiles, path: str, person: str) -> bool:
        """Return whether this clearance may open a file of a visited folder; a workspace file keeps its trust.

        A personal file is only for its user, whatever the trust of others.
        """
        target = visited.find_target(path)
        place = os.path.join(visited.root, target)
        inside = place.removeprefix(self._files.below).replace(os.sep, "/")
        if inside == place:
            return True
        owner = self._guard.find_person(inside)
        if owner and owner != person:
            return False
        if target == path and not inside.startswith(MEMORY_PREFIX) and not owner:
            return self._clearance >= self._guard.listed.get(inside, Trust.PUBLIC)
        return not is_internal(inside) and self._clearance >= self._guard.find_required_trust(inside)

    def has_folder(self, place: str) -> bool:
        """Return whether a folder outside the workspace exists, by its absolute path; a change of that is noticed."""
        parent, name = os.path.split(place)
        if name:
            self._files.visit(parent).watch_link(name)
        return self._files.has_folder(place)


class FolderReader:
    """The files of one folder outside the workspace: read-only and contained in it."""

    def __init__(self, files: Files | TextFiles, may_read: Callable[[str], bool], *, is_home: bool) -> None:
        self._files = files
        self._may_read = may_read
        self.is_home = is_home

    def read(self, path: str) -> Document | FileProblem | None:
        """Return the document at a path, None if this clearance sees no file there, or the problem with it."""
        target = self._files.find_target(path)
        linked = target != path and not target.endswith(".md")
        if not linked and self._may_read(path):
            return self._files.read(path)
        self._files.watch_link(path)
        reason = "is a link to something else than Markdown and is refused"
        return FileProblem(path=path, reason=reason) if linked else None

    def find_target(self, path: str) -> str:
        """Return the path with links resolved, relative to its folder."""
        return self._files.find_target(path)

    def read_text(self, path: str) -> str:
        """Return the whole text of a document, comments included."""
        text = self._files.read_text(path)
        return text if isinstance(text, str) else ""

    def list(self, folder: str) -> tuple[str, ...]:
        """Return the Markdown files below a folder that this clearance may see, sorted."""
        return tuple([path for path in self._files.list(folder) if self._may_read(path)])


def is_internal(path: str) -> bool:
    """Return whether a path is the configuration, the keys or the state of a workspace."""
    return path == "foreword.yaml" or path.startswith(".")


@frozen
class StaticView:
    """The agent, its model, the clearance, and the files of the workspace."""

    agent: str
    settings: Agent
    character: StoredCharacter
    clearance: Trust
    mode: Mode
    tools: Toolset
    left_out: tuple[str, ...]
    """The tools that do not fit into this model's window."""
    extensions: tuple[Extension, ...]
    files: SourceReader
    stores: Mapping[str, Store]
    meter: Meter
    beyond: int
    """The tokens of the window beyond the system budget and the answer."""


@frozen
class SessionView:
    """Adds the user, the channel, the room and the situation."""

    static: StaticView
    user: str
    alone: str
    """The user if no one else reads the reply, else empty; their personal files may be read."""
    channel: str
    room: str
    situation: str
    session: str
    zone: str
    server_zone: str
    """The time zone of the clock where the user's is not known."""
    project: str
    project_stops: tuple[str, ...]
    """The folders at which the walk up from the project ends."""
    directories: tuple[str, ...]
    instructions: str
    client: Client
    host: Host | None
    sandbox: Sandbox | None


@frozen
class TurnView:
    """Adds the clock, the message, the task and the current state."""

    session: SessionView
    now: datetime
    message: str
    task: Task | None
    plan: bool
    background: Delivery | None
    signal: Signal | None
    state: State
    git: Git | None
    cwd: str
    """The working directory of a terminal user, which may differ in each turn."""
    remaining: int
    said: tuple[str, ...]
    """The texts of earlier messages, as sent."""
    recall: Callable[[str], Sequence[Passage]] | None
    """Finds the passages that match a message, at the clearance of the turn; None if recall is off."""

    @property
    def static(self) -> StaticView:
        """The static part of the view."""
        return self.session.static


View = StaticView | SessionView | TurnView
