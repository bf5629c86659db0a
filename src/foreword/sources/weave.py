"""Weaving: a template is an order, not a text; its own passages and the slots it names become sections side by side."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from foreword.sources.pattern import TemplateFault
from foreword.sources.section import Filled, Item, Missing, Section, lament
from foreword.words import Pace, Placement

GAP = "\n\n"
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
        yield Filled(pace=pace, placement=placement, items=tuple(item for _, _, item in group))


class Loom:
    """Knows which slot is named by which template."""

    def __init__(self, runs: Sequence[Filled]) -> None:
        self._paces = {id(item): run.pace for run in runs for item in run.items}
        self._nested: dict[str, list[Section]] = {}
        self._names: set[str] = set()
        for item in (item for run in runs for item in run.items):
            if item.slot.variable:
                self._names.add(item.slot.variable)
                if isinstance(item, Section):
                    self._nested.setdefault(item.slot.variable, []).append(item)
        self._taken: dict[str, Section] = {}
        for run in runs:
            for template in run.sections:
                for name in template.pattern.names & self._names if template.pattern else ():
                    self._taken.setdefault(name, template)

    def flow(self, run: Filled) -> Iterator[Flowing]:
        """Give the items of a run in their new order, each with the pace and the placement it now has."""
        for item in run.items:
            taken = self._taken.get(item.slot.variable) if item.slot.variable else None
            if isinstance(item, Section) and item.pattern:
                yield from self.expand(item, run)
            elif isinstance(item, Missing) or (not taken and run.placement is not Placement.NESTED):
                yield run.pace, run.placement, item
            elif not taken:
                reason = f"no template names {{{{ {item.slot.variable} }}}}"
                yield run.pace, run.placement, Missing(entry=item.entry, name=item.name, reason=reason)

    def expand(self, template: Section, run: Filled) -> Iterator[Flowing]:
        """Write a template out as its passages and the sections between them; the pace never slows down on the way."""
        pattern = template.pattern
        if pattern is None:
            return
        mine = {name: self._nested.get(name, []) for name, taker in self._taken.items() if taker is template}
        try:
            pieces = pattern.fill({name: [(label(one), one) for one in found] for name, found in mine.items()})
        except TemplateFault as fault:
            yield run.pace, run.placement, lament(template.entry, f"{template.origin} {fault}", template.name)
            return
        unknown = ", ".join(sorted(pattern.names - pattern.known.keys() - self._names))
        note = "; ".join(filter(None, (template.note, f"unknown variables are left out: {unknown}" if unknown else "")))
        pace = run.pace
        sections = list(number(join(pieces), replace(template, note=note, pattern=None)))
        for section in sections:
            pace = max(pace, self.find_pace(section, mine))
            yield pace, run.placement, section
        placed = {section.id for section in sections}
        for one in (one for found in mine.values() for one in found):
            if one.id not in placed:
                reason = f"{template.origin} does not place it"
                yield run.pace, run.placement, Missing(entry=one.entry, name=one.name, reason=reason)

    def find_pace(self, section: Section, mine: Mapping[str, Sequence[Section]]) -> Pace:
        """Find the pace of a section that a template placed; its own passages have none."""
        found = [self._paces[id(one)] for one in mine.get(section.slot.variable, ()) if one.id == section.id]
        return max(found, default=Pace.STATIC)


def label(section: Section) -> str:
    """Name a section as templates see it: by the part of its id that tells it from its neighbours."""
    return section.title or section.name or section.entry.id


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


def number(pieces: Iterator[str | Section], template: Section) -> Iterator[Section]:
    """Make sections of all pieces: the passages numbered, only the first with the heading, only the last closed."""
    found = trim(list(pieces))
    count = 0
    for at, piece in enumerate(found):
        first, last = at == 0, at == len(found) - 1
        if isinstance(piece, str):
            count += 1
            name = template.name if count == 1 else f"{template.name}{':' if template.name else ''}{count}"
            section = replace(template, name=name, text=piece, path="", note=template.note if count == 1 else "")
        else:
            section = replace(piece, title="", after=piece.after.rstrip("\n") if last else piece.after)
        yield replace(section, opens=first, closes=last)


def trim(pieces: list[str | Section]) -> list[str | Section]:
    """Take the white space from both ends of a template."""
    if pieces and isinstance(pieces[0], str):
        pieces[0] = pieces[0].lstrip("\n")
    if pieces and isinstance(pieces[-1], str):
        pieces[-1] = pieces[-1].rstrip()
    return [piece for piece in pieces if piece]
