"""Personal data in the databases. Every column that can hold some belongs to a data location; a test checks this."""

import json
import re
import sqlite3
from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any

from foreword.events.event import EventType, Reader
from foreword.events.record import FIGURES, RECORD_SELECT, TOTALS_KEY, read_record
from foreword.events.redaction import ARGUMENTS_KEY, BATCH_TEXTS, redact_value, rewrite_arguments
from foreword.events.sent_prompts import read_prompt
from foreword.gateway.messages import name_author
from foreword.privacy import subject
from foreword.privacy.subject import (
    LOGGED_NAMES_SQL,
    OWN_NAMES_SQL,
    OWN_SESSIONS_SQL,
    OWN_TURNS_SQL,
    USER_ROLE,
    Databases,
    Subject,
)
from foreword.storage.ledgers import drop_ledger, empty_ledger, find_sessions_with_text, is_ledger_empty
from foreword.storage.rows import fetch_cell, fetch_column
from foreword.types import Trust

STATE, LOG, BUDGETS = "state", "log", "budgets"
PATHS = {STATE: ".foreword/state.sqlite", LOG: ".foreword/events.sqlite", BUDGETS: ".foreword/budgets.sqlite"}
FULL_READER = Reader(user="", clearance=Trust.FULL)

# An item, and the clearance at which it was learned; exports below this clearance leave it out.
ExportedItem = tuple[Mapping[str, Any], Trust]


class DataLocation:
    """A place that stores personal data. It lists a change for each item of a person, exports items and erases them."""

    name: str  # the name shown in reports
    base: str = ""  # the database that contains it; the locations of one database are erased in one transaction
    where: str = ""  # the path shown in reports, if it is not that of the database; NAME is the person's name
    claims: tuple[str, ...] = ()  # the columns it covers; `state.turns.*` is a whole table

    def list_changes(self, databases: Databases, person: Subject) -> Iterator[Any]:  # noqa: ARG002
        """List the change of each item with data of a person; in a database, an SQL statement with values."""
        return iter(())

    def apply(self, databases: Databases, change: Any) -> None:
        """Apply one change."""
        getattr(databases, self.base).execute(*change)

    def find(self, databases: Databases, person: Subject) -> int:
        """Count the items of a person."""
        return sum(1 for _ in self.list_changes(databases, person))

    def export(self, databases: Databases, person: Subject) -> Iterator[ExportedItem]:  # noqa: ARG002
        """Export the items of a person alone; the default exports nothing: copies, and texts of several people."""
        return iter(())

    def erase(self, databases: Databases, person: Subject) -> int:
        """Erase the items of a person and return their number; repeating this has no effect."""
        changes = list(self.list_changes(databases, person))
        for change in changes:
            self.apply(databases, change)
        return len(changes)


HAS_USER_COLUMN_SQL = "SELECT 1 FROM pragma_table_info(?) WHERE name = 'user_id'"
SECRET_COLUMNS = frozenset({"hash", "lease_owner", "lease_until"})  # credentials, and process leases


class RowLocation(DataLocation):
    """The rows of a table that belong to a person and are deleted whole."""

    def __init__(
        self, table: str, condition: str, name: str = "", *, base: str = STATE, columns: str = "*",
        trust: str = "0", exported: str = "1", optional: bool = False,
    ) -> None:  # fmt: skip
        self.name, self.base = name or table, base
        self._table, self._condition = table, condition
        # SQL for the clearance at which a row was learned, and the condition for exported rows.
        self._trust, self._exported = trust.format(table=table), exported
        self._optional = optional  # the table exists only in a state imported from an older database
        schema = STATE if base == STATE else LOG  # budgets have the schema of the log
        self.claims = () if optional else tuple(f"{schema}.{table}.{column}" for column in columns.split())

    def _run(self, databases: Databases, statement: str) -> sqlite3.Cursor:
        connection: sqlite3.Connection = getattr(databases, self.base)
        if self._optional and not fetch_cell(int, connection, HAS_USER_COLUMN_SQL, self._table):
            return connection.execute("SELECT 0 WHERE 0")
        return connection.execute(f"{statement} FROM {self._table} WHERE ({self._condition})")

    def find(self, databases: Databases, person: Subject) -> int:  # noqa: ARG002 - the ids are in a temporary table
        """Count the person's rows."""
        return len(self._run(databases, "SELECT 1").fetchall())

    def export(self, databases: Databases, person: Subject) -> Iterator[ExportedItem]:  # noqa: ARG002
        """Export the person's rows without credentials and leases."""
        found = self._run(databases, f"SELECT {self._exported}, {self._trust}, *")
        names = [column[0] for column in found.description][2:]
        for exported, trust, *values in found.fetchall():
            if exported:
                row = {name: to_json_value(value) for name, value in zip(names, values, strict=True)}
                yield {name: value for name, value in row.items() if name not in SECRET_COLUMNS}, Trust(trust or 0)

    def erase(self, databases: Databases, person: Subject) -> int:  # noqa: ARG002
        """Delete the person's rows."""
        return max(0, self._run(databases, "DELETE").rowcount)


def to_json_value(value: Any) -> Any:
    """Convert a column to a JSON value: bytes with JSON are parsed, other bytes are base64."""
    if not isinstance(value, bytes):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return b64encode(value).decode()


OWN_PROMPTS_SQL = (
    f"hash IN {subject.select_ids('prompt')}"
    " AND hash NOT IN (SELECT prompt_hash FROM events WHERE prompt_hash IS NOT NULL"
    f" AND coalesce(user_id, '') NOT IN {LOGGED_NAMES_SQL})"
)
UNREFERENCED_PROMPTS_SQL = "hash NOT IN (SELECT prompt_hash FROM events WHERE prompt_hash IS NOT NULL)"


class PromptLocation(DataLocation):
    """Recorded prompts of the person's turns; a prompt also sent to another user byte for byte is not included."""

    name = "recorded prompts"
    base = LOG
    claims = ("log.prompts.*", "log.prompt_pieces.*")

    def list_changes(self, databases: Databases, person: Subject) -> Iterator[int]:
        """List the ids of the prompts."""
        return iter(list_prompts(databases.log, person))

    def apply(self, databases: Databases, change: int) -> None:
        """Delete a prompt, and the sections that no other prompt uses."""
        log = databases.log
        sections = log.execute("SELECT section_id FROM prompt_pieces WHERE prompt_id = ?", (change,)).fetchall()
        log.execute("DELETE FROM prompt_pieces WHERE prompt_id = ?", (change,))
        log.execute("DELETE FROM prompts WHERE id = ?", (change,))
        unused = "DELETE FROM sections WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM prompt_pieces WHERE section_id = ?1)"
        log.executemany(unused, sections)

    def export(self, databases: Databases, person: Subject) -> Iterator[ExportedItem]:
        """Export each prompt as sent."""
        for key in list_prompts(databases.log, person).values():
            if sent := read_prompt(databases.log, FULL_READER, key):
                level = Trust[sent.facts["clearance"]["level"].upper()]
                yield {"hash": key, "clearance": str(level), "text": sent.text}, level


def list_prompts(log: sqlite3.Connection, person: Subject) -> dict[int, str]:
    """Return id and hash of a person's prompts; the clearance reason of a prompt without an event names the person."""
    own = log.execute(f"SELECT id, hash FROM prompts WHERE {OWN_PROMPTS_SQL}").fetchall()
    others = log.execute(f"SELECT id, hash, facts FROM prompts WHERE {UNREFERENCED_PROMPTS_SQL}").fetchall()
    named = re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, sorted(person.names)))}) is ")
    return dict(own) | {
        row: key for row, key, facts in others if named.search(json.loads(facts)["clearance"]["reason"])
    }


class QuotingSectionLocation(DataLocation):
    """Sections of other users' prompts that contain the person's memories or words."""

    name = "recorded prompts of others that quote them"
    base = LOG
    claims = ("log.sections.text", "log.sections.hash")

    def list_changes(self, databases: Databases, person: Subject) -> Iterator[tuple[str, tuple[str, int]]]:
        """Redact the person's words and delete the hash, which could confirm a guess."""
        log, redactor, last = databases.log, subject.Redactor(person), 0
        own_prompts = list_prompts(log, person).keys()
        batch = "SELECT id, text FROM sections WHERE id > ? ORDER BY id LIMIT ?"
        users = "SELECT DISTINCT prompt_id FROM prompt_pieces WHERE section_id = ?"
        while rows := log.execute(batch, (last, BATCH_TEXTS)).fetchall():
            last = rows[-1][0]
            for section, text in rows:
                after = redact_value(text, redactor.redact)
                # A section that only the person's prompts use is deleted with them.
                if after != text and not set(fetch_column(log, users, section)) <= own_prompts:
                    yield "UPDATE sections SET text = ?, hash = NULL, forgotten = 1 WHERE id = ?", (after, section)


TOTAL_TABLES = ("totals_quarter", "totals_day")
OWN_TOTALS_SQL = f"owner IN {LOGGED_NAMES_SQL}"
NAMED_TOTALS_SQL = (
    f"owner NOT IN {LOGGED_NAMES_SQL} AND (kind = 'user' AND name IN {LOGGED_NAMES_SQL}"
    f" OR kind = 'session' AND name IN {subject.select_ids('session')})"
)


class TotalLocation(DataLocation):
    """Usage totals: the person's own are deleted; in the totals of all users the name is cleared."""

    name = "sums under their name"
    base = LOG
    claims = tuple(f"log.{table}.{column}" for table in TOTAL_TABLES for column in ("owner", "name"))

    def find(self, databases: Databases, person: Subject) -> int:  # noqa: ARG002
        """Count the totals with the person's name or one of their sessions."""
        query = "SELECT count(*) FROM {} WHERE " + f"{OWN_TOTALS_SQL} OR {NAMED_TOTALS_SQL}"
        return sum(fetch_cell(int, databases.log, query.format(table)) or 0 for table in TOTAL_TABLES)

    def export(self, databases: Databases, person: Subject) -> Iterator[ExportedItem]:  # noqa: ARG002
        """Export usage and cost per day."""
        query = f"SELECT trust, start, {', '.join(FIGURES)} FROM totals_day WHERE {OWN_TOTALS_SQL}"
        for trust, start, *figures in databases.log.execute(f"{query} AND kind = 'all' AND room = ''").fetchall():
            yield {"day": start, **dict(zip(FIGURES, figures, strict=True))}, Trust(trust)

    def erase(self, databases: Databases, person: Subject) -> int:  # noqa: ARG002
        """Delete the person's totals; add their amounts in the totals of all users to the nameless rows."""
        erased = 0
        other_keys = ", ".join(column for column in TOTALS_KEY if column != "name")
        sums = ", ".join(f"sum({figure})" for figure in FIGURES)
        added = ", ".join(f"{figure} = {figure} + excluded.{figure}" for figure in FIGURES)
        for table in TOTAL_TABLES:
            erased += databases.log.execute(f"DELETE FROM {table} WHERE {OWN_TOTALS_SQL}").rowcount
            databases.log.execute(
                f"INSERT INTO {table} (name, {other_keys}, {', '.join(FIGURES)})"
                f" SELECT '', {other_keys}, {sums} FROM {table} WHERE {NAMED_TOTALS_SQL} GROUP BY {other_keys}"
                f" ON CONFLICT ({', '.join(TOTALS_KEY)}) DO UPDATE SET {added}",
            )
            erased += databases.log.execute(f"DELETE FROM {table} WHERE {NAMED_TOTALS_SQL}").rowcount
        return erased


OWN_EVENTS_SQL = f"(user_id IN {LOGGED_NAMES_SQL} OR trace_id IN {subject.select_ids('trace')})"
MENTIONING_EVENTS_SQL = f"""
SELECT id, event_type, error, metadata FROM events WHERE NOT coalesce({OWN_EVENTS_SQL}, 0)
AND (event_type = '{EventType.TOOL_ERROR}' OR instr(metadata, '{ARGUMENTS_KEY}') OR EXISTS (SELECT 1 FROM subject_ids
    WHERE kind = 'name' AND (instr(error, subject_ids.id) OR instr(metadata, subject_ids.id))))"""


class EventLocation(DataLocation):
    """Events of the person's turns, and other events that contain their name, or their words in tool data."""

    name = "events"
    base = LOG
    claims = ("log.events.*",)

    def list_changes(self, databases: Databases, person: Subject) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Delete the person's events; redact their name and words in other events."""
        for row in databases.log.execute(f"SELECT id FROM events WHERE {OWN_EVENTS_SQL}").fetchall():
            yield "DELETE FROM events WHERE id = ?", row
        redactor = subject.Redactor(person)
        for row, kind, error, metadata in databases.log.execute(MENTIONING_EVENTS_SQL).fetchall():
            words = redactor.redact(error) if error and kind == EventType.TOOL_ERROR else error
            facts = rewrite_arguments(metadata, redactor.redact)
            after = tuple(text and redactor.redact_names(text) for text in (words, facts))
            if after != (error, metadata):
                yield "UPDATE events SET error = ?, metadata = ? WHERE id = ?", (*after, row)

    def export(self, databases: Databases, person: Subject) -> Iterator[ExportedItem]:  # noqa: ARG002
        """Export the person's events as the log shows them."""
        query = f"SELECT {RECORD_SELECT} FROM events WHERE user_id IN {LOGGED_NAMES_SQL} ORDER BY id"
        for record in map(read_record, databases.log.execute(query).fetchall()):
            yield record.to_dict(FULL_READER), record.trust


SHARED_SESSIONS_SQL = f"session_id NOT IN {subject.select_ids('session')}"
SPOKEN_LEDGERS_SQL = (
    "SELECT session_id FROM ledgers"
    f" WHERE session_id IN (SELECT session_id FROM turns WHERE id IN {subject.select_ids('turn')})"
)


class LedgerLocation(DataLocation):
    """Ledgers of the person's sessions, of sessions in which they spoke, and of those whose prompt had their words."""

    name = "ledgers of what was sent"
    base = STATE
    claims = ("state.ledgers.frozen", "state.ledgers.base", "state.bases.*")

    def list_changes(self, databases: Databases, person: Subject) -> Iterator[tuple[Any, str]]:
        """Delete the person's ledgers and empty the others, which rebases their sessions."""
        state = databases.state
        own = subject.query_column(state, f"SELECT session_id FROM ledgers WHERE {OWN_SESSIONS_SQL}")
        yield from ((drop_ledger, session) for session in own)
        spoken = subject.query_column(state, SPOKEN_LEDGERS_SQL)
        quoting = find_sessions_with_text(state, subject.Redactor(person).finds_words)
        emptied = {session for session in spoken if not is_ledger_empty(state, session)}.union(quoting)
        yield from ((empty_ledger, session) for session in emptied.difference(own))

    def apply(self, databases: Databases, change: tuple[Any, str]) -> None:
        """Delete or empty a ledger."""
        action, session = change
        action(databases.state, session)


FIRST_OWN_POSITION_SQL = (
    "(SELECT min(mine.position) FROM history AS mine WHERE mine.session_id = history.session_id"
    " AND mine.rowid IN (SELECT CAST(id AS INTEGER) FROM subject_ids WHERE kind = 'row'))"
)
SUMMARY_ROWS_SQL = f"{SHARED_SESSIONS_SQL} AND kind = 'summary' AND position >= {FIRST_OWN_POSITION_SQL}"
RECOMPUTE_COMPACTED_SQL = """
UPDATE history SET folded = EXISTS (SELECT 1 FROM history AS newer WHERE newer.session_id = history.session_id
    AND newer.kind = 'summary' AND (newer.position > history.position
        OR newer.position = history.position AND history.kind != 'summary'))
WHERE session_id = ?"""
CLEAR_HASHES_SQL = (
    f"UPDATE history SET beginning = NULL WHERE beginning IS NOT NULL AND {SHARED_SESSIONS_SQL}"
    f" AND position > {FIRST_OWN_POSITION_SQL}"
)


class SummaryLocation(DataLocation):
    """Summaries of rooms in which the person spoke; the compacted messages of others are restored.

    Later rows of such a session also lose the hash of the preceding history, which could confirm a guess.
    """

    name = "summaries of rooms"
    base = STATE
    claims = ("state.history.messages", "state.history.beginning")

    def list_changes(self, databases: Databases, person: Subject) -> Iterator[str]:
        """List the session of each summary that includes the person's messages."""
        state = databases.state
        own = subject.query_column(state, f"SELECT rowid FROM history WHERE {SHARED_SESSIONS_SQL} AND {OWN_TURNS_SQL}")
        subject.store_ids(state, "row", map(str, (*own, *(row for row, _ in cut_room_rows(state, person)))))
        return iter(subject.query_column(state, f"SELECT session_id FROM history WHERE {SUMMARY_ROWS_SQL}"))

    def erase(self, databases: Databases, person: Subject) -> int:
        """Delete these summaries and restore the compacted messages."""
        sessions = list(self.list_changes(databases, person))
        databases.state.execute(f"DELETE FROM history WHERE {SUMMARY_ROWS_SQL}")
        databases.state.executemany(RECOMPUTE_COMPACTED_SQL, [(session,) for session in set(sessions)])
        databases.state.execute(CLEAR_HASHES_SQL)
        return len(sessions)


class RoomLineLocation(DataLocation):
    """Room messages copied to other sessions without a turn: lines of several people in one row."""

    name = "room lines in other sessions"
    base = STATE
    claims = ("state.history.messages",)

    def list_changes(self, databases: Databases, person: Subject) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Remove the person's lines; delete rows without other lines."""
        for row, messages in cut_room_rows(databases.state, person):
            if messages is None:
                yield "DELETE FROM history WHERE rowid = ?", (row,)
            else:
                yield "UPDATE history SET messages = ? WHERE rowid = ?", (messages, row)


def cut_room_rows(state: sqlite3.Connection, person: Subject) -> Iterator[tuple[int, bytes | None]]:
    """Yield the changed rows without the person's lines; None marks a row without other lines.

    A line starts with the speaker's label; continuation lines are indented.
    """
    labels = "|".join(re.escape(label) for label in sorted(map(name_author, person.names)))
    own_lines = re.compile(rf"(?m)^(?:{labels}): .*(?:\n  .*)*\n?")
    query = "SELECT rowid, messages FROM history WHERE kind = 'room' AND turn_id IS NULL"
    for row, stored in state.execute(query).fetchall():
        messages = json.loads(stored)
        remaining: list[str] = []
        for part in (part for one in messages if one.get("role") == USER_ROLE for part in one["parts"]):
            if part["type"] == "text":
                part["text"] = own_lines.sub("", part["text"])
                remaining += [part["text"]] if part["text"].strip() else []
        if messages != json.loads(stored):
            yield row, json.dumps(messages, ensure_ascii=False).encode() if remaining else None


OTHER_USERS_SQL = f"user_id NOT IN {OWN_NAMES_SQL}"
OTHER_TURNS_SQL = f"id NOT IN {subject.select_ids('turn')}"
UNOWNED_SQL = f"(turn_id IS NULL OR NOT {OWN_TURNS_SQL})"
# Table, column, condition and, if the column holds messages, the column with the id of the turn that they belong to.
QUOTING_COLUMNS = (
    ("turns", "reply", OTHER_TURNS_SQL, ""),
    ("outbox", "text", UNOWNED_SQL, ""),
    ("plans", "text", SHARED_SESSIONS_SQL, ""),
    ("tasks", "title", SHARED_SESSIONS_SQL, ""),
    ("tasks", "description", SHARED_SESSIONS_SQL, ""),
    ("tasks", "steps", SHARED_SESSIONS_SQL, ""),
    ("workflows", "text", SHARED_SESSIONS_SQL, ""),
    ("schedules", "say", OTHER_USERS_SQL, ""),
    ("schedules", "name", f"{OTHER_USERS_SQL} AND origin != 'config'", ""),
    ("responsibilities", "content", OTHER_USERS_SQL, ""),
    ("history", "messages", f"{SHARED_SESSIONS_SQL} AND {UNOWNED_SQL} AND kind != 'outside'", "turn_id"),
    ("turns", "taken", f"taken IS NOT NULL AND {OTHER_TURNS_SQL}", "id"),
)


class QuoteLocation(DataLocation):
    """Texts that agents wrote for others and that quote the person."""

    name = "texts of agents that quote them"
    base = STATE
    claims = (
        "state.history.messages", "state.plans.text", "state.tasks.title", "state.tasks.description",
        "state.tasks.steps", "state.workflows.text",
    )  # fmt: skip

    def list_changes(self, databases: Databases, person: Subject) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Redact the quotations."""
        if not (person.messages or person.memories):
            return
        state, redactor = databases.state, subject.Redactor(person)
        for table, column, condition, turn in QUOTING_COLUMNS:
            names = subject.query_column(state, "SELECT name FROM pragma_table_info(?) WHERE pk ORDER BY pk", table)
            keys, places = ", ".join(names), ", ".join("?" * len(names))
            own_text = f"(SELECT text FROM turns AS own WHERE own.id = {table}.{turn})" if turn else "NULL"
            rows = state.execute(f"SELECT {keys}, {column}, {own_text} FROM {table} WHERE {condition}").fetchall()
            for *key, stored, own in rows:
                after = redactor.redact_messages(stored, own or "") if turn else redact_value(stored, redactor.redact)
                if after != stored:
                    yield f"UPDATE {table} SET {column} = ? WHERE ({keys}) = ({places})", (after, *key)
