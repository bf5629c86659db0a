"""API tokens: authenticate requests to the HTTP API. Only hashes are stored, so a token is shown once."""

import secrets
import sqlite3
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Self

from foreword.errors import InputError, UnknownName, quote_name
from foreword.storage.database import LOCK_TIMEOUT_S, format_moment, open_state
from foreword.storage.rows import fetch_all, fetch_one, insert_row, list_columns
from foreword.types import frozen

TOKEN_PREFIX = "fwd_"  # makes a leaked token recognisable
TOKEN_BYTES = 32  # random bytes of a token
MAX_TOKEN_NAME_CHARS = 100
MAX_TOKEN_DAYS = 36_500
USE_PRECISION = timedelta(hours=1)  # precision of the stored time of last use


@frozen(eq=True)
class ApiToken:
    """The stored data of a token, without its secret."""

    id: str
    user: str
    name: str
    created: datetime
    used: datetime | None  # time of last use, to the hour
    expires: datetime | None


@frozen
class CreatedToken:
    """A new token with its secret, which is shown only now."""

    secret: str
    token: ApiToken


def hash_token(secret: str) -> str:
    """Hash a token; a fast hash is enough for random secrets."""
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


class ApiTokens:
    """The tokens of a workspace."""

    def __init__(
        self, folder: str, clock: Callable[[], datetime] = lambda: datetime.now(UTC), patience: float = LOCK_TIMEOUT_S
    ) -> None:
        self._connection = open_state(folder, patience).connection
        self._clock = clock

    def create(self, user: str, users: Collection[str], name: str = "", days: int | None = None) -> CreatedToken:
        """Create a token for a configured user, for a number of days or until it is revoked."""
        if user not in users:
            raise UnknownName("user", user, users)
        if len(name) > MAX_TOKEN_NAME_CHARS or not name.isprintable():
            raise InputError(f"a token's name must be printable and at most {MAX_TOKEN_NAME_CHARS} characters long")
        if days is not None and not 1 <= days <= MAX_TOKEN_DAYS:
            raise InputError(f"a token can be valid for 1 to {MAX_TOKEN_DAYS:,} days, not {days}")
        now, secret = self._clock(), TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
        expires = now + timedelta(days=days) if days else None
        token = ApiToken(id=secrets.token_hex(4), user=user, name=name, created=now, used=None, expires=expires)
        insert_row(self._connection, "tokens", hash=hash_token(secret), **list_columns(token))
        return CreatedToken(secret=secret, token=token)

    def find(self, secret: str, users: Collection[str]) -> ApiToken | None:
        """Find a valid token by its hash and record its use."""
        token = self._find_valid("hash", hash_token(secret), users)
        now = self._clock()
        if token and (token.used is None or now - token.used >= USE_PRECISION):
            with suppress(sqlite3.Error):
                self._connection.execute("UPDATE tokens SET used = ? WHERE id = ?", (format_moment(now), token.id))
        return token

    def is_valid(self, identifier: str, users: Collection[str]) -> bool:
        """Return whether a token exists, has not expired and belongs to a configured user."""
        return self._find_valid("id", identifier, users) is not None

    def _find_valid(self, column: str, value: str, users: Collection[str]) -> ApiToken | None:
        token = fetch_one(ApiToken, self._connection, f"SELECT * FROM tokens WHERE {column} = ?", value)
        if token is None or token.user not in users or (token.expires and self._clock() >= token.expires):
            return None
        return token

    def find_all(self, user: str = "") -> list[ApiToken]:
        """List the tokens of a person, or all of them, the newest last."""
        query = "SELECT * FROM tokens WHERE user_id = ?1 OR ?1 = '' ORDER BY created, id"
        return fetch_all(ApiToken, self._connection, query, user)

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
