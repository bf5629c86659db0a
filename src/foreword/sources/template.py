"""Templates: files whose variables are filled in, once all slots have been read."""

from dataclasses import replace

from foreword.blueprint import Planned
from foreword.sources.builtin import read_builtin
from foreword.sources.facts import ABOUT
from foreword.sources.pattern import TemplateFault, read_pattern
from foreword.sources.registry import source
from foreword.sources.section import Item, Section, lament
from foreword.sources.texts import find_document, missing, section_of, stand_in
from foreword.sources.view import StaticView
from foreword.words import Pace

# A clock in a template would move everything behind it; the moment is told with each message.
MOVING = "current_date_time"
PLAIN = ("agent", "name", "model", "provider")
NAMES = (*PLAIN, "mode", "goose_mode", MOVING)


@source("template", Pace.STATIC)
def read_template(view: StaticView, entry: Planned) -> Item:
    """Read a file whose variables are to be filled in, else the built-in one; a broken file is mentioned."""
    found = find_document(view, entry)
    built_in = read_builtin(entry.text) if entry.text else ""
    if found.document:
        section = plait(section_of(entry, found.document, note=found.note), view)
        if not section.lost or not built_in:
            return section
        found = replace(found, note=section.note, lost=True)
    return plait(stand_in(entry, entry.text, built_in, found), view) if built_in else missing(entry, found)


@source("files", Pace.STATIC)
def read_listed(view: StaticView, entry: Planned) -> Item:
    """Read one of the further files that the configuration lists, under its own name."""
    found = find_document(view, entry)
    if found.document is None:
        return missing(entry, found)
    section = section_of(entry, found.document, title=entry.id.partition(":")[2], note=found.note)
    if entry.template:
        return plait(section, view)
    # A path that begins like a store's would be taken for a memory.
    return replace(section, path=f"./{section.path}") if section.path.partition("/")[0] in view.stores else section


def plait(section: Section, view: StaticView) -> Section:
    """Read a section's text as a template."""
    known = {name: ABOUT[name](view) for name in PLAIN}
    mode = str(view.mode)
    moving = read_builtin("moving")
    try:
        pattern = read_pattern(section.text, {**known, "mode": mode, "goose_mode": mode, MOVING: moving})
    except TemplateFault as fault:
        return lament(section.entry, f"{section.origin} {fault}", section.name)
    if not pattern.names and "{" not in section.text:
        return section
    note = f"{MOVING} changes with every turn, so it is told with each message" if MOVING in pattern.names else ""
    return replace(section, pattern=pattern, path="", note="; ".join(filter(None, (section.note, note))))
