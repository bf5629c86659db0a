"""Personal data in the event log: events, totals by name, and recorded prompts.

Identification of a person: names, ids in all databases, texts, and the word sequences unique to them. Prompt cache
ledgers: those of the person's sessions are deleted, others with their words are emptied. Personal data in shared
sessions: summaries, copied room messages and quotations.
"""

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from foreword.engine.file_access import find_own_person, show_path
from foreword.events.event import EventType, Reader
from foreword.events.record import RECORD_SELECT, read_record
from foreword.events.record import convert_id as name_logged
from foreword.events.redaction import ARGUMENTS_KEY, BATCH_TEXTS, MIN_RUN_WORDS, MIN_WORDS, rewrite_arguments
from foreword.events.sent_prompts import read_prompt
from foreword.events.totals import FIGURES, TOTALS_KEY
from foreword.privacy.file_locations import list_authored_files, read_other_memories, read_own_memories
from foreword.privacy.locations import LOG_DATABASE, STATE_DATABASE, Databases, DataLocation, ExportedItem, ItemLocation
from foreword.privacy.subject import (
    NAMES_SQL,
    NO_USER,
    QuoteIndex,
    Redactor,
    Subject,
    list_other_texts,
    list_own_texts,
    query_column,
    store_subject_ids,
)
from foreword.storage.ledgers import drop_ledger, empty_ledger, find_sessions_with_text, is_ledger_empty
from foreword.types import Trust

LOGGED_NAMES_SQL = "(SELECT id FROM theirs WHERE kind = 'logged')"
# Custom agent loops may have sessions that are not in the state; the log shows whose they were.
LOG_ONLY_SESSIONS_SQL = (
    "SELECT session_id FROM (SELECT DISTINCT session_id FROM events"
    f" WHERE user_id IN {LOGGED_NAMES_SQL} AND session_id IS NOT NULL AND room IS NULL) AS own"
    " WHERE NOT EXISTS (SELECT 1 FROM events AS other WHERE other.session_id = own.session_id"
    f" AND other.user_id IS NOT NULL AND other.user_id NOT IN {LOGGED_NAMES_SQL})"
)
RESPONSIBILITIES_SQL = f"SELECT title, content FROM responsibilities WHERE user_id IN {NAMES_SQL}"
PERSON_TURNS_SQL = (
    f"SELECT id, text, prompt_hash FROM turns WHERE user_id IN {NAMES_SQL}"
    " OR session_id IN (SELECT id FROM theirs WHERE kind = 'session')"
)


def identify_subject(bases: Databases, name: str) -> Subject:
    """Find all ids and texts of a person, and store the ids in a temporary table of each database."""
    state, log = bases.state, bases.log
    names = find_names(bases, name)
    marks = {"name": names, "logged": {name_logged(one) or NO_USER for one in names}}
    for base in (state, log, bases.budgets):
        store_subject_ids(base, marks)
    sessions = set(query_column(state, f"SELECT id FROM sessions WHERE user_id IN {NAMES_SQL}"))
    sessions |= set(query_column(log, LOG_ONLY_SESSIONS_SQL)) - set(query_column(state, "SELECT id FROM sessions"))
    store_subject_ids(state, {"session": sessions})
    rows = state.execute(PERSON_TURNS_SQL).fetchall() if state else []
    turns = {row[0] for row in rows}
    traces = turns | set(query_column(log, f"SELECT trace_id FROM events WHERE user_id IN {LOGGED_NAMES_SQL}"))
    prompts = {row[2] for row in rows if row[2]}
    prompts |= set(query_column(log, f"SELECT prompt_hash FROM events WHERE user_id IN {LOGGED_NAMES_SQL}"))
    for base in (state, log, bases.budgets):
        store_subject_ids(base, {"session": sessions, "turn": turns, "trace": traces, "prompt": prompts})
    said = [*(row[1] for row in rows), *list_own_texts(state)]
    kept = read_own_memories(bases.root, names)
    duties = state.execute(RESPONSIBILITIES_SQL).fetchall() if state else []
    return Subject(
        name=name,
        names=frozenset(names),
        said=tuple(dict.fromkeys(said)),
        kept=tuple(dict.fromkeys(kept)),
        duties=tuple(duties),
        paths=tuple(show_path(path) for path in list_authored_files(bases.root, names) if not find_own_person(path)),
        own=index_texts(said, MIN_RUN_WORDS, list_other_texts(state)),
        remembered=index_texts(kept, MIN_WORDS, (*list_other_texts(state), *read_other_memories(bases.root, names))),
    )


def find_names(bases: Databases, name: str) -> set[str]:
    """Return the name of a person and their paired and configured identities."""
    user = bases.config.users.get(name)
    paired = query_column(bases.state, "SELECT identity FROM identities WHERE user_id = ?", name)
    return {name, *paired, *(user.identities if user else ())}


def index_texts(texts: Iterable[str], least: int, others: Iterable[str]) -> QuoteIndex:
    """Index a person's texts; passages that also occur in the texts of others do not count as quotations."""
    runs = QuoteIndex()
    for text in texts:
        runs.learn(text, least)
    runs.share(others)
    return runs


OWN_SESSIONS_SQL = "session_id IN (SELECT id FROM theirs WHERE kind = 'session')"
SPOKEN_SESSIONS_SQL = (
    "session_id IN (SELECT session_id FROM turns WHERE id IN (SELECT id FROM theirs WHERE kind = 'turn'))"
)


class LedgerLocation(DataLocation):
    """Ledgers of the person's sessions, and ledgers whose texts or hashes contain their words."""

    name = "ledgers of what was sent"
    base = STATE_DATABASE
    where = ".foreword/state.sqlite"
    claims = ("state.ledgers.frozen", "state.ledgers.base", "state.bases.*")

    def find(self, bases: Databases, person: Subject) -> int:
        """Count the ledgers."""
        state = bases.state
        return len(list_own_ledgers(state)) + len(set(list_other_ledgers(state, person))) if state else 0

    def forget(self, bases: Databases, person: Subject) -> int:
        """Delete the person's ledgers and empty the others, which rebases their sessions."""
        state = bases.state
        if state is None:
            return 0
        own, others = list_own_ledgers(state), set(list_other_ledgers(state, person))
        for session in own:
            drop_ledger(state, session)
        for session in others:
            empty_ledger(state, session)
        return len(own) + len(others)


def list_own_ledgers(state: sqlite3.Connection) -> list[str]:
    """List the person's sessions that have a ledger."""
    return [session for (session,) in state.execute(f"SELECT session_id FROM ledgers WHERE {OWN_SESSIONS_SQL}")]


def list_other_ledgers(state: sqlite3.Connection, person: Subject) -> Iterator[str]:
    """List the other sessions in which the person spoke, or whose prompt contained their words."""
    own = set(list_own_ledgers(state))
    for (session,) in state.execute(f"SELECT session_id FROM ledgers WHERE {SPOKEN_SESSIONS_SQL}").fetchall():
        if session not in own and not is_ledger_empty(state, session):
            yield session
    for session in find_sessions_with_text(state, make_quote_check(person)):
        if session not in own:
            yield session


def make_quote_check(person: Subject) -> Callable[[str], bool]:
    """Return a function that checks a text for the person's words."""
    blotter = Redactor(person)
    return lambda text: blotter.wipe(text) != text


LOG_PATH = ".foreword/events.sqlite"
OWN_EVENTS_SQL = f"(user_id IN {LOGGED_NAMES_SQL} OR trace_id IN (SELECT id FROM theirs WHERE kind = 'trace'))"
OWN_PROMPTS_SQL = (
    "hash IN (SELECT id FROM theirs WHERE kind = 'prompt')"
    " AND hash NOT IN (SELECT prompt_hash FROM events WHERE prompt_hash IS NOT NULL"
    f" AND coalesce(user_id, '') NOT IN {LOGGED_NAMES_SQL})"
)
UNREFERENCED_PROMPTS_SQL = "hash NOT IN (SELECT prompt_hash FROM events WHERE prompt_hash IS NOT NULL)"
TOTAL_TABLES = ("totals_quarter", "totals_day")
OWN_TOTALS_SQL = f"owner IN {LOGGED_NAMES_SQL}"
NAMED_TOTALS_SQL = (
    f"owner NOT IN {LOGGED_NAMES_SQL} AND (kind = 'user' AND name IN {LOGGED_NAMES_SQL}"
    " OR kind = 'session' AND name IN (SELECT id FROM theirs WHERE kind = 'session'))"
)
TOOL_ERROR_TYPE = EventType.TOOL_ERROR.value
FULL_READER = Reader(user="", clearance=Trust.FULL)


class PromptLocation(DataLocation):
    """Recorded prompts of the person's turns; a prompt also sent to another user byte for byte is not included."""

    name = "recorded prompts"
    base = LOG_DATABASE
    where = LOG_PATH
    claims = ("log.prompts.*", "log.prompt_pieces.*")

    def find(self, bases: Databases, person: Subject) -> int:
        """Count the prompts."""
        return len(list_prompts(bases.log, person))

    def give(self, bases: Databases, person: Subject) -> Iterator[ExportedItem]:
        """Export each prompt as sent."""
        for _, key in list_prompts(bases.log, person):
            assert bases.log is not None
            if sent := read_prompt(bases.log, FULL_READER, key):
                level = Trust[sent.facts["clearance"]["level"].upper()]
                yield ExportedItem(row={"hash": key, "clearance": str(level), "text": sent.text}, trust=level)

    def forget(self, bases: Databases, person: Subject) -> int:
        """Delete the prompts, and the sections that no other prompt uses."""
        log, found = bases.log, list_prompts(bases.log, person)
        for prompt, _ in found:
            assert log is not None
            log.execute("DELETE FROM prompt_pieces WHERE prompt_id = ?", (prompt,))
            log.execute("DELETE FROM prompts WHERE id = ?", (prompt,))
        if log and found:
            log.execute("DELETE FROM sections WHERE id NOT IN (SELECT section_id FROM prompt_pieces)")
        return len(found)


def list_prompts(log: sqlite3.Connection | None, person: Subject) -> list[tuple[int, str]]:
    """List the prompts of a person; one without an event belongs to the person its clearance reason names."""
    if log is None:
        return []
    names = "|".join(map(re.escape, sorted(person.names)))
    named = re.compile(rf"(?<![\w.-])(?:{names}) is ")
    own = log.execute(f"SELECT id, hash FROM prompts WHERE {OWN_PROMPTS_SQL}").fetchall()
    untold = log.execute(f"SELECT id, hash, facts FROM prompts WHERE {UNREFERENCED_PROMPTS_SQL}").fetchall()
    known = {number for number, _ in own}
    return own + [
        (number, key)
        for number, key, facts in untold
        if number not in known and named.search(json.loads(facts)["clearance"]["reason"])
    ]


class QuotingSectionLocation(ItemLocation):
    """Sections of other users' prompts that contain the person's memories or words."""

    name = "recorded prompts of others that quote them"
    base = LOG_DATABASE
    where = LOG_PATH
    claims = ("log.sections.text", "log.sections.hash")

    def list_changes(self, bases: Databases, person: Subject) -> Iterator[tuple[str, tuple[str, int]]]:
        """Redact the person's words and delete the hash, which could confirm a guess."""
        log = bases.log
        if log is None:
            return
        blotter, last = Redactor(person), 0
        theirs = {number for number, _ in list_prompts(log, person)}
        while rows := log.execute(
            "SELECT id, text FROM sections WHERE id > ? ORDER BY id LIMIT ?", (last, BATCH_TEXTS)
        ).fetchall():
            last = rows[-1][0]
            for row, text in rows:
                after = blotter.wipe_value(text)
                if after != text and not is_only_theirs(log, row, theirs):
                    yield "UPDATE sections SET text = ?, hash = NULL, forgotten = 1 WHERE id = ?", (after, row)


def is_only_theirs(log: sqlite3.Connection, section: int, prompts: set[int]) -> bool:
    """Return whether only the given prompts use a section, so that it is deleted with them."""
    users = log.execute("SELECT DISTINCT prompt_id FROM prompt_pieces WHERE section_id = ?", (section,))
    return all(prompt in prompts for (prompt,) in users)


class TotalLocation(DataLocation):
    """Usage totals: the person's own are deleted; in the totals of all users the name is cleared."""

    name = "sums under their name"
    base = LOG_DATABASE
    where = LOG_PATH
    claims = tuple(f"log.{table}.{part}" for table in TOTAL_TABLES for part in ("owner", "name"))

    def find(self, bases: Databases, person: Subject) -> int:  # noqa: ARG002 - the ids are in a temporary table
        """Count the totals with the person's name or one of their sessions."""
        asked = (f"SELECT count(*) FROM {table} WHERE {OWN_TOTALS_SQL} OR {NAMED_TOTALS_SQL}" for table in TOTAL_TABLES)
        return sum(bases.log.execute(one).fetchone()[0] for one in asked) if bases.log else 0

    def give(self, bases: Databases, person: Subject) -> Iterator[ExportedItem]:  # noqa: ARG002
        """Export usage and cost per day."""
        if bases.log is None:
            return
        columns = f"trust, start, {', '.join(FIGURES)}"
        asked = f"SELECT {columns} FROM totals_day WHERE {OWN_TOTALS_SQL} AND kind = 'all' AND room = ''"
        found = bases.log.execute(asked).fetchall()
        for trust, start, *figures in found:
            yield ExportedItem(row={"day": start, **dict(zip(FIGURES, figures, strict=True))}, trust=Trust(trust))

    def forget(self, bases: Databases, person: Subject) -> int:  # noqa: ARG002
        """Delete the person's totals; add their amounts in the totals of all users to the nameless rows."""
        log, gone = bases.log, 0
        if log is None:
            return 0
        added = ", ".join(f"{figure} = {figure} + excluded.{figure}" for figure in FIGURES)
        for table in TOTAL_TABLES:
            gone += log.execute(f"DELETE FROM {table} WHERE {OWN_TOTALS_SQL}").rowcount
            nameless = ", ".join("''" if part == "name" else part for part in TOTALS_KEY)
            sums = ", ".join(f"sum({figure})" for figure in FIGURES)
            by = ", ".join(part for part in TOTALS_KEY if part != "name")
            log.execute(
                f"INSERT INTO {table} ({', '.join((*TOTALS_KEY, *FIGURES))}) SELECT {nameless}, {sums} FROM {table}"
                f" WHERE {NAMED_TOTALS_SQL} GROUP BY {by} ON CONFLICT ({', '.join(TOTALS_KEY)}) DO UPDATE SET {added}",
            )
            gone += log.execute(f"DELETE FROM {table} WHERE {NAMED_TOTALS_SQL}").rowcount
        return gone


class EventLocation(ItemLocation):
    """Events of the person's turns, and other events that contain their name."""

    name = "events"
    base = LOG_DATABASE
    where = LOG_PATH
    claims = ("log.events.*",)

    def find(self, bases: Databases, person: Subject) -> int:
        """Count the events."""
        if bases.log is None:
            return 0
        (count,) = bases.log.execute(f"SELECT count(*) FROM events WHERE {OWN_EVENTS_SQL}").fetchone()
        return int(count) + super().find(bases, person)

    def give(self, bases: Databases, person: Subject) -> Iterator[ExportedItem]:  # noqa: ARG002
        """Export the person's events as the log shows them."""
        if bases.log is None:
            return
        asked = f"SELECT {RECORD_SELECT} FROM events WHERE user_id IN {LOGGED_NAMES_SQL} ORDER BY id"
        for row in bases.log.execute(asked).fetchall():
            record = read_record(row)
            yield ExportedItem(row=record.to_dict(FULL_READER), trust=record.trust)

    def forget(self, bases: Databases, person: Subject) -> int:
        """Delete the person's events; redact their name and words in other events."""
        log = bases.log
        if log is None:
            return 0
        gone = log.execute(f"DELETE FROM events WHERE {OWN_EVENTS_SQL}").rowcount
        return gone + super().forget(bases, person)

    def list_changes(self, bases: Databases, person: Subject) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Redact other events with the person's name, or with their words in tool data."""
        log, blotter = bases.log, Redactor(person)
        if log is None:
            return
        found = log.execute(
            f"SELECT id, event_type, error, metadata FROM events WHERE NOT coalesce({OWN_EVENTS_SQL}, 0)"
            f" AND (event_type = '{TOOL_ERROR_TYPE}' OR instr(metadata, '{ARGUMENTS_KEY}') OR EXISTS"
            " (SELECT 1 FROM theirs WHERE kind = 'name'"
            " AND (instr(error, theirs.id) OR instr(metadata, theirs.id))))",
        ).fetchall()
        for row, kind, error, metadata in found:
            words = blotter.wipe(error) if error and kind == TOOL_ERROR_TYPE else error
            facts = rewrite_arguments(metadata, blotter.wipe_value)
            after = tuple(text and blotter.unname(text) for text in (words, facts))
            if after != (error, metadata):
                yield "UPDATE events SET error = ?, metadata = ? WHERE id = ?", (*after, row)


SHARED_SESSIONS_SQL = "session_id NOT IN (SELECT id FROM theirs WHERE kind = 'session')"
OWN_TURNS_SQL = "turn_id IN (SELECT id FROM theirs WHERE kind = 'turn')"
FIRST_OWN_POSITION_SQL = (
    "(SELECT min(mine.position) FROM history AS mine WHERE mine.session_id = history.session_id"
    " AND mine.rowid IN (SELECT CAST(id AS INTEGER) FROM theirs WHERE kind = 'row'))"
)
SUMMARY_ROWS_SQL = f"{SHARED_SESSIONS_SQL} AND kind = 'summary' AND position >= {FIRST_OWN_POSITION_SQL}"
RECOMPUTE_COMPACTED_SQL = """
UPDATE history SET folded = EXISTS (SELECT 1 FROM history AS newer WHERE newer.session_id = history.session_id
    AND newer.kind = 'summary' AND (newer.position > history.position
        OR newer.position = history.position AND history.kind != 'summary'))
WHERE session_id IN (SELECT id FROM theirs WHERE kind = 'refold')"""
CLEAR_HASHES_SQL = (
    f"UPDATE history SET beginning = NULL WHERE beginning IS NOT NULL AND {SHARED_SESSIONS_SQL}"
    f" AND position > {FIRST_OWN_POSITION_SQL}"
)


class SummaryLocation(DataLocation):
    """Summaries of rooms in which the person spoke; the compacted messages of others are restored.

    Later rows of such a session also lose the hash of the preceding history, which could confirm a guess.
    """

    name = "summaries of rooms"
    base = STATE_DATABASE
    where = ".foreword/state.sqlite"
    claims = ("state.history.messages", "state.history.beginning")

    def find(self, bases: Databases, person: Subject) -> int:
        """Count the summaries that include the person's messages."""
        if bases.state is None:
            return 0
        store_own_rows(bases.state, person)
        (count,) = bases.state.execute(f"SELECT count(*) FROM history WHERE {SUMMARY_ROWS_SQL}").fetchone()
        return int(count)

    def forget(self, bases: Databases, person: Subject) -> int:
        """Delete these summaries and restore the compacted messages."""
        state = bases.state
        if state is None:
            return 0
        store_own_rows(state, person)
        state.execute("DELETE FROM theirs WHERE kind = 'refold'")
        state.execute(f"INSERT OR IGNORE INTO theirs SELECT 'refold', session_id FROM history WHERE {SUMMARY_ROWS_SQL}")
        gone = state.execute(f"DELETE FROM history WHERE {SUMMARY_ROWS_SQL}").rowcount
        state.execute(RECOMPUTE_COMPACTED_SQL)
        state.execute(CLEAR_HASHES_SQL)
        return gone


def store_own_rows(state: sqlite3.Connection, person: Subject) -> None:
    """Mark the rows of shared sessions that contain the person's messages."""
    own = [
        row for (row,) in state.execute(f"SELECT rowid FROM history WHERE {SHARED_SESSIONS_SQL} AND {OWN_TURNS_SQL}")
    ]
    lines = [row for row, _ in cut_rows(state, person)]
    store_subject_ids(state, {"row": {str(row) for row in (*own, *lines)}})


class RoomLineLocation(ItemLocation):
    """Room messages copied to other sessions without a turn: lines of several people in one row."""

    name = "room lines in other sessions"
    base = STATE_DATABASE
    where = ".foreword/state.sqlite"
    claims = ("state.history.messages",)

    def list_changes(self, bases: Databases, person: Subject) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Remove the person's lines; delete rows without other lines."""
        for row, messages in cut_rows(bases.state, person):
            if messages is None:
                yield "DELETE FROM history WHERE rowid = ?", (row,)
            else:
                yield "UPDATE history SET messages = ? WHERE rowid = ?", (messages, row)


def cut_rows(state: sqlite3.Connection | None, person: Subject) -> Iterator[tuple[int, bytes | None]]:
    """Yield the changed rows without the person's lines; None marks a row without other lines."""
    if state is None:
        return
    found = state.execute("SELECT rowid, messages FROM history WHERE kind = 'room' AND turn_id IS NULL").fetchall()
    if not found:
        return
    from foreword.gateway.rooms import name_author  # imported late: it needs the gateway's dependencies

    names = {name_author(name) for name in person.names}
    for row, stored in found:
        messages = json.loads(stored)
        after = [cut_message(message, names) for message in messages]
        if after != messages:
            said = any(has_text(message) for message in after)
            yield row, json.dumps(after, ensure_ascii=False).encode() if said else None


def cut_message(message: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """Remove the lines of a speaker from a room message."""
    parts = []
    for part in message.get("parts", ()):
        content = part.get("content")
        if part.get("part_kind") == "user-prompt":
            texts = content if isinstance(content, list) else [content]
            cut = [cut_lines(text, names) if isinstance(text, str) else text for text in texts]
            parts.append({**part, "content": cut if isinstance(content, list) else cut[0]})
        else:
            parts.append(part)
    return {**message, "parts": parts}


def cut_lines(text: str, names: set[str]) -> str:
    """Remove the lines of a speaker; a line starts with the speaker's label, continuation lines are indented."""
    said = "|".join(map(re.escape, sorted(names)))
    return re.sub(rf"(?m)^(?:{said}): .*(?:\n  .*)*\n?", "", text)


def has_text(message: dict[str, Any]) -> bool:
    """Return whether a room message still has text."""
    return any(
        part.get("part_kind") == "user-prompt" and any(text.strip() for text in list_part_texts(part))
        for part in message.get("parts", ())
    )


def list_part_texts(part: dict[str, Any]) -> list[str]:
    """List the texts of a message part."""
    content = part.get("content")
    return [text for text in (content if isinstance(content, list) else [content]) if isinstance(text, str)]


QUOTING_COLUMNS = (
    ("turns", "reply", "id NOT IN (SELECT id FROM theirs WHERE kind = 'turn')"),
    ("outbox", "text", "(turn_id IS NULL OR NOT turn_id IN (SELECT id FROM theirs WHERE kind = 'turn'))"),
    ("plans", "text", SHARED_SESSIONS_SQL),
    ("tasks", "title", SHARED_SESSIONS_SQL),
    ("tasks", "description", SHARED_SESSIONS_SQL),
    ("tasks", "steps", SHARED_SESSIONS_SQL),
    ("workflows", "text", SHARED_SESSIONS_SQL),
    ("schedules", "say", f"user_id NOT IN {NAMES_SQL}"),
    ("schedules", "name", f"user_id NOT IN {NAMES_SQL} AND origin != 'config'"),
    ("responsibilities", "content", f"user_id NOT IN {NAMES_SQL}"),
)
MESSAGE_COLUMNS = (
    (
        "history",
        "messages",
        f"{SHARED_SESSIONS_SQL} AND (turn_id IS NULL OR NOT {OWN_TURNS_SQL}) AND kind != 'outside'",
        "turn_id",
    ),
    ("turns", "taken", "taken IS NOT NULL AND id NOT IN (SELECT id FROM theirs WHERE kind = 'turn')", "id"),
)


class QuoteLocation(ItemLocation):
    """Texts that agents wrote for others and that quote the person."""

    name = "texts of agents that quote them"
    base = STATE_DATABASE
    where = ".foreword/state.sqlite"
    claims = (
        "state.history.messages", "state.plans.text", "state.tasks.title", "state.tasks.description",
        "state.tasks.steps", "state.workflows.text",
    )  # fmt: skip

    def list_changes(self, bases: Databases, person: Subject) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Redact the quotations."""
        state = bases.state
        if state is None or not (person.said or person.kept):
            return
        blotter = Redactor(person)
        for table, column, where in QUOTING_COLUMNS:
            keys = list_primary_keys(state, table)
            for *key, text in state.execute(f"SELECT {keys}, {column} FROM {table} WHERE {where}").fetchall():
                after = blotter.wipe_value(text)
                if after != text:
                    yield f"UPDATE {table} SET {column} = ? WHERE ({keys}) = ({make_placeholders(key)})", (after, *key)
        for table, column, where, turn in MESSAGE_COLUMNS:
            keys = list_primary_keys(state, table)
            asked = (
                f"SELECT {keys}, {column}, (SELECT text FROM turns AS said WHERE said.id = {table}.{turn})"
                f" FROM {table} WHERE {where}"
            )
            for *key, stored, own in state.execute(asked).fetchall():
                after = blotter.wipe_messages(stored, [own] if own else ())
                if after != stored:
                    yield f"UPDATE {table} SET {column} = ? WHERE ({keys}) = ({make_placeholders(key)})", (after, *key)


def list_primary_keys(state: sqlite3.Connection, table: str) -> str:
    """Return the primary key columns of a table."""
    rows = state.execute("SELECT name FROM pragma_table_info(?) WHERE pk ORDER BY pk", (table,))
    return ", ".join(name for (name,) in rows)


def make_placeholders(key: list[Any]) -> str:
    """Return the SQL placeholders for a key."""
    return ", ".join("?" * len(key))
