"""Import of SPEC-010 databases: agents and instructions into the state, long-term memory into each user's own memory.

The report lists every row of long-term memory that is left out or changed.
"""

import json
import os
import re
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from itertools import chain, count
from typing import Any

from foreword.config.schema import Config
from foreword.engine.sources.documents import Document, join_lines, normalise_lines
from foreword.engine.sources.files import Files
from foreword.engine.sources.memory_sections import FACTS_FILE, find_fact_text
from foreword.engine.trust import OWN_STORE, find_author, find_own_folder
from foreword.errors import InputError, quote_name
from foreword.memory.entry import MAX_ENTRY_CHARS, Note, find_places, mark_text, write_file, write_note
from foreword.memory.notes import list_added
from foreword.storage.database import STATE_FILE, connect_read_only, has_table, stamp, use_state, writing
from foreword.storage.rows import fetch_column, fetch_rows, insert_row
from foreword.types import Trust, frozen

AGENTS_TABLE = "agent_configurations"
CUSTOMIZATIONS_TABLE = "user_agent_prompt_customizations"
NOTES_TABLE = "agent_long_term_memory"
OLD_NOTES_TABLE = f"old_{NOTES_TABLE}"  # in an upgraded state: rows that could not be imported
IMPORTED_TABLES = (AGENTS_TABLE, CUSTOMIZATIONS_TABLE, NOTES_TABLE, OLD_NOTES_TABLE)
AGENT_NAME_COLUMNS = ("agent_name", "name")  # possible column names for an agent's name
SELECT_ROWS = "SELECT * FROM {} ORDER BY rowid"

LegacyRow = Mapping[str, Any]
StoredAgent = tuple[str, str, str | None]  # name, soul, identity
StoredInstructions = tuple[str, str, str]  # user, agent, text


@frozen(eq=True)
class ImportResult:
    """The result of an import."""

    agents: int
    instructions: int
    existing: int  # agents and instructions that existed already and are unchanged
    inactive: int  # inactive customizations, which are not imported
    agent_names: tuple[str, ...] = ()  # all agents found, new or existing
    user_names: tuple[str, ...] = ()  # the users whose instructions were found
    notes: int = 0  # rows of long-term memory, which become memory entries and not rows of the state


def import_rows(state: sqlite3.Connection, rows: Mapping[str, Sequence[LegacyRow]]) -> ImportResult:
    """Import agents and instructions from rows, in one transaction."""
    agents, instructions = convert_agents(rows[AGENTS_TABLE]), merge_customizations(rows[CUSTOMIZATIONS_TABLE])
    with writing(state):
        added, merged = insert_rows(state, agents, instructions)
    return ImportResult(
        agents=sum(added),
        instructions=sum(merged),
        existing=added.count(0) + merged.count(0),
        inactive=sum(not is_active(row) for row in rows[CUSTOMIZATIONS_TABLE]),
        agent_names=tuple(sorted({name for name, *_ in agents} | {agent for _, agent, _ in instructions})),
        user_names=tuple(sorted({user for user, *_ in instructions if user})),
        notes=len(rows[NOTES_TABLE]),
    )


def insert_rows(
    state: sqlite3.Connection, agents: Iterable[StoredAgent], instructions: Iterable[StoredInstructions]
) -> tuple[list[int], list[int]]:
    """Insert agents and instructions within the caller's transaction; return 1 for each, or 0 for an existing one."""
    agent_columns = [dict(zip(("agent_name", "soul", "identity"), row, strict=True)) for row in agents]
    columns = [dict(zip(("user_id", "agent_name", "instructions"), row, strict=True)) for row in instructions]
    verb, now = "INSERT OR IGNORE", stamp()
    added = [insert_row(state, AGENTS_TABLE, verb, updated=now, **row) for row in agent_columns]
    return added, [insert_row(state, CUSTOMIZATIONS_TABLE, verb, updated=now, **row) for row in columns]


def read_rows(path: str) -> Mapping[str, Sequence[LegacyRow]]:
    """Read a database without changing it. It must have agents, customizations or long-term memory.

    In a state that was such a database, unimported long-term memory is in the table old_….
    """
    wanted = f"{AGENTS_TABLE}, {CUSTOMIZATIONS_TABLE} or {NOTES_TABLE}"
    if not os.path.isfile(path):
        raise InputError(f"{path} is not a file; name a SQLite database with the table {wanted}")
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in IMPORTED_TABLES}
    try:
        with closing(connect_read_only(path)) as old:
            old.text_factory = decode_text
            names = [name for name in IMPORTED_TABLES if has_table(old, name)]
            for name in names:
                found[name] = fetch_rows(old, SELECT_ROWS.format(name))
    except sqlite3.Error as error:
        raise InputError(f"{path} cannot be read as a SQLite database: {error}") from None
    if not names:
        raise InputError(f"{path} has no table {wanted}")
    found[NOTES_TABLE] += found.pop(OLD_NOTES_TABLE)
    return found


def decode_text(raw: bytes) -> str:
    """Decode text, replacing invalid UTF-8."""
    return raw.decode("utf-8", "replace")


def convert_agents(rows: Iterable[LegacyRow]) -> list[StoredAgent]:
    """Return name, soul and identity of each agent. A later row of the same name overrides non-empty fields."""
    found: dict[str, tuple[str, str | None]] = {}
    for row in rows:
        name = str(next((row[key] for key in AGENT_NAME_COLUMNS if row.get(key)), ""))
        soul, identity = found.get(name, ("", None))
        text = str(row.get("soul") or row.get("system_prompt") or "").strip()
        given = row.get("identity")
        found[name] = (text or soul, identity if given in (None, "") else to_text(given) or identity)
    return [(name, soul, identity) for name, (soul, identity) in found.items() if name]


def merge_customizations(rows: Iterable[LegacyRow]) -> list[StoredInstructions]:
    """Return user, agent and the merged text of the active customizations, from the lowest priority up.

    Rows of equal priority stay in their order, and duplicates are dropped.
    """
    texts: dict[tuple[str, str], list[str]] = {}
    for row in sorted(filter(is_active, rows), key=find_priority):
        key = (str(row.get("user_id") or ""), str(row.get("agent_name") or ""))
        said = texts.setdefault(key, [])
        text = str(row.get("instructions") or "").strip() or unwrap_json_string(row.get("content"))
        if text and text not in said:
            said.append(text)
    return [(user, agent, "\n\n".join(said)) for (user, agent), said in texts.items()]


def is_active(row: LegacyRow) -> bool:
    """Return whether a customization was active, which is the default."""
    return row.get("is_active") not in (0, "0", "false", "f")


def find_priority(row: LegacyRow) -> float:
    """Return the priority of a customization; 0 if invalid."""
    try:
        return float(row.get("priority") or 0)
    except (TypeError, ValueError):
        return 0.0


def unwrap_json_string(content: object) -> str:
    """Return a JSON string as text, and other JSON unchanged. Invalid JSON is returned as text."""
    if content is None:
        return ""
    raw = to_text(content).strip()
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return raw
    if value is None:
        return ""
    # JSON can contain lone surrogates, which cannot be stored.
    return value.encode("utf-8", "replace").decode().strip() if isinstance(value, str) else raw


def to_text(value: object) -> str:
    """Convert a column value to text. SQLite returns text or bytes, PostgreSQL parsed JSON."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# Possible column names; SPEC-010 defines only the table name.
TEXT_COLUMNS = ("notes", "note", "content", "text", "memory")
AGENT_COLUMNS = ("agent_name", "agent_id", "agent")
TIME_COLUMNS = ("updated_at", "updated", "created_at", "created")
MAX_LABEL_CHARS = 40  # of the label of a part
MAX_SHOWN_ROWS = 20  # rows named on one line of the report

# What happened to rows that were not imported or were changed, in the order of the report.
ROW_NOTES = {
    "known": "imported before",
    "duplicates": "not imported again: the same text of the same person",
    "split": f"longer than {MAX_ENTRY_CHARS:,} characters and imported as several entries",
    "undated": "without a date; the entry has the time of the import",
    "unread": "with columns that are not imported ({columns})",
    "replaced": "with bytes that are no text; each became \ufffd",
    "unknown_agents": "of agents that foreword.yaml lacks; imported, since all agents share memory",
    "empty": "not imported: no text",
    "ownerless": "not imported: no user_id",
    "unknown_users": "not imported: add the users to foreword.yaml and import again",
    "strangers": "not imported: public people have no memory; raise their trust and import again",
}


@frozen(eq=True)
class NotesReport:
    """The result of an import of long-term memory."""

    saved: int  # number of written entries
    rows: Mapping[str, Sequence[str]]  # rows by number, user and agent, under the names of `ROW_NOTES`
    unread_columns: tuple[str, ...]  # the names of columns with values that are not imported

    def list_lines(self) -> list[str]:
        """Return one line for each group of rows that were not imported or were changed."""
        lines = []
        for name, note in ROW_NOTES.items():
            if rows := self.rows.get(name, ()):
                what = note.format(columns=", ".join(self.unread_columns))
                more = f" and {len(rows) - MAX_SHOWN_ROWS:,} more" if len(rows) > MAX_SHOWN_ROWS else ""
                shown = ", ".join(rows[:MAX_SHOWN_ROWS]) + more
                lines.append(f"{NOTES_TABLE}: {len(rows):,} {'row' if len(rows) == 1 else 'rows'} {what}: {shown}")
        return lines


def import_notes(rows: Iterable[LegacyRow], root: str, config: Config, now: datetime) -> NotesReport:
    """Write the rows of long-term memory as entries. Existing entries are not written again."""
    report: dict[str, list[str]] = {}
    columns: dict[str, None] = {}
    known = find_known(root, config)
    seen: set[tuple[str, str]] = set()
    saved = 0
    for row in map(read_note_row, rows, count(1)):
        if refusal := refuse_row(row, config, seen):
            report.setdefault(refusal, []).append(row.label)
            continue
        seen.add((row.user, row.text))
        parts = make_parts(row.text)
        new = [part for part in parts if not {(row.user, mark_text(one)) for one in (part, join_lines(part))} & known]
        for part in new:
            save_note(root, row, part, config.users[row.user].trust, now)
        saved += len(new)
        notes = {
            "split": len(parts) > 1,
            "undated": row.time is None,
            "unread": bool(row.unread),
            "replaced": "\ufffd" in row.text,
            "unknown_agents": row.agent not in config.agents,
        }
        for name in [name for name, applies in notes.items() if applies] if new else ["known"]:
            report.setdefault(name, []).append(row.label)
        columns |= dict.fromkeys(row.unread if new else ())
    return NotesReport(saved=saved, rows=report, unread_columns=tuple(show_part(name) for name in columns))


@frozen(eq=True)
class NoteRow:
    """The known columns of one row of long-term memory."""

    label: str
    user: str
    agent: str
    text: str
    time: datetime | None
    unread: tuple[str, ...]  # other columns with a value


def read_note_row(row: LegacyRow, number: int) -> NoteRow:
    """Parse a row with any of the known column names."""
    filled = {
        name: to_text(value).encode("utf-8", "replace").decode()  # a lone surrogate cannot be stored
        for name, value in row.items()
        if value not in (None, "", b"")
    }
    agent_column = next((name for name in AGENT_COLUMNS if name in filled), "")
    time_column, time = find_time(row)
    user, agent = filled.get("user_id", ""), filled.get(agent_column, "")
    label = f"{number} ({show_part(user)}, {show_part(agent)})"
    texts = [normalise_lines(filled[name]).replace("\0", "").strip() for name in TEXT_COLUMNS if name in filled]
    used = {"id", "user_id", agent_column, *TEXT_COLUMNS, *([time_column] if time else TIME_COLUMNS)}
    text = "\n\n".join(dict.fromkeys(filter(None, texts)))
    unread = tuple(name for name in filled if name not in used)
    return NoteRow(label=label, user=user, agent=agent, text=text, time=time, unread=unread)


def show_part(text: str) -> str:
    """Format a name for the report, short and on one line."""
    return quote_name(join_lines(text))[:60] if text else "none"


def refuse_row(row: NoteRow, config: Config, seen: Collection[tuple[str, str]]) -> str:
    """Return the name in `ROW_NOTES` for a row that is not imported, or an empty string."""
    reasons = {
        "empty": not row.text,
        "ownerless": not row.user,
        "unknown_users": row.user not in config.users,
        "strangers": row.user in config.users and config.users[row.user].trust < Trust.FAMILIAR,
        "duplicates": (row.user, row.text) in seen,
    }
    return next((name for name, applies in reasons.items() if applies), "")


def find_time(row: LegacyRow) -> tuple[str, datetime | None]:
    """Return the time of the last change, else of creation, with its column. None if neither is valid."""
    for name in TIME_COLUMNS:
        value = row.get(name)
        try:
            if isinstance(value, int | float):
                return name, datetime.fromtimestamp(value, UTC)
            moment = datetime.fromisoformat(to_text(value).strip()) if value else None
            if moment:
                return name, (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError, OSError):
            continue
    return "", None


def make_parts(text: str) -> list[str]:
    """Return the texts of the entries: one, or several with labels if the text is too long."""
    # A comment at the start of a file is hidden, so it is escaped.
    parts = [re.sub("^<!--", r"\\<!--", part) for part in split_text(text, MAX_ENTRY_CHARS - MAX_LABEL_CHARS)]
    return [f"(part {at} of {len(parts)})\n\n{part}" for at, part in enumerate(parts, 1)] if len(parts) > 1 else parts


def split_text(text: str, most: int) -> list[str]:
    """Split a text into parts of limited length, at paragraphs, lines or words if possible."""
    parts: list[str] = []
    at = 0
    while len(text) - at > most:
        cuts = (text.rfind(sign, at + 1, at + most) for sign in ("\n\n", "\n", " "))
        end = next((cut for cut in cuts if cut != -1), at + most)
        parts.append(text[at:end].strip())
        at = end
    return [part for part in (*parts, text[at:].strip()) if part]


def save_note(root: str, row: NoteRow, text: str, clearance: Trust, now: datetime) -> None:
    """Write one entry of a user's memory. If another text has its name, use a longer name."""
    origin = {"channel": "import", "session": f"{NOTES_TABLE}/{row.agent}" if row.agent else NOTES_TABLE}
    note = Note(text=text, author=row.user, clearance=clearance, time=row.time or now, **origin)
    if not any(write_file(root, path, write_note(note)) for path in find_places(OWN_STORE, note)):
        folder = find_own_folder(row.user)
        raise InputError(f"{folder} has other files with the names of an entry; move them away and import again")


def find_known(root: str, config: Config) -> set[tuple[str, str]]:
    """Return author and hash of each text in memory: entries, and texts promoted to notes and facts."""
    files = Files(root)
    known: set[tuple[str, str]] = set()
    for path in chain.from_iterable(map(files.list, ("memory", *map(find_own_folder, config.users)))):
        document = files.read(path)
        if isinstance(document, Document):
            author = find_author(path) or join_lines(document.field("author"))
            known.add((author, mark_text(document.body)))
        text = files.read_text(path)
        known |= {(one.author, one.mark) for one in list_added(text)} if isinstance(text, str) else set()
    facts = files.read_text(FACTS_FILE)
    return known | (find_known_facts(facts) if isinstance(facts, str) else set())


def find_known_facts(text: str) -> set[tuple[str, str]]:
    """Return author and hash of each fact with an author."""
    try:
        held = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return set()
    authored = [one for one in held if isinstance(one, dict) and "author" in one] if isinstance(held, list) else []
    return {(str(one["author"]), mark_text(fact)) for one in authored for fact in find_fact_text(one)}


def import_state_notes(folder: str, root: str, config: Config, now: datetime) -> list[str]:
    """Import long-term memory of a state that was a SPEC-010 database. Return the lines of the report.

    After an error, the next start tries again.
    """
    path = os.path.join(folder, STATE_FILE)
    if not has_notes_table(path):
        return []
    try:
        with use_state(folder) as state:
            if not has_table(state, NOTES_TABLE):
                return []
            rows = read_rows(path)[NOTES_TABLE]
            report = import_notes(rows, root, config, now)
            remove_imported_rows(state, rows, config)
    except InputError as error:
        return [f"{NOTES_TABLE} is not imported yet: {error}"]
    entries = "1 entry" if report.saved == 1 else f"{report.saved:,} entries"
    return [f"{NOTES_TABLE}: {entries} imported", *report.list_lines()]


def remove_imported_rows(state: sqlite3.Connection, rows: Iterable[LegacyRow], config: Config) -> None:
    """Delete the imported rows of a state. A table with only refused rows is renamed to old_…, unless there is one.

    A row that another program has written meanwhile remains until the next start.
    """
    refusals = {tuple(row.items()): refuse_row(read_note_row(row, 0), config, ()) for row in rows}
    state.text_factory = decode_text
    state.execute("PRAGMA secure_delete=ON")  # a forgotten entry must not remain in free pages
    with writing(state):
        left: list[str | None] = [None]
        for table in (name for name in (OLD_NOTES_TABLE, NOTES_TABLE) if has_table(state, name)):
            numbers = fetch_column(state, f"SELECT rowid FROM {table} ORDER BY rowid")
            left = [refusals.get(tuple(row.items())) for row in fetch_rows(state, SELECT_ROWS.format(table))]
            imported = [(number,) for number, refusal in zip(numbers, left, strict=True) if refusal == ""]
            state.executemany(f"DELETE FROM {table} WHERE rowid = ?", imported)
        if None in left or not has_table(state, NOTES_TABLE):
            return
        if not any(left):
            state.execute(f"DROP TABLE {NOTES_TABLE}")
        elif not has_table(state, OLD_NOTES_TABLE):
            state.execute(f"ALTER TABLE {NOTES_TABLE} RENAME TO {OLD_NOTES_TABLE}")


def has_notes_table(path: str) -> bool:
    """Return whether a state may have long-term memory to import, without changing a file."""
    if not os.path.isfile(path):
        return False
    try:
        with closing(connect_read_only(path, immutable=True)) as state:
            return has_table(state, NOTES_TABLE)
    except sqlite3.Error:
        return False
