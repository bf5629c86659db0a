"""A request and the provider's cache: its breakpoints, and the account of its reads with the cause of a miss."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from foreword.promptcache.decision import PRIVATE_REASON, find_difference, find_token_rates
from foreword.promptcache.ledger import (
    ENGINE_RESTARTED,
    LedgerState,
    Prefix,
    SentRequest,
    count_equal_blocks,
    is_lost,
    predict_usage,
)
from foreword.promptcache.rules import NO_CALIBRATION, CacheUsage, Calibration, list_lookup_positions
from foreword.tokens.models import CacheFacts, CacheTtl, Prices
from foreword.types import TextEnum, frozen

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


COUNT_TOLERANCE = 0.02  # of a request: our counts are estimates
UNKNOWN_REQUEST_REASON = (
    "no earlier request of this session to this model is known here, so another one with the same beginning was sent"
)
LONGER_TTL_REASON = (
    "it should have expired after {:,.0f} min: the provider kept it longer, or another request with the same"
    " prefix renewed it"
)
OTHER_REQUEST_REASON = (
    "another request with the same prefix may have written it; the ledger knows only this session's requests"
)


@frozen(eq=True)
class ReadSurplus:
    """Tokens read from the cache that were not predicted."""

    tokens: int
    reason: str


def find_surplus(
    state: LedgerState | None, sent: SentRequest, expected: CacheUsage, reported: CacheUsage, facts: CacheFacts
) -> ReadSurplus | None:
    """Find the tokens read beyond a prediction, in reported tokens; None within the error of our counts."""
    if not sent.tokens or not reported.total:
        return None
    scale = reported.total / sent.tokens
    more = reported.read - round(expected.read * scale)
    noise = COUNT_TOLERANCE * reported.total + max(facts.step, count_partial_block(sent, expected.read, facts) * scale)
    return ReadSurplus(tokens=more, reason=explain_surplus(state, sent)) if more > noise else None


def count_partial_block(sent: SentRequest, read: int, facts: CacheFacts) -> int:
    """Return the tokens of the partly equal block that a provider without breakpoints may read."""
    if facts.marked:
        return 0
    return next((piece.tokens for piece, end in zip(sent.pieces, sent.ends, strict=True) if end > read), 0)


def explain_surplus(state: LedgerState | None, sent: SentRequest) -> str:
    """Return the reason as far as the ledger knows it."""
    if state is None or not state.last.pieces or state.last.model != sent.model:
        return UNKNOWN_REQUEST_REASON
    if is_lost(state):
        return OTHER_REQUEST_REASON
    newest = max(state.alive, key=lambda one: one.at, default=None)
    return LONGER_TTL_REASON.format(newest.seconds / 60) if newest and newest.until <= sent.at else OTHER_REQUEST_REASON


class Cause(TextEnum):
    """Why a provider did not read a prefix that it was sent before."""

    SECTION = "section"
    TOOLS = "tools"
    MODEL = "model"
    EXPIRED = "expired"
    MINIMUM = "minimum"
    LOOKBACK = "lookback"
    LIMIT = "limit"
    HISTORY = "history"
    PROVIDER = "provider"


PROVIDER_CAUSES = {
    "model_changed": Cause.MODEL,
    "system_changed": Cause.SECTION,
    "tools_changed": Cause.TOOLS,
    "messages_changed": Cause.HISTORY,
    "context_compacted": Cause.HISTORY,
}
"""Causes as providers' own diagnostics name them."""
AMBIGUOUS_CAUSES = {"input_changed": (Cause.SECTION, Cause.HISTORY)}
"""Diagnoses that cover two causes: OpenAI does not distinguish instructions from messages."""


@frozen(eq=True)
class Blame:
    """The cause of a cache miss."""

    cause: Cause
    reason: str
    where: str = ""  # the first section, tool or message that differs, if any
    byte: int | None = None
    """For a section: the first differing byte of the system part. For tools and messages: where the differing block
    begins, because the ledger stores only their hashes."""
    tokens: int = 0  # tokens billed again
    usd: float | None = None
    confirmed: bool | None = None  # whether the provider's own diagnostics agree; None if it sends none


@frozen(eq=True)
class CacheAccount:
    """Predicted and reported tokens of a call, with the cause of any difference."""

    predicted: CacheUsage
    reported: CacheUsage
    blame: Blame | None = None
    factor: float = 1.0  # the calibration factor applied to the prediction
    surplus: ReadSurplus | None = None  # tokens read beyond the prediction


@frozen(eq=True)
class AnsweredRequest:
    """A request, the prefix it was sent with, and the usage its provider reported."""

    prefix: Prefix
    sent: SentRequest
    reported: CacheUsage


def account_for_call(
    state: LedgerState | None,
    answered: AnsweredRequest,
    facts: CacheFacts,
    prices: Prices | None = None,
    known: Calibration = NO_CALIBRATION,
) -> CacheAccount:
    """Account for a call; `state` is that of the ledger before it, `known` the calibration of the model."""
    sent, reported = answered.sent, answered.reported
    expected = predict_usage(state, sent, facts)
    made = CacheAccount(
        predicted=known.correct_usage(expected),
        reported=reported,
        factor=known.factor,
        surplus=find_surplus(state, sent, expected, reported, facts),
    )
    if state is None:
        return made
    had = count_cacheable_tokens(state, facts)
    scale = reported.total / sent.tokens if sent.tokens and reported.total else 1.0
    lost = min(round(had * scale), reported.total) - reported.read
    noise = max(facts.step, COUNT_TOLERANCE * had * scale)
    # A known loss counts from the first block; a loss seen only in the figures must exceed the noise.
    if lost <= 0 or (lost <= noise and had - expected.read <= facts.step):
        return made
    found = find_cause(state, answered.prefix, sent, facts)
    rates = find_token_rates(facts, prices)
    paid = rates.input if not (facts.marked and sent.marks) else rates.long if reported.hour else rates.write
    usd = lost * (paid - rates.read) if rates.usd else None
    return replace(made, blame=replace(found, tokens=lost, usd=usd))


def count_cacheable_tokens(state: LedgerState, facts: CacheFacts) -> int:
    """Return how many tokens of the last request could be cached; all of them if it was below the minimum."""
    ends = state.last.ends
    if state.alive:
        return ends[max(one.at for one in state.alive)]
    return state.last.tokens if state.last.tokens < facts.minimum else 0


def find_cause(state: LedgerState, prefix: Prefix, sent: SentRequest, facts: CacheFacts) -> Blame:
    """Find the cause of a miss: the first that applies."""
    last, newest = state.last, max(state.alive, key=lambda one: one.at, default=None)
    if last.model != sent.model:
        return Blame(cause=Cause.MODEL, reason=f"{sent.model} does not share a cache with {last.model}")
    if newest is None or last.ends[newest.at] < facts.minimum:
        reason = f"{last.tokens:,} tokens are below the cache minimum of {facts.minimum:,}"
        return Blame(cause=Cause.MINIMUM, reason=reason)
    if is_lost(state):
        return Blame(cause=Cause.EXPIRED, reason=ENGINE_RESTARTED)
    if newest.until <= sent.at:
        minutes = (sent.at - last.at).total_seconds() / 60
        reason = f"idle for {minutes:,.0f} min; the cache lives {newest.seconds / 60:,.0f} min"
        return Blame(cause=Cause.EXPIRED, reason=reason)
    at = count_equal_blocks(last.pieces, sent.pieces)
    if at <= newest.at:
        return describe_difference(state, prefix, sent, at)
    return explain_unread_prefix(newest.at, sent, facts)


def describe_difference(state: LedgerState, prefix: Prefix, sent: SentRequest, at: int) -> Blame:
    """Describe the difference at a block of the request."""
    was, now = state.last.pieces[at], sent.pieces[at] if at < len(sent.pieces) else None
    piece = now if now and now.part == was.part else was
    moved = find_difference(state.prefix, prefix)
    byte = sum(one.size for one in state.last.pieces[:at] if one.part == was.part)
    if was.part == "system" and moved:
        return Blame(cause=Cause.SECTION, reason=f"{moved[0]} is not what it was", where=moved[0], byte=moved[1])
    if was.part == "tools":
        reason = f"{piece.name} changed, and tools precede everything else"
        return Blame(cause=Cause.TOOLS, reason=reason, where=piece.name.removeprefix("tool "), byte=byte)
    if was.part == "system":
        reason = "text after the stable sections changed, and it precedes the messages"
        return Blame(cause=Cause.SECTION, reason=reason, where=piece.name, byte=byte)
    reason = f"message {was.name} differs from the message sent"
    return Blame(cause=Cause.HISTORY, reason=reason, where=was.name, byte=byte)


def explain_unread_prefix(newest: int, sent: SentRequest, facts: CacheFacts) -> Blame:
    """Find why an unchanged prefix was not read: no cache breakpoint in range, or the provider dropped it."""
    if facts.marked and not facts.newest:
        marks, ends = sent.marks, sent.ends
        able = [at for at in marks if ends[at] >= facts.minimum]
        if newest not in set(list_lookup_positions(able, facts.lookback)):
            behind = min((at - newest for at in able if at >= newest), default=0)
            reason = f"the nearest breakpoint is {behind} blocks later; the lookback is {facts.lookback}"
            if len(marks) >= facts.marks:
                reason = f"{reason}; all {facts.marks} breakpoints are used elsewhere"
                return Blame(cause=Cause.LIMIT, reason=reason)
            return Blame(cause=Cause.LOOKBACK, reason=reason)
    return Blame(cause=Cause.PROVIDER, reason="the same was sent in time; the provider had it no longer")


def confirm_cause(blame: Blame, theirs: str) -> Blame:
    """Record whether the provider's own diagnosis agrees with ours."""
    known = AMBIGUOUS_CAUSES.get(theirs) or ((PROVIDER_CAUSES[theirs],) if theirs in PROVIDER_CAUSES else ())
    return replace(blame, confirmed=blame.cause in known) if known else blame


def redact_blame(made: CacheAccount) -> CacheAccount:
    """Remove the details of a break caused by text that may no longer be seen."""
    blame = made.blame
    if blame is None or blame.cause not in (Cause.SECTION, Cause.HISTORY):
        return made
    return replace(made, blame=replace(blame, reason=PRIVATE_REASON, where="", byte=None))
