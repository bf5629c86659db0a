"""Writes a file whole or not at all, and never over something that its writer has not read."""

import os
import secrets
import stat
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from hashlib import sha256
from typing import Protocol

from foreword.blueprint.guard import FileGuard
from foreword.frozen import frozen
from foreword.sources.files import UnusableError
from foreword.tools.premises import Folder, ProtectedError, is_kept
from foreword.words import Trust

LARGEST = 1_000_000  # bytes of a written file
SIGNS = 16  # of a hash that is shown
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
# What prompts, memory and configuration are made of has tools of its own, or is the owner's to write.
OWN = frozenset({"agents", "blueprints", "channels", "groups", "memory", "prompts", "rules", "skills", "users"})


class Digest(Protocol):
    """A hash that can be shown."""

    def hexdigest(self) -> str:
        """Show it in hexadecimal."""


@frozen
class NewFile:
    """What is to be written, and the hash of what it replaces, if anything."""

    text: str
    replaces: str = ""


def shorten_hash(digest: Digest) -> str:
    """Show as much of a hash as tells two versions of a file apart."""
    return digest.hexdigest()[:SIGNS]


def is_prompt(path: str, guard: FileGuard) -> bool:
    """Whether a path of the workspace may be one that prompts are made of, or is read below full trust."""
    top, _, rest = path.partition("/")
    places = {(slot.folder or slot.file).partition("/")[0] for slot in guard.blueprint.slots}
    listed = path in guard.listed or guard.find_person(path) or guard.find_least(path) < Trust.FULL
    return not rest or top.casefold() in OWN | places or bool(listed)


def write(start: Folder, parts: Sequence[str], new: NewFile, refuses: Callable[[str], bool]) -> tuple[str, str]:
    """Write a file below an opened folder; return its name and the hash of what stands there now."""
    *above, name = parts
    try:
        raw = new.text.encode()
    except UnicodeEncodeError:
        raise UnusableError("was not written: its text has half a character") from None
    if len(raw) > LARGEST:
        raise UnusableError(f"was not written: {len(raw):,} bytes are more than {LARGEST:,}")
    if "\0" in new.text:
        raise UnusableError("was not written: its text has a NUL byte")
    if any(map(is_kept, parts)):
        raise ProtectedError("was not written: hidden names and configurations are not for tools")
    with ExitStack() as opened:
        folder = start
        for part in above:
            check_place(folder, f"{part}/{name}", refuses)
            folder = opened.enter_context(descend(folder, part, make=not new.replaces))
        check_place(folder, name, refuses)
        facts = check_old(folder, name, new.replaces)
        put(folder, name, raw, facts)
        return folder.name(name), shorten_hash(sha256(raw))


def descend(folder: Folder, name: str, *, make: bool) -> Folder:
    """Open a folder on the way, and make it if it is missing."""
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder.handle)
    return folder.enter_any(name)


def check_place(folder: Folder, name: str, refuses: Callable[[str], bool]) -> None:
    """Refuse a place in the workspace that is not for files of an agent."""
    inside = folder.locate(name)
    if inside is not None and refuses(inside):
        raise ProtectedError("was not written: what prompts and memory are made of is not for write_file")


def check_old(folder: Folder, name: str, replaces: str) -> os.stat_result | None:
    """Refuse to write over what is there unless it is known as it is."""
    try:
        facts, old = folder.read(name)
    except FileNotFoundError:
        if replaces:
            raise UnusableError("was not written: there is nothing to be replaced; leave out sha256") from None
        return None
    if not replaces:
        raise UnusableError("was not written: it is there already; read it, and name its sha256 to replace it")
    if len(replaces) < SIGNS or not sha256(old).hexdigest().startswith(replaces.lower()):
        raise UnusableError("was not written: it is another text by now; read it again")
    return facts


def put(folder: Folder, name: str, raw: bytes, facts: os.stat_result | None) -> None:
    """Put the bytes beside their place and move them there in one step; a new file never takes another's place."""
    beside = f".{secrets.token_hex(8)}.foreword"
    handle = os.open(beside, NEW, 0o666, dir_fd=folder.handle)
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
