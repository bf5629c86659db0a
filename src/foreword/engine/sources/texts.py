"""Sources of texts: files of the workspace and of a project, built-in texts, and what the configuration says."""

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from foreword.config.schema import Identity
from foreword.engine.context import STORED_IDENTITY_TRUST, FolderReader, SessionView, StaticView, TurnView
from foreword.engine.selection import PlannedSlot
from foreword.engine.signal import classify
from foreword.engine.sources.documents import Document, FileProblem, join_lines, normalise_lines, read_builtin
from foreword.engine.sources.forms import FACTS_BY_PACE, fill_fact_form, fill_form, read_form
from foreword.engine.sources.injection import label_scan
from foreword.engine.sources.sections import (
    STORE_ORIGIN,
    Item,
    Missing,
    Section,
    join_notes,
    make_text_item,
    report_unusable,
    source,
)
from foreword.types import Pace, frozen

STORAGE_KINDS = {"Files:": "files", "Instructions:": "instructions", "Memory:": "memory", "Schedules:": "schedule"}


@source("responsibilities", Pace.STATIC)
def list_responsibilities(view: StaticView, entry: PlannedSlot) -> tuple[Item, ...] | Item:
    """Return the agent's responsibilities, each under its title."""
    items: list[Item] = []
    for one in view.settings.responsibilities:
        title = join_lines(one.title)
        if text := normalise_lines(one.content).strip():
            items.append(Section(entry=entry, name=title, title=title, text=text, origin="foreword.yaml"))
        else:
            items.append(Missing(entry=entry, name=title, reason="its content is blank"))
    given = {item.name.casefold() for item in items}
    stored = view.character.responsibilities if view.clearance >= STORED_IDENTITY_TRUST else ()
    for number, one in enumerate(stored, 1):
        # A number instead of the title: the title is user text, and ids appear in logs and totals.
        name = f"taken-on-{number}"
        if one.title.casefold() in given:
            reason = "the configuration has a responsibility with the same title"
            items.append(Missing(entry=entry, name=name, reason=reason))
        else:
            text, title = one.content, one.title
            items.append(Section(entry=entry, name=name, title=title, text=text, origin=STORE_ORIGIN, outside=True))
    return tuple(items) or Missing(entry=entry, reason="the agent has no responsibilities")


@source("storage", Pace.SESSION)
def show_storage(view: SessionView, entry: PlannedSlot) -> Item:
    """Return where to store information, naming only the tools that the agent has."""
    kinds = {tool.kind for tool in view.static.tools.tools}
    lines = [
        line
        for line in read_builtin(entry.text).splitlines()
        if (label := line.partition(" ")[0]) in STORAGE_KINDS and STORAGE_KINDS[label] in kinds
    ]
    absence = "the agent has no tool that stores anything"
    return make_text_item(entry, "\n".join(lines), f"built-in {entry.text}", absence)


@source("background", Pace.TURN)
def show_background(view: TurnView, entry: PlannedSlot) -> Item:
    """Return what happens to the reply of a background run."""
    if view.background is None:
        return Missing(entry=entry, reason="not a background run")
    text = read_builtin(f"background/{view.background}")
    if view.background.value == "never" and "notify_user" in view.static.tools:
        text += "\n" + read_builtin("background/notify")
    return Section(entry=entry, text=text, origin=f"built-in background/{view.background}")


SIGNAL_OVERLAY = "signal/overlay"
LIGHT_WEIGHT, HEAVY_WEIGHT = 0.3, 0.8


@source("signal", Pace.TURN)
def show_signal(view: TurnView, entry: PlannedSlot) -> Item:
    """Return the guidance for the active signal; a signal given with the turn is not classified again."""
    signal = view.signal
    if signal is None:
        if not view.message or view.message.isspace():
            return Missing(entry=entry, reason="there is no message to classify")
        signal = classify(view.message, view.session.channel)
    keys = [signal.mode.name, signal.genre.name]
    if signal.weight < LIGHT_WEIGHT:
        keys.append("BRIEF")
    if signal.weight > HEAVY_WEIGHT:
        keys.append("ATTENTION")
    title = f"Active Signal: {keys[0]} × {keys[1]} (weight: {round(signal.weight, 3):g})"
    lines = read_overlay_lines()
    text = "\n".join(lines[key] for key in keys)
    return Section(entry=entry, title=title, text=text, origin=f"built-in {SIGNAL_OVERLAY}")


@cache
def read_overlay_lines() -> dict[str, str]:
    """Read the sentences of the overlay by key."""
    lines = [line for line in read_builtin(SIGNAL_OVERLAY).splitlines() if line]
    return {key: sentence for key, _, sentence in (line.partition(": ") for line in lines)}


UNOPENABLE_REASON = "cannot be opened; its name should be plain UTF-8"
IDENTITY_FIELDS = ("name", "emoji", "creature", "vibe", "description")
PROFILE_FIELDS = ("name", "timezone", "location")
FALLBACK_NOTE = "the built-in text is used instead"
BODY_FIELD = "body"  # the field for the text of a file without its front matter


@frozen
class FoundDocument:
    """The result of an entry's files: a document, or the problem with them."""

    document: Document | None = None
    note: str = ""
    lost: bool = False
    broken: bool = False
    """Whether the unusable file still exists."""


@source("file", Pace.STATIC)
def read_file(view: StaticView, entry: PlannedSlot) -> Item:
    """Read the first of the entry's files that has a text, or the built-in text."""
    found = find_document(view, entry)
    if found.lost and entry.slot.governs:
        return report_missing(entry, found)  # rules have no fallback text
    if found.document:
        return make_section(entry, found.document, note=found.note, broken=found.broken)
    built_in = read_builtin(entry.text) if entry.text else ""
    return use_built_in(entry, entry.text, built_in, found) if built_in else report_missing(entry, found)


def use_built_in(entry: PlannedSlot, name: str, text: str, found: FoundDocument) -> Section:
    """Use a built-in text where there is no usable file, with a note if the file exists."""
    note = f"{found.note}; {FALLBACK_NOTE}" if found.lost else ""
    return Section(entry=entry, text=text, origin=f"built-in {name}", note=note, broken=found.broken)


@source("folder", Pace.STATIC)
def read_folder(view: StaticView, entry: PlannedSlot) -> tuple[Item, ...] | Item:
    """Read every Markdown file of a folder as a separate section."""
    paths = view.files.list(entry.folder) if entry.folder else ()
    items: list[Item] = []
    for path in paths:
        name = path.removeprefix(entry.folder + "/")
        match view.files.read(path):
            case Document() as document if document.body:
                items.append(make_section(entry, document, name=name, title=join_lines(name)))
            case Document():
                items.append(Missing(entry=entry, name=name, reason=f"{path} is blank"))
            case FileProblem() as trouble:
                items.append(report_unusable(entry, f"{path} {trouble.reason}", name, broken=trouble.stays))
            case None:
                items.append(report_unusable(entry, f"{path} {UNOPENABLE_REASON}", name))
    return tuple(items) or Missing(
        entry=entry, reason=f"{entry.folder} is empty" if entry.folder else "only rooms have it"
    )


@source("text", Pace.STATIC)
def read_text(_: StaticView, entry: PlannedSlot) -> Item:
    """Return a built-in text unchanged."""
    text = read_builtin(entry.text) if entry.text else ""
    return make_text_item(entry, text, f"built-in {entry.text}", "there is none")


@source("soul", Pace.STATIC)
def read_soul(view: StaticView, entry: PlannedSlot) -> Item:
    """Return the soul: the stored one, or the configured one, or that of a file, or the built-in one."""
    configured = normalise_lines(view.settings.soul).strip()
    if configured and not normalise_lines(view.character.soul).strip():
        return Section(entry=entry, text=configured, origin="foreword.yaml")
    return read_soul_file(view, entry)


@source("soul_file", Pace.STATIC)
def read_soul_file(view: StaticView, entry: PlannedSlot) -> Item:
    """Return the stored soul, or that of a file; the configuration is ignored."""
    stored = normalise_lines(view.character.soul).strip()
    return Section(entry=entry, text=stored, origin=STORE_ORIGIN) if stored else read_file(view, entry)


@source("identity", Pace.STATIC, (*IDENTITY_FIELDS, "article", BODY_FIELD))
def read_identity(view: StaticView, entry: PlannedSlot) -> Item:
    """Return the identity: the stored one, or that of the identity file, or the configured one."""
    if view.character.identity is not None:
        return fill_identity(entry, view.character.identity, STORE_ORIGIN)
    found = find_document(view, entry, fields=True)
    identity = view.settings.identity
    if found.document or identity is None:
        return fill_fields(entry, found, IDENTITY_FIELDS)
    item = fill_identity(entry, identity, "foreword.yaml", found.note)
    return replace(item, broken=found.broken) if isinstance(item, Section) else item


@source("identity_file", Pace.STATIC, (*IDENTITY_FIELDS, "article", BODY_FIELD))
def read_identity_file(view: StaticView, entry: PlannedSlot) -> Item:
    """Return the stored identity, or the text of a file; the configuration is ignored."""
    kept = view.character.identity
    return read_file(view, entry) if kept is None else fill_identity(entry, kept, STORE_ORIGIN)


def fill_identity(entry: PlannedSlot, identity: Identity | str, origin: str, note: str = "") -> Item:
    """Fill an identity that does not come from a file into the slot's form."""
    if isinstance(identity, Identity):
        values = {name: join_lines(getattr(identity, name)) for name in IDENTITY_FIELDS}
    elif BODY_FIELD in read_form(entry.slot.form).names:
        values = {BODY_FIELD: normalise_lines(identity).strip()}
    else:
        values = {"description": join_lines(identity)}
    text = fill_slot_form(entry, values)
    if not text:
        return Missing(entry=entry, reason=note or f"the identity in {origin} has no field that this slot shows")
    return Section(entry=entry, text=text, origin=origin, note=note)


@source("profile", Pace.SESSION, (*PROFILE_FIELDS, BODY_FIELD))
def read_profile(view: SessionView, entry: PlannedSlot) -> Item:
    """Return the fields and the body of the user's profile file."""
    return fill_fields(entry, find_document(view.static, entry, fields=True), PROFILE_FIELDS)


@source("instructions", Pace.SESSION)
def read_instructions(view: SessionView, entry: PlannedSlot) -> Item:
    """Return the user's permanent instructions."""
    return make_text_item(entry, normalise_lines(view.instructions).strip(), "instructions", "none are set")


@source("channel", Pace.SESSION)
def read_channel(view: SessionView, entry: PlannedSlot) -> Item:
    """Return how a reply should look on its channel; an unknown channel is treated like the web."""
    if not view.channel:
        return Missing(entry=entry, reason="no channel is known")
    found = find_document(view.static, entry)
    if found.document:
        return make_section(entry, found.document, note=found.note, broken=found.broken)
    name = entry.text if entry.text and read_builtin(entry.text) else entry.slot.text.replace("{family}", "web")
    return use_built_in(entry, name, read_builtin(name), found)


def find_document(view: StaticView, entry: PlannedSlot, *, fields: bool = False) -> FoundDocument:
    """Return the first of an entry's files that has a text, or fields if `fields` is set."""
    troubles: list[str] = []
    lost = broken = False
    for path in entry.paths:
        match view.files.read(path):
            case Document() as document if document.body or (fields and document.meta):
                unread = fields and bool(document.note) and not document.meta
                return FoundDocument(document=document, note="; ".join(troubles), lost=lost, broken=broken or unread)
            case Document() as document if document.note:
                troubles.append(f"{path}: {document.note}")
                lost = broken = True
            case Document():
                troubles.append(f"{path} is blank")
            case FileProblem() as trouble:
                troubles.append(f"{path} {trouble.reason}")
                lost, broken = True, broken or trouble.stays
    return FoundDocument(note="; ".join(troubles), lost=lost, broken=broken)


def report_missing(entry: PlannedSlot, found: FoundDocument) -> Item:
    """Return why a slot has no text: an unusable file is a loss, a missing file is not."""
    name = entry.paths[-1] if entry.paths else ""
    reason = found.note or (f"{name} does not exist" if name else "no file is configured for it")
    return report_unusable(entry, reason, broken=found.broken) if found.lost else Missing(entry=entry, reason=reason)


def make_section(
    entry: PlannedSlot, document: Document, *, name: str = "", title: str = "", note: str = "", broken: bool = False
) -> Section:
    """Build a section from a document; its path allows reading the rest."""
    return Section(
        entry=entry,
        name=name,
        text=document.body,
        origin=document.path,
        title=title,
        path=document.path,
        sha256=document.sha256,
        note=join_notes(document.note, note),
        description=document.description,
        broken=broken,
    )


def fill_fields(entry: PlannedSlot, found: FoundDocument, names: tuple[str, ...]) -> Item:
    """Fill the fields of a file, and its body, into the slot's form."""
    document = found.document
    if document is None:
        return report_missing(entry, found)
    section = make_section(entry, document, note=found.note, broken=found.broken)
    values = {name: join_lines(document.field(name)) for name in names}
    text = fill_slot_form(entry, {**values, BODY_FIELD: document.body})
    if not text:
        return Missing(entry=entry, reason=f"{document.path} has no field that this slot shows")
    # Without its path, the rest cannot be read: the file has a different text.
    return section if text == document.body else replace(section, text=text, path="")


def fill_slot_form(entry: PlannedSlot, values: dict[str, str]) -> str:
    """Fill values into the slot's form."""
    article = "an" if values.get("creature", "")[:1].lower() in tuple("aeiou") else "a"
    known = {**values, "article": article}
    return fill_form(entry.slot.form, tuple(known.get(name, "") for name in read_form(entry.slot.form).names))


@source("place", Pace.SESSION, FACTS_BY_PACE[Pace.SESSION])
def fill_place_form(view: SessionView, entry: PlannedSlot) -> Item:
    """Fill the slot's form; the user's own file may set the time zone and the location."""
    document = find_document(view.static, entry, fields=True).document if entry.paths else None
    if document:
        client = replace(view.client, location=view.client.location or document.field("location"))
        view = replace(view, zone=view.zone or document.field("timezone"), client=client)
    return fill_fact_form(view, entry)


RULES_FOLDER = ".claude/rules"
FIRST_FILES, LAST_FILE = ("CLAUDE.md", "CLAUDE.local.md"), "AGENTS.md"


@source("project", Pace.SESSION)
def read_project(view: SessionView, entry: PlannedSlot) -> tuple[Item, ...] | Item:
    """Read the agent instructions of a project and its parent folders, outermost first."""
    if not view.project:
        return Missing(entry=entry, reason="no project is open")
    given = os.path.abspath(os.path.expanduser(view.project.replace("\0", "?")))
    if not view.static.files.has_folder(given):
        return Missing(entry=entry, reason=f"the project {join_lines(view.project)} is not a folder")
    project = os.path.realpath(given)
    ends = {os.path.realpath(os.path.expanduser(stop)) for stop in view.project_stops}
    folders = [project]  # up to the first stop, or to the root of the file system
    while folders[-1] not in ends and os.path.dirname(folders[-1]) != folders[-1]:
        folders.append(os.path.dirname(folders[-1]))
    items: list[Item] = []
    for folder in reversed(folders):
        visitor = view.static.files.visit(folder, view.alone)
        items.extend(read_project_folder(visitor, os.path.relpath(folder, project), entry))
    for at, item in enumerate(items):
        if isinstance(item, Section) and not item.lost:  # a notice about the origin of all of them
            items[at] = replace(item, before=f"{read_builtin('outside')}\n{item.before}")
            break
    return tuple(items) or Missing(entry=entry, reason="neither the project nor its parent folders have instructions")


def read_project_folder(visitor: FolderReader, place: str, entry: PlannedSlot) -> Iterator[Item]:
    """Read the files of one folder; two names of the same file are shown once, under the first name."""
    rules = [path for path in visitor.list(RULES_FOLDER) if path.count("/") == RULES_FOLDER.count("/") + 1]
    # The workspace's AGENTS.md has its own slot.
    paths = [*FIRST_FILES, *rules, *([] if visitor.is_home else [LAST_FILE])]
    shown: set[str] = set()
    for path in paths:
        name = os.path.normpath(os.path.join(place, path)).replace(os.sep, "/")
        item = read_project_file(visitor, path, join_lines(name), entry)
        target = visitor.find_target(path)
        if item and target not in shown:
            shown.add(target)
            yield item


def read_project_file(visitor: FolderReader, path: str, name: str, entry: PlannedSlot) -> Item | None:
    """Read one file from outside; a missing or empty file yields nothing."""
    match visitor.read(path):
        case Document() as document if document.body:
            before, note = label_scan(visitor.read_text(path))
            return Section(
                entry=entry,
                name=name,
                title=name,
                text=document.body,
                origin=name,
                sha256=document.sha256,
                before=before,
                note=join_notes(document.note, note),
                description=document.description,
            )
        case Document() if note := label_scan(visitor.read_text(path))[1]:
            return Missing(entry=entry, name=name, reason=f"{name} is blank, but {note}")
        case FileProblem() as trouble:
            return report_unusable(entry, f"{name} {trouble.reason}", name)
        case None if path.startswith(RULES_FOLDER):  # the file exists, but its name cannot be opened
            return report_unusable(entry, f"{name} {UNOPENABLE_REASON}", name)
    return None
