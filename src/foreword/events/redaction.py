"""Redaction: secrets in recorded texts, and forgotten memories in recorded prompts and tool arguments."""

import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from foreword.secret import Secret, find_possible_secrets
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


@frozen(eq=True)
class ForgottenMemory:
    """A removed memory: its path and its text."""

    path: str
    """The path as in prompts: the store, then the file."""
    person: str = ""
    """The owner of a personal memory. Only this person's private prompts can contain it, and memories of others may
    have the same path. Empty for a memory of a store.
    """
    text: str = ""
    """The text to search for in all prompts. Only the owner may set it: with text of their choice, others could find
    and delete parts of prompts that are not theirs.
    """


def remove_recorded_memory(folder: str, forgotten: ForgottenMemory) -> str:
    """Remove a memory from the prompts of a log and return a message. Without a log it is empty."""
    damaged = sorted(name for name in list_names(folder) if DAMAGED_LOG_NAME.fullmatch(name))
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
    """Remove a memory from all recorded prompts and tool arguments. Return the number of changed texts.

    Lines that name its path are removed completely. Its words are matched in order, however they were wrapped, cut or
    quoted. Free pages are overwritten.
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
    while rows := connection.execute(
        "SELECT id, text FROM sections WHERE id > ? ORDER BY id LIMIT ?", (last, BATCH_TEXTS)
    ).fetchall():
        last = rows[-1][0]
        found = [(after, row) for row, before in rows if (after := redact_json_text(before, redactor)) != before]
        if found:
            with writing(connection):
                for after, row in found:
                    part = separate_section(connection, row, person) if person else row
                    if part is not None:
                        connection.execute(REPLACE_SECTION, (after, part))
                        changed += 1
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
    """Remove a memory from recorded tool arguments, or from those of one person's calls.

    Arguments are recorded only with `events.arguments`.
    """
    changed, last = 0, 0
    while rows := connection.execute(
        "SELECT id, metadata FROM events WHERE id > ?1 AND instr(metadata, ?2) AND (?3 = '' OR user_id = ?3)"
        " ORDER BY id LIMIT ?4",
        (last, ARGUMENTS_KEY, person, BATCH_TEXTS),
    ).fetchall():
        last = rows[-1][0]
        found = [
            (after, row)
            for row, before in rows
            if (after := rewrite_arguments(before, lambda value: redact_value(value, redactor))) != before
        ]
        if found:
            with writing(connection):
                connection.executemany("UPDATE events SET metadata = ? WHERE id = ?", found)
        changed += len(found)
    return changed


def rewrite_arguments(metadata: str | None, redactor: Callable[[Any], Any]) -> str | None:
    """Apply a function to the tool arguments in the metadata of an event."""
    if not metadata or ARGUMENTS_KEY not in metadata:
        return metadata
    facts = json.loads(metadata)
    if "arguments" not in facts:
        return metadata
    after = {**facts, "arguments": redactor(facts["arguments"])}
    return metadata if after == facts else json.dumps(after, ensure_ascii=False, separators=(",", ":"))


def make_redactor(forgotten: ForgottenMemory) -> Callable[[str], str]:
    """Return a function that removes a memory from a text."""
    words = [word.lower() for word in WORD.findall(forgotten.text)]
    lines = re.compile(rf"(?m)^.*(?:- |\(){re.escape(forgotten.path)}(?:, line | \().*$")
    return lambda text: redact_words(lines.sub(FORGOTTEN_MARKER, text), words)


def redact_json_text(text: str, redactor: Callable[[str], str]) -> str:
    """Redact a text. JSON stays valid JSON."""
    if text[:1] not in ("[", "{"):
        return redactor(text)
    try:
        value = json.loads(text)
    except ValueError:
        return redactor(text)
    after = redact_value(value, redactor)
    return text if after == value else json.dumps(after, ensure_ascii=False)


def redact_value(value: Any, redactor: Callable[[str], str]) -> Any:
    """Redact all strings in a value."""
    if isinstance(value, str):
        return redactor(value)
    if isinstance(value, list):
        return [redact_value(each, redactor) for each in value]
    if isinstance(value, dict):
        return {name: redact_value(each, redactor) for name, each in value.items()}
    return value


def redact_words(text: str, words: list[str]) -> str:
    """Replace every part of a text that consists of the given words in order."""
    if not words:
        return text
    if len(words) < MIN_WORDS:
        pattern = GAP.join(map(re.escape, words))
        return re.sub(rf"(?im)^({LINE_LEAD}){pattern}\W*?$", rf"\1{FORGOTTEN_MARKER}", text)
    parts, at = [], 0
    for start, end in find_word_runs(text, words):
        parts += [text[at:start], FORGOTTEN_MARKER]
        at = end
    return "".join([*parts, text[at:]])


def find_word_runs(text: str, words: list[str]) -> Iterator[tuple[int, int]]:
    """Find the ranges of a text that contain enough of the words in order."""
    size = min(MIN_RUN_WORDS, len(words))
    grams = {tuple(words[at : at + size]) for at in range(len(words) - size + 1)}
    firsts = {gram[0] for gram in grams}
    found = list(WORD.finditer(text))
    words_in_text = [match[0].lower() for match in found]
    start = stop = -1
    for at, word in enumerate(words_in_text):
        if word in firsts and tuple(words_in_text[at : at + size]) in grams:
            if start >= 0 and at > stop:
                yield found[start].start(), found[stop - 1].end()
                start = -1
            start = at if start < 0 else start
            stop = at + size
    if start >= 0:
        yield found[start].start(), found[stop - 1].end()


MAX_CACHED_CHARS = 64  # maximum characters of a text in the cache of harmless texts
MAX_CACHED_TEXTS = 4_096  # maximum size of that cache
SCAN_MARGIN_CHARS = 6_000  # characters to scan beyond the cut; no secret is longer
PRIVATE_KEY_END = "-----end "
REDACTED = "[redacted]"

_LABEL = re.compile(
    r"pass(?:word|wd|phrase)s?$|(?:^|[^a-z])(?:pwd|secrets?|credentials?|authorization|cookies?|token)$"
    r"|(?:api|secret|private|access|auth)[_ -]?keys?$|(?:access|auth|bearer|refresh|bot|api)[_ -]?token$|clientsecret$",
    re.IGNORECASE,
)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")  # word boundaries in camelCase

# Names of tools, models and stores occur in every event, so each is scanned only once.
_harmless: set[str] = set()


def redact(text: str, limit: int) -> str:
    """Return a text without secrets, cut at a limit with a note."""
    if text in _harmless:
        return text
    redacted = _redact(text[: limit + SCAN_MARGIN_CHARS], limit, len(text))
    if redacted == text and len(text) <= MAX_CACHED_CHARS:
        if len(_harmless) >= MAX_CACHED_TEXTS:
            _harmless.clear()
        _harmless.add(text)
    return redacted


def is_secret_label(label: str) -> bool:
    """Return whether the name of a fact indicates that its value is a secret."""
    return _LABEL.search(_HUMP.sub("_", label)) is not None


def _redact(text: str, limit: int, length: int) -> str:
    """Redact the start of a text of a given length, and cut it.

    The scan extends beyond the cut, so that no partial secret remains before it.
    """
    parts, place = [], 0
    for secret in sorted(find_possible_secrets(text), key=lambda secret: secret.first):
        last = find_secret_end(text, secret)
        if secret.first >= limit or last <= place:
            continue
        parts += [text[place : max(place, secret.first)], f"[{secret.what}, redacted]"]
        place = last
    parts.append(text[place:limit])
    redacted = "".join(parts).replace("\0", "\ufffd")
    if not redacted.isascii():
        redacted = redacted.encode("utf-8", "replace").decode()
    return redacted if length <= limit else f"{redacted}… [cut: {length - limit:,} more characters]"


def find_secret_end(text: str, secret: Secret) -> int:
    """Return the end of a secret. A private key extends to its END line."""
    if not text[secret.first : secret.last].startswith("-----"):
        return secret.last
    end = text.lower().find(PRIVATE_KEY_END, secret.last)
    stop = text.find("-----", end + len(PRIVATE_KEY_END)) if end >= 0 else -1
    return stop + 5 if stop >= 0 else len(text)
