"""The file tools list, read, search and write, within the directories of an agent and the clearance of its turn."""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from hashlib import sha256 as hash_sha256
from typing import TYPE_CHECKING, Annotated

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
from foreword.agent.tools.declaration import TextExcerpt, ToolRun, tool
from foreword.config.load import is_hidden
from foreword.config.schema import Directory
from foreword.engine.sources.documents import FileProblem
from foreword.engine.sources.files import UnusableError, decode_text
from foreword.engine.sources.injection import label_scan
from foreword.engine.sources.sections import quote
from foreword.engine.trust import FileGuard, find_author, has_other_readers, is_archive, may_read_transcript
from foreword.errors import InputError
from foreword.turn import ToolAnswer, Toolset
from foreword.types import Trust

if TYPE_CHECKING:
    from pydantic import Field

MAX_WRITTEN_BYTES = 1_000_000  # bytes of a written file
MAX_WRITTEN_CHARS = 8 * MAX_WRITTEN_BYTES  # characters of a call that writes one; as JSON a character can have six
SHOWN_HASH_CHARS = 16  # characters shown of a hash
MAX_LISTED_ENTRIES = 200  # entries of one answer
MAX_SEARCH_HITS = 50  # matches shown by one search
MAX_SEARCHED_FILES = 20_000  # files opened by one search
MAX_SEARCHED_BYTES = 1_000_000  # bytes of a searched file
MAX_SEARCH_S = 10.0  # time limit of one search
CONTEXT_CHARS = 100  # characters shown before and after a match
CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
# Folders of prompts, memory and configuration: other tools or the owner write them.
RESERVED_FOLDERS = frozenset(
    {"agents", "blueprints", "channels", "groups", "memory", "prompts", "rules", "skills", "users"}
)


def open_roots(run: ToolRun) -> AllowedRoots:
    """Open the directories of a turn: those of its agent and its own, as far as its clearance allows."""
    context = run.workspace.context
    agent = context.config.agents.get(run.turn.agent)
    given = [*(agent.folders if agent else ()), *(Directory(path=path) for path in run.turn.directories)]
    allowed = [one for one in given if one.trust <= run.level]
    if not allowed:
        raise InputError("you were given no directory here")
    return AllowedRoots(allowed, WorkspaceFolder(root=context.files.root, sees=lambda path: may_see(run, path)))


def get_guard(run: ToolRun) -> FileGuard:
    """Return the guard of the workspace files under the turn's blueprint."""
    return run.workspace.context.guard(run.assembly.plan.blueprint)


def may_see(run: ToolRun, path: str) -> bool:
    """Return whether the clearance may see a workspace file; unreviewed entries are read as memory instead."""
    guard = get_guard(run)
    person = guard.find_person(path)
    if is_hidden(path) or (person and (person != run.turn.user or has_other_readers(run.turn))):
        return False
    if is_archive(path):
        return may_read_transcript(run.workspace.context.archives(path), run.turn, run.level)
    return not find_author(path) and run.level >= guard.find_required_trust(path)


def list_starts(roots: AllowedRoots, path: str) -> Sequence[tuple[AllowedRoot, tuple[str, ...]]]:
    """List the start folders: the path, or every directory of the agent."""
    return [roots.find(path)] if path else [(root, ()) for root in roots.roots]


@tool(kind="files", trust=Trust.INNER, seconds=15)
def list_files(run: ToolRun, path: str = "", from_: Annotated[int, Field(ge=1)] = 1, **_: object) -> ToolAnswer:
    """List a directory that you were given, or a folder in it.

    Args:
        path: The folder; all that you were given if left out.
        from: The first entry to show, counted from 1.
    """
    roots, first = open_roots(run), from_
    starts = list_starts(roots, path)
    if len(starts) > 1:
        return run.answer("\n".join(root.label for root, _ in starts))
    ((root, parts),) = starts
    with translate_file_errors(path or root.label), roots.open(root, parts) as folder:
        entries, more = folder.list()
        shown = folder.shown
    lines = [show_entry(entry) for entry in entries[first - 1 : first - 1 + MAX_LISTED_ENTRIES]]
    rest = len(entries) - (first - 1) - len(lines)
    if rest > 0:
        lines.append(f"({rest:,} more: list_files({quote(shown)}, from={first + MAX_LISTED_ENTRIES}))")
    if more:
        lines.append(f"(only {len(entries):,} entries of this folder are listed)")
    return run.answer("\n".join([f"{shown}:", *(lines or ["(nothing)"])]))


@tool(kind="files", trust=Trust.INNER, seconds=15)
def read_file(
    run: ToolRun, path: str, from_: Annotated[int, Field(ge=1)] = 1, lines: Annotated[int, Field(ge=1)] = 0, **_: object
) -> TextExcerpt:
    """Read a text file in a directory that you were given, or a part of it.

    Args:
        path: The file, as list_files shows it.
        from: The first line to read, counted from 1.
        lines: How many lines to read; all that fit if left out.
    """
    roots = open_roots(run)
    root, parts = roots.find(path)
    with translate_file_errors(path):
        if not parts:
            raise UnusableError("is a folder; use list_files")
        with roots.open(root, parts[:-1]) as folder:
            shown = folder.name(parts[-1])
            raw = folder.read(parts[-1])[1]
        text = decode_text(path, raw)
        if isinstance(text, FileProblem):
            raise UnusableError(text.reason)
    excerpt = run.cut_lines(text.replace("\r\n", "\n").removesuffix("\n"), f"read_file({quote(shown)}", from_, lines)
    place = f"lines {excerpt.first}–{excerpt.last} of {excerpt.total:,}"
    labelled = f"{label_scan(excerpt.text)[0]}({shown}, {place}, sha256 {shorten_hash(raw)})\n{excerpt.text}"
    return replace(excerpt, text=labelled, tokens=run.count(labelled))


# Directories that cannot be opened are skipped, unless one is named.
@tool(kind="files", trust=Trust.INNER, seconds=30)
def search_files(run: ToolRun, text: str, path: str = "", **_: object) -> ToolAnswer:
    """Find files that have these words in their names or lines, whatever the case.

    Args:
        text: The words to look for, as they stand in the file.
        path: The folder to look in; all that you were given if left out.
    """
    roots = open_roots(run)
    if not text.strip():
        raise InputError("'text' must not be blank")
    search = FileSearch(text)
    for root, parts in list_starts(roots, path):
        errors = translate_file_errors(path) if path else suppress(OSError, UnusableError)
        with errors, roots.open(root, parts) as folder:
            search.walk(folder)
    return run.answer("\n".join(search.show()))


@tool(kind="files", trust=Trust.FULL, seconds=30, changes=True, max_argument_chars=MAX_WRITTEN_CHARS)
def write_file(run: ToolRun, path: str, text: str, sha256: str = "", **_: object) -> ToolAnswer:
    """Write a text file in a directory that you were given. To replace one, read it and name its sha256.

    Args:
        path: The file; folders that are missing are made.
        text: The whole text of the file.
        sha256: That of the file to be replaced, as read_file shows it.
    """
    roots, replaced = open_roots(run), sha256
    root, parts = roots.find(path)
    with translate_file_errors(path):
        raw = encode_written(text)
        if not parts:
            raise UnusableError("is a folder; name a file in it")
        if any(map(is_protected, parts)):
            raise ProtectedError("was not written: hidden names and configurations are not for tools")
        with roots.open(root, ()) as start:
            shown = write_below(start, parts, raw, replaced, lambda inside: may_feed_prompts(inside, get_guard(run)))
    done = "Replaced" if replaced else "Written"
    return run.answer(f"{done}: {shown}, {len(raw):,} bytes, sha256 {shorten_hash(raw)}.")


FILE_TOOLS = Toolset([list_files, read_file, search_files, write_file])


def shorten_hash(raw: bytes) -> str:
    """Return the part of a file's hash that is shown to the agent."""
    return hash_sha256(raw).hexdigest()[:SHOWN_HASH_CHARS]


def may_feed_prompts(path: str, guard: FileGuard) -> bool:
    """Return whether a workspace path may feed prompts, or is readable below full trust."""
    top, _, rest = path.partition("/")
    places = {(slot.folder or slot.file).partition("/")[0] for slot in guard.blueprint.slots}
    listed = path in guard.listed or guard.find_person(path) or guard.find_required_trust(path) < Trust.FULL
    return not rest or top.casefold() in RESERVED_FOLDERS | places or bool(listed)


def encode_written(text: str) -> bytes:
    """Encode the text of a file; refuse one that is too large or not plain text."""
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        raise UnusableError("was not written: its text has half a character") from None
    if len(raw) > MAX_WRITTEN_BYTES:
        raise UnusableError(f"was not written: {len(raw):,} bytes are more than {MAX_WRITTEN_BYTES:,}")
    if "\0" in text:
        raise UnusableError("was not written: its text has a NUL byte")
    return raw


def write_below(
    start: OpenFolder, parts: Sequence[str], raw: bytes, replaced: str, refuses: Callable[[str], bool]
) -> str:
    """Write a file below an open folder, and make missing folders for a new one; return its shown path."""
    *above, name = parts
    with ExitStack() as opened:
        folder = start
        for part in above:
            check_writable_place(folder, f"{part}/{name}", refuses)
            if not replaced:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder.handle)
            folder = opened.enter_context(folder.enter_any(part))
        check_writable_place(folder, name, refuses)
        replace_atomically(folder, name, raw, check_replaced_file(folder, name, replaced))
        return folder.name(name)


def check_writable_place(folder: OpenFolder, name: str, refuses: Callable[[str], bool]) -> None:
    """Refuse a workspace path that agents may not write to."""
    inside = folder.locate(name)
    if inside is not None and refuses(inside):
        raise ProtectedError("was not written: what prompts and memory are made of is not for write_file")


def check_replaced_file(folder: OpenFolder, name: str, replaced: str) -> os.stat_result | None:
    """Refuse to replace a file unless the given hash matches its current content."""
    try:
        facts, old = folder.read(name)
    except FileNotFoundError:
        if replaced:
            raise UnusableError("was not written: there is nothing to be replaced; leave out sha256") from None
        return None
    if not replaced:
        raise UnusableError("was not written: it is there already; read it, and name its sha256 to replace it")
    if len(replaced) < SHOWN_HASH_CHARS or not hash_sha256(old).hexdigest().startswith(replaced.lower()):
        raise UnusableError("was not written: it is another text by now; read it again")
    return facts


def replace_atomically(folder: OpenFolder, name: str, raw: bytes, facts: os.stat_result | None) -> None:
    """Write to a temporary file and move it into place; a new file never replaced an existing one."""
    temporary = f".{secrets.token_hex(8)}.foreword"
    handle = os.open(temporary, CREATE_FLAGS, 0o666, dir_fd=folder.handle)
    try:
        with open(handle, "wb") as file:
            file.write(raw)
            file.flush()
            if facts:
                os.fchmod(handle, stat.S_IMODE(facts.st_mode))
            os.fsync(handle)
        if facts:
            os.replace(temporary, name, src_dir_fd=folder.handle, dst_dir_fd=folder.handle)
        else:
            os.link(temporary, name, src_dir_fd=folder.handle, dst_dir_fd=folder.handle, follow_symlinks=False)
    except FileExistsError:
        raise UnusableError("was not written: it has come into being meanwhile; read it first") from None
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder.handle)
    os.fsync(folder.handle)


class FileSearch:
    """A running search; it stops at a number of matches or at its time limit."""

    def __init__(self, words: str) -> None:
        self._words = words.casefold()
        self._end = time.monotonic() + MAX_SEARCH_S
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
        elif self._opened >= MAX_SEARCHED_FILES or time.monotonic() > self._end:
            self._stopped = f"the search ended after {self._opened:,} files"
        else:
            return False
        return True

    def _find(self, folder: OpenFolder, entry: FolderEntry) -> Iterator[str]:
        """Yield the matching lines of a file; count binary and large files as skipped."""
        self._opened += 1
        text: str | FileProblem | None = None
        with suppress(OSError, UnusableError):
            text = decode_text(entry.name, folder.read(entry.name, MAX_SEARCHED_BYTES)[1])
        if not isinstance(text, str):
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
