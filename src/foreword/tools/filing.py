"""Runs the tools for files, within the directories of an agent and the clearance of its turn."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from typing import Any

from foreword.assembly import Assembly
from foreword.config.load import is_hidden
from foreword.config.schema import Directory
from foreword.errors import InputError, UnknownName
from foreword.sources.archived import is_archive, may_read
from foreword.sources.document import Trouble
from foreword.sources.files import UnusableError, decode
from foreword.sources.ground import Ground
from foreword.sources.outside import label
from foreword.sources.provenance import find_author
from foreword.sources.section import quote
from foreword.tools.answer import Answer
from foreword.tools.files import FILES
from foreword.tools.premises import DEEP, Entry, Folder, Home, Premises, Root, explain
from foreword.tools.reading import Reading, cut, read_number
from foreword.tools.remembering import take_text
from foreword.tools.writing import NewFile, is_prompt, shorten_hash, write
from foreword.trust import has_company
from foreword.turn import Turn
from foreword.words import Trust

SHOWN = 200  # entries of one answer
HITS = 50  # places that one search shows
SEARCHED = 20_000  # files that one search opens
LARGE = 1_000_000  # bytes of a file that is searched
SECONDS = 10.0  # of one search
AROUND = 100  # characters before and after what was found


class Filing:
    """Runs the tools for files for one turn."""

    def __init__(self, assembly: Assembly, ground: Ground, clock: Callable[[], float] = time.monotonic) -> None:
        self._assembly = assembly
        self._guard = ground.guard(assembly.plan.blueprint)
        self._archives = ground.archives
        self._level = assembly.clearance.level
        self._clock = clock
        given = list_given(assembly.turn, ground, self._level)
        self._premises = Premises(given, Home(root=ground.files.root, sees=self._sees))

    def call(self, name: str, arguments: Mapping[str, Any]) -> Reading | Answer:
        """Run one tool."""
        tools: Mapping[str, Callable[[Mapping[str, Any]], Reading | Answer]] = {
            "list_files": self.list,
            "read_file": self.read,
            "search_files": self.search,
            "write_file": self.write,
        }
        if name not in self._assembly.terms.tools or name not in tools:
            raise UnknownName("tool", name, self._assembly.terms.tools.names & FILES.names)
        if not self._premises.roots:
            raise InputError("you were given no directory here")
        return tools[name](arguments)

    def _sees(self, path: str) -> bool:
        """Whether the clearance may see a file of the workspace; what waits for review is read as memory."""
        turn = self._assembly.turn
        person = self._guard.find_person(path)
        mine = not person or (person == turn.user and not has_company(turn))
        if is_archive(path):
            return mine and not is_hidden(path) and may_read(self._archives(path), turn, self._level)
        return mine and not is_hidden(path) and not find_author(path) and self._level >= self._guard.find_least(path)

    def _answer(self, text: str) -> Answer:
        return Answer(text=text, tokens=self._assembly.terms.meter.count(text))

    def _list_starts(self, path: str) -> Sequence[tuple[Root, tuple[str, ...]]]:
        """List where to begin: at a path, or in every directory that was given."""
        return [self._premises.find(path)] if path else [(root, ()) for root in self._premises.roots]

    def list(self, arguments: Mapping[str, Any]) -> Answer:
        """List a folder, or the directories that were given if there are several."""
        path, first = take_text(arguments, "path", ""), read_number(arguments, "from", 1) or 1
        starts = self._list_starts(path)
        if len(starts) > 1:
            return self._answer("\n".join(root.label for root, _ in starts))
        ((root, parts),) = starts
        with explain(path or root.label), self._premises.open(root, parts) as folder:
            entries, more = folder.list()
            shown = folder.shown
        lines = [show_entry(entry) for entry in entries[first - 1 : first - 1 + SHOWN]]
        rest = len(entries) - (first - 1) - len(lines)
        if rest > 0:
            lines.append(f"({rest:,} more: list_files({quote(shown)}, from={first + SHOWN}))")
        if more:
            lines.append(f"(only {len(entries):,} entries of this folder are listed)")
        return self._answer("\n".join([f"{shown}:", *(lines or ["(nothing)"])]))

    def read(self, arguments: Mapping[str, Any]) -> Reading:
        """Read a file, with the hash by which it may be replaced."""
        path = take_text(arguments, "path")
        first, lines = read_number(arguments, "from", 1), read_number(arguments, "lines", None)
        root, parts = self._premises.find(path)
        with explain(path):
            if not parts:
                raise UnusableError("is a folder; use list_files")
            with self._premises.open(root, parts[:-1]) as folder:
                shown = folder.name(parts[-1])
                _, raw = folder.read(parts[-1])
            text = decode(path, raw)
            if isinstance(text, Trouble):
                raise UnusableError(text.reason)
        text = text.replace("\r\n", "\n")
        reading = cut(text.removesuffix("\n"), first or 1, lines, self._assembly, f"read_file({quote(shown)}")
        head = (
            f"({shown}, lines {reading.first}–{reading.last} of {reading.total:,}, sha256 {shorten_hash(sha256(raw))})"
        )
        told = f"{label(reading.text)[0]}{head}\n{reading.text}"
        return replace(reading, text=told, tokens=self._assembly.terms.meter.count(told))

    def search(self, arguments: Mapping[str, Any]) -> Answer:
        """Find words in names and lines."""
        words, path = take_text(arguments, "text"), take_text(arguments, "path", "")
        if not words.strip():
            raise InputError("'text' must not be blank")
        search = Search(words, self._clock)
        for root, parts in self._list_starts(path):
            if not path:
                with suppress(OSError, UnusableError), self._premises.open(root, parts) as folder:
                    search.walk(folder)
                continue
            with explain(path), self._premises.open(root, parts) as folder:
                search.walk(folder)
        return self._answer("\n".join(search.show()))

    def write(self, arguments: Mapping[str, Any]) -> Answer:
        """Write a file whole; one that is there already only by whoever has read it as it is."""
        path = take_text(arguments, "path")
        new = NewFile(text=take_text(arguments, "text"), replaces=take_text(arguments, "sha256", ""))
        root, parts = self._premises.find(path)
        with explain(path):
            if not parts:
                raise UnusableError("is a folder; name a file in it")
            with self._premises.open(root, ()) as start:
                shown, digest = write(start, parts, new, lambda inside: is_prompt(inside, self._guard))
        made = "Replaced" if new.replaces else "Written"
        return self._answer(f"{made}: {shown}, {len(new.text.encode()):,} bytes, sha256 {digest}.")


class Search:
    """One search on its way, which ends when enough was found or it takes too long."""

    def __init__(self, words: str, clock: Callable[[], float]) -> None:
        self._words = words.casefold()
        self._clock = clock
        self._end = clock() + SECONDS
        self._hits: list[str] = []
        self._opened = self._skipped = 0
        self._stopped = ""

    def walk(self, folder: Folder, depth: int = 0) -> None:
        """Search a folder and those below it, in the order of their names."""
        entries, more = folder.list()
        if more:
            self._stopped = self._stopped or f"{folder.shown} has more entries than were looked at"
        for entry in entries:
            if self._is_over():
                return
            if self._words in entry.name.casefold():
                self._hits.append(folder.name(entry.name) + ("/" if entry.kind == "folder" else ""))
            if entry.kind == "folder" and depth < DEEP:
                with suppress(OSError), folder.enter(entry.name) as below:
                    self.walk(below, depth + 1)
            elif entry.kind == "file":
                self._hits.extend(self._find(folder, entry))

    def _is_over(self) -> bool:
        if len(self._hits) > HITS:
            self._stopped = f"only the first {HITS} places are shown"
        elif self._opened >= SEARCHED or self._clock() > self._end:
            self._stopped = f"the search ended after {self._opened:,} files"
        else:
            return False
        return True

    def _find(self, folder: Folder, entry: Entry) -> Iterator[str]:
        """Find the lines of a file that have the words; what is no text, or too large, is counted."""
        self._opened += 1
        try:
            text = decode(entry.name, folder.read(entry.name, LARGE)[1])
        except (OSError, UnusableError):
            self._skipped += 1
            return
        if isinstance(text, Trouble):
            self._skipped += 1
            return
        if self._words not in text.casefold():
            return
        for number, line in enumerate(text.split("\n"), 1):
            if (at := line.casefold().find(self._words)) != -1:
                start = max(0, at - AROUND)
                yield f"{folder.name(entry.name)}:{number}: {line[start : at + len(self._words) + AROUND].strip()}"

    def show(self) -> Iterator[str]:
        """Show what was found, and what was not looked at."""
        self._is_over()
        yield from self._hits[:HITS] or ["Nothing was found."]
        if self._stopped:
            yield f"({self._stopped}; name a folder, or other words)"
        if self._skipped:
            yield f"({self._skipped:,} files were not searched: no text, or too large)"


def list_given(turn: Turn, ground: Ground, level: Trust) -> Sequence[Directory]:
    """List the directories that a turn may work in: those of its agent and its own, as far as its clearance goes."""
    agent = ground.config.agents.get(turn.agent)
    given = [*(agent.folders if agent else ()), *(Directory(path=path) for path in turn.directories)]
    return [one for one in given if one.trust <= level]


def show_entry(entry: Entry) -> str:
    """Show an entry on one line."""
    match entry.kind:
        case "folder":
            return f"{entry.name}/"
        case "file":
            return f"{entry.name} ({entry.size:,} bytes)"
        case "link":
            return f"{entry.name} (a link, which is not followed)"
    return f"{entry.name} (no regular file)"
