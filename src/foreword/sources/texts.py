"""Sources that read files of the workspace, with a built-in text beneath."""

from dataclasses import replace

from foreword.blueprint import Planned
from foreword.frozen import frozen
from foreword.sources.builtin import read_builtin
from foreword.sources.document import Document, Trouble, normalise, one_line
from foreword.sources.registry import source
from foreword.sources.section import Item, Missing, Section, absent, lament
from foreword.sources.view import SessionView, StaticView
from foreword.words import Pace

UNFOUND = "cannot be opened; its name should be plain UTF-8"
IDENTITY = {
    "name": "Your name is {name}{emoji}.",
    "creature": "You are {article} {creature}.",
    "vibe": "Your vibe: {vibe}.",
    "description": "What you are for: {description}.",
}
PROFILE = {
    "name": "The user's name is {name}.",
    "timezone": "Their time zone is {timezone}.",
    "location": "They are in {location}.",
}


@frozen
class Found:
    """What the files of an entry gave: a document, or the trouble with them."""

    document: Document | None = None
    note: str = ""
    lost: bool = False


@source("file", Pace.STATIC)
def read_file(view: StaticView, entry: Planned) -> Item:
    """Read the first of the entry's files that has a text, else the built-in one."""
    found = find_document(view, entry)
    if found.document:
        return section_of(entry, found.document, note=found.note)
    built_in = read_builtin(entry.text) if entry.text else ""
    return stand_in(entry, entry.text, built_in, found) if built_in else missing(entry, found)


def stand_in(entry: Planned, name: str, text: str, found: Found) -> Section:
    """Let a built-in text stand where a file has none, and say so if the file is there."""
    note = f"{found.note}; the built-in text stands in" if found.lost else ""
    return Section(entry=entry, text=text, origin=f"built-in {name}", note=note)


@source("files", Pace.STATIC)
def read_listed(view: StaticView, entry: Planned) -> Item:
    """Read one of the further files that the configuration lists, under its own name."""
    found = find_document(view, entry)
    if found.document is None:
        return missing(entry, found)
    section = section_of(entry, found.document, title=entry.id.partition(":")[2], note=found.note)
    # A path that begins like a store's would be taken for a memory.
    return replace(section, path=f"./{section.path}") if section.path.partition("/")[0] in view.stores else section


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
            case trouble:
                reason = f"{path} {trouble.reason if trouble else UNFOUND}"
                items.append(lament(entry, reason, name))
    return tuple(items) or Missing(
        entry=entry, reason=f"there is nothing in {entry.folder}" if entry.folder else "it belongs to rooms"
    )


@source("text", Pace.STATIC)
def read_text(_: StaticView, entry: Planned) -> Item:
    """Give a built-in text as it is."""
    return Section(entry=entry, text=read_builtin(entry.text), origin=f"built-in {entry.text}")


@source("core", Pace.STATIC)
def read_core(view: StaticView, entry: Planned) -> Item:
    """Give the built-in core with the agent's name in it."""
    identity = view.settings.identity
    name = "" if identity is None or isinstance(identity, str) else identity.name
    text = read_builtin(entry.text).replace("$name", one_line(name) or view.agent.capitalize())
    return Section(entry=entry, text=text, origin=f"built-in {entry.text}")


@source("identity", Pace.STATIC)
def read_identity(view: StaticView, entry: Planned) -> Item:
    """Give the fields and the body of the identity file, else what the configuration says."""
    found = find_document(view, entry, fields=True)
    identity = view.settings.identity
    if found.document or identity is None:
        return fields_and_body(entry, found, IDENTITY)
    if isinstance(identity, str):
        return Section(entry=entry, text=identity.strip(), origin="foreword.yaml", note=found.note)
    values = {name: getattr(identity, name) for name in (*IDENTITY, "emoji")}
    return Section(entry=entry, text="\n".join(say(IDENTITY, values)), origin="foreword.yaml", note=found.note)


@source("profile", Pace.SESSION)
def read_profile(view: SessionView, entry: Planned) -> Item:
    """Give the fields and the body of the speaking person's own file."""
    return fields_and_body(entry, find_document(view.static, entry, fields=True), PROFILE)


@source("instructions", Pace.SESSION)
def read_instructions(view: SessionView, entry: Planned) -> Item:
    """Give the standing instructions of the speaking person."""
    text = normalise(view.instructions).strip()
    return Section(entry=entry, text=text, origin="instructions") if text else absent(entry, "none are set")


@source("channel", Pace.SESSION)
def read_channel(view: SessionView, entry: Planned) -> Item:
    """Say where the reply goes, and how it should look there; an unknown channel is treated like the web."""
    found = find_document(view.static, entry)
    head = f"Channel: {one_line(view.channel)}."
    if found.document:
        return retell(section_of(entry, found.document, note=found.note), f"{head}\n{found.document.body}")
    name = entry.text if entry.text and read_builtin(entry.text) else "channels/web"
    return stand_in(entry, name, f"{head}\n{read_builtin(name)}", found)


def find_document(view: StaticView, entry: Planned, *, fields: bool = False) -> Found:
    """Find the first of an entry's files that has a text, or fields where these are wanted too."""
    troubles: list[str] = []
    lost = False
    for path in entry.paths:
        match view.files.read(path):
            case Document() as document if document.body or (fields and document.meta):
                return Found(document=document, note="; ".join(troubles), lost=lost)
            case Document():
                troubles.append(f"{path} is blank")
            case Trouble() as trouble:
                troubles.append(f"{path} {trouble.reason}")
                lost = True
    return Found(note="; ".join(troubles), lost=lost)


def missing(entry: Planned, found: Found) -> Item:
    """Say why a slot has no text: a file that cannot be used is a loss, one that is not there is none."""
    name = entry.paths[-1] if entry.paths else ""
    reason = found.note or (f"{name} does not exist" if name else "no file is configured for it")
    return lament(entry, reason) if found.lost else Missing(entry=entry, reason=reason)


def section_of(entry: Planned, document: Document, *, name: str = "", title: str = "", note: str = "") -> Section:
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
    )


def retell(section: Section, text: str, note: str = "") -> Section:
    """Give a section another text than its file has, so that the path no longer redeems it."""
    return replace(section, text=text, path="", note="; ".join(filter(None, (section.note, note))))


def fields_and_body(entry: Planned, found: Found, labels: dict[str, str]) -> Item:
    """Say the known fields of a file one by one, then its body."""
    document = found.document
    if document is None:
        return missing(entry, found)
    section = section_of(entry, document, note=found.note)
    spoken = say(labels, {name: document.field(name) for name in (*labels, "emoji")})
    if not spoken and not document.body:
        return absent(entry, f"{document.path} is blank")
    return retell(section, "\n".join(filter(None, [*spoken, document.body]))) if spoken else section


def say(labels: dict[str, str], values: dict[str, str]) -> list[str]:
    """Put the fields that are set into words."""
    shown = {name: one_line(value) for name, value in values.items()}
    emoji = f" {shown['emoji']}" if shown.get("emoji") else ""
    article = "an" if shown.get("creature", "")[:1].lower() in tuple("aeiou") else "a"
    more = {"emoji": emoji, "article": article}
    return [label.format(**more, **{name: shown[name].rstrip(".")}) for name, label in labels.items() if shown[name]]


def round_tokens(tokens: int) -> str:
    """Round a number of tokens to what a reader needs of it."""
    return f"~{tokens // 1000}k" if tokens >= 1000 else f"~{max(tokens, 0)}"
