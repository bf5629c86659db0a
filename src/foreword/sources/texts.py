"""Sources that read files of the workspace, with a built-in text beneath."""

from dataclasses import replace

from foreword.blueprint import Planned
from foreword.sources.builtin import read_builtin
from foreword.sources.document import Document, Trouble, normalise, one_line
from foreword.sources.registry import source
from foreword.sources.section import Item, Missing, Section
from foreword.sources.view import SessionView, StaticView
from foreword.words import Pace, Verdict

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


@source("file", Pace.STATIC)
def read_file(view: StaticView, entry: Planned) -> Item:
    """Read the first of the entry's files that has a text, else the built-in one."""
    document, trouble = find_document(view, entry)
    if document:
        return section_of(entry, document)
    if built_in := read_builtin(entry.text) if entry.text else "":
        return Section(entry=entry, text=built_in, origin=f"built-in {entry.text}", note=trouble)
    return missing(entry, trouble)


@source("files", Pace.STATIC)
def read_listed(view: StaticView, entry: Planned) -> Item:
    """Read one of the further files that the configuration lists, under its own name."""
    document, trouble = find_document(view, entry)
    if document is None:
        return missing(entry, trouble)
    section = section_of(entry, document, title=entry.id.partition(":")[2])
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
            case Trouble() as trouble:
                reason = f"{path} {trouble.reason}"
                items.append(Missing(entry=entry, name=name, reason=reason, verdict=Verdict.DROPPED))
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
    document, trouble = find_document(view, entry)
    if document:
        return fields_and_body(entry, document, IDENTITY)
    identity = view.settings.identity
    if identity is None:
        return missing(entry, trouble)
    if isinstance(identity, str):
        return Section(entry=entry, text=identity.strip(), origin="foreword.yaml", note=trouble)
    values = {name: getattr(identity, name) for name in (*IDENTITY, "emoji")}
    return Section(entry=entry, text="\n".join(say(IDENTITY, values)), origin="foreword.yaml", note=trouble)


@source("profile", Pace.SESSION)
def read_profile(view: SessionView, entry: Planned) -> Item:
    """Give the fields and the body of the speaking person's own file."""
    document, trouble = find_document(view.static, entry)
    return fields_and_body(entry, document, PROFILE) if document else missing(entry, trouble)


@source("instructions", Pace.SESSION)
def read_instructions(view: SessionView, entry: Planned) -> Item:
    """Give the standing instructions of the speaking person."""
    text = normalise(view.instructions).strip()
    return Section(entry=entry, text=text, origin="instructions") if text else missing(entry, "none are set")


@source("channel", Pace.SESSION)
def read_channel(view: SessionView, entry: Planned) -> Item:
    """Say where the reply goes, and how it should look there; an unknown channel is treated like the web."""
    document, trouble = find_document(view.static, entry)
    head = f"Channel: {one_line(view.channel)}."
    if document:
        return section_of(entry, document, text=f"{head}\n{document.body}")
    known = read_builtin(entry.text) if entry.text else ""
    name = entry.text if known else "channels/web"
    text = f"{head}\n{known or read_builtin(name)}"
    return Section(entry=entry, text=text, origin=f"built-in {name}", note=trouble)


def find_document(view: StaticView, entry: Planned) -> tuple[Document | None, str]:
    """Find the first of an entry's files that has a text, or say why there is none."""
    trouble = ""
    for path in entry.paths:
        match view.files.read(path):
            case Document() as document if document.body or document.meta:
                return document, ""
            case Document():
                trouble = trouble or f"{path} is blank"
            case Trouble() as found:
                trouble = f"{path} {found.reason}"
    return None, trouble


def missing(entry: Planned, trouble: str) -> Missing:
    """Say why a slot has no text: a file that cannot be used is a loss, one that is not there is none."""
    lost = trouble and not trouble.endswith(("is blank", "are set"))
    name = entry.paths[-1] if entry.paths else ""
    reason = trouble or (f"{name} does not exist" if name else "no file is configured for it")
    return Missing(entry=entry, reason=reason, verdict=Verdict.DROPPED if lost else Verdict.ABSENT)


def section_of(
    entry: Planned, document: Document, *, text: str = "", name: str = "", title: str = "", note: str = ""
) -> Section:
    """Make a section of a document; its path redeems it as long as its text is the document's own."""
    return Section(
        entry=entry,
        name=name,
        text=text or document.body,
        origin=document.path,
        title=title,
        path="" if text else document.path,
        sha256=document.sha256,
        note="; ".join(filter(None, (document.note, note))),
        description=document.description,
    )


def fields_and_body(entry: Planned, document: Document, labels: dict[str, str]) -> Section:
    """Say the known fields of a file one by one, then its body."""
    values = {name: document.field(name) for name in (*labels, "emoji")}
    lines = [*say(labels, values), *([document.body] if document.body else [])]
    if lines == [document.body]:
        return section_of(entry, document)
    return section_of(entry, document, text="\n".join(lines))


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
