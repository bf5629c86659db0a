"""Pairing codes and paired identities in the state. Only hashes of codes are stored."""

import sqlite3
from collections.abc import Collection
from datetime import datetime
from hashlib import sha256

from foreword.storage.database import format_moment
from foreword.storage.rows import fetch_all, fetch_cell, insert_row
from foreword.types import frozen


@frozen(eq=True)
class PairedIdentity:
    """An identity and its user."""

    identity: str
    user: str
    name: str  # display name on the channel at the time of pairing
    since: datetime


def hash_code(code: str) -> str:
    """Hash a pairing code; its case does not matter."""
    return sha256(code.upper().encode()).hexdigest()


def store_code(state: sqlite3.Connection, code: str, user: str, now: datetime, until: datetime) -> None:
    """Store a code of a user; it replaces their earlier one."""
    state.execute("DELETE FROM pairings WHERE user_id = ? OR expires <= ?", (user, format_moment(now)))
    insert_row(state, "pairings", hash=hash_code(code), user_id=user, created=now, expires=until)


def take_code(state: sqlite3.Connection, code: str, now: datetime) -> str:
    """Delete a valid code and return its user; empty for an invalid code."""
    query = "DELETE FROM pairings WHERE hash = ? AND expires > ? RETURNING user_id"
    return fetch_cell(str, state, query, hash_code(code), format_moment(now)) or ""


def revoke_codes(state: sqlite3.Connection, codes: Collection[str]) -> bool:
    """Revoke codes that others have seen; return whether any was valid."""
    hashes = [(hash_code(code),) for code in codes]
    return state.executemany("DELETE FROM pairings WHERE hash = ?", hashes).rowcount > 0


def revoke_codes_of(state: sqlite3.Connection, user: str) -> int:
    """Revoke the codes of a user; return their number."""
    return state.execute("DELETE FROM pairings WHERE user_id = ?", (user,)).rowcount


def store_identity(state: sqlite3.Connection, paired: PairedIdentity) -> None:
    """Link an identity to a user."""
    columns = {"identity": paired.identity, "user_id": paired.user, "name": paired.name, "paired": paired.since}
    insert_row(state, "identities", "INSERT OR REPLACE", **columns)


def delete_identities(state: sqlite3.Connection, identities: Collection[str]) -> None:
    """Unlink identities."""
    state.executemany("DELETE FROM identities WHERE identity = ?", [(identity,) for identity in identities])


def find_paired(state: sqlite3.Connection, identity: str) -> str:
    """Find the user that an identity is paired with."""
    return fetch_cell(str, state, "SELECT user_id FROM identities WHERE identity = ?", identity) or ""


def list_paired(state: sqlite3.Connection) -> list[PairedIdentity]:
    """List the paired identities, the newest last."""
    query = "SELECT identity, user_id, name, paired AS since FROM identities ORDER BY paired, identity"
    return fetch_all(PairedIdentity, state, query)
