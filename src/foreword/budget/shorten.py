"""Shortening: whole lines only, measured again until it fits, with a marker that says how to read the rest."""

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate

from foreword.blueprint.slot import Cut
from foreword.budget.verdict import Terms
from foreword.sources import Section

HEAD_SHARE = 0.75  # of what is kept, where both ends are
NEAR = 0.2  # a heading this close to the cut, as a share of the kept lines, is where the cut goes
CODE = ("```", "~~~")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shortened:
    """What is left of a text, what that weighs, and the call that reads the rest."""

    body: str
    tokens: int
    call: str


def shorten(section: Section, room: int, terms: Terms) -> Shortened | None:
    """Cut a section to at most `room` tokens, or answer that nothing useful would be left."""
    lines = section.text.split("\n")
    costs = [terms.meter.count(line + "\n") for line in lines]
    bare = terms.scale.weigh(section, write_marker(section, terms, 1, len(lines), len(lines)))
    both_ends = section.slot.cut is Cut.HEAD_TAIL
    spare = room - bare
    tail = count_lines(costs[::-1], int(spare * (1 - HEAD_SHARE))) if both_ends else 0
    head = count_lines(costs, int(spare * HEAD_SHARE) if both_ends else spare)
    head = find_boundary(lines, min(head, len(lines) - tail - 1))
    while head > 0:
        body = compose(section, terms, lines, head, tail)
        tokens = terms.scale.weigh(section, body)
        if tokens <= room:
            return Shortened(
                body=body, tokens=tokens, call=write_call(section, terms, head + 1, cut_lines(lines, head, tail))
            )
        head = find_boundary(lines, head - max(1, (tokens - room) // max(costs[head - 1], 1)))
    return None


def count_lines(costs: list[int], room: int) -> int:
    """Return how many of the first lines fit by their own weights."""
    return bisect_right(list(accumulate(costs)), room)


def find_boundary(lines: list[str], head: int) -> int:
    """Move a cut up to a heading that is near, and never leave a heading or a blank line as the last one."""
    nearest = next(
        (at for at in range(head, int(head * (1 - NEAR)), -1) if at < len(lines) and is_heading(lines[at])), head
    )
    while nearest > 0 and (not lines[nearest - 1].strip() or is_heading(lines[nearest - 1])):
        nearest -= 1
    return nearest


def is_heading(line: str) -> bool:
    """Whether a line opens a part of a Markdown text."""
    return line.startswith("#") and line.lstrip("#").startswith(" ")


def cut_lines(lines: list[str], head: int, tail: int) -> int | None:
    """Return how many lines were cut out of the middle, or None where the rest runs to the end."""
    return len(lines) - head - tail if tail else None


def compose(section: Section, terms: Terms, lines: list[str], head: int, tail: int) -> str:
    """Put the kept lines together, with the marker where the others were and every code fence closed."""
    kept = lines[:head]
    fences = sum(line.lstrip().startswith(CODE) for line in kept)
    closing = ["```"] if fences % 2 else []
    marker = write_marker(section, terms, head + 1, len(lines) - tail, len(lines), kept="\n".join(kept))
    return "\n".join([*kept, *closing, marker, *(lines[-tail:] if tail else [])])


def write_marker(section: Section, terms: Terms, first: int, last: int, lines: int, kept: str = "") -> str:
    """Say what is missing and, where the turn has a tool for it, the call that reads it."""
    call = write_call(section, terms, first, last - first + 1 if last < lines else None)
    template = terms.blueprint.marker if call else terms.blueprint.marker_without_call
    return template.format(
        kept=f"{terms.meter.count(kept):,}" if kept else "0",
        total=f"{terms.meter.count(section.text):,}",
        first=f"{first:,}",
        last=f"{last:,}",
        lines=f"{lines:,}",
        call=call,
    )


def write_call(section: Section, terms: Terms, first: int, lines: int | None) -> str:
    """Name the call that reads a section from a line on, as the turn's tools take it."""
    more = f", lines={lines}" if lines is not None else ""
    if section.path and "memory_get" in terms.tools:
        return f'memory_get("{section.path}", from={first}{more})'
    if "read_section" in terms.tools:
        return f'read_section("{section.id}", from={first}{more})'
    return ""
