"""Sources that read files of the workspace, with a built-in text beneath."""

from dataclasses import replace

from foreword.blueprint import Planned
from foreword.config.schema import Identity
from foreword.frozen import frozen
from foreword.sources.builtin import read_builtin
from foreword.sources.document import Document, Trouble, normalise, one_line
from foreword.sources.form import fill_form, read_form
from foreword.sources.registry import source
from foreword.sources.section import STORE, Item, Missing, Section, absent, lament
from foreword.sources.view import SessionView, StaticView
from foreword.words import Pace

UNFOUND = "cannot be opened; its name should be plain UTF-8"
IDENTITY = ("name", "emoji", "creature", "vibe", "description")
PROFILE = ("name", "timezone", "location")
STANDS_IN = "the built-in text stands in"
BODY = "body"  # the field for what a file says beside its front matter


@frozen
class Found:
    """What the files of an entry gave: a document, or the trouble with them."""

    document: Document | None = None
    note: str = ""
    lost: bool = False
    broken: bool = False
    """Whether the file that is lost is still in its place."""


@source("file", Pace.STATIC)
def read_file(view: StaticView, entry: Planned) -> Item:
    """Read the first of the entry's files that has a text, else the built-in one."""
    return find_text(view, entry)


def find_text(view: StaticView, entry: Planned) -> Item:
    """Find the text of an entry: a file, or what is built in."""
    found = find_document(view, entry)
    if found.lost and entry.slot.governs:
        return missing(entry, found)  # no other text replaces rules
    if found.document:
        return section_of(entry, found.document, note=found.note, broken=found.broken)
    built_in = read_builtin(entry.text) if entry.text else ""
    return stand_in(entry, entry.text, built_in, found) if built_in else missing(entry, found)


def stand_in(entry: Planned, name: str, text: str, found: Found) -> Section:
    """Let a built-in text stand where a file has none, and say so if the file is there."""
    note = f"{found.note}; {STANDS_IN}" if found.lost else ""
    return Section(entry=entry, text=text, origin=f"built-in {name}", note=note, broken=found.broken)


@source("folder", Pace.STATIC)
def read_folder(view: StaticView, entry: Planned) -> tuple[Item, ...] | Item:
    """Read every Markdown file of a folder, each as a section of its own."""
    paths = view.files.list(entry.folder) if entry.folder else ()
    items: list[Item] = []
    for path in paths:
        name = path.removeprefix(entry.folder + "/")
        match view.files.read(path):
            case Document() as document if document.body:
                items.append(section_of(entry, document, name=name, title=one_line(name)))
            case Document():
                items.append(Missing(entry=entry, name=name, reason=f"{path} is blank"))
            case Trouble() as trouble:
                items.append(lament(entry, f"{path} {trouble.reason}", name, broken=trouble.stays))
            case None:
                items.append(lament(entry, f"{path} {UNFOUND}", name))
    return tuple(items) or Missing(
        entry=entry, reason=f"there is nothing in {entry.folder}" if entry.folder else "it belongs to rooms"
    )


@source("text", Pace.STATIC)
def read_text(_: StaticView, entry: Planned) -> Item:
    """Give a built-in text as it is."""
    text = read_builtin(entry.text) if entry.text else ""
    return Section(entry=entry, text=text, origin=f"built-in {entry.text}") if text else absent(entry, "there is none")


@source("soul", Pace.STATIC)
def read_soul(view: StaticView, entry: Planned) -> Item:
    """Give the character that the store keeps, else the configured one, else that of a file or the built-in one."""
    text = normalise(view.settings.soul).strip()
    return find_kept_soul(view, entry) or (
        Section(entry=entry, text=text, origin="foreword.yaml") if text else find_text(view, entry)
    )


@source("soul_file", Pace.STATIC)
def read_soul_file(view: StaticView, entry: Planned) -> Item:
    """Give the character that is kept in the store, else that of a file, whatever the configuration says."""
    return find_kept_soul(view, entry) or find_text(view, entry)


def find_kept_soul(view: StaticView, entry: Planned) -> Section | None:
    """Find the character that is kept in the store."""
    text = normalise(view.kept.soul).strip()
    return Section(entry=entry, text=text, origin=STORE) if text else None


@source("identity", Pace.STATIC, (*IDENTITY, "article", BODY))
def read_identity(view: StaticView, entry: Planned) -> Item:
    """Tell the identity that is kept in the store, else that of the identity file, else the configured one."""
    if view.kept.identity is not None:
        return tell_identity(entry, view.kept.identity, STORE)
    found = find_document(view, entry, fields=True)
    identity = view.settings.identity
    if found.document or identity is None:
        return fill_fields(entry, found, IDENTITY)
    told = tell_identity(entry, identity, "foreword.yaml", found.note)
    return replace(told, broken=found.broken) if isinstance(told, Section) else told


@source("identity_file", Pace.STATIC, (*IDENTITY, "article", BODY))
def read_identity_file(view: StaticView, entry: Planned) -> Item:
    """Tell the identity that is kept in the store, else give the text of a file, whatever the configuration says."""
    kept = view.kept.identity
    return find_text(view, entry) if kept is None else tell_identity(entry, kept, STORE)


def tell_identity(entry: Planned, identity: Identity | str, origin: str, note: str = "") -> Item:
    """Tell an identity that is no file's, as the slot's form has it."""
    values = spell_identity(identity, has_body=BODY in read_form(entry.slot.form).names)
    text = fill_fields_in(entry, values)
    if not text:
        return absent(entry, note or f"the identity in {origin} has nothing that is shown here")
    return Section(entry=entry, text=text, origin=origin, note=note)


def spell_identity(identity: Identity | str, *, has_body: bool) -> dict[str, str]:
    """Give the fields of a configured identity; a text is its body, or a description where no body is shown."""
    if isinstance(identity, str):
        return {BODY: normalise(identity).strip()} if has_body else {"description": one_line(identity)}
    return {name: one_line(getattr(identity, name)) for name in IDENTITY}


@source("profile", Pace.SESSION, (*PROFILE, BODY))
def read_profile(view: SessionView, entry: Planned) -> Item:
    """Tell the fields and the body of the speaking person's own file."""
    return fill_fields(entry, find_document(view.static, entry, fields=True), PROFILE)


@source("instructions", Pace.SESSION)
def read_instructions(view: SessionView, entry: Planned) -> Item:
    """Give the standing instructions of the speaking person."""
    text = normalise(view.instructions).strip()
    return Section(entry=entry, text=text, origin="instructions") if text else absent(entry, "none are set")


@source("channel", Pace.SESSION)
def read_channel(view: SessionView, entry: Planned) -> Item:
    """Say how a reply should look on its channel; an unknown channel is treated like the web."""
    if not view.channel:
        return absent(entry, "no channel is known")
    found = find_document(view.static, entry)
    if found.document:
        return section_of(entry, found.document, note=found.note, broken=found.broken)
    name = entry.text if entry.text and read_builtin(entry.text) else entry.slot.text.replace("{family}", "web")
    return stand_in(entry, name, read_builtin(name), found)


def find_document(view: StaticView, entry: Planned, *, fields: bool = False) -> Found:
    """Find the first of an entry's files that has a text, or fields where these are wanted too."""
    troubles: list[str] = []
    lost = broken = False
    for path in entry.paths:
        match view.files.read(path):
            case Document() as document if document.body or (fields and document.meta):
                unread = fields and bool(document.note) and not document.meta
                return Found(document=document, note="; ".join(troubles), lost=lost, broken=broken or unread)
            case Document() as document if document.note:
                troubles.append(f"{path}: {document.note}")
                lost = broken = True
            case Document():
                troubles.append(f"{path} is blank")
            case Trouble() as trouble:
                troubles.append(f"{path} {trouble.reason}")
                lost, broken = True, broken or trouble.stays
    return Found(note="; ".join(troubles), lost=lost, broken=broken)


def missing(entry: Planned, found: Found) -> Item:
    """Say why a slot has no text: a file that cannot be used is a loss, one that is not there is none."""
    name = entry.paths[-1] if entry.paths else ""
    reason = found.note or (f"{name} does not exist" if name else "no file is configured for it")
    return lament(entry, reason, broken=found.broken) if found.lost else Missing(entry=entry, reason=reason)


def section_of(
    entry: Planned, document: Document, *, name: str = "", title: str = "", note: str = "", broken: bool = False
) -> Section:
    """Make a section of a document, which its path redeems."""
    return Section(
        entry=entry,
        name=name,
        text=document.body,
        origin=document.path,
        title=title,
        path=document.path,
        sha256=document.sha256,
        note="; ".join(filter(None, (document.note, note))),
        description=document.description,
        broken=broken,
    )


def retell(section: Section, text: str, note: str = "") -> Section:
    """Give a section another text than its file has, so that the path no longer redeems it."""
    return replace(section, text=text, path="", note="; ".join(filter(None, (section.note, note))))


def fill_fields(entry: Planned, found: Found, names: tuple[str, ...]) -> Item:
    """Fill the fields of a file, and its body, into the slot's form."""
    document = found.document
    if document is None:
        return missing(entry, found)
    section = section_of(entry, document, note=found.note, broken=found.broken)
    text = fill_fields_in(entry, {**{name: one_line(document.field(name)) for name in names}, BODY: document.body})
    if not text:
        return absent(entry, f"{document.path} has nothing that is shown here")
    return section if text == document.body else retell(section, text)


def fill_fields_in(entry: Planned, values: dict[str, str]) -> str:
    """Fill fields into the slot's form."""
    article = "an" if values.get("creature", "")[:1].lower() in tuple("aeiou") else "a"
    known = {**values, "article": article}
    return fill_form(entry.slot.form, tuple(known.get(name, "") for name in read_form(entry.slot.form).names))
