"""Trace the files that a source reads, so that an edit refreshes only the sections that depend on it.

Views: the inputs of a source, limited to the data that its pace may depend on.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar, cast

from foreword.config.schema import Agent, Store
from foreword.engine.context import StoredCharacter
from foreword.engine.file_access import FileGuard, is_archive
from foreword.engine.sources.documents import Document, FileProblem
from foreword.engine.sources.files import Files, TextFiles
from foreword.engine.sources.sections import FilledRun, Item, Passage
from foreword.tokens.count import Meter
from foreword.turn import Client, Extension, Git, Host, Sandbox, Signal, State, Task, Toolset
from foreword.types import Delivery, Mode, Trust, frozen

T = TypeVar("T")
MEMORY_PREFIX = "memory/"  # a folder that never counts as a project's


@dataclass(frozen=True, slots=True)
class FileTrace:
    """One file or listing that was read, and its identity token at that time."""

    files: Files | TextFiles
    path: str
    name: str | None
    mark: object

    def holds(self) -> bool:
        """Return whether it has not changed since."""
        return self.files.find(self.path, self.name) is self.mark


class SourceReader:
    """The files as the sources of one clearance see them: read-only and traced."""

    __slots__ = ("_clearance", "_files", "_guard", "_known", "_traces")

    def __init__(self, files: Files | TextFiles, guard: FileGuard, clearance: Trust) -> None:
        self._files = files
        self._guard = guard
        self._clearance = clearance
        self._known: dict[str, tuple[object, tuple[FileTrace, ...]]] = {}
        self._traces: list[FileTrace] | None = None

    def recall(self, name: str, make: Callable[[], T]) -> T:
        """Cache a value made from files until one of them changes; its traces are recorded on every call."""
        known = self._known.get(name)
        if known is None or not all(trace.holds() for trace in known[1]):
            before, self._traces = self._traces, []
            try:
                known = self._known[name] = (make(), tuple(self._traces))
            finally:
                self._traces = before
        if self._traces is not None:
            self._traces.extend(known[1])
        return cast("T", known[0])

    def read(self, path: str) -> Document | FileProblem | None:
        """Return the document at a path, None if this clearance sees no file there, or the problem with it."""
        document = self._files.read(path) if self._may_read(path) else None
        self._note(FileTrace(self._files, path, None, self._files.find(path)))
        return document

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
        return self._guard.may_follow_link(path, target) and self._clearance >= self._guard.find_required_trust(target)

    def _note(self, trace: FileTrace) -> None:
        if self._traces is not None:
            self._traces.append(trace)

    def list(self, folder: str, name: str = "") -> tuple[str, ...]:
        """Return the Markdown files below a folder, sorted, without those that the configuration lists by name."""
        paths = self._files.list(folder, name)
        self._note(FileTrace(self._files, folder, name, self._files.find(folder, name)))
        return tuple([path for path in paths if self._may_list(path)])

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
            visited, self._note, lambda path: self._may_visit(visited, path, person), is_home=folder == self._files.root
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
        """Return whether a folder outside the workspace exists, by its absolute path."""
        return self._files.has_folder(place)

    def watch(self, place: str) -> None:
        """Trace the existence of a folder outside, so that its creation and removal are noticed."""
        parent, name = os.path.split(place)
        if name:
            files = self._files.visit(parent)
            files.watch_link(name)
            self._note(FileTrace(files, name, None, files.find(name)))

    def take_traces(self) -> tuple[FileTrace, ...]:
        """Return the traces since the last call, and start a new list."""
        traces, self._traces = tuple(self._traces or ()), []
        return traces

    def stop(self) -> None:
        """Stop tracing: files of turn sources are read in every turn anyway."""
        self._traces = None


class FolderReader:
    """The files of one folder outside the workspace: read-only, contained in it, and traced."""

    __slots__ = ("_files", "_may_read", "_note", "is_home")

    def __init__(
        self,
        files: Files | TextFiles,
        note: Callable[[FileTrace], None],
        may_read: Callable[[str], bool],
        *,
        is_home: bool,
    ) -> None:
        self._files = files
        self._note = note
        self._may_read = may_read
        self.is_home = is_home

    def read(self, path: str) -> Document | FileProblem | None:
        """Return the document at a path, None if this clearance sees no file there, or the problem with it."""
        document = self._read(path)
        self._note(FileTrace(self._files, path, None, self._files.find(path)))
        return document

    def _read(self, path: str) -> Document | FileProblem | None:
        target = self._files.find_target(path)
        linked = target != path and not target.endswith(".md")
        if not linked and self._may_read(path):
            return self._files.read(path)
        self._files.watch_link(path)
        return (
            FileProblem(path=path, reason="is a link to something else than Markdown and is refused")
            if linked
            else None
        )

    def find_target(self, path: str) -> str:
        """Return the path with links resolved, relative to its folder."""
        return self._files.find_target(path)

    def read_text(self, path: str) -> str:
        """Return the whole text of a document, comments included."""
        text = self._files.read_text(path)
        return text if isinstance(text, str) else ""

    def list(self, folder: str) -> tuple[str, ...]:
        """Return the Markdown files below a folder that this clearance may see, sorted."""
        paths = self._files.list(folder)
        self._note(FileTrace(self._files, folder, "", self._files.find(folder, "")))
        return tuple([path for path in paths if self._may_read(path)])


def is_internal(path: str) -> bool:
    """Return whether a path is the configuration, the keys or the state of a workspace."""
    return path == "foreword.yaml" or path.startswith(".")


@dataclass(frozen=True, slots=True)
class FilledEntry:
    """The items of one entry of a run, and the traces of their files."""

    items: tuple[Item, ...]
    traces: tuple[FileTrace, ...]

    def holds(self) -> bool:
        """Return whether none of its files has changed."""
        return all(trace.holds() for trace in self.traces)


class RunCache:
    """The last filled version of a run, part by part."""

    __slots__ = ("filled", "generation", "parts")

    def __init__(self) -> None:
        self.generation = -1
        self.parts: tuple[FilledEntry, ...] = ()
        self.filled: FilledRun | None = None


@frozen
class StaticView:
    """The agent, its model, the clearance, and the files of the workspace."""

    agent: str
    settings: Agent
    kept: StoredCharacter
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
