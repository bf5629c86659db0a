"""Sections: the texts that sources return, and the registry of sources."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, count
from typing import Any, Protocol, TypeVar

from foreword.engine.blueprint import Slot
from foreword.engine.selection import PlannedSlot
from foreword.engine.sources.documents import Document
from foreword.engine.sources.template_language import ParsedTemplate
from foreword.engine.trust import Audience
from foreword.errors import InputError
from foreword.types import Pace, Placement, Trust, Verdict, frozen


@frozen(eq=True)
class Passage:
    """A few lines of a memory or of another file."""

    path: str
    first: int
    last: int
    heading: str
    text: str
    cut: bool = False
    """Whether the text is only a part of these lines."""
    origin: str = ""
    """The author, where no owner has reviewed the text."""
    file: str = ""
    """The workspace file that holds it."""
    line: int = 0
    """The line of that file where the text begins; 0 where lines have no meaning, as in JSON."""

    def to_dict(self) -> dict[str, str | int]:
        """Return the passage as a citation: file, line, heading, text, and the author if it is not reviewed."""
        return {
            "file": self.file,
            "line": self.line,
            "heading": self.heading,
            "text": self.text,
            "origin": self.origin,
        }


class Recall(Protocol):
    """A search for the passages that match a message."""

    def recall(self, message: str, audience: Audience, documents: Sequence[Document] = ()) -> Sequence[Passage]:
        """Return a few passages that the audience may see, best first, or none if no passage clearly matches.

        The documents are searched in addition to the stores; the caller has checked that the audience may see them.
        """


STORE_ORIGIN = "the store"  # the origin of an agent's stored character


def write_menu_line(path: str, tokens: int, description: str) -> str:
    """Write one line of the memory menu: path, tokens and description."""
    tail = f" — {description}" if description else ""
    return f"- {path} ({tokens:,} tok){tail}"


def quote(text: str) -> str:
    """Write a text as a call argument."""
    return json.dumps(text, ensure_ascii=False)


def write_memory_get(path: str, first: int, last: int) -> str:
    """Write the call that reads some lines of a memory."""
    return f"memory_get({quote(path)}, from={first}, lines={last - first + 1})"


class SlotItem:
    """The properties that an item takes from the plan."""

    __slots__ = ()
    entry: PlannedSlot
    name: str

    @property
    def id(self) -> str:
        """The slot id, or `slot:name` for one of several items in a slot."""
        return f"{self.entry.id}:{self.name}" if self.name else self.entry.id

    @property
    def slot(self) -> Slot:
        """The slot of the item."""
        return self.entry.slot

    @property
    def trust(self) -> Trust:
        """The lowest clearance that may see it."""
        return self.entry.trust


@frozen
class Section(SlotItem):
    """One text for the prompt."""

    entry: PlannedSlot
    name: str = ""
    text: str
    origin: str
    title: str = ""
    path: str = ""
    sha256: str = ""
    note: str = ""
    description: str = ""
    lines: tuple[str, ...] = ()
    lost: bool = False
    """Whether the text only reports that the real text cannot be used."""
    broken: bool = False
    """Whether it replaces a broken file: a session that was sent the good text retains that."""
    before: str = ""
    """The part of the slot's form before the text; it is never cut."""
    after: str = ""
    """The text that the slot's form, or a template, puts after the text."""
    pattern: ParsedTemplate | None = None
    """The parsed template if the text is one that is not expanded yet."""
    instead: "Section | None" = None
    """The fallback if the template cannot be expanded."""
    opens: bool = True
    """Whether it shows its heading; not if it continues a template."""
    outside: bool = False
    """Whether the text comes from outside, regardless of the slot's voice."""
    gives_way: int | None = None
    """The line, counted from 0, that is cut first when the text is too long; the lines around it stay."""
    passages: tuple[Passage, ...] = ()
    """The passages, if the text consists of recalled passages."""
    leads: bool = False
    """Whether other parts of a template follow under its heading; the heading then stays if the text is left out."""


@frozen
class Missing(SlotItem):
    """A slot, or one item of a slot, without a text, and the reason."""

    entry: PlannedSlot
    name: str = ""
    reason: str
    verdict: Verdict = Verdict.ABSENT
    passages: tuple[Passage, ...] = ()
    """The passages that recall found but the conversation already holds."""


Item = Section | Missing


def join_notes(*notes: str) -> str:
    """Join the notes of a verdict that are not empty."""
    return "; ".join(filter(None, notes))


def make_text_item(entry: PlannedSlot, text: str, origin: str, absence: str) -> Item:
    """Build the section of a text, or the reason why there is none."""
    return Section(entry=entry, text=text, origin=origin) if text else Missing(entry=entry, reason=absence)


def report_unusable(entry: PlannedSlot, reason: str, name: str = "", *, broken: bool = False) -> Section:
    """Build the section that reports a file that exists but cannot be used."""
    return Section(
        entry=entry, name=name, title=name, text=f"[{reason}]", origin="", note=reason, lost=True, broken=broken
    )


def number_duplicates(names: Iterable[str]) -> Iterator[str]:
    """Number repeated names, so that every section of a slot has a unique id."""
    seen: set[str] = set()
    for name in names:
        free = next(each for each in chain([name], (f"{name} ({at})" for at in count(2))) if each not in seen)
        seen.add(free)
        yield free


@frozen
class FilledRun:
    """A run of the plan with the items that its sources returned."""

    pace: Pace
    placement: Placement
    items: tuple[Item, ...]
    continued: bool = False
    """Whether its last template continues in the next run."""

    @property
    def sections(self) -> Iterator[Section]:
        """The items that have a text."""
        return (item for item in self.items if isinstance(item, Section))


LOG_LOCK = threading.Lock()  # so that concurrent assemblies log a hint once


def add_hint(item: Item) -> Item:
    """Add the slot's hint to the note of a text; hints are about files, so stored texts get none."""
    hint = item.slot.hint
    if not hint or not isinstance(item, Section) or item.origin == STORE_ORIGIN:
        return item
    with LOG_LOCK:
        log_once(hint)
    return replace(item, note=join_notes(item.note, hint))


@cache
def log_once(hint: str) -> None:
    """Log a hint once per process."""
    import logging  # late: few turns have such a hint, and every start would pay for it

    logging.getLogger("foreword").info(hint)


SourceFunction = Callable[[Any, PlannedSlot], tuple[Item, ...] | Item]
AnySource = TypeVar("AnySource", bound=SourceFunction)


@frozen(eq=True)
class Source:
    """A function that fills a slot, and the pace of the data it depends on."""

    name: str
    pace: Pace
    fill: SourceFunction
    fields: frozenset[str] = frozenset()
    """The fields of the slot's form that it fills in itself; other sources only fill {text}."""


SOURCES: dict[str, Source] = {}


def source(name: str, pace: Pace, fields: Iterable[str] = ()) -> Callable[[AnySource], AnySource]:
    """Register a function as the source of this name; it receives a view of its pace."""

    def register(fill: AnySource) -> AnySource:
        if name in SOURCES and SOURCES[name].fill.__module__ != fill.__module__:
            raise InputError(f"a source named {name!r} already exists")
        SOURCES[name] = Source(name=name, pace=pace, fill=fill, fields=frozenset(fields))
        return fill

    return register
