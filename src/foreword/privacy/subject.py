"""Redaction: quotations of a person in texts of others are replaced with a placeholder.

Only texts by agents and tools are redacted. Texts written by other people stay unchanged, even if they quote.

Word n-grams: find quotations of a person's texts in other texts. The data subject: ids, names and texts that identify
a person's data in the databases and files.
"""

import json
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from foreword.events.redaction import FORGOTTEN_MARKER, GAP, LINE_LEAD, MIN_RUN_WORDS, MIN_WORDS, WORD
from foreword.types import frozen

if TYPE_CHECKING:
    from foreword.privacy.locations import Databases


WordSequence = tuple[str, ...]
NO_SEQUENCES: Mapping[int, dict[WordSequence, bool]] = {}


class QuoteIndex:
    """The word sequences of a person's texts: eight words each, or a whole shorter text.

    A passage is a quotation if at least one of its sequences is unique to the person.
    """

    def __init__(self) -> None:
        # Indexed by the first two words, which few positions of a long text match.
        self._known: dict[tuple[str, str], dict[int, dict[WordSequence, bool]]] = {}

    def learn(self, text: str, least: int) -> None:
        """Add a text, unless it has fewer words than `least`."""
        words = split_words(text)
        if len(words) < least:
            return
        size = min(MIN_RUN_WORDS, len(words))
        for at in range(len(words) - size + 1):
            self._known.setdefault((words[at], words[at + 1]), {}).setdefault(size, {})[
                tuple(words[at : at + size])
            ] = True

    def share(self, texts: Iterable[str]) -> None:
        """Mark the sequences that also occur in the texts of others as not unique."""
        if not self._known:
            return
        for text in texts:
            words = split_words(text)
            for at, pair in enumerate(pairwise(words)):
                for size, runs in self._known.get(pair, NO_SEQUENCES).items():
                    if (run := tuple(words[at : at + size])) in runs:
                        runs[run] = False

    def wipe(self, text: str) -> str:
        """Replace each quotation with the placeholder."""
        if not self._known:
            return text
        words = list(WORD.finditer(text))
        parts: list[str] = []
        at = 0
        for first, last in self._find([match[0].lower() for match in words]):
            parts += [text[at : words[first].start()], FORGOTTEN_MARKER]
            at = words[last].end()
        return "".join([*parts, text[at:]])

    def _find(self, spoken: list[str]) -> Iterator[tuple[int, int]]:
        """Yield the first and last word index of each quotation."""
        first, stop, alone = 0, -1, False
        for at, pair in enumerate(pairwise(spoken)):
            for size, runs in self._known.get(pair, NO_SEQUENCES).items():
                own = runs.get(tuple(spoken[at : at + size]))
                if own is None:
                    continue
                if at > stop:
                    if alone:
                        yield first, stop - 1
                    first, alone = at, False
                stop, alone = max(stop, at + size), alone or own
        if alone:
            yield first, stop - 1


def split_words(text: str) -> list[str]:
    """Split a text into lower-case words."""
    return [word.lower() for word in WORD.findall(text)]


NO_USER = ""
NAMES_SQL = "(SELECT id FROM theirs WHERE kind = 'name')"
OWN_TEXTS_SQL = (
    f"SELECT text FROM overheard WHERE user_id IN {NAMES_SQL}",
    f"SELECT instructions FROM user_agent_prompt_customizations WHERE user_id IN {NAMES_SQL}",
    f"SELECT say FROM schedules WHERE user_id IN {NAMES_SQL}",
)
OTHER_TEXTS_SQL = (
    f"SELECT text FROM turns WHERE user_id NOT IN {NAMES_SQL}",
    f"SELECT text FROM overheard WHERE user_id NOT IN {NAMES_SQL}",
    f"SELECT instructions FROM user_agent_prompt_customizations WHERE user_id NOT IN {NAMES_SQL}",
)
USER_TABLES = (
    "sessions", "turns", "tokens", "user_agent_prompt_customizations", "identities", "pairings", "overheard",
    "schedules", "profiles", "responsibilities", "held_calls",
)  # fmt: skip


@frozen
class Subject:
    """A person, and the ids and texts by which their data is found."""

    name: str
    names: frozenset[str]
    """The user name, and the channel identities, which also identify them before pairing."""
    said: tuple[str, ...] = ()
    """Texts that the person wrote."""
    kept: tuple[str, ...] = ()
    """Memory entries and facts with the person as author."""
    duties: tuple[tuple[str, str], ...] = ()
    """Title and text of each responsibility that the person added; the prompts of other users contain them."""

    paths: tuple[str, ...] = ()
    """Paths of these entries in shared stores, as `store/file`."""
    own: QuoteIndex
    """Word sequences that only this person has written."""
    remembered: QuoteIndex
    """Word sequences that occur only in this person's memories."""


def list_other_texts(state: sqlite3.Connection | None) -> Iterator[str]:
    """Return the texts of other people."""
    return (text for asked in OTHER_TEXTS_SQL for text in query_column(state, asked))


def list_own_texts(state: sqlite3.Connection | None) -> Iterator[str]:
    """Return the person's texts outside of turns."""
    return (text for asked in OWN_TEXTS_SQL for text in query_column(state, asked))


def query_column(base: sqlite3.Connection | None, asked: str, *values: str) -> list[str]:
    """Return the first column of a query; empty if the database does not exist."""
    return [value for (value,) in base.execute(asked, values) if value] if base else []


def store_subject_ids(base: sqlite3.Connection | None, marks: Mapping[str, Iterable[str]]) -> None:
    """Store the person's ids in the temporary table `theirs` of a connection."""
    if base is None:
        return
    base.execute("CREATE TEMP TABLE IF NOT EXISTS theirs(kind TEXT, id TEXT, PRIMARY KEY (kind, id)) WITHOUT ROWID")
    for kind, ids in marks.items():
        base.execute("DELETE FROM theirs WHERE kind = ?", (kind,))
        base.executemany("INSERT INTO theirs VALUES (?, ?)", [(kind, one) for one in sorted(ids)])


def list_known_people(bases: "Databases") -> list[str]:
    """List all people with stored data, configured or not."""
    names = set(bases.config.users)
    for table in USER_TABLES:
        names.update(query_column(bases.state, f"SELECT DISTINCT user_id FROM {table}"))
    names.update(query_column(bases.log, "SELECT DISTINCT user_id FROM events WHERE user_id IS NOT NULL"))
    names.update(list_folders(os.path.join(bases.root, "users")))
    memory = os.path.join(bases.root, "memory")
    for store in list_folders(memory):
        names.update(list_folders(os.path.join(memory, store, "inbox")))
    return sorted(names - {NO_USER})


def list_folders(path: str) -> Sequence[str]:
    """List the folders in a folder; empty if it does not exist."""
    try:
        return [entry.name for entry in os.scandir(path) if entry.is_dir()]
    except OSError:
        return []


MAX_LABEL_WORDS = 3  # most words of a speaker's name
USER_PROMPT_PART, THINKING_PART = "user-prompt", "thinking"
TEXT_FIELDS = {
    "user-prompt": "content",
    "system-prompt": "content",
    "text": "content",
    "tool-return": "content",
    "tool-call": "args",
    THINKING_PART: "content",
}


class Redactor:
    """Redacts a person's words, and every line with the path of one of their memories."""

    def __init__(self, person: Subject, *, memories: bool = True) -> None:
        self._runs = (person.own, person.remembered) if memories else (person.own,)
        self._duties = person.duties if memories else ()
        few = [
            GAP.join(map(re.escape, words)) for text in person.kept if 0 < len(words := split_words(text)) < MIN_WORDS
        ]
        self._few = re.compile(rf"(?im)^({LINE_LEAD})(?:{'|'.join(few)})\W*?$") if few and memories else None
        name = f"(?:{'|'.join(map(re.escape, sorted(person.names)))})"
        lies, says = rf"/inbox/{name}(?![\w.-])", rf"saved for {name}(?= at | on |,|\))"
        paths = "".join(rf"|(?<![\w.-]){re.escape(path)}(?![\w.-])" for path in person.paths)
        self._lines = re.compile(rf"(?m)^.*(?:{lies}|{says}{paths}).*$")
        self._names = re.compile(rf"((?:inbox/|users/|users\.|user |author: )){name}(?![\w.-]){paths}")

    def wipe(self, text: str) -> str:
        """Redact the person's words in a text."""
        text = self._lines.sub(FORGOTTEN_MARKER, text)
        if self._few:
            text = self._few.sub(rf"\1{FORGOTTEN_MARKER}", text)
        for runs in self._runs:
            text = runs.wipe(text)
        for title, content in self._duties:
            if text == title:
                text = FORGOTTEN_MARKER
            elif title in text and content in text:  # both together are no coincidence
                text = text.replace(content, FORGOTTEN_MARKER).replace(title, FORGOTTEN_MARKER)
        return text

    def unname(self, text: str) -> str:
        """Redact the person's name in paths and in names of budgets."""
        return self._names.sub(lambda found: f"{found[1] or ''}{FORGOTTEN_MARKER}", text)

    def wipe_value(self, value: Any) -> Any:
        """Redact the person's words in every string of a JSON value, JSON inside strings included."""
        if isinstance(value, str):
            return self._wipe_json(value) if value[:1] in ("{", "[") else self.wipe(value)
        if isinstance(value, list):
            return [self.wipe_value(one) for one in value]
        if isinstance(value, dict):
            return {name: self.wipe_value(one) for name, one in value.items()}
        return value

    def _wipe_json(self, text: str) -> str:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return self.wipe(text)
        after = self.wipe_value(value)
        return text if after == value else json.dumps(after, ensure_ascii=False)

    def wipe_messages(self, stored: bytes, own: Iterable[str] = ()) -> bytes:
        """Redact the person's words in stored messages, except in the texts that another person wrote (`own`)."""
        try:
            messages = json.loads(stored)
        except ValueError:
            return stored
        theirs = [split_words(text) for text in own]
        changed = [self._wipe_message(message, theirs) for message in messages]
        return stored if changed == messages else json.dumps(changed, ensure_ascii=False).encode()

    def _wipe_message(self, message: dict[str, Any], own: list[list[str]]) -> dict[str, Any]:
        parts = []
        for part in message.get("parts", ()):
            after = self._wipe_part(part, own)
            # Thinking parts are signed: the provider rejects a changed one, but accepts that an earlier one is missing.
            if after == part or part.get("part_kind") != THINKING_PART:
                parts.append(after)
        return {**message, "parts": parts}

    def _wipe_part(self, part: dict[str, Any], own: list[list[str]]) -> dict[str, Any]:
        kind = part.get("part_kind", "")
        field = TEXT_FIELDS.get(kind)
        if field is None or field not in part:
            return part
        value = part[field]
        if kind == USER_PROMPT_PART:
            texts = value if isinstance(value, list) else [value]
            wiped = [one if is_own_message(one, own) else self.wipe_value(one) for one in texts]
            return {**part, field: wiped if isinstance(value, list) else wiped[0]}
        return {**part, field: self.wipe_value(value)}


def is_own_message(text: Any, own: list[list[str]]) -> bool:
    """Return whether a text is exactly what a person wrote, optionally after a speaker's name."""
    words = split_words(text) if isinstance(text, str) else []
    return any(said and words[-len(said) :] == said and len(words) - len(said) <= MAX_LABEL_WORDS for said in own)
