"""The allowed roots: the directories of an agent, opened component by component so that no path leads out of them.

Links below a root are not followed, and hidden names are invisible. A workspace file is visible only to a sufficient
clearance; a withheld file gets the same error as a missing one.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count, islice
from typing import Self

from foreword.config.schema import Directory
from foreword.engine.sources.files import MAX_FILE_BYTES, UnusableError, clean_name
from foreword.errors import Forbidden, InputError, quote_name
from foreword.types import frozen

MAX_FOLDER_ENTRIES = 5_000  # entries of one folder
MAX_DEPTH = 32  # levels of nested folders
MAX_EXAMINED_ENTRIES = 50_000  # entries examined to decide whether a workspace folder contains a visible file
CONFIG_NAME = "foreword.yaml"
FOLDER_FLAGS = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
FILE_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)


def make_missing_error(path: str) -> InputError:
    """Make the error for a path that does not exist or may not be seen."""
    return InputError(f"there is no {quote_name(path)} here")


@frozen(eq=True)
class AllowedRoot:
    """An allowed root: its configured path, and its real path."""

    label: str
    place: str

    def shorten(self, path: str) -> str | None:
        """Return the rest of a path below this root, or None if it is elsewhere."""
        for start in (self.label.rstrip("/"), self.place.rstrip("/"), os.path.expanduser(self.label).rstrip("/")):
            if path == start or path.startswith(f"{start}/"):
                return path[len(start) :]
        return None


@frozen(eq=True)
class FolderEntry:
    """One name in a folder."""

    name: str
    kind: str
    """`folder`, `file`, `link` or `other`."""
    size: int = 0


@frozen
class WorkspaceFolder:
    """The workspace folder, and a check of which of its files are visible."""

    root: str
    sees: Callable[[str], bool]

    def place(self, real: str) -> str | None:
        """Return the workspace path of a real path, or None if it is outside."""
        inside = os.path.relpath(real, self.root).replace(os.sep, "/")
        if inside == ".":
            return ""
        return None if inside == ".." or inside.startswith("../") else inside


def is_same_file(handle: int, path: str) -> bool:
    """Return whether an open handle and a path are the same file."""
    with suppress(OSError):
        return os.path.samestat(os.fstat(handle), os.stat(path))
    return False


class OpenFolder:
    """An open folder; operations use its handle, so a renamed or replaced path has no effect."""

    def __init__(self, handle: int, shown: str, inside: str | None, home: WorkspaceFolder) -> None:
        self.handle = handle
        self.shown = shown
        self.inside = "" if is_same_file(handle, home.root) else inside
        """The workspace path, or None if the folder is outside."""
        self._home = home

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.handle)

    def name(self, name: str) -> str:
        """Return the path of an entry as shown to the agent."""
        return f"{self.shown.rstrip('/')}/{name}"

    def locate(self, name: str) -> str | None:
        """Return the workspace path of an entry, or None if the folder is outside."""
        return None if self.inside is None else f"{self.inside}/{name}".lstrip("/")

    def enter(self, name: str) -> "OpenFolder":
        """Open a subfolder; a workspace folder only if it contains a visible file."""
        folder = self.enter_any(name)
        if folder.inside is None or folder.holds_something(count()):
            return folder
        os.close(folder.handle)
        raise FileNotFoundError

    def enter_any(self, name: str) -> "OpenFolder":
        """Open a subfolder without a visibility check of its content."""
        if is_protected(name):
            raise FileNotFoundError
        return OpenFolder(
            os.open(name, FOLDER_FLAGS, dir_fd=self.handle), self.name(name), self.locate(name), self._home
        )

    def holds_something(self, looked: Iterator[int], depth: int = 0) -> bool:
        """Return whether this workspace folder contains a visible file at any depth."""
        folders = []
        for found in list_folder(self.handle):
            if next(looked) >= MAX_EXAMINED_ENTRIES or depth >= MAX_DEPTH:
                return False
            if found.kind == "file" and self.sees(found.name):
                return True
            if found.kind == "folder" and not is_protected(found.name):
                folders.append(found.name)
        for name in sorted(folders):
            with suppress(OSError), self.enter_any(name) as folder:
                if folder.holds_something(looked, depth + 1):
                    return True
        return False

    def sees(self, name: str) -> bool:
        """Return whether a file of this name is visible."""
        inside = self.locate(name)
        return not is_protected(name) and (inside is None or self._home.sees(inside))

    def list(self) -> tuple[tuple[FolderEntry, ...], bool]:
        """Return the visible entries by name, and whether there are more than the limit."""
        visible = (found for found in list_folder(self.handle) if self._shows(found))
        entries = tuple(islice(visible, MAX_FOLDER_ENTRIES + 1))
        return tuple(sorted(entries[:MAX_FOLDER_ENTRIES], key=lambda one: one.name)), len(entries) > MAX_FOLDER_ENTRIES

    def _shows(self, found: FolderEntry) -> bool:
        if found.kind == "folder":
            try:
                with self.enter(found.name):
                    return True
            except PermissionError:
                return self.inside is None
            except OSError:
                return False
        return self.sees(found.name) and (found.kind == "file" or self.inside is None)

    def read(self, name: str, largest: int = MAX_FILE_BYTES) -> tuple[os.stat_result, bytes]:
        """Read a file of this folder; check its visibility before opening it."""
        if not self.sees(name):
            raise FileNotFoundError
        handle = os.open(name, FILE_FLAGS, dir_fd=self.handle)
        try:
            facts = os.fstat(handle)
            if stat.S_ISDIR(facts.st_mode):
                # The existence of a workspace folder is not revealed unless a file in it is visible.
                raise FileNotFoundError if self.inside is not None else UnusableError("is a folder; use list_files")
            if not stat.S_ISREG(facts.st_mode):
                raise UnusableError("is not a regular file")
            if facts.st_size > largest:
                raise UnusableError(f"has {facts.st_size:,} bytes; at most {largest:,} are read")
            with open(handle, "rb", closefd=False) as file:
                return facts, file.read(largest)
        finally:
            os.close(handle)


class AllowedRoots:
    """The allowed roots of a turn."""

    def __init__(self, given: Sequence[Directory], home: WorkspaceFolder) -> None:
        places = {one.path: os.path.join(home.root, os.path.expanduser(one.path)) for one in given}
        self.roots = tuple(AllowedRoot(label=label, place=os.path.realpath(place)) for label, place in places.items())
        self._home = home

    def find(self, path: str) -> tuple[AllowedRoot, tuple[str, ...]]:
        """Return the root of a path and the components below it; a relative path belongs to the first root."""
        if not path.isprintable() or not self.roots:
            raise make_missing_error(path)
        for root in sorted(self.roots, key=lambda one: -len(one.place)):
            rest = root.shorten(path)
            if rest is not None:
                return root, split_path(path, rest)
        if path.startswith(("/", "~")):
            raise make_missing_error(path)
        return self.roots[0], split_path(path, path)

    @contextmanager
    def open(self, root: AllowedRoot, parts: Sequence[str]) -> Iterator[OpenFolder]:
        """Open a folder below a root, component by component."""
        handle = os.open(root.place, FOLDER_FLAGS)
        folder = OpenFolder(handle, root.label, self._home.place(root.place), self._home)
        try:
            if os.path.realpath(root.place) != root.place or not is_same_file(handle, root.place):
                raise UnusableError("changed its place while it was opened")
            for part in parts:
                below = folder.enter(part)
                os.close(folder.handle)
                folder = below
            yield folder
        finally:
            os.close(folder.handle)


class ProtectedError(UnusableError):
    """Tools may not write to this place; the message says why."""


@contextmanager
def translate_file_errors(path: str) -> Iterator[None]:
    """Convert file errors into errors for the agent."""
    try:
        yield
    except FileNotFoundError:
        raise make_missing_error(path) from None
    except ProtectedError as error:
        raise Forbidden(f"{quote_name(path)} {error}") from None
    except (OSError, UnusableError) as error:
        raise InputError(f"{quote_name(path)} {describe_file_error(error)}") from None


def describe_file_error(error: Exception) -> str:
    """Return the reason of a file error as text."""
    if not isinstance(error, OSError):
        return str(error)
    if error.errno == errno.ELOOP:
        return "is a link, and links are not followed"
    if error.errno == errno.ENOTDIR:
        return "is no folder, or lies below something that is none"
    if isinstance(error, PermissionError):
        return "is closed to you: permission denied"
    return f"cannot be used: {error.strerror or error}"


def split_path(path: str, rest: str) -> tuple[str, ...]:
    """Split the rest of a path into components; refuse `..` and deep paths."""
    parts = tuple(part for part in rest.split("/") if part not in ("", "."))
    if ".." in parts or len(parts) > MAX_DEPTH:
        raise Forbidden(f"{quote_name(path)} is refused; paths stay below the directories that you were given")
    return parts


def is_protected(name: str) -> bool:
    """Return whether a name is protected: hidden files (keys, state) and the configuration."""
    return name.startswith(".") or name.casefold() == CONFIG_NAME


def list_folder(handle: int) -> Iterator[FolderEntry]:
    """Yield the entries of an open folder, unordered; links are not followed."""
    with os.scandir(handle) as entries:
        for found in entries:
            kind, size = "other", 0
            if found.is_symlink():
                kind = "link"
            elif found.is_dir(follow_symlinks=False):
                kind = "folder"
            elif found.is_file(follow_symlinks=False):
                with suppress(OSError):
                    kind, size = "file", found.stat(follow_symlinks=False).st_size
            yield FolderEntry(name=clean_name(found.name), kind=kind, size=size)
