"""Chunks: the messages of a conversation and the paragraphs of a note, each with place, heading, author and day."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import date

from foreword.types import frozen

MAX_PARAGRAPH_CHARS = 1_200  # a longer paragraph of a note becomes several chunks
MAX_MESSAGE_CHARS = 16_000  # a longer message becomes several chunks
MAX_HEADING_LINE_CHARS = 300  # a longer line is a paragraph, since every chunk below repeats its heading
HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*")
FENCE = re.compile(r"\s*(?:`{3,}|~{3,})")
# How a messenger's export begins each line: [2026-03-14 10:05:12] Ann: …, or 14.03.2026, 10:05 - Ann: …
STAMP = re.compile(
    r"\[?\d{1,4}[-./]\d{1,2}[-./]\d{1,4}(?:,? |T)\d{1,2}:\d\d(?::\d\d)?(?:\s?[ap]\.?m\.?)?\]?(?: -)? ", re.IGNORECASE
)
SPEAKER = re.compile(r"(?:\*\*)?([^\W\d_][\w'’.-]{0,30}(?: [A-Z][\w'’.-]{0,30}){0,2})(?:\*\*)?:(?:\*\*)?\s+\S")
SENTENCE = re.compile(r"(?<=[.!?])\s+")
MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_MONTH = "|".join(f"{name[:3]}(?:{name[3:]})?" if len(name) > 3 else name for name in MONTHS)
YEAR_DIGITS = re.compile(r"(?:19|20)\d\d")  # part of each form of a day; most texts have none, and this search is fast
ISO = re.compile(r"\b((?:19|20)\d\d)-(0[1-9]|1[0-2])(?:-(0[1-9]|[12]\d|3[01]))?\b")
DOTTED = re.compile(r"\b(\d{1,2})\.(\d{1,2})\.((?:19|20)\d\d)\b")  # day, month, year
WRITTEN = re.compile(
    rf"\b(?:(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?)?(?P<month>{_MONTH})\b\.?(?:\s+(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?\b)?"
    r"(?:,?\s+(?P<year>(?:19|20)\d\d))",
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
    about: str = ""
    """The description of its document, on the first chunk: it finds the document without outranking its text."""

    @property
    def is_question(self) -> bool:
        """Whether it ends with a question."""
        return self.text.rstrip().endswith("?")


def split(body: str, when: str = "") -> Iterator[Chunk]:
    """Split a text into messages where people talk, else into paragraphs; headings apply to everything below them."""
    speakers = find_speakers(body)
    most = MAX_MESSAGE_CHARS if speakers else MAX_PARAGRAPH_CHARS
    headings: list[tuple[int, str]] = []
    for first, lines in join_messages(body, speakers):
        if head := match_heading(lines[0]):
            level = len(head[1])
            headings = [*(one for one in headings if one[0] < level), (level, head[2])]
            continue
        path = " › ".join(title for _, title in headings)
        dated = next((found for _, title in reversed(headings) if (found := find_day(title))), when)
        author = find_speaker(lines[0], speakers)
        yield from cut_chunks(Chunk(first=first, last=0, heading=path, text="", author=author, when=dated), lines, most)


def split_message(body: str, author: str, when: str = "") -> Iterator[Chunk]:
    """Split what one author said at once: a single chunk, unless it is very long."""
    message = Chunk(first=1, last=0, heading="", text="", author=author, when=when)
    return cut_chunks(message, body.split("\n"), MAX_MESSAGE_CHARS)


def cut_chunks(whole: Chunk, lines: Sequence[str], most: int) -> Iterator[Chunk]:
    """Cut lines into chunks of at most so many characters, each with the heading, author and day of the whole."""
    for start, part in cut(lines, most):
        text = "\n".join(part).strip()
        first = whole.first + start
        for piece in filter(None, cut_line(text, most) if len(part) == 1 else (text,)):
            day = find_day(piece) or whole.when
            yield replace(whole, first=first, last=first + len(part) - 1, text=piece, when=day)


def join_messages(body: str, speakers: Collection[str]) -> Iterator[tuple[int, list[str]]]:
    """Find paragraphs with their first line; where people talk, the paragraphs of one message stay together."""
    message: list[str] = []
    start = 0
    for first, lines in find_paragraphs(body):
        continues = not match_heading(lines[0]) and not find_speaker(lines[0], speakers)
        if message and continues:
            message += [""] * (first - start - len(message)) + lines
            continue
        if message:
            yield start, message
            message = []
        if find_speaker(lines[0], speakers):
            start, message = first, list(lines)
        else:
            yield first, lines
    if message:
        yield start, message


def match_heading(line: str) -> re.Match[str] | None:
    """Match a heading."""
    return HEADING.fullmatch(line) if line.startswith("#") and len(line) <= MAX_HEADING_LINE_CHARS else None


def find_speaker(line: str, speakers: Collection[str]) -> str:
    """Find which of the speakers a line begins with; empty if none."""
    said = match_speaker(line) if speakers else None
    return said[1] if said and said[1] in speakers else ""


def match_speaker(line: str) -> re.Match[str] | None:
    """Match a name and a colon at the beginning of a line, or after the time that a messenger writes there."""
    text = line.strip()
    stamp = STAMP.match(text)
    return SPEAKER.match(text, stamp.end() if stamp else 0)


def split_items(body: str) -> Iterator[Chunk]:
    """Split a text into its paragraphs, and lists into their items."""
    for chunk in split(body):
        lines = chunk.text.split("\n")
        starts = [at for at, line in enumerate(lines) if at == 0 or is_item(line)]
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            text, first = "\n".join(lines[start:end]), chunk.first + start
            yield replace(chunk, first=first, last=first + end - start - 1, text=text)


def find_speakers(body: str) -> frozenset[str]:
    """Find who talks in a text: several names, one of them more than once. Anything else is a list of labels.

    Lower-case names count only where at least half of the paragraphs begin with a name, as in a chat export.
    """
    openings = [lines[0] for _, lines in find_paragraphs(body) if not match_heading(lines[0])]
    counts = Counter(said[1] for line in openings if (said := match_speaker(line)))
    if counts.total() * 2 < len(openings):
        counts = Counter({name: count for name, count in counts.items() if name[0].isupper()})
    return frozenset(counts) if len(counts) > 1 and max(counts.values()) > 1 else frozenset()


def find_paragraphs(body: str) -> Iterator[tuple[int, list[str]]]:
    """Find paragraphs with the line each begins on; headings are separate, fenced code and list items stay whole.

    A line with the time of a message begins a paragraph, since exports of messengers have no blank lines.
    """
    paragraph: list[str] = []
    start, fenced = 1, False
    for number, line in enumerate(body.split("\n"), 1):
        fence = bool(FENCE.match(line))
        alone = not fenced and not fence and match_heading(line) is not None
        ends = not fenced and (alone or not line.strip() or STAMP.match(line) is not None)
        if ends and paragraph:
            yield start, paragraph
            paragraph = []
        if ends and (alone or not line.strip()):
            if alone:
                yield number, [line]
            continue
        if not paragraph:
            start = number
        paragraph.append(line)
        fenced ^= fence
    if paragraph:
        yield start, paragraph


def cut(lines: Sequence[str], most: int) -> Iterator[tuple[int, list[str]]]:
    """Cut a text that is too long at its lines; the list of a note is cut at its items."""
    listed = most == MAX_PARAGRAPH_CHARS
    start, size = 0, 0
    for at, line in enumerate(lines):
        if at > start and (size + len(line) > most or (listed and is_item(line) and size > most // 4)):
            yield start, list(lines[start:at])
            start, size = at, 0
        size += len(line) + 1
    yield start, list(lines[start:])


def cut_line(line: str, most: int) -> Iterator[str]:
    """Cut a line that is too long after its sentences, or where it has none, anywhere."""
    piece = ""
    for sentence in SENTENCE.split(line) if len(line) > most else (line,):
        if piece and len(piece) + len(sentence) >= most:
            yield piece
            piece = ""
        rest = f"{piece} {sentence}" if piece else sentence
        start = 0
        while len(rest) - start > most:
            space = rest.rfind(" ", start + 1, start + most)
            end = space if space > 0 else start + most
            yield rest[start:end].strip()
            start = end
        piece = rest[start:].strip()
    if piece:
        yield piece


def is_item(line: str) -> bool:
    """Whether a line begins an item of a list."""
    return line.startswith(("- ", "* ", "+ ")) or line.partition(".")[0].isdecimal()


def find_day(text: str) -> str:
    """Find the first day or month that a text names with its year."""
    if not YEAR_DIGITS.search(text):
        return ""
    if iso := ISO.search(text):
        return spell_day(int(iso[1]), int(iso[2]), int(iso[3] or 0))
    if (dotted := DOTTED.search(text)) and 1 <= int(dotted[2]) <= 12:
        return spell_day(int(dotted[3]), int(dotted[2]), int(dotted[1]))
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
