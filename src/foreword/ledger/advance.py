"""Advancing: the one thing that makes a new state of a session's ledger, once a provider has accepted a request."""

from foreword.ledger.standing import Standing
from foreword.ledger.state import GAPS, Frozen, Sent, foresee
from foreword.tokens.caches import CacheFacts


def advance(frozen: Frozen | None, standing: Standing, sent: Sent, facts: CacheFacts) -> Frozen:
    """Freeze what was sent; each call of a tool loop advances with the standing of its turn."""
    goes_on = frozen is not None and frozen.last.turn == sent.turn and bool(sent.turn)
    gap = () if frozen is None else (max(0.0, (sent.at - frozen.last.at).total_seconds()),)
    return Frozen(
        identity=standing.identity,
        base=standing.base,
        updates=standing.updates,
        settled=standing.settled,
        heard=standing.heard,
        last=sent,
        alive=foresee(frozen, sent, facts)[1],
        gaps=(*(frozen.gaps if frozen else ()), *gap)[-GAPS:],
        calls=(frozen.calls if frozen else 0) + 1,
        turns=(frozen.turns if frozen else 0) + (0 if goes_on else 1),
    )
