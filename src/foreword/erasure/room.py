"""What was said in rooms: a person's rows go, and what was made of them and of others' words together is made anew."""

import json
import re
import sqlite3
from collections.abc import Iterator
from typing import Any

from foreword.erasure.blotting import Blotter
from foreword.erasure.holding import STATE, Bases, Given
from foreword.erasure.person import NAMES, Person, mark
from foreword.frozen import frozen

SHARED = "session_id NOT IN (SELECT id FROM theirs WHERE kind = 'session')"
OWN = "turn_id IN (SELECT id FROM theirs WHERE kind = 'turn')"
FIRST = (
    "(SELECT min(mine.position) FROM history AS mine WHERE mine.session_id = history.session_id"
    " AND mine.rowid IN (SELECT CAST(id AS INTEGER) FROM theirs WHERE kind = 'row'))"
)
SUMS = f"{SHARED} AND kind = 'summary' AND position >= {FIRST}"
REFOLD = """
UPDATE history SET folded = EXISTS (SELECT 1 FROM history AS newer WHERE newer.session_id = history.session_id
    AND newer.kind = 'summary' AND (newer.position > history.position
        OR newer.position = history.position AND history.kind != 'summary'))
WHERE session_id IN (SELECT id FROM theirs WHERE kind = 'refold')"""
LOOSEN = f"UPDATE history SET beginning = NULL WHERE beginning IS NOT NULL AND {SHARED} AND position > {FIRST}"


@frozen(eq=True)
class Summaries:
    """Summaries of rooms in which they spoke. What others said there was only folded, and stands again as it was said.

    Later rows of such a session also lose the hash of all that was said before them: it would confirm a guess.
    """

    name: str = "summaries of rooms"
    base: str = STATE
    where: str = ".foreword/state.sqlite"
    claims: tuple[str, ...] = ("state.history.messages", "state.history.beginning")

    def find(self, bases: Bases, person: Person) -> int:
        """Count the summaries that their words went into."""
        if bases.state is None:
            return 0
        mark_rows(bases.state, person)
        (count,) = bases.state.execute(f"SELECT count(*) FROM history WHERE {SUMS}").fetchone()
        return int(count)

    def give(self, bases: Bases, person: Person) -> Iterator[Given]:  # noqa: ARG002
        """Give nothing: a summary holds the words of others."""
        return iter(())

    def forget(self, bases: Bases, person: Person) -> int:
        """Remove these summaries, and unfold what they stood for."""
        state = bases.state
        if state is None:
            return 0
        mark_rows(state, person)
        state.execute("DELETE FROM theirs WHERE kind = 'refold'")
        state.execute(f"INSERT OR IGNORE INTO theirs SELECT 'refold', session_id FROM history WHERE {SUMS}")
        gone = state.execute(f"DELETE FROM history WHERE {SUMS}").rowcount
        state.execute(REFOLD)
        state.execute(LOOSEN)
        return gone


def mark_rows(state: sqlite3.Connection, person: Person) -> None:
    """Mark the rows of rooms that hold their words."""
    own = [row for (row,) in state.execute(f"SELECT rowid FROM history WHERE {SHARED} AND {OWN}")]
    lines = [row for row, _ in cut_rows(state, person)]
    mark(state, {"row": {str(row) for row in (*own, *lines)}})


@frozen(eq=True)
class RoomLines:
    """What lanes of a room were told of it without a turn: lines of several people in one row."""

    name: str = "lines told to other lanes of a room"
    base: str = STATE
    where: str = ".foreword/state.sqlite"
    claims: tuple[str, ...] = ("state.history.messages",)

    def find(self, bases: Bases, person: Person) -> int:
        """Count the rows with lines of theirs."""
        return sum(1 for _ in cut_rows(bases.state, person))

    def give(self, bases: Bases, person: Person) -> Iterator[Given]:  # noqa: ARG002
        """Give nothing: what they said there is given where it was overheard."""
        return iter(())

    def forget(self, bases: Bases, person: Person) -> int:
        """Take their lines out, and a row that has no others away."""
        changed = list(cut_rows(bases.state, person))
        for row, messages in changed:
            assert bases.state is not None
            if messages is None:
                bases.state.execute("DELETE FROM history WHERE rowid = ?", (row,))
            else:
                bases.state.execute("UPDATE history SET messages = ? WHERE rowid = ?", (messages, row))
        return len(changed)


def cut_rows(state: sqlite3.Connection | None, person: Person) -> Iterator[tuple[int, bytes | None]]:
    """Cut their lines out of what lanes were told without a turn; None stands for a row that has no others."""
    if state is None:
        return
    found = state.execute("SELECT rowid, messages FROM history WHERE kind = 'room' AND turn_id IS NULL").fetchall()
    if not found:
        return
    from foreword.gateway.room import label  # late: it needs what only a gateway has, and so do such rows

    names = {label(name) for name in person.names}
    for row, stored in found:
        messages = json.loads(stored)
        after = [cut_message(message, names) for message in messages]
        if after != messages:
            said = any(has_words(message) for message in after)
            yield row, json.dumps(after, ensure_ascii=False).encode() if said else None


def cut_message(message: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """Cut the lines of a speaker out of a message of the room."""
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
    """Cut what a speaker said out of lines that begin with who speaks; what goes on is indented."""
    said = "|".join(map(re.escape, sorted(names)))
    return re.sub(rf"(?m)^(?:{said}): .*(?:\n  .*)*\n?", "", text)


def has_words(message: dict[str, Any]) -> bool:
    """Whether a message of the room still says something."""
    return any(
        part.get("part_kind") == "user-prompt" and any(text.strip() for text in list_texts(part))
        for part in message.get("parts", ())
    )


def list_texts(part: dict[str, Any]) -> list[str]:
    """List the texts of a message."""
    content = part.get("content")
    return [text for text in (content if isinstance(content, list) else [content]) if isinstance(text, str)]


QUOTING = (
    ("turns", "reply", "id NOT IN (SELECT id FROM theirs WHERE kind = 'turn')"),
    ("outbox", "text", "(turn_id IS NULL OR NOT turn_id IN (SELECT id FROM theirs WHERE kind = 'turn'))"),
    ("plans", "text", SHARED),
    ("tasks", "title", SHARED),
    ("tasks", "description", SHARED),
    ("tasks", "steps", SHARED),
    ("workflows", "text", SHARED),
    ("schedules", "say", f"user_id NOT IN {NAMES}"),
    ("schedules", "name", f"user_id NOT IN {NAMES} AND origin != 'config'"),
    ("responsibilities", "content", f"user_id NOT IN {NAMES}"),
)
SPOKEN = (
    ("history", "messages", f"{SHARED} AND (turn_id IS NULL OR NOT {OWN}) AND kind != 'outside'", "turn_id"),
    ("turns", "taken", "taken IS NOT NULL AND id NOT IN (SELECT id FROM theirs WHERE kind = 'turn')", "id"),
)


@frozen(eq=True)
class Quotes:
    """What agents wrote to others, as far as it repeats their words: a word stands there instead."""

    name: str = "texts of agents that quote them"
    base: str = STATE
    where: str = ".foreword/state.sqlite"
    claims: tuple[str, ...] = (
        "state.history.messages", "state.plans.text", "state.tasks.title", "state.tasks.description",
        "state.tasks.steps", "state.workflows.text",
    )  # fmt: skip

    def find(self, bases: Bases, person: Person) -> int:
        """Count these texts."""
        return sum(1 for _ in self._blot(bases.state, person))

    def give(self, bases: Bases, person: Person) -> Iterator[Given]:  # noqa: ARG002
        """Give nothing: the texts are others', and the words are given where they were said."""
        return iter(())

    def forget(self, bases: Bases, person: Person) -> int:
        """Blot their words out."""
        changed = list(self._blot(bases.state, person))
        for order, values in changed:
            assert bases.state is not None
            bases.state.execute(order, values)
        return len(changed)

    def _blot(self, state: sqlite3.Connection | None, person: Person) -> Iterator[tuple[str, tuple[Any, ...]]]:
        if state is None or not (person.said or person.kept):
            return
        blotter = Blotter(person)
        for table, column, where in QUOTING:
            keys = find_keys(state, table)
            for *key, text in state.execute(f"SELECT {keys}, {column} FROM {table} WHERE {where}").fetchall():
                after = blotter.wipe_value(text)
                if after != text:
                    yield f"UPDATE {table} SET {column} = ? WHERE ({keys}) = ({marks(key)})", (after, *key)
        for table, column, where, turn in SPOKEN:
            keys = find_keys(state, table)
            asked = (
                f"SELECT {keys}, {column}, (SELECT text FROM turns AS said WHERE said.id = {table}.{turn})"
                f" FROM {table} WHERE {where}"
            )
            for *key, stored, own in state.execute(asked).fetchall():
                after = blotter.wipe_messages(stored, [own] if own else ())
                if after != stored:
                    yield f"UPDATE {table} SET {column} = ? WHERE ({keys}) = ({marks(key)})", (after, *key)


def find_keys(state: sqlite3.Connection, table: str) -> str:
    """Find the columns by which a row of a table is known."""
    rows = state.execute("SELECT name FROM pragma_table_info(?) WHERE pk ORDER BY pk", (table,))
    return ", ".join(name for (name,) in rows)


def marks(key: list[Any]) -> str:
    """Write a question mark for each part of a key."""
    return ", ".join("?" * len(key))
