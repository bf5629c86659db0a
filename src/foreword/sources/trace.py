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
        self._traces: list[Trace] = []

    def read(self, path: str) -> Document | Trouble | None:
        """Return the document at a path, None where there is none, or what is wrong with it."""
        target = self._files.find_target(path)
        if target != path and self._clearance < self._guard.find_least(target):
            # A link has the trust of what it leads to, and nothing is opened to find out.
            return Trouble(path=path, reason="is a link to a file that needs more trust")
        document = self._files.read(path)
        self._traces.append(Trace(path, None, self._files.find(path)))
        return document

    def list(self, folder: str, name: str = "") -> tuple[str, ...]:
        """Return the Markdown files below a folder, sorted, without those that the configuration lists by name."""
        paths = self._files.list(folder, name)
        self._traces.append(Trace(folder, name, self._files.find(folder, name)))
        return tuple([path for path in paths if path not in self._guard.listed])

    def take_traces(self) -> tuple[Trace, ...]:
        """Return what was read since the last time."""
        traces, self._traces = tuple(self._traces), []
        return traces


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
