"""Pairing: a code from the owner links an identity on a channel to a user.

A code is valid once, for a few minutes, and only in private; a code shown in a group is revoked. Attempts are
rate-limited, which prevents guessing without locking out people who have a code.
"""

import re
import secrets
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime, timedelta

from foreword.errors import InputError, UnknownName, quote_name
from foreword.gateway.channel import ChatKind, InboundMessage
from foreword.storage import pairings
from foreword.storage.pairings import PairedIdentity
from foreword.types import frozen

CODE_ALPHABET = "23456789ABCDEFGHJKMNPQRSTVWXYZ"  # no characters that look alike
CODE_HALF_CHARS = 4  # characters on each side of the hyphen
CODE_MINUTES = 10
MAX_CODE_MINUTES = 24 * 60
MAX_NAME_CHARS = 100
ATTEMPT_WINDOW_S = 3600.0
MAX_ATTEMPTS_PER_IDENTITY = 5
MAX_SHARED_ATTEMPTS = 60  # for all identities together, except the first attempt of each
MAX_IDENTITIES = 10_000  # with counted attempts; the least recently used ones are dropped first
_CODE = re.compile(
    rf"(?<![\w-])[{CODE_ALPHABET}]{{{CODE_HALF_CHARS}}}-[{CODE_ALPHABET}]{{{CODE_HALF_CHARS}}}(?![\w-])", re.IGNORECASE
)
_COMMAND = re.compile(r"/pair(?P<name>@\w+)?(?:\s.*)?", re.IGNORECASE | re.DOTALL)


@frozen(eq=True)
class PairingRequest:
    """The codes in a message, and whether it asks for pairing."""

    codes: tuple[str, ...] = ()
    asked: bool = False


def read_pairing_request(message: InboundMessage, *, known: bool) -> PairingRequest:
    """Read the codes of a message. It asks for pairing by /pair, or if a stranger sends only a code in private."""
    private, text = message.chat is ChatKind.PRIVATE, message.text.strip()
    codes = tuple(code.upper() for code in _CODE.findall(message.text))
    command = _COMMAND.fullmatch(text)
    if command and command["name"] and not (private or message.called):  # the command may be for another bot
        command = None
    if command or (private and not known and _CODE.fullmatch(text) and has_digit(text)):
        return PairingRequest(codes=codes[:1] if private else codes, asked=True)
    return PairingRequest() if private else PairingRequest(codes=codes)


def has_digit(text: str) -> bool:
    """Return whether a text has a digit; every code has one, so few words match."""
    return any(sign.isdigit() for sign in text)


def create_code(
    state: sqlite3.Connection, user: str, users: Collection[str], now: datetime, minutes: int = CODE_MINUTES
) -> str:
    """Create a code for a user; it replaces their earlier one."""
    if user not in users:
        raise UnknownName("user", user, users)
    if not 1 <= minutes <= MAX_CODE_MINUTES:
        raise InputError(f"a code can be valid for 1 to {MAX_CODE_MINUTES:,} minutes, not {minutes}")
    code = ""
    while not has_digit(code):
        code = "".join(secrets.choice(CODE_ALPHABET) for _ in range(2 * CODE_HALF_CHARS))
    code = f"{code[:CODE_HALF_CHARS]}-{code[CODE_HALF_CHARS:]}"
    pairings.store_code(state, code, user, now, now + timedelta(minutes=minutes))
    return code


def redeem_code(state: sqlite3.Connection, code: str, identity: PairedIdentity, users: Collection[str]) -> str:
    """Redeem a code for an identity; return its user, or an empty name for an invalid code."""
    user = pairings.take_code(state, code, identity.since)
    if user not in users:
        return ""
    pairings.store_identity(state, replace(identity, user=user, name=clean_name(identity.name)))
    return user


def revoke_identities(state: sqlite3.Connection, which: str) -> list[PairedIdentity]:
    """Revoke one identity, or all identities and codes of a user; their messages are a stranger's again."""
    revoked = [paired for paired in pairings.list_paired(state) if which in (paired.identity, paired.user)]
    codes = pairings.revoke_codes_of(state, which)
    if not revoked and not codes:
        raise InputError(f"{quote_name(which)} is neither a paired identity nor a user with one")
    pairings.delete_identities(state, [paired.identity for paired in revoked])
    return revoked


def clean_name(name: str) -> str:
    """Reduce a name to one printable line."""
    return "".join(sign for sign in " ".join(name.split()) if sign.isprintable())[:MAX_NAME_CHARS]


class PairingAttempts:
    """Counts attempts, valid or not, in a sliding window of one hour.

    The first attempt of an identity is always checked. Strangers with many identities can use up the shared limit, but
    not lock out a person who has a code.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, max_identities: int = MAX_IDENTITIES) -> None:
        self._clock = clock
        self._max_identities = max_identities
        self._attempts: dict[str, deque[float]] = {}
        self._shared: deque[float] = deque()

    def take(self, identity: str) -> bool:
        """Count one attempt of an identity; return whether the code may be checked."""
        now = self._clock()
        own = self._attempts.pop(identity, None) or deque()  # reinserted below as the most recently used one
        for times in (own, self._shared):
            while times and times[0] <= now - ATTEMPT_WINDOW_S:
                times.popleft()
        allowed = not own or (len(own) < MAX_ATTEMPTS_PER_IDENTITY and len(self._shared) < MAX_SHARED_ATTEMPTS)
        if allowed:
            if own:
                self._shared.append(now)
            own.append(now)
        self._attempts[identity] = own
        if len(self._attempts) > self._max_identities:
            del self._attempts[next(iter(self._attempts))]
        return allowed
