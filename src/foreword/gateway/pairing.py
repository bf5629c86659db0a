"""Pairing: a code from the owner links an identity on a channel to a user.

A code is valid once, for a few minutes, and only in private; a code shown in a group is revoked. Only hashes are
stored. Attempts are rate-limited.
"""

import re
import secrets
import sqlite3
from collections.abc import Collection
from datetime import datetime, timedelta
from hashlib import sha256

from foreword.errors import InputError, UnknownName, quote_name
from foreword.gateway.channel import ChatKind, InboundMessage
from foreword.storage.database import format_moment, parse_moment
from foreword.types import frozen

CODE_ALPHABET = "23456789ABCDEFGHJKMNPQRSTVWXYZ"  # no characters that look alike
CODE_HALF_CHARS = 4  # characters on each side of the hyphen
CODE_MINUTES = 10
MAX_CODE_MINUTES = 24 * 60
MAX_NAME_CHARS = 100
_CODE = re.compile(
    rf"(?<![\w-])[{CODE_ALPHABET}]{{{CODE_HALF_CHARS}}}-[{CODE_ALPHABET}]{{{CODE_HALF_CHARS}}}(?![\w-])", re.IGNORECASE
)
_ASKED = re.compile(r"/pair(?P<name>@\w+)?(?:\s.*)?", re.IGNORECASE | re.DOTALL)


@frozen(eq=True)
class PairingRequest:
    """The codes in a message, and whether it asks for pairing."""

    codes: tuple[str, ...] = ()
    asked: bool = False


@frozen(eq=True)
class PairedIdentity:
    """An identity and its user."""

    identity: str
    user: str
    name: str
    """Display name on the channel at the time of pairing."""
    since: datetime


def read_pairing_request(heard: InboundMessage, *, known: bool) -> PairingRequest:
    """Read the codes of a message. It asks for pairing by /pair, or if a stranger sends only a code in private."""
    private, said = heard.chat is ChatKind.PRIVATE, heard.text.strip()
    codes = tuple(code.upper() for code in _CODE.findall(heard.text))
    asked = _ASKED.fullmatch(said)
    if asked and asked["name"] and not (private or heard.called):  # in a group the command may be for another bot
        asked = None
    if asked or (private and not known and _CODE.fullmatch(said) and is_code(said)):
        return PairingRequest(codes=codes[:1] if private else codes, asked=True)
    return PairingRequest() if private else PairingRequest(codes=codes)


def is_code(text: str) -> bool:
    """Return whether a text can be a code; every code has a digit, so few words match."""
    return any(sign.isdigit() for sign in text)


def make_code() -> str:
    """Make a random code."""
    while True:
        code = "".join(secrets.choice(CODE_ALPHABET) for _ in range(2 * CODE_HALF_CHARS))
        if is_code(code):
            return f"{code[:CODE_HALF_CHARS]}-{code[CODE_HALF_CHARS:]}"


def hash_code(code: str) -> str:
    """Hash a code."""
    return sha256(code.upper().encode()).hexdigest()


def create_code(
    state: sqlite3.Connection, user: str, users: Collection[str], now: datetime, minutes: int = CODE_MINUTES
) -> str:
    """Create a code for a user; it replaces their earlier one."""
    if user not in users:
        raise UnknownName("user", user, users)
    if not 1 <= minutes <= MAX_CODE_MINUTES:
        raise InputError(f"a code can be valid for 1 to {MAX_CODE_MINUTES:,} minutes, not {minutes}")
    code, until = make_code(), now + timedelta(minutes=minutes)
    state.execute("DELETE FROM pairings WHERE user_id = ? OR expires <= ?", (user, format_moment(now)))
    state.execute(
        "INSERT INTO pairings (hash, user_id, created, expires) VALUES (?, ?, ?, ?)",
        (hash_code(code), user, format_moment(now), format_moment(until)),
    )
    return code


def redeem_code(state: sqlite3.Connection, code: str, who: PairedIdentity, users: Collection[str]) -> str:
    """Redeem a code for an identity; return its user, or an empty name for an invalid code."""
    now = format_moment(who.since)
    row = state.execute(
        "DELETE FROM pairings WHERE hash = ? AND expires > ? RETURNING user_id", (hash_code(code), now)
    ).fetchone()
    if row is None or row[0] not in users:
        return ""
    state.execute(
        "INSERT OR REPLACE INTO identities (identity, user_id, name, paired) VALUES (?, ?, ?, ?)",
        (who.identity, row[0], clean_name(who.name), now),
    )
    return str(row[0])


def revoke_codes(state: sqlite3.Connection, codes: Collection[str]) -> bool:
    """Revoke codes that others have seen; return whether any was valid."""
    gone = [state.execute("DELETE FROM pairings WHERE hash = ?", (hash_code(code),)).rowcount for code in codes]
    return any(gone)


def find_paired(state: sqlite3.Connection, identity: str) -> str:
    """Find the user that an identity is paired with."""
    row = state.execute("SELECT user_id FROM identities WHERE identity = ?", (identity,)).fetchone()
    return str(row[0]) if row else ""


def list_paired(state: sqlite3.Connection) -> list[PairedIdentity]:
    """List the paired identities, the newest last."""
    rows = state.execute("SELECT identity, user_id, name, paired FROM identities ORDER BY paired, identity")
    return [
        PairedIdentity(identity=identity, user=user, name=name, since=parse_moment(since))
        for identity, user, name, since in rows
    ]


def revoke_identities(state: sqlite3.Connection, which: str) -> list[PairedIdentity]:
    """Revoke one identity, or all identities and codes of a user; their messages are a stranger's again."""
    gone = [one for one in list_paired(state) if which in (one.identity, one.user)]
    codes = state.execute("DELETE FROM pairings WHERE user_id = ?", (which,)).rowcount
    if not gone and not codes:
        raise InputError(f"{quote_name(which)} is neither a paired identity nor a user with one")
    state.executemany("DELETE FROM identities WHERE identity = ?", [(one.identity,) for one in gone])
    return gone


def clean_name(name: str) -> str:
    """Reduce a name to one printable line."""
    return "".join(sign for sign in " ".join(name.split()) if sign.isprintable())[:MAX_NAME_CHARS]
