"""Cache breakpoints: chosen for the finished request and stored in the envelope.

Choose the TTL of a cache breakpoint from the session's call gaps and the provider's prices.
"""

from collections.abc import Iterator, Sequence

from foreword.promptcache.ledger import LedgerState, SentRequest, count_equal_blocks
from foreword.tokens.models import CacheFacts, CacheTtl
from foreword.types import frozen

# Prior gaps in seconds, before anything is measured: tool loops, conversation, and occasional pauses.
PRIOR_GAPS_S = (5.0, 20.0, 40.0, 60.0, 90.0, 120.0, 240.0, 900.0)
GapProbabilities = Sequence[tuple[float, float]]
"""Gaps in seconds with their probabilities."""
PRIOR_WEIGHT = 4.0  # how many measured gaps the prior counts as


@frozen(eq=True)
class Exposure:
    """What a breakpoint would protect."""

    cached: int  # tokens before it that are already cached
    fresh: int  # tokens that the breakpoint would write
    seconds: int  # how long the cached tokens live without it


def choose_ttl(exposure: Exposure, gaps: Sequence[float], facts: CacheFacts) -> CacheTtl | None:
    """Choose the TTL with the lowest expected cost until the next call, or none; at equal cost the shorter one."""
    chances = find_gap_probabilities(gaps)
    return min((*facts.lives, None), key=lambda life: expect_cost(exposure, life, chances, facts))


def find_gap_probabilities(gaps: Sequence[float]) -> GapProbabilities:
    """Return the probability of each gap from the prior and the measured gaps."""
    whole = len(gaps) + PRIOR_WEIGHT
    usual = [(gap, PRIOR_WEIGHT / len(PRIOR_GAPS_S) / whole) for gap in PRIOR_GAPS_S]
    return [*usual, *((gap, 1 / whole) for gap in gaps)]


def expect_cost(exposure: Exposure, life: CacheTtl | None, chances: GapProbabilities, facts: CacheFacts) -> float:
    """Return the expected cost of fresh tokens now and of all tokens in the next call, in input tokens."""
    cached, fresh, again = exposure.cached, exposure.fresh, facts.usual.write
    now = fresh * (life.write if life else 1.0)
    later = 0.0
    for gap, chance in chances:
        if life and gap < life.seconds:
            later += chance * facts.read * (cached + fresh)
        elif gap < exposure.seconds:
            later += chance * (facts.read * cached + again * fresh)
        else:
            later += chance * again * (cached + fresh)
    return now + later


@frozen(eq=True)
class Breakpoint:
    """A cache breakpoint: after which block, with which TTL, and why."""

    at: int
    ttl: str
    why: str


def choose_breakpoints(
    state: LedgerState | None, sent: SentRequest, facts: CacheFacts, stable: Sequence[int]
) -> tuple[Breakpoint, ...]:
    """Choose the cache breakpoints of a request, with a TTL from the session's call gaps.

    `stable` is as in `place_breakpoints`.
    """
    life = choose_ttl(find_exposure(state, sent), state.gaps if state else (), facts) if facts.marked else None
    return place_breakpoints(state, sent, facts, stable, life)


def place_breakpoints(
    state: LedgerState | None, sent: SentRequest, facts: CacheFacts, stable: Sequence[int], life: CacheTtl | None
) -> tuple[Breakpoint, ...]:
    """Place the cache breakpoints of a request; `stable` lists the system blocks that end a pace.

    Order of preference: the newest block, the end of the last request if it is beyond the lookback, then the ends of
    the session, static and tools blocks, while breakpoints are left. Long TTLs precede short ones.
    """
    if not facts.marked or not sent.pieces:
        return ()
    ends = sent.ends
    places: dict[int, str] = {}
    for at, why in list_candidates(find_newest_cached(state, sent), sent, facts, stable, writes=life is not None):
        if len(places) < facts.marks - facts.newest and ends[at] >= facts.minimum:
            places.setdefault(at, why)
    ttl = (life or facts.usual).name
    # A breakpoint on a cached prefix does not write it again, so a longer TTL is free before the newest block.
    return tuple(Breakpoint(at=at, ttl=ttl, why=places[at]) for at in sorted(places))


def list_candidates(
    reached: int | None, sent: SentRequest, facts: CacheFacts, stable: Sequence[int], *, writes: bool
) -> Iterator[tuple[int, str]]:
    """List the wanted breakpoints, most important first."""
    last = len(sent.pieces) - 1
    if writes and not facts.newest:
        yield last, "the newest block"
    if reached is not None and not writes:
        yield reached, "the end of the last request, which is read; the rest is not worth a cache write"
    elif reached is not None and facts.lookback and last - reached >= facts.lookback:
        yield reached, f"the end of the last request, {last - reached} blocks back, beyond the lookback"
    yield from ((at, "the end of the session's shared prefix") for at in stable[-1:])
    yield from ((at, "the end of the prefix all sessions share") for at in stable[:1])
    tools = [at for at, piece in enumerate(sent.pieces) if piece.part == "tools"]
    if tools and facts.order[0] == "tools" and not facts.newest:  # OpenAI accepts breakpoints on content only
        yield tools[-1], "the end of the tools"


def find_newest_cached(state: LedgerState | None, sent: SentRequest) -> int | None:
    """Find the newest block of this request that is still cached."""
    if state is None or state.last.model != sent.model:
        return None
    equal = count_equal_blocks(state.last.pieces, sent.pieces)
    return max((one.at for one in state.alive if one.at < equal and one.until > sent.at), default=None)


def find_exposure(state: LedgerState | None, sent: SentRequest) -> Exposure:
    """Measure what the newest breakpoint would protect."""
    reached, ends = find_newest_cached(state, sent), sent.ends
    cached = 0 if reached is None else ends[reached]
    seconds = next((one.seconds for one in state.alive if one.at == reached), 0) if state else 0
    return Exposure(cached=cached, fresh=(ends[-1] if ends else 0) - cached, seconds=seconds)
