"""Render fitted sections as blocks of text, with spans that map every character to a section.

Section texts are escaped, so that no text can open or close another section.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest

from foreword.engine.blueprint import Blueprint, Rendering, Slot, Voice
from foreword.engine.budget import Fit, FittedRun
from foreword.engine.sources.documents import escape_attribute
from foreword.engine.sources.sections import Missing, Section
from foreword.tokens.count import Meter
from foreword.types import Pace, Placement, Trust, frozen

# Spaces and invisible characters, which are ignored before a heading and inside a tag.
INVISIBLE_CHARS = (
    "\\x00-\\x08\\x0e-\\x1f\\x7f-\\x9f \\t\\u00a0\\u00ad\\u034f\\u061c\\u115f\\u1160\\u1680\\u17b4"
    "\\u17b5\\u180b-\\u180f\\u2000-\\u200f\\u202a-\\u202f\\u205f-\\u206f\\u2800\\u3000\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb"
    "\\U0001d173-\\U0001d17a\\U000e0000-\\U000e0fff"
)
BLANK = f"[{INVISIBLE_CHARS}]*"
HEADING = re.compile(rf"^({BLANK})(#{{1,6}}(?=[\s#{INVISIBLE_CHARS}]|$))", re.MULTILINE)
UNDERLINE = re.compile(rf"^({BLANK})((?:=+|-+|_{{3,}}|\*{{3,}}){BLANK})$", re.MULTILINE)
LISTING_TAGS = ("available_skills", "skill")
HEADING_PREFIXES = ("Active Signal:",)  # headings that end with a value known only in the turn


class Escaper:
    """Escapes texts for one rendering, with its headings and tags."""

    def __init__(self, rendering: Rendering, titles: Iterable[str]) -> None:
        self._rendering = rendering
        names = sorted({title.strip() for title in titles if title.strip()}, key=lambda name: (-len(name), name))
        self._tags = "|".join(map(re.escape, [*LISTING_TAGS, *(names if rendering is Rendering.XML else ())]))
        self._heads = "|".join(map(re.escape, names)) or r"(?!)"
        self._openings = f"(?:{'|'.join(map(re.escape, HEADING_PREFIXES))}).*"

    # Compiled on first use: few texts need any of these patterns, and compiling them delays every start.
    @cached_property
    def _tag(self) -> re.Pattern[str]:
        gap = rf"[\s{INVISIBLE_CHARS}]*"
        return re.compile(rf"<(?={gap}/?{gap}(?:{self._tags})(?:[\s/>{INVISIBLE_CHARS}]|$))", re.IGNORECASE)

    @cached_property
    def _reserved(self) -> re.Pattern[str]:
        known = rf"(?:{self._heads})[{INVISIBLE_CHARS}#]*|{self._openings}"
        return re.compile(rf"^({BLANK})(#{{1,6}}[{INVISIBLE_CHARS}]+(?:{known}))$", re.MULTILINE | re.IGNORECASE)

    @cached_property
    def _underlined(self) -> re.Pattern[str]:
        above = rf"(?:{self._heads}){BLANK}|{self._openings}"
        line = rf"^({BLANK}(?:{above})\n)({BLANK}(?:=+|-+){BLANK})$"
        return re.compile(line, re.MULTILINE | re.IGNORECASE)

    def escape(self, text: str, voice: Voice) -> str:
        """Escape a text: all structure in text from outside, only our own headings and tags in the owner's text."""
        if voice is Voice.SYSTEM or self._rendering is Rendering.PLAIN:
            return text
        text = self.escape_tags(text)
        if self._rendering is not Rendering.MARKDOWN:
            return text
        if voice is Voice.OWNER:
            text = self._reserved.sub(r"\1\\\2", text) if "#" in text else text
            return self._underlined.sub(r"\1\\\2", text) if "\n" in text else text
        return UNDERLINE.sub(r"\1\\\2", HEADING.sub(r"\1\\\2", text))

    def escape_tags(self, text: str) -> str:
        """Escape our tags in a title, which is one line."""
        return self._tag.sub("&lt;", text) if "<" in text else text


INDENT = "  "  # of an element inside another
UPDATES_TITLE = "Prompt Updates"  # the heading over messages about changes of the prompt


@frozen(eq=True)
class SectionPlace:
    """Whether a section is the first or the last of those that share a heading or a tag."""

    opens_group: bool = True
    opens_slot: bool = True
    closes_slot: bool = True
    ends: bool = True
    """Whether a separator follows; not between parts of the same template."""

    @property
    def opens(self) -> bool:
        """Whether it shows all of its headings."""
        return self.opens_group and self.opens_slot


ALONE = SectionPlace()


class Layout:
    """Renders single sections, and counts their tokens as rendered."""

    def __init__(self, blueprint: Blueprint, meter: Meter, listed: Iterable[str] = ()) -> None:
        menus = [f"Available Memory (trust: {level})" for level in Trust]
        own = [title for slot in blueprint.slots for title in (slot.title, slot.group)]
        titles = [*own, *menus, UPDATES_TITLE, *listed]
        tags = [*map(make_tag, blueprint.slots), *(slot.item for slot in blueprint.slots), join_words(UPDATES_TITLE)]
        self.separator = blueprint.separator
        self._xml = blueprint.rendering is Rendering.XML
        self._plain = blueprint.rendering is Rendering.PLAIN
        self._guard = Escaper(blueprint.rendering, filter(None, tags) if self._xml else titles)
        self.meter = meter

    def weigh(self, section: Section, body: str) -> int:
        """Return the tokens that a section takes in the prompt with this body."""
        return self.meter.count(self.draw(section, body))

    def draw(self, section: Section, body: str, place: SectionPlace = ALONE) -> str:
        """Render a section in its place: only the first and the last section show shared headings and tags."""
        slot = section.slot
        text = self._guard.escape(
            section.before + body + section.after, Voice.OUTSIDE if section.outside else slot.voice
        )
        separator = self.separator if place.ends else ""
        if self._xml:
            return self._enclose(section, text, place)
        if self._plain:
            return (f"{section.title}\n" if section.title and section.opens else "") + text + separator
        return self._head(section, place) + text + separator

    def name(self, title: str) -> str:
        """Write a title for use inside a sentence: in one line and without our tags."""
        return self._guard.escape_tags(" ".join(title.split()))

    def wrap_updates(self, text: str) -> str:
        """Put messages about changes of the prompt under their heading or tag; their sections are already rendered."""
        if self._xml:
            return f"<{join_words(UPDATES_TITLE)}>\n{text.rstrip()}\n</{join_words(UPDATES_TITLE)}>"
        return f"{'' if self._plain else '## '}{UPDATES_TITLE}\n{text.rstrip()}"

    def _head(self, section: Section, place: SectionPlace) -> str:
        """Write the headings of a section, from the shared ones down to its own."""
        slot = section.slot
        if not section.opens:
            return ""
        title = self._guard.escape_tags(section.title)
        heads = [slot.group if place.opens_group else "", slot.title if place.opens_slot else "", title]
        # The level counts every heading of the section, including those that only an earlier section shows.
        levels = [bool(slot.group), bool(slot.title), bool(section.title)]
        return "".join(f"{'#' * (2 + sum(levels[:level]))} {head}\n" for level, head in enumerate(heads) if head)

    def _enclose(self, section: Section, text: str, place: SectionPlace) -> str:
        """Put a section between its tags; several sections in one element each get an inner element."""
        slot = section.slot
        tag = make_tag(slot)
        if not slot.item:
            name = f' name="{escape_attribute(section.title)}"' if section.title else ""
            return f"<{tag}{name}>\n{text}\n</{tag}>{self.separator}"
        opening = f"<{tag}>\n" if place.opens_slot else ""
        closing = f"</{tag}>{self.separator}" if place.closes_slot else ""
        inner = "\n".join(f"{INDENT * 2}{line}".rstrip() for line in text.split("\n"))
        item = f'{INDENT}<{slot.item} title="{escape_attribute(section.title)}">\n{inner}\n{INDENT}</{slot.item}>\n'
        return f"{opening}{item}{closing}"


def make_tag(slot: Slot) -> str:
    """Derive the tag of a slot from its title, or from its id if it has none."""
    return join_words(slot.title or slot.id.title())


def join_words(title: str) -> str:
    """Join the words of a title into one."""
    return "".join(part for part in re.split(r"\W+", title) if part)


@dataclass(frozen=True, slots=True)
class Span:
    """The position of a section in a text, in code points with the end excluded, and its tokens."""

    id: str
    start: int
    end: int
    tokens: int


@frozen
class PromptBlock:
    """The text of a run; a block is cached as a whole or not at all."""

    pace: Pace
    placement: Placement
    text: str
    tokens: int
    spans: tuple[Span, ...]


@frozen
class Prompt:
    """The whole prompt; its text is the joined text of its blocks."""

    blocks: tuple[PromptBlock, ...]

    @property
    def text(self) -> str:
        """The system part, then the tail."""
        return "".join([block.text for block in self.blocks])

    @property
    def tokens(self) -> int:
        """The tokens of the text, without tool schemas."""
        return sum(block.tokens for block in self.blocks)

    @property
    def section_count(self) -> int:
        """The number of sections in the text; one block holds several."""
        return len({span.id for block in self.blocks for span in block.spans})

    @property
    def spans(self) -> tuple[Span, ...]:
        """The spans of all blocks, counted from the start of the text."""
        spans: list[Span] = []
        at = 0
        for block in self.blocks:
            spans.extend(Span(span.id, span.start + at, span.end + at, span.tokens) for span in block.spans)
            at += len(block.text)
        return tuple(spans)


def render_prompt(fit: Fit, stable: Sequence[PromptBlock | None], layout: Layout) -> Prompt:
    """Render the turn runs between the stable blocks. The last turn section has no separator: nothing follows it."""
    runs = zip(fit.runs, stable, strict=True)
    blocks = [block or render_run(run, layout) for run, block in runs if run.placement is not Placement.NESTED]
    if blocks and blocks[-1].pace is Pace.TURN:
        blocks[-1] = strip_separator(blocks[-1], layout.separator)
    return Prompt(blocks=tuple(join_separator_blocks([block for block in blocks if block.text], layout.separator)))


def join_separator_blocks(blocks: Iterable[PromptBlock], separator: str) -> Iterator[PromptBlock]:
    """Join a block that is only a separator to the next block: providers reject blank text blocks."""
    lone: PromptBlock | None = None
    for block in blocks:
        if lone is None and block.text == separator:
            lone = block
            continue
        whole = block
        if lone:
            size, spans = len(lone.text), list(lone.spans)
            spans += [Span(span.id, span.start + size, span.end + size, span.tokens) for span in block.spans]
            text, tokens = lone.text + block.text, lone.tokens + block.tokens
            whole, lone = replace(block, text=text, tokens=tokens, spans=tuple(spans)), None
        yield whole


def strip_separator(block: PromptBlock, separator: str) -> PromptBlock:
    """Strip the separator at the end of a block."""
    if not block.spans:
        return block
    text = block.text.removesuffix(separator)
    last = block.spans[-1]
    return replace(block, text=text, spans=(*block.spans[:-1], Span(last.id, last.start, len(text), last.tokens)))


def render_run(run: FittedRun, layout: Layout) -> PromptBlock:
    """Render one run with the spans of its sections."""
    pieces: list[str] = []
    spans: list[Span] = []
    shown = [one for one in run.items if not isinstance(one, Missing) and one.body is not None]
    at = 0
    for one, place in zip(
        shown, find_section_places([one.item for one in shown], continued=run.continued), strict=True
    ):
        section = one.item
        piece = layout.draw(section, one.body or "", place)
        # The fit counted every section as if it were alone.
        alone = place == ALONE or (place.opens and place.ends and not section.slot.item)
        tokens = one.tokens if alone else layout.meter.count(piece)
        if piece:
            spans.append(Span(section.id, at, at + len(piece), tokens))
        pieces.append(piece)
        at += len(piece)
    return PromptBlock(
        pace=run.pace,
        placement=run.placement,
        text="".join(pieces),
        tokens=sum([span.tokens for span in spans]),
        spans=tuple(spans),
    )


def find_section_places(sections: Sequence[Section], *, continued: bool) -> Iterator[SectionPlace]:
    """Yield for each section of a run what it opens and closes."""
    before: Section | None = None
    for section, behind in zip_longest(sections, sections[1:]):
        group, slot = section.slot.group, section.slot.id
        yield SectionPlace(
            opens_group=before is None or not group or before.slot.group != group,
            opens_slot=before is None or before.slot.id != slot,
            closes_slot=behind is None or behind.slot.id != slot,
            ends=behind.opens if behind else not continued,
        )
        before = section
