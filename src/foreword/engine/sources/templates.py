"""Expand templates: a template's own text and the slots it names become separate sections in its order."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, zip_longest

from foreword.engine.blueprint import Voice
from foreword.engine.context import StaticView
from foreword.engine.selection import PlannedSlot
from foreword.engine.sources.documents import read_builtin
from foreword.engine.sources.forms import STATIC_FACTS
from foreword.engine.sources.sections import (
    FilledRun,
    Item,
    Missing,
    Section,
    add_hint,
    join_notes,
    report_unusable,
    source,
)
from foreword.engine.sources.template_language import InvalidTemplate, parse_template
from foreword.engine.sources.texts import FoundDocument, find_document, make_section, report_missing, use_built_in
from foreword.engine.trust import OWN_STORE
from foreword.types import Pace, Placement, Verdict, frozen

# A clock in a template would change all text after it, so each message carries the time.
CLOCK_VARIABLE = "current_date_time"
PLAIN_VARIABLES = ("agent", "name", "model", "provider", "shell")
TEMPLATE_VARIABLES = (*PLAIN_VARIABLES, "mode", "goose_mode", "tools", CLOCK_VARIABLE)


@source("template", Pace.STATIC)
def read_template(view: StaticView, entry: PlannedSlot) -> Item:
    """Read a template file, or the built-in template; the verdict notes a broken file."""
    found = find_document(view, entry)
    built_in = read_builtin(entry.text) if entry.text else ""
    if found.document is None:
        if not built_in:
            return report_missing(entry, found)
        return parse_section_template(use_built_in(entry, entry.text, built_in, found), view)
    section = parse_section_template(make_section(entry, found.document, note=found.note), view, found.document.first)
    if not built_in or not (section.lost or section.pattern):
        return section
    lost = FoundDocument(note=section.note, lost=section.lost, broken=section.broken)
    instead = parse_section_template(use_built_in(entry, entry.text, built_in, lost), view)
    return instead if section.lost else replace(section, instead=instead)


@source("files", Pace.STATIC)
def read_listed(view: StaticView, entry: PlannedSlot) -> Item:
    """Read one of the additional files that the configuration lists, under its own name."""
    found = find_document(view, entry)
    if found.document is None:
        return report_missing(entry, found)
    section = make_section(entry, found.document, title=entry.id.partition(":")[2], note=found.note)
    if entry.template:
        return parse_section_template(section, view, found.document.first)
    # A path that begins like a store's would be read as a memory.
    like_memory = section.path.partition("/")[0] in (*view.stores, OWN_STORE)
    return replace(section, path=f"./{section.path}") if like_memory else section


def parse_section_template(section: Section, view: StaticView, first: int = 1) -> Section:
    """Parse a section's text as a template; `first` is the line of its file where it begins."""
    known = {name: STATIC_FACTS[name](view) for name in PLAIN_VARIABLES}
    known |= {"mode": str(view.mode), "goose_mode": str(view.mode), CLOCK_VARIABLE: read_builtin("moving")}
    try:
        pattern = parse_template(section.text, known, {"tools": tuple(tool.name for tool in view.tools.tools)})
    except InvalidTemplate as fault:
        return report_unusable(section.entry, f"{section.origin} {fault.below(first - 1)}", section.name, broken=True)
    if not pattern.names and "{" not in section.text:
        return section
    note = f"{CLOCK_VARIABLE} changes with every turn, so each message carries it"
    note = join_notes(section.note, note if CLOCK_VARIABLE in pattern.names else "")
    return replace(section, pattern=pattern, path="", note=note)


SECTION_GAP = "\n\n"
SEAM = ""  # separates the stable part of a template from the moving part; empty, so the stable part never changes
LEADING_SIGNS = re.compile(r"^\W+")
PlacedItem = tuple[Pace, Placement, Item]


def expand_templates(runs: Sequence[FilledRun | None]) -> tuple[FilledRun | None, ...]:
    """Move the slots that templates name into their places; None is the place of a turn run and stays there."""
    known = [run for run in runs if run is not None]
    if not any(run.placement is Placement.NESTED or any(one.pattern for one in run.sections) for run in known):
        return tuple(runs)
    expander = TemplateExpander(known)
    expanded: list[FilledRun | None] = []
    for is_turn, group in groupby(runs, key=lambda run: run is None):
        if is_turn:
            expanded += group
        else:
            expanded += group_runs(placed for run in group if run for placed in expander.flow(run))
    return tuple(expanded)


def group_runs(flow: Iterator[PlacedItem]) -> Iterator[FilledRun]:
    """Group adjacent items with the same pace and placement into runs."""
    runs = [
        FilledRun(pace=pace, placement=where, items=tuple(one[2] for one in group))
        for (pace, where), group in groupby(flow, key=lambda placed: placed[:2])
    ]
    for run, following in zip_longest(runs, runs[1:]):
        first = next(following.sections, None) if following else None
        yield replace(run, continued=first is not None and not first.opens)


@frozen
class ExpandedTemplate:
    """An expanded template: its parts, and the sections that it was given."""

    template: Section
    stable: Sequence[str | Section]
    """The part that is the same for everyone of one clearance."""
    moving: Sequence[str | Section] = ()
    """The part that depends on slots faster than the template, even if only on whether they exist."""
    pace: Pace
    """The pace of the moving part."""
    given: Mapping[str, Sequence[Section]]


class TemplateExpander:
    """Assigns each named slot to the first template that uses it."""

    def __init__(self, runs: Sequence[FilledRun]) -> None:
        self._paces: dict[str, Pace] = {}
        self._nested: dict[str, list[Section]] = {}
        self._settled: set[str] = set()
        for pace, item in ((run.pace, item) for run in runs for item in run.items):
            if item.slot.variable and not (isinstance(item, Section) and item.pattern):
                nested = self._nested.setdefault(item.slot.variable, [])
                nested.extend([item] if isinstance(item, Section) and not is_unusable_nested(item) else ())
                self._paces[item.slot.variable] = max(pace, self._paces.get(item.slot.variable, pace))
                self._settled |= {item.slot.variable} if item.slot.placement is not Placement.NESTED else set()
        self._taken: dict[str, Section] = {}
        self._expanded = {one: self.fill(one, run.pace) for run in runs for one in run.sections if one.pattern}

    def fill(self, template: Section, pace: Pace) -> ExpandedTemplate:
        """Expand a template. Only a template that can be expanded takes the slots it names, unless already taken."""
        pattern = template.pattern
        if pattern is None:
            return ExpandedTemplate(template=template, stable=(template.text,), pace=pace, given={})
        named = sorted(pattern.names & self._nested.keys())
        # A slot with its own place does not leave it for a template that only some users have.
        kept = self._settled if template.entry.personal else set()
        names = [name for name in named if name not in kept or self._paces[name] >= pace]
        given = {name: self._nested[name] for name in names if name not in self._taken}
        faster = [name for name in given if self._paces[name] > pace]
        try:
            stable, moving = pattern.expand_parts(
                {name: [(name_section(one), one) for one in found] for name, found in given.items()}, faster
            )
        except InvalidTemplate as fault:
            reason = join_notes(template.note, f"{template.origin} {fault}")
            if template.instead is None:
                return self.fill(report_unusable(template.entry, reason, template.name, broken=True), pace)
            note = join_notes(reason, "the built-in text is used instead")
            return self.fill(replace(template.instead, note=note, broken=True), pace)
        unknown = ", ".join(sorted(pattern.names - pattern.known.keys() - self._nested.keys()))
        note = join_notes(template.note, f"unknown variables are left out: {unknown}" if unknown else "")
        for name in named:
            if name not in names:
                note = join_notes(note, f"{name} has its own place")
            elif self._taken.setdefault(name, template) is not template:
                note = join_notes(note, f"{name} is already in {self._taken[name].origin}")
        return ExpandedTemplate(
            template=replace(template, note=note, pattern=None),
            stable=stable,
            moving=moving,
            pace=max((self._paces[name] for name in faster), default=pace),
            given=given,
        )

    def flow(self, run: FilledRun) -> Iterator[PlacedItem]:
        """Yield the items of a run in their new order, each with its new pace and placement."""
        for item in run.items:
            taken = self._taken.get(item.slot.variable) if item.slot.variable else None
            if isinstance(item, Section) and item.pattern:
                yield from self.expand(item, run)
            elif isinstance(item, Section) and is_unusable_nested(item):
                lost = Missing(entry=item.entry, name=item.name, reason=item.note, verdict=Verdict.DROPPED)
                yield run.pace, run.placement, lost
            elif isinstance(item, Missing) or (not taken and run.placement is not Placement.NESTED):
                yield run.pace, run.placement, item
            elif not taken:
                reason = f"no template names {{{{ {item.slot.variable} }}}}"
                yield run.pace, run.placement, Missing(entry=item.entry, name=item.name, reason=reason)

    def expand(self, template: Section, run: FilledRun) -> Iterator[PlacedItem]:
        """Yield a template as its own text and the sections between; the pace never gets slower."""
        expanded = self._expanded[template]
        parted = expanded.pace is not run.pace
        stable = strip_ends([*attach_white_space(expanded.stable)], end=not parted)
        moving = strip_ends([*attach_white_space(expanded.moving)], start=not stable)
        if stable and moving and isinstance(stable[-1], Section) and isinstance(moving[0], Section):
            moving[0] = replace(moving[0], before=SECTION_GAP + moving[0].before)
        if stable and parted:
            moving.insert(0, SEAM)
        sections = list(number_sections([*stable, *moving], expanded.template))
        if not any(section.entry is template.entry for section in sections):
            reason = expanded.template.note or ("it has no text besides its variables" if sections else "it is blank")
            # The pace must be the same for everyone, even if the variables are empty here.
            pace = run.pace if sections else expanded.pace
            yield pace, run.placement, Missing(entry=template.entry, name=template.name, reason=reason)
        if expanded.template.broken:  # a session retains all sections of the good template, or none
            sections = [replace(section, broken=True) for section in sections]
        for at, section in enumerate(sections):
            pace = run.pace if stable and at < len(sections) - len(moving) else expanded.pace
            yield pace, run.placement, add_hint(section)
        placed = {section.id for section in sections}
        reason = f"{expanded.template.origin} does not use it"
        for one in (one for found in expanded.given.values() for one in found):
            if one.id not in placed:
                yield run.pace, run.placement, Missing(entry=one.entry, name=one.name, reason=reason)


def is_unusable_nested(item: Section) -> bool:
    """Return whether a nested text is unusable, so that the template treats it as empty."""
    return item.lost and item.slot.placement is Placement.NESTED


def name_section(section: Section) -> str:
    """Return the name of a section inside a template: the part of its id that differs from its neighbours.

    A name from outside appears in the owner's text, so it must not begin a line like a heading or a rule.
    """
    name = section.title or section.name or section.entry.id
    return LEADING_SIGNS.sub("", name) or section.entry.id if section.slot.voice is Voice.OUTSIDE else name


def attach_white_space(pieces: Sequence[str | Section]) -> Iterator[str | Section]:
    """Attach white space between two sections to the first one, so that it does not become a section."""
    waiting: Section | None = None
    for piece in pieces:
        if isinstance(piece, Section):
            if waiting:
                yield replace(waiting, after=waiting.after or SECTION_GAP)
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


def number_sections(found: list[str | Section], template: Section) -> Iterator[Section]:
    """Build sections from all parts: numbered, with the heading on the first and the separator after the last."""
    if found and not isinstance(found[0], str) and (template.slot.title or template.title):
        found.insert(0, "")  # a section for the heading, where the template begins with a variable
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


def strip_ends(pieces: list[str | Section], *, start: bool = True, end: bool = True) -> list[str | Section]:
    """Strip the white space at the ends of a template."""
    if start and pieces and isinstance(pieces[0], str):
        pieces[0] = pieces[0].lstrip("\n")
    if end and pieces and isinstance(pieces[-1], str):
        pieces[-1] = pieces[-1].rstrip()
    return [piece for piece in pieces if piece]
