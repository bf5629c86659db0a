"""Prices per token from `genai-prices` and the configuration, and amounts of money as text."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from foreword.config.schema import ModelOverride
from foreword.types import frozen

MIN_SHOWN_USD = 0.00005  # smaller amounts would be shown as zero


@frozen(eq=True)
class Prices:
    """US dollars per token; without a cache price, the price of plain input applies."""

    input: float
    cache_read: float
    cache_write: float
    cache_write_1h: float
    output: float | None = None
    """None if unknown; the cost of a whole call is then unknown as well."""


def format_usd(amount: float) -> str:
    """Format a small amount of money; savings are negative, and amounts that would round to zero are marked."""
    if 0 < abs(amount) < MIN_SHOWN_USD:
        return "under $0.0001" if amount > 0 else "under $0.0001 less"
    return f"{'-' if amount < 0 else ''}${abs(amount):,.4f}"


MILLION = 1_000_000
# As in the price table and the configuration.
PRICE_NAMES = ("input", "cache_read", "cache_write", "cache_write_1h", "output")
NO_PRICES = (None,) * len(PRICE_NAMES)
FREE_PRICES = (0.0,) * len(PRICE_NAMES)


@frozen(eq=True)
class PricedRequest:
    """What a price depends on besides the model: the size of the request and its time."""

    tokens: int = 0
    now: datetime | None = None


ANY_REQUEST = PricedRequest()


def find_prices(
    model: str, overrides: Mapping[str, ModelOverride], request: PricedRequest = ANY_REQUEST
) -> Prices | None:
    """Return the prices of a model, configured ones first, or None if they are unknown."""
    override = overrides.get(model) or overrides.get(model.rpartition(":")[2]) or ModelOverride()
    given = tuple(getattr(override, f"{name}_usd") for name in PRICE_NAMES)
    known = NO_PRICES if None not in given else look_up_prices(model, request)
    found = (ours if ours is not None else theirs for ours, theirs in zip(given, known, strict=True))
    plain, read, write, hour, output = (None if price is None else price / MILLION for price in found)
    if plain is None:
        return None
    short = plain if write is None else write
    return Prices(
        input=plain,
        cache_read=plain if read is None else read,
        cache_write=short,
        cache_write_1h=short if hour is None else hour,
        output=output,
    )


def look_up_prices(model: str, request: PricedRequest) -> tuple[float | None, ...]:
    """Look up the prices of a million tokens in the table of genai-prices, without network access."""
    if model.startswith("local:"):  # a local model costs nothing per token
        return FREE_PRICES
    from genai_prices.data_snapshot import get_snapshot

    provider, _, name = model.rpartition(":") if ":" in model else ("", "", model)
    if not name:
        return NO_PRICES
    try:
        _, facts = get_snapshot().find_provider_model(name, None, provider.partition(":")[0] or None, None)
    except LookupError:
        return NO_PRICES
    prices = facts.get_prices(request.now or datetime.now(UTC))
    return tuple(choose_tier(getattr(prices, f"{kind}_mtok"), request.tokens) for kind in PRICE_NAMES)


def choose_tier(price: Any, tokens: int) -> float | None:
    """Return the price for a request of this size; above a threshold the tier's price applies to all tokens."""
    if price is None or not hasattr(price, "tiers"):
        return None if price is None else float(price)
    reached = [tier.price for tier in price.tiers if tokens > tier.start]
    return float(reached[-1] if reached else price.base)
