"""Forgetting: the words of a memory that was removed leave the recorded prompts too, and a word says so."""

import json
import re
import sqlite3
from collections.abc import Iterator
from typing import Any

from foreword.events.prompts import writing

PLACE = "[forgotten]"
RUN = 8  # words in a row that belong to a text and not to chance; shorter texts count as a whole
FEW = 3  # words below which a text is removed only where it stands alone on a line
STEP = 200  # texts that are looked at between two looks at the clock of others
WORD = re.compile(r"\w+")
GAP = r"\W+"
LEAD = r"[ \t>*•–-]*"


def forget(connection: sqlite3.Connection, text: str) -> int:
    """Remove a text from every recorded prompt, whole or in parts, and return how many texts were changed.

    It is found however it was wrapped, cut or quoted: by its words in order. Nothing of it stays in free pages.
    """
    words = [word.lower() for word in WORD.findall(text)]
    if not words:
        return 0
    connection.execute("PRAGMA secure_delete=ON")
    changed, last = 0, 0
    while rows := connection.execute(
        "SELECT id, text FROM sections WHERE id > ? ORDER BY id LIMIT ?", (last, STEP)
    ).fetchall():
        last = rows[-1][0]
        found = [(after, row) for row, before in rows if (after := blot_whole(before, words)) != before]
        if found:
            with writing(connection):
                connection.executemany("UPDATE sections SET text = ?, hash = NULL, forgotten = 1 WHERE id = ?", found)
        changed += len(found)
    if changed:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return changed


def blot_whole(text: str, words: list[str]) -> str:
    """Blot a text; what is JSON stays JSON."""
    if text[:1] not in ("[", "{"):
        return blot(text, words)
    try:
        value = json.loads(text)
    except ValueError:
        return blot(text, words)
    after = blot_value(value, words)
    return text if after == value else json.dumps(after, ensure_ascii=False)


def blot_value(value: Any, words: list[str]) -> Any:
    """Blot every text in a value."""
    if isinstance(value, str):
        return blot(value, words)
    if isinstance(value, list):
        return [blot_value(one, words) for one in value]
    if isinstance(value, dict):
        return {name: blot_value(one, words) for name, one in value.items()}
    return value


def blot(text: str, words: list[str]) -> str:
    """Put a word in the place of every part of a text that consists of the given ones in their order."""
    if len(words) < FEW:
        said = GAP.join(map(re.escape, words))
        return re.sub(rf"(?im)^({LEAD}){said}\W*?$", rf"\1{PLACE}", text)
    parts, at = [], 0
    for start, end in find_runs(text, words):
        parts += [text[at:start], PLACE]
        at = end
    return "".join([*parts, text[at:]])


def find_runs(text: str, words: list[str]) -> Iterator[tuple[int, int]]:
    """Find where a text has enough of the words in a row."""
    size = min(RUN, len(words))
    grams = {tuple(words[at : at + size]) for at in range(len(words) - size + 1)}
    firsts = {gram[0] for gram in grams}
    found = list(WORD.finditer(text))
    spoken = [match[0].lower() for match in found]
    start = stop = -1
    for at, word in enumerate(spoken):
        if word in firsts and tuple(spoken[at : at + size]) in grams:
            if start >= 0 and at > stop:
                yield found[start].start(), found[stop - 1].end()
                start = -1
            start = at if start < 0 else start
            stop = at + size
    if start >= 0:
        yield found[start].start(), found[stop - 1].end()
