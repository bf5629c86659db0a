"""Forgetting: the words of a memory that was removed leave the recorded prompts too, and a word says so."""

import json
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from foreword.events.prompts import writing
from foreword.store.open import FILE, StoreError, open_events

PLACE = "[forgotten]"
RUN = 8  # words in a row that belong to a text and not to chance; shorter texts count as a whole
FEW = 3  # words below which a text is removed only where it stands alone on a line
STEP = 200  # texts that are looked at at once
WORD = re.compile(r"\w+")
ASIDE = re.compile(rf"{re.escape(FILE)}\.damaged-[0-9TZ-]+")
GAP = r"\W+"
LEAD = r"[ \t>*•–-]*"


def forget_recorded(folder: str, text: str, *, owner: bool) -> str:
    """Remove a text from the prompts that a log holds, and say what came of it; without a log nothing is said."""
    aside = sorted(name for name in list_names(folder) if ASIDE.fullmatch(name))
    notes = [f"A damaged log that was put aside may still hold it: {', '.join(aside)}."] if aside else []
    if FILE in list_names(folder):
        try:
            with closing(open_events(folder).connection) as connection:
                changed = forget(connection, text, owner=owner)
        except (sqlite3.Error, OSError, StoreError) as error:
            notes.insert(0, f"Recorded prompts may still hold it, since the log cannot be changed now: {error}.")
        else:
            notes[:0] = (
                [f"It was removed from recorded prompts, where {say_texts(changed)} held it."] if changed else []
            )
    return " ".join(notes)


def say_texts(number: int) -> str:
    """Count texts in words that fit the number."""
    return f"{number:,} text{'' if number == 1 else 's'}"


def list_names(folder: str) -> list[str]:
    """List what lies in a folder; nothing lies in one that is not there."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def forget(connection: sqlite3.Connection, text: str, *, owner: bool) -> int:
    """Remove a text from every recorded prompt, whole or in parts, and return how many texts were changed.

    It is found however it was wrapped, cut or quoted: by its words in order. Nothing of it stays in free pages. Only
    for the owner are the static blocks and the schemas changed too: no memory stands there, and somebody who saves
    the owner's own rules and has them forgotten must not take them out of the record.
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
        found = [one for one in found if owner or not is_owners(connection, one[1])]
        if found:
            with writing(connection):
                connection.executemany("UPDATE sections SET text = ?, hash = NULL, forgotten = 1 WHERE id = ?", found)
        changed += len(found)
    if changed:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return changed


def is_owners(connection: sqlite3.Connection, section: int) -> bool:
    """Whether a text stands where no memory can: in a static block, or in the schema of a tool."""
    row = connection.execute(
        "SELECT 1 FROM prompt_pieces JOIN prompts ON prompts.id = prompt_id WHERE section_id = ? AND (kind = 'tools'"
        " OR (kind = 'text' AND json_extract(facts, '$.blocks[' || block || '].pace') = 'static')) LIMIT 1",
        (section,),
    ).fetchone()
    return row is not None


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
