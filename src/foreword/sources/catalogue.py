"""Sources that list what the agent can load: skills, and the memory menu."""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from foreword.blueprint import Planned
from foreword.config.schema import Store
from foreword.sources.builtin import read_builtin
from foreword.sources.document import Document, Trouble, escape_attribute, escape_markup, one_line
from foreword.sources.facts import round_tokens
from foreword.sources.form import fill_form
from foreword.sources.memories import FACT_STORE, FACTS, NO_FACTS, load_facts
from foreword.sources.own_memory import OWN_STORE, find_own_folder, find_own_level, is_own_entry, show_path
from foreword.sources.provenance import INBOX, find_author, show_entries
from foreword.sources.registry import source
from foreword.sources.section import Item, Missing, Section, write_line
from foreword.sources.texts import UNFOUND
from foreword.sources.trace import Reader
from foreword.sources.view import SessionView, StaticView
from foreword.tokens import Meter
from foreword.words import Pace, Trust, Verdict

STRUCTURE = re.compile(r"^[#=_*-]")  # what makes a line more than words


@source("skills", Pace.STATIC)
def list_skills(view: StaticView, entry: Planned) -> tuple[Item, ...] | Item:
    """List the skills of the workspace, each with what it is for; whole skills only, where the slot has a limit."""
    blocks: list[str] = []
    troubles: list[str] = []
    beyond: list[Item] = []
    room = entry.slot.limit
    for path in view.files.list(entry.folder, "SKILL.md"):
        match view.files.read(path):
            case Document() as document:
                block = show_skill(path.removesuffix("/SKILL.md"), document)
                room -= len(block) + 1
                if entry.slot.limit and room < 0:
                    beyond.append(refuse_skill(entry, path))
                else:
                    blocks.append(block)
            case trouble:
                troubles.append(f"{path} {trouble.reason if trouble else UNFOUND}")
    if not blocks and not beyond:
        return Missing(entry=entry, reason="; ".join(troubles) or "there are no skills")
    text = "\n".join(["<available_skills>", *blocks, "</available_skills>"])
    if beyond:
        text += "\n" + fill_form("skills/beyond", (f"{entry.slot.limit:,}", f"{len(beyond):,}"))
    if "read_skill" in view.tools or "memory_get" in view.tools:
        text += "\n" + read_builtin("skills/open" if "read_skill" in view.tools else "skills/read")
    return Section(entry=entry, text=text, origin=entry.folder, note="; ".join(troubles)), *beyond


def refuse_skill(entry: Planned, path: str) -> Missing:
    """Say that a skill is beyond the limit of the list."""
    name = path.removesuffix("/SKILL.md").removeprefix(f"{entry.folder}/")
    reason = f"the list of skills ends at {entry.slot.limit:,} characters"
    return Missing(entry=entry, name=name, reason=reason, verdict=Verdict.DROPPED)


@lru_cache(maxsize=4_096)
def show_skill(folder: str, document: Document) -> str:
    """Show one skill as the listing has it; a skill without a description is known by its name alone."""
    name = document.field("name") or folder.rpartition("/")[2]
    lines = [f'<skill name="{escape_attribute(name)}" source="skill" path="{escape_attribute(folder)}">']
    if description := document.field("description"):
        lines.append(STRUCTURE.sub(r"\\\g<0>", escape_markup(one_line(description))))
    return "\n".join([*lines, "</skill>"])


@source("menu", Pace.SESSION)
def list_memory(view: SessionView, entry: Planned) -> Item:
    """List the memories that this clearance may load, each with its price; the budget may add to it."""
    if "memory_get" not in view.static.tools:
        return Missing(entry=entry, reason="the turn has no memory_get to load anything with")
    closing = read_builtin("menu/search" if "memory_search" in view.static.tools else "menu/load")
    if entry.text:
        closing = f"{read_builtin(entry.text).replace('$remaining', round_tokens(view.static.beyond))} {closing}"
    static = view.static
    # It is the same for everybody of one clearance, and a new session is no reason to look at every file again.
    lines, troubles = static.files.recall("memories", lambda: find_memories(static))
    if view.alone:
        own = find_own_memories(view)
        lines, troubles = (*lines, *own[0]), (*troubles, *own[1])
    return Section(
        entry=entry,
        text=closing,
        origin="memory",
        title=f"Available Memory (trust: {view.static.clearance})",
        lines=lines,
        note="; ".join(troubles),
    )


def find_memories(view: StaticView) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Price every file of the stores that the clearance may see; others are not opened."""
    known = {FACT_STORE: Store(trust=Trust.INNER), **view.stores}
    stores = [name for name, settings in sorted(known.items()) if view.clearance >= settings.trust]
    return list_stores(stores, lambda store: list_memories(store, view), view.files.read, view.meter)


def find_own_memories(view: SessionView) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Price every file of the person's own memory that the clearance may see; others are not opened."""
    static = view.static
    paths = list_own(view.alone, static.clearance, static.files)
    return list_stores((OWN_STORE,), lambda _: paths, static.files.read, static.meter)


def list_own(person: str, clearance: Trust, files: Reader) -> Sequence[str]:
    """List the files of a person's own memory that a clearance may see."""
    if not person:
        return ()
    return [path for path in files.list(find_own_folder(person)) if find_own_level(path) <= clearance]


def list_memories(store: str, view: StaticView) -> Sequence[str]:
    """List the files of a store; the facts are one file that is no Markdown."""
    if store == FACT_STORE and store not in view.stores:
        found = not view.files.is_listed(FACTS) and isinstance(view.files.read(FACTS), Document)
        return (FACTS,) if found else ()
    return view.files.list(f"memory/{store}")


def list_stores(
    stores: Iterable[str],
    list_paths: Callable[[str], Sequence[str]],
    read: Callable[[str], Document | Trouble | None],
    meter: Meter,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Price every file of some stores, grouped by store, and say what cannot be read."""
    lines: list[str] = []
    troubles: list[str] = []
    for store in stores:
        entries: dict[str, list[Document]] = {}
        for path in list_paths(store):
            match read(path):
                case Document() as document if document.body and find_author(path):
                    entries.setdefault(find_group(path), []).append(document)
                case Document() as document if document.path == FACTS and not load_facts(document):
                    troubles.append(NO_FACTS)
                case Document() as document if document.body:
                    lines.append(price_memory(document, meter))
                case Trouble() as trouble:
                    troubles.append(f"{path} {trouble.reason}")
                case None:
                    troubles.append(f"{path} {UNFOUND}")
        lines += [price_entries(group, found, meter) for group, found in sorted(entries.items())]
    return tuple(lines), tuple(troubles)


def find_group(path: str) -> str:
    """Return the path under which all entries of one folder are read: those of an author, or of one's own by level."""
    if is_own_entry(path):
        return f"{OWN_STORE}/{find_own_level(path)}"
    return f"{show_path(path).partition('/')[0]}/{INBOX}/{find_author(path)}"


def price_entries(group: str, found: Sequence[Document], meter: Meter) -> str:
    """Price all entries of one folder; of the words themselves nothing is repeated."""
    author, own = find_author(found[0].path), is_own_entry(found[0].path)
    entries = f"entr{'y' if len(found) == 1 else 'ies'}"
    about = f"{entries} saved for {author}" if own else f"unreviewed {entries} from {author}"
    return write_line(group, meter.count(show_entries(found)), f"{len(found):,} {about}")


@lru_cache(maxsize=8_192)
def price_memory(document: Document, meter: Meter) -> str:
    """Price one memory, once for as long as it does not change."""
    if document.path == FACTS:
        return write_line(FACTS, meter.count("\n".join(load_facts(document) or ())), "short facts")
    return write_line(show_path(document.path), meter.count(document.body), document.description)
