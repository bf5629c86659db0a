"""The files of a workspace: contained, read once, and seen again when they change."""

import errno
import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import RLock
from typing import Generic, TypeVar

from foreword.errors import PathRefused
from foreword.sources.document import Document, Trouble, parse_document
from foreword.sources.own_memory import find_own_person, is_memory
from foreword.sources.validity import find_fault

LARGEST = 4_000_000  # bytes of one file; nothing beyond this belongs in a prompt
MAX_MEMORY_BYTES = 64_000_000  # of one memory, which is searched and read in parts
SWEEP = 0.25  # seconds between two looks at the disk
RACY = 50_000_000  # a file written so few nanoseconds before it was read may change again unseen
PROSE = ".md"  # what keeps its last good text; configuration and blueprints are kept by who reads them, once they hold
LINK = "link"  # the stamp of a link, which may change without a trace of its own
MANY_NAMES = 5_000  # watched names, after which those that lead nowhere are forgotten
MANY_FOLDERS = 200  # visited folders, after which those that were not visited for long are forgotten

Signature = tuple[int, ...] | None
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Seen(Generic[T]):
    """What was found at a path, and how to tell that it is no longer so."""

    signature: Signature
    value: T
    racy: bool = False
    folders: tuple[str, ...] = ()
    place: str = ""
    """Where a text was read, links followed."""


class Files:
    """Reads files below one root and nowhere else."""

    def __init__(self, root: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.root = os.path.realpath(root)
        self.below = os.path.join(self.root, "")  # how every place in it begins; the file system's root is its own
        self.generation = 0
        self.is_left = False
        self.templates: Collection[str] = ()
        """Files that the configuration declares to be templates."""
        self._clock = clock
        self._swept = clock()
        self._lock = RLock()
        self._files: dict[str, Seen[str | Trouble | None]] = {}
        self._documents: dict[str, Document] = {}
        self._before: dict[str, Seen[str | Trouble | None]] = {}
        self._faults: dict[str, Trouble] = {}
        self._losses: dict[str, Trouble] = {}
        self._folders: dict[str, Seen[tuple[str, ...]]] = {}
        self._links: dict[str, Seen[None]] = {}
        self._visited: dict[str, Files] = {}

    def read(self, path: str) -> Document | Trouble | None:
        """Return the document at a path, None where there is none, or what is wrong with it."""
        document = self._documents.get(path)
        if document is not None:
            return document
        with self._lock:
            text = self.read_text(path)
            if not isinstance(text, str):
                return text
            document = parse_document(path, text)
            if fault := self._faults.get(path):
                document = replace(document, note=f"its edit {fault.reason}, so the last good text stays in force")
            self._documents[path] = document
            return document

    def read_text(self, path: str) -> str | Trouble | None:
        """Return the bare text at a path, None where there is none, or what is wrong with it."""
        with self._lock:
            seen = self._files.get(path)
            if seen is None:
                seen = self._files[path] = self._keep(path, self._read(path))
            return seen.value

    @property
    def faults(self) -> Mapping[str, Trouble]:
        """What is wrong with edited texts whose last good one is still in force, by their paths.

        The owner and the log are told of them, so a person's own memory is left out: its menu tells that person.
        """
        with self._lock:
            beyond = [
                (f"{visited.root}/{path}", one)
                for visited in self._visited.values()
                for path, one in visited.faults.items()
            ]
            ours = {path: one for path, one in self._faults.items() if not find_own_person(path)}
            return {**ours, **dict(beyond)}

    @property
    def losses(self) -> Mapping[str, Trouble]:
        """What is wrong with texts of this folder that were asked for and never were good, by their paths."""
        with self._lock:
            return {**self._losses}

    def reread(self) -> None:
        """Read what changed since it was read, so that a fault is found before anybody asks; never within a turn."""
        with self._lock:
            for path in [*self._before, *self._losses]:
                self.read_text(path)
            for visited in self._visited.values():
                visited.reread()

    def has(self, path: str) -> bool:
        """Whether a file is there at this moment, without opening it."""
        return os.path.isfile(f"{self.root}/{path}")

    @staticmethod
    def has_folder(place: str) -> bool:
        """Whether a folder outside, by its absolute path, is there."""
        return os.path.isdir(place)

    def find_target(self, path: str) -> str:
        """Return where a path leads, links followed; the path itself where it leads nowhere or out."""
        try:
            real = os.path.realpath(self.locate(path))
        except (OSError, ValueError, PathRefused):
            return path
        return os.path.relpath(real, self.root).replace(os.sep, "/") if self._holds(real) else path

    def stamp(self, path: str) -> str:
        """Return what changes when a file does, without opening it; nothing where that cannot be told."""
        return self.stamps((path,))[path]

    def stamps(self, paths: Iterable[str]) -> dict[str, str]:
        """Return the stamps of many files; this runs often, so it is one plain loop."""
        found: dict[str, str] = {}
        look, below, now = os.lstat, self.below, time.time_ns()
        for path in paths:
            try:
                facts = look(below + path)
            except (OSError, ValueError):
                found[path] = ""
                continue
            changed = facts.st_mtime_ns
            if stat.S_ISLNK(facts.st_mode):
                found[path] = LINK
            elif abs(now - changed) < RACY:
                found[path] = ""
            else:
                found[path] = f"{changed}:{facts.st_size}:{facts.st_ino}:{facts.st_ctime_ns}"
        return found

    def list(self, folder: str, name: str = "") -> tuple[str, ...]:
        """Return the Markdown files below a folder, sorted, or those of one name."""
        key = f"{folder}\0{name}"
        with self._lock:
            seen = self._folders.get(key)
            if seen is None:
                seen = self._folders[key] = self._list(folder, name)
            return seen.value

    def find(self, path: str, name: str | None = None) -> object:
        """Return the mark of a file, or of a listing, which is another one as soon as it has changed."""
        if self.is_left:
            return object()  # nobody looks at it again, so nothing that was read in it can be held to be as it was
        if name is None:
            return self._files.get(path) or self._links.get(path)
        return self._folders.get(f"{path}\0{name}")

    def refresh(self, *, now: bool = False) -> int:
        """Look at the disk, at most every 250 ms unless asked to do it now, and return the generation."""
        clock = self._clock()
        if now or clock - self._swept >= SWEEP:
            with self._lock:
                self._swept = clock
                self._sweep()
        return self.generation

    def watch_link(self, path: str) -> None:
        """Watch a link that is not followed, so that what replaces it is seen."""
        with self._lock:
            self._links.setdefault(path, Seen(self._sign(path), None))

    def visit(self, folder: str) -> "Files":
        """Return the files of another folder; they are looked at whenever these are."""
        with self._lock:
            files = self._visited.pop(folder, None) or Files(folder, self._clock)
            self._visited[folder] = files  # the last one is the one that was visited last
            return files

    def _sweep(self) -> None:
        stale = self._find_stale()
        gone = [key for key, seen in self._folders.items() if seen.racy or sign_folders(seen.folders) != seen.signature]
        for path in stale:
            seen = self._files.pop(path)
            self._documents.pop(path, None)
            if isinstance(seen.value, str) and path.endswith(PROSE) and path not in self._losses:
                self._before[path] = seen
        for path in [path for path in (*self._before, *self._losses) if self._sign(path) is None]:
            self._drop(path)  # what was deleted is gone, also when something comes in its place later
        for key in gone:
            del self._folders[key]
        moved = [path for path, seen in self._links.items() if self._sign(path) != seen.signature]
        for path in moved:
            del self._links[path]
        before = [(files, files.generation) for files in self._visited.values()]
        elsewhere = [files for files, generation in before if files.refresh(now=True) != generation]
        if self._leave() or stale or gone or moved or elsewhere:
            self.generation += 1
        self._forget()

    def _keep(self, path: str, seen: Seen[str | Trouble | None]) -> Seen[str | Trouble | None]:
        """Keep the last good text of a file whose new one cannot be used; a link that leads elsewhere now is not kept.

        Where there is no good text, a text that is only unusable as a template or as fields is left to its source.
        """
        before, trouble = self._before.get(path), self._judge(path, seen.value)
        if before is None or trouble is None or not seen.place or seen.place != before.place:
            self._drop(path)
            if trouble and path.endswith(PROSE) and not is_memory(path):  # the index tells what it cannot read
                self._losses[path] = trouble
            return seen
        self._faults[path] = trouble
        return replace(seen, value=before.value)

    def _judge(self, path: str, found: str | Trouble | None) -> Trouble | None:
        """Return what is wrong with what was found at a path, if anything is."""
        if not isinstance(found, str):
            return found
        reason = find_fault(path, found, self.templates)
        return Trouble(path=path, reason=reason, stays=True) if reason else None

    def _drop(self, path: str) -> None:
        self._before.pop(path, None)
        self._faults.pop(path, None)
        self._losses.pop(path, None)

    def _find_stale(self) -> Sequence[str]:
        """Find the files that are no longer as they were; this runs often, so it is one plain loop."""
        stale = []
        look, root = os.stat, self.root
        for path, seen in self._files.items():
            signature: Signature = None
            try:
                facts = look(f"{root}/{path}")
                signature = (facts.st_mtime_ns, facts.st_size, facts.st_ino, facts.st_ctime_ns, facts.st_mode)
            except (OSError, ValueError):
                pass
            if signature != seen.signature or seen.racy:
                stale.append(path)
        return stale

    def _leave(self) -> bool:
        """Forget the folders that were not visited for long, once there are many."""
        left = [*self._visited][:-MANY_FOLDERS]
        for folder in left:
            self._visited.pop(folder).is_left = True
        return bool(left)

    def _forget(self) -> None:
        """Forget names that lead nowhere, once there are many: whoever asks again finds out again."""
        if len(self._files) > MANY_NAMES:
            self._files = {path: seen for path, seen in self._files.items() if seen.value is not None}
        if len(self._folders) > MANY_NAMES:
            self._folders = {key: seen for key, seen in self._folders.items() if seen.value}

    def _sign(self, path: str) -> Signature:
        try:
            return sign(os.stat(f"{self.root}/{path}"))
        except (OSError, ValueError):
            return None

    def _locate_folder(self, folder: str) -> str | None:
        try:
            place = os.path.realpath(self.locate(folder), strict=True)
        except (OSError, PathRefused):
            return None
        return place if self._holds(place) else None

    def _list(self, folder: str, name: str) -> Seen[tuple[str, ...]]:
        place = self._locate_folder(folder)
        if place is None:
            wanted = os.path.join(self.root, folder)
            return Seen(sign_folders([wanted]), (), folders=(wanted,))
        found: list[str] = []
        folders: list[str] = []
        unreadable: list[OSError] = []
        for base, below, files in os.walk(place, onerror=unreadable.append):
            below.sort()
            folders.append(base)
            part = os.path.relpath(base, place).replace(os.sep, "/")
            prefix = folder if part == "." else f"{folder}/{part}"
            matching = (name,) if name else tuple(file for file in files if file.endswith(".md"))
            found.extend(f"{prefix}/{file}" for file in matching if file in files)
        found += [f"{os.path.relpath(error.filename, self.root)}/" for error in unreadable]
        signature = sign_folders(folders)
        return Seen(signature, tuple(sorted(map(clean_name, found))), racy=is_racy(signature), folders=tuple(folders))

    def locate(self, path: str) -> str:
        """Return the place of a path below the root; refuse one that is absolute or climbs."""
        parts = path.split("/")
        if not path or path.startswith(("/", "~")) or "\\" in path or "\0" in path or ".." in parts or ":" in parts[0]:
            raise PathRefused(f"{path!r} is refused; paths are relative to the workspace and stay below it")
        return os.path.join(self.root, *parts)

    def _holds(self, place: str) -> bool:
        return place == self.root or place.startswith(self.below)

    def _read(self, path: str) -> Seen[str | Trouble | None]:
        place = ""
        try:
            place = self._settle(self.locate(path))
            facts, raw = self._open(place, self.locate(path))
        except FileNotFoundError:
            return Seen(None, None)
        except (OSError, ValueError, PathRefused) as error:
            stays = "" if isinstance(error, MovedError) else place
            trouble = Trouble(path=path, reason=describe(error), stays=bool(stays))
            return Seen(self._sign(path), trouble, place=stays)
        return Seen(sign(facts), decode(path, raw), racy=is_racy(sign(facts)), place=place)

    def _settle(self, place: str) -> str:
        real = os.path.realpath(place, strict=True)
        if not self._holds(real):
            raise UnusableError("leads out of its workspace or project and is refused")
        return real

    def _open(self, real: str, place: str) -> tuple[os.stat_result, bytes]:
        # Not blocking, so that a pipe in the place of a file cannot hang the turn.
        handle = os.open(real, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))
        try:
            facts = os.fstat(handle)
            self._check(facts, place)
            with open(handle, "rb", closefd=False) as file:
                return facts, file.read(facts.st_size + 1)
        finally:
            os.close(handle)

    def _check(self, facts: os.stat_result, place: str) -> None:
        """Refuse what cannot be used; the check is on what was opened, not on its name."""
        if stat.S_ISDIR(facts.st_mode):
            raise UnusableError("is a directory; a file is expected here")
        if not stat.S_ISREG(facts.st_mode):
            raise UnusableError("is not a regular file")
        largest = MAX_MEMORY_BYTES if is_memory(place.removeprefix(self.below)) else LARGEST
        if facts.st_size > largest:
            raise UnusableError(f"has {facts.st_size:,} bytes; at most {largest:,} are read, so split it")
        again = os.path.realpath(place)
        if not self._holds(again) or not os.path.samestat(facts, os.stat(again)):
            raise MovedError("changed its place while it was read")


class UnusableError(ValueError):
    """Something is in the place of a file that cannot be used; the message says what."""


class MovedError(UnusableError):
    """A path leads elsewhere than it did a moment ago."""


def decode(path: str, raw: bytes) -> str | Trouble:
    """Turn bytes into a text; what is none is refused with the place of the first wrong byte."""
    if (at := raw.find(b"\0")) != -1:
        return Trouble(path=path, reason=f"has a NUL byte at {at:,} and is no text", stays=True)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return Trouble(path=path, reason=f"is not UTF-8 in line {line:,}; save it as UTF-8", stays=True)


def describe(error: Exception) -> str:
    """Say in plain words why a file cannot be opened."""
    if isinstance(error, UnusableError):
        return str(error)
    if isinstance(error, PathRefused):
        return "is refused; paths are relative to the workspace and stay below it"
    if isinstance(error, PermissionError):
        return "cannot be read: permission denied"
    if isinstance(error, NotADirectoryError):
        return "lies below something that is no directory"
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return "is a loop of symbolic links"
    return f"cannot be read: {getattr(error, 'strerror', None) or error}"


def sign(facts: os.stat_result) -> tuple[int, ...]:
    """Reduce a file's facts to what changes when the file does."""
    return facts.st_mtime_ns, facts.st_size, facts.st_ino, facts.st_ctime_ns, facts.st_mode


def clean_name(path: str) -> str:
    """Show a name that has unprintable characters or is not UTF-8 without them; nothing is found under that name."""
    if path.isprintable():
        return path
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in path.encode("utf-8", "replace").decode())


def sign_folders(folders: Sequence[str]) -> Signature:
    """Reduce folders to what changes when a file or a folder comes or goes in one of them."""
    marks: list[int] = []
    for folder in folders:
        try:
            facts = os.stat(folder)
        except OSError:
            return None
        marks += (facts.st_mtime_ns, facts.st_ino)
    return tuple(marks)


def is_racy(signature: Signature) -> bool:
    """Whether something was written so recently that another write could go unseen."""
    return signature is not None and any(abs(time.time_ns() - mark) < RACY for mark in signature)
