"""Text from outside: the files of a project and of the folders above it, scanned and labelled."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from foreword.blueprint import Planned
from foreword.sources.builtin import read_builtin
from foreword.sources.document import Document, Trouble, one_line
from foreword.sources.form import fill_form
from foreword.sources.injection import scan
from foreword.sources.registry import source
from foreword.sources.section import Item, Missing, Section, absent, lament
from foreword.sources.texts import UNFOUND
from foreword.sources.trace import Visitor
from foreword.sources.view import SessionView
from foreword.words import Pace

RULES = ".claude/rules"
FIRST, LAST = ("CLAUDE.md", "CLAUDE.local.md"), "AGENTS.md"


@source("project", Pace.SESSION)
def read_project(view: SessionView, entry: Planned) -> tuple[Item, ...] | Item:
    """Read what a project and the folders above it tell an agent, the outermost first."""
    if not view.project:
        return absent(entry, "no project is open")
    given = os.path.abspath(os.path.expanduser(view.project.replace("\0", "?")))
    view.static.files.watch(given)
    if not view.static.files.has_folder(given):
        return absent(entry, f"the project {one_line(view.project)} is no folder")
    project = os.path.realpath(given)
    items: list[Item] = []
    for folder in climb(project, view.project_stops):
        items.extend(read_folder(view.static.files.visit(folder, view.alone), os.path.relpath(folder, project), entry))
    return tuple(introduce(items)) or absent(entry, "neither the project nor a folder above it has anything to say")


def climb(project: str, stops: Sequence[str]) -> list[str]:
    """List the folders from the first stop, or from the root of the file system, down to the project."""
    ends = {os.path.realpath(os.path.expanduser(stop)) for stop in stops}
    folders = [project]
    while folders[-1] not in ends and os.path.dirname(folders[-1]) != folders[-1]:
        folders.append(os.path.dirname(folders[-1]))
    return folders[::-1]


def introduce(items: Iterable[Item]) -> Iterator[Item]:
    """Say before the first text whose words these are."""
    told = False
    for item in items:
        if told or not isinstance(item, Section) or item.lost:
            yield item
        else:
            told = True
            yield replace(item, before=f"{read_builtin('outside')}\n{item.before}")


def read_folder(visitor: Visitor, place: str, entry: Planned) -> Iterator[Item]:
    """Read the files of one folder; what two names lead to is shown once, under the first of them."""
    shown: set[str] = set()
    for path in list_paths(visitor):
        if visitor.is_home and path == LAST:  # the workspace's own has a slot of its own
            continue
        name = os.path.normpath(os.path.join(place, path)).replace(os.sep, "/")
        items = tuple(read_outside(visitor, path, one_line(name), entry))
        target = visitor.find_target(path)
        if items and target not in shown:
            shown.add(target)
            yield from items


def list_paths(visitor: Visitor) -> Iterator[str]:
    """List the files of one folder that may speak to an agent, in their order."""
    yield from FIRST
    yield from (path for path in visitor.list(RULES) if path.count("/") == RULES.count("/") + 1)
    yield LAST


def read_outside(visitor: Visitor, path: str, name: str, entry: Planned) -> Iterator[Item]:
    """Read one file from outside; one that is not there, or is empty, is not worth a word."""
    match visitor.read(path):
        case Document() as document if document.body:
            before, note = label(visitor.read_text(path))
            yield Section(
                entry=entry,
                name=name,
                title=name,
                text=document.body,
                origin=name,
                sha256=document.sha256,
                before=before,
                note="; ".join(filter(None, (document.note, note))),
                description=document.description,
            )
        case Document() if note := label(visitor.read_text(path))[1]:
            yield Missing(entry=entry, name=name, reason=f"{name} is blank, but {note}")
        case Trouble() as trouble:
            yield lament(entry, f"{name} {trouble.reason}", name)
        case None if path.startswith(RULES):  # it is there, but its name is none that could be opened
            yield lament(entry, f"{name} {UNFOUND}", name)


@lru_cache(maxsize=1_024)
def label(text: str) -> tuple[str, str]:
    """Scan a text, comments included, and return the line that warns the reader of it, and the note for its verdict."""
    places: dict[str, list[int]] = {}
    for hit in scan(text):
        places.setdefault(str(hit.kind), []).append(text.count("\n", 0, hit.start) + 1)
    if not places:
        return "", ""
    findings = ", ".join(f"{kind} in line {lines[0]:,}" for kind, lines in sorted(places.items()))
    return fill_form("scanned", (findings,)) + "\n", f"a scan found {findings}"
