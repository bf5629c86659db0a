"""Limits for strangers: the owner pays for answers to unknown people, so their number is limited.

Rate limit: a token bucket per name. Rate limit for pairing codes: prevents guessing, without locking out people who
have a code.
"""

import sqlite3
import time
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta

from foreword.config.schema import Config
from foreword.gateway.messages import RoutedMessage
from foreword.gateway.router import find_family
from foreword.storage.database import format_moment
from foreword.storage.sessions import OutboundMessage, post_message
from foreword.types import frozen

MAX_BUCKETS = 10_000  # buckets; the least recently used ones are dropped first
MINUTE_S = 60.0


@frozen(eq=True)
class BucketLevel:
    """Fill level of a bucket at a time."""

    left: float
    at: float


class RateLimiter:
    """Buckets by name, each with the capacity of one minute."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic, names: int = MAX_BUCKETS) -> None:
        self._most = float(most)
        self._clock = clock
        self._names = names
        self._levels: dict[str, BucketLevel] = {}

    def take(self, name: str) -> float:
        """Take one from a bucket; return 0, or the seconds to wait if it is empty."""
        now = self._clock()
        level = self._levels.pop(name, None)  # reinsert at the end: the first entry is the least recently used
        left = self._most if level is None else min(self._most, level.left + (now - level.at) * self._most / MINUTE_S)
        wait = 0.0 if left >= 1.0 else (1.0 - left) * MINUTE_S / self._most
        self._levels[name] = BucketLevel(left=left if wait else left - 1.0, at=now)
        if len(self._levels) > self._names:
            del self._levels[next(iter(self._levels))]
        return wait


ATTEMPT_WINDOW_S = 3600.0
MAX_ATTEMPTS_PER_IDENTITY = 5  # per identity
MAX_SHARED_ATTEMPTS = 60  # for all identities together, except the first attempt of each


class PairingAttempts:
    """Counts attempts, valid or not, in a sliding window of one hour.

    The first attempt of an identity is always checked. Strangers with many identities can use up the shared limit, but
    not lock out a person who has a code.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, names: int = MAX_BUCKETS) -> None:
        self._clock = clock
        self._names = names
        self._each: dict[str, deque[float]] = {}
        self._shared: deque[float] = deque()

    def take(self, identity: str) -> bool:
        """Count one attempt of an identity; return whether the code may be checked."""
        now = self._clock()
        own = self._each.pop(identity, None) or deque()  # reinserted below: the first entry is the least recently used
        for times in (own, self._shared):
            while times and times[0] <= now - ATTEMPT_WINDOW_S:
                times.popleft()
        looked = not own or (len(own) < MAX_ATTEMPTS_PER_IDENTITY and len(self._shared) < MAX_SHARED_ATTEMPTS)
        if looked:
            if own:
                self._shared.append(now)
            own.append(now)
        self._each[identity] = own
        if len(self._each) > self._names:
            del self._each[next(iter(self._each))]
        return looked


STRANGER_PERIOD = timedelta(hours=1)
LIMIT_NOTICE = "I answer only a limited number of messages from people I do not know. Please write again in an hour."
COUNT_OF_STRANGER = "SELECT count(*) FROM turns WHERE user_id = ? AND received > ?"
COUNT_OF_ALL_STRANGERS = (
    "SELECT count(*) FROM turns WHERE user_id >= ? AND user_id < ? AND received > ?"  # their names are identities
)


def is_limited(incoming: RoutedMessage, config: Config) -> bool:
    """Return whether a message is from a stranger, in private or in a place that is not a configured room."""
    return incoming.user not in config.users and incoming.room not in config.rooms


def find_exceeded_limit(state: sqlite3.Connection, incoming: RoutedMessage, config: Config, now: datetime) -> str:
    """Return why a stranger is not answered now; empty if they are."""
    bounds, since = config.strangers, format_moment(now - STRANGER_PERIOD)
    if state.execute(COUNT_OF_STRANGER, (incoming.user, since)).fetchone()[0] >= bounds.turns:
        return f"a stranger gets at most {bounds.turns:,} answers an hour"
    family = find_family(incoming.channel)
    if state.execute(COUNT_OF_ALL_STRANGERS, (f"{family}:", f"{family};", since)).fetchone()[0] >= bounds.all_turns:
        return f"all strangers together get at most {bounds.all_turns:,} answers an hour"
    return ""


def post_limit_notice(state: sqlite3.Connection, incoming: RoutedMessage, now: datetime) -> None:
    """Notify a stranger in private, once per period, that they are not answered now."""
    period = int(now.timestamp() // STRANGER_PERIOD.total_seconds())
    key = f"answer\x00strangers\x00{incoming.user}\x00{period}"
    post_message(
        state, OutboundMessage(key=key, channel=incoming.channel, address=incoming.address, text=LIMIT_NOTICE), now
    )
