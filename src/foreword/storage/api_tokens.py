"""API tokens: authenticate requests to the HTTP API. Only hashes are stored, so a token is shown once."""

import secrets
import sqlite3
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from hmac import compare_digest
from typing import Self

from foreword.errors import InputError, UnknownName, quote_name
from foreword.events.period import format_timestamp, parse_timestamp
from foreword.storage.database import LOCK_TIMEOUT_S, open_state
from foreword.types import frozen

TOKEN_PREFIX = "fwd_"  # makes a leaked token recognisable
TOKEN_BYTES = 32  # random bytes of a token
MAX_TOKEN_NAME_CHARS = 100
MAX_TOKEN_DAYS = 36_500
USE_PRECISION = timedelta(hours=1)  # precision of the stored time of last use
TOKEN_COLUMNS = "id, user_id, hash, name, created, used, expires"
# Compared if no token is found, so that an unknown token takes the same time as a known one; nothing has this hash.
NO_TOKEN_ROW = ("", "", "0" * 64, "", "1970-01-01T00:00:00.000000Z", None, None)


@frozen(eq=True)
class ApiToken:
    """The stored data of a token, without its secret."""

    id: str
    user: str
    name: str
    created: datetime
    used: datetime | None
    """Time of last use, to the hour."""
    expires: datetime | None


@frozen
class CreatedToken:
    """A new token with its secret, which is shown only now."""

    secret: str
    token: ApiToken


def read_clock() -> datetime:
    """Return the current time."""
    return datetime.now(UTC)


def hash_token(secret: str) -> str:
    """Hash a token; a fast hash is enough for random secrets."""
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


class ApiTokens:
    """The tokens of a workspace."""

    def __init__(
        self, folder: str, clock: Callable[[], datetime] = read_clock, patience: float = LOCK_TIMEOUT_S
    ) -> None:
        self._connection = open_state(folder, patience).connection
        self._clock = clock

    def create(self, user: str, users: Collection[str], name: str = "", days: int | None = None) -> CreatedToken:
        """Create a token for a configured user, for a number of days or until it is revoked."""
        if user not in users:
            raise UnknownName("user", user, users)
        if len(name) > MAX_TOKEN_NAME_CHARS or not name.isprintable():
            raise InputError(
                f"the name of a token must be printable and at most {MAX_TOKEN_NAME_CHARS} characters long"
            )
        if days is not None and not 1 <= days <= MAX_TOKEN_DAYS:
            raise InputError(f"a token can be valid for 1 to {MAX_TOKEN_DAYS:,} days, not {days}")
        now = self._clock()
        secret = TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
        token = ApiToken(
            id=secrets.token_hex(4),
            user=user,
            name=name,
            created=now,
            used=None,
            expires=now + timedelta(days=days) if days else None,
        )
        self._connection.execute(
            f"INSERT INTO tokens ({TOKEN_COLUMNS}) VALUES (?, ?, ?, ?, ?, NULL, ?)",
            (
                token.id,
                user,
                hash_token(secret),
                name,
                format_timestamp(now),
                token.expires and format_timestamp(token.expires),
            ),
        )
        return CreatedToken(secret=secret, token=token)

    def find(self, secret: str, users: Collection[str]) -> ApiToken | None:
        """Find a valid token in constant time.

        One hash, one index lookup, one comparison: the time is the same for valid and invalid tokens.
        """
        hashed = hash_token(secret)
        row = self._connection.execute(
            f"SELECT {TOKEN_COLUMNS} FROM tokens WHERE hash = ?",
            (hashed,),
        ).fetchone()
        same = compare_digest((row or NO_TOKEN_ROW)[2], hashed)
        token, now = read_token(row or NO_TOKEN_ROW), self._clock()
        good = (same, token.user in users, token.expires is None or now < token.expires)
        if not all(good):
            return None
        self._note_use(token, now)
        return token

    def is_valid(self, identifier: str, users: Collection[str]) -> bool:
        """Return whether a token exists, has not expired and belongs to a configured user."""
        row = self._connection.execute(f"SELECT {TOKEN_COLUMNS} FROM tokens WHERE id = ?", (identifier,)).fetchone()
        token = read_token(row) if row else None
        return token is not None and token.user in users and (token.expires is None or self._clock() < token.expires)

    def _note_use(self, token: ApiToken, now: datetime) -> None:
        """Record the use of a token at most once an hour; ignore errors."""
        if token.used is None or now - token.used >= USE_PRECISION:
            with suppress(sqlite3.Error):
                self._connection.execute("UPDATE tokens SET used = ? WHERE id = ?", (format_timestamp(now), token.id))

    def find_all(self, user: str = "") -> list[ApiToken]:
        """List the tokens of a person, or all of them, the newest last."""
        rows = self._connection.execute(
            f"SELECT {TOKEN_COLUMNS} FROM tokens WHERE user_id = ?1 OR ?1 = '' ORDER BY created, id",
            (user,),
        )
        return [read_token(row) for row in rows]

    def revoke(self, which: str) -> list[ApiToken]:
        """Revoke one token by its id, or all tokens of a person; return the revoked ones."""
        gone = [token for token in self.find_all() if which in (token.id, token.user)]
        if not gone:
            raise InputError(f"{quote_name(which)} is neither the id of a token nor a person with one")
        self._connection.executemany("DELETE FROM tokens WHERE id = ?", [(token.id,) for token in gone])
        return gone

    def close(self) -> None:
        """Close the state."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_token(row: tuple[str, str, str, str, str, str | None, str | None]) -> ApiToken:
    """Make a token from its row."""
    key, user, _, name, created, used, expires = row
    return ApiToken(
        id=key,
        user=user,
        name=name,
        created=parse_timestamp(created),
        used=parse_timestamp(used) if used else None,
        expires=parse_timestamp(expires) if expires else None,
    )
