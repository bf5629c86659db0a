"""Tracing what a source reads, so that an edit touches only the sections that depend on it."""

from dataclasses import dataclass

from foreword.sources.document import Document, Trouble
from foreword.sources.files import Files
from foreword.sources.section import Filled, Item


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
    """The files as sources see them: reading is all they can do, and it leaves a trace."""

    __slots__ = ("_files", "_traces")

    def __init__(self, files: Files) -> None:
        self._files = files
        self._traces: list[Trace] = []

    def read(self, path: str) -> Document | Trouble | None:
        """Return the document at a path, None where there is none, or what is wrong with it."""
        document = self._files.read(path)
        self._traces.append(Trace(path, None, self._files.find(path)))
        return document

    def list(self, folder: str, name: str = "") -> tuple[str, ...]:
        """Return the Markdown files below a folder, sorted, or those of one name one level down."""
        paths = self._files.list(folder, name)
        self._traces.append(Trace(folder, name, self._files.find(folder, name)))
        return paths

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
