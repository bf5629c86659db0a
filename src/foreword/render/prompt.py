"""The prompt: blocks of text, and spans that say which section every character belongs to."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from foreword.budget import Fit, FittedRun
from foreword.frozen import frozen
from foreword.memo import Memo
from foreword.render.layout import ALONE, Layout, Place
from foreword.sources import Missing, Section
from foreword.words import Pace, Placement


@dataclass(frozen=True, slots=True)
class Span:
    """Where a section stands in a text, in code points, the end excluded, and what it weighs there."""

    id: str
    start: int
    end: int
    tokens: int


@frozen
class Block:
    """A run as text; a block is cached as a whole or not at all."""

    pace: Pace
    placement: Placement
    text: str
    tokens: int
    spans: tuple[Span, ...]


@frozen
class Prompt:
    """The whole prompt; its text is its blocks joined."""

    blocks: tuple[Block, ...]

    @property
    def text(self) -> str:
        """The system part, then the tail."""
        return "".join([block.text for block in self.blocks])

    @property
    def tokens(self) -> int:
        """What the text weighs, without tool schemas."""
        return sum(block.tokens for block in self.blocks)

    @property
    def section_count(self) -> int:
        """How many sections are in the text; a provider's block holds several."""
        return len({span.id for block in self.blocks for span in block.spans})

    @property
    def spans(self) -> tuple[Span, ...]:
        """The spans of all blocks, counted from the beginning of the text."""
        spans: list[Span] = []
        at = 0
        for block in self.blocks:
            spans.extend(Span(span.id, span.start + at, span.end + at, span.tokens) for span in block.spans)
            at += len(block.text)
        return tuple(spans)


def render(fit: Fit, layout: Layout, memo: Memo) -> Prompt:
    """Render every run; a turn section at the very end has no separator, since nothing ever follows it."""
    flowing = [run for run in fit.runs if run.placement is not Placement.NESTED]
    last = flowing[-1] if flowing and flowing[-1].pace is Pace.TURN else None
    goes_on = [*[run.continues for run in flowing[1:]], False]
    blocks = [
        memo.once(draw_last if run is last else draw_run, run, layout, on)
        for run, on in zip(flowing, goes_on, strict=True)
    ]
    return Prompt(blocks=tuple(join_bare([block for block in blocks if block.text], layout.separator)))


def join_bare(blocks: Iterable[Block], separator: str) -> Iterator[Block]:
    """Join a separator that stands alone to the block behind it: providers refuse a text without a word in it."""
    bare: Block | None = None
    for block in blocks:
        whole = join_blocks(bare, block) if bare else block
        bare = block if block.text == separator and whole is block else None
        if bare is None:
            yield whole


def join_blocks(first: Block, second: Block) -> Block:
    """Put a block before another, which keeps its pace."""
    size = len(first.text)
    moved = [Span(span.id, span.start + size, span.end + size, span.tokens) for span in second.spans]
    text, tokens = first.text + second.text, first.tokens + second.tokens
    return replace(second, text=text, tokens=tokens, spans=(*first.spans, *moved))


def draw_last(run: FittedRun, layout: Layout, goes_on: bool) -> Block:  # noqa: FBT001 - it is remembered by identity
    """Render the run that nothing ever follows."""
    block = draw_run(run, layout, goes_on)
    if not block.spans:
        return block
    text = block.text.removesuffix(layout.separator)
    last = block.spans[-1]
    return replace(block, text=text, spans=(*block.spans[:-1], Span(last.id, last.start, len(text), last.tokens)))


def draw_run(run: FittedRun, layout: Layout, goes_on: bool) -> Block:  # noqa: FBT001 - it is remembered by identity
    """Render one run, and say where each of its sections stands; its last template may go on in the next one."""
    pieces: list[str] = []
    spans: list[Span] = []
    shown = [one for one in run.items if not isinstance(one, Missing) and one.body is not None]
    at = 0
    for one, place in zip(shown, find_places([one.item for one in shown], goes_on=goes_on), strict=True):
        section = one.item
        piece = layout.draw(section, one.body or "", place)
        # The fit weighed every section as if it were alone.
        alone = place == ALONE or (place.opens and place.ends and not section.slot.item)
        tokens = one.tokens if alone else layout.meter.count(piece)
        if piece:
            spans.append(Span(section.id, at, at + len(piece), tokens))
        pieces.append(piece)
        at += len(piece)
    return Block(
        pace=run.pace,
        placement=run.placement,
        text="".join(pieces),
        tokens=sum([span.tokens for span in spans]),
        spans=tuple(spans),
    )


def find_places(sections: Sequence[Section], *, goes_on: bool) -> Iterator[Place]:
    """Say of each section of a run what it opens and closes."""
    before: Section | None = None
    for section, behind in zip_longest(sections, sections[1:]):
        group, slot = section.slot.group, section.slot.id
        yield Place(
            opens_group=before is None or not group or before.slot.group != group,
            opens_slot=before is None or before.slot.id != slot,
            closes_slot=behind is None or behind.slot.id != slot,
            ends=behind.opens if behind else not goes_on,
        )
        before = section
