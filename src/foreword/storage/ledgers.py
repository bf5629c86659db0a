"""Rows of prompt ledgers: what each session has sent, with shared prefixes, and decisions about edits."""

import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from foreword.errors import InputError
from foreword.promptcache.changes import remove_notices, remove_updates
from foreword.promptcache.ledger import LedgerState, Prefix, clear_ledger
from foreword.promptcache.ledger_json import dump_ledger, dump_prefix, hash_prefix, parse_ledger, parse_stored_prefix
from foreword.promptcache.rules import Calibration
from foreword.storage.database import STATE_FILE, stamp, use_state
from foreword.storage.rows import fetch_all, fetch_cell, fetch_one, insert_row, list_columns
from foreword.types import EditPolicy, frozen

# A damaged prefix is repaired by the next session that uses it. Others are not rewritten.
STORE_PREFIX = """
INSERT INTO bases (name, lines) VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET lines = excluded.lines WHERE lines IS NOT excluded.lines"""
DELETE_UNUSED_PREFIX = "DELETE FROM bases WHERE name = ?1 AND NOT EXISTS (SELECT 1 FROM ledgers WHERE base = ?1)"
USER_ROLE = "user"  # the role of messages that contain updates

StoredMessage = dict[str, Any]
"""A message as `agent.conversation` stores it."""


@frozen(eq=True)
class LedgerRow:
    """The ledger of a session as stored."""

    frozen: str
    base: str  # the name of its prefix
    lines: str


@frozen(eq=True)
class EditDecision:
    """The decision about one edit of a file."""

    path: str
    sha256: str  # the hash of the text in question
    policy: EditPolicy
    decided: str


def find_ledger(state: sqlite3.Connection, session: str) -> LedgerRow | None:
    """Return the ledger row of a session."""
    query = "SELECT frozen, base, lines FROM ledgers JOIN bases ON bases.name = ledgers.base WHERE session_id = ?"
    return fetch_one(LedgerRow, state, query, session)


def replace_ledger(state: sqlite3.Connection, session: str, row: LedgerRow) -> None:
    """Store the ledger of a session. Delete its old prefix if no other session uses it."""
    before = find_prefix_name(state, session)
    state.execute(STORE_PREFIX, (row.base, row.lines))
    insert_row(state, "ledgers", "INSERT OR REPLACE", session_id=session, base=row.base, frozen=row.frozen)
    if before not in (None, row.base):
        state.execute(DELETE_UNUSED_PREFIX, (before,))


def find_prefix_name(state: sqlite3.Connection, session: str) -> str | None:
    """Return the name of the prefix in the ledger of a session; None without a ledger."""
    return fetch_cell(str, state, "SELECT base FROM ledgers WHERE session_id = ?", session)


def drop_ledger(state: sqlite3.Connection, session: str) -> None:
    """Delete the ledger of a session."""
    base = fetch_cell(str, state, "DELETE FROM ledgers WHERE session_id = ? RETURNING base", session)
    state.execute(DELETE_UNUSED_PREFIX, (base,))


def copy_ledger(state: sqlite3.Connection, session: str, into: str, *, whole: bool) -> None:
    """Copy the ledger to a forked session. A session with only part of the history starts without one."""
    if whole:
        copy = "SELECT ?, base, frozen FROM ledgers WHERE session_id = ?"
        state.execute(f"INSERT OR IGNORE INTO ledgers (session_id, base, frozen) {copy}", (into, session))
    elif known := read_ledger(state, session):
        remove_update_texts(state, into, [update.said for update in (*known.settled, *known.updates)])
    elif has_ledger(state, session):
        remove_all_updates(state, into)


def read_ledger(state: sqlite3.Connection, session: str) -> LedgerState | None:
    """Return what a session has sent, or None if there is no valid ledger."""
    return parse_ledger_row(find_ledger(state, session))


def parse_ledger_row(row: LedgerRow | None) -> LedgerState | None:
    """Parse a ledger row. Return None if it is damaged."""
    try:
        return parse_ledger(row.frozen, parse_prefix(row.lines, row.base)) if row else None
    except InputError:
        return None


def has_ledger(state: sqlite3.Connection, session: str) -> bool:
    """Return whether a session has a ledger, valid or not."""
    return find_prefix_name(state, session) is not None


def remove_update_texts(state: sqlite3.Connection, session: str, gone: Sequence[str]) -> None:
    """Remove the given update texts from all messages of a session, compacted and pending ones included."""
    rewrite_session_messages(state, session, lambda message: remove_texts_from_message(message, gone))


def remove_all_updates(state: sqlite3.Connection, session: str) -> None:
    """Remove all prompt updates from the messages of a session, if it is unknown which ones apply."""
    rewrite_session_messages(state, session, remove_updates_from_message)


def rewrite_session_messages(
    state: sqlite3.Connection, session: str, change: Callable[[StoredMessage], StoredMessage]
) -> None:
    """Rewrite all messages of a session, compacted and pending ones included."""
    pending = "SELECT rowid, taken FROM turns WHERE session_id = ? AND taken IS NOT NULL"
    for query, rewrite in (
        ("SELECT rowid, messages FROM history WHERE session_id = ?", "UPDATE history SET messages = ? WHERE rowid = ?"),
        (pending, "UPDATE turns SET taken = ? WHERE rowid = ?"),
    ):
        for row, stored in state.execute(query, (session,)).fetchall():
            with suppress(ValueError):  # nothing can be sent of a damaged row
                if (after := rewrite_messages(stored, change)) != stored:
                    state.execute(rewrite, (after, row))


def rewrite_messages(stored: bytes, change: Callable[[StoredMessage], StoredMessage]) -> bytes:
    """Rewrite stored messages one by one; raise ValueError if they are damaged."""
    messages = json.loads(stored)
    try:
        changed = [change(message) for message in messages]
    except (LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError("the stored messages are damaged") from error
    return stored if changed == messages else json.dumps(changed, ensure_ascii=False).encode()


def remove_texts_from_message(message: StoredMessage, gone: Sequence[str]) -> StoredMessage:
    """Remove texts from a user message and the system message after it. Empty parts are dropped."""
    if message["role"] != USER_ROLE:
        return message
    parts = [
        {**part, "text": remove_updates(part["text"], gone)} if part["type"] == "text" else part
        for part in message["parts"]
    ]
    return {
        **message,
        "parts": [part for part in parts if part["type"] != "text" or part["text"]],
        **({"system": remove_updates(message["system"], gone)} if "system" in message else {}),
    }


def remove_updates_from_message(message: StoredMessage) -> StoredMessage:
    """Remove updates from the tail before a user message, and updates that are separate messages."""
    if message["role"] != USER_ROLE:
        return message
    tail, *rest = message["parts"] or [{}]
    if rest and tail["type"] == "text":
        text = remove_notices(tail["text"])
        message = {**message, "parts": [*([{**tail, "text": text}] if text else []), *rest]}
    return {**message, "system": remove_notices(message["system"])} if "system" in message else message


def find_sessions_with_text(state: sqlite3.Connection, touches: Callable[[str], bool]) -> Iterator[str]:
    """Find the sessions that were sent a matching text. A session with an unreadable ledger is included."""
    seen: dict[str, bool] = {}
    for session, base in state.execute("SELECT session_id, base FROM ledgers").fetchall():
        known = read_ledger(state, session)
        if known and base not in seen:
            seen[base] = any(touches(line.title) or touches(line.text) for line in known.prefix.lines)
        if known is None or seen[base] or any(map(touches, list_update_texts(known))):
            yield session


def list_update_texts(known: LedgerState) -> Iterator[str]:
    """List all texts of a session's updates."""
    for update in (*known.updates, *known.settled):
        yield from (update.title, update.said)
        if update.line:
            yield update.line.text


def empty_ledger(state: sqlite3.Connection, session: str) -> None:
    """Remove all texts from the ledger of a session and its updates from the history. All is sent again."""
    known = read_ledger(state, session)
    if known is None:
        remove_all_updates(state, session)
        drop_ledger(state, session)
        return
    remove_update_texts(state, session, [update.said for update in (*known.settled, *known.updates)])
    replace_ledger(state, session, build_ledger_row(clear_ledger(known)))


def is_ledger_empty(state: sqlite3.Connection, session: str) -> bool:
    """Return whether the ledger of a session was emptied and not written since."""
    return find_prefix_name(state, session) == EMPTY_PREFIX_NAME


def build_ledger_row(known: LedgerState) -> LedgerRow:
    """Convert the state of a ledger to a row."""
    name, lines = name_and_encode_prefix(known.prefix)
    return LedgerRow(frozen=dump_ledger(known), base=name, lines=lines)


# A workspace has few prefixes, shared by its sessions.
@lru_cache(maxsize=32)
def name_and_encode_prefix(prefix: Prefix) -> tuple[str, str]:
    """Return the name and the JSON of a prefix."""
    return hash_prefix(prefix), dump_prefix(prefix)


parse_prefix = lru_cache(maxsize=32)(parse_stored_prefix)
EMPTY_PREFIX_NAME = hash_prefix(Prefix())


def read_edits(state: sqlite3.Connection) -> Mapping[tuple[str, str], EditPolicy]:
    """Read the decisions about edits, by file and hash of its text."""
    return {(edit.path, edit.sha256): edit.policy for edit in list_edits(state)}


def decide_edit(state: sqlite3.Connection, path: str, sha: str, policy: EditPolicy) -> None:
    """Store a decision about one edit of a file. It does not apply to the next edit."""
    insert_row(state, "edits", "INSERT OR REPLACE", path=path, sha256=sha, policy=policy, decided=stamp())


def delete_edit_decision(state: sqlite3.Connection, path: str) -> bool:
    """Delete the decision about an edit of a file. Return whether there was one."""
    return state.execute("DELETE FROM edits WHERE path = ?", (path,)).rowcount > 0


def list_edits(state: sqlite3.Connection) -> list[EditDecision]:
    """List the decisions, newest first."""
    return fetch_all(EditDecision, state, "SELECT path, sha256, policy, decided FROM edits ORDER BY decided DESC, path")


def read_calibrations(state: sqlite3.Connection) -> Mapping[str, Calibration]:
    """Read the token calibrations by model."""
    query = "SELECT model, calls, ratio, raw, error FROM calibrations ORDER BY model"
    return {known.model: known for known in fetch_all(Calibration, state, query)}


def find_calibrations(folder: str) -> Mapping[str, Calibration]:
    """Read the token calibrations of a folder. A missing state is not created and reads as empty."""
    if not os.path.exists(os.path.join(folder, STATE_FILE)):
        return {}
    with use_state(folder) as state:
        return read_calibrations(state)


def write_calibration(state: sqlite3.Connection, known: Calibration) -> None:
    """Store a token calibration."""
    insert_row(state, "calibrations", "INSERT OR REPLACE", **list_columns(known))
