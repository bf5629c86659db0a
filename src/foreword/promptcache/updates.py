"""Notices: texts that inform the model of prompt changes during a conversation."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

from foreword.engine.render import UPDATES_TITLE, Layout, Prompt, PromptBlock, Span, join_words
from foreword.engine.sources.documents import read_prompt
from foreword.promptcache.ledger import SectionSnapshot, Update, UpdateChannel, UpdateKind
from foreword.types import Pace, Placement

# The heading over updates if none is left.
EMPTY_HEADING = re.compile(
    rf"\s*(?:##\s+)?{UPDATES_TITLE}\s*\Z|\s*<{join_words(UPDATES_TITLE)}>\s*</{join_words(UPDATES_TITLE)}>"
)
NOTICE_PROMPTS = (*UpdateKind, "settled")  # texts under the heading begin like one of these prompts
MAX_AMENDMENT_SHARE = 0.5  # of the section's tokens: the limit for sending only changed lines


def write_update(
    layout: Layout, before: SectionSnapshot | None, after: SectionSnapshot | None, channel: UpdateChannel
) -> Update:
    """Write the update about one section; for a long section with few changes, only the changed lines."""
    line = after or before
    if line is None:
        raise ValueError("an update needs a section")
    said, kind = write_full_update(layout, before, after)
    tokens = layout.meter.count(said)
    if before and after:
        less, amends = write_amendment(layout, before, after)
        if layout.meter.count(less) < tokens * MAX_AMENDMENT_SHARE:
            said, kind, tokens = less, amends, layout.meter.count(less)
    return Update(id=line.id, title=line.title, kind=kind, channel=channel, said=said, tokens=tokens, line=after)


def write_full_update(
    layout: Layout, before: SectionSnapshot | None, after: SectionSnapshot | None
) -> tuple[str, UpdateKind]:
    """Write an update with the whole new text of a section."""
    if after is None:
        return write_update_heading(layout, UpdateKind.ENDS, before), UpdateKind.ENDS
    kind = UpdateKind.JOINS if before is None else UpdateKind.REPLACES
    return f"{write_update_heading(layout, kind, after)}\n\n{after.text.strip()}", kind


def write_amendment(layout: Layout, before: SectionSnapshot, after: SectionSnapshot) -> tuple[str, UpdateKind]:
    """Write the changed lines of a section; each begins with a diff sign, so none can become a heading."""
    from difflib import unified_diff

    old, new = before.text.strip().split("\n"), after.text.strip().split("\n")
    lines = list(unified_diff(old, new, lineterm="", n=1))[2:]
    shown = ["…" if line.startswith("@@") else line for line in lines]
    return f"{write_update_heading(layout, UpdateKind.AMENDS, after)}\n\n{chr(10).join(shown)}", UpdateKind.AMENDS


def write_update_heading(layout: Layout, kind: UpdateKind, line: SectionSnapshot | None) -> str:
    """Write the introduction of an update, or the whole notice for a removed section."""
    return read_prompt(f"ledger/{kind}").strip().replace("{title}", layout.name(line.title if line else ""))


def write_settled_notice(layout: Layout, updates: Iterable[Update]) -> str:
    """Name the sections whose earlier updates are superseded because the prompt now contains them."""
    titles = list(dict.fromkeys(f"“{layout.name(update.title)}”" for update in updates))
    return read_prompt("ledger/settled").strip().replace("{titles}", ", ".join(titles)) if titles else ""


def join_notices(layout: Layout, updates: Sequence[Update], settled: str) -> str:
    """Join all notices under their heading; return an empty text if there are none."""
    said = [*([settled] if settled else []), *(update.said for update in updates)]
    return layout.wrap_updates("\n\n".join(said)) if said else ""


def append_to_tail(prompt: Prompt, layout: Layout, text: str) -> Prompt:
    """Append a text to the tail, separated from the previous block."""
    if not text:
        return prompt
    *before, last = prompt.blocks or (None,)
    blocks = [block for block in before if block is not None]
    if last is not None:
        blocks.append(append_separator(last, layout.separator) if last.placement is Placement.TAIL else last)
    tokens = layout.meter.count(text)
    span = Span("updates", 0, len(text), tokens)
    block = PromptBlock(pace=Pace.TURN, placement=Placement.TAIL, text=text, tokens=tokens, spans=(span,))
    return Prompt(blocks=(*blocks, block))


def append_separator(block: PromptBlock, separator: str) -> PromptBlock:
    """Append a separator to a block; it belongs to the section before it."""
    if block.text.endswith(separator):
        return block
    last = block.spans[-1]
    text = block.text + separator
    return replace(block, text=text, spans=(*block.spans[:-1], Span(last.id, last.start, len(text), last.tokens)))


@cache
def make_notice_pattern() -> re.Pattern[str]:
    """Return the pattern for the start of our notices at the end of a tail.

    With plain headings a person's line may look like our heading; the text under it does not.
    """
    known = (re.escape(read_prompt(f"ledger/{name}").strip()) for name in NOTICE_PROMPTS)
    says = "|".join(re.sub(r"\\{titles?\\}", "[^\\n]*", text) for text in known)
    tag = join_words(UPDATES_TITLE)
    return re.compile(rf"(?:^(?:##[ ])?{UPDATES_TITLE}\n|<{tag}>\n(?=(?s:.*)\n</{tag}>\s*\Z))(?:{says})", re.MULTILINE)


def remove_notices(text: str) -> str:
    """Remove all notices from a tail of the history.

    A tail that begins with notices contains nothing else. Otherwise the last match is ours; keep the text before it.
    """
    found = [one.start() for one in make_notice_pattern().finditer(text)]
    return text[: found[-1] if found[0] else 0].rstrip() if found else text


def remove_updates(text: str, gone: Sequence[str]) -> str:
    """Remove withheld updates from a text of the history, without a trace."""
    for said in sorted(gone, key=len, reverse=True):  # one may be the beginning of another
        text = text.replace(f"{said}\n\n", "").replace(f"\n\n{said}", "").replace(said, "")
    return EMPTY_HEADING.sub("", text) if gone else text
