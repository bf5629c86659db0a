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
from foreword.sources.provenance import INBOX, find_author, show_entries
from foreword.sources.registry import source
from foreword.sources.section import Item, Missing, Section, write_line
from foreword.sources.texts import UNFOUND
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
        unreviewed: dict[str, list[Document]] = {}
        for path in list_paths(store):
            match read(path):
                case Document() as document if document.body and (author := find_author(path)):
                    unreviewed.setdefault(author, []).append(document)
                case Document() as document if document.path == FACTS and not load_facts(document):
                    troubles.append(NO_FACTS)
                case Document() as document if document.body:
                    lines.append(price_memory(document, meter))
                case Trouble() as trouble:
                    troubles.append(f"{path} {trouble.reason}")
                case None:
                    troubles.append(f"{path} {UNFOUND}")
        lines += [price_author(store, author, found, meter) for author, found in sorted(unreviewed.items())]
    return tuple(lines), tuple(troubles)


def price_author(store: str, author: str, found: Sequence[Document], meter: Meter) -> str:
    """Price all that waits for review from one author; of the words themselves nothing is repeated."""
    tokens = meter.count(show_entries(found))
    entries = f"{len(found):,} unreviewed entr{'y' if len(found) == 1 else 'ies'} from {author}"
    return write_line(f"{store}/{INBOX}/{author}", tokens, entries)


@lru_cache(maxsize=8_192)
def price_memory(document: Document, meter: Meter) -> str:
    """Price one memory, once for as long as it does not change."""
    if document.path == FACTS:
        return write_line(FACTS, meter.count("\n".join(load_facts(document) or ())), "short facts")
    return write_line(document.path.removeprefix("memory/"), meter.count(document.body), document.description)
