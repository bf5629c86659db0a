"""Notes: the Markdown files of a store that people edit. A promoted entry becomes one, or is added under a heading.

A file that an entry was added to records whose words they were and who confirmed them in an HTML comment at its
beginning. Comments there are never part of a prompt, a search or a reading.
"""

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from difflib import unified_diff
from html import unescape
from typing import TextIO

from foreword.engine.sources.documents import Document, escape_attribute, join_lines, normalise_lines, parse_document
from foreword.engine.sources.memory_sections import FACTS_FILE, MAX_FACT_CHARS, extract_facts
from foreword.errors import InputError
from foreword.memory.chunk import FENCE, match_heading
from foreword.memory.entry import Confirmed, link, list_fields, list_marks, mark_text, write_confirmed
from foreword.types import frozen

LOCK_TIMEOUT_S = 5.0  # seconds to wait for another process that writes
STALE_LOCK_S = 60.0  # seconds after which a draft counts as abandoned
LOCK_POLL_S = 0.01


def add_fact(text: str | None, entry: Confirmed) -> str:
    """Return the text of the file of facts with another fact; refuse a duplicate."""
    fact = join_lines(entry.text)
    if len(fact) > MAX_FACT_CHARS:
        raise InputError(
            f"a fact has at most {MAX_FACT_CHARS} characters, and this one has {len(fact)}; promote it to a file"
        )
    items = parse_items(text)
    if fact in map(join_lines, extract_facts(items) or ()):
        raise InputError(f"{FACTS_FILE} has this fact already; forget the entry instead: foreword memory forget PATH")
    return json.dumps([*items, {"text": fact, **list_fields(entry)}], ensure_ascii=False, indent=2)


def parse_items(text: str | None) -> list[object]:
    """Parse the list in the file of facts; a missing file is an empty list."""
    try:
        items = json.loads((text or "[]").removeprefix(BOM), strict=False)
    except (ValueError, RecursionError):
        items = None
    if not isinstance(items, list) or extract_facts(items) is None:
        raise InputError(f"{FACTS_FILE} is not a plain list of texts; correct it first")
    return items


@contextmanager
def claim(draft: str, patience: float = LOCK_TIMEOUT_S) -> Iterator[TextIO]:
    """Create a draft file that only one process can hold; remove it unless it was renamed to its target."""
    end = time.monotonic() + patience
    while True:
        try:
            # A lone surrogate, which JSON can express and UTF-8 cannot, stays an escape.
            file = open(draft, "x", encoding="utf-8", errors="backslashreplace", newline="")  # noqa: SIM115 - closed below
            break
        except FileExistsError:
            with suppress(FileNotFoundError):
                if time.time() - os.stat(draft).st_mtime > STALE_LOCK_S:  # left by a dead process
                    os.unlink(draft)
                    continue
            if time.monotonic() > end:
                name = os.path.basename(draft).removesuffix(".new")
                raise InputError(f"{name} is locked by another process; if there is none, remove {name}.new") from None
            time.sleep(LOCK_POLL_S)
    with file:
        try:
            yield file
        finally:
            with suppress(FileNotFoundError):  # renamed to its target; another process may have a new draft
                if os.path.samestat(os.stat(draft), os.fstat(file.fileno())):
                    os.unlink(draft)


NOTES = "notes"  # the folder of a store for notes without a name
MAX_HEADING_CHARS = 200
BREAKS = ("\n", "\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029")
LINE = re.compile("[^\n\r\x0b\x0c\x85\u2028\u2029]*(?:\r\n|[\n\r\x0b\x0c\x85\u2028\u2029])|.+", re.DOTALL)
BOM = "\ufeff"
ORIGIN = ("author", "clearance", "channel", "session", "time", "confirmed", "lines", "text")  # of a promoted entry
RECORD = re.compile(r"<!-- promoted: (.*) -->")
FIELD = re.compile(r'(\w+)="([^"]*)"')


@frozen(eq=True)
class Promotion:
    """The change that promoting an entry makes to a file."""

    path: str
    """The entry, which is removed."""
    target: str
    """The file: STORE/NAME.md, or the file of the facts."""
    before: str | None
    """The text of the file before the promotion; None for a new file."""
    after: str

    @property
    def diff(self) -> str:
        """The change as a unified diff."""
        name = self.target if "/" not in self.target else f"memory/{self.target}"
        old, new = (normalise_lines(text).split("\n") for text in (self.before or "", self.after))
        ends = ("/dev/null" if self.before is None else name, name)
        if self.before is None:
            old = []
        lines = unified_diff(drop_last(old), drop_last(new), *ends, lineterm="")
        return "\n".join(lines)


@frozen(eq=True)
class Added:
    """A text that was added to a note, and what the note records about it."""

    author: str
    record: int
    """The line of the comment, counted from 0."""
    first: int
    last: int
    """The lines of the text, end exclusive; both 0 if the text was edited since."""
    text: str = ""
    mark: str = ""


def drop_last(lines: list[str]) -> list[str]:
    """Drop the empty text after the last line break."""
    return lines[:-1] if lines and not lines[-1] else lines


def check_heading(heading: str) -> str:
    """Return a heading without its signs, or refuse one that is empty or too long."""
    text = join_lines(heading.lstrip("#")) if heading.startswith("#") else join_lines(heading)
    if not text or len(text) > MAX_HEADING_CHARS or not text.isprintable():
        raise InputError(f'a heading is one line of 1 to {MAX_HEADING_CHARS} characters, as in: --heading "The house"')
    return text


def change_note(before: str | None, path: str, heading: str, entry: Confirmed) -> str:
    """Return the text of a note with a promoted entry: a new note, or one that it is added to under a heading."""
    if before is None and not heading:
        return write_confirmed(entry)
    if not heading:
        raise InputError(f"{path} is there already; add to it with --heading TEXT, or choose another name")
    return add_text(before or "", path, heading, entry)


def add_text(raw: str, name: str, heading: str, entry: Confirmed) -> str:
    """Add an entry to the text of a note, at the end of a heading's own section; a missing heading is made.

    A text that the note has already is refused, wherever it is: later the two could not be distinguished. No other
    byte of the note changes, except for the origin that a promoted entry has in its front matter: the note has several
    authors from then on.
    """
    bom, text = (BOM, raw[1:]) if raw.startswith(BOM) else ("", raw)
    text = move_origin(text)
    lines = LINE.findall(text)
    end = find_line_end(lines)
    body = parse_document(name, text).first - 1
    place, found = find_section(lines, body, heading, name)
    words = [f"{line}{end}" for line in entry.text.split("\n")]
    if next(find_ranges(strip_breaks(lines), body, list_marks(entry.text)), None):
        raise InputError(f"{name} has this text already; forget the entry instead: foreword memory forget PATH")
    if place and not lines[place - 1].endswith(BREAKS):
        lines[place - 1] += end
    gap = [end] if place > body else []
    title = [] if found is not None else [f"## {heading}{end}", end]
    rest = [end] if place < len(lines) and lines[place].strip() else []
    lines[place:place] = [*gap, *title, *words, *rest]
    record = write_record({**list_fields(entry), "heading": heading, **list_marks(entry.text)})
    lines.insert(find_front_matter_end(lines), f"{record}{end}")
    return bom + "".join(lines)


def move_origin(text: str) -> str:
    """Move the origin of a promoted entry from its front matter to a record like that of an added text.

    Later additions to the note are not the author's. An entry that an older version promoted has no hash of
    its text; then the whole note counts as the author's, as its front matter says.
    """
    document = parse_document("", text)
    origin = find_origin(document)
    if not origin:
        return text
    lines = LINE.findall(text)
    end, close = find_line_end(lines), find_front_matter_end(lines)
    kept = [line for line in lines[1 : close - 1] if line.partition(":")[0] not in ORIGIN]
    head = [lines[0], *kept, lines[close - 1]] if kept else []
    marks = {} if "text" in origin else list_marks(document.body)
    return "".join([*head, f"{write_record({**origin, **marks})}{end}", *lines[close:]])


def find_origin(document: Document) -> dict[str, str]:
    """Find the origin that the front matter of a promoted entry names; any other note has none."""
    origin = {name: join_lines(document.field(name)) for name in ORIGIN if document.field(name)}
    return origin if all(origin.get(name) for name in ("author", "clearance", "time")) else {}


def find_line_end(lines: Sequence[str]) -> str:
    """Find how a file ends its lines, by the first one."""
    first = lines[0] if lines else ""
    return next((end for end in ("\r\n", "\n", "\r") if first.endswith(end)), "\n")


def find_front_matter_end(lines: Sequence[str]) -> int:
    """Find the line after the front matter; the first line where there is none."""
    if not lines or lines[0].rstrip("\r\n") != "---":
        return 0
    return next((at + 1 for at, line in enumerate(lines) if at and line.rstrip() == "---"), 0)


def find_section(lines: Sequence[str], body: int, heading: str, name: str) -> tuple[int, int | None]:
    """Find the place for a text: after the last line of a heading's own section, and where that section begins.

    Without such a heading it is the end of the text, and no section.
    """
    headings = list(list_headings(lines, body))
    same = [at for at, title in headings if title.casefold() == heading.casefold()]
    if len(same) > 1:
        shown = ", ".join(str(at + 1) for at in same)
        raise InputError(f"{name} has the heading {heading!r} in lines {shown}; rename one of them first")
    first = same[0] if same else body
    last = next((at for at, _ in headings if same and at > first), len(lines))
    while last > first and not lines[last - 1].strip():
        last -= 1
    return last, first if same else None


def list_headings(lines: Sequence[str], body: int) -> Iterator[tuple[int, str]]:
    """List the headings of a text, each with its line; lines in fenced code are no headings."""
    fenced = ""
    for at in range(body, len(lines)):
        line = lines[at].rstrip()
        if fence := FENCE.match(line):
            sign = fence[0].strip()
            if not fenced:
                fenced = sign
            elif sign.startswith(fenced) and line.strip() == sign:
                fenced = ""
        elif not fenced and (head := match_heading(line)):
            yield at, join_lines(head[2])


def strip_breaks(lines: Sequence[str]) -> list[str]:
    """Return lines without the signs that end them."""
    return [line.rstrip("".join(BREAKS)) for line in lines]


def find_ranges(plain: Sequence[str], body: int, marks: Mapping[str, str]) -> Iterator[range]:
    """Find the lines of a body that have a text, which is recognised by its hash."""
    count = count_lines(marks)
    for first in range(body, len(plain) - count + 1) if count else ():
        if mark_text("\n".join(plain[first : first + count])) == marks.get("text"):
            yield range(first, first + count)


def count_lines(marks: Mapping[str, str]) -> int:
    """Return how many lines a promoted text had; 0 if its fields do not say."""
    lines = marks.get("lines", "")
    return int(lines) if lines.isdecimal() else 0


def write_record(fields: Mapping[str, str]) -> str:
    """Write the comment that records the author, reviewer and hash of a text."""
    shown = " ".join(f'{name}="{escape_field(value)}"' for name, value in fields.items())
    return f"<!-- promoted: {shown} -->"


def escape_field(value: str) -> str:
    """Escape a value, so that it cannot close its quotes or the comment."""
    return escape_attribute("".join(sign for sign in join_lines(value) if sign.isprintable()))


def list_added(raw: str) -> list[Added]:
    """List the texts that were added to a note, by the comments at its beginning; one in the body proves nothing.

    No line belongs to two texts. Of equal texts, the one below the heading that its record names is the added one.
    """
    _, text = split_mark(raw)
    lines = LINE.findall(text)
    body = parse_document("", text).first - 1
    plain, headings = strip_breaks(lines), list(list_headings(lines, body))
    records = {
        at: {name: unescape(value) for name, value in FIELD.findall(record[1])}
        for at in range(min(body, len(lines)))
        if (record := RECORD.fullmatch(plain[at]))
    }
    taken: set[int] = set()
    found: dict[int, Added] = {}
    # Longer texts first: a short one may be a part of a long one.
    for at in sorted(records, key=lambda at: count_lines(records[at]), reverse=True):
        free = [one for one in find_ranges(plain, body, records[at]) if taken.isdisjoint(one)]
        heading = records[at].get("heading", "").casefold()
        below = [one for one in free if heading and find_heading(one.start, headings).casefold() == heading]
        place = next(iter(below or free), range(0))
        taken.update(place)
        found[at] = Added(
            author=records[at].get("author", ""),
            record=at,
            first=place.start,
            last=place.stop,
            text="\n".join(plain[place.start : place.stop]),
            mark=records[at].get("text", ""),
        )
    return [found[at] for at in records]


def split_mark(raw: str) -> tuple[str, str]:
    """Split a note into its byte order mark and its text; a promoted entry that has more text by now gets a record."""
    bom, text = (BOM, raw[1:]) if raw.startswith(BOM) else ("", raw)
    return bom, move_origin(text) if has_more(parse_document("", text)) else text


def has_more(document: Document) -> bool:
    """Return whether a note has the unchanged text of a promoted entry and further text."""
    plain = document.body.split("\n")
    place = next(find_ranges(plain, 0, find_origin(document)), None)
    return place is not None and len(place) < len(plain)


def find_heading(line: int, headings: Sequence[tuple[int, str]]) -> str:
    """Find the heading that a line is below."""
    return next((title for at, title in reversed(headings) if at < line), "")


def remove_added(raw: str, names: Collection[str]) -> str:
    """Remove texts of some people that were added to a note, and the comments about them."""
    bom, text = split_mark(raw)
    lines = LINE.findall(text)
    gone: set[int] = set()
    for one in list_added(text):
        if one.author not in names:
            continue
        gone |= {one.record, *range(one.first, one.last)}
        if one.last and one.first and not lines[one.first - 1].strip():
            gone.add(one.first - 1)  # the empty line before the text was added with it
    return bom + "".join(line for at, line in enumerate(lines) if at not in gone)


def read_note(root: str, path: str) -> str | None:
    """Read a note with its line breaks; None if it does not exist. Refuse a file that cannot be added to."""
    place = os.path.join(root, *path.split("/"))
    if os.path.realpath(place) != place:
        raise InputError(f"{path} is a link or behind one; name the file that it leads to")
    try:
        with open(place, encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8; save it as UTF-8 first") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None


def edit_file(root: str, path: str, edit: Callable[[str | None], str]) -> tuple[str | None, str]:
    """Replace a file atomically with its edited text; return the text before, None for a new file, and after.

    If another program changes the file meanwhile, nothing is written.
    """
    place = os.path.join(root, *path.split("/"))
    try:
        if os.path.realpath(os.path.dirname(place)) != os.path.dirname(place):
            raise InputError(f"{path} is behind a link; nothing was changed")
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with claim(f"{place}.new") as file:
            before = read_note(root, path)
            after = edit(before)
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
            if before is None:
                changed = not link(file.name, place)
            else:
                shutil.copymode(place, file.name)
                changed = read_note(root, path) != before
            if changed:
                raise InputError(f"{path} was changed meanwhile; nothing was written; try again")
            if before is not None:
                os.replace(file.name, place)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}; nothing was changed") from None
    return before, after
