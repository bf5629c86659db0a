"""Pages: files as a linter sees them, whole, with their lines and with the parts that a prompt takes from them."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from foreword.sources.document import FENCE, find_fence, normalise, strip_comments

Span = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Page:
    """The text of a file with plain line breaks, and where its parts stand."""

    path: str
    text: str
    breaks: tuple[int, ...]
    header: Span
    body: Span
    comments: tuple[Span, ...]

    def line_of(self, place: int) -> int:
        """Return the line of the file on which a place of the text stands."""
        return bisect_left(self.breaks, place) + 1

    def is_comment(self, place: int) -> bool:
        """Whether a place stands in an HTML comment, which nobody sees in a rendered file."""
        at = bisect_left(self.comments, (place + 1, 0)) - 1
        return at >= 0 and place < self.comments[at][1]

    def find_fields(self, names: Iterable[str]) -> Iterator[Span]:
        """Find these fields of the front matter, each with the lines that belong to it."""
        wanted = "|".join(map(re.escape, names))
        for match in re.finditer(rf"(?m)^(?:{wanted})[ \t]*:.*(?:\n[ \t].*)*", self.text[slice(*self.header)]):
            yield self.header[0] + match.start(), self.header[0] + match.end()


def open_page(path: str, raw: str) -> Page:
    """Make a page of a file's text; front matter and leading comments are found as the sources find them."""
    # Further line breaks that Foreword knows are none to an editor, so lines are counted before they are replaced.
    plain = raw.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    text = normalise(raw)
    end = find_fence(text) if text.startswith(FENCE) else None
    header = (len(FENCE), end) if end is not None else (0, 0)
    rest = text[end:].partition("\n")[2] if end is not None else text
    return Page(
        path=path,
        text=text,
        breaks=tuple(find_breaks(plain)),
        header=header,
        body=(len(text) - len(strip_comments(rest)), len(text)),
        comments=tuple(find_comments(text)),
    )


def find_breaks(text: str) -> Iterator[int]:
    """Find where each line ends."""
    at = text.find("\n")
    while at != -1:
        yield at
        at = text.find("\n", at + 1)


def find_comments(text: str) -> Iterator[Span]:
    """Find the HTML comments; one that is never closed hides all the rest."""
    at = text.find("<!--")
    while at != -1:
        end = text.find("-->", at + 4)
        stop = end + 3 if end != -1 else len(text)
        yield at, stop
        at = text.find("<!--", stop)
