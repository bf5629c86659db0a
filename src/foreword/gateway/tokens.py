"""Tokens: by which the HTTP API knows who asks. Only their hashes are kept, so none can be shown a second time."""

import secrets
import sqlite3
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from hmac import compare_digest
from typing import Self

from foreword.errors import InputError, UnknownName, show_name
from foreword.events.moment import read_stamp, stamp
from foreword.frozen import frozen
from foreword.store.schema import PATIENCE
from foreword.store.state import open_state

PREFIX = "fwd_"  # so that one that got somewhere it should not be is recognised
SIZE = 32  # random bytes of a token
LONGEST_NAME = 100
MOST_DAYS = 36_500
USED = timedelta(hours=1)  # how exactly it is kept when a token was last used
COLUMNS = "id, user_id, hash, name, created, used, expires"
# Compared with where no token is found, so that an unknown one takes the way of a known one; nothing has this hash.
NOBODY = ("", "", "0" * 64, "", "1970-01-01T00:00:00.000000Z", None, None)


@frozen(eq=True)
class Token:
    """What is known about a token; itself it is known only to whom it was given."""

    id: str
    user: str
    name: str
    created: datetime
    used: datetime | None
    """When it was last used, to the hour."""
    expires: datetime | None


@frozen
class Created:
    """A token at the one moment at which it can be told."""

    secret: str
    token: Token


def read_clock() -> datetime:
    """Read the clock."""
    return datetime.now(UTC)


def digest(secret: str) -> str:
    """Hash a token; a slow hash is for what people make up, and these are random."""
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


class Tokens:
    """The tokens of a workspace, in its state."""

    def __init__(self, folder: str, clock: Callable[[], datetime] = read_clock, patience: float = PATIENCE) -> None:
        self._connection = open_state(folder, patience).connection
        self._clock = clock

    def create(self, user: str, users: Collection[str], name: str = "", days: int | None = None) -> Created:
        """Make a token for a person of the configuration, for so many days or until it is revoked."""
        if user not in users:
            raise UnknownName("user", user, users)
        if len(name) > LONGEST_NAME or not name.isprintable():
            raise InputError(f"the name of a token has {LONGEST_NAME} characters at most, all of them printable")
        if days is not None and not 1 <= days <= MOST_DAYS:
            raise InputError(f"a token is good for 1 to {MOST_DAYS:,} days, not {days}")
        now = self._clock()
        secret = PREFIX + secrets.token_urlsafe(SIZE)
        token = Token(
            id=secrets.token_hex(4),
            user=user,
            name=name,
            created=now,
            used=None,
            expires=now + timedelta(days=days) if days else None,
        )
        self._connection.execute(
            f"INSERT INTO tokens ({COLUMNS}) VALUES (?, ?, ?, ?, ?, NULL, ?)",
            (token.id, user, digest(secret), name, stamp(now), token.expires and stamp(token.expires)),
        )
        return Created(secret=secret, token=token)

    def find(self, secret: str, users: Collection[str]) -> Token | None:
        """Find a token that is good now; whatever is wrong with it, the way there is the same.

        One hash, one look into an index, one comparison: how long it takes says nothing about what was found.
        """
        hashed = digest(secret)
        row = self._connection.execute(
            f"SELECT {COLUMNS} FROM tokens WHERE hash = ?",
            (hashed,),
        ).fetchone()
        same = compare_digest((row or NOBODY)[2], hashed)
        token, now = read_token(row or NOBODY), self._clock()
        good = (same, token.user in users, token.expires is None or now < token.expires)
        if not all(good):
            return None
        self._note_use(token, now)
        return token

    def is_valid(self, identifier: str, users: Collection[str]) -> bool:
        """Return whether a token still exists, has not expired and belongs to a person of the configuration."""
        row = self._connection.execute(f"SELECT {COLUMNS} FROM tokens WHERE id = ?", (identifier,)).fetchone()
        token = read_token(row) if row else None
        return token is not None and token.user in users and (token.expires is None or self._clock() < token.expires)

    def _note_use(self, token: Token, now: datetime) -> None:
        """Note that a token was used; that is worth a write now and then, and no failure."""
        if token.used is None or now - token.used >= USED:
            with suppress(sqlite3.Error):
                self._connection.execute("UPDATE tokens SET used = ? WHERE id = ?", (stamp(now), token.id))

    def find_all(self, user: str = "") -> list[Token]:
        """List the tokens of a person, or all of them, the newest last."""
        rows = self._connection.execute(
            f"SELECT {COLUMNS} FROM tokens WHERE user_id = ?1 OR ?1 = '' ORDER BY created, id",
            (user,),
        )
        return [read_token(row) for row in rows]

    def revoke(self, which: str) -> list[Token]:
        """Revoke one token by its id, or all of a person, and return what was revoked; it is refused from then on."""
        gone = [token for token in self.find_all() if which in (token.id, token.user)]
        if not gone:
            raise InputError(f"no token has the id {show_name(which)}, and no person of that name has one")
        self._connection.executemany("DELETE FROM tokens WHERE id = ?", [(token.id,) for token in gone])
        return gone

    def close(self) -> None:
        """Close the state."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_token(row: tuple[str, str, str, str, str, str | None, str | None]) -> Token:
    """Read a token from its row."""
    key, user, _, name, created, used, expires = row
    return Token(
        id=key,
        user=user,
        name=name,
        created=read_stamp(created),
        used=read_stamp(used) if used else None,
        expires=read_stamp(expires) if expires else None,
    )
