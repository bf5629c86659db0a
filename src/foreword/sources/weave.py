"""Weaving: a template is an order, not a text; its own passages and the slots it names become sections side by side."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from foreword.blueprint.slot import Voice
from foreword.frozen import frozen
from foreword.sources.hint import add_hint
from foreword.sources.pattern import TemplateFault
from foreword.sources.section import Filled, Item, Missing, Section, lament
from foreword.words import Pace, Placement, Verdict

GAP = "\n\n"
SEAM = ""  # where a template begins to move; it weighs nothing, so that what stands before it never depends on the rest
SIGNS = re.compile(r"^\W+")
Flowing = tuple[Pace, Placement, Item]


def weave(*runs: Filled | None) -> tuple[Filled | None, ...]:
    """Put the slots that templates name into their places; None stands where a turn's own run is, and stays there."""
    known = [run for run in runs if run is not None]
    if not any(run.placement is Placement.NESTED or has_pattern(run) for run in known):
        return runs
    loom = Loom(known)
    woven: list[Filled | None] = []
    for apart, group in groupby(runs, key=lambda run: run is None):
        if apart:
            woven.extend(group)
        else:
            woven.extend(gather(flowing for run in group if run for flowing in loom.flow(run)))
    return tuple(woven)


def has_pattern(run: Filled) -> bool:
    """Whether a run holds a template."""
    return any(isinstance(item, Section) and item.pattern for item in run.items)


def gather(flow: Iterator[Flowing]) -> Iterator[Filled]:
    """Gather neighbours of one pace and one placement into runs."""
    for (pace, placement), group in groupby(flow, key=lambda flowing: flowing[:2]):
        items = tuple(item for _, _, item in group)
        first = next((item for item in items if isinstance(item, Section)), None)
        yield Filled(pace=pace, placement=placement, items=items, continues=first is not None and not first.opens)


@frozen
class Woven:
    """A template that was filled in: what is written in its place, and the sections that it was given."""

    template: Section
    stable: Sequence[str | Section]
    """What is the same for everybody at one clearance."""
    moving: Sequence[str | Section] = ()
    """What depends on slots that are faster than the template, even if only on whether they are there."""
    pace: Pace
    """The pace of what moves."""
    given: Mapping[str, Sequence[Section]]


class Loom:
    """Knows which slot is named by which template."""

    def __init__(self, runs: Sequence[Filled]) -> None:
        self._paces: dict[str, Pace] = {}
        self._nested: dict[str, list[Section]] = {}
        self._settled: set[str] = set()
        for pace, item in ((run.pace, item) for run in runs for item in run.items):
            if item.slot.variable and not (isinstance(item, Section) and item.pattern):
                nested = self._nested.setdefault(item.slot.variable, [])
                nested.extend([item] if isinstance(item, Section) and not is_hopeless(item) else ())
                self._paces[item.slot.variable] = max(pace, self._paces.get(item.slot.variable, pace))
                self._settled |= {item.slot.variable} if item.slot.placement is not Placement.NESTED else set()
        self._taken: dict[str, Section] = {}
        self._woven = {id(one): self.fill(one, run.pace) for run in runs for one in run.sections if one.pattern}

    def fill(self, template: Section, pace: Pace) -> Woven:
        """Fill a template in; only one that can be filled in takes the slots that it names and nobody took before."""
        pattern = template.pattern
        if pattern is None:
            return Woven(template=template, stable=(template.text,), pace=pace, given={})
        named = sorted(pattern.names & self._nested.keys())
        # A slot that has a place of its own does not leave it for a template that not everybody has.
        kept = self._settled if template.entry.personal else set()
        names = [name for name in named if name not in kept or self._paces[name] >= pace]
        given = {name: self._nested[name] for name in names if name not in self._taken}
        faster = [name for name in given if self._paces[name] > pace]
        try:
            stable, moving = pattern.fill_apart(
                {name: [(label(one), one) for one in found] for name, found in given.items()}, faster
            )
        except TemplateFault as fault:
            reason = add(template.note, f"{template.origin} {fault}")
            if template.instead is None:
                return self.fill(lament(template.entry, reason, template.name, broken=True), pace)
            note = add(reason, "the built-in text stands in")
            return self.fill(replace(template.instead, note=note, broken=True), pace)
        unknown = ", ".join(sorted(pattern.names - pattern.known.keys() - self._nested.keys()))
        note = add(template.note, f"unknown variables are left out: {unknown}" if unknown else "")
        for name in named:
            if name not in names:
                note = add(note, f"{name} has its own place")
            elif self._taken.setdefault(name, template) is not template:
                note = add(note, f"{name} stands in {self._taken[name].origin} already")
        return Woven(
            template=replace(template, note=note, pattern=None),
            stable=stable,
            moving=moving,
            pace=max((self._paces[name] for name in faster), default=pace),
            given=given,
        )

    def flow(self, run: Filled) -> Iterator[Flowing]:
        """Give the items of a run in their new order, each with the pace and the placement it now has."""
        for item in run.items:
            taken = self._taken.get(item.slot.variable) if item.slot.variable else None
            if isinstance(item, Section) and item.pattern:
                yield from self.expand(item, run)
            elif isinstance(item, Section) and is_hopeless(item):
                yield (
                    run.pace,
                    run.placement,
                    Missing(entry=item.entry, name=item.name, reason=item.note, verdict=Verdict.DROPPED),
                )
            elif isinstance(item, Missing) or (not taken and run.placement is not Placement.NESTED):
                yield run.pace, run.placement, item
            elif not taken:
                reason = f"no template names {{{{ {item.slot.variable} }}}}"
                yield run.pace, run.placement, Missing(entry=item.entry, name=item.name, reason=reason)

    def expand(self, template: Section, run: Filled) -> Iterator[Flowing]:
        """Write a template out as its passages and the sections between them; the pace never slows down on the way."""
        woven = self._woven[id(template)]
        parted = woven.pace is not run.pace
        stable = trim([*join(woven.stable)], end=not parted)
        moving = trim([*join(woven.moving)], start=not stable)
        if stable and moving and isinstance(stable[-1], Section) and isinstance(moving[0], Section):
            moving[0] = replace(moving[0], before=GAP + moving[0].before)
        if stable and parted:
            moving.insert(0, SEAM)
        sections = list(number([*stable, *moving], woven.template))
        if not any(section.entry is template.entry for section in sections):
            reason = woven.template.note or ("it has no words of its own" if sections else "it is blank")
            # Where somebody else has a text, its pace parts the blocks for everybody.
            pace = run.pace if sections else woven.pace
            yield pace, run.placement, Missing(entry=template.entry, name=template.name, reason=reason)
        if woven.template.broken:  # what a session was sent of the good one is held whole, not piece by piece
            sections = [replace(section, broken=True) for section in sections]
        for at, section in enumerate(sections):
            pace = run.pace if stable and at < len(sections) - len(moving) else woven.pace
            yield pace, run.placement, add_hint(section)
        placed = {section.id for section in sections}
        for one in (one for found in woven.given.values() for one in found):
            if one.id not in placed:
                reason = f"{woven.template.origin} does not place it"
                yield run.pace, run.placement, Missing(entry=one.entry, name=one.name, reason=reason)


def is_hopeless(item: Section) -> bool:
    """Whether a text that only a template shows cannot be used, so that the template says something else instead."""
    return item.lost and item.slot.placement is Placement.NESTED


def add(note: str, more: str) -> str:
    """Add to what a verdict says."""
    return "; ".join(filter(None, (note, more)))


def label(section: Section) -> str:
    """Name a section as templates see it: by the part of its id that tells it from its neighbours.

    A name from outside stands in the owner's words, where it must not begin a line like a heading or a rule.
    """
    name = section.title or section.name or section.entry.id
    return SIGNS.sub("", name) or section.entry.id if section.slot.voice is Voice.OUTSIDE else name


def join(pieces: Sequence[str | Section]) -> Iterator[str | Section]:
    """Let white space between two sections follow the first of them, so that it is no passage of its own."""
    waiting: Section | None = None
    for piece in pieces:
        if isinstance(piece, Section):
            if waiting:
                yield replace(waiting, after=waiting.after or GAP)
            waiting = piece
        elif waiting and not piece.strip():
            waiting = replace(waiting, after=waiting.after + piece)
        else:
            if waiting:
                yield waiting
            waiting = None
            yield piece
    if waiting:
        yield waiting


def number(found: list[str | Section], template: Section) -> Iterator[Section]:
    """Make sections of all pieces: the passages numbered, only the first with the heading, only the last closed."""
    if found and not isinstance(found[0], str) and (template.slot.title or template.title):
        found.insert(0, "")  # a heading of its own, where the template begins with a variable
    count = 0
    for at, piece in enumerate(found):
        first, last = at == 0, at == len(found) - 1
        if isinstance(piece, str):
            count += piece != SEAM or first
            begins = first or (count == 1 and piece != SEAM)
            part = "" if begins else str(count) if piece != SEAM else "seam"
            name = ":".join(filter(None, (template.name, part)))
            section = replace(template, name=name, text=piece, path="", note=template.note if begins else "")
        else:
            section = replace(piece, title="", after=piece.after.rstrip("\n") if last else piece.after)
        yield replace(section, opens=first, leads=first and not last)


def trim(pieces: list[str | Section], *, start: bool = True, end: bool = True) -> list[str | Section]:
    """Take the white space from the ends of a template."""
    if start and pieces and isinstance(pieces[0], str):
        pieces[0] = pieces[0].lstrip("\n")
    if end and pieces and isinstance(pieces[-1], str):
        pieces[-1] = pieces[-1].rstrip()
    return [piece for piece in pieces if piece]
