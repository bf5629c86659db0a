"""Pairing: a code from the owner turns an identity on a channel into a user.

A code is good once, for a few minutes, and only in private: one that others could read is good no more. Only hashes are
kept. Who guesses is soon not listened to any more.
"""

import re
import secrets
import sqlite3
from collections.abc import Collection
from datetime import datetime, timedelta
from hashlib import sha256

from foreword.errors import InputError, UnknownName, show_name
from foreword.frozen import frozen
from foreword.gateway.channel import Chat, Heard
from foreword.gateway.moment import read_moment, write_moment

SIGNS = "23456789ABCDEFGHJKMNPQRSTVWXYZ"  # none that is taken for another
HALF = 4  # signs on each side of the hyphen
MINUTES = 10
MOST_MINUTES = 24 * 60
LONGEST_NAME = 100
_CODE = re.compile(rf"(?<![\w-])[{SIGNS}]{{{HALF}}}-[{SIGNS}]{{{HALF}}}(?![\w-])", re.IGNORECASE)
_ASKED = re.compile(r"/pair(?P<name>@\w+)?(?:\s.*)?", re.IGNORECASE | re.DOTALL)


@frozen(eq=True)
class Claim:
    """The codes that a message shows, and whether it asks to be paired with one."""

    codes: tuple[str, ...] = ()
    asked: bool = False


@frozen(eq=True)
class Paired:
    """An identity, and the user it belongs to."""

    identity: str
    user: str
    name: str
    """What they called themselves on the channel then."""
    since: datetime


def read_claim(heard: Heard, *, known: bool) -> Claim:
    """Read the codes of a message; it asks to be paired by /pair, or where a stranger in private says nothing else."""
    private, said = heard.chat is Chat.PRIVATE, heard.text.strip()
    codes = tuple(code.upper() for code in _CODE.findall(heard.text))
    asked = _ASKED.fullmatch(said)
    if asked and asked["name"] and not (private or heard.called):  # in company a command may be for another bot
        asked = None
    if asked or (private and not known and _CODE.fullmatch(said) and is_code(said)):
        return Claim(codes=codes[:1] if private else codes, asked=True)
    return Claim() if private else Claim(codes=codes)


def is_code(text: str) -> bool:
    """Whether a text can be a code; all of them have a digit, so that few words can."""
    return any(sign.isdigit() for sign in text)


def make_code() -> str:
    """Make a code."""
    while True:
        code = "".join(secrets.choice(SIGNS) for _ in range(2 * HALF))
        if is_code(code):
            return f"{code[:HALF]}-{code[HALF:]}"


def digest(code: str) -> str:
    """Hash a code."""
    return sha256(code.upper().encode()).hexdigest()


def offer(state: sqlite3.Connection, user: str, users: Collection[str], now: datetime, minutes: int = MINUTES) -> str:
    """Make a code for a user, once; it is the only one of theirs that is good."""
    if user not in users:
        raise UnknownName("user", user, users)
    if not 1 <= minutes <= MOST_MINUTES:
        raise InputError(f"a code is good for 1 to {MOST_MINUTES:,} minutes, not {minutes}")
    code, until = make_code(), now + timedelta(minutes=minutes)
    state.execute("DELETE FROM pairings WHERE user_id = ? OR expires <= ?", (user, write_moment(now)))
    state.execute(
        "INSERT INTO pairings (hash, user_id, created, expires) VALUES (?, ?, ?, ?)",
        (digest(code), user, write_moment(now), write_moment(until)),
    )
    return code


def redeem(state: sqlite3.Connection, code: str, who: Paired, users: Collection[str]) -> str:
    """Redeem a code for an identity; return whose it is now, or nothing where the code is not good."""
    now = write_moment(who.since)
    row = state.execute(
        "DELETE FROM pairings WHERE hash = ? AND expires > ? RETURNING user_id", (digest(code), now)
    ).fetchone()
    if row is None or row[0] not in users:
        return ""
    state.execute(
        "INSERT OR REPLACE INTO identities (identity, user_id, name, paired) VALUES (?, ?, ?, ?)",
        (who.identity, row[0], clean_name(who.name), now),
    )
    return str(row[0])


def burn(state: sqlite3.Connection, codes: Collection[str]) -> bool:
    """End codes that others have seen; return whether any was good."""
    gone = [state.execute("DELETE FROM pairings WHERE hash = ?", (digest(code),)).rowcount for code in codes]
    return any(gone)


def find_paired(state: sqlite3.Connection, identity: str) -> str:
    """Find the user whom an identity was paired with."""
    row = state.execute("SELECT user_id FROM identities WHERE identity = ?", (identity,)).fetchone()
    return str(row[0]) if row else ""


def list_paired(state: sqlite3.Connection) -> list[Paired]:
    """List who was paired, the newest last."""
    rows = state.execute("SELECT identity, user_id, name, paired FROM identities ORDER BY paired, identity")
    return [
        Paired(identity=identity, user=user, name=name, since=read_moment(since))
        for identity, user, name, since in rows
    ]


def revoke(state: sqlite3.Connection, which: str) -> list[Paired]:
    """Take back one identity, or all of a user with their codes; whoever writes from them is a stranger again."""
    gone = [one for one in list_paired(state) if which in (one.identity, one.user)]
    codes = state.execute("DELETE FROM pairings WHERE user_id = ?", (which,)).rowcount
    if not gone and not codes:
        raise InputError(f"{show_name(which)} is no identity that was paired, and no user of that name was")
    state.executemany("DELETE FROM identities WHERE identity = ?", [(one.identity,) for one in gone])
    return gone


def clean_name(name: str) -> str:
    """Keep a name in one printable line."""
    return "".join(sign for sign in " ".join(name.split()) if sign.isprintable())[:LONGEST_NAME]
