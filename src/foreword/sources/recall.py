"""The source of the passages that a message is about, and the files they may come from."""

from collections.abc import Iterator, Sequence

from foreword.blueprint import Plan, Planned
from foreword.blueprint.select import tell_left_out
from foreword.blueprint.slot import SKILLS
from foreword.sources.document import Document
from foreword.sources.memories import FACTS, MAIN
from foreword.sources.passage import Passage
from foreword.sources.registry import source
from foreword.sources.section import Item, Missing, Section, absent, write_get
from foreword.sources.view import StaticView, TurnView
from foreword.words import Mode, Pace, Verdict

HEADING = 20  # tokens of the slot's room that are left to its heading
SKILL = "SKILL.md"


@source("recall", Pace.TURN)
def recall_passages(view: TurnView, entry: Planned) -> Item:
    """Give the few passages that the message is about; where there is none, nothing at all."""
    if view.recall is None:
        return absent(entry, "recall is off; turn it on with memory.recall")
    if not view.message or view.message.isspace():
        return absent(entry, "there is no message to recall anything for")
    found = tuple(view.recall(view.message))
    if not found:
        return absent(entry, "nothing in memory is clearly about the message")
    lines = {one: show_passage(one, view.static) for one in found}
    said = [one for one in found if any(lines[one] in text for text in view.said)]
    fresh = [one for one in found if one not in said]
    if not fresh:
        return Missing(entry=entry, reason="what memory holds for the message was recalled before", passages=found)
    kept: list[Passage] = []
    left = entry.slot.find_room(view.static.meter.facts.window) - HEADING
    for one in fresh:
        left -= view.static.meter.count(lines[one] + "\n")
        if left < 0:
            break
        kept.append(one)
    if not kept:
        return absent(entry, "what memory holds for the message has no room")
    return Section(
        entry=entry,
        text="\n".join(lines[one] for one in kept),
        origin="memory",
        note=f"{len(kept)} of {len(found)} passages" if len(kept) < len(found) else "",
        passages=tuple(one for one in found if one in kept or one in said),
    )


def show_passage(passage: Passage, view: StaticView) -> str:
    """Show a passage on one line, with its place and, where no owner has reviewed it, its author.

    The brief prompt leaves the place out: a very small model repeats it instead of answering.
    """
    text = f"{passage.heading}: {passage.text.removeprefix('- ')}" if passage.heading else passage.text
    if view.mode is Mode.BRIEF:
        return f"- {text} ({passage.origin})" if passage.origin else f"- {text.removeprefix('- ')}"
    where = [f"{passage.path}, line {passage.first}", passage.origin]
    if passage.cut and "memory_get" in view.tools:
        where.append(f"more: {write_get(passage.path, passage.first, passage.last)}")
    return f"- {text} ({'; '.join(filter(None, where))})"


def list_recallable(plan: Plan, view: StaticView) -> Sequence[Document]:
    """List the files that the brief prompt has no room for and that this turn may see.

    The plan has already refused what needs a higher clearance, what is another person's own and what belongs to other
    situations. Memory has an index of its own.
    """
    if plan.mode is not Mode.BRIEF:
        return ()
    entries = [entry for run in plan.runs for entry in run.entries if is_open(entry, plan.mode)]
    found = {document.path: document for entry in entries for document in read_all(entry, view)}
    return [found[path] for path in sorted(found) if path not in (MAIN, FACTS)]


def is_open(entry: Planned, mode: Mode) -> bool:
    """Whether a turn may see an entry: it is in the prompt, or only the prompt mode leaves it out."""
    left_out = entry.verdict is Verdict.ABSENT and entry.reason == tell_left_out(mode)
    return (entry.verdict is None or left_out) and not entry.slot.governs


def read_all(entry: Planned, view: StaticView) -> Iterator[Document]:
    """Read the files of an entry: the first of its candidates that has a text, and every file of its folder."""
    skills = entry.slot.source == SKILLS
    folder = view.files.list(entry.folder, SKILL if skills else "") if entry.folder else ()
    candidates = (view.files.read(path) for path in entry.paths)
    first = next((one for one in candidates if isinstance(one, Document) and one.body), None)
    if first:
        yield first
    yield from (one for path in folder if isinstance(one := view.files.read(path), Document) and one.body)
