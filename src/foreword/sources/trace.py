"""Tracing what a source reads, so that an edit touches only the sections that depend on it."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, cast

from foreword.blueprint.guard import FileGuard
from foreword.sources.archived import is_archive
from foreword.sources.document import Document, Trouble
from foreword.sources.files import Files
from foreword.sources.section import Filled, Item
from foreword.sources.text_files import TextFiles
from foreword.words import Trust

T = TypeVar("T")
OWNED = "memory/"  # what lies here is nobody's project


@dataclass(frozen=True, slots=True)
class Trace:
    """One thing that was read, where, and the mark it had."""

    files: Files | TextFiles
    path: str
    name: str | None
    mark: object

    def holds(self) -> bool:
        """Whether it has not changed since."""
        return self.files.find(self.path, self.name) is self.mark


class Reader:
    """The files as the sources of one clearance see them: reading is all they can do, and it leaves a trace."""

    __slots__ = ("_clearance", "_files", "_guard", "_known", "_traces")

    def __init__(self, files: Files | TextFiles, guard: FileGuard, clearance: Trust) -> None:
        self._files = files
        self._guard = guard
        self._clearance = clearance
        self._known: dict[str, tuple[object, tuple[Trace, ...]]] = {}
        self._traces: list[Trace] | None = None

    def recall(self, name: str, make: Callable[[], T]) -> T:
        """Make something once of what is read here, for as long as all of that holds; its traces are left each time."""
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

    def read(self, path: str) -> Document | Trouble | None:
        """Return the document at a path, None where there is none for this clearance, or what is wrong with it."""
        document = self._files.read(path) if self._may_read(path) else None
        self._note(Trace(self._files, path, None, self._files.find(path)))
        return document

    def _may_read(self, path: str) -> bool:
        """Whether this clearance may open a file: a listed one by its own trust, a link by that of its target."""
        if self._clearance < self._guard.listed.get(path, Trust.PUBLIC):
            return False
        target = self._files.find_target(path)
        if is_internal(target) or (target != path and not self._may_follow(path, target)):
            self._files.watch_link(path)
            return False
        return True

    def _may_follow(self, path: str, target: str) -> bool:
        return self._guard.may_lead(path, target) and self._clearance >= self._guard.find_least(target)

    def _note(self, trace: Trace) -> None:
        if self._traces is not None:
            self._traces.append(trace)

    def list(self, folder: str, name: str = "") -> tuple[str, ...]:
        """Return the Markdown files below a folder, sorted, without those that the configuration lists by name."""
        paths = self._files.list(folder, name)
        self._note(Trace(self._files, folder, name, self._files.find(folder, name)))
        return tuple([path for path in paths if self._may_list(path)])

    def _may_list(self, path: str) -> bool:
        """Whether a file is one of its folder's; one that is listed by name is not, and no transcript is."""
        return path not in self._guard.listed and not is_archive(path) and self._may_read(path)

    def lists(self, folder: str, path: str) -> bool:
        """Whether a file is among those of a folder, without a look at the others."""
        return path in self._files.list(folder) and self._may_list(path)

    def is_listed(self, path: str) -> bool:
        """Whether the configuration lists a file by name, with a trust of its own."""
        return path in self._guard.listed

    def visit(self, folder: str, person: str) -> "Visitor":
        """Read in another folder than the workspace, for a person, or for nobody where others read the reply."""
        visited = self._files.visit(folder)
        return Visitor(
            visited, self._note, lambda path: self._may_visit(visited, path, person), is_home=folder == self._files.root
        )

    def _may_visit(self, visited: Files | TextFiles, path: str, person: str) -> bool:
        """Whether this clearance may open a file outside: one that lies in the workspace only by its own trust.

        What is one person's own there is for nobody else, whatever their trust.
        """
        target = visited.find_target(path)
        place = os.path.join(visited.root, target)
        inside = place.removeprefix(self._files.below).replace(os.sep, "/")
        if inside == place:
            return True
        owner = self._guard.find_person(inside)
        if owner and owner != person:
            return False
        if target == path and not inside.startswith(OWNED) and not owner:
            return self._clearance >= self._guard.listed.get(inside, Trust.PUBLIC)
        return not is_internal(inside) and self._clearance >= self._guard.find_least(inside)

    def has_folder(self, place: str) -> bool:
        """Whether a folder outside, by its absolute path, is there."""
        return self._files.has_folder(place)

    def watch(self, place: str) -> None:
        """Note that a folder outside is there, or is not, so that its coming and going is seen."""
        parent, name = os.path.split(place)
        if name:
            files = self._files.visit(parent)
            files.watch_link(name)
            self._note(Trace(files, name, None, files.find(name)))

    def take_traces(self) -> tuple[Trace, ...]:
        """Return what was read since the last time, and go on noting."""
        traces, self._traces = tuple(self._traces or ()), []
        return traces

    def stop(self) -> None:
        """Note nothing more: what a turn reads is read again in the next one."""
        self._traces = None


class Visitor:
    """The files of one folder outside the workspace: read only, contained in it, and traced like all others."""

    __slots__ = ("_files", "_may_read", "_note", "is_home")

    def __init__(
        self, files: Files | TextFiles, note: Callable[[Trace], None], may_read: Callable[[str], bool], *, is_home: bool
    ) -> None:
        self._files = files
        self._note = note
        self._may_read = may_read
        self.is_home = is_home

    def read(self, path: str) -> Document | Trouble | None:
        """Return the document at a path, None where there is none for this clearance, or what is wrong with it."""
        document = self._read(path)
        self._note(Trace(self._files, path, None, self._files.find(path)))
        return document

    def _read(self, path: str) -> Document | Trouble | None:
        target = self._files.find_target(path)
        linked = target != path and not target.endswith(".md")
        if not linked and self._may_read(path):
            return self._files.read(path)
        self._files.watch_link(path)
        return Trouble(path=path, reason="is a link to something else than Markdown and is refused") if linked else None

    def find_target(self, path: str) -> str:
        """Return where a path leads in its folder, links followed."""
        return self._files.find_target(path)

    def read_text(self, path: str) -> str:
        """Return the whole text of a document, comments included."""
        text = self._files.read_text(path)
        return text if isinstance(text, str) else ""

    def list(self, folder: str) -> tuple[str, ...]:
        """Return the Markdown files below a folder that this clearance may know of, sorted."""
        paths = self._files.list(folder)
        self._note(Trace(self._files, folder, "", self._files.find(folder, "")))
        return tuple([path for path in paths if self._may_read(path)])


def is_internal(path: str) -> bool:
    """Whether a path is the configuration, the keys or the state of a workspace."""
    return path == "foreword.yaml" or path.startswith(".")


@dataclass(frozen=True, slots=True)
class Part:
    """What one entry of a run gave, and what it was read from."""

    items: tuple[Item, ...]
    traces: tuple[Trace, ...]

    def holds(self) -> bool:
        """Whether nothing that it was read from has changed."""
        return all(trace.holds() for trace in self.traces)


class Kept:
    """A run as it was filled last, part by part."""

    __slots__ = ("filled", "generation", "parts")

    def __init__(self) -> None:
        self.generation = -1
        self.parts: tuple[Part, ...] = ()
        self.filled: Filled | None = None
