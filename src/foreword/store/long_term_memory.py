"""Imports the notes of SPEC-010's table `agent_long_term_memory` into each person's own memory, with their dates.

A row holds what one agent noted about one person. Nothing is left out without a line in the report.
"""

import json
import os
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from contextlib import closing
from dataclasses import fields
from datetime import UTC, datetime
from itertools import count

from foreword.config.schema import Config
from foreword.errors import InputError, show_name
from foreword.frozen import frozen
from foreword.memory import Note
from foreword.memory.entry import LONGEST, find_places, mark_text, write_file, write_note
from foreword.memory.notes import list_added
from foreword.sources.document import Document, normalise, one_line
from foreword.sources.files import Files
from foreword.sources.memories import FACTS, find_texts
from foreword.sources.own_memory import OWN_STORE, find_own_folder
from foreword.sources.provenance import find_author
from foreword.store.legacy import NOTES, OLD_NOTES, Row, decode_text, quote_path, read_rows, show
from foreword.store.schema import has_table
from foreword.store.state import STATE_FILE, use_state
from foreword.words import Trust

# Names of the columns; the document names only the table.
TEXTS = ("notes", "note", "content", "text", "memory")
AGENTS = ("agent_name", "agent_id", "agent")
TIMES = ("updated_at", "updated", "created_at", "created")
CHANNEL = "import"
MAX_LABEL_CHARS = 40  # of a part of a long text
MAX_SHOWN = 20  # rows that one line of the report names


@frozen(eq=True)
class NotesReport:
    """The outcome of an import of long-term memory; rows are named by number, person and agent."""

    saved: int = 0
    """Entries that were written."""
    known: tuple[str, ...] = ()
    """Rows whose text the person's memory has already."""
    duplicates: tuple[str, ...] = ()
    """Rows that repeat an earlier row of the same person."""
    split: tuple[str, ...] = ()
    """Rows that are too long for one entry and became several."""
    undated: tuple[str, ...] = ()
    """Rows without a date, which have the time of the import."""
    unread: tuple[str, ...] = ()
    """Rows with other columns that have a value, which is not imported."""
    unread_columns: tuple[str, ...] = ()
    """The names of these columns."""
    replaced: tuple[str, ...] = ()
    """Rows with bytes that are no text, which were replaced."""
    unknown_agents: tuple[str, ...] = ()
    """Rows of agents that the configuration lacks; they are imported, since all agents share memory."""
    empty: tuple[str, ...] = ()
    """Rows without a text, which are not imported."""
    ownerless: tuple[str, ...] = ()
    """Rows without a user, which are not imported."""
    unknown_users: tuple[str, ...] = ()
    """Rows of people whom the configuration lacks, which are not imported."""
    strangers: tuple[str, ...] = ()
    """Rows of people with trust `public`, who have no memory; they are not imported."""

    def list_lines(self) -> list[str]:
        """Return one line for each kind of row that was not imported or was changed."""
        lines = (
            (self.known, "imported before"),
            (self.duplicates, "not imported again: the same text of the same person"),
            (self.split, f"longer than {LONGEST:,} characters and imported as several entries"),
            (self.undated, "without a date; the entry has the time of the import"),
            (self.unread, f"with columns that are not imported ({', '.join(self.unread_columns)})"),
            (self.replaced, "with bytes that are no text; each became \ufffd"),
            (self.unknown_agents, "of agents that foreword.yaml lacks; imported, since all agents share memory"),
            (self.empty, "not imported: no text"),
            (self.ownerless, "not imported: no user_id"),
            (self.unknown_users, "not imported: add the users to foreword.yaml and import again"),
            (self.strangers, "not imported: public people have no memory; raise their trust and import again"),
        )
        return [
            f"{NOTES}: {show_count(len(rows), 'row', 'rows')} {what}: {name_rows(rows)}" for rows, what in lines if rows
        ]


def show_count(number: int, one: str, many: str) -> str:
    """Show how many there are of something."""
    return f"{number:,} {one if number == 1 else many}"


def name_rows(rows: Sequence[str]) -> str:
    """Name rows, as many as a line holds."""
    more = f" and {len(rows) - MAX_SHOWN:,} more" if len(rows) > MAX_SHOWN else ""
    return ", ".join(rows[:MAX_SHOWN]) + more


def import_notes(rows: Iterable[Row], root: str, config: Config, now: datetime) -> NotesReport:
    """Write the rows of long-term memory as entries; existing entries are not written again."""
    report: dict[str, list[str]] = {field.name: [] for field in fields(NotesReport) if field.name != "saved"}
    columns: dict[str, None] = {}
    known = find_known(root, config)
    seen: set[tuple[str, str]] = set()
    saved = 0
    for row in map(read_note_row, rows, count(1)):
        if refusal := refuse_row(row, config, seen):
            report[refusal].append(row.label)
            continue
        seen.add((row.user, row.text))
        parts = make_parts(row.text)
        new = [part for part in parts if not {(row.user, mark_text(one)) for one in (part, one_line(part))} & known]
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
            report[name].append(row.label)
        columns |= dict.fromkeys(row.unread if new else ())
    report["unread_columns"] = [show_part(name) for name in columns]
    return NotesReport(saved=saved, **{name: tuple(labels) for name, labels in report.items()})


@frozen(eq=True)
class NoteRow:
    """The known columns of one row of long-term memory."""

    label: str
    user: str
    agent: str
    text: str
    time: datetime | None
    unread: tuple[str, ...]
    """Other columns that have a value."""


def read_note_row(row: Row, number: int) -> NoteRow:
    """Read a row, whatever its columns are called."""
    filled = {name: read_text(value) for name, value in row.items() if value not in (None, "", b"")}
    agent_column = next((name for name in AGENTS if name in filled), "")
    time_column, time = find_time(row)
    user, agent = filled.get("user_id", ""), filled.get(agent_column, "")
    texts = [normalise(filled[name]).replace("\0", "").strip() for name in TEXTS if name in filled]
    used = {"id", "user_id", agent_column, *TEXTS, *([time_column] if time else TIMES)}
    return NoteRow(
        label=f"{number} ({show_part(user)}, {show_part(agent)})",
        user=user,
        agent=agent,
        text="\n\n".join(dict.fromkeys(filter(None, texts))),
        time=time,
        unread=tuple(name for name in filled if name not in used),
    )


def read_text(value: object) -> str:
    """Read a column as text that can be written."""
    return show(value).encode("utf-8", "replace").decode()


def show_part(text: str) -> str:
    """Show a name in the report, short and on one line."""
    return show_name(one_line(text))[:60] if text else "none"


def refuse_row(row: NoteRow, config: Config, seen: Collection[tuple[str, str]]) -> str:
    """Say why a row is not imported, as the report calls it, or nothing."""
    reasons = {
        "empty": not row.text,
        "ownerless": not row.user,
        "unknown_users": row.user not in config.users,
        "strangers": row.user in config.users and config.users[row.user].trust < Trust.FAMILIAR,
        "duplicates": (row.user, row.text) in seen,
    }
    return next((name for name, applies in reasons.items() if applies), "")


def find_time(row: Row) -> tuple[str, datetime | None]:
    """Find when a row was last changed, else when it was made, and the column; None where neither is a time."""
    for name in TIMES:
        value = row.get(name)
        try:
            if isinstance(value, int | float):
                return name, datetime.fromtimestamp(value, UTC)
            moment = datetime.fromisoformat(show(value).strip()) if value else None
            if moment:
                return name, (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError, OSError):
            continue
    return "", None


def make_parts(text: str) -> list[str]:
    """Make the texts of one entry or, where the text is too long, of several that say so."""
    parts = [escape_comment(part) for part in split_text(text, LONGEST - MAX_LABEL_CHARS)]
    return [f"(part {at} of {len(parts)})\n\n{part}" for at, part in enumerate(parts, 1)] if len(parts) > 1 else parts


def split_text(text: str, most: int) -> list[str]:
    """Split a text into parts of at most so many characters, between paragraphs, lines or words where it can be."""
    parts: list[str] = []
    at = 0
    while len(text) - at > most:
        cuts = (text.rfind(sign, at + 1, at + most) for sign in ("\n\n", "\n", " "))
        end = next((cut for cut in cuts if cut != -1), at + most)
        parts.append(text[at:end].strip())
        at = end
    return [part for part in (*parts, text[at:].strip()) if part]


def escape_comment(text: str) -> str:
    """Escape a comment at the beginning of a text; a comment at the beginning of a file is never shown."""
    return f"\\{text}" if text.startswith("<!--") else text


def save_note(root: str, row: NoteRow, text: str, clearance: Trust, now: datetime) -> None:
    """Write one entry of a person's own memory; where its name is taken by another text, it gets a longer one."""
    note = Note(
        text=text,
        author=row.user,
        clearance=clearance,
        channel=CHANNEL,
        session=f"{NOTES}/{row.agent}" if row.agent else NOTES,
        time=row.time or now,
    )
    if not any(write_file(root, path, write_note(note)) for path in find_places(OWN_STORE, note)):
        folder = find_own_folder(row.user)
        raise InputError(f"{folder} has files of the names that an entry needs; move them away and import again")


def find_known(root: str, config: Config) -> set[tuple[str, str]]:
    """Return author and hash of each text in memory: entries, and texts promoted to notes and facts."""
    files = Files(root)
    known: set[tuple[str, str]] = set()
    for path in [path for folder in ("memory", *map(find_own_folder, config.users)) for path in files.list(folder)]:
        document = files.read(path)
        if isinstance(document, Document):
            author = find_author(path) or one_line(document.field("author"))
            known.add((author, mark_text(document.body)))
        text = files.read_text(path)
        known |= {(one.author, one.mark) for one in list_added(text)} if isinstance(text, str) else set()
    facts = files.read_text(FACTS)
    return known | (find_known_facts(facts) if isinstance(facts, str) else set())


def find_known_facts(text: str) -> set[tuple[str, str]]:
    """Find the facts that say whose words they were."""
    try:
        held = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return set()
    authored = [one for one in held if isinstance(one, dict) and "author" in one] if isinstance(held, list) else []
    return {(str(one["author"]), mark_text(fact)) for one in authored for fact in find_texts(one)}


def upgrade_notes(folder: str, root: str, config: Config, now: datetime) -> list[str]:
    """Import long-term memory of a state that was a database of SPEC-010; returns the lines of the report.

    The table is removed then, so that it happens once. What cannot be done now is tried with the next start.
    """
    path = os.path.join(folder, STATE_FILE)
    if not has_notes(path):
        return []
    try:
        with use_state(folder) as state:
            if not has_table(state, NOTES):
                return []
            rows = read_rows(path)[NOTES]
            report = import_notes(rows, root, config, now)
            set_aside(state, rows, config)
    except InputError as error:
        return [f"{NOTES} is not imported yet: {error}"]
    return [f"{NOTES}: {show_count(report.saved, 'entry', 'entries')} imported", *report.list_lines()]


def set_aside(state: sqlite3.Connection, rows: Iterable[Row], config: Config) -> None:
    """Delete the rows of a state that were imported, and move the others to the table old_…, which is imported by hand.

    A row that another program has written since stays where it is, until the next start.
    """
    found = {freeze_row(row): refuse_row(read_note_row(row, 0), config, ()) for row in rows}
    refused = {row for row, reason in found.items() if reason}
    imported = found.keys() - refused
    state.text_factory = decode_text
    state.execute("PRAGMA secure_delete=ON")  # a forgotten entry must not stay in free pages
    state.execute("BEGIN IMMEDIATE")
    try:
        for table in (OLD_NOTES, NOTES):
            for number, row in list_numbered(state, table):
                left = table == NOTES and freeze_row(row) in refused
                if left:
                    keep_row(state, number, list(row))
                if left or freeze_row(row) in imported:
                    state.execute(f"DELETE FROM {table} WHERE rowid = ?", (number,))
        if has_table(state, NOTES) and not list_numbered(state, NOTES):
            state.execute(f"DROP TABLE {NOTES}")
        state.execute("COMMIT")
    except BaseException:
        if state.in_transaction:
            state.execute("ROLLBACK")
        raise


def freeze_row(row: Row) -> tuple[tuple[str, object], ...]:
    """Make a row a value that can be compared."""
    return tuple(row.items())


def list_numbered(state: sqlite3.Connection, table: str) -> list[tuple[int, Row]]:
    """List the rows of a table, each with its number in the file; a missing table has none."""
    if not has_table(state, table):
        return []
    found = state.execute(f"SELECT rowid, * FROM {table}")
    names = [column[0] for column in found.description][1:]
    return [(number, dict(zip(names, values, strict=True))) for number, *values in found]


def keep_row(state: sqlite3.Connection, number: int, names: Sequence[str]) -> None:
    """Copy a row to the table old_…, which is made or gets more columns if need be."""
    if not has_table(state, OLD_NOTES):
        state.execute(f"CREATE TABLE {OLD_NOTES} AS SELECT * FROM {NOTES} WHERE 0")
    known = {name for (name,) in state.execute("SELECT name FROM pragma_table_info(?)", (OLD_NOTES,))}
    for name in names:
        if name not in known:
            state.execute(f"ALTER TABLE {OLD_NOTES} ADD COLUMN {quote_column(name)}")
    columns = ", ".join(map(quote_column, names))
    state.execute(f"INSERT INTO {OLD_NOTES} ({columns}) SELECT {columns} FROM {NOTES} WHERE rowid = ?", (number,))


def quote_column(name: str) -> str:
    """Write the name of a column in SQL."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def has_notes(path: str) -> bool:
    """Whether a state may have long-term memory that waits; a quick look that changes no file."""
    if not os.path.isfile(path):
        return False
    try:
        with closing(sqlite3.connect(f"file:{quote_path(path)}?mode=ro&immutable=1", uri=True)) as state:
            return has_table(state, NOTES)
    except sqlite3.Error:
        return False
