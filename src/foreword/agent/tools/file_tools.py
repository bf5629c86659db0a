"""Runs the file tools, within the directories of an agent and the clearance of its turn.

File tools for the directories of an agent: list, read, search and write. Atomic file writes; a file is replaced only
if the writer has read its current content.
"""

import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from hashlib import sha256
from typing import Any, Protocol

from foreword.agent.tools.allowed_roots import (
    MAX_DEPTH,
    AllowedRoot,
    AllowedRoots,
    FolderEntry,
    OpenFolder,
    ProtectedError,
    WorkspaceFolder,
    is_protected,
    translate_file_errors,
)
from foreword.agent.tools.memory_tools import read_text_argument
from foreword.agent.tools.reading_tools import LINE_PARAMETERS, TextExcerpt, cut_lines, read_positive_integer
from foreword.assembly import Assembly
from foreword.config.load import is_hidden
from foreword.config.schema import Directory
from foreword.engine.context import AssemblyContext
from foreword.engine.sources.documents import FileProblem
from foreword.engine.sources.files import UnusableError, decode_text
from foreword.engine.sources.injection import label_scan
from foreword.engine.sources.sections import quote
from foreword.engine.trust import FileGuard, find_author, has_other_readers, is_archive, may_read_transcript
from foreword.errors import InputError, UnknownName
from foreword.turn import Tool, ToolAnswer, Toolset, Turn
from foreword.types import Trust, frozen

PATH_PARAMETER: Mapping[str, Any] = {"type": "string"}


def make_parameters(needed: tuple[str, ...], **properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """Make the parameters of a tool."""
    return {"type": "object", "properties": properties, "required": list(needed)}


LIST_FILES = Tool(
    name="list_files",
    description="List a directory that you were given, or a folder in it.",
    parameters=make_parameters(
        (),
        path={**PATH_PARAMETER, "description": "The folder; all that you were given if left out."},
        **{"from": {"type": "integer", "minimum": 1, "description": "The first entry to show, counted from 1."}},
    ),
    trust=Trust.INNER,
    kind="files",
    seconds=15,
)
READ_FILE = Tool(
    name="read_file",
    description="Read a text file in a directory that you were given, or a part of it.",
    parameters=make_parameters(
        ("path",), path={**PATH_PARAMETER, "description": "The file, as list_files shows it."}, **LINE_PARAMETERS
    ),
    trust=Trust.INNER,
    kind="files",
    seconds=15,
)
SEARCH_FILES = Tool(
    name="search_files",
    description="Find files that have these words in their names or lines, whatever the case.",
    parameters=make_parameters(
        ("text",),
        text={"type": "string", "description": "The words to look for, as they stand in the file."},
        path={**PATH_PARAMETER, "description": "The folder to look in; all that you were given if left out."},
    ),
    trust=Trust.INNER,
    kind="files",
    seconds=30,
)
WRITE_FILE = Tool(
    name="write_file",
    description="Write a text file in a directory that you were given. To replace one, read it and name its sha256.",
    parameters=make_parameters(
        ("path", "text"),
        path={**PATH_PARAMETER, "description": "The file; folders that are missing are made."},
        text={"type": "string", "description": "The whole text of the file."},
        sha256={"type": "string", "description": "That of the file to be replaced, as read_file shows it."},
    ),
    trust=Trust.FULL,
    kind="files",
    changes=True,
    seconds=30,
)

FILE_TOOLS = Toolset([LIST_FILES, READ_FILE, SEARCH_FILES, WRITE_FILE])


MAX_WRITTEN_BYTES = 1_000_000  # bytes of a written file
SHOWN_HASH_CHARS = 16  # characters shown of a hash
CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
# Folders of prompts, memory and configuration: other tools or the owner write them.
RESERVED_FOLDERS = frozenset(
    {"agents", "blueprints", "channels", "groups", "memory", "prompts", "rules", "skills", "users"}
)


class HashObject(Protocol):
    """A hash object."""

    def hexdigest(self) -> str:
        """Return the hash in hexadecimal."""


@frozen
class NewFile:
    """The text to write, and the hash of the file that it replaces, if any."""

    text: str
    replaces: str = ""


def shorten_hash(digest: HashObject) -> str:
    """Return the part of a hash that is shown to the agent."""
    return digest.hexdigest()[:SHOWN_HASH_CHARS]


def may_feed_prompts(path: str, guard: FileGuard) -> bool:
    """Return whether a workspace path may feed prompts, or is readable below full trust."""
    top, _, rest = path.partition("/")
    places = {(slot.folder or slot.file).partition("/")[0] for slot in guard.blueprint.slots}
    listed = path in guard.listed or guard.find_person(path) or guard.find_required_trust(path) < Trust.FULL
    return not rest or top.casefold() in RESERVED_FOLDERS | places or bool(listed)


def write_file(
    start: OpenFolder, parts: Sequence[str], new: NewFile, refuses: Callable[[str], bool]
) -> tuple[str, str]:
    """Write a file below an open folder; return its shown path and its new hash."""
    *above, name = parts
    try:
        raw = new.text.encode()
    except UnicodeEncodeError:
        raise UnusableError("was not written: its text has half a character") from None
    if len(raw) > MAX_WRITTEN_BYTES:
        raise UnusableError(f"was not written: {len(raw):,} bytes are more than {MAX_WRITTEN_BYTES:,}")
    if "\0" in new.text:
        raise UnusableError("was not written: its text has a NUL byte")
    if any(map(is_protected, parts)):
        raise ProtectedError("was not written: hidden names and configurations are not for tools")
    with ExitStack() as opened:
        folder = start
        for part in above:
            check_writable_place(folder, f"{part}/{name}", refuses)
            folder = opened.enter_context(open_subfolder(folder, part, make=not new.replaces))
        check_writable_place(folder, name, refuses)
        facts = check_replaced_file(folder, name, new.replaces)
        replace_atomically(folder, name, raw, facts)
        return folder.name(name), shorten_hash(sha256(raw))


def open_subfolder(folder: OpenFolder, name: str, *, make: bool) -> OpenFolder:
    """Open a subfolder; create it if `make` is set."""
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder.handle)
    return folder.enter_any(name)


def check_writable_place(folder: OpenFolder, name: str, refuses: Callable[[str], bool]) -> None:
    """Refuse a workspace path that agents may not write to."""
    inside = folder.locate(name)
    if inside is not None and refuses(inside):
        raise ProtectedError("was not written: what prompts and memory are made of is not for write_file")


def check_replaced_file(folder: OpenFolder, name: str, replaces: str) -> os.stat_result | None:
    """Refuse to replace a file unless the given hash matches its current content."""
    try:
        facts, old = folder.read(name)
    except FileNotFoundError:
        if replaces:
            raise UnusableError("was not written: there is nothing to be replaced; leave out sha256") from None
        return None
    if not replaces:
        raise UnusableError("was not written: it is there already; read it, and name its sha256 to replace it")
    if len(replaces) < SHOWN_HASH_CHARS or not sha256(old).hexdigest().startswith(replaces.lower()):
        raise UnusableError("was not written: it is another text by now; read it again")
    return facts


def replace_atomically(folder: OpenFolder, name: str, raw: bytes, facts: os.stat_result | None) -> None:
    """Write to a temporary file and move it into place; a new file never replaces an existing one."""
    beside = f".{secrets.token_hex(8)}.foreword"
    handle = os.open(beside, CREATE_FLAGS, 0o666, dir_fd=folder.handle)
    try:
        with open(handle, "wb") as file:
            file.write(raw)
            file.flush()
            if facts:
                os.fchmod(handle, stat.S_IMODE(facts.st_mode))
            os.fsync(handle)
        if facts:
            os.replace(beside, name, src_dir_fd=folder.handle, dst_dir_fd=folder.handle)
        else:
            os.link(beside, name, src_dir_fd=folder.handle, dst_dir_fd=folder.handle, follow_symlinks=False)
    except FileExistsError:
        raise UnusableError("was not written: it has come into being meanwhile; read it first") from None
    finally:
        with suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=folder.handle)
    os.fsync(folder.handle)


MAX_LISTED_ENTRIES = 200  # entries of one answer
MAX_SEARCH_HITS = 50  # matches shown by one search
MAX_SEARCHED_FILES = 20_000  # files opened by one search
MAX_SEARCHED_BYTES = 1_000_000  # bytes of a searched file
MAX_SEARCH_S = 10.0  # time limit of one search
CONTEXT_CHARS = 100  # characters shown before and after a match


class FileTools:
    """Runs the file tools for one turn."""

    def __init__(
        self, assembly: Assembly, ground: AssemblyContext, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._assembly = assembly
        self._guard = ground.guard(assembly.plan.blueprint)
        self._archives = ground.archives
        self._level = assembly.clearance.level
        self._clock = clock
        given = list_turn_directories(assembly.turn, ground, self._level)
        self._premises = AllowedRoots(given, WorkspaceFolder(root=ground.files.root, sees=self._sees))

    def call(self, name: str, arguments: Mapping[str, Any]) -> TextExcerpt | ToolAnswer:
        """Run one tool."""
        tools: Mapping[str, Callable[[Mapping[str, Any]], TextExcerpt | ToolAnswer]] = {
            "list_files": self.list,
            "read_file": self.read,
            "search_files": self.search,
            "write_file": self.write,
        }
        if name not in self._assembly.terms.tools or name not in tools:
            raise UnknownName("tool", name, self._assembly.terms.tools.names & FILE_TOOLS.names)
        if not self._premises.roots:
            raise InputError("you were given no directory here")
        return tools[name](arguments)

    def _sees(self, path: str) -> bool:
        """Return whether the clearance may see a workspace file; unreviewed entries are read as memory instead."""
        turn = self._assembly.turn
        person = self._guard.find_person(path)
        mine = not person or (person == turn.user and not has_other_readers(turn))
        if is_archive(path):
            return mine and not is_hidden(path) and may_read_transcript(self._archives(path), turn, self._level)
        return (
            mine
            and not is_hidden(path)
            and not find_author(path)
            and self._level >= self._guard.find_required_trust(path)
        )

    def _answer(self, text: str) -> ToolAnswer:
        return ToolAnswer(text=text, tokens=self._assembly.terms.meter.count(text))

    def _list_starts(self, path: str) -> Sequence[tuple[AllowedRoot, tuple[str, ...]]]:
        """List the start folders: the path, or every directory of the agent."""
        return [self._premises.find(path)] if path else [(root, ()) for root in self._premises.roots]

    def list(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        """List a folder, or the agent's directories if there are several."""
        path, first = read_text_argument(arguments, "path", ""), read_positive_integer(arguments, "from", 1) or 1
        starts = self._list_starts(path)
        if len(starts) > 1:
            return self._answer("\n".join(root.label for root, _ in starts))
        ((root, parts),) = starts
        with translate_file_errors(path or root.label), self._premises.open(root, parts) as folder:
            entries, more = folder.list()
            shown = folder.shown
        lines = [show_entry(entry) for entry in entries[first - 1 : first - 1 + MAX_LISTED_ENTRIES]]
        rest = len(entries) - (first - 1) - len(lines)
        if rest > 0:
            lines.append(f"({rest:,} more: list_files({quote(shown)}, from={first + MAX_LISTED_ENTRIES}))")
        if more:
            lines.append(f"(only {len(entries):,} entries of this folder are listed)")
        return self._answer("\n".join([f"{shown}:", *(lines or ["(nothing)"])]))

    def read(self, arguments: Mapping[str, Any]) -> TextExcerpt:
        """Read a file, and return its hash, which is needed to replace it."""
        path = read_text_argument(arguments, "path")
        first, lines = read_positive_integer(arguments, "from", 1), read_positive_integer(arguments, "lines", None)
        root, parts = self._premises.find(path)
        with translate_file_errors(path):
            if not parts:
                raise UnusableError("is a folder; use list_files")
            with self._premises.open(root, parts[:-1]) as folder:
                shown = folder.name(parts[-1])
                _, raw = folder.read(parts[-1])
            text = decode_text(path, raw)
            if isinstance(text, FileProblem):
                raise UnusableError(text.reason)
        text = text.replace("\r\n", "\n")
        reading = cut_lines(text.removesuffix("\n"), first or 1, lines, self._assembly, f"read_file({quote(shown)}")
        head = (
            f"({shown}, lines {reading.first}–{reading.last} of {reading.total:,}, sha256 {shorten_hash(sha256(raw))})"
        )
        told = f"{label_scan(reading.text)[0]}{head}\n{reading.text}"
        return replace(reading, text=told, tokens=self._assembly.terms.meter.count(told))

    def search(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Search file names and lines."""
        words, path = read_text_argument(arguments, "text"), read_text_argument(arguments, "path", "")
        if not words.strip():
            raise InputError("'text' must not be blank")
        search = FileSearch(words, self._clock)
        for root, parts in self._list_starts(path):
            if not path:
                with suppress(OSError, UnusableError), self._premises.open(root, parts) as folder:
                    search.walk(folder)
                continue
            with translate_file_errors(path), self._premises.open(root, parts) as folder:
                search.walk(folder)
        return self._answer("\n".join(search.show()))

    def write(self, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Write a whole file; replacing one needs the hash of its current content."""
        path = read_text_argument(arguments, "path")
        new = NewFile(text=read_text_argument(arguments, "text"), replaces=read_text_argument(arguments, "sha256", ""))
        root, parts = self._premises.find(path)
        with translate_file_errors(path):
            if not parts:
                raise UnusableError("is a folder; name a file in it")
            with self._premises.open(root, ()) as start:
                shown, digest = write_file(start, parts, new, lambda inside: may_feed_prompts(inside, self._guard))
        made = "Replaced" if new.replaces else "Written"
        return self._answer(f"{made}: {shown}, {len(new.text.encode()):,} bytes, sha256 {digest}.")


class FileSearch:
    """A running search; it stops at a number of matches or at its time limit."""

    def __init__(self, words: str, clock: Callable[[], float]) -> None:
        self._words = words.casefold()
        self._clock = clock
        self._end = clock() + MAX_SEARCH_S
        self._hits: list[str] = []
        self._opened = self._skipped = 0
        self._stopped = ""

    def walk(self, folder: OpenFolder, depth: int = 0) -> None:
        """Search a folder recursively, in the order of names."""
        entries, more = folder.list()
        if more:
            self._stopped = self._stopped or f"{folder.shown} has more entries than were looked at"
        for entry in entries:
            if self._is_over():
                return
            if self._words in entry.name.casefold():
                self._hits.append(folder.name(entry.name) + ("/" if entry.kind == "folder" else ""))
            if entry.kind == "folder" and depth < MAX_DEPTH:
                with suppress(OSError), folder.enter(entry.name) as below:
                    self.walk(below, depth + 1)
            elif entry.kind == "file":
                self._hits.extend(self._find(folder, entry))

    def _is_over(self) -> bool:
        if len(self._hits) > MAX_SEARCH_HITS:
            self._stopped = f"only the first {MAX_SEARCH_HITS} places are shown"
        elif self._opened >= MAX_SEARCHED_FILES or self._clock() > self._end:
            self._stopped = f"the search ended after {self._opened:,} files"
        else:
            return False
        return True

    def _find(self, folder: OpenFolder, entry: FolderEntry) -> Iterator[str]:
        """Yield the matching lines of a file; count binary and large files as skipped."""
        self._opened += 1
        try:
            text = decode_text(entry.name, folder.read(entry.name, MAX_SEARCHED_BYTES)[1])
        except (OSError, UnusableError):
            self._skipped += 1
            return
        if isinstance(text, FileProblem):
            self._skipped += 1
            return
        if self._words not in text.casefold():
            return
        for number, line in enumerate(text.split("\n"), 1):
            if (at := line.casefold().find(self._words)) != -1:
                start = max(0, at - CONTEXT_CHARS)
                end = at + len(self._words) + CONTEXT_CHARS
                yield f"{folder.name(entry.name)}:{number}: {line[start:end].strip()}"

    def show(self) -> Iterator[str]:
        """Yield the matches, and notes on what was not searched."""
        self._is_over()
        yield from self._hits[:MAX_SEARCH_HITS] or ["Nothing was found."]
        if self._stopped:
            yield f"({self._stopped}; name a folder, or other words)"
        if self._skipped:
            yield f"({self._skipped:,} files were not searched: no text, or too large)"


def list_turn_directories(turn: Turn, ground: AssemblyContext, level: Trust) -> Sequence[Directory]:
    """List the directories of a turn: those of its agent and its own, as far as its clearance allows."""
    agent = ground.config.agents.get(turn.agent)
    given = [*(agent.folders if agent else ()), *(Directory(path=path) for path in turn.directories)]
    return [one for one in given if one.trust <= level]


def show_entry(entry: FolderEntry) -> str:
    """Format an entry on one line."""
    match entry.kind:
        case "folder":
            return f"{entry.name}/"
        case "file":
            return f"{entry.name} ({entry.size:,} bytes)"
        case "link":
            return f"{entry.name} (a link, which is not followed)"
    return f"{entry.name} (no regular file)"
