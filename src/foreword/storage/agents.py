"""What is stored about agents: soul, identity, accepted responsibilities, and each user's standing instructions."""

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from foreword.config.schema import Identity, Responsibility
from foreword.engine.context import NO_CHARACTER, StoredCharacter
from foreword.errors import InputError
from foreword.storage.database import check_text, stamp
from foreword.storage.rows import fetch_all, fetch_cell, insert_row
from foreword.types import Trust

MAX_RESPONSIBILITIES = 20  # per agent, in addition to those of its configuration
MAX_TITLE_CHARS, MAX_CONTENT_CHARS = 100, 2_000
MAX_SOUL_CHARS = 200_000  # a prompt has no room for more
MAX_INSTRUCTIONS_CHARS = 20_000  # a prompt shows fewer, the storage has all
SET_AGENT = """
INSERT INTO agent_configurations (agent_name, soul, identity, updated)
VALUES (:agent, coalesce(:soul, ''), :identity, :updated) ON CONFLICT (agent_name) DO UPDATE SET
soul = coalesce(:soul, soul), identity = iif(:named, :identity, identity), updated = :updated"""
SET_INSTRUCTIONS = """
INSERT INTO user_agent_prompt_customizations (user_id, agent_name, instructions, clearance, updated)
VALUES (?, ?, ?, ?, ?) ON CONFLICT (user_id, agent_name) DO UPDATE
SET instructions = excluded.instructions, clearance = excluded.clearance, updated = excluded.updated"""
INSTRUCTIONS_FIXED = (
    "the standing instructions cannot be changed in this conversation; a person can, by foreword instructions set"
)


def list_responsibilities(state: sqlite3.Connection, agent: str) -> tuple[Responsibility, ...]:
    """List the responsibilities of an agent, oldest first."""
    query = "SELECT title, content FROM responsibilities WHERE agent = ? ORDER BY added, title"
    return tuple(fetch_all(Responsibility, state, query, agent))


def add_responsibility(state: sqlite3.Connection, agent: str, one: Responsibility, user: str) -> None:
    """Store a responsibility of an agent on a user's behalf. Refuse an existing title."""
    held = [kept.title.casefold() for kept in list_responsibilities(state, agent)]
    check_responsibility(one)
    if one.title.casefold() in held:
        raise InputError(f"there is a responsibility {one.title!r} already; remove it first, or choose another title")
    if len(held) >= MAX_RESPONSIBILITIES:
        raise InputError(f"an agent may take on at most {MAX_RESPONSIBILITIES} responsibilities; remove one first")
    columns = {"agent": agent, "title": one.title, "content": one.content, "user_id": user, "added": stamp()}
    insert_row(state, "responsibilities", **columns)


def remove_responsibility(state: sqlite3.Connection, agent: str, title: str) -> bool:
    """Remove a responsibility by its exact title. Return whether it existed."""
    return state.execute("DELETE FROM responsibilities WHERE agent = ? AND title = ?", (agent, title)).rowcount == 1


def check_responsibility(one: Responsibility) -> None:
    """Refuse a responsibility with an invalid title or content."""
    if not one.title or one.title != " ".join(one.title.split()):
        raise InputError("a title is one line of words")
    if not one.content.strip():
        raise InputError("a responsibility says what it asks of you; its content is empty")
    for what, text, most in (("title", one.title, MAX_TITLE_CHARS), ("content", one.content, MAX_CONTENT_CHARS)):
        check_text(f"the {what} has", text, most)


def find_character(state: sqlite3.Connection, agent: str) -> StoredCharacter:
    """Return the stored attributes of an agent."""
    row = state.execute("SELECT soul, identity FROM agent_configurations WHERE agent_name = ?", (agent,)).fetchone()
    soul, identity = row or ("", None)
    taken = list_responsibilities(state, agent)
    if row is None and not taken:
        return NO_CHARACTER
    return StoredCharacter(soul=str(soul or ""), identity=parse_identity(identity), responsibilities=taken)


def set_character(
    state: sqlite3.Connection, agent: str, *, soul: str | None = None, identity: Identity | str | None = None
) -> None:
    """Store a soul, an identity or both. An empty value deletes it, None leaves it unchanged."""
    given = list_identity_fields(identity)
    for text in (soul or "", *given.values()):
        check_text("the soul or identity has", text, MAX_SOUL_CHARS)
    value = identity.strip() if isinstance(identity, str) else given
    columns = {"agent": agent, "soul": None if soul is None else soul.strip(), "named": identity is not None}
    encoded = json.dumps(value, ensure_ascii=False) if given else None
    state.execute(SET_AGENT, {**columns, "identity": encoded, "updated": stamp()})


def list_identity_fields(identity: Identity | str | None) -> dict[str, str]:
    """Return the non-empty fields of an identity. A text is the description."""
    values = asdict(identity) if isinstance(identity, Identity) else {"description": identity or ""}
    return {name: text for name, value in values.items() if (text := str(value).strip())}


def parse_identity(raw: str | None) -> Identity | str | None:
    """Parse an identity from JSON. Unknown fields are ignored, and invalid JSON is a text."""
    if raw is None or not str(raw).strip():
        return None
    try:
        value: Any = json.loads(raw)
    except ValueError:
        return str(raw).strip()
    if isinstance(value, Mapping):
        known = {field.name: value.get(field.name) for field in fields(Identity)}
        made = Identity(**{name: part for name, part in known.items() if isinstance(part, str)})
        return made if list_identity_fields(made) else None
    return value.strip() or None if isinstance(value, str) else None


def find_instructions(state: sqlite3.Connection, user: str, agent: str, clearance: Trust = Trust.FULL) -> str | None:
    """Return a user's instructions at a clearance: empty if cleared, None if there never were any."""
    where = "user_id = ? AND agent_name = ? AND clearance <= ?"
    query = f"SELECT instructions FROM user_agent_prompt_customizations WHERE {where}"
    return fetch_cell(str, state, query, user, agent, clearance)


def replace_instructions(
    state: sqlite3.Connection, user: str, agent: str, text: str, learned: Trust | None = None
) -> str:
    """Store a user's instructions for an agent and return them. A blank text clears them.

    An agent learns instructions at a clearance: they are hidden below it, and do not replace instructions that this
    clearance cannot see. A user's edit (`learned` is None) applies to all. An invalid text changes nothing.
    """
    if not user:
        raise InputError("instructions belong to a person, and no person is named")
    kept = text.strip()
    check_text("the instructions have", kept, MAX_INSTRUCTIONS_CHARS)
    if learned is not None and find_instructions(state, user, agent) != find_instructions(state, user, agent, learned):
        raise InputError(INSTRUCTIONS_FIXED)
    state.execute(SET_INSTRUCTIONS, (user, agent, kept, Trust.FAMILIAR if learned is None else learned, stamp()))
    return kept
