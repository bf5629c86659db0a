"""The prefix cache of a provider: exact prefixes, a minimum, a time to live, and where it matters a lookback."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from itertools import accumulate
from threading import Lock

from foreword.caching.blocks import Block
from foreword.frozen import frozen
from foreword.tokens.caches import CacheFacts, Life

CHUNK = 512  # characters of a text that are compared at once where any equal beginning is read
LINE = re.compile(r"(?<=\n)(?=[^\s/])")  # before a line whose beginning no token joins to what stands before it


@frozen(eq=True)
class Counted:
    """The tokens of one request: read from the cache, written to it, and neither."""

    read: int = 0
    write: int = 0
    hour: int = 0
    """How many of those written are kept for longer than usual, which costs more."""
    fresh: int = 0

    @property
    def total(self) -> int:
        """All of the input."""
        return self.read + self.write + self.fresh


@frozen(eq=True)
class Kept:
    """A prefix in the cache: until when, and how much longer each use makes that."""

    until: datetime
    seconds: int


@frozen
class Named:
    """A request as the names of its prefixes: where each ends, and which of them are marked, for how long."""

    name: Callable[[int], str]
    """Names the prefix up to a block."""
    ends: Sequence[int]
    """The tokens up to the end of each."""
    marks: Sequence[int]
    lives: Sequence[Life]
    """How long each mark holds."""


class PrefixCache:
    """Remembers the prefixes that were sent, as one provider does for all who ask it."""

    def __init__(
        self, clock: Callable[[], datetime], count: Callable[[str], int], kept: Mapping[str, Kept] | None = None
    ) -> None:
        self._clock = clock
        self._count = count
        self.kept: dict[str, Kept] = dict(kept or {})
        self._lock = Lock()

    def clear(self) -> None:
        """Forget everything, as a provider may at any time."""
        with self._lock:
            self.kept.clear()

    def use(self, model: str, blocks: Sequence[Block], facts: CacheFacts) -> Counted:
        """Count a request by the rules of its provider, and remember it."""
        pieces = blocks if facts.marked else list(split(blocks))
        weights = [self._count(block.text) if block.tokens < 0 else block.tokens for block in pieces]
        return self.use_named(
            Named(
                name=name_prefixes(model, pieces).__getitem__,
                ends=list(accumulate(weights)),
                marks=[at for at, block in enumerate(pieces) if block.ttl],
                lives=[facts.find_life(block.ttl) for block in pieces if block.ttl],
            ),
            facts,
        )

    def use_named(self, request: Named, facts: CacheFacts) -> Counted:
        """Count a request whose prefixes have names already, and remember it."""
        return self._use_marks(request, facts) if facts.marked else self._use_prefix(request, facts)

    def _use_marks(self, request: Named, facts: CacheFacts) -> Counted:
        """Count a request to a provider that caches up to marks."""
        name, ends = request.name, request.ends
        lives = dict(zip(request.marks, request.lives, strict=True))
        marks = [at for at in find_marks(request.marks, len(ends), facts) if ends[at] >= facts.minimum]
        with self._lock:
            hit = next((back for back in look_back(marks, facts.lookback) if self._use(name(back))), None)
            read = ends[hit] if hit is not None else 0
            hour = 0
            for at in marks:
                life = lives.get(at, facts.usual)
                if ends[at] > read and life != facts.usual:
                    hour = ends[at] - read
                # What is there already was written for its own time; a mark on it is a use and not a write.
                if not self._use(name(at)):
                    self._keep(name(at), life.seconds)
        written = max(0, ends[marks[-1]] - read) if marks else 0
        return Counted(read=read, write=written, hour=hour, fresh=(ends[-1] if ends else 0) - read - written)

    def _use_prefix(self, request: Named, facts: CacheFacts) -> Counted:
        """Count a request to a provider that caches any equal prefix by itself, in steps of so many tokens."""
        ends = request.ends
        names = list(map(request.name, range(len(ends))))
        with self._lock:
            hit = next((at for at in reversed(range(len(names))) if self._use(names[at])), None)
            self.kept.update(dict.fromkeys(names, self._make(facts.usual.seconds)))
        read = ends[hit] // facts.step * facts.step if hit is not None and ends[hit] >= facts.minimum else 0
        return Counted(read=read, fresh=(ends[-1] if ends else 0) - read)

    def _use(self, name: str) -> bool:
        """Whether a prefix is there; each use lets it live anew."""
        kept = self.kept.get(name)
        if kept is None or kept.until <= self._clock():
            return False
        self._keep(name, kept.seconds)
        return True

    def _keep(self, name: str, seconds: int) -> None:
        self.kept[name] = self._make(seconds)

    def _make(self, seconds: int) -> Kept:
        return Kept(until=self._clock() + timedelta(seconds=seconds), seconds=seconds)


def find_marks(given: Sequence[int], count: int, facts: CacheFacts) -> Sequence[int]:
    """Find the marks of a request of so many blocks, and the one that the service itself puts on the newest message."""
    if not (facts.newest and count):
        return given
    last = count - 1
    return [*[at for at in given if at != last][1 - facts.marks :], last]


def look_back(marks: Sequence[int], lookback: int) -> Iterator[int]:
    """List where an entry is looked for: from the last mark backwards, as far as the service looks from each."""
    for at in reversed(marks):
        yield from range(at, max(-1, at - lookback) if lookback else -1, -1)


def split(blocks: Sequence[Block]) -> Iterator[Block]:
    """Split long texts at ends of lines, since a cache without marks reads the equal beginning of a text, too."""
    for block in blocks:
        if block.tokens >= 0 or len(block.text) <= CHUNK:
            yield block
            continue
        yield from cut_block(block)


@lru_cache(maxsize=256)
def cut_block(block: Block) -> tuple[Block, ...]:
    """Cut one block."""
    place = block.key.partition(" ")[0]
    return tuple(replace(block, key=f"{place} {at} {piece}", text=piece) for at, piece in enumerate(cut(block.text)))


def cut(text: str) -> tuple[str, ...]:
    """Cut a text at ends of lines, where no token crosses, into pieces of some hundred characters."""
    pieces, piece = [], ""
    for line in LINE.split(text):
        piece += line
        if len(piece) >= CHUNK:
            pieces.append(piece)
            piece = ""
    return (*pieces, piece) if piece else tuple(pieces)


def name_prefixes(model: str, blocks: Sequence[Block]) -> tuple[str, ...]:
    """Name the prefix that ends with each block; another model has other names."""
    return name_chain(model, tuple(block.key for block in blocks))


@lru_cache(maxsize=128)
def name_chain(model: str, keys: tuple[str, ...]) -> tuple[str, ...]:
    """Name the prefixes of a request by the keys of its blocks; one request is asked about several times."""
    names, chain = [], sha256(model.encode())
    for key in keys:
        chain.update(f"\0{key}".encode("utf-8", "surrogatepass"))
        names.append(chain.copy().hexdigest()[:32])
    return tuple(names)
