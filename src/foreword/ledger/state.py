"""The state of a session's ledger: what was sent, frozen. It is made anew only once a provider has accepted."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import accumulate, compress, count
from operator import attrgetter, ne
from typing import NamedTuple

from foreword.caching import Block, Kept, PrefixCache
from foreword.caching.cache import Counted, Named, split
from foreword.frozen import frozen
from foreword.ledger.line import Base, Update
from foreword.tokens.caches import CacheFacts
from foreword.words import Trust

LOST = 0  # seconds that a prefix lives of which it is known that it is gone
ANEW = "the engine was started anew, and has nothing of what it was sent before"
GAPS = 64  # gaps between calls that are remembered
KEY, TOKENS, TTL = attrgetter("key"), attrgetter("tokens"), attrgetter("ttl")


class Piece(NamedTuple):
    """A block of a request as its provider's cache saw it; a tuple, since a long session has thousands of them."""

    key: str
    tokens: int
    size: int
    """Its bytes."""
    name: str
    """The tool, `system`, or the number of the message and who said it."""
    part: str
    """tools, system or messages."""
    ttl: str = ""


@frozen(eq=True)
class Sent:
    """One request that a provider has accepted."""

    model: str
    pieces: tuple[Piece, ...]
    at: datetime
    turn: str = ""
    """Which turn it belongs to; the calls of a tool loop share one."""
    answer: str = ""
    """What the provider calls its answer, where it was asked to compare the next request with this one."""

    @property
    def tokens(self) -> int:
        """What we think the request weighs."""
        return sum(map(TOKENS, self.pieces))

    @property
    def marks(self) -> list[int]:
        """Where its marks are."""
        return list(compress(count(), map(TTL, self.pieces)))

    @property
    def ends(self) -> list[int]:
        """The tokens up to the end of each piece."""
        return list(accumulate(map(TOKENS, self.pieces)))

    def measure(self, part: str) -> int:
        """Weigh one part of the request."""
        return sum(piece.tokens for piece in self.pieces if piece.part == part)


@frozen(eq=True)
class Alive:
    """A prefix that the provider is believed to have: up to which piece, until when, how much longer by each use."""

    at: int
    until: datetime
    seconds: int


@frozen(eq=True)
class Heard:
    """What was said before a turn, by its length and its hash, so that a rewritten history is noticed."""

    count: int = 0
    sha: str = ""


@frozen(eq=True)
class Identity:
    """What no cache outlives, beside the text: clearance, model and tools."""

    clearance: Trust = Trust.PUBLIC
    model: str = ""
    tools: str = ""
    """The hash of the tools."""


@frozen(eq=True)
class Frozen:
    """What a session has sent."""

    identity: Identity
    base: Base
    updates: tuple[Update, ...] = ()
    """What was said about sections since, and still counts."""
    settled: tuple[Update, ...] = ()
    """What was said once and may stand in the history still, though it counts no longer."""
    heard: Heard = Heard()
    last: Sent
    alive: tuple[Alive, ...] = ()
    gaps: tuple[float, ...] = ()
    """Seconds between the newest calls."""
    calls: int = 0
    turns: int = 0


def empty(frozen: Frozen) -> Frozen:
    """Keep nothing of what was sent: the next turn is sent everything anew, and its updates have left the history."""
    return replace(
        frozen,
        base=Base(),
        updates=(),
        settled=(),
        heard=Heard(),
        last=replace(frozen.last, pieces=(), answer=""),
        alive=(),
    )


def lose(frozen: Frozen) -> Frozen:
    """Know that who had it was started anew, and so has nothing of it any more."""
    gone = (replace(one, until=frozen.last.at, seconds=LOST) for one in frozen.alive)
    return replace(frozen, alive=tuple(gone))


def is_lost(frozen: Frozen) -> bool:
    """Whether what was sent is known to be lost, whatever lives rules promise."""
    return any(one.seconds == LOST for one in frozen.alive)


def digest(texts: Sequence[str]) -> Heard:
    """Take the hash of what was said; two messages that become one later say the same."""
    return hash_text("\n\n".join(texts))


def hash_text(text: str) -> Heard:
    """Take the hash of a text."""
    return Heard(count=len(text), sha=sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32])


def continues(heard: Heard, texts: Sequence[str]) -> bool:
    """Whether a history goes on from the one that was heard."""
    return not heard.sha or hash_text("\n\n".join(texts)[: heard.count]) == heard


def capture(blocks: Sequence[Block], facts: CacheFacts, weigh: Callable[[str], int]) -> tuple[Piece, ...]:
    """Capture the blocks of a request as its provider's cache sees them."""
    seen = blocks if facts.marked else split(blocks)
    return tuple(make_piece(block, block.tokens if block.tokens >= 0 else weigh(block.text)) for block in seen)


def make_piece(block: Block, tokens: int) -> Piece:
    """Make a piece."""
    return Piece(
        key=sha256(block.key.encode("utf-8", "surrogatepass")).hexdigest()[:16],
        tokens=tokens,
        size=len(block.text.encode("utf-8", "surrogatepass")),
        name=block.name,
        part=find_part(block.name),
        ttl=block.ttl,
    )


def find_part(name: str) -> str:
    """Find the part of a request that a block belongs to; a system message that opens a conversation is no message."""
    if name.startswith("tool "):
        return "tools"
    return "messages" if name[:1].isdigit() and name != "0 system" else "system"


def count_equal(before: Sequence[Piece], after: Sequence[Piece]) -> int:
    """Count the leading pieces that are the same."""
    differs = map(ne, map(KEY, before), map(KEY, after))
    return next(compress(count(), differs), min(len(before), len(after)))


def predict(frozen: Frozen | None, sent: Sent, facts: CacheFacts) -> Counted:
    """Predict what a provider reads and writes for a request."""
    return foresee(frozen, sent, facts)[0]


def foresee(frozen: Frozen | None, sent: Sent, facts: CacheFacts) -> tuple[Counted, tuple[Alive, ...]]:
    """Foresee what a provider reads and writes for a request, and what it has afterwards."""
    # Two beginnings are equal if they are as long and all before is: a number names them, where a provider hashes.
    same = count_equal(frozen.last.pieces, sent.pieces) if frozen and frozen.last.model == sent.model else 0

    def name(at: int) -> str:
        return str(at) if at < same else f"{at} of this one"

    kept: dict[str, Kept] = {}
    for one in frozen.alive if frozen else ():
        # Where any beginning is kept, what keeps the longest keeps all of them.
        for at in (one.at,) if facts.marked else range(one.at + 1):
            kept[str(at)] = Kept(until=one.until, seconds=one.seconds)
    cache, marks, last = PrefixCache(lambda: sent.at, lambda _: 0, kept), sent.marks, len(sent.pieces) - 1
    lives = [facts.find_life(sent.pieces[at].ttl) for at in marks]
    counted = cache.use_named(Named(name=name, ends=sent.ends, marks=marks, lives=lives), facts)
    # Where any beginning is kept, the longest stands for all of them.
    known = {one.at for one in frozen.alive if one.at < same} if frozen and facts.marked else set()
    found = ((at, cache.kept.get(name(at))) for at in sorted({*known, *marks, last}) if 0 <= at <= last)
    alive = (Alive(at=at, until=kept.until, seconds=kept.seconds) for at, kept in found if kept is not None)
    return counted, tuple(one for one in alive if one.until > sent.at)


def measure_warm(frozen: Frozen, now: datetime, facts: CacheFacts) -> int:
    """Weigh what the provider still has of the last request."""
    ends = frozen.last.ends
    warm = max((ends[one.at] for one in frozen.alive if one.until > now), default=0)
    return warm if warm >= facts.minimum else 0


def find_idle(frozen: Frozen, now: datetime) -> timedelta:
    """Find how long nothing was sent."""
    return now - frozen.last.at
