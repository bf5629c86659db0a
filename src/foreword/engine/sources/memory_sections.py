"""Sources from memory: shared facts, the parts of a file that match a message, skills, the menu and recall."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice

from foreword.config.schema import Store
from foreword.engine.blueprint import SKILLS_SOURCE
from foreword.engine.context import SessionView, SourceReader, StaticView, TurnView
from foreword.engine.selection import Plan, PlannedSlot, describe_mode_absence
from foreword.engine.sources.documents import (
    Document,
    FileProblem,
    escape_attribute,
    escape_markup,
    join_lines,
    normalise_lines,
    read_builtin,
    track_fence,
)
from foreword.engine.sources.forms import fill_form, round_tokens
from foreword.engine.sources.sections import (
    Item,
    Missing,
    Passage,
    Section,
    report_unusable,
    source,
    write_memory_get,
    write_menu_line,
)
from foreword.engine.sources.texts import UNOPENABLE_REASON, find_document, report_missing
from foreword.engine.trust import (
    INBOX,
    OWN_STORE,
    find_author,
    find_own_folder,
    find_own_level,
    is_own_entry,
    show_path,
    write_entries,
)
from foreword.resources import read_words
from foreword.tokens.count import Meter
from foreword.types import Mode, Pace, Trust, Verdict

FACTS_FILE = "memories.json"  # the file of facts that all agents share
FACT_STORE = "facts"  # the store of this file, for `inner` and above
MAIN_FILE = "MEMORY.md"  # the long-term memory that people edit by hand
MAIN_STORE = "main"  # the store of this file, for `full` unless the configuration lists it with less
NO_FACTS = f"{FACTS_FILE} holds no list of texts in JSON"
MAX_FACT_CHARS = 200  # the maximum characters of a fact
MAX_RECALLED_PARTS = 4  # the maximum parts of a file that are recalled
WORD = re.compile(r"\w{3,}")
PART_HEADING = "## "
SKILL_FILE = "SKILL.md"


@source("facts", Pace.STATIC)
def list_facts(view: StaticView, entry: PlannedSlot) -> Item:
    """List the facts of a JSON file, one line each, without duplicates."""
    found = find_document(view, entry)
    if found.document is None:
        return report_missing(entry, found)
    path = found.document.path
    facts = load_facts(found.document)
    if facts is None:
        return report_unusable(entry, f"{path} holds no list of texts in JSON")
    shown = [fact if len(fact) <= MAX_FACT_CHARS else fact[: MAX_FACT_CHARS - 1].rstrip() + "…" for fact in facts]
    lines = list(dict.fromkeys(shown))
    long = sum(len(fact) > MAX_FACT_CHARS for fact in facts)
    note = f"{long:,} of them cut at {MAX_FACT_CHARS} characters" if long else ""
    if not lines:
        return Missing(entry=entry, reason=f"{path} holds no facts")
    text = "\n".join(f"- {line}" for line in lines)
    return Section(entry=entry, text=text, origin=path, sha256=found.document.sha256, note=note)


def load_facts(document: Document) -> list[str] | None:
    """Load the facts of a JSON file, each on one line without duplicates; None if it holds no list of texts."""
    try:
        # Not strict: line breaks inside a text are already normalised to newlines.
        facts = extract_facts(json.loads(document.body, strict=False))
    except (ValueError, RecursionError):
        return None
    return None if facts is None else list(dict.fromkeys(join_lines(fact) for fact in facts if fact.strip()))


def extract_facts(value: object) -> list[str] | None:
    """Extract the facts from a JSON value: a list of texts, a list of objects with a text, or an object with one."""
    if isinstance(value, dict):
        value = value.get("memories")
    if not isinstance(value, list):
        return None
    facts = [next(find_fact_text(one), None) for one in value]
    return None if None in facts else [normalise_lines(fact).replace("\0", "") for fact in facts if fact is not None]


def find_fact_text(value: object) -> Iterator[str]:
    """Find the text of one fact."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from (value[key] for key in ("text", "content", "memory", "fact") if isinstance(value.get(key), str))


@source("matching", Pace.TURN)
def match_parts(view: TurnView, entry: PlannedSlot) -> Item:
    """Return the parts of a file that share words with the message, or nothing."""
    found = find_document(view.static, entry)
    if found.document is None:
        return report_missing(entry, found)
    words = find_topic_words(view.message)
    parts = split_parts(found.document.body)
    scores = [(len(words & about), at) for at, (_, about) in enumerate(parts)]
    best = sorted([(-score, at) for score, at in scores if score])[:MAX_RECALLED_PARTS]
    if not best:
        return Missing(entry=entry, reason=f"no part of {found.document.path} matches the message")
    text = "\n\n".join(f"### {parts[at][0]}" for _, at in sorted(best, key=lambda one: one[1]))
    return Section(entry=entry, text=text, origin=found.document.path, sha256=found.document.sha256, note=found.note)


@lru_cache(maxsize=64)
def split_parts(text: str) -> tuple[tuple[str, frozenset[str]], ...]:
    """Split a text at its second-level headings, outside code blocks, and collect the words of each part."""
    parts: list[list[str]] = []
    fence = ""
    for line in text.split("\n"):
        fence = track_fence(fence, line)
        if not fence and line.startswith(PART_HEADING):
            parts.append([line.removeprefix(PART_HEADING)])
        elif parts:
            parts[-1].append(line)
    texts = ["\n".join(part).strip() for part in parts]
    return tuple([(part, find_topic_words(part)) for part in texts])


def find_topic_words(text: str) -> frozenset[str]:
    """Return the words of a text without common ones."""
    return frozenset(WORD.findall(text.lower())) - read_words("stop_words")


LINE_STRUCTURE = re.compile(r"^[#=_*-]")  # characters that give the start of a line a structure


@source("skills", Pace.STATIC)
def list_skills(view: StaticView, entry: PlannedSlot) -> tuple[Item, ...] | Item:
    """List the skills of the workspace with their descriptions; a limit of the slot drops whole skills."""
    blocks: list[str] = []
    troubles: list[str] = []
    beyond: list[Item] = []
    room, limit = entry.slot.limit, f"{entry.slot.limit:,}"
    for path in view.files.list(entry.folder, SKILL_FILE):
        folder = path.removesuffix(f"/{SKILL_FILE}")
        match view.files.read(path):
            case Document() as document:
                block = render_skill(folder, document)
                room -= len(block) + 1
                if entry.slot.limit and room < 0:
                    name, reason = (
                        folder.removeprefix(f"{entry.folder}/"),
                        f"the skill list is limited to {limit} characters",
                    )
                    beyond.append(Missing(entry=entry, name=name, reason=reason, verdict=Verdict.DROPPED))
                else:
                    blocks.append(block)
            case trouble:
                troubles.append(f"{path} {trouble.reason if trouble else UNOPENABLE_REASON}")
    if not blocks and not beyond:
        return Missing(entry=entry, reason="; ".join(troubles) or "there are no skills")
    text = "\n".join(["<available_skills>", *blocks, "</available_skills>"])
    if beyond:
        text += "\n" + fill_form("skills/beyond", (limit, f"{len(beyond):,}"))
    if "read_skill" in view.tools or "memory_get" in view.tools:
        text += "\n" + read_builtin("skills/open" if "read_skill" in view.tools else "skills/read")
    return Section(entry=entry, text=text, origin=entry.folder, note="; ".join(troubles)), *beyond


def render_skill(folder: str, document: Document) -> str:
    """Render one skill of the listing; a skill without a description shows its name alone."""
    name = document.field("name") or folder.rpartition("/")[2]
    lines = [f'<skill name="{escape_attribute(name)}" source="skill" path="{escape_attribute(folder)}">']
    if description := document.field("description"):
        lines.append(LINE_STRUCTURE.sub(r"\\\g<0>", escape_markup(join_lines(description))))
    return "\n".join([*lines, "</skill>"])


@source("menu", Pace.SESSION)
def list_menu(view: SessionView, entry: PlannedSlot) -> Item:
    """List the memories that this clearance may load, each with its token count; the budget may add files."""
    if "memory_get" not in view.static.tools:
        return Missing(entry=entry, reason="the turn has no memory_get tool")
    closing = read_builtin("menu/search" if "memory_search" in view.static.tools else "menu/load")
    if entry.text:
        closing = f"{read_builtin(entry.text).replace('$remaining', round_tokens(view.static.beyond))} {closing}"
    static = view.static
    # The list is the same for everyone of one clearance, so a new session reuses it.
    lines, troubles = static.files.results.recall("memories", lambda: list_store_lines(static))
    if view.alone:
        paths = list_own_paths(view.alone, static.clearance, static.files)
        own = list_stores((OWN_STORE,), lambda _: paths, static.files.read, static.meter)
        lines, troubles = (*lines, *own[0]), (*troubles, *own[1])
    return Section(
        entry=entry,
        text=closing,
        origin="memory",
        title=f"Available Memory (trust: {view.static.clearance})",
        lines=lines,
        note="; ".join(troubles),
    )


def list_store_lines(view: StaticView) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """List every readable file of the stores with its token count; other files are not opened."""
    known = {FACT_STORE: Store(trust=Trust.INNER), **view.stores}
    stores = [name for name, settings in sorted(known.items()) if view.clearance >= settings.trust]

    def list_paths(store: str) -> Sequence[str]:
        if store != FACT_STORE or store in view.stores:
            return view.files.list(f"memory/{store}")
        found = not view.files.is_listed(FACTS_FILE) and isinstance(view.files.read(FACTS_FILE), Document)
        return (FACTS_FILE,) if found else ()

    return list_stores(stores, list_paths, view.files.read, view.meter)


def list_own_paths(person: str, clearance: Trust, files: SourceReader) -> Sequence[str]:
    """List the files of a user's personal memory that a clearance may see."""
    if not person:
        return ()
    return [path for path in files.list(find_own_folder(person)) if find_own_level(path) <= clearance]


def list_stores(
    stores: Iterable[str],
    list_paths: Callable[[str], Sequence[str]],
    read: Callable[[str], Document | FileProblem | None],
    meter: Meter,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """List every file of some stores with its token count, grouped by store, and the files that cannot be read."""
    lines: list[str] = []
    troubles: list[str] = []
    for store in stores:
        entries: dict[str, list[Document]] = {}
        for path in list_paths(store):
            match read(path):
                case Document() as document if document.body and find_author(path):
                    entries.setdefault(find_group(path), []).append(document)
                case Document() as document if document.path == FACTS_FILE and not load_facts(document):
                    troubles.append(NO_FACTS)
                case Document() as document if document.body:
                    facts = document.path == FACTS_FILE
                    text = "\n".join(load_facts(document) or ()) if facts else document.body
                    about = "short facts" if facts else document.description
                    lines.append(write_menu_line(show_path(document.path), meter.count(text), about))
                case FileProblem() as trouble:
                    troubles.append(f"{path} {trouble.reason}")
                case None:
                    troubles.append(f"{path} {UNOPENABLE_REASON}")
        lines += [write_entries_line(group, found, meter) for group, found in sorted(entries.items())]
    return tuple(lines), tuple(troubles)


def find_group(path: str) -> str:
    """Return the menu path of an entry's folder: one per author, or one per level in the user's personal memory."""
    if is_own_entry(path):
        return f"{OWN_STORE}/{find_own_level(path)}"
    return f"{show_path(path).partition('/')[0]}/{INBOX}/{find_author(path)}"


def write_entries_line(group: str, found: Sequence[Document], meter: Meter) -> str:
    """Write the menu line of all entries of one folder, without quoting them."""
    author, own = find_author(found[0].path), is_own_entry(found[0].path)
    entries = f"entr{'y' if len(found) == 1 else 'ies'}"
    about = f"{entries} saved for {author}" if own else f"unreviewed {entries} from {author}"
    return write_menu_line(group, meter.count(write_entries(found)), f"{len(found):,} {about}")


HEADING_TOKENS = 20  # tokens of the slot's room that are reserved for its heading


@source("recall", Pace.TURN)
def recall_passages(view: TurnView, entry: PlannedSlot) -> Item:
    """Return the few passages that match the message, or nothing."""
    if view.recall is None:
        return Missing(entry=entry, reason="recall is off; turn it on with memory.recall")
    if not view.message or view.message.isspace():
        return Missing(entry=entry, reason="there is no message to search for")
    found = tuple(view.recall(view.message))
    if not found:
        return Missing(entry=entry, reason="nothing in memory clearly matches the message")
    lines = {one: write_passage(one, view.static) for one in found}
    said = [one for one in found if any(lines[one] in text for text in view.said)]
    fresh = [one for one in found if one not in said]
    if not fresh:
        return Missing(entry=entry, reason="the matching passages were recalled before", passages=found)
    shown: list[Passage] = []
    left = entry.slot.find_room(view.static.meter.facts.window) - HEADING_TOKENS
    for one in fresh:
        left -= view.static.meter.count(lines[one] + "\n")
        if left < 0:
            break
        shown.append(one)
    if not shown:
        return Missing(entry=entry, reason="the matching passages do not fit")
    return Section(
        entry=entry,
        text="\n".join(lines[one] for one in shown),
        origin="memory",
        note=f"{len(shown)} of {len(found)} passages" if len(shown) < len(found) else "",
        passages=tuple(one for one in found if one in shown or one in said),
    )


def write_passage(passage: Passage, view: StaticView) -> str:
    """Write a passage on one line with its location and, if no owner has reviewed it, its author.

    The brief prompt omits the location: a very small model repeats it instead of answering.
    """
    text = f"{passage.heading}: {passage.text.removeprefix('- ')}" if passage.heading else passage.text
    if view.mode is Mode.BRIEF:
        return f"- {text} ({passage.origin})" if passage.origin else f"- {text.removeprefix('- ')}"
    where = [f"{passage.path}, line {passage.first}", passage.origin]
    if passage.cut and "memory_get" in view.tools:
        where.append(f"more: {write_memory_get(passage.path, passage.first, passage.last)}")
    return f"- {text} ({'; '.join(filter(None, where))})"


def list_recallable(plan: Plan, view: StaticView) -> Sequence[Document]:
    """List the files that the brief prompt has no room for and that this turn may see.

    The plan has already refused files that need a higher clearance, personal files of others and files of other
    situations. Memory has its own index.
    """
    if plan.mode is not Mode.BRIEF:
        return ()
    found: dict[str, Document] = {}
    for entry in (entry for run in plan.runs for entry in run.entries):
        # An entry is visible if it is in the prompt, or if only the prompt mode leaves it out.
        left_out = entry.verdict is Verdict.ABSENT and entry.reason == describe_mode_absence(plan.mode)
        if (entry.verdict is None or left_out) and not entry.slot.governs:
            found |= {document.path: document for document in read_entry_files(entry, view)}
    return [found[path] for path in sorted(found) if path not in (MAIN_FILE, FACTS_FILE)]


def read_entry_files(entry: PlannedSlot, view: StaticView) -> Iterator[Document]:
    """Read the files of an entry: the first candidate with a text, and every file of its folder."""
    candidates = (one for path in entry.paths if isinstance(one := view.files.read(path), Document) and one.body)
    yield from islice(candidates, 1)
    name = SKILL_FILE if entry.slot.source == SKILLS_SOURCE else ""
    folder = view.files.list(entry.folder, name) if entry.folder else ()
    yield from (one for path in folder if isinstance(one := view.files.read(path), Document) and one.body)
