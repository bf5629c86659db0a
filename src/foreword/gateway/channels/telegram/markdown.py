"""Markdown, as a model writes it, made into what Telegram can show; nothing that a person reads is lost.

Telegram knows no headings, lists or tables: a heading becomes bold, a list keeps its signs, and a table is set in
columns.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode
from wcwidth import wcswidth

from foreword.gateway.channels.telegram.formatted import Formatted, Mark, Style

DEEPEST = 60  # levels of nesting; a text with more is shown as it is written
_ADDRESS = re.compile(r"(?:https?://|tg://|mailto:|tel:)\S+", re.IGNORECASE)
_LANGUAGE = re.compile(r"[\w+#.-]{1,40}")
_LINE = re.compile(r"\n(?!\n)")
_INLINE = {"strong": Style.BOLD, "em": Style.ITALIC, "s": Style.STRUCK}


def read_markdown(text: str) -> Formatted:
    """Read a reply; one that formats to nothing is shown as it is written."""
    tokens = make_parser().parse(text)
    if max((deepest(token) for token in tokens), default=0) >= DEEPEST:
        return Formatted(text=text.strip())
    writing = Writing()
    writing.write_blocks(SyntaxTreeNode(tokens).children, "\n\n")
    made = writing.finish()
    return made if made.text else Formatted(text=text.strip())


@cache
def make_parser() -> MarkdownIt:
    """Make the parser: tags are text, and no line vanishes for being the definition of a link."""
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": DEEPEST})
    return parser.enable(["table", "strikethrough"]).disable(["reference", "html_block", "html_inline"])


def deepest(token: Token) -> int:
    """Find how deep a token is nested, with what it holds."""
    return token.level + max((child.level for child in token.children or ()), default=0)


class Writing:
    """A formatted text while it is written."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._marks: list[Mark | None] = []
        self._open: list[Style] = []
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

    def finish(self) -> Formatted:
        """Return what was written, without the space around it."""
        text = "".join(self._pieces)
        start = len(text) - len(text.lstrip())
        if any(mark and mark.start < start for mark in self._marks):
            start = 0  # the first line is code, and its indent is part of it
        whole = Formatted(text=text, marks=tuple(mark for mark in self._marks if mark))
        return whole.cut(start, len(text.rstrip()))

    def write_blocks(self, nodes: Sequence[SyntaxTreeNode], gap: str) -> None:
        """Write blocks with a gap between them."""
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
    def _marked(self, style: Style, value: str = "") -> Iterator[None]:
        """Mark what is written meanwhile; code and links hold nothing else, and nothing is marked twice."""
        if style in self._open or Style.LINK in self._open or Style.CODE in self._open:
            yield
            return
        start, number = self._length, len(self._marks)
        self._marks.append(None)
        self._open.append(style)
        yield
        self._open.pop()
        if self._length > start:
            self._marks[number] = Mark(style=style, start=start, end=self._length, value=value)

    def _write_inline(self, node: SyntaxTreeNode) -> None:
        match node.type:
            case "text":
                self._write(node.content)
            case "softbreak" | "hardbreak":
                self._write("\n")
            case "code_inline":
                with self._marked(Style.CODE):
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
        """Write a link; one that leads nowhere for a reader, or has no words, shows where it leads."""
        if not _ADDRESS.fullmatch(address):
            self._write_children(node)
            self._write(f" ({address})" if address else "")
            return
        with self._marked(Style.LINK, address):
            before = self._length
            self._write_children(node)
            if self._length == before:
                self._write(address)

    def _write_heading(self, node: SyntaxTreeNode) -> None:
        with self._marked(Style.BOLD):
            self._write_children(node)

    def _write_code(self, node: SyntaxTreeNode) -> None:
        words = node.info.split()
        language = words[0] if words and _LANGUAGE.fullmatch(words[0]) else ""
        with self._marked(Style.BLOCK, language):
            self._add(node.content.removesuffix("\n"))

    def _write_quote(self, node: SyntaxTreeNode) -> None:
        with self._marked(Style.QUOTE):
            self.write_blocks(node.children, "\n\n")

    def _write_list(self, node: SyntaxTreeNode) -> None:
        first, before = int(node.attrs.get("start", 1)), self._indent
        tight = all(child.hidden for item in node.children for child in item.children if child.type == "paragraph")
        for number, item in enumerate(node.children):
            sign = f"{first + number}. " if node.type == "ordered_list" else "• "
            self._write(f"{_gap(tight)}{sign}" if number else sign)
            self._indent = before + " " * len(sign)
            self.write_blocks(item.children, _gap(tight))
            self._indent = before

    def _write_table(self, node: SyntaxTreeNode) -> None:
        rows = [[read_words(cell) for cell in row.children] for part in node.children for row in part.children]
        widths = [max(map(measure_width, column)) for column in zip(*rows, strict=True)]
        lines = [
            " | ".join(cell + " " * (width - measure_width(cell)) for cell, width in zip(row, widths, strict=True))
            for row in rows
        ]
        lines.insert(1, "-+-".join("-" * width for width in widths))
        with self._marked(Style.BLOCK):
            self._add("\n".join(line.rstrip() for line in lines))


def _gap(tight: bool) -> str:  # noqa: FBT001 - what it is says the name
    return "\n" if tight else "\n\n"


def measure_width(text: str) -> int:
    """Measure how many columns a text takes."""
    return max(wcswidth(text), 0)


def read_words(node: SyntaxTreeNode) -> str:
    """Read what a cell says, without its marks; a link shows where it leads."""
    writing = Writing()
    writing.write_blocks([node], "")
    made = writing.finish()
    links = [mark.value for mark in made.marks if mark.style is Style.LINK and mark.value not in made.text]
    return " ".join([*made.text.split(), *(f"({link})" for link in links)])
