"""What a provider read from its cache beyond what was predicted, and as much as can be known of why."""

from foreword.caching.cache import Counted
from foreword.frozen import frozen
from foreword.ledger.state import Frozen, Sent, is_lost
from foreword.tokens.caches import CacheFacts

TOLERANCE = 0.02  # of a request: counts of ours are estimates
FIRST = (
    "no earlier request of this session to this model is known here, so another one with the same beginning was sent"
)
LONGER = (
    "it should have been gone after {:,.0f} min: the provider kept it longer, or another request with the same"
    " beginning kept it alive"
)
OTHER = "another request with the same beginning may have written it; only what this session sent is known here"


@frozen(eq=True)
class Surplus:
    """Tokens that were read from the cache though nobody expected them there."""

    tokens: int
    reason: str


def find_surplus(
    frozen: Frozen | None, sent: Sent, expected: Counted, reported: Counted, facts: CacheFacts
) -> Surplus | None:
    """Find what was read beyond a prediction, by the tokens that were reported; nothing where counts may be why."""
    if not sent.tokens or not reported.total:
        return None
    scale = reported.total / sent.tokens
    more = reported.read - round(expected.read * scale)
    noise = TOLERANCE * reported.total + max(facts.step, find_edge(sent, expected.read, facts) * scale)
    return Surplus(tokens=more, reason=explain(frozen, sent)) if more > noise else None


def find_edge(sent: Sent, read: int, facts: CacheFacts) -> int:
    """Find what the block weighs into which a provider may read that needs no marks, though it is not all the same."""
    if facts.marked:
        return 0
    return next((piece.tokens for piece, end in zip(sent.pieces, sent.ends, strict=True) if end > read), 0)


def explain(frozen: Frozen | None, sent: Sent) -> str:
    """Say what is known of the reason, and no more."""
    if frozen is None or not frozen.last.pieces or frozen.last.model != sent.model:
        return FIRST
    if is_lost(frozen):
        return OTHER
    newest = max(frozen.alive, key=lambda one: one.at, default=None)
    return LONGER.format(newest.seconds / 60) if newest and newest.until <= sent.at else OTHER
