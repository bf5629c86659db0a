"""The prefix cache of a provider: exact prefixes, a minimum, a time to live, and where it matters a lookback."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import accumulate
from threading import Lock

from foreword.frozen import frozen
from foreword.standin.blocks import Block

LOOKBACK = 20  # blocks that are looked at from a mark backwards, the marked one among them
TTLS = {"5m": timedelta(minutes=5), "1h": timedelta(hours=1)}
AUTOMATIC = timedelta(minutes=30)


@frozen(eq=True)
class Counted:
    """The tokens of one request: read from the cache, written to it for five minutes or an hour, and neither."""

    read: int = 0
    write: int = 0
    hour: int = 0
    """How many of those written are kept for an hour."""
    fresh: int = 0

    @property
    def total(self) -> int:
        """All of the input."""
        return self.read + self.write + self.fresh


@frozen(eq=True)
class Kept:
    """A prefix in the cache: until when, and how much longer each use makes that."""

    until: datetime
    ttl: timedelta


class PrefixCache:
    """Remembers the prefixes that were sent."""

    def __init__(self, clock: Callable[[], datetime], count: Callable[[str], int]) -> None:
        self._clock = clock
        self._count = count
        self._kept: dict[str, Kept] = {}
        self._lock = Lock()

    def clear(self) -> None:
        """Forget everything, as a provider may at any time."""
        with self._lock:
            self._kept.clear()

    def use_marks(self, model: str, blocks: Sequence[Block], minimum: int) -> Counted:
        """Count a request to a provider that caches up to marks."""
        names, ends = name_prefixes(model, blocks), list(accumulate(self._count(block.text) for block in blocks))
        marks = [at for at, block in enumerate(blocks) if block.ttl and ends[at] >= minimum]
        with self._lock:
            tried = (back for at in reversed(marks) for back in range(at, max(-1, at - LOOKBACK), -1))
            hit = next((back for back in tried if self._use(names[back])), None)
            read = ends[hit] if hit is not None else 0
            hour = 0
            for at in marks:
                if ends[at] > read and blocks[at].ttl == "1h":
                    hour = ends[at] - read
                self._keep(names[at], TTLS[blocks[at].ttl])
        written = max(0, ends[marks[-1]] - read) if marks else 0
        return Counted(read=read, write=written, hour=hour, fresh=(ends[-1] if ends else 0) - read - written)

    def use_prefix(self, model: str, blocks: Sequence[Block], minimum: int, step: int = 1) -> Counted:
        """Count a request to a provider that caches any equal prefix by itself, in steps of so many tokens."""
        names, ends = name_prefixes(model, blocks), list(accumulate(self._count(block.text) for block in blocks))
        with self._lock:
            hit = next((at for at in reversed(range(len(names))) if self._use(names[at])), None)
            for name in names:
                self._keep(name, AUTOMATIC)
        read = ends[hit] // step * step if hit is not None and ends[hit] >= minimum else 0
        return Counted(read=read, fresh=(ends[-1] if ends else 0) - read)

    def _use(self, name: str) -> bool:
        """Whether a prefix is there; each use lets it live anew."""
        kept = self._kept.get(name)
        if kept is None or kept.until <= self._clock():
            return False
        self._keep(name, kept.ttl)
        return True

    def _keep(self, name: str, ttl: timedelta) -> None:
        self._kept[name] = Kept(until=self._clock() + ttl, ttl=ttl)


def name_prefixes(model: str, blocks: Sequence[Block]) -> list[str]:
    """Name the prefix that ends with each block; another model has other names."""
    names, name = [], model
    for block in blocks:
        name = sha256(f"{name}\n{block.key}".encode("utf-8", "surrogatepass")).hexdigest()
        names.append(name)
    return names
