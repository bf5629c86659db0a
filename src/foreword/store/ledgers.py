"""Ledgers as rows: what each session has sent, with bases that many of them share, and decisions about single edits."""

import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from foreword.errors import InputError
from foreword.frozen import frozen
from foreword.ledger import Base, Frozen
from foreword.ledger.calibration import Calibration
from foreword.ledger.notice import scrub, scrub_all
from foreword.ledger.state import empty
from foreword.ledger.writing import name_base, read, read_base, write, write_base
from foreword.store.instructions import stamp
from foreword.store.state import STATE_FILE, use_state
from foreword.words import Policy

FIND = (
    "SELECT ledgers.frozen, ledgers.base, bases.lines FROM ledgers JOIN bases ON bases.name = ledgers.base"
    " WHERE session_id = ?"
)
# One that was damaged is mended by who has it; any other is not written again.
KEEP = (
    "INSERT INTO bases (name, lines) VALUES (?, ?)"
    " ON CONFLICT (name) DO UPDATE SET lines = excluded.lines WHERE lines IS NOT excluded.lines"
)
SAID = ("user-prompt", "system-prompt")  # the parts in which updates stand
UNUSED = "DELETE FROM bases WHERE name = ? AND NOT EXISTS (SELECT 1 FROM ledgers WHERE ledgers.base = bases.name)"

Part = dict[str, Any]
Parts = Sequence[Part]


@frozen(eq=True)
class Row:
    """The ledger of a session as it is kept."""

    frozen: str
    base: str
    """The name of its base."""
    lines: str


@frozen(eq=True)
class Edit:
    """What was decided about one edit of a file."""

    path: str
    sha256: str
    """Of the text that it is about."""
    policy: Policy
    decided: str


def find_ledger(state: sqlite3.Connection, session: str) -> Row | None:
    """Find the ledger of a session."""
    row = state.execute(FIND, (session,)).fetchone()
    return Row(frozen=row[0], base=row[1], lines=row[2]) if row else None


def replace_ledger(state: sqlite3.Connection, session: str, row: Row) -> None:
    """Keep a ledger in the place of the session's; a base that nobody has any more goes."""
    was = state.execute("SELECT base FROM ledgers WHERE session_id = ?", (session,)).fetchone()
    state.execute(KEEP, (row.base, row.lines))
    state.execute(
        "INSERT INTO ledgers (session_id, base, frozen) VALUES (?, ?, ?)"
        " ON CONFLICT (session_id) DO UPDATE SET base = excluded.base, frozen = excluded.frozen",
        (session, row.base, row.frozen),
    )
    if was and was[0] != row.base:
        state.execute(UNUSED, (was[0],))


def drop_ledger(state: sqlite3.Connection, session: str) -> None:
    """Drop the ledger of a session."""
    was = state.execute("DELETE FROM ledgers WHERE session_id = ? RETURNING base", (session,)).fetchall()
    for (base,) in was:
        state.execute(UNUSED, (base,))


def copy_ledger(state: sqlite3.Connection, session: str, into: str, *, whole: bool) -> None:
    """Let another session have sent what this one has; one that has not all of its past is told everything anew."""
    if whole:
        state.execute(
            "INSERT OR IGNORE INTO ledgers (session_id, base, frozen)"
            " SELECT ?, base, frozen FROM ledgers WHERE session_id = ?",
            (into, session),
        )
        return
    known = read_ledger(state, session)
    if known:
        scrub_said(state, into, [update.said for update in (*known.settled, *known.updates)])
    elif has_ledger(state, session):
        scrub_updates(state, into)


def read_ledger(state: sqlite3.Connection, session: str) -> Frozen | None:
    """Read what a session has sent; one whose ledger is damaged begins anew."""
    return read_row(find_ledger(state, session))


def read_row(row: Row | None) -> Frozen | None:
    """Read what a row says that its session has sent."""
    try:
        return read(row.frozen, find_base(row.lines, row.base)) if row else None
    except InputError:
        return None


def has_ledger(state: sqlite3.Connection, session: str) -> bool:
    """Whether a session has a ledger, be it damaged or not."""
    return state.execute("SELECT 1 FROM ledgers WHERE session_id = ?", (session,)).fetchone() is not None


def scrub_said(state: sqlite3.Connection, session: str, gone: Sequence[str]) -> None:
    """Take texts that the prompt's updates had out of all that a session has said: folded, or under way."""
    rewrite_said(state, session, lambda parts: scrub_parts(parts, gone))


def scrub_updates(state: sqlite3.Connection, session: str) -> None:
    """Take every update of the prompt out of all that a session has said, where nobody knows any more which count."""
    rewrite_said(state, session, drop_updates)


def rewrite_said(state: sqlite3.Connection, session: str, change: Callable[[Parts], Iterator[Part]]) -> None:
    """Rewrite all that a session has said: folded, or under way."""
    asked = "SELECT rowid, messages FROM history WHERE session_id = ?"
    for row, stored in state.execute(asked, (session,)).fetchall():
        if (after := rewrite(stored, change)) != stored:
            state.execute("UPDATE history SET messages = ? WHERE rowid = ?", (after, row))
    asked = "SELECT rowid, taken FROM turns WHERE session_id = ? AND finished IS NULL AND taken IS NOT NULL"
    for row, stored in state.execute(asked, (session,)).fetchall():
        if (after := rewrite(stored, change)) != stored:
            state.execute("UPDATE turns SET taken = ? WHERE rowid = ?", (after, row))


def rewrite(stored: bytes, change: Callable[[Parts], Iterator[Part]]) -> bytes:
    """Rewrite stored messages part by part."""
    messages = json.loads(stored)
    changed = [{**message, "parts": list(change(message["parts"]))} for message in messages]
    return stored if changed == messages else json.dumps(changed, ensure_ascii=False).encode()


def scrub_parts(parts: Parts, gone: Sequence[str]) -> Iterator[Part]:
    """Take texts out of what people said, and what the model was told behind it; what has nothing left goes."""
    for part in parts:
        content = part.get("content")
        if part.get("part_kind") not in SAID or not content:
            yield part
        elif isinstance(content, str):
            if text := scrub(content, gone):
                yield {**part, "content": text}
        else:
            texts = [scrub(one, gone) if isinstance(one, str) else one for one in content]
            yield {**part, "content": [one for one in texts if one]}


def drop_updates(parts: Parts) -> Iterator[Part]:
    """Take updates out of the tail that stands before the words of a message, and those that stand by themselves."""
    for part in parts:
        content = part.get("content")
        if part.get("part_kind") == "system-prompt" and isinstance(content, str):
            if text := scrub_all(content):
                yield {**part, "content": text}
        elif part.get("part_kind") == "user-prompt" and isinstance(content, list) and len(content) > 1:
            tail = scrub_all(content[0]) if isinstance(content[0], str) else content[0]
            yield {**part, "content": [*([tail] if tail else []), *content[1:]]}
        else:
            yield part


def find_touched(state: sqlite3.Connection, touches: Callable[[str], bool]) -> Iterator[str]:
    """Find the sessions that were sent a text of some kind; one whose ledger cannot be read may be one of them."""
    seen: dict[str, bool] = {}
    for session, base in state.execute("SELECT session_id, base FROM ledgers").fetchall():
        known = read_ledger(state, session)
        if known and base not in seen:
            seen[base] = any(touches(line.title) or touches(line.text) for line in known.base.lines)
        if known is None or seen[base] or any(map(touches, list_said(known))):
            yield session


def list_said(frozen: Frozen) -> Iterator[str]:
    """List every text of a session's updates."""
    for update in (*frozen.updates, *frozen.settled):
        yield from (update.title, update.said)
        if update.line:
            yield update.line.text


def empty_ledger(state: sqlite3.Connection, session: str) -> None:
    """Empty the ledger of a session: no text stays, nor what updates said of it, and all is sent anew."""
    known = read_ledger(state, session)
    if known is None:
        scrub_updates(state, session)
        drop_ledger(state, session)
        return
    scrub_said(state, session, [update.said for update in (*known.settled, *known.updates)])
    replace_ledger(state, session, make_row(empty(known)))


def is_empty(state: sqlite3.Connection, session: str) -> bool:
    """Whether the ledger of a session was emptied, and not written since."""
    row = state.execute("SELECT base FROM ledgers WHERE session_id = ?", (session,)).fetchone()
    return row is not None and row[0] == NOTHING


def make_row(frozen: Frozen) -> Row:
    """Make the row of a state."""
    name, lines = write_named(frozen.base)
    return Row(frozen=write(frozen), base=name, lines=lines)


# A workspace has few bases, and its sessions share them.
@lru_cache(maxsize=32)
def write_named(base: Base) -> tuple[str, str]:
    """Write a base, and name it."""
    return name_base(base), write_base(base)


find_base = lru_cache(maxsize=32)(read_base)
NOTHING = name_base(Base())
"""The name of a base without a line."""


def read_edits(state: sqlite3.Connection) -> Mapping[tuple[str, str], Policy]:
    """Read what was decided about single edits, by file and the hash of its text."""
    return {
        (path, sha): Policy(policy) for path, sha, policy in state.execute("SELECT path, sha256, policy FROM edits")
    }


def decide_edit(state: sqlite3.Connection, path: str, sha: str, policy: Policy) -> None:
    """Decide about one edit of a file; the next edit is another."""
    state.execute(
        "INSERT INTO edits (path, sha256, policy, decided) VALUES (?, ?, ?, ?) ON CONFLICT (path) DO UPDATE"
        " SET sha256 = excluded.sha256, policy = excluded.policy, decided = excluded.decided",
        (path, sha, str(policy), stamp()),
    )


def undo_edit(state: sqlite3.Connection, path: str) -> bool:
    """Undo what was decided about an edit of a file; return whether there was something."""
    return state.execute("DELETE FROM edits WHERE path = ?", (path,)).rowcount > 0


def list_edits(state: sqlite3.Connection) -> list[Edit]:
    """List what was decided, the newest first."""
    asked = "SELECT path, sha256, policy, decided FROM edits ORDER BY decided DESC, path"
    return [Edit(path=path, sha256=sha, policy=Policy(policy), decided=decided)
            for path, sha, policy, decided in state.execute(asked)]  # fmt: skip


def read_calibrations(state: sqlite3.Connection) -> Mapping[str, Calibration]:
    """Read what the calls of each model have taught about its tokens."""
    asked = "SELECT model, calls, ratio, raw, error FROM calibrations ORDER BY model"
    return {
        model: Calibration(model=model, calls=calls, ratio=ratio, raw=raw, error=error)
        for model, calls, ratio, raw, error in state.execute(asked)
    }


def find_calibrations(folder: str) -> Mapping[str, Calibration]:
    """Find what was learned in a folder of state; nothing where no state is, and none is made."""
    if not os.path.exists(os.path.join(folder, STATE_FILE)):
        return {}
    with use_state(folder) as state:
        return read_calibrations(state)


def write_calibration(state: sqlite3.Connection, known: Calibration) -> None:
    """Keep what is known of a model's tokens."""
    state.execute(
        "INSERT INTO calibrations (model, calls, ratio, raw, error) VALUES (?, ?, ?, ?, ?) ON CONFLICT (model)"
        " DO UPDATE SET calls = excluded.calls, ratio = excluded.ratio, raw = excluded.raw, error = excluded.error",
        (known.model, known.calls, known.ratio, known.raw, known.error),
    )
