"""A formatted text as Telegram has it: characters, and marks over stretches of them."""

import html
import re
from collections.abc import Iterator

from foreword.frozen import frozen
from foreword.words import Word

_TAG = re.compile(r"<[^<>]*>")


class Style(Word):
    """What a mark does to its stretch, by the name of its tag."""

    BOLD = "b"
    ITALIC = "i"
    STRUCK = "s"
    CODE = "code"
    BLOCK = "pre"
    LINK = "a"
    QUOTE = "blockquote"


@frozen(eq=True)
class Mark:
    """A stretch of a text, in characters, the end exclusive."""

    style: Style
    start: int
    end: int
    value: str = ""
    """The address of a link, or the language of a block of code."""


@frozen(eq=True)
class Formatted:
    """A text with its marks, from the outside in: two of them lie apart, or one within the other."""

    text: str
    marks: tuple[Mark, ...] = ()

    def cut(self, start: int, end: int) -> "Formatted":
        """Cut a piece out; what is marked stays so on both sides of a cut."""
        kept = []
        for mark in self.marks:
            first, last = max(mark.start, start), min(mark.end, end)
            if first < last:
                kept.append(Mark(style=mark.style, start=first - start, end=last - start, value=mark.value))
        return Formatted(text=self.text[start:end], marks=tuple(kept))


def measure(text: str) -> int:
    """Count as Telegram does: in units of UTF-16, of which an emoji has two."""
    return len(text) + sum(char > "\uffff" for char in text)


def write_html(formatted: Formatted) -> str:
    """Write the tags that Telegram reads."""
    return "".join(_write(formatted))


def read_plain(written: str) -> str:
    """Read only the text of what `write_html` wrote."""
    return html.unescape(_TAG.sub("", written))


def _write(formatted: Formatted) -> Iterator[str]:
    at, opened = 0, list[Mark]()

    def write_to(end: int) -> str:
        nonlocal at
        begin, at = at, end
        return html.escape(formatted.text[begin:end], quote=False)

    for mark in formatted.marks:
        while opened and opened[-1].end <= mark.start:
            yield write_to(opened[-1].end)
            yield _close(opened.pop())
        yield write_to(mark.start)
        yield _open(mark)
        opened.append(mark)
    while opened:
        yield write_to(opened[-1].end)
        yield _close(opened.pop())
    yield write_to(len(formatted.text))


def _open(mark: Mark) -> str:
    value = html.escape(mark.value)
    if mark.style is Style.LINK:
        return f'<a href="{value}">'
    if mark.style is Style.BLOCK and value:
        return f'<pre><code class="language-{value}">'
    return f"<{mark.style.value}>"


def _close(mark: Mark) -> str:
    return "</code></pre>" if mark.style is Style.BLOCK and mark.value else f"</{mark.style.value}>"
