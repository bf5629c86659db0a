"""Soul and identity of agents, set by the owner at the shell or over the API; they win over an agent's files."""

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from foreword.config.schema import Identity
from foreword.errors import InputError
from foreword.sources.character import UNKEPT, Character
from foreword.store.instructions import is_whole, stamp
from foreword.store.responsibilities import list_responsibilities

LONGEST = 200_000  # characters of a soul; a prompt has no room for more
FIND = "SELECT soul, identity FROM agent_configurations WHERE agent_name = ?"
SET = (
    "INSERT INTO agent_configurations (agent_name, soul, identity, updated)"
    " VALUES (:agent, coalesce(:soul, ''), :identity, :updated) ON CONFLICT (agent_name) DO UPDATE SET"
    " soul = coalesce(:soul, soul), identity = iif(:named, :identity, identity), updated = :updated"
)


def find_character(state: sqlite3.Connection, agent: str) -> Character:
    """Find what is kept of an agent."""
    row = state.execute(FIND, (agent,)).fetchone()
    soul, identity = row or ("", None)
    taken = list_responsibilities(state, agent)
    if row is None and not taken:
        return UNKEPT
    return Character(soul=str(soul or ""), identity=read_identity(identity), responsibilities=taken)


def set_character(
    state: sqlite3.Connection, agent: str, *, soul: str | None = None, identity: Identity | str | None = None
) -> None:
    """Keep a soul, an identity or both; an empty one is taken away, and None leaves what is kept."""
    texts = [soul or "", *spell(identity).values()]
    if any(len(text) > LONGEST for text in texts):
        raise InputError(f"a soul or an identity has {LONGEST:,} characters at most; nothing was changed")
    if any("\0" in text or not is_whole(text) for text in texts):
        raise InputError("there are signs in it that are no characters; nothing was changed")
    state.execute(
        SET,
        {
            "agent": agent,
            "soul": None if soul is None else soul.strip(),
            "identity": write_identity(identity),
            "named": identity is not None,
            "updated": stamp(),
        },
    )


def spell(identity: Identity | str | None) -> dict[str, str]:
    """Give the fields of an identity that say something; a text is a description."""
    if identity is None or isinstance(identity, str):
        return {"description": identity.strip()} if identity and identity.strip() else {}
    found = {field.name: str(getattr(identity, field.name)).strip() for field in fields(Identity)}
    return {name: text for name, text in found.items() if text}


def write_identity(identity: Identity | str | None) -> str | None:
    """Write an identity as JSON: fields as an object, a text as a text, and nothing where it is empty."""
    if not spell(identity):
        return None
    value = identity.strip() if isinstance(identity, str) else spell(identity)
    return json.dumps(value, ensure_ascii=False)


def read_identity(raw: str | None) -> Identity | str | None:
    """Read an identity from JSON; fields that nobody shows are left where they are, and what is no JSON is a text."""
    if raw is None or not str(raw).strip():
        return None
    try:
        value: Any = json.loads(raw)
    except ValueError:
        return str(raw).strip()
    if isinstance(value, Mapping):
        known = {field.name: value.get(field.name) for field in fields(Identity)}
        made = Identity(**{name: part for name, part in known.items() if isinstance(part, str)})
        return made if spell(made) else None
    return value.strip() or None if isinstance(value, str) else None
