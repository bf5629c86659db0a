"""What an edit costs as JSON-ready values, for the command line and the API alike."""

from collections import Counter
from typing import Any

from foreword.gateway.editing import Edit, Fresh
from foreword.gateway.pricing import Price, Pricing
from foreword.ledger.price import Offer, Quote
from foreword.ledger.telling import tell_quote
from foreword.words import Policy

POLICIES = (Policy.NOW, Policy.APPEND, Policy.COLD, Policy.NEXT_SESSION)


def tell_pricing(pricing: Pricing, edit: Edit, fresh: Fresh | None) -> dict[str, Any]:
    """Tell what an edit costs every session, all of them together, and one that begins with it."""
    spared = Counter(map(str, pricing.spared))
    return {
        "path": edit.path,
        "sha256": None if edit.text is None or edit.closed else edit.sha256,
        "saved": edit.saved,
        "sessions": [tell_price(one) for one in pricing.prices],
        "all": tell_quote(sum_up(pricing)),
        "spared": {name: spared.get(name, 0) for name in ("same", "apart", "passing", "over")},
        "idle": pricing.idle,
        "fresh": fresh and tell_fresh(fresh),
    }


def tell_price(price: Price) -> dict[str, Any]:
    """Tell what an edit costs one session."""
    session, decided = price.session, price.standing.decisions
    return {
        "session": session.id,
        "agent": session.lane.agent,
        "channel": session.lane.channel,
        "room": session.lane.room or None,
        "user": price.user or None,
        "model": price.model,
        "warm": price.warm,
        "deed": str(price.standing.deed),
        "reason": decided[0].reason if decided else price.standing.reason,
        **tell_quote(price.quote),
    }


def tell_fresh(fresh: Fresh) -> dict[str, Any]:
    """Tell what a session costs that begins."""
    return {
        "agent": fresh.agent,
        "user": fresh.user or None,
        "model": fresh.model,
        "tokens": fresh.tokens,
        "prefix": fresh.prefix,
        "own": fresh.own,
        "cold_usd": fresh.cold_usd,
        "warm_usd": fresh.warm_usd,
    }


def sum_up(pricing: Pricing) -> Quote:
    """Sum up what all sessions pay that have a price, and find the cheapest that takes effect in all of them."""
    offers = tuple(offer for policy in POLICIES if (offer := pricing.sum_up(policy)))
    able = [one for one in offers if takes_effect(one) and one.allowed]
    best = min(able, key=lambda one: one.total).policy if able else None
    return Quote(sections=tuple(sorted({name for one in pricing.prices for name in one.quote.sections})),
                 offers=offers, best=best)  # fmt: skip


def takes_effect(offer: Offer) -> bool:
    """Whether a session that goes on learns of the edit with its next message."""
    return offer.policy in (Policy.NOW, Policy.APPEND)
