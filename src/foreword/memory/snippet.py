"""Snippets: the part of a passage that a question is about."""

import re
from typing import NamedTuple

from foreword.sources.document import one_line

STEM = 5  # letters by which two words are taken for the same
WORD = re.compile(r"\w{3,}")


class Snippet(NamedTuple):
    """A part of a passage."""

    text: str
    line: int
    """The line of the passage in which it begins, counted from 0."""


def find_snippet(text: str, query: str, most: int) -> Snippet:
    """Find the lines of a passage that share most words with a query, in so many characters."""
    words = {word[:STEM] for word in WORD.findall(query.lower())}
    places = [at for at, line in enumerate(text.split("\n")) if line.strip()]
    lines = [one_line(line) for line in text.split("\n") if line.strip()]
    if not lines:
        return Snippet("", 0)
    scores = [len(words & {word[:STEM] for word in WORD.findall(line.lower())}) for line in lines]
    first = last = max(range(len(lines)), key=lambda at: scores[at])
    while (size := sum(map(len, lines[first : last + 1]))) < most // 2 and last + 1 < len(lines):
        if size + len(lines[last + 1]) > most:
            break
        last += 1
    return Snippet(cut_around(" ".join(lines[first : last + 1]), words, most), places[first])


def cut_around(line: str, words: set[str], most: int) -> str:
    """Cut a line that is too long around the words that matter."""
    if len(line) <= most:
        return line
    places = [match.start() for match in WORD.finditer(line.lower()) if match[0][:STEM] in words]
    best = max(places, key=lambda at: sum(at <= other < at + most for other in places), default=0)
    start = max(0, min(best - 20, len(line) - most))
    start = line.find(" ", start) + 1 if start else 0
    end = line.rfind(" ", start, start + most)
    end = end if end > start else start + most
    return ("…" if start else "") + line[start:end] + ("…" if end < len(line) else "")
