"""Chunks: the paragraphs of a memory, each with its place, its heading, and who said it when."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date

from foreword.frozen import frozen

LONGEST = 1_200  # characters of a chunk; a longer paragraph is several
HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*")
FENCE = re.compile(r"\s*(?:`{3,}|~{3,})")
SPEAKER = re.compile(r"(?:\*\*)?([A-Z][\w'’.-]{0,30}(?: [A-Z][\w'’.-]{0,30}){0,2})(?:\*\*)?:(?:\*\*)?\s+\S")
SENTENCE = re.compile(r"(?<=[.!?])\s+")
MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_MONTH = "|".join(f"{name[:3]}(?:{name[3:]})?" if len(name) > 3 else name for name in MONTHS)
ISO = re.compile(r"\b((?:19|20)\d\d)-(0[1-9]|1[0-2])(?:-(0[1-9]|[12]\d|3[01]))?\b")
WRITTEN = re.compile(
    rf"\b(?:(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?)?(?P<month>{_MONTH})\b\.?(?:\s+(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?\b)?"
    r"(?:,?\s+(?P<year>(?:19|20)\d\d))",
    re.IGNORECASE,
)
MOVING = re.compile(
    rf"\b(?:yesterday|today|tomorrow|tonight|last|next|ago|week|weekend|month|year|recently|since|morning|{_MONTH}"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day|(?:19|20)\d\d)\b",
    re.IGNORECASE,
)


@frozen(eq=True)
class Chunk:
    """One paragraph of a document."""

    first: int
    """Its first line in the document's body, counted from 1."""
    last: int
    heading: str
    text: str
    author: str = ""
    when: str = ""
    """The day it speaks of, or the month, as far as the text, its headings or its document say: 2023-05-08, 2023-05."""

    @property
    def is_question(self) -> bool:
        """Whether it only asks."""
        return self.text.rstrip().endswith("?")

    @property
    def tells_time(self) -> bool:
        """Whether it says when something was."""
        return MOVING.search(self.text) is not None


def split(body: str, author: str = "", when: str = "") -> Iterator[Chunk]:
    """Split a text into its paragraphs; a heading belongs to all that stand under it, and to none by itself."""
    headings: list[tuple[int, str]] = []
    speakers = frozenset() if author else find_speakers(body)
    for first, lines in find_paragraphs(body):
        if (head := HEADING.fullmatch(lines[0])) is not None:
            level = len(head[1])
            headings = [*(one for one in headings if one[0] < level), (level, head[2])]
            continue
        path = " › ".join(title for _, title in headings)
        dated = next((found for _, title in reversed(headings) if (found := find_day(title))), when)
        for start, part in cut(lines):
            text = "\n".join(part).strip()
            said = SPEAKER.match(text)
            name = said[1] if said and said[1] in speakers else author
            for piece in filter(None, cut_line(text) if len(part) == 1 else (text,)):
                yield Chunk(
                    first=first + start,
                    last=first + start + len(part) - 1,
                    heading=path,
                    text=piece,
                    author=name,
                    when=find_day(piece) or dated,
                )


def split_items(body: str) -> Iterator[Chunk]:
    """Split a text into its paragraphs, and lists into their items."""
    for chunk in split(body):
        lines = chunk.text.split("\n")
        starts = [at for at, line in enumerate(lines) if at == 0 or is_item(line)]
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            text, first = "\n".join(lines[start:end]), chunk.first + start
            yield replace(chunk, first=first, last=first + end - start - 1, text=text)


def find_speakers(body: str) -> frozenset[str]:
    """Find who talks in a text: several people of whom some speak more than once; else it is a list of labels."""
    counts = Counter(said[1] for _, lines in find_paragraphs(body) if (said := SPEAKER.match(lines[0].strip())))
    return frozenset(counts) if len(counts) > 1 and max(counts.values()) > 1 else frozenset()


def find_paragraphs(body: str) -> Iterator[tuple[int, list[str]]]:
    """Find paragraphs with the line each begins on; headings stand alone, fenced code and list items stay whole."""
    paragraph: list[str] = []
    start, fenced = 1, False
    for number, line in enumerate(body.split("\n"), 1):
        fence = bool(FENCE.match(line))
        alone = not fenced and not fence and HEADING.fullmatch(line) is not None
        if (not line.strip() and not fenced) or alone:
            if paragraph:
                yield start, paragraph
            paragraph = []
            if alone:
                yield number, [line]
            continue
        if not paragraph:
            start = number
        paragraph.append(line)
        fenced ^= fence
    if paragraph:
        yield start, paragraph


def cut(lines: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Cut a paragraph that is too long at its lines; a list is cut at its items."""
    start, size = 0, 0
    for at, line in enumerate(lines):
        if at > start and (size + len(line) > LONGEST or (is_item(line) and size > LONGEST // 4)):
            yield start, list(lines[start:at])
            start, size = at, 0
        size += len(line) + 1
    yield start, list(lines[start:])


def cut_line(line: str) -> Iterator[str]:
    """Cut a line that is too long after its sentences, or where it has none, anywhere."""
    piece = ""
    for sentence in SENTENCE.split(line) if len(line) > LONGEST else (line,):
        if piece and len(piece) + len(sentence) >= LONGEST:
            yield piece
            piece = ""
        rest = f"{piece} {sentence}" if piece else sentence
        while len(rest) > LONGEST:
            at = rest.rfind(" ", 1, LONGEST) if " " in rest[1:LONGEST] else LONGEST
            yield rest[:at]
            rest = rest[at:].lstrip()
        piece = rest
    if piece:
        yield piece


def is_item(line: str) -> bool:
    """Whether a line begins an item of a list."""
    return line.startswith(("- ", "* ", "+ ")) or line.partition(".")[0].isdecimal()


def find_day(text: str) -> str:
    """Find the first day or month that a text names with its year."""
    if iso := ISO.search(text):
        return spell_day(int(iso[1]), int(iso[2]), int(iso[3] or 0))
    if written := WRITTEN.search(text):
        month = next(at for at, name in enumerate(MONTHS, 1) if name.startswith(written["month"].lower()[:3]))
        return spell_day(int(written["year"]), month, int(written["d1"] or written["d2"] or 0))
    return ""


def spell_day(year: int, month: int, day: int) -> str:
    """Spell a day, or a month where there is no such day."""
    try:
        return date(year, month, day).isoformat()
    except ValueError:
        return f"{year:04}-{month:02}"
