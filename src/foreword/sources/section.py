"""Sections: what sources give, before any budget has spoken."""

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain, count

from foreword.blueprint import Planned, Slot
from foreword.frozen import frozen
from foreword.sources.passage import Passage
from foreword.sources.pattern import Pattern
from foreword.words import Pace, Placement, Trust, Verdict

STORE = "the store"  # the origin of what is kept of an agent beside its files


def write_line(path: str, tokens: int, description: str) -> str:
    """Write one line of the memory menu: what can be loaded, what that costs, and what it is."""
    tail = f" — {description}" if description else ""
    return f"- {path} ({tokens:,} tok){tail}"


def quote(text: str) -> str:
    """Write a text as the argument of a call."""
    return json.dumps(text, ensure_ascii=False)


def write_get(path: str, first: int, last: int) -> str:
    """Write the call that reads some lines of a memory."""
    return f"memory_get({quote(path)}, from={first}, lines={last - first + 1})"


class Placed:
    """What an item of a run knows from the plan."""

    __slots__ = ()
    entry: Planned
    name: str

    @property
    def id(self) -> str:
        """The slot, or `slot:name` for one of several in it."""
        return f"{self.entry.id}:{self.name}" if self.name else self.entry.id

    @property
    def slot(self) -> Slot:
        """The slot it stands in."""
        return self.entry.slot

    @property
    def trust(self) -> Trust:
        """The least clearance that may see it."""
        return self.entry.trust


@frozen
class Section(Placed):
    """One text that wants to be in the prompt."""

    entry: Planned
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
    """Whether the text only says that the real one cannot be used."""
    broken: bool = False
    """Whether it stands for a file that is there and broken: a session that was told the good text keeps that."""
    before: str = ""
    """What its slot's form puts before the text; it is never cut."""
    after: str = ""
    """What its slot's form, or a template, puts after the text."""
    pattern: Pattern | None = None
    """The template that this text is, whose variables are still to be filled in."""
    instead: "Section | None" = None
    """What stands in for a template that cannot be filled in."""
    opens: bool = True
    """Whether its heading stands before it; not where a template goes on."""
    outside: bool = False
    """Whether its words come from outside, whatever its slot says of others."""
    gives_way: int | None = None
    """The line, counted from 0, that is cut first when the text is too long; the lines around it stay."""
    passages: tuple[Passage, ...] = ()
    """What was recalled, where the text is made of passages."""
    leads: bool = False
    """Whether other parts of a template stand under its heading, which then stays when its text is left out."""


@frozen
class Missing(Placed):
    """A slot, or one of several in it, that has no text, and why."""

    entry: Planned
    name: str = ""
    reason: str
    verdict: Verdict = Verdict.ABSENT
    passages: tuple[Passage, ...] = ()
    """What would be recalled if the conversation did not hold it already."""


Item = Section | Missing


def lament(entry: Planned, reason: str, name: str = "", *, broken: bool = False) -> Section:
    """Say in the place of a file that it is there and cannot be used."""
    return Section(
        entry=entry, name=name, title=name, text=f"[{reason}]", origin="", note=reason, lost=True, broken=broken
    )


def tell_apart(names: Iterable[str]) -> Iterator[str]:
    """Number names that stand twice, so that every section of a slot has an id of its own."""
    seen: set[str] = set()
    for name in names:
        free = next(each for each in chain([name], (f"{name} ({at})" for at in count(2))) if each not in seen)
        seen.add(free)
        yield free


@lru_cache(maxsize=4_096)
def tell(entry: Planned, text: str, origin: str, note: str = "", gives_way: int | None = None) -> Section:
    """Make a section of a short fact; the same fact in the same slot is the same object."""
    return Section(entry=entry, text=text, origin=origin, note=note, gives_way=gives_way)


@lru_cache(maxsize=4_096)
def absent(entry: Planned, reason: str) -> Missing:
    """Say that a slot has nothing to say in this turn; the answer is the same object for the same reason."""
    return Missing(entry=entry, reason=reason)


@frozen
class Filled:
    """A run of the plan with what its sources gave."""

    pace: Pace
    placement: Placement
    items: tuple[Item, ...]
    continues: bool = False
    """Whether it goes on with a template that began in the run before."""

    @property
    def sections(self) -> Iterator[Section]:
        """The items that have a text."""
        return (item for item in self.items if isinstance(item, Section))
