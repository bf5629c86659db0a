"""Snippets: the part of a passage that a question is about."""

import re

from foreword.sources.document import one_line

STEM = 5  # letters by which two words are taken for the same
WORD = re.compile(r"\w{3,}")


def find_snippet(text: str, query: str, most: int) -> str:
    """Find the lines of a passage that share most words with a query, in so many characters."""
    words = {word[:STEM] for word in WORD.findall(query.lower())}
    lines = [one_line(line) for line in text.split("\n") if line.strip()]
    if not lines:
        return ""
    scores = [len(words & {word[:STEM] for word in WORD.findall(line.lower())}) for line in lines]
    first = last = max(range(len(lines)), key=lambda at: scores[at])
    while (size := sum(map(len, lines[first : last + 1]))) < most // 2 and last + 1 < len(lines):
        if size + len(lines[last + 1]) > most:
            break
        last += 1
    return cut_around(" ".join(lines[first : last + 1]), words, most)


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
