"""What a prompt costs: prices per token, and the estimate of a turn with a warm cache and a cold one."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from foreword.assembly import Assembly
from foreword.config.schema import ModelOverride
from foreword.frozen import frozen
from foreword.money import Prices
from foreword.wire import count_cached

__all__ = ["ANY", "Estimate", "Prices", "Request", "estimate", "find_prices", "measure_prefix"]

MILLION = 1_000_000
NAMES = (
    "input",
    "cache_read",
    "cache_write",
    "cache_write_1h",
    "output",
)  # as the table and the configuration have them
NOTHING = (None,) * len(NAMES)
FREE = (0.0,) * len(NAMES)


@frozen(eq=True)
class Request:
    """What a price depends on beside the model: how large the request is, and when it is made."""

    tokens: int = 0
    now: datetime | None = None


ANY = Request()


@frozen(eq=True)
class Estimate:
    """US dollars for the input of one turn."""

    warm_usd: float
    """The stable prefix is read from the cache."""
    cold_usd: float
    """The stable prefix is written to it."""


def find_prices(model: str, overrides: Mapping[str, ModelOverride], request: Request = ANY) -> Prices | None:
    """Find the prices of a model, the user's own first, or None where nobody knows them."""
    override = overrides.get(model) or overrides.get(model.rpartition(":")[2]) or ModelOverride()
    given = tuple(getattr(override, f"{name}_usd") for name in NAMES)
    known = NOTHING if None not in given else look_up(model, request)
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


def look_up(model: str, request: Request) -> tuple[float | None, ...]:
    """Look the prices of a million tokens up in the table of genai-prices, which needs no network."""
    if model.startswith("local:"):  # what runs on this machine is paid for already
        return FREE
    from genai_prices.data_snapshot import get_snapshot

    provider, _, name = model.rpartition(":") if ":" in model else ("", "", model)
    if not name:
        return NOTHING
    try:
        _, facts = get_snapshot().find_provider_model(name, None, provider.partition(":")[0] or None, None)
    except LookupError:
        return NOTHING
    prices = facts.get_prices(request.now or datetime.now(UTC))
    return tuple(choose_tier(getattr(prices, f"{kind}_mtok"), request.tokens) for kind in NAMES)


def choose_tier(price: Any, tokens: int) -> float | None:
    """Choose the price that holds for a request of this size; beyond a threshold all of its tokens pay the tier's."""
    if price is None or not hasattr(price, "tiers"):
        return None if price is None else float(price)
    reached = [tier.price for tier in price.tiers if tokens > tier.start]
    return float(reached[-1] if reached else price.base)


def estimate(assembly: Assembly, prices: Prices) -> Estimate:
    """Estimate what the input of a turn costs, with its stable prefix in the cache and without."""
    prefix = measure_prefix(assembly)
    message = assembly.terms.meter.count(assembly.message)
    # What was said before stands behind the prefix, and where that is cached, so is it.
    kept = prefix + assembly.conversation - message if prefix else 0
    rest = (assembly.used + assembly.conversation - kept) * prices.input
    return Estimate(warm_usd=kept * prices.cache_read + rest, cold_usd=kept * prices.cache_write + rest)


def measure_prefix(assembly: Assembly) -> int:
    """Count the tokens of the prefix that the provider caches: tool schemas, and the leading stable blocks."""
    blocks, tools = assembly.prompt.blocks, assembly.fit.tool_tokens
    count = count_cached(blocks, assembly.terms.meter.facts, tools)
    return tools + sum(block.tokens for block in blocks[:count]) if count else 0
