"""The data subject: the names, ids and texts by which a person's data is found, and the redaction of their words.

Only texts by agents and tools are redacted. Texts written by other people stay unchanged, even if they quote.
"""

import json
import os
import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from foreword.config.schema import Config
from foreword.engine import trust as file_access
from foreword.engine.sources.documents import Document, join_lines
from foreword.engine.sources.files import Files
from foreword.engine.sources.memory_sections import FACTS_FILE, find_fact_text
from foreword.events import redaction
from foreword.events.query import open_log
from foreword.events.record import convert_id
from foreword.events.redaction import FORGOTTEN_MARKER, QuoteIndex, split_words
from foreword.memory.notes import has_more, list_added, remove_added
from foreword.storage import database
from foreword.storage.ledgers import StoredMessage, rewrite_messages
from foreword.storage.rows import fetch_column
from foreword.types import frozen
from foreword.workspace import Workspace

PREPARE_STATEMENTS = (
    "PRAGMA secure_delete=ON",
    "PRAGMA temp_store=MEMORY",
    "CREATE TEMP TABLE subject_ids(kind TEXT, id TEXT, PRIMARY KEY (kind, id)) WITHOUT ROWID",
)


@frozen
class Databases:
    """The open databases and the folders of a workspace. A database that does not exist is an empty one in memory."""

    root: str
    folder: str
    config: Config
    state: sqlite3.Connection
    log: sqlite3.Connection
    budgets: sqlite3.Connection


@contextmanager
def open_databases(workspace: Workspace) -> Iterator[Databases]:
    """Open the databases with `secure_delete`; create no file."""
    folder = workspace.state
    with database.explain_sqlite_errors(folder), ExitStack() as stack:

        def open_one(file: str, schema: database.DatabaseSchema) -> sqlite3.Connection:
            if not os.path.exists(os.path.join(folder, file)):
                connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
                connection.executescript(schema.read())
            elif file == database.STATE_FILE:
                connection = database.open_state(folder).connection
            else:
                way = database.open_events if file == database.EVENTS_FILE else database.open_budgets
                connection = open_log(folder, way).connection
            stack.enter_context(closing(connection))
            for statement in PREPARE_STATEMENTS:
                connection.execute(statement)
            return connection

        yield Databases(
            root=workspace.files.root,
            folder=folder,
            config=workspace.config,
            state=open_one(database.STATE_FILE, database.STATE_SCHEMA),
            log=open_one(database.EVENTS_FILE, database.EVENTS_SCHEMA),
            budgets=open_one(database.BUDGETS_FILE, database.EVENTS_SCHEMA),
        )


def select_ids(kind: str) -> str:
    """Return the SQL subquery for the person's ids of a kind, which `identify_subject` stores in a temporary table."""
    return f"(SELECT id FROM subject_ids WHERE kind = '{kind}')"


def store_ids(connection: sqlite3.Connection, kind: str, ids: Iterable[str]) -> None:
    """Store the person's ids of a kind in the temporary table of a connection."""
    connection.execute("DELETE FROM subject_ids WHERE kind = ?", (kind,))
    connection.executemany("INSERT INTO subject_ids VALUES (?, ?)", [(kind, value) for value in sorted(set(ids))])


def query_column(connection: sqlite3.Connection, query: str, *values: str) -> list[str]:
    """Return the values of the first column of a query that are not empty."""
    return [value for value in fetch_column(connection, query, *values) if value]


OWN_NAMES_SQL, LOGGED_NAMES_SQL = select_ids("name"), select_ids("logged")
OWN_ROWS_SQL = f"user_id IN {OWN_NAMES_SQL}"
OWN_SESSIONS_SQL = f"session_id IN {select_ids('session')}"
OWN_TURNS_SQL = f"turn_id IN {select_ids('turn')}"
TEXT_COLUMNS = (("overheard", "text"), ("user_agent_prompt_customizations", "instructions"))
USER_TABLES = (
    "sessions", "turns", "tokens", "user_agent_prompt_customizations", "identities", "pairings", "overheard",
    "schedules", "profiles", "responsibilities", "held_calls",
)  # fmt: skip
# Custom agent loops may have sessions that are not in the state; the log shows whose they were.
LOG_ONLY_SESSIONS_SQL = (
    "SELECT session_id FROM (SELECT DISTINCT session_id FROM events"
    f" WHERE user_id IN {LOGGED_NAMES_SQL} AND session_id IS NOT NULL AND room IS NULL) AS own"
    " WHERE NOT EXISTS (SELECT 1 FROM events AS other WHERE other.session_id = own.session_id"
    f" AND other.user_id IS NOT NULL AND other.user_id NOT IN {LOGGED_NAMES_SQL})"
)


def list_people(databases: Databases) -> list[str]:
    """List all people with stored data, configured or not."""
    names = {*databases.config.users, *list_folders(os.path.join(databases.root, file_access.USERS_FOLDER))}
    for table in USER_TABLES:
        names.update(query_column(databases.state, f"SELECT DISTINCT user_id FROM {table}"))
    names.update(query_column(databases.log, "SELECT DISTINCT user_id FROM events"))
    memory = os.path.join(databases.root, file_access.MEMORY_FOLDER)
    for store in list_folders(memory):
        names.update(list_folders(os.path.join(memory, store, "inbox")))
    return sorted(names)


def list_folders(path: str) -> Sequence[str]:
    """List the folders in a folder; empty if it does not exist."""
    return next(os.walk(path), ("", [], []))[1]


@frozen
class Subject:
    """A person, and the ids and texts by which their data is found."""

    name: str
    names: frozenset[str]  # the user name, and the channel identities, which also identify them before pairing
    messages: tuple[str, ...]  # texts that the person wrote
    memories: tuple[str, ...]  # memory entries and facts with the person as author
    responsibilities: tuple[tuple[str, str], ...]  # title and text of each one that the person added
    paths: tuple[str, ...]  # paths of the memory entries in shared stores, as `store/file`
    message_quotes: QuoteIndex  # word sequences that only this person has written
    memory_quotes: QuoteIndex  # word sequences that occur only in this person's memories


def identify_subject(databases: Databases, name: str) -> Subject:
    """Find all ids and texts of a person, and store the ids in a temporary table of each database."""
    state, log = databases.state, databases.log
    connections = (state, log, databases.budgets)
    user = databases.config.users.get(name)
    paired = query_column(state, "SELECT identity FROM identities WHERE user_id = ?", name)
    names = frozenset({name, *paired, *(user.identities if user else ())})
    for connection in connections:
        store_ids(connection, "name", names)
        store_ids(connection, "logged", [convert_id(one) or "" for one in names])
    sessions = set(query_column(log, LOG_ONLY_SESSIONS_SQL)) - set(query_column(state, "SELECT id FROM sessions"))
    sessions.update(query_column(state, f"SELECT id FROM sessions WHERE {OWN_ROWS_SQL}"))
    store_ids(state, "session", sessions)
    query = f"SELECT id, text, prompt_hash FROM turns WHERE {OWN_ROWS_SQL} OR {OWN_SESSIONS_SQL}"
    turns = state.execute(query).fetchall()
    turn_ids = [turn for turn, _, _ in turns]
    traces = query_column(log, f"SELECT trace_id FROM events WHERE user_id IN {LOGGED_NAMES_SQL}")
    prompts = query_column(log, f"SELECT prompt_hash FROM events WHERE user_id IN {LOGGED_NAMES_SQL}")
    memories = read_own_memories(databases.root, names)
    for connection in connections:
        store_ids(connection, "session", sessions)
        store_ids(connection, "turn", turn_ids)
        store_ids(connection, "trace", [*turn_ids, *traces])
        store_ids(connection, "prompt", [*prompts, *(key for _, _, key in turns if key)])
        store_ids(connection, "memory", ["any"] if memories else [])
    messages = [text for _, text, _ in turns]
    for table, column in (*TEXT_COLUMNS, ("schedules", "say")):
        messages += query_column(state, f"SELECT {column} FROM {table} WHERE {OWN_ROWS_SQL}")
    others: list[str] = []
    for table, column in (("turns", "text"), *TEXT_COLUMNS):
        others += query_column(state, f"SELECT {column} FROM {table} WHERE user_id NOT IN {OWN_NAMES_SQL}")
    added = f"SELECT title, content FROM responsibilities WHERE {OWN_ROWS_SQL}"
    paths = [path for path in list_authored_files(databases.root, names) if not file_access.find_own_person(path)]
    return Subject(
        name=name,
        names=names,
        messages=tuple(dict.fromkeys(messages)),
        memories=tuple(dict.fromkeys(memories)),
        responsibilities=tuple(state.execute(added).fetchall()),
        paths=tuple(map(file_access.show_path, paths)),
        message_quotes=QuoteIndex(messages, redaction.MIN_RUN_WORDS, others),
        memory_quotes=QuoteIndex(memories, redaction.MIN_WORDS, [*others, *read_other_memories(databases.root, names)]),
    )


def list_memory_files(root: str) -> Iterator[str]:
    """List all memory files, also outside of configured stores; links are not followed."""
    own = map(file_access.find_own_folder, sorted(list_folders(os.path.join(root, file_access.USERS_FOLDER))))
    real_root = os.path.realpath(root)
    unlinked = [top for top in own if os.path.realpath(os.path.join(root, top)) == os.path.join(real_root, top)]
    for top in (file_access.MEMORY_FOLDER, *unlinked):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                path = os.path.join(folder, name)
                if os.path.isfile(path) and not os.path.islink(path):
                    yield os.path.relpath(path, root).replace(os.sep, "/")


def list_authored_files(root: str, names: Collection[str]) -> Iterator[str]:
    """List the memories whose author, by folder or by front matter, is one of the names.

    All files of a person's own memory belong to the person, regardless of the author.
    """
    files = Files(root)
    for path in list_memory_files(root):
        author = file_access.find_own_person(path) or file_access.find_author(path)
        if author in names or (author in ("", file_access.UNKNOWN_AUTHOR) and names_author(files, path, names)):
            yield path


def names_author(files: Files, path: str, names: Collection[str]) -> bool:
    """Return whether the front matter names one of the people as author of an entry, promoted ones included.

    A promoted entry with later additions counts as a note of the owner.
    """
    document = files.read(path) if path.endswith(".md") else None
    if not isinstance(document, Document) or has_more(document):
        return False
    author, *others = (join_lines(document.field(field)) for field in ("author", "clearance", "time"))
    return author in names and all(others)


def list_additions(root: str, names: Collection[str]) -> Iterator[tuple[str, str]]:
    """List the texts by these authors in notes, each with its file; a text edited after its promotion is empty."""
    for path in list_memory_files(root):
        if path.endswith(".md") and not file_access.find_author(path):
            for added in list_added(read_file_text(os.path.join(root, path))):
                if added.author in names:
                    yield path, added.text


def load_facts(root: str) -> list[object]:
    """Load the facts; empty if the file is missing or invalid."""
    try:
        with open(os.path.join(root, FACTS_FILE), encoding="utf-8") as file:
            facts = json.load(file)
    except (OSError, ValueError, RecursionError):
        return []
    return facts if isinstance(facts, list) else []


def find_facts(root: str, names: Collection[str]) -> dict[int, str]:
    """Return the facts by these authors by their position in the file."""
    return {
        position: next(find_fact_text(fact), "")
        for position, fact in enumerate(load_facts(root))
        if isinstance(fact, dict) and fact.get("author") in names
    }


def read_own_memories(root: str, names: Collection[str]) -> list[str]:
    """Return the texts of all entries, facts and additions of the given authors."""
    files = Files(root)
    documents = (files.read(path) for path in list_authored_files(root, names))
    entries = [document.body for document in documents if isinstance(document, Document)]
    return [*entries, *find_facts(root, names).values(), *(text for _, text in list_additions(root, names) if text)]


def read_other_memories(root: str, names: Collection[str]) -> Iterator[str]:
    """Return all other memory texts, by other authors or written by hand."""
    own = frozenset(list_authored_files(root, names))
    texts = (read_file_text(os.path.join(root, path)) for path in list_memory_files(root) if path not in own)
    return (remove_added(text, names) for text in texts)


def read_file_text(path: str) -> str:
    """Read a file without newline conversion."""
    with open(path, encoding="utf-8", errors="replace", newline="") as file:
        return file.read()


MAX_LABEL_WORDS = 3  # most words of a speaker's name
USER_ROLE, THINKING_PART = "user", "thinking"
TEXT_FIELDS = {"text": "text", "result": "text", "call": "arguments", THINKING_PART: "text"}
"""The fields with text in the parts of a stored message, by the type of the part."""


class Redactor:
    """Redacts a person's words, and every line with the path of one of their memories."""

    def __init__(self, person: Subject, *, memories: bool = True) -> None:
        self._quotes = (person.message_quotes, person.memory_quotes) if memories else (person.message_quotes,)
        self._responsibilities = person.responsibilities if memories else ()
        self._short_memories = redaction.compile_short_lines(person.memories if memories else ())
        name = f"(?:{'|'.join(map(re.escape, sorted(person.names)))})"
        inbox, author = rf"/inbox/{name}(?![\w.-])", rf"saved for {name}(?= at | on |,|\))"
        paths = "".join(rf"|(?<![\w.-]){re.escape(path)}(?![\w.-])" for path in person.paths)
        self._lines = re.compile(rf"(?m)^.*(?:{inbox}|{author}{paths}).*$")
        self._names = re.compile(rf"((?:inbox/|users/|users\.|user |author: )){name}(?![\w.-]){paths}")

    def redact(self, text: str) -> str:
        """Redact the person's words in a text."""
        text = self._short_memories.sub(rf"\1{FORGOTTEN_MARKER}", self._lines.sub(FORGOTTEN_MARKER, text))
        for quotes in self._quotes:
            text = quotes.redact(text)
        for title, content in self._responsibilities:
            if text == title:
                text = FORGOTTEN_MARKER
            elif title in text and content in text:  # both together are no coincidence
                text = text.replace(content, FORGOTTEN_MARKER).replace(title, FORGOTTEN_MARKER)
        return text

    def finds_words(self, text: str) -> bool:
        """Return whether a text has the person's words."""
        return self.redact(text) != text

    def redact_names(self, text: str) -> str:
        """Redact the person's name in paths and in names of budgets."""
        return self._names.sub(lambda found: f"{found[1] or ''}{FORGOTTEN_MARKER}", text)

    def redact_messages(self, stored: bytes, own_text: str) -> bytes:
        """Redact the person's words in stored messages, except in the text that another person wrote (`own_text`)."""
        own_words = split_words(own_text)
        try:
            return rewrite_messages(stored, lambda message: self._redact_message(message, own_words))
        except ValueError:  # a damaged row cannot be read as messages; its text is redacted all the same
            return self.redact(stored.decode("utf-8", "replace")).encode()

    def _redact_message(self, message: StoredMessage, own_words: list[str]) -> StoredMessage:
        parts = list(self._redact_parts(message, own_words))
        system = {"system": self.redact(message["system"])} if "system" in message else {}
        return {**message, "parts": parts, **system}

    def _redact_parts(self, message: StoredMessage, own_words: list[str]) -> Iterator[dict[str, Any]]:
        for part in message["parts"]:
            field = TEXT_FIELDS.get(part["type"], "")
            text = part.get(field, "")
            if not text or (message["role"] == USER_ROLE and is_own_message(text, own_words)):
                yield part
                continue
            after = redaction.redact_value(text, self.redact)
            # Thinking parts are signed: the provider rejects a changed one, but accepts that an earlier one is missing.
            if after == text or part["type"] != THINKING_PART:
                yield {**part, field: after}


def is_own_message(text: Any, own_words: list[str]) -> bool:
    """Return whether a text is exactly what a person wrote, optionally after a speaker's name."""
    if not own_words or not isinstance(text, str):
        return False
    words = split_words(text)
    return words[-len(own_words) :] == own_words and len(words) - len(own_words) <= MAX_LABEL_WORDS
