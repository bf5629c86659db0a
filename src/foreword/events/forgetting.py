"""Forgetting: remove the words of a removed memory from recorded prompts and recorded tool arguments."""

import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from foreword.events.prompts import writing
from foreword.frozen import frozen
from foreword.store.open import FILE, open_events
from foreword.store.schema import StoreError

PLACE = "[forgotten]"
RUN = 8  # words in a row that belong to a text and not to chance; shorter texts count as a whole
FEW = 3  # words below which a text is removed only where it stands alone on a line
STEP = 200  # texts that are looked at at once
WORD = re.compile(r"\w+")
ASIDE = re.compile(rf"{re.escape(FILE)}\.damaged-[0-9TZ-]+")
GAP = r"\W+"
LEAD = r"[ \t>#*•–-]*"
ARGUMENTS = '"arguments":'  # in the metadata of an event
REPLACE = "UPDATE sections SET text = ?, hash = NULL, forgotten = 1 WHERE id = ?"
# Older prompts do not name the person of a private conversation.
PIECES = """
SELECT prompt_id, position, coalesce(json_extract(facts, '$.person'), json_extract(facts, '$.clearance.user'))
FROM prompt_pieces JOIN prompts ON prompts.id = prompt_id WHERE section_id = ?"""


@frozen(eq=True)
class Forgotten:
    """A memory that is no more: where it was, and what it said."""

    path: str
    """As the prompts name it: the store, then the file."""
    person: str = ""
    """The person whose own memory it was: only their private prompts can have it, and another's may name the same
    path. Nothing for a memory of a store."""
    text: str = ""
    """Its words, where they may be looked for everywhere. Whoever is not the owner is believed for the path alone:
    with words of their own choice they could find out, and wipe out, what prompts of others say."""


def forget_recorded(folder: str, forgotten: Forgotten) -> str:
    """Remove a memory from the prompts that a log holds, and say what came of it; without a log nothing is said."""
    aside = sorted(name for name in list_names(folder) if ASIDE.fullmatch(name))
    notes = [f"A damaged log that was put aside may still hold it: {', '.join(aside)}."] if aside else []
    if FILE in list_names(folder):
        try:
            with closing(open_events(folder).connection) as connection:
                forget(connection, forgotten)
        except (sqlite3.Error, OSError, StoreError) as error:
            notes.insert(0, f"Recorded prompts may still hold it, since the log cannot be changed now: {error}.")
        else:
            notes.insert(0, "Recorded prompts no longer show it.")
    return " ".join(notes)


def list_names(folder: str) -> list[str]:
    """List what lies in a folder; nothing lies in one that is not there."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def forget(connection: sqlite3.Connection, forgotten: Forgotten) -> int:
    """Remove a memory from every recorded prompt and tool argument, and return how many texts were changed.

    Lines that name its path go whole. Its words are found however they were wrapped, cut or quoted: in their order.
    Nothing of it stays in free pages.
    """
    wipe = make_wipe(forgotten)
    connection.execute("PRAGMA secure_delete=ON")
    changed = forget_prompts(connection, wipe, forgotten.person)
    changed += forget_arguments(connection, wipe, forgotten.person)
    if changed:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return changed


def forget_prompts(connection: sqlite3.Connection, wipe: Callable[[str], str], person: str) -> int:
    """Remove a memory from every recorded prompt, or from those of one person."""
    changed, last = 0, 0
    while rows := connection.execute(
        "SELECT id, text FROM sections WHERE id > ? ORDER BY id LIMIT ?", (last, STEP)
    ).fetchall():
        last = rows[-1][0]
        found = [(after, row) for row, before in rows if (after := blot_whole(before, wipe)) != before]
        if found:
            with writing(connection):
                for after, row in found:
                    part = split_off(connection, row, person) if person else row
                    if part is not None:
                        connection.execute(REPLACE, (after, part))
                        changed += 1
    return changed


def split_off(connection: sqlite3.Connection, section: int, person: str) -> int | None:
    """Give a person's private prompts a row of their own for a text that prompts of others have as well.

    Return the row that only this person's prompts have, or None where none of them has the text.
    """
    pieces = connection.execute(PIECES, (section,)).fetchall()
    mine = [(prompt, position) for prompt, position, whose in pieces if whose == person]
    if not mine or len(mine) == len(pieces):
        return section if mine else None
    made = connection.execute("INSERT INTO sections (text) VALUES ('')").lastrowid
    connection.executemany(
        "UPDATE prompt_pieces SET section_id = ? WHERE prompt_id = ? AND position = ?",
        [(made, *place) for place in mine],
    )
    return made


def forget_arguments(connection: sqlite3.Connection, wipe: Callable[[str], str], person: str) -> int:
    """Remove a memory from the recorded arguments of tools, or from those of one person's calls.

    Without `events.arguments` there are none.
    """
    changed, last = 0, 0
    while rows := connection.execute(
        "SELECT id, metadata FROM events WHERE id > ?1 AND instr(metadata, ?2) AND (?3 = '' OR user_id = ?3)"
        " ORDER BY id LIMIT ?4",
        (last, ARGUMENTS, person, STEP),
    ).fetchall():
        last = rows[-1][0]
        found = [
            (after, row)
            for row, before in rows
            if (after := wipe_arguments(before, lambda value: blot_value(value, wipe))) != before
        ]
        if found:
            with writing(connection):
                connection.executemany("UPDATE events SET metadata = ? WHERE id = ?", found)
        changed += len(found)
    return changed


def wipe_arguments(metadata: str | None, wipe: Callable[[Any], Any]) -> str | None:
    """Wipe the arguments of a tool in the metadata of an event; everything else stays."""
    if not metadata or ARGUMENTS not in metadata:
        return metadata
    facts = json.loads(metadata)
    if "arguments" not in facts:
        return metadata
    after = {**facts, "arguments": wipe(facts["arguments"])}
    return metadata if after == facts else json.dumps(after, ensure_ascii=False, separators=(",", ":"))


def make_wipe(forgotten: Forgotten) -> Callable[[str], str]:
    """Make what takes a memory out of a text."""
    words = [word.lower() for word in WORD.findall(forgotten.text)]
    lines = re.compile(rf"(?m)^.*(?:- |\(){re.escape(forgotten.path)}(?:, line | \().*$")
    return lambda text: blot(lines.sub(PLACE, text), words)


def blot_whole(text: str, wipe: Callable[[str], str]) -> str:
    """Blot a text; what is JSON stays JSON."""
    if text[:1] not in ("[", "{"):
        return wipe(text)
    try:
        value = json.loads(text)
    except ValueError:
        return wipe(text)
    after = blot_value(value, wipe)
    return text if after == value else json.dumps(after, ensure_ascii=False)


def blot_value(value: Any, wipe: Callable[[str], str]) -> Any:
    """Blot every text in a value."""
    if isinstance(value, str):
        return wipe(value)
    if isinstance(value, list):
        return [blot_value(one, wipe) for one in value]
    if isinstance(value, dict):
        return {name: blot_value(one, wipe) for name, one in value.items()}
    return value


def blot(text: str, words: list[str]) -> str:
    """Put a word in the place of every part of a text that consists of the given ones in their order."""
    if not words:
        return text
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
