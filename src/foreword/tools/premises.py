"""The premises: directories that an agent was given, opened part by part so that nothing leads out of them.

No link is followed below a directory, hidden names are nowhere to be seen, and what lies in the workspace is there only
for a clearance that may see it: what is withheld is answered in the words for what does not exist.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count, islice
from typing import Self

from foreword.config.schema import Directory
from foreword.errors import Forbidden, InputError, show_name
from foreword.frozen import frozen
from foreword.sources.files import LARGEST, UnusableError, clean_name

MANY = 5_000  # entries of one folder
DEEP = 32  # folders below each other
LOOKED = 50_000  # entries that are looked at to find out whether a folder of the workspace holds anything to be seen
CONFIG = "foreword.yaml"
FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
FILE = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)


def find_nothing(path: str) -> InputError:
    """Say that there is nothing at a path, in the same words for what may not be seen."""
    return InputError(f"there is no {show_name(path)} here")


@frozen(eq=True)
class Root:
    """A directory that was given: the name it is known by, and where it really is."""

    label: str
    place: str

    def shorten(self, path: str) -> str | None:
        """Return what a path names below this directory, or None if it lies elsewhere."""
        for start in (self.label.rstrip("/"), self.place.rstrip("/"), os.path.expanduser(self.label).rstrip("/")):
            if path == start or path.startswith(f"{start}/"):
                return path[len(start) :]
        return None


@frozen(eq=True)
class Entry:
    """One name in a folder."""

    name: str
    kind: str
    """`folder`, `file`, `link` or `other`."""
    size: int = 0


@frozen
class Home:
    """The workspace, and which of its files may be seen."""

    root: str
    sees: Callable[[str], bool]

    def find(self, handle: int) -> bool:
        """Whether an opened folder is the workspace itself."""
        with suppress(OSError):
            return os.path.samestat(os.fstat(handle), os.stat(self.root))
        return False

    def place(self, real: str) -> str | None:
        """Return the path in the workspace of what is really here, or None."""
        inside = os.path.relpath(real, self.root).replace(os.sep, "/")
        if inside == ".":
            return ""
        return None if inside == ".." or inside.startswith("../") else inside


class Folder:
    """One opened folder; what is asked of it is asked of what was opened, whatever its name leads to by now."""

    def __init__(self, handle: int, shown: str, inside: str | None, home: Home) -> None:
        self.handle = handle
        self.shown = shown
        self.inside = "" if home.find(handle) else inside
        """The path in the workspace, or None outside of it."""
        self._home = home

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.handle)

    def name(self, name: str) -> str:
        """Return the path of something in this folder as the agent knows it."""
        return f"{self.shown.rstrip('/')}/{name}"

    def locate(self, name: str) -> str | None:
        """Return the path in the workspace of something in this folder, or None outside of it."""
        return None if self.inside is None else f"{self.inside}/{name}".lstrip("/")

    def enter(self, name: str) -> "Folder":
        """Open a folder in this one; one of the workspace only if something in it may be seen."""
        folder = self.enter_any(name)
        if folder.inside is None or folder.holds_something(count()):
            return folder
        os.close(folder.handle)
        raise FileNotFoundError

    def enter_any(self, name: str) -> "Folder":
        """Open a folder in this one, whatever it holds."""
        if is_kept(name):
            raise FileNotFoundError
        return Folder(os.open(name, FOLDER, dir_fd=self.handle), self.name(name), self.locate(name), self._home)

    def holds_something(self, looked: Iterator[int], depth: int = 0) -> bool:
        """Whether a file that may be seen is in this folder of the workspace or below it."""
        folders = []
        for found in scan(self.handle):
            if next(looked) >= LOOKED or depth >= DEEP:
                return False
            if found.kind == "file" and self.sees(found.name):
                return True
            if found.kind == "folder" and not is_kept(found.name):
                folders.append(found.name)
        for name in sorted(folders):
            with suppress(OSError), self.enter_any(name) as folder:
                if folder.holds_something(looked, depth + 1):
                    return True
        return False

    def sees(self, name: str) -> bool:
        """Whether a file of this name may be seen."""
        inside = self.locate(name)
        return not is_kept(name) and (inside is None or self._home.sees(inside))

    def list(self) -> tuple[tuple[Entry, ...], bool]:
        """List what may be seen, by name, and say whether there is more than a folder shows."""
        visible = (found for found in scan(self.handle) if self._shows(found))
        entries = tuple(islice(visible, MANY + 1))
        return tuple(sorted(entries[:MANY], key=lambda one: one.name)), len(entries) > MANY

    def _shows(self, found: Entry) -> bool:
        if found.kind == "folder":
            try:
                with self.enter(found.name):
                    return True
            except PermissionError:
                return self.inside is None
            except OSError:
                return False
        return self.sees(found.name) and (found.kind == "file" or self.inside is None)

    def read(self, name: str, largest: int = LARGEST) -> tuple[os.stat_result, bytes]:
        """Read a file of this folder; nothing is opened that may not be seen."""
        if not self.sees(name):
            raise FileNotFoundError
        handle = os.open(name, FILE, dir_fd=self.handle)
        try:
            facts = os.fstat(handle)
            if stat.S_ISDIR(facts.st_mode):
                # A folder of the workspace is not known to be there before something in it is.
                raise FileNotFoundError if self.inside is not None else UnusableError("is a folder; use list_files")
            if not stat.S_ISREG(facts.st_mode):
                raise UnusableError("is not a regular file")
            if facts.st_size > largest:
                raise UnusableError(f"has {facts.st_size:,} bytes; at most {largest:,} are read")
            with open(handle, "rb", closefd=False) as file:
                return facts, file.read(largest)
        finally:
            os.close(handle)


class Premises:
    """The directories that a turn may work in."""

    def __init__(self, given: Sequence[Directory], home: Home) -> None:
        places = {one.path: os.path.join(home.root, os.path.expanduser(one.path)) for one in given}
        self.roots = tuple(Root(label=label, place=os.path.realpath(place)) for label, place in places.items())
        self._home = home

    def find(self, path: str) -> tuple[Root, tuple[str, ...]]:
        """Find the directory that a path lies in, and its way from there; a relative path lies in the first one."""
        if not path.isprintable() or not self.roots:
            raise find_nothing(path)
        for root in sorted(self.roots, key=lambda one: -len(one.place)):
            rest = root.shorten(path)
            if rest is not None:
                return root, split(path, rest)
        if path.startswith(("/", "~")):
            raise find_nothing(path)
        return self.roots[0], split(path, path)

    @contextmanager
    def open(self, root: Root, parts: Sequence[str]) -> Iterator[Folder]:
        """Open a folder below a directory, one part after the other."""
        folder = self._open_root(root)
        try:
            for part in parts:
                below = folder.enter(part)
                os.close(folder.handle)
                folder = below
            yield folder
        finally:
            os.close(folder.handle)

    def _open_root(self, root: Root) -> Folder:
        handle = os.open(root.place, FOLDER)
        if is_at(handle, root.place):
            return Folder(handle, root.label, self._home.place(root.place), self._home)
        os.close(handle)
        raise UnusableError("changed its place while it was opened")


def is_at(handle: int, place: str) -> bool:
    """Whether what was opened is what stands at a place, and no link has come in between."""
    with suppress(OSError):
        return os.path.realpath(place) == place and os.path.samestat(os.fstat(handle), os.stat(place))
    return False


class ProtectedError(UnusableError):
    """Tools may not write to this place; the message says why."""


@contextmanager
def explain(path: str) -> Iterator[None]:
    """Turn what goes wrong with a file into words for the agent."""
    try:
        yield
    except FileNotFoundError:
        raise find_nothing(path) from None
    except ProtectedError as error:
        raise Forbidden(f"{show_name(path)} {error}") from None
    except (OSError, UnusableError) as error:
        raise InputError(f"{show_name(path)} {tell_error(error)}") from None


def tell_error(error: Exception) -> str:
    """Say in plain words why something cannot be used."""
    if not isinstance(error, OSError):
        return str(error)
    if error.errno == errno.ELOOP:
        return "is a link, and links are not followed"
    if error.errno == errno.ENOTDIR:
        return "is no folder, or lies below something that is none"
    if isinstance(error, PermissionError):
        return "is closed to you: permission denied"
    return f"cannot be used: {error.strerror or error}"


def split(path: str, rest: str) -> tuple[str, ...]:
    """Split the rest of a path into its parts; one that climbs is refused."""
    parts = tuple(part for part in rest.split("/") if part not in ("", "."))
    if ".." in parts or len(parts) > DEEP:
        raise Forbidden(f"{show_name(path)} is refused; paths stay below the directories that you were given")
    return parts


def is_kept(name: str) -> bool:
    """Whether a name is that of keys, of state or of a configuration, which no tool touches."""
    return name.startswith(".") or name.casefold() == CONFIG


def scan(handle: int) -> Iterator[Entry]:
    """Go through an opened folder in no particular order."""
    with os.scandir(handle) as entries:
        for found in entries:
            yield describe_entry(found)


def describe_entry(found: "os.DirEntry[str]") -> Entry:
    """Describe an entry without following it."""
    name = clean_name(found.name)
    if found.is_symlink():
        return Entry(name=name, kind="link")
    if found.is_dir(follow_symlinks=False):
        return Entry(name=name, kind="folder")
    if not found.is_file(follow_symlinks=False):
        return Entry(name=name, kind="other")
    try:
        return Entry(name=name, kind="file", size=found.stat(follow_symlinks=False).st_size)
    except OSError:
        return Entry(name=name, kind="other")
