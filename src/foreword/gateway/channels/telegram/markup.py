"""Conversion of a model's Markdown to Telegram's formatting, without loss of text.

Telegram has no headings, lists or tables: a heading becomes bold, a list keeps its bullets or numbers, and a table
becomes aligned columns. A long text is split into messages at paragraphs, lines, sentences or words.
"""

import html
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode
from wcwidth import iter_graphemes, wcswidth

from foreword.types import TextEnum, frozen

_HTML_TAG = re.compile(r"<[^<>]*>")


class TextStyle(TextEnum):
    """The style of a mark, named by its HTML tag."""

    BOLD = "b"
    ITALIC = "i"
    STRUCK = "s"
    CODE = "code"
    BLOCK = "pre"
    LINK = "a"
    QUOTE = "blockquote"


@frozen(eq=True)
class StyledRange:
    """A styled range of a text in characters, end exclusive."""

    style: TextStyle
    start: int
    end: int
    value: str = ""
    """The URL of a link, or the language of a code block."""


@frozen(eq=True)
class FormattedText:
    """A text with its marks, outer marks first; two marks are disjoint or nested."""

    text: str
    marks: tuple[StyledRange, ...] = ()

    def cut(self, start: int, end: int) -> "FormattedText":
        """Return a slice of the text with the marks that overlap it."""
        marks = tuple(
            replace(mark, start=max(mark.start, start) - start, end=min(mark.end, end) - start)
            for mark in self.marks
            if max(mark.start, start) < min(mark.end, end)
        )
        return FormattedText(text=self.text[start:end], marks=marks)


def count_utf16_units(text: str) -> int:
    """Return the length in UTF-16 code units, as Telegram counts; an emoji has two."""
    return len(text) + sum(char > "\uffff" for char in text)


def write_html(formatted: FormattedText) -> str:
    """Convert a formatted text to Telegram's HTML."""
    parts: list[str] = []
    position, opened = 0, list[StyledRange]()

    def write_to(end: int, tag: str = "") -> None:
        nonlocal position
        parts.extend((html.escape(formatted.text[position:end], quote=False), tag))
        position = end

    for mark in formatted.marks:
        while opened and opened[-1].end <= mark.start:
            write_to(opened[-1].end, _close(opened.pop()))
        write_to(mark.start, _open(mark))
        opened.append(mark)
    while opened:
        write_to(opened[-1].end, _close(opened.pop()))
    write_to(len(formatted.text))
    return "".join(parts)


def strip_html(written: str) -> str:
    """Return the plain text of HTML made by `write_html`."""
    return html.unescape(_HTML_TAG.sub("", written))


def _open(mark: StyledRange) -> str:
    value = html.escape(mark.value)
    if mark.style is TextStyle.LINK:
        return f'<a href="{value}">'
    if mark.style is TextStyle.BLOCK and value:
        return f'<pre><code class="language-{value}">'
    return f"<{mark.style.value}>"


def _close(mark: StyledRange) -> str:
    return "</code></pre>" if mark.style is TextStyle.BLOCK and mark.value else f"</{mark.style.value}>"


MAX_NESTING = 60  # nesting levels; a deeper text is shown as plain Markdown
_ADDRESS = re.compile(r"(?:https?://|tg://|mailto:|tel:)\S+", re.IGNORECASE)
_LANGUAGE = re.compile(r"[\w+#.-]{1,40}")
_LINE = re.compile(r"\n(?!\n)")
_INLINE = {"strong": TextStyle.BOLD, "em": TextStyle.ITALIC, "s": TextStyle.STRUCK}


def parse_markdown(text: str) -> FormattedText:
    """Convert Markdown to formatted text; a text that formats to nothing is returned unformatted."""
    tokens = make_parser().parse(text)
    if max((measure_depth(token) for token in tokens), default=0) >= MAX_NESTING:
        return FormattedText(text=text.strip())
    renderer = MarkdownRenderer()
    renderer.write_blocks(SyntaxTreeNode(tokens).children, "\n\n")
    formatted = renderer.finish()
    return formatted if formatted.text else FormattedText(text=text.strip())


@cache
def make_parser() -> MarkdownIt:
    """Make the parser, without HTML and link reference definitions, which would drop text."""
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_NESTING})
    return parser.enable(["table", "strikethrough"]).disable(["reference", "html_block", "html_inline"])


def measure_depth(token: Token) -> int:
    """Return the nesting depth of a token including its children."""
    return token.level + max((child.level for child in token.children or ()), default=0)


class MarkdownRenderer:
    """Builds a formatted text from a Markdown syntax tree."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._marks: list[StyledRange | None] = []
        self._open: list[TextStyle] = []
        self._indent = ""
        self._blocks: dict[str, Callable[[SyntaxTreeNode], None]] = {
            "heading": self._write_heading,
            "fence": self._write_code,
            "code_block": self._write_code,
            "bullet_list": self._write_list,
            "ordered_list": self._write_list,
            "blockquote": self._write_quote,
            "table": self._write_table,
            "hr": lambda _: self._write("———"),
        }

    def finish(self) -> FormattedText:
        """Return the formatted text without surrounding white space."""
        text = "".join(self._pieces)
        start = len(text) - len(text.lstrip())
        if any(mark and mark.start < start for mark in self._marks):
            start = 0  # the text starts with code, whose indent is significant
        whole = FormattedText(text=text, marks=tuple(mark for mark in self._marks if mark))
        return whole.cut(start, len(text.rstrip()))

    def write_blocks(self, nodes: Sequence[SyntaxTreeNode], gap: str) -> None:
        """Write blocks, separated by a gap."""
        for number, node in enumerate(nodes):
            if number:
                self._write(gap)
            if write := self._blocks.get(node.type):
                write(node)
            else:
                self._write_inline(node)

    def _write(self, text: str) -> None:
        self._add(_LINE.sub(f"\n{self._indent}", text))

    def _add(self, text: str) -> None:
        self._pieces.append(text)
        self._length += len(text)

    @contextmanager
    def _marked(self, style: TextStyle, value: str = "") -> Iterator[None]:
        """Mark the text written in the block; code and links contain no other marks, and a style is not nested."""
        if style in self._open or TextStyle.LINK in self._open or TextStyle.CODE in self._open:
            yield
            return
        start, number = self._length, len(self._marks)
        self._marks.append(None)
        self._open.append(style)
        yield
        self._open.pop()
        if self._length > start:
            self._marks[number] = StyledRange(style=style, start=start, end=self._length, value=value)

    def _write_inline(self, node: SyntaxTreeNode) -> None:
        match node.type:
            case "text":
                self._write(node.content)
            case "softbreak" | "hardbreak":
                self._write("\n")
            case "code_inline":
                with self._marked(TextStyle.CODE):
                    self._write(node.content)
            case "link":
                self._write_link(node, str(node.attrs.get("href", "")))
            case "image":
                self._write_link(node, str(node.attrs.get("src", "")))
            case kind if kind in _INLINE:
                with self._marked(_INLINE[kind]):
                    self._write_children(node)
            case _ if node.children:
                self._write_children(node)
            case _:
                self._write(node.content)

    def _write_children(self, node: SyntaxTreeNode) -> None:
        for child in node.children:
            self._write_inline(child)

    def _write_link(self, node: SyntaxTreeNode, address: str) -> None:
        """Write a link; show the URL if Telegram cannot link to it or the link has no text."""
        if not _ADDRESS.fullmatch(address):
            self._write_children(node)
            self._write(f" ({address})" if address else "")
            return
        with self._marked(TextStyle.LINK, address):
            before = self._length
            self._write_children(node)
            if self._length == before:
                self._write(address)

    def _write_heading(self, node: SyntaxTreeNode) -> None:
        with self._marked(TextStyle.BOLD):
            self._write_children(node)

    def _write_code(self, node: SyntaxTreeNode) -> None:
        words = node.info.split()
        language = words[0] if words and _LANGUAGE.fullmatch(words[0]) else ""
        with self._marked(TextStyle.BLOCK, language):
            self._add(node.content.removesuffix("\n"))

    def _write_quote(self, node: SyntaxTreeNode) -> None:
        with self._marked(TextStyle.QUOTE):
            self.write_blocks(node.children, "\n\n")

    def _write_list(self, node: SyntaxTreeNode) -> None:
        first, before = int(node.attrs.get("start", 1)), self._indent
        tight = all(child.hidden for item in node.children for child in item.children if child.type == "paragraph")
        gap = "\n" if tight else "\n\n"
        for number, item in enumerate(node.children):
            sign = f"{first + number}. " if node.type == "ordered_list" else "• "
            self._write(f"{gap}{sign}" if number else sign)
            self._indent = before + " " * len(sign)
            self.write_blocks(item.children, gap)
            self._indent = before

    def _write_table(self, node: SyntaxTreeNode) -> None:
        rows = [[render_cell(cell) for cell in row.children] for part in node.children for row in part.children]
        widths = [max(map(measure_width, column)) for column in zip(*rows, strict=True)]
        lines = [
            " | ".join(cell + " " * (width - measure_width(cell)) for cell, width in zip(row, widths, strict=True))
            for row in rows
        ]
        lines.insert(1, "-+-".join("-" * width for width in widths))
        with self._marked(TextStyle.BLOCK):
            self._add("\n".join(line.rstrip() for line in lines))


def measure_width(text: str) -> int:
    """Return the number of terminal columns of a text."""
    return max(wcswidth(text), 0)


def render_cell(node: SyntaxTreeNode) -> str:
    """Return the plain text of a table cell, with the URLs of links."""
    renderer = MarkdownRenderer()
    renderer.write_blocks([node], "")
    cell = renderer.finish()
    links = [mark.value for mark in cell.marks if mark.style is TextStyle.LINK and mark.value not in cell.text]
    return " ".join([*cell.text.split(), *(f"({link})" for link in links)])


MAX_MESSAGE_UNITS = 4_096  # UTF-16 code units of a message
MAX_STYLED_RANGES = 100  # marks of a message; Telegram ignores further ones
_PAUSES = (re.compile(r"\n{2,}"), re.compile(r"\n"), re.compile(r"(?<=[.!?;:,]) "), re.compile(r"\s"))
_COMBINING_CATEGORIES = ("Mn", "Me", "Mc")  # categories of combining characters


def split_messages(formatted: FormattedText, longest: int = MAX_MESSAGE_UNITS) -> Iterator[FormattedText]:
    """Split a text into messages; only white space between them is dropped."""
    start, end = 0, len(formatted.text)
    while start < end:
        reach = find_message_limit(formatted, start, longest)
        stop, following = (reach, reach) if reach == end else find_cut(formatted, start, reach)
        if formatted.text[start:stop].strip():  # Telegram rejects blank messages
            yield formatted.cut(start, stop)
        start = following


def find_message_limit(formatted: FormattedText, start: int, longest: int) -> int:
    """Return the furthest possible end of a message that starts here."""
    text = formatted.text
    reach = min(len(text), start + longest)
    while (over := count_utf16_units(text[start:reach]) - longest) > 0:
        reach -= (over + 1) // 2
    begins = sorted(mark.start for mark in formatted.marks if mark.end > start and mark.start < reach)
    return max(start + 1, begins[MAX_STYLED_RANGES]) if len(begins) > MAX_STYLED_RANGES else reach


def find_cut(formatted: FormattedText, start: int, reach: int) -> tuple[int, int]:
    """Return the end of a message and the start of the next one."""
    text = formatted.text
    blocks = [(mark.start, mark.end) for mark in formatted.marks if mark.style is TextStyle.BLOCK]
    half = start + (reach - start) // 2
    for whole in (True, False):  # prefer a cut outside of code blocks
        for pause in _PAUSES:
            found = None
            for match in pause.finditer(text, start, min(reach + 1, len(text))):
                inside = any(first < match.start() and match.end() < last for first, last in blocks)
                if half <= match.start() <= reach and not (whole and inside) and starts_grapheme(text, match.end()):
                    found = match
            if found and text[start : found.start()].strip():
                if any(first <= found.start() < last for first, last in blocks):  # the indent is significant
                    return found.start(), found.start() + 1
                return found.start(), skip_space(formatted, found)
    for match in reversed(list(_PAUSES[-1].finditer(text, start, reach))):
        if text[start : match.start()].strip() and starts_grapheme(text, match.end()):
            return match.start(), match.end()
    return find_grapheme_boundary(text, start, reach)


def skip_space(formatted: FormattedText, found: re.Match[str]) -> int:
    """Skip white space after a cut, up to the next mark: the indent of a code block is significant."""
    end = found.end()
    limit = min((mark.start for mark in formatted.marks if mark.start >= end), default=len(formatted.text))
    while end < limit and formatted.text[end].isspace() and starts_grapheme(formatted.text, end + 1):
        end += 1
    return end


def starts_grapheme(text: str, place: int) -> bool:
    """Return whether the character here does not combine with the one before it."""
    if place >= len(text):
        return True
    char = text[place]
    return unicodedata.category(char) not in _COMBINING_CATEGORIES and char not in "\u200d\u200c"


def find_grapheme_boundary(text: str, start: int, reach: int) -> tuple[int, int]:
    """Return the last boundary between two grapheme clusters; a cluster longer than a message is cut."""
    place = start
    for cluster in iter_graphemes(text[start : reach + 64]):
        if place + len(cluster) > reach:
            break
        place += len(cluster)
    place = place if place > start else reach
    return place, place
