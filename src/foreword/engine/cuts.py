"""Shorten a section until it fits, with a marker that names the call to read the rest.

Whole lines are retained if they use enough of the room. A line longer than the room is cut after a word.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import accumulate
from typing import TYPE_CHECKING

from foreword.engine.blueprint import Blueprint, CutStyle
from foreword.engine.sources.documents import track_fence
from foreword.engine.sources.sections import Section, join_notes, quote
from foreword.engine.sources.toolkit import Toolkit
from foreword.tokens.count import Meter
from foreword.turn import Toolset
from foreword.types import Mode, Verdict, frozen

if TYPE_CHECKING:
    from foreword.engine.render import Layout


@frozen
class FitInputs:
    """The inputs of a fit: the blueprint, the model's meter, the tools and the token limit."""

    blueprint: Blueprint
    mode: Mode
    meter: Meter
    toolkit: Toolkit
    limit: int
    """The tokens that static and session slots may use together, tool schemas included."""
    layout: "Layout"

    @property
    def tools(self) -> Toolset:
        """The tools that the turn offers."""
        return self.toolkit.tools

    @property
    def tool_tokens(self) -> int:
        """The tokens of the schemas that are sent as tools, not as text."""
        return self.toolkit.tokens


@frozen
class Fitted:
    """A section with its verdict; `body` is the text to render, or None."""

    item: Section
    verdict: Verdict
    reason: str = ""
    body: str | None = None
    wanted: int = 0
    tokens: int = 0


def keep_section(section: Section, wanted: int) -> Fitted:
    """Keep a section whole. A section that only reports a loss gets the verdict `dropped`."""
    verdict = Verdict.DROPPED if section.lost else Verdict.KEPT
    return Fitted(item=section, verdict=verdict, reason=section.note, body=section.text, wanted=wanted, tokens=wanted)


def omit_section(section: Section, wanted: int, verdict: Verdict, reason: str) -> Fitted:
    """Leave a section out of the text, with a reason."""
    return Fitted(item=section, verdict=verdict, reason=join_notes(section.note, reason), wanted=wanted)


READ_SECTION_TOOL = "read_section"  # the tool that reads the omitted lines of a section
TOOL_LIST_SOURCES = ("tool_list", "tool_signatures")  # the sources with one section for all tools
HEAD_SHARE = 0.75  # the head's share of the retained text, where both ends are retained
MIN_ROOM_USE = 0.5  # the share of the room that whole lines must use; below it, the next line is cut
HEADING_DISTANCE_SHARE = 0.2  # the cut moves up to a heading within this share of the retained lines


@frozen
class Shortened:
    """The retained text, its tokens, and the call that reads the rest."""

    body: str
    tokens: int
    call: str


@frozen
class Gap:
    """The omitted lines of a text: `head` lines remain before them, `tail` lines after them."""

    lines: Sequence[str]
    head: int
    tail: int
    part: str = ""
    """The retained beginning of the first omitted line, where that line is cut."""

    @property
    def first(self) -> int:
        """The first omitted line, counted from 1."""
        return self.head + 1

    @property
    def last(self) -> int:
        """The last omitted line."""
        return len(self.lines) - self.tail

    @property
    def kept(self) -> str:
        """The text before the gap."""
        return "\n".join([*self.lines[: self.head], *filter(None, [self.part])])


def omit_all_lines(section: Section) -> Gap:
    """Return the gap of a text of which nothing remains."""
    return Gap(lines=section.text.split("\n"), head=0, tail=0)


def shorten(section: Section, room: int, inputs: FitInputs, cap: int | None = None) -> Shortened | None:
    """Cut a section to at most `room` tokens and `cap` characters; return None if nothing useful would remain."""
    everything = omit_all_lines(section)
    if (at := section.gives_way) is not None and cap is None:
        gap = replace(everything, head=at, tail=len(everything.lines) - at - 1)
        if clipped := cut_line(section, room, inputs, gap):
            return clipped
    whole = keep_lines(section, room, inputs, cap)
    if whole and whole.tokens >= room * MIN_ROOM_USE:
        return whole
    return cut_next_line(section, room, inputs, cap) or whole


def cut_next_line(section: Section, room: int, inputs: FitInputs, cap: int | None) -> Shortened | None:
    """Retain the lines that fit, and cut the next one."""
    gap = omit_all_lines(section)
    spare = room - inputs.layout.weigh(section, write_marker(section, inputs, gap))
    head = count_lines([inputs.meter.count(line + "\n") for line in gap.lines], spare)
    most = None if cap is None else cap - sum(len(line) + 1 for line in gap.lines[:head])
    return cut_line(section, room, inputs, replace(gap, head=min(head, len(gap.lines) - 1)), most)


def cut_line(section: Section, room: int, inputs: FitInputs, gap: Gap, most: int | None = None) -> Shortened | None:
    """Cut the first line of a gap after a word, to at most `most` characters, and omit the rest of the gap."""
    line = gap.lines[gap.head]
    low, high = 0, min(len(line) - 1, len(line) if most is None else most)
    best: Shortened | None = None
    while low < high:
        middle = (low + high + 1) // 2
        clipped = replace(gap, part=end_at_word(line, middle))
        body = join_around_gap(section, inputs, clipped)
        tokens = inputs.layout.weigh(section, body)
        if tokens <= room:
            best = Shortened(body=body, tokens=tokens, call=write_call(section, inputs, gap)) if clipped.part else best
            low = middle
        else:
            high = middle - 1
    return best


def end_at_word(line: str, most: int) -> str:
    """Return the start of a line, at most so many characters, without a broken word if there is a space."""
    beginning = line[:most]
    word = beginning.rpartition(" ")[0]
    return (word if word.strip() and not line[most : most + 1].isspace() else beginning).rstrip()


def keep_lines(section: Section, room: int, inputs: FitInputs, cap: int | None = None) -> Shortened | None:
    """Retain whole lines, at both ends if the slot says so."""
    everything = omit_all_lines(section)
    lines = everything.lines
    costs = [inputs.meter.count(line + "\n") for line in lines]
    spare = room - inputs.layout.weigh(section, write_marker(section, inputs, everything))
    both_ends = section.slot.cut is CutStyle.HEAD_TAIL
    tail = count_lines(costs[::-1], int(spare * (1 - HEAD_SHARE))) if both_ends else 0
    head = count_lines(costs, int(spare * HEAD_SHARE) if both_ends else spare)
    if cap is not None:
        sizes = [len(line) + 1 for line in lines]
        most = int(cap * HEAD_SHARE) if both_ends else cap
        head, tail = min(head, count_lines(sizes, most + 1)), min(tail, count_lines(sizes[::-1], cap - most))
    head = find_boundary(lines, min(head, len(lines) - tail - 1))
    while head > 0:
        gap = Gap(lines=lines, head=head, tail=tail)
        body = join_around_gap(section, inputs, gap)
        tokens = inputs.layout.weigh(section, body)
        if tokens <= room:
            return Shortened(body=body, tokens=tokens, call=write_call(section, inputs, gap))
        head = find_boundary(lines, head - max(1, (tokens - room) // max(costs[head - 1], 1)))
    return None


def count_lines(costs: Sequence[int], room: int) -> int:
    """Return how many of the first lines fit by their token counts."""
    return bisect_right(list(accumulate(costs)), room)


def find_boundary(lines: Sequence[str], head: int) -> int:
    """Move a cut up to a nearby heading, and never end on a heading or a blank line."""
    near = range(head, int(head * (1 - HEADING_DISTANCE_SHARE)), -1)
    cut = next((at for at in near if at < len(lines) and is_heading(lines[at])), head)
    while cut > 0 and (not lines[cut - 1].strip() or is_heading(lines[cut - 1])):
        cut -= 1
    return cut


def is_heading(line: str) -> bool:
    """Return whether a line is a Markdown heading."""
    return line.startswith("#") and line.lstrip("#").startswith(" ")


def join_around_gap(section: Section, inputs: FitInputs, gap: Gap) -> str:
    """Join the retained lines with the marker in the gap; close code fences before it and reopen them after it."""
    kept = [*gap.lines[: gap.head], *filter(None, [gap.part])]
    closing = filter(None, [find_open_fence(kept)])
    opening = filter(None, [find_open_fence(gap.lines[: gap.last]) if gap.tail else ""])
    return "\n".join([*kept, *closing, write_marker(section, inputs, gap), *opening, *gap.lines[gap.last :]])


def find_open_fence(lines: Sequence[str]) -> str:
    """Return the fence of a code block that these lines leave open, or an empty string."""
    return reduce(track_fence, lines, "")


def write_marker(section: Section, inputs: FitInputs, gap: Gap) -> str:
    """Write the marker of a gap, with the call that reads the omitted lines if the turn has a tool for it."""
    call = write_call(section, inputs, gap)
    return fill_marker(inputs.blueprint.marker if call else inputs.blueprint.marker_without_call, section, inputs, gap)


def fill_marker(template: str, section: Section, inputs: FitInputs, gap: Gap, **more: str) -> str:
    """Fill the numbers of a gap into a marker."""
    return template.format(
        **more,
        kept=f"{inputs.meter.count(gap.kept):,}",
        total=f"{inputs.meter.count(section.text):,}",
        first=f"{gap.first:,}",
        last=f"{gap.last:,}",
        lines=f"{len(gap.lines):,}",
        call=write_call(section, inputs, gap),
    )


def write_call(section: Section, inputs: FitInputs, gap: Gap) -> str:
    """Return the call that reads the omitted lines with the turn's tools, or an empty string."""
    lines = f", lines={gap.last - gap.head}" if gap.tail else ""
    if section.path and "memory_get" in inputs.tools:
        return f"memory_get({quote(section.path)}, from={gap.first}{lines})"
    # Without its list of tools the model does not know the very tool that would read the rest.
    unknown = section.slot.source in TOOL_LIST_SOURCES and READ_SECTION_TOOL not in gap.kept
    if READ_SECTION_TOOL in inputs.tools and not unknown:
        return f"{READ_SECTION_TOOL}({quote(section.id)}, from={gap.first}{lines})"
    return ""


def write_stub(section: Section, inputs: FitInputs) -> str:
    """Write that a whole text is left out, and the call that reads it; empty if the blueprint has no stubs."""
    gap, blueprint = omit_all_lines(section), inputs.blueprint
    stub = blueprint.stub if write_call(section, inputs, gap) else blueprint.stub_without_call
    return fill_marker(stub, section, inputs, gap)


def find_char_limits(sections: Iterable[Section]) -> Mapping[Section, int]:
    """Return the maximum characters of each text that exceeds its slot's limits.

    A text that is never cut observes its limit in its source.
    """
    limited = [one for one in sections if (one.slot.limit or one.slot.limit_all) and one.slot.cut is not CutStyle.NEVER]
    caps = {one: min(one.slot.limit or len(one.text), len(one.text)) for one in limited}
    over = {one.slot.id: -one.slot.limit_all for one in limited if one.slot.limit_all}
    for section in limited:
        if section.slot.id in over:
            over[section.slot.id] += caps[section]
    for section in limited:
        # The first texts of a slot are cut first.
        cut = min(max(over.get(section.slot.id, 0), 0), caps[section])
        if cut:
            over[section.slot.id] -= cut
            caps[section] -= cut
    return {one: cap for one, cap in caps.items() if cap < len(one.text)}


def apply_char_limit(section: Section, cap: int | None, inputs: FitInputs) -> Fitted:
    """Take a section, cut to its slot's character limit. Without stubs, a lost section appears in the report only."""
    if section.lost and not inputs.blueprint.stub:
        return omit_section(section, 0, Verdict.DROPPED, "")
    if not section.text and not section.opens:
        return keep_section(section, 0)
    if cap is None:
        return keep_section(section, inputs.layout.weigh(section, section.text))
    limit = f"{section.slot.limit or section.slot.limit_all:,} characters"
    if cap == 0:
        verdict, reason = Verdict.DROPPED, f"the {limit} of {section.slot.id} end before it"
        body = write_stub(section, inputs) or write_notice(section, 0, inputs, omit_all_lines(section))
    else:
        verdict = Verdict.SHORTENED
        body, call = cut_to_chars(section, cap, inputs)
        rest = f"; rest: {call}" if call else ""
        reason = f"has {len(section.text):,} characters, and {cap:,} are shown; the limit is {limit}{rest}"
    tokens = inputs.layout.weigh(section, body)
    note = join_notes(section.note, reason)
    return Fitted(item=section, verdict=verdict, reason=note, body=body, wanted=tokens, tokens=tokens)


def cut_to_chars(section: Section, cap: int, inputs: FitInputs) -> tuple[str, str]:
    """Cut a text to so many characters, with the notice in place of the rest, and return the call that reads it."""
    text = section.text
    head = int(cap * HEAD_SHARE) if section.slot.cut is CutStyle.HEAD_TAIL else cap
    end = len(text) - cap + head
    gap = Gap(
        lines=text.split("\n"),
        head=text.count("\n", 0, head + 1),  # whole lines before the cut
        tail=text.count("\n", end),
    )
    ending = text[end:].lstrip("\n")
    parts = (
        text[:head].rstrip("\n"),
        find_open_fence(text[:head].split("\n")),
        write_notice(section, cap, inputs, gap),
        find_open_fence(text[:end].split("\n")) if ending else "",
        ending,
    )
    return "\n".join(filter(None, parts)), write_call(section, inputs, gap)


def write_notice(section: Section, cap: int, inputs: FitInputs, gap: Gap) -> str:
    """Write how much of a text is shown."""
    if not inputs.blueprint.notice:
        return write_marker(section, inputs, gap)
    more = {"limit": f"{cap:,}", "size": f"{len(section.text):,}", "name": section.title or section.slot.title}
    return fill_marker(inputs.blueprint.notice, section, inputs, gap, **more)
