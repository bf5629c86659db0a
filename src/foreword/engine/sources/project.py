"""Read the files of a project and of its parent folders: text from outside, scanned and labelled."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from foreword.engine.blueprint import PlannedSlot
from foreword.engine.sources.documents import Document, FileProblem, join_lines, read_builtin
from foreword.engine.sources.forms import fill_form
from foreword.engine.sources.injection import scan_injections
from foreword.engine.sources.sections import Item, Missing, Section, make_absent, report_unusable, source
from foreword.engine.sources.texts import UNOPENABLE_REASON
from foreword.engine.sources.views import FolderReader, SessionView
from foreword.types import Pace

RULES_FOLDER = ".claude/rules"
FIRST_FILES, LAST_FILE = ("CLAUDE.md", "CLAUDE.local.md"), "AGENTS.md"


@source("project", Pace.SESSION)
def read_project(view: SessionView, entry: PlannedSlot) -> tuple[Item, ...] | Item:
    """Read the agent instructions of a project and its parent folders, outermost first."""
    if not view.project:
        return make_absent(entry, "no project is open")
    given = os.path.abspath(os.path.expanduser(view.project.replace("\0", "?")))
    view.static.files.watch(given)
    if not view.static.files.has_folder(given):
        return make_absent(entry, f"the project {join_lines(view.project)} is not a folder")
    project = os.path.realpath(given)
    items: list[Item] = []
    for folder in list_parent_folders(project, view.project_stops):
        items.extend(
            read_project_folder(view.static.files.visit(folder, view.alone), os.path.relpath(folder, project), entry)
        )
    return tuple(add_origin_notice(items)) or make_absent(
        entry, "neither the project nor its parent folders have instructions"
    )


def list_parent_folders(project: str, stops: Sequence[str]) -> list[str]:
    """List the folders from the first stop, or from the root of the file system, down to the project."""
    ends = {os.path.realpath(os.path.expanduser(stop)) for stop in stops}
    folders = [project]
    while folders[-1] not in ends and os.path.dirname(folders[-1]) != folders[-1]:
        folders.append(os.path.dirname(folders[-1]))
    return folders[::-1]


def add_origin_notice(items: Iterable[Item]) -> Iterator[Item]:
    """Put a notice about the origin of these texts before the first one."""
    told = False
    for item in items:
        if told or not isinstance(item, Section) or item.lost:
            yield item
        else:
            told = True
            yield replace(item, before=f"{read_builtin('outside')}\n{item.before}")


def read_project_folder(visitor: FolderReader, place: str, entry: PlannedSlot) -> Iterator[Item]:
    """Read the files of one folder; two names of the same file are shown once, under the first name."""
    shown: set[str] = set()
    for path in list_instruction_files(visitor):
        if visitor.is_home and path == LAST_FILE:  # the workspace's AGENTS.md has its own slot
            continue
        name = os.path.normpath(os.path.join(place, path)).replace(os.sep, "/")
        items = tuple(read_project_file(visitor, path, join_lines(name), entry))
        target = visitor.find_target(path)
        if items and target not in shown:
            shown.add(target)
            yield from items


def list_instruction_files(visitor: FolderReader) -> Iterator[str]:
    """List the instruction files of one folder, in order."""
    yield from FIRST_FILES
    yield from (path for path in visitor.list(RULES_FOLDER) if path.count("/") == RULES_FOLDER.count("/") + 1)
    yield LAST_FILE


def read_project_file(visitor: FolderReader, path: str, name: str, entry: PlannedSlot) -> Iterator[Item]:
    """Read one file from outside; a missing or empty file yields nothing."""
    match visitor.read(path):
        case Document() as document if document.body:
            before, note = label_scan(visitor.read_text(path))
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
        case Document() if note := label_scan(visitor.read_text(path))[1]:
            yield Missing(entry=entry, name=name, reason=f"{name} is blank, but {note}")
        case FileProblem() as trouble:
            yield report_unusable(entry, f"{name} {trouble.reason}", name)
        case None if path.startswith(RULES_FOLDER):  # the file exists, but its name cannot be opened
            yield report_unusable(entry, f"{name} {UNOPENABLE_REASON}", name)


@lru_cache(maxsize=1_024)
def label_scan(text: str) -> tuple[str, str]:
    """Scan a text, comments included; return a warning line for the prompt and a note for the verdict."""
    places: dict[str, list[int]] = {}
    for hit in scan_injections(text):
        places.setdefault(str(hit.kind), []).append(text.count("\n", 0, hit.start) + 1)
    if not places:
        return "", ""
    findings = ", ".join(f"{kind} in line {lines[0]:,}" for kind, lines in sorted(places.items()))
    return fill_form("scanned", (findings,)) + "\n", f"a scan found {findings}"
