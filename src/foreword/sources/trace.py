"""Tracing what a source reads, so that an edit touches only the sections that depend on it."""

from dataclasses import dataclass

from foreword.sources.document import Document, Trouble
from foreword.sources.files import Files
from foreword.sources.guard import FileGuard
from foreword.sources.section import Filled, Item
from foreword.words import Trust


@dataclass(frozen=True, slots=True)
class Trace:
    """One thing that was read, and the mark it had."""

    path: str
    name: str | None
    mark: object

    def holds(self, files: Files) -> bool:
        """Whether it has not changed since."""
        return files.find(self.path, self.name) is self.mark


class Reader:
    """The files as the sources of one clearance see them: reading is all they can do, and it leaves a trace."""

    __slots__ = ("_clearance", "_files", "_guard", "_traces")

    def __init__(self, files: Files, guard: FileGuard, clearance: Trust) -> None:
        self._files = files
        self._guard = guard
        self._clearance = clearance
        self._traces: list[Trace] | None = None

    def read(self, path: str) -> Document | Trouble | None:
        """Return the document at a path, None where there is none for this clearance, or what is wrong with it."""
        document = self._files.read(path) if self._may_read(path) else None
        self._note(Trace(path, None, self._files.find(path)))
        return document

    def _may_read(self, path: str) -> bool:
        """Whether this clearance may open a file: a listed one by its own trust, a link by that of its target."""
        if self._clearance < self._guard.listed.get(path, Trust.PUBLIC):
            return False
        target = self._files.find_target(path)
        if is_internal(target) or (target != path and self._clearance < self._guard.find_least(target)):
            self._files.watch_link(path)
            return False
        return True

    def _note(self, trace: Trace) -> None:
        if self._traces is not None:
            self._traces.append(trace)

    def list(self, folder: str, name: str = "") -> tuple[str, ...]:
        """Return the Markdown files below a folder, sorted, without those that the configuration lists by name."""
        paths = self._files.list(folder, name)
        self._note(Trace(folder, name, self._files.find(folder, name)))
        return tuple([path for path in paths if path not in self._guard.listed and self._may_read(path)])

    def take_traces(self) -> tuple[Trace, ...]:
        """Return what was read since the last time, and go on noting."""
        traces, self._traces = tuple(self._traces or ()), []
        return traces

    def stop(self) -> None:
        """Note nothing more: what a turn reads is read again in the next one."""
        self._traces = None


def is_internal(path: str) -> bool:
    """Whether a path is the configuration, the keys or the state of a workspace."""
    return path == "foreword.yaml" or path.startswith(".")


@dataclass(frozen=True, slots=True)
class Part:
    """What one entry of a run gave, and what it was read from."""

    items: tuple[Item, ...]
    traces: tuple[Trace, ...]

    def holds(self, files: Files) -> bool:
        """Whether nothing that it was read from has changed."""
        return all(trace.holds(files) for trace in self.traces)


class Kept:
    """A run as it was filled last, part by part."""

    __slots__ = ("filled", "generation", "parts")

    def __init__(self) -> None:
        self.generation = -1
        self.parts: tuple[Part, ...] = ()
        self.filled: Filled | None = None
