"""Splits a formatted text into messages: where a reader would pause, never inside a word or a character."""

import re
import unicodedata
from collections.abc import Iterator

from wcwidth import iter_graphemes

from foreword.gateway.channels.telegram.formatted import Formatted, Style, measure

LONGEST = 4_096  # units of UTF-16 in a message
MOST = 100  # marks in a message; Telegram leaves out more than these
_PAUSES = (re.compile(r"\n{2,}"), re.compile(r"\n"), re.compile(r"(?<=[.!?;:,]) "), re.compile(r"\s"))
_JOINS = ("Mn", "Me", "Mc")  # a character of these belongs to the one before


def split(formatted: Formatted, longest: int = LONGEST) -> Iterator[Formatted]:
    """Split a text; between two pieces only white space is left out."""
    start, end = 0, len(formatted.text)
    while start < end:
        reach = find_reach(formatted, start, longest)
        stop, following = (reach, reach) if reach == end else find_cut(formatted, start, reach)
        if formatted.text[start:stop].strip():  # Telegram takes no message of white space
            yield formatted.cut(start, stop)
        start = following


def find_reach(formatted: Formatted, start: int, longest: int) -> int:
    """Find how far a message that begins here can go."""
    text = formatted.text
    reach = min(len(text), start + longest)
    while (over := measure(text[start:reach]) - longest) > 0:
        reach -= (over + 1) // 2
    begins = sorted(mark.start for mark in formatted.marks if mark.end > start and mark.start < reach)
    return max(start + 1, begins[MOST]) if len(begins) > MOST else reach


def find_cut(formatted: Formatted, start: int, reach: int) -> tuple[int, int]:
    """Find where a message ends and where the next one begins."""
    text = formatted.text
    blocks = [(mark.start, mark.end) for mark in formatted.marks if mark.style is Style.BLOCK]
    half = start + (reach - start) // 2
    for whole in (True, False):  # rather between blocks of code than inside one
        for pause in _PAUSES:
            found = None
            for match in pause.finditer(text, start, min(reach + 1, len(text))):
                inside = any(first < match.start() and match.end() < last for first, last in blocks)
                if half <= match.start() <= reach and not (whole and inside) and stands_alone(text, match.end()):
                    found = match
            if found and text[start : found.start()].strip():
                following = found.start() + 1 if is_inside(blocks, found.start()) else skip_space(formatted, found)
                return found.start(), following
    for match in reversed(list(_PAUSES[-1].finditer(text, start, reach))):
        if text[start : match.start()].strip() and stands_alone(text, match.end()):
            return match.start(), match.end()
    return find_boundary(text, start, reach)


def is_inside(blocks: list[tuple[int, int]], place: int) -> bool:
    """Whether a place is inside a block of code, where an indent is part of the line."""
    return any(first <= place < last for first, last in blocks)


def skip_space(formatted: Formatted, found: re.Match[str]) -> int:
    """Skip the space after a cut, up to the next mark: that of a block of code is its own."""
    end = found.end()
    limit = min((mark.start for mark in formatted.marks if mark.start >= end), default=len(formatted.text))
    while end < limit and formatted.text[end].isspace() and stands_alone(formatted.text, end + 1):
        end += 1
    return end


def stands_alone(text: str, place: int) -> bool:
    """Whether the character here begins one of its own, and does not change the one before."""
    if place >= len(text):
        return True
    char = text[place]
    return unicodedata.category(char) not in _JOINS and char not in "\u200d\u200c"


def find_boundary(text: str, start: int, reach: int) -> tuple[int, int]:
    """Find the last place between two characters as a reader sees them; one that is longer than a message is cut."""
    place = start
    for cluster in iter_graphemes(text[start : reach + 64]):
        if place + len(cluster) > reach:
            break
        place += len(cluster)
    place = place if place > start else reach
    return place, place
