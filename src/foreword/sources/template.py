"""Templates: files whose variables are filled in, once all slots have been read."""

from dataclasses import replace

from foreword.blueprint import Planned
from foreword.sources.builtin import read_builtin
from foreword.sources.facts import ABOUT
from foreword.sources.own_memory import OWN_STORE
from foreword.sources.pattern import TemplateFault, read_pattern
from foreword.sources.registry import source
from foreword.sources.section import Item, Section, lament
from foreword.sources.texts import Found, find_document, missing, section_of, stand_in
from foreword.sources.view import StaticView
from foreword.words import Pace

# A clock in a template would move everything behind it; the moment is told with each message.
MOVING = "current_date_time"
PLAIN = ("agent", "name", "model", "provider", "shell")
NAMES = (*PLAIN, "mode", "goose_mode", "tools", MOVING)


@source("template", Pace.STATIC)
def read_template(view: StaticView, entry: Planned) -> Item:
    """Read a file whose variables are to be filled in, else the built-in one; a broken file is mentioned."""
    found = find_document(view, entry)
    built_in = read_builtin(entry.text) if entry.text else ""
    if found.document is None:
        return plait(stand_in(entry, entry.text, built_in, found), view) if built_in else missing(entry, found)
    section = plait(section_of(entry, found.document, note=found.note), view, found.document.first)
    if not built_in or not (section.lost or section.pattern):
        return section
    lost = Found(note=section.note, lost=section.lost, broken=section.broken)
    instead = plait(stand_in(entry, entry.text, built_in, lost), view)
    return instead if section.lost else replace(section, instead=instead)


@source("files", Pace.STATIC)
def read_listed(view: StaticView, entry: Planned) -> Item:
    """Read one of the further files that the configuration lists, under its own name."""
    found = find_document(view, entry)
    if found.document is None:
        return missing(entry, found)
    section = section_of(entry, found.document, title=entry.id.partition(":")[2], note=found.note)
    if entry.template:
        return plait(section, view, found.document.first)
    # A path that begins like a store's would be taken for a memory.
    like_memory = section.path.partition("/")[0] in (*view.stores, OWN_STORE)
    return replace(section, path=f"./{section.path}") if like_memory else section


def plait(section: Section, view: StaticView, first: int = 1) -> Section:
    """Read a section's text as a template; `first` is the line of its file in which it begins."""
    known = {name: ABOUT[name](view) for name in PLAIN}
    mode = str(view.mode)
    moving = read_builtin("moving")
    try:
        lists = {"tools": tuple(tool.name for tool in view.tools.tools)}
        pattern = read_pattern(section.text, {**known, "mode": mode, "goose_mode": mode, MOVING: moving}, lists)
    except TemplateFault as fault:
        return lament(section.entry, f"{section.origin} {fault.below(first - 1)}", section.name, broken=True)
    if not pattern.names and "{" not in section.text:
        return section
    note = f"{MOVING} changes with every turn, so it is told with each message" if MOVING in pattern.names else ""
    return replace(section, pattern=pattern, path="", note="; ".join(filter(None, (section.note, note))))
