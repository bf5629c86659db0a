"""The files of a workspace: contained in its root, cached, and reread after a change; or texts in memory."""

import errno
import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import RLock
from typing import Generic, TypeVar

from foreword.engine.sources.documents import Document, FileProblem, find_text_problem, parse_document
from foreword.engine.trust import find_own_person, is_memory
from foreword.errors import PathRefused

MAX_FILE_BYTES = 4_000_000  # the maximum bytes of one file for a prompt
MAX_MEMORY_BYTES = 64_000_000  # of one memory, which is searched and read in parts
REFRESH_INTERVAL_S = 0.25  # the minimum seconds between two checks of the disk
RACY_WINDOW_NS = 50_000_000  # a file modified fewer nanoseconds ago than this may change again without a new timestamp
PROSE_SUFFIX = ".md"  # files with a last good text; the readers of configuration and blueprints retain their own
LINK_STAMP = "link"  # the stamp of a symbolic link, whose target may change unnoticed
MAX_WATCHED_NAMES = 5_000  # above this number of watched names, missing ones are dropped from the cache
MAX_VISITED_FOLDERS = 200  # the maximum number of visited folders; the least recently visited ones are dropped

Signature = tuple[int, ...] | None
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class CachedFile(Generic[T]):
    """A cached file or listing, with the signature that detects a change."""

    signature: Signature
    value: T
    racy: bool = False
    folders: tuple[str, ...] = ()
    place: str = ""
    """The resolved path of a text."""


class Files:
    """Reads files below one root and nowhere else."""

    def __init__(self, root: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.root = os.path.realpath(root)
        self.below = os.path.join(self.root, "")  # the prefix of every path below the root, also for the root "/"
        self.generation = 0
        self.templates: Collection[str] = ()
        """The files that the configuration declares as templates."""
        self._clock = clock
        self._swept = clock()
        self._lock = RLock()
        self._files: dict[str, CachedFile[str | FileProblem | None]] = {}
        self._documents: dict[str, Document] = {}
        self._before: dict[str, CachedFile[str | FileProblem | None]] = {}
        self._faults: dict[str, FileProblem] = {}
        self._losses: dict[str, FileProblem] = {}
        self._folders: dict[str, CachedFile[tuple[str, ...]]] = {}
        self._links: dict[str, CachedFile[None]] = {}
        self._visited: dict[str, Files] = {}

    def read(self, path: str) -> Document | FileProblem | None:
        """Return the document at a path, None if there is no file, or the problem with it."""
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

    def read_text(self, path: str) -> str | FileProblem | None:
        """Return the raw text at a path, None if there is no file, or the problem with it."""
        with self._lock:
            seen = self._files.get(path)
            if seen is None:
                seen = self._files[path] = self._keep(path, self._read(path))
            return seen.value

    @property
    def faults(self) -> Mapping[str, FileProblem]:
        """The problems of edited files whose last good text is still used, by path.

        The owner and the log get them. Files of a user's personal memory are left out: that user's menu shows them.
        """
        with self._lock:
            found = {path: one for path, one in self._faults.items() if not find_own_person(path)}
            for visited in self._visited.values():
                found |= {f"{visited.root}/{path}": one for path, one in visited.faults.items()}
            return found

    @property
    def losses(self) -> Mapping[str, FileProblem]:
        """The problems of requested files that never had a good text, by path."""
        with self._lock:
            return {**self._losses}

    def reread(self) -> None:
        """Reread the files with problems, so that a problem is reported before a turn needs the file."""
        with self._lock:
            for path in [*self._before, *self._losses]:
                self.read_text(path)
            for visited in self._visited.values():
                visited.reread()

    def has(self, path: str) -> bool:
        """Return whether a file exists, without opening it."""
        return os.path.isfile(f"{self.root}/{path}")

    @staticmethod
    def has_folder(place: str) -> bool:
        """Return whether a folder outside the workspace exists, by its absolute path."""
        return os.path.isdir(place)

    def find_target(self, path: str) -> str:
        """Return the path with links resolved; the path itself if it does not exist or leads out of the root."""
        seen = self._files.get(path)
        try:
            real = seen.place if seen and seen.place else os.path.realpath(self.locate(path))
        except (OSError, ValueError, PathRefused):
            return path
        inside = "." if real == self.root else real.removeprefix(self.below).replace(os.sep, "/")
        return inside if self._holds(real) else path

    def stamps(self, paths: Iterable[str]) -> dict[str, str]:
        """Return the stamps of many files. A hot path, so it is one plain loop."""
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
                found[path] = LINK_STAMP
            elif abs(now - changed) < RACY_WINDOW_NS:
                found[path] = ""
            else:
                found[path] = f"{changed}:{facts.st_size}:{facts.st_ino}:{facts.st_ctime_ns}"
        return found

    def list(self, folder: str, name: str = "") -> tuple[str, ...]:
        """Return the Markdown files below a folder, or the files of one name, sorted."""
        key = f"{folder}\0{name}"
        with self._lock:
            seen = self._folders.get(key)
            if seen is None:
                seen = self._folders[key] = self._list(folder, name)
            return seen.value

    def refresh(self, *, now: bool = False) -> int:
        """Check the disk for changes, at most every 250 ms unless `now` is set, and return the generation."""
        clock = self._clock()
        if now or clock - self._swept >= REFRESH_INTERVAL_S:
            with self._lock:
                self._swept = clock
                if self._sweep():
                    self.generation += 1
        return self.generation

    def watch_link(self, path: str) -> None:
        """Watch a link that is not followed, so that its replacement is noticed."""
        with self._lock:
            self._links.setdefault(path, CachedFile(self._sign(path), None))

    def visit(self, folder: str) -> "Files":
        """Return the files of another folder; they are refreshed together with these."""
        with self._lock:
            files = self._visited.pop(folder, None) or Files(folder, self._clock)
            self._visited[folder] = files  # ordered by last visit
            return files

    def _sweep(self) -> bool:
        """Drop from the caches what changed on the disk, and return whether anything did."""
        stale = self._find_stale()
        gone = [key for key, seen in [*self._folders.items()] if self._has_changed(key, seen)]
        for path in stale:
            seen = self._files.pop(path)
            self._documents.pop(path, None)
            if isinstance(seen.value, str) and path.endswith(PROSE_SUFFIX) and path not in self._losses:
                self._before[path] = seen
        for path in [path for path in (*self._before, *self._losses) if self._sign(path) is None]:
            self._drop(path)  # a deleted file has no last good text, even if it is created again
        for key in gone:
            del self._folders[key]
        moved = [path for path, seen in self._links.items() if self._sign(path) != seen.signature]
        for path in moved:
            del self._links[path]
        left = [*self._visited][:-MAX_VISITED_FOLDERS]  # the least recently visited ones
        before = [(files, files.generation) for files in self._visited.values()]
        elsewhere = [files for files, generation in before if files.refresh(now=True) != generation]
        for folder in left:
            del self._visited[folder]
        # Missing names are dropped from a large cache; the next request checks them again.
        if len(self._files) > MAX_WATCHED_NAMES:
            self._files = {path: seen for path, seen in self._files.items() if seen.value is not None}
        if len(self._folders) > MAX_WATCHED_NAMES:
            self._folders = {key: seen for key, seen in self._folders.items() if seen.value}
        return bool(stale or gone or moved or elsewhere or left)

    def _keep(self, path: str, seen: CachedFile[str | FileProblem | None]) -> CachedFile[str | FileProblem | None]:
        """Retain the last good text of a file whose new text cannot be used, unless a link now leads elsewhere.

        Without a good text, a text that only fails as a template or as fields is left to its source.
        """
        before, trouble = self._before.get(path), seen.value if isinstance(seen.value, FileProblem) else None
        if isinstance(seen.value, str) and (reason := find_text_problem(path, seen.value, self.templates)):
            trouble = FileProblem(path=path, reason=reason, stays=True)
        if before is None or trouble is None or not seen.place or seen.place != before.place:
            self._drop(path)
            if trouble and path.endswith(PROSE_SUFFIX) and not is_memory(path):  # the index reports unreadable memories
                self._losses[path] = trouble
            return seen
        self._faults[path] = trouble
        return replace(seen, value=before.value)

    def _drop(self, path: str) -> None:
        for records in (self._before, self._faults, self._losses):
            records.pop(path, None)

    def _find_stale(self) -> Sequence[str]:
        """Return the files that changed. A hot path, so it is one plain loop."""
        stale = []
        look, root = os.stat, self.root
        for path, seen in [*self._files.items()]:
            signature: Signature = None
            try:
                facts = look(f"{root}/{path}")
                signature = (facts.st_mtime_ns, facts.st_size, facts.st_ino, facts.st_ctime_ns, facts.st_mode)
            except (OSError, ValueError):
                pass
            if signature != seen.signature or (seen.racy and not self._is_same(path, seen)):
                stale.append(path)
        return stale

    def _is_same(self, path: str, seen: CachedFile[str | FileProblem | None]) -> bool:
        """Reread a file that was read just after a change, and return whether it has stayed the same."""
        again = self._read(path)
        same = again.signature == seen.signature and again.value == seen.value
        if same:
            self._files[path] = replace(seen, racy=again.racy)
        return same

    def _has_changed(self, key: str, seen: CachedFile[tuple[str, ...]]) -> bool:
        """Return whether a listing has changed; one that was made just after a change is made again."""
        if sign_folders(seen.folders) != seen.signature:
            return True
        if seen.racy:
            folder, _, name = key.partition("\0")
            self._folders[key] = self._list(folder, name)
        return self._folders[key].value != seen.value

    def _sign(self, path: str) -> Signature:
        try:
            return sign_file(os.stat(f"{self.root}/{path}"))
        except (OSError, ValueError):
            return None

    def _list(self, folder: str, name: str) -> CachedFile[tuple[str, ...]]:
        wanted = os.path.join(self.root, folder)
        try:
            place = os.path.realpath(self.locate(folder), strict=True)
        except (OSError, PathRefused):
            place = ""
        if not self._holds(place):
            return CachedFile(sign_folders([wanted]), (), folders=(wanted,))
        found: list[str] = []
        folders: list[str] = []
        unreadable: list[OSError] = []
        for base, below, files in os.walk(place, onerror=unreadable.append):
            below.sort()
            folders.append(base)
            part = os.path.relpath(base, place).replace(os.sep, "/")
            prefix = folder if part == "." else f"{folder}/{part}"
            matching = [file for file in files if (file == name if name else file.endswith(".md"))]
            found.extend(f"{prefix}/{file}" for file in matching)
        found += [f"{os.path.relpath(error.filename, self.root)}/" for error in unreadable]
        signature, names = sign_folders(folders), tuple(sorted(map(clean_name, found)))
        return CachedFile(signature, names, racy=is_racy(signature), folders=tuple(folders))

    def locate(self, path: str) -> str:
        """Return the absolute path of a relative one; refuse an absolute path or one with `..`."""
        parts = path.split("/")
        if not path or path.startswith(("/", "~")) or "\\" in path or "\0" in path or ".." in parts or ":" in parts[0]:
            raise PathRefused(f"{path!r} is refused; paths are relative to the workspace and stay below it")
        return os.path.join(self.root, *parts)

    def _holds(self, place: str) -> bool:
        return place == self.root or place.startswith(self.below)

    def _read(self, path: str) -> CachedFile[str | FileProblem | None]:
        place = ""
        try:
            real = os.path.realpath(self.locate(path), strict=True)
            place = real if self._holds(real) else ""
            facts, raw = self._open(real, self.locate(path))
        except FileNotFoundError:
            return CachedFile(None, None)
        except (OSError, ValueError, PathRefused) as error:
            stays = "" if isinstance(error, MovedError) else place
            trouble = FileProblem(path=path, reason=describe_os_error(error), stays=bool(stays))
            return CachedFile(self._sign(path), trouble, place=stays)
        return CachedFile(sign_file(facts), decode_text(path, raw), racy=is_racy(sign_file(facts)), place=place)

    def _open(self, real: str, place: str) -> tuple[os.stat_result, bytes]:
        if not self._holds(real):
            raise UnusableError("leads out of its workspace or project and is refused")
        # Non-blocking, so that a named pipe cannot hang the turn.
        handle = os.open(real, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))
        try:
            facts = os.fstat(handle)
            self._check(facts, place)
            with open(handle, "rb", closefd=False) as file:
                return facts, file.read(facts.st_size + 1)
        finally:
            os.close(handle)

    def _check(self, facts: os.stat_result, place: str) -> None:
        """Refuse an unusable file. The check is on the open file, not on its name."""
        if stat.S_ISDIR(facts.st_mode):
            raise UnusableError("is a directory; a file is expected here")
        if not stat.S_ISREG(facts.st_mode):
            raise UnusableError("is not a regular file")
        largest = MAX_MEMORY_BYTES if is_memory(place.removeprefix(self.below)) else MAX_FILE_BYTES
        if facts.st_size > largest:
            raise UnusableError(f"has {facts.st_size:,} bytes; at most {largest:,} are read, so split it")
        again = os.path.realpath(place)
        if not self._holds(again) or not os.path.samestat(facts, os.stat(again)):
            raise MovedError("changed its place while it was read")


class UnusableError(ValueError):
    """A path holds something that cannot be used as a file; the message says why."""


class MovedError(UnusableError):
    """A path was replaced while it was read."""


def decode_text(path: str, raw: bytes) -> str | FileProblem:
    """Decode UTF-8 text, or return the problem with the position of the first invalid byte."""
    if (at := raw.find(b"\0")) != -1:
        return FileProblem(path=path, reason=f"has a NUL byte at {at:,} and is no text", stays=True)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return FileProblem(path=path, reason=f"is not UTF-8 in line {line:,}; save it as UTF-8", stays=True)


def describe_os_error(error: Exception) -> str:
    """Describe in plain words why a file cannot be opened."""
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


def sign_file(facts: os.stat_result) -> tuple[int, ...]:
    """Return the part of a file's metadata that changes with the file."""
    return facts.st_mtime_ns, facts.st_size, facts.st_ino, facts.st_ctime_ns, facts.st_mode


def clean_name(path: str) -> str:
    """Replace unprintable and undecodable characters of a name; the result is for display and cannot be opened."""
    if path.isprintable():
        return path
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in path.encode("utf-8", "replace").decode())


def sign_folders(folders: Sequence[str]) -> Signature:
    """Return the metadata of folders that changes when an entry is added or removed."""
    marks: list[int] = []
    for folder in folders:
        try:
            facts = os.stat(folder)
        except OSError:
            return None
        marks += (facts.st_mtime_ns, facts.st_ino)
    return tuple(marks)


def is_racy(signature: Signature) -> bool:
    """Return whether a change is so recent that another one could go unnoticed."""
    return signature is not None and any(abs(time.time_ns() - mark) < RACY_WINDOW_NS for mark in signature)


class HypotheticalFiles(Files):
    """The files below a root, with some texts replaced, by absolute path."""

    def __init__(self, root: str, texts: Mapping[str, str | None]) -> None:
        super().__init__(root)
        self._texts = texts

    def has(self, path: str) -> bool:
        """Return whether a file exists, with the replacements applied."""
        place = os.path.realpath(os.path.join(self.root, path))
        return self._texts[place] is not None if place in self._texts else super().has(path)

    def visit(self, folder: str) -> Files:
        """Return the files of another folder, with the same replacements."""
        with self._lock:
            return self._visited.setdefault(folder, HypotheticalFiles(folder, self._texts))

    def _read(self, path: str) -> CachedFile[str | FileProblem | None]:
        place = os.path.realpath(self.locate(path)) if "\0" not in path else ""
        if place not in self._texts or not self._holds(place):
            return super()._read(path)
        return CachedFile(self._sign(path), self._texts[place], place=place)

    def _list(self, folder: str, name: str) -> CachedFile[tuple[str, ...]]:
        seen = super()._list(folder, name)
        base = os.path.join(self.root, folder, "")
        found = {path for path in seen.value if self._texts.get(os.path.realpath(self.locate(path)), "") is not None}
        for place, text in self._texts.items():
            file = os.path.basename(place)
            if text is not None and place.startswith(base) and (file == name if name else file.endswith(".md")):
                found.add(os.path.relpath(place, self.root).replace(os.sep, "/"))
        return CachedFile(seen.signature, tuple(sorted(found)), folders=seen.folders)


def replace_files(root: str, texts: Mapping[str, str | None]) -> HypotheticalFiles:
    """Replace texts of a workspace by relative path; a link is resolved to its target."""
    return HypotheticalFiles(root, {os.path.realpath(os.path.join(root, path)): text for path, text in texts.items()})


NO_TEXTS: Mapping[str, str] = {}


class TextFiles:
    """Texts by path, with the interface of `Files`; the disk is never read.

    Paths are relative to the workspace. An absolute path is a file of a project.
    """

    root = below = ""
    generation = 0

    def __init__(self, texts: Mapping[str, str] = NO_TEXTS) -> None:
        self._texts = texts

    def read(self, path: str) -> Document | FileProblem | None:
        """Return the document at a path, or None."""
        text = self._texts.get(path)
        return None if text is None else parse_document(path, text)

    def read_text(self, path: str) -> str | FileProblem | None:
        """Return the text at a path, or None."""
        return self._texts.get(path)

    def list(self, folder: str, name: str = "") -> tuple[str, ...]:
        """Return the Markdown files below a folder, or the files of one name, sorted."""
        below = [path for path in self._texts if folder and path.startswith(f"{folder}/")]
        wanted = [path for path in below if (os.path.basename(path) == name if name else path.endswith(".md"))]
        return tuple(sorted(wanted))

    def has_folder(self, place: str) -> bool:
        """Return whether a project's folder, by its absolute path, holds a text."""
        return any(path.startswith(os.path.join(place, "")) for path in self._texts)

    def find_target(self, path: str) -> str:
        """Return the path itself: there are no links."""
        return path

    def watch_link(self, path: str) -> None:
        """Do nothing: there are no links."""

    def visit(self, folder: str) -> "TextFiles":
        """Return the texts of another folder, by its absolute path."""
        below = os.path.join(folder, "")
        return TextFiles(
            {path.removeprefix(below): self._texts[path] for path in self._texts if path.startswith(below)}
        )
