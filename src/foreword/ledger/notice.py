"""Notices: what a model is told about its prompt in the course of a conversation."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

from foreword.ledger.line import Channel, Kind, Line, Update
from foreword.render import Block, Layout, Prompt, Span
from foreword.render.layout import UPDATES, squeeze
from foreword.sources.builtin import read_prompt
from foreword.words import Pace, Placement

# The heading over updates of which none is left.
LEFT = re.compile(rf"\s*(?:##\s+)?{UPDATES}\s*\Z|\s*<{squeeze(UPDATES)}>\s*</{squeeze(UPDATES)}>")
OPENINGS = (*Kind, "settled")  # what is said under the heading begins as one of these prompts does
SHORT = 0.5  # of a section's whole text: the most that its changed lines may weigh to be told alone


def notify(layout: Layout, before: Line | None, after: Line | None, channel: Channel) -> Update:
    """Write the update about one section; of a long one with few changes, only the lines that changed."""
    line = after or before
    if line is None:
        raise ValueError("an update needs a section")
    said, kind = phrase(layout, before, after)
    tokens = layout.meter.count(said)
    if before and after:
        less, amends = amend(layout, before, after)
        if layout.meter.count(less) < tokens * SHORT:
            said, kind, tokens = less, amends, layout.meter.count(less)
    return Update(id=line.id, title=line.title, kind=kind, channel=channel, said=said, tokens=tokens, line=after)


def phrase(layout: Layout, before: Line | None, after: Line | None) -> tuple[str, Kind]:
    """Write what is said of a section, with all of its new text."""
    if after is None:
        return head(layout, Kind.ENDS, before), Kind.ENDS
    kind = Kind.JOINS if before is None else Kind.REPLACES
    return f"{head(layout, kind, after)}\n\n{after.text.strip()}", kind


def amend(layout: Layout, before: Line, after: Line) -> tuple[str, Kind]:
    """Write the lines of a section that changed; each begins with a sign, so that none can be a heading."""
    from difflib import unified_diff

    old, new = before.text.strip().split("\n"), after.text.strip().split("\n")
    lines = list(unified_diff(old, new, lineterm="", n=1))[2:]
    shown = ["…" if line.startswith("@@") else line for line in lines]
    return f"{head(layout, Kind.AMENDS, after)}\n\n{chr(10).join(shown)}", Kind.AMENDS


def head(layout: Layout, kind: Kind, line: Line | None) -> str:
    """Write what stands before an update, or all that is said of a section that is gone."""
    return read_prompt(f"ledger/{kind}").strip().replace("{title}", layout.name(line.title if line else ""))


def settle(layout: Layout, updates: Iterable[Update]) -> str:
    """Say of which sections earlier updates count no longer, since the prompt itself holds what they said."""
    titles = list(dict.fromkeys(f"“{layout.name(update.title)}”" for update in updates))
    return read_prompt("ledger/settled").strip().replace("{titles}", ", ".join(titles)) if titles else ""


def write(layout: Layout, updates: Sequence[Update], settled: str) -> str:
    """Write all that is said at once, under its heading; nothing if there is nothing to say."""
    said = [*([settled] if settled else []), *(update.said for update in updates)]
    return layout.announce("\n\n".join(said)) if said else ""


def add_tail(prompt: Prompt, layout: Layout, text: str) -> Prompt:
    """Put a text behind the tail; whatever stood last is separated from it."""
    if not text:
        return prompt
    *before, last = prompt.blocks or (None,)
    blocks = [block for block in before if block is not None]
    if last is not None:
        blocks.append(separate(last, layout.separator) if last.placement is Placement.TAIL else last)
    tokens = layout.meter.count(text)
    span = Span("updates", 0, len(text), tokens)
    block = Block(pace=Pace.TURN, placement=Placement.TAIL, text=text, tokens=tokens, spans=(span,))
    return Prompt(blocks=(*blocks, block))


def separate(block: Block, separator: str) -> Block:
    """Put a separator behind a block; it belongs to the section before it."""
    if block.text.endswith(separator):
        return block
    last = block.spans[-1]
    text = block.text + separator
    return replace(block, text=text, spans=(*block.spans[:-1], Span(last.id, last.start, len(text), last.tokens)))


@cache
def find_announced() -> re.Pattern[str]:
    """Find where all that was said about the prompt begins in a tail: it stands at its end, and begins as we do.

    Where headings are plain, a person's own line may look like ours; what stands under it does not.
    """
    known = (re.escape(read_prompt(f"ledger/{name}").strip()) for name in OPENINGS)
    says = "|".join(re.sub(r"\\{titles?\\}", "[^\\n]*", text) for text in known)
    tag = squeeze(UPDATES)
    return re.compile(rf"(?:^(?:##[ ])?{UPDATES}\n|<{tag}>\n(?=(?s:.*)\n</{tag}>\s*\Z))(?:{says})", re.MULTILINE)


def scrub_all(text: str) -> str:
    """Take all that was said about the prompt out of a tail of the history, whatever it was.

    What begins with it has nothing else. Otherwise the last that looks so is ours, and what stands before it is not.
    """
    found = [one.start() for one in find_announced().finditer(text)]
    return text[: found[-1] if found[0] else 0].rstrip() if found else text


def scrub(text: str, gone: Sequence[str]) -> str:
    """Take what may not be seen any more out of a text of the history; nothing says that it was there."""
    for said in sorted(gone, key=len, reverse=True):  # one may begin as another does
        text = text.replace(f"{said}\n\n", "").replace(f"\n\n{said}", "").replace(said, "")
    return LEFT.sub("", text) if gone else text
