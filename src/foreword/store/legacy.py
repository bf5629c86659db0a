"""The tables of SPEC-010 as they were before it, and how their rows become those of today: nothing that counts is lost.

An agent had a `system_prompt`. A person had several customizations of one agent, each JSON with a type and a priority;
they were in force from the lowest priority up, and that is the order in which they become one text. Long-term memory
becomes entries: `long_term_memory.py`.
"""

import json
import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any

from foreword.errors import InputError
from foreword.frozen import frozen
from foreword.store.instructions import stamp

AGENTS = "agent_configurations"
CUSTOMIZATIONS = "user_agent_prompt_customizations"
NOTES = "agent_long_term_memory"
OLD_NOTES = f"old_{NOTES}"  # of a state that was such a database: rows that could not be imported
TABLES = {
    AGENTS: "SELECT * FROM agent_configurations ORDER BY rowid",
    CUSTOMIZATIONS: "SELECT * FROM user_agent_prompt_customizations ORDER BY rowid",
    NOTES: "SELECT * FROM agent_long_term_memory ORDER BY rowid",
    OLD_NOTES: "SELECT * FROM old_agent_long_term_memory ORDER BY rowid",
}
NAMES = ("agent_name", "name")  # what the column of an agent's name may be called
ADD_AGENT = (
    "INSERT INTO agent_configurations (agent_name, soul, identity, updated) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (agent_name) DO NOTHING"
)
ADD_INSTRUCTIONS = (
    "INSERT INTO user_agent_prompt_customizations (user_id, agent_name, instructions, updated) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (user_id, agent_name) DO NOTHING"
)

Row = Mapping[str, Any]


@frozen(eq=True)
class Imported:
    """What was taken from an old database, and what was left alone."""

    agents: int
    instructions: int
    kept: int
    """Agents and instructions that were here already, and stayed as they are."""
    inactive: int
    """Customizations that were switched off, and so are not brought into force."""
    agent_names: tuple[str, ...] = ()
    """The agents that were found, whether they were here already or not."""
    user_names: tuple[str, ...] = ()
    """The people whose instructions were found."""
    notes: int = 0
    """Rows of long-term memory, which become entries of memory and not rows of the state."""


def import_database(state: sqlite3.Connection, path: str) -> Imported:
    """Take agents and instructions from a database of the old schema, or of today's; all of them or none."""
    return import_rows(state, read_rows(path))


def import_rows(state: sqlite3.Connection, rows: Mapping[str, Sequence[Row]]) -> Imported:
    """Take agents and instructions from the rows of a database; all of them or none."""
    agents, instructions = convert_agents(rows[AGENTS]), merge_customizations(rows[CUSTOMIZATIONS])
    now = stamp()
    state.execute("BEGIN IMMEDIATE")
    try:
        added = [state.execute(ADD_AGENT, (*agent, now)).rowcount for agent in agents]
        merged = [state.execute(ADD_INSTRUCTIONS, (*one, now)).rowcount for one in instructions]
        state.execute("COMMIT")
    except BaseException:
        if state.in_transaction:
            state.execute("ROLLBACK")
        raise
    return Imported(
        agents=sum(added),
        instructions=sum(merged),
        kept=added.count(0) + merged.count(0),
        inactive=len([row for row in rows[CUSTOMIZATIONS] if not is_active(row)]),
        agent_names=tuple(sorted({name for name, *_ in agents} | {agent for _, agent, _ in instructions})),
        user_names=tuple(sorted({user for user, *_ in instructions if user})),
        notes=len(rows[NOTES]),
    )


def read_rows(path: str) -> dict[str, list[Row]]:
    """Read a database that is only read; it must have agents, customizations or long-term memory.

    In a state that was such a database, long-term memory that could not be imported has the name old_….
    """
    wanted = f"{AGENTS}, {CUSTOMIZATIONS} or {NOTES}"
    if not os.path.isfile(path):
        raise InputError(f"{path} is no file; name a SQLite database with the table {wanted}")
    found: dict[str, list[Row]] = {name: [] for name in TABLES}
    try:
        with closing(sqlite3.connect(f"file:{quote_path(path)}?mode=ro", uri=True)) as old:
            old.row_factory = sqlite3.Row
            old.text_factory = decode_text
            names = {row["name"] for row in old.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            for name in names & found.keys():
                found[name] = [dict(row) for row in old.execute(TABLES[name])]
    except sqlite3.Error as error:
        raise InputError(f"{path} cannot be read as a SQLite database: {error}") from None
    if not names & found.keys():
        raise InputError(f"{path} has no table {wanted}")
    found[NOTES] += found.pop(OLD_NOTES)
    return found


def decode_text(raw: bytes) -> str:
    """Read a text of a database; bytes that are no UTF-8 are replaced."""
    return raw.decode("utf-8", "replace")


def quote_path(path: str) -> str:
    """Write a path as a part of an address."""
    from urllib.parse import quote

    return quote(os.path.abspath(path))


def convert_agents(rows: Iterable[Row]) -> list[tuple[str, str, str | None]]:
    """Give name, soul and identity of each agent; of two rows of one name, the later one counts where it has a text."""
    found: dict[str, tuple[str, str | None]] = {}
    for row in rows:
        name = str(next((row[key] for key in NAMES if row.get(key)), ""))
        soul, identity = found.get(name, ("", None))
        text = str(row.get("soul") or row.get("system_prompt") or "").strip()
        found[name] = (text or soul, write_json(row.get("identity")) or identity)
    return [(name, soul, identity) for name, (soul, identity) in found.items() if name]


def write_json(value: object) -> str | None:
    """Write a JSON value as text, as SQLite has it; PostgreSQL hands over what it means."""
    if value is None or isinstance(value, str):
        return value or None
    return show(value) if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False)


def merge_customizations(rows: Iterable[Row]) -> list[tuple[str, str, str]]:
    """Give person, agent and the one text of all that was in force between them, from the lowest priority up.

    Rows of one priority stay in the order in which they were written, and what is said twice is said once.
    """
    texts: dict[tuple[str, str], list[str]] = {}
    for row in sorted(filter(is_active, rows), key=find_priority):
        key = (str(row.get("user_id") or ""), str(row.get("agent_name") or ""))
        said = texts.setdefault(key, [])
        text = str(row.get("instructions") or "").strip() or unwrap(row.get("content"))
        if text and text not in said:
            said.append(text)
    return [(user, agent, "\n\n".join(said)) for (user, agent), said in texts.items()]


def is_active(row: Row) -> bool:
    """Whether a customization was in force; one that says nothing of it was."""
    return row.get("is_active") not in (0, False, "0", "false", "f")


def find_priority(row: Row) -> float:
    """Find the priority of a customization; one that is none counts as 0."""
    try:
        return float(row.get("priority") or 0)
    except (TypeError, ValueError):
        return 0.0


def unwrap(content: object) -> str:
    """Unwrap a JSON string; any other value stays the JSON that it is, nothing is nothing, and no JSON is a text."""
    if content is None:
        return ""
    raw = show(content).strip()
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return raw
    if value is None:
        return ""
    # Half of a character can stand in JSON, and in no text that is kept.
    return value.encode("utf-8", "replace").decode().strip() if isinstance(value, str) else raw


def show(value: object) -> str:
    """Show what a column holds as text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
