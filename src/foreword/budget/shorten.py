"""Shortening: measured again until it fits, with a marker that says how to read the rest.

Whole lines are kept where that uses the room. A line that is longer than the room is cut after a word.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from foreword.blueprint.slot import Cut
from foreword.budget.verdict import Terms
from foreword.frozen import frozen
from foreword.sources import Section
from foreword.sources.section import quote

READER = "read_section"  # the tool that reads what was left out of a section
LISTS = ("tool_list", "tool_signatures")  # the sources with one section for all tools
HEAD_SHARE = 0.75  # of what is kept, where both ends are
USED = 0.5  # of the room that whole lines must use; with less, the next line is cut
NEAR = 0.2  # a heading this close to the cut, as a share of the kept lines, is where the cut goes
FENCE = re.compile(r"\s*(`{3,}|~{3,})")


@frozen
class Shortened:
    """What is left of a text, what that weighs, and the call that reads the rest."""

    body: str
    tokens: int
    call: str


@frozen
class Gap:
    """The lines of a text that are left out: `head` stay before them, `tail` after them."""

    lines: Sequence[str]
    head: int
    tail: int
    part: str = ""
    """The beginning of the first line that is left out, where that line is cut."""

    @property
    def first(self) -> int:
        """The first line that is left out, counted from 1."""
        return self.head + 1

    @property
    def last(self) -> int:
        """The last line that is left out."""
        return len(self.lines) - self.tail

    @property
    def kept(self) -> str:
        """What stays before the gap."""
        return "\n".join([*self.lines[: self.head], *filter(None, [self.part])])


def shorten_once(section: Section, room: int, terms: Terms, cap: int | None = None) -> Shortened | None:
    """Shorten a section, or remember how the same text was shortened to the same room."""
    key = (terms, section.id, section.path, section.text, room, cap)
    return terms.scratch.recall(key, lambda: shorten(section, room, terms, cap))


def shorten(section: Section, room: int, terms: Terms, cap: int | None = None) -> Shortened | None:
    """Cut a section to at most `room` tokens and `cap` characters, or answer that nothing useful would be left."""
    at = section.gives_way
    if at is not None and cap is None:
        lines = section.text.split("\n")
        if clipped := clip_line(section, room, terms, Gap(lines=lines, head=at, tail=len(lines) - at - 1)):
            return clipped
    whole = keep_lines(section, room, terms, cap)
    if whole and whole.tokens >= room * USED:
        return whole
    return clip_next(section, room, terms, cap) or whole


def clip_next(section: Section, room: int, terms: Terms, cap: int | None) -> Shortened | None:
    """Keep the lines that fit, and cut the next one."""
    lines = section.text.split("\n")
    spare = room - terms.scale.weigh(section, write_marker(section, terms, Gap(lines=lines, head=0, tail=0)))
    head = count_lines([terms.meter.count(line + "\n") for line in lines], spare)
    most = None if cap is None else cap - sum(len(line) + 1 for line in lines[:head])
    return clip_line(section, room, terms, Gap(lines=lines, head=min(head, len(lines) - 1), tail=0), most)


def clip_line(section: Section, room: int, terms: Terms, gap: Gap, most: int | None = None) -> Shortened | None:
    """Cut the first line of a gap after a word, at most so many characters of it, and leave out the rest of the gap."""
    line = gap.lines[gap.head]
    low, high = 0, min(len(line) - 1, len(line) if most is None else most)
    best: Shortened | None = None
    while low < high:
        middle = (low + high + 1) // 2
        clipped = replace(gap, part=end_at_word(line, middle))
        body = compose(section, terms, clipped)
        tokens = terms.scale.weigh(section, body)
        if tokens <= room:
            best = Shortened(body=body, tokens=tokens, call=write_call(section, terms, gap)) if clipped.part else best
            low = middle
        else:
            high = middle - 1
    return best


def end_at_word(line: str, most: int) -> str:
    """Return the beginning of a line, of at most so many characters, without a broken word where there is a space."""
    beginning = line[:most]
    word = beginning.rpartition(" ")[0]
    return (word if word.strip() and not line[most : most + 1].isspace() else beginning).rstrip()


def keep_lines(section: Section, room: int, terms: Terms, cap: int | None = None) -> Shortened | None:
    """Keep whole lines, at both ends if the slot says so."""
    lines = section.text.split("\n")
    costs = [terms.meter.count(line + "\n") for line in lines]
    spare = room - terms.scale.weigh(section, write_marker(section, terms, Gap(lines=lines, head=0, tail=0)))
    both_ends = section.slot.cut is Cut.HEAD_TAIL
    tail = count_lines(costs[::-1], int(spare * (1 - HEAD_SHARE))) if both_ends else 0
    head = count_lines(costs, int(spare * HEAD_SHARE) if both_ends else spare)
    if cap is not None:
        sizes = [len(line) + 1 for line in lines]
        most = int(cap * HEAD_SHARE) if both_ends else cap
        head, tail = min(head, count_lines(sizes, most + 1)), min(tail, count_lines(sizes[::-1], cap - most))
    head = find_boundary(lines, min(head, len(lines) - tail - 1))
    while head > 0:
        gap = Gap(lines=lines, head=head, tail=tail)
        body = compose(section, terms, gap)
        tokens = terms.scale.weigh(section, body)
        if tokens <= room:
            return Shortened(body=body, tokens=tokens, call=write_call(section, terms, gap))
        head = find_boundary(lines, head - max(1, (tokens - room) // max(costs[head - 1], 1)))
    return None


def count_lines(costs: Sequence[int], room: int) -> int:
    """Return how many of the first lines fit by their own weights."""
    return bisect_right(list(accumulate(costs)), room)


def find_boundary(lines: Sequence[str], head: int) -> int:
    """Move a cut up to a heading that is near, and never leave a heading or a blank line as the last one."""
    near = range(head, int(head * (1 - NEAR)), -1)
    cut = next((at for at in near if at < len(lines) and is_heading(lines[at])), head)
    while cut > 0 and (not lines[cut - 1].strip() or is_heading(lines[cut - 1])):
        cut -= 1
    return cut


def is_heading(line: str) -> bool:
    """Whether a line opens a part of a Markdown text."""
    return line.startswith("#") and line.lstrip("#").startswith(" ")


def compose(section: Section, terms: Terms, gap: Gap) -> str:
    """Put the kept lines together, with the marker in the gap, and code fences closed before it and opened after it."""
    kept = [*gap.lines[: gap.head], *filter(None, [gap.part])]
    closing = filter(None, [find_open_fence(kept)])
    opening = filter(None, [find_open_fence(gap.lines[: gap.last]) if gap.tail else ""])
    return "\n".join([*kept, *closing, write_marker(section, terms, gap), *opening, *gap.lines[gap.last :]])


def find_open_fence(lines: Sequence[str]) -> str:
    """Return the fence of a code block that these lines leave open, or nothing."""
    fence = ""
    for line in lines:
        if found := FENCE.match(line):
            if not fence:
                fence = found[1]
            elif found[1].startswith(fence) and line.strip() == found[1]:
                fence = ""
    return fence


def write_marker(section: Section, terms: Terms, gap: Gap) -> str:
    """Say what is missing and, where the turn has a tool for it, the call that reads it."""
    call = write_call(section, terms, gap)
    return fill_marker(terms.blueprint.marker if call else terms.blueprint.marker_without_call, section, terms, gap)


def fill_marker(template: str, section: Section, terms: Terms, gap: Gap, **more: str) -> str:
    """Fill the figures of a gap into a marker."""
    return template.format(
        **more,
        kept=f"{terms.meter.count(gap.kept):,}",
        total=f"{terms.meter.count(section.text):,}",
        first=f"{gap.first:,}",
        last=f"{gap.last:,}",
        lines=f"{len(gap.lines):,}",
        call=write_call(section, terms, gap),
    )


def write_call(section: Section, terms: Terms, gap: Gap) -> str:
    """Name the call that reads what is left out, as the turn's tools take it."""
    lines = f", lines={gap.last - gap.head}" if gap.tail else ""
    if section.path and "memory_get" in terms.tools:
        return f"memory_get({quote(section.path)}, from={gap.first}{lines})"
    if READER in terms.tools and not hides_reader(section, gap):
        return f"{READER}({quote(section.id)}, from={gap.first}{lines})"
    return ""


def hides_reader(section: Section, gap: Gap) -> bool:
    """Whether the lines that are left out are how to call the very tool that would read them."""
    return section.slot.source in LISTS and READER not in gap.kept


def write_stub(section: Section, terms: Terms) -> str:
    """Say that a whole text is left out, and the call that reads it; nothing where the blueprint has no stubs."""
    everything = Gap(lines=section.text.split("\n"), head=0, tail=0)
    call = write_call(section, terms, everything)
    return fill_marker(terms.blueprint.stub if call else terms.blueprint.stub_without_call, section, terms, everything)
