"""The source of what memory holds for the message at hand."""

from foreword.blueprint import Planned
from foreword.sources.passage import Passage
from foreword.sources.registry import source
from foreword.sources.section import Item, Section, absent, write_get
from foreword.sources.view import TurnView
from foreword.words import Pace

HEADING = 20  # tokens of the slot's room that are left to its heading


@source("recall", Pace.TURN)
def recall_passages(view: TurnView, entry: Planned) -> Item:
    """Give the few passages of memory that the message is clearly about; where none is, nothing at all."""
    if view.recall is None:
        return absent(entry, "recall is off; turn it on with memory.recall")
    if not view.message or view.message.isspace():
        return absent(entry, "there is no message to recall anything for")
    found = view.recall(view.message)
    if not found:
        return absent(entry, "nothing in memory is clearly about the message")
    can_read = "memory_get" in view.static.tools
    lines = [show_passage(passage, can_read=can_read) for passage in found]
    fresh = [line for line in lines if not any(line in said for said in view.said)]
    if not fresh:
        return absent(entry, "what memory holds for the message was recalled before")
    kept, left = [], entry.slot.room - HEADING
    for line in fresh:
        left -= view.static.meter.count(line + "\n")
        if left < 0:
            break
        kept.append(line)
    if not kept:
        return absent(entry, "what memory holds for the message has no room")
    note = f"{len(kept)} of {len(found)} passages" if len(kept) < len(found) else ""
    return Section(entry=entry, text="\n".join(kept), origin="memory", note=note)


def show_passage(passage: Passage, *, can_read: bool) -> str:
    """Show a passage on one line, with where it stands and whose words it is."""
    text = f"{passage.heading}: {passage.text}" if passage.heading else passage.text
    where = [f"{passage.path}, line {passage.first}", passage.origin]
    if passage.cut and can_read:
        where.append(f"more: {write_get(passage.path, passage.first, passage.last)}")
    return f"- {text} ({'; '.join(filter(None, where))})"
