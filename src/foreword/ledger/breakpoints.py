"""Where a request is marked for the cache: data of the envelope, chosen for the finished request."""

from collections.abc import Iterator, Sequence

from foreword.frozen import frozen
from foreword.ledger.state import Frozen, Sent, count_equal
from foreword.ledger.ttl import Exposure, choose_life
from foreword.tokens.caches import CacheFacts, Life


@frozen(eq=True)
class Breakpoint:
    """A mark: behind which block of the request, for how long, and what for."""

    at: int
    ttl: str
    why: str


def choose(frozen: Frozen | None, sent: Sent, facts: CacheFacts, stable: Sequence[int]) -> tuple[Breakpoint, ...]:
    """Choose the marks of a request, for as long as the gaps of its session let expect; `stable` as for `place`."""
    life = choose_life(find_exposure(frozen, sent), frozen.gaps if frozen else (), facts) if facts.marked else None
    return place(frozen, sent, facts, stable, life)


def place(
    frozen: Frozen | None, sent: Sent, facts: CacheFacts, stable: Sequence[int], life: Life | None
) -> tuple[Breakpoint, ...]:
    """Place the marks of a request; `stable` has the blocks of the system part that end a pace.

    The newest block comes first, then where the last request ended if that is out of sight, then the ends of session,
    static and tools, as long as there are marks left. Long lives stand before short ones.
    """
    if not facts.marked or not sent.pieces:
        return ()
    ends = sent.ends
    places: dict[int, str] = {}
    for at, why in list_places(find_reached(frozen, sent), sent, facts, stable, writes=life is not None):
        if len(places) < facts.marks - facts.newest and ends[at] >= facts.minimum:
            places.setdefault(at, why)
    ttl = (life or facts.usual).name
    # What a mark finds already written is not written again, so a longer life costs nothing before the newest block.
    return tuple(Breakpoint(at=at, ttl=ttl, why=places[at]) for at in sorted(places))


def list_places(
    reached: int | None, sent: Sent, facts: CacheFacts, stable: Sequence[int], *, writes: bool
) -> Iterator[tuple[int, str]]:
    """List where marks are wanted, the most wanted first."""
    last = len(sent.pieces) - 1
    if writes and not facts.newest:
        yield last, "the newest block"
    if reached is not None and not writes:
        yield reached, "the end of the last request, which is read; what follows is not worth writing"
    elif reached is not None and facts.lookback and last - reached >= facts.lookback:
        yield reached, f"the end of the last request, {last - reached} blocks back, which is out of sight"
    yield from ((at, "the end of what a session shares") for at in stable[-1:])
    yield from ((at, "the end of what all sessions share") for at in stable[:1])
    tools = [at for at, piece in enumerate(sent.pieces) if piece.part == "tools"]
    if tools and facts.order[0] == "tools" and not facts.newest:  # OpenAI takes marks on content only
        yield tools[-1], "the end of the tools"


def find_reached(frozen: Frozen | None, sent: Sent) -> int | None:
    """Find the newest block that the provider has of what is sent again."""
    if frozen is None or frozen.last.model != sent.model:
        return None
    equal = count_equal(frozen.last.pieces, sent.pieces)
    return max((one.at for one in frozen.alive if one.at < equal and one.until > sent.at), default=None)


def find_exposure(frozen: Frozen | None, sent: Sent) -> Exposure:
    """Find what the newest mark is about to protect."""
    reached, ends = find_reached(frozen, sent), sent.ends
    cached = 0 if reached is None else ends[reached]
    seconds = next((one.seconds for one in frozen.alive if one.at == reached), 0) if frozen else 0
    return Exposure(cached=cached, fresh=(ends[-1] if ends else 0) - cached, seconds=seconds)
