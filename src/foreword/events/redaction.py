"""Redaction of forgotten memories in recorded prompts and tool arguments."""

import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from itertools import pairwise
from typing import Any

from foreword.storage.database import EVENTS_FILE, StorageError, open_events, writing
from foreword.types import frozen

FORGOTTEN_MARKER = "[forgotten]"
MIN_RUN_WORDS = 8  # consecutive words that identify a text; a shorter text must match as a whole
MIN_WORDS = 3  # a text with fewer words is removed only if it is alone on a line
BATCH_TEXTS = 200  # texts per batch
WORD = re.compile(r"\w+")
DAMAGED_LOG_NAME = re.compile(rf"{re.escape(EVENTS_FILE)}\.damaged-[0-9TZ-]+")
GAP = r"\W+"
LINE_LEAD = r"[ \t>#*•–-]*"
ARGUMENTS_KEY = '"arguments":'  # in the metadata of an event
REPLACE_SECTION = "UPDATE sections SET text = ?, hash = NULL, forgotten = 1 WHERE id = ?"
# Older prompts do not name the person of a private conversation.
FIND_PIECES = """
SELECT prompt_id, position, coalesce(json_extract(facts, '$.person'), json_extract(facts, '$.clearance.user'))
FROM prompt_pieces JOIN prompts ON prompts.id = prompt_id WHERE section_id = ?"""
FIND_ARGUMENTS = """
SELECT id, metadata FROM events WHERE id > ?1 AND instr(metadata, ?2) AND (?3 = '' OR user_id = ?3)
ORDER BY id LIMIT ?4"""


@frozen(eq=True)
class ForgottenMemory:
    """A removed memory: its path and its text."""

    path: str  # the path as in prompts: the store, then the file
    person: str = ""
    """The owner of a personal memory, in only their private prompts; memories of others may have its path."""
    text: str = ""
    """The text to search for in all prompts. Only the owner may set it, as others could remove foreign texts."""


def remove_recorded_memory(folder: str, forgotten: ForgottenMemory) -> str:
    """Remove a memory from the prompts of a log and return a message. Without a log it is empty."""
    damaged = sorted(filter(DAMAGED_LOG_NAME.fullmatch, list_names(folder)))
    notes = [f"A damaged log that was put aside may still hold it: {', '.join(damaged)}."] if damaged else []
    if EVENTS_FILE in list_names(folder):
        try:
            with closing(open_events(folder).connection) as connection:
                remove_memory(connection, forgotten)
        except (sqlite3.Error, OSError, StorageError) as error:
            notes.insert(0, f"Recorded prompts may still hold it, since the log cannot be changed now: {error}.")
        else:
            notes.insert(0, "Recorded prompts no longer show it.")
    return " ".join(notes)


def list_names(folder: str) -> list[str]:
    """List the names in a folder. A missing folder is empty."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def remove_memory(connection: sqlite3.Connection, forgotten: ForgottenMemory) -> int:
    """Remove a memory from all recorded prompts and tool arguments, and overwrite free pages.

    Return the number of changed texts. Lines that name its path are removed completely.
    """
    redactor = make_redactor(forgotten)
    connection.execute("PRAGMA secure_delete=ON")
    changed = remove_from_prompts(connection, redactor, forgotten.person)
    changed += remove_from_arguments(connection, redactor, forgotten.person)
    if changed:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return changed


def remove_from_prompts(connection: sqlite3.Connection, redactor: Callable[[str], str], person: str) -> int:
    """Remove a memory from all recorded prompts, or from those of one person."""
    changed, last = 0, 0
    query = "SELECT id, text FROM sections WHERE id > ? ORDER BY id LIMIT ?"
    while rows := connection.execute(query, (last, BATCH_TEXTS)).fetchall():
        last = rows[-1][0]
        if found := [(after, row) for row, before in rows if (after := redact_value(before, redactor)) != before]:
            with writing(connection):
                parts = [(after, separate_section(connection, row, person) if person else row) for after, row in found]
                replaced = [(after, part) for after, part in parts if part is not None]
                connection.executemany(REPLACE_SECTION, replaced)
                changed += len(replaced)
    return changed


def separate_section(connection: sqlite3.Connection, section: int, person: str) -> int | None:
    """Give a person's private prompts a separate row for a text that prompts of others share.

    Return the row that only this person's prompts use, or None if none of them contains the text.
    """
    pieces = connection.execute(FIND_PIECES, (section,)).fetchall()
    mine = [(prompt, position) for prompt, position, whose in pieces if whose == person]
    if not mine or len(mine) == len(pieces):
        return section if mine else None
    made = connection.execute("INSERT INTO sections (text) VALUES ('')").lastrowid
    connection.executemany(
        "UPDATE prompt_pieces SET section_id = ? WHERE prompt_id = ? AND position = ?",
        [(made, *place) for place in mine],
    )
    return made


def remove_from_arguments(connection: sqlite3.Connection, redactor: Callable[[str], str], person: str) -> int:
    """Remove a memory from recorded tool arguments, or from those of one person's calls."""
    changed, last = 0, 0
    while rows := connection.execute(FIND_ARGUMENTS, (last, ARGUMENTS_KEY, person, BATCH_TEXTS)).fetchall():
        last = rows[-1][0]
        if found := [(after, row) for row, before in rows if (after := rewrite_arguments(before, redactor)) != before]:
            with writing(connection):
                connection.executemany("UPDATE events SET metadata = ? WHERE id = ?", found)
        changed += len(found)
    return changed


def rewrite_arguments(metadata: str | None, redactor: Callable[[str], str]) -> str | None:
    """Redact the tool arguments in the metadata of an event."""
    if not metadata or ARGUMENTS_KEY not in metadata:
        return metadata
    facts = json.loads(metadata)
    if "arguments" not in facts:
        return metadata
    after = {**facts, "arguments": redact_value(facts["arguments"], redactor)}
    return metadata if after == facts else json.dumps(after, ensure_ascii=False, separators=(",", ":"))


def make_redactor(forgotten: ForgottenMemory) -> Callable[[str], str]:
    """Return a function that removes a memory from a text."""
    quotes, short = QuoteIndex([forgotten.text], MIN_WORDS), compile_short_lines([forgotten.text])
    lines = re.compile(rf"(?m)^.*(?:- |\(){re.escape(forgotten.path)}(?:, line | \().*$")
    return lambda text: quotes.redact(short.sub(rf"\1{FORGOTTEN_MARKER}", lines.sub(FORGOTTEN_MARKER, text)))


def redact_value(value: Any, redactor: Callable[[str], str]) -> Any:
    """Redact every string of a JSON value. JSON inside a string stays valid JSON."""
    if isinstance(value, list):
        return [redact_value(each, redactor) for each in value]
    if isinstance(value, dict):
        return {name: redact_value(each, redactor) for name, each in value.items()}
    if not isinstance(value, str):
        return value
    try:
        inner = json.loads(value) if value[:1] in ("{", "[") else None
    except (ValueError, RecursionError):
        inner = None
    if inner is None:
        return redactor(value)
    after = redact_value(inner, redactor)
    return value if after == inner else json.dumps(after, ensure_ascii=False)


def split_words(text: str) -> list[str]:
    """Split a text into lower-case words."""
    return [word.lower() for word in WORD.findall(text)]


def compile_short_lines(texts: Iterable[str]) -> re.Pattern[str]:
    """Compile a pattern for lines that have only one of the texts with too few words for a quotation."""
    short = [words for text in texts if 0 < len(words := split_words(text)) < MIN_WORDS]
    phrases = "|".join(GAP.join(map(re.escape, words)) for words in short)
    return re.compile(rf"(?im)^({LINE_LEAD})(?:{phrases})\W*?$" if short else r"(?!)()")


WordSequence = tuple[str, ...]
NO_SEQUENCES: Mapping[int, dict[WordSequence, bool]] = {}


class QuoteIndex:
    """The word sequences of texts: eight words each, or a whole shorter text.

    A passage is a quotation if at least one of its sequences does not occur in the texts of others. Words match however
    they were wrapped, cut or quoted.
    """

    def __init__(self, texts: Iterable[str], min_words: int, others: Iterable[str] = ()) -> None:
        # By the first two words, which few positions of a long text match, and by length; True if not of others.
        self._sequences: dict[tuple[str, str], dict[int, dict[WordSequence, bool]]] = {}
        for words in map(split_words, texts):
            size = min(MIN_RUN_WORDS, len(words))
            for start in range(len(words) - size + 1) if len(words) >= min_words else ():
                by_size = self._sequences.setdefault((words[start], words[start + 1]), {})
                by_size.setdefault(size, {})[tuple(words[start : start + size])] = True
        for words in map(split_words, others if self._sequences else ()):
            for _, sequences, sequence in self._find_sequences(words):
                sequences[sequence] = False

    def redact(self, text: str) -> str:
        """Replace each quotation with the placeholder."""
        if not self._sequences:
            return text
        words = list(WORD.finditer(text))
        parts: list[str] = []
        end = 0
        for first, last in self._find_quotations([match[0].lower() for match in words]):
            parts += [text[end : words[first].start()], FORGOTTEN_MARKER]
            end = words[last].end()
        return "".join([*parts, text[end:]])

    def _find_sequences(self, words: list[str]) -> Iterator[tuple[int, dict[WordSequence, bool], WordSequence]]:
        for start, pair in enumerate(pairwise(words)):
            for size, sequences in self._sequences.get(pair, NO_SEQUENCES).items():
                if (sequence := tuple(words[start : start + size])) in sequences:
                    yield start, sequences, sequence

    def _find_quotations(self, words: list[str]) -> Iterator[tuple[int, int]]:
        """Yield the first and last word index of each quotation."""
        first, stop, unique = 0, -1, False
        for start, sequences, sequence in self._find_sequences(words):
            if start > stop:
                if unique:
                    yield first, stop - 1
                first, unique = start, False
            stop, unique = max(stop, start + len(sequence)), unique or sequences[sequence]
        if unique:
            yield first, stop - 1
