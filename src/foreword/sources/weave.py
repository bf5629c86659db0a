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
from foreword.words import Pace, Placement

GAP = "\n\n"
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
        yield Filled(pace=pace, placement=placement, items=tuple(item for _, _, item in group))


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
        for pace, item in ((run.pace, item) for run in runs for item in run.items):
            if item.slot.variable and not (isinstance(item, Section) and item.pattern):
                nested = self._nested.setdefault(item.slot.variable, [])
                nested.extend([item] if isinstance(item, Section) else ())
                self._paces[item.slot.variable] = max(pace, self._paces.get(item.slot.variable, pace))
        self._taken: dict[str, Section] = {}
        self._woven = {id(one): self.fill(one, run.pace) for run in runs for one in run.sections if one.pattern}

    def fill(self, template: Section, pace: Pace) -> Woven:
        """Fill a template in; only one that can be filled in takes the slots that it names and nobody took before."""
        pattern = template.pattern
        if pattern is None:
            return Woven(template=template, stable=(template.text,), pace=pace, given={})
        names = sorted(pattern.names & self._nested.keys())
        given = {name: self._nested[name] for name in names if name not in self._taken}
        faster = [name for name in given if self._paces[name] > pace]
        try:
            stable, moving = pattern.fill_apart(
                {name: [(label(one), one) for one in found] for name, found in given.items()}, faster
            )
        except TemplateFault as fault:
            reason = add(template.note, f"{template.origin} {fault}")
            if template.instead is None:
                return self.fill(lament(template.entry, reason, template.name), pace)
            return self.fill(replace(template.instead, note=add(reason, "the built-in text stands in")), pace)
        unknown = ", ".join(sorted(pattern.names - pattern.known.keys() - self._nested.keys()))
        note = add(template.note, f"unknown variables are left out: {unknown}" if unknown else "")
        for name in names:
            if self._taken.setdefault(name, template) is not template:
                note = add(note, f"{name} stands in {self._taken[name].origin} already")
        return Woven(
            template=replace(template, note=note, pattern=None),
            stable=stable,
            moving=moving or ([""] if faster else []),
            pace=max((self._paces[name] for name in faster), default=pace),
            given=given,
        )

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
        woven = self._woven[id(template)]
        stable = trim([*join(woven.stable)], end=not woven.moving)
        moving = trim([*join(woven.moving)], start=not stable)
        if stable and moving and isinstance(stable[-1], Section) and isinstance(moving[0], Section):
            moving[0] = replace(moving[0], before=GAP + moving[0].before)
        sections = list(number([*stable, *moving], woven.template))
        if not sections:
            reason = woven.template.note or "it is blank"
            # Where somebody else has a text, its pace parts the blocks for everybody.
            yield woven.pace, run.placement, Missing(entry=template.entry, name=template.name, reason=reason)
        for at, section in enumerate(sections):
            pace = run.pace if stable and at < len(sections) - len(moving) else woven.pace
            yield pace, run.placement, add_hint(section)
        placed = {section.id for section in sections}
        for one in (one for found in woven.given.values() for one in found):
            if one.id not in placed:
                reason = f"{woven.template.origin} does not place it"
                yield run.pace, run.placement, Missing(entry=one.entry, name=one.name, reason=reason)


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
            count += 1
            name = template.name if count == 1 else f"{template.name}{':' if template.name else ''}{count}"
            section = replace(template, name=name, text=piece, path="", note=template.note if count == 1 else "")
        else:
            section = replace(piece, title="", after=piece.after.rstrip("\n") if last else piece.after)
        yield replace(section, opens=first)


def trim(pieces: list[str | Section], *, start: bool = True, end: bool = True) -> list[str | Section]:
    """Take the white space from the ends of a template; where it goes on, an end may be all there is."""
    if start and pieces and isinstance(pieces[0], str):
        pieces[0] = pieces[0].lstrip("\n")
    if end and pieces and isinstance(pieces[-1], str):
        pieces[-1] = pieces[-1].rstrip()
    kept = [piece for piece in pieces if piece]
    return kept if kept or start else pieces[:1]
