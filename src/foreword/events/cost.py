"""The cost of a model call, in total and per section of its prompt."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from foreword.assembly import Assembly
from foreword.config.schema import ModelOverride
from foreword.events.event import Usage
from foreword.tokens.prices import PricedRequest, Prices, find_prices
from foreword.types import Placement, frozen

# The parts of a request that are not sections. The brackets distinguish them from slot names.
TOOLS_PART, HISTORY_PART, MESSAGE_PART, REPLY_PART = "(tool schemas)", "(history)", "(message)", "(reply)"


@frozen(eq=True)
class PricedCall:
    """The properties of a model call that determine its price."""

    model: str
    usage: Usage
    time: datetime | None = None
    hour: bool = False
    """Whether cache writes have a lifetime of one hour."""


@frozen(eq=True)
class Cost:
    """The cost of a call in US dollars, or the reason why it is unknown."""

    usd: float | None
    reason: str = ""
    prices: Prices | None = None


@frozen(eq=True)
class SectionShare:
    """The share of one section in a call: tokens, cached tokens and US dollars."""

    section: str
    tokens: int
    cached: int
    usd: float | None

    @property
    def row(self) -> list[str | int | float | None]:
        """The share as stored in the facts of an event."""
        return [self.section, self.tokens, self.cached, self.usd]


def price_call(call: PricedCall, overrides: Mapping[str, ModelOverride]) -> Cost:
    """Price a call. Prices from the configuration take precedence. An unknown price is None, not zero."""
    usage = call.usage
    if problem := check_usage(usage):
        return Cost(usd=None, reason=problem)
    prices = find_prices(call.model, overrides, PricedRequest(tokens=usage.tokens_in, now=call.time))
    if prices is None:
        return Cost(usd=None, reason=f"no price is known for {call.model or 'a call without a model'}; see models")
    if prices.output is None and usage.tokens_out:
        return Cost(usd=None, reason=f"no output price is known for {call.model}; see models", prices=prices)
    fresh = usage.tokens_in - usage.cache_read - usage.cache_write
    read, write = usage.cache_read * prices.cache_read, usage.cache_write * find_write_price(prices, call)
    return Cost(usd=fresh * prices.input + read + write + usage.tokens_out * (prices.output or 0.0), prices=prices)


def check_usage(usage: Usage) -> str:
    """Return why reported usage cannot be priced, or an empty string."""
    if min(usage.tokens_in, usage.tokens_out, usage.cache_read, usage.cache_write) < 0:
        return "the reported usage has negative numbers"
    if usage.cache_read + usage.cache_write > usage.tokens_in:
        return "the reported usage has more cached tokens than input tokens"
    return ""


def find_write_price(prices: Prices, call: PricedCall) -> float:
    """Return the price of writing one token to the cache."""
    return prices.cache_write_1h if call.hour else prices.cache_write


def estimate_max_cost(assembly: Assembly, overrides: Mapping[str, ModelOverride], max_tokens: int) -> Cost:
    """Estimate the maximum cost of a call: no cache reads, and a reply of maximum length."""
    tokens = assembly.used + assembly.conversation
    call = PricedCall(
        model=assembly.meter.facts.name,
        usage=Usage(tokens_in=tokens, tokens_out=max_tokens),
        time=assembly.turn.now,
    )
    plain = price_call(call, overrides)
    if plain.usd is None or plain.prices is None:
        return plain
    dearer = max(0.0, plain.prices.cache_write - plain.prices.input)
    return Cost(usd=plain.usd + tokens * dearer, prices=plain.prices)


def split_cost(assembly: Assembly, call: PricedCall, cost: Cost) -> tuple[SectionShare, ...]:
    """Split a call over the parts of its request, in wire order. The shares add up to the call's cost.

    A cache holds a prefix: the request starts with the tokens read from it, followed by the written ones. Tokens that
    the provider counted beyond our count were appended after assembly and belong to the message.
    """
    usage = call.usage
    if check_usage(usage):
        return ()
    prices = cost.prices if cost.usd is not None else None
    written = usage.cache_read + usage.cache_write
    shares: dict[str, SectionShare] = {}
    at = 0
    for name, tokens in scale_parts(list(list_part_tokens(assembly)), usage.tokens_in):
        read = max(0, min(at + tokens, usage.cache_read) - at)
        wrote = max(0, min(at + tokens, written) - max(at, usage.cache_read))
        usd = None
        if prices:
            plain = (tokens - read - wrote) * prices.input
            usd = plain + read * prices.cache_read + wrote * find_write_price(prices, call)
        add_share(shares, SectionShare(section=name, tokens=tokens, cached=read, usd=usd))
        at += tokens
    if usage.tokens_out:
        usd = usage.tokens_out * prices.output if prices and prices.output is not None else None
        add_share(shares, SectionShare(section=REPLY_PART, tokens=usage.tokens_out, cached=0, usd=usd))
    return tuple(shares.values())


def add_share(shares: dict[str, SectionShare], share: SectionShare) -> None:
    """Add a share to its section. A template can split a section into several spans."""
    known = shares.get(share.section)
    if known:
        usd = None if known.usd is None or share.usd is None else known.usd + share.usd
        tokens, cached = known.tokens + share.tokens, known.cached + share.cached
        share = SectionShare(section=share.section, tokens=tokens, cached=cached, usd=usd)
    shares[share.section] = share


def list_part_tokens(assembly: Assembly) -> Iterator[tuple[str, int]]:
    """Yield the parts of the request with our token counts, in wire order."""
    message = assembly.meter.count(assembly.message)
    if assembly.fit.tool_tokens:
        yield TOOLS_PART, assembly.fit.tool_tokens
    for block in assembly.prompt.blocks:
        if block.placement is not Placement.TAIL:
            yield from ((span.id, span.tokens) for span in block.spans)
    if assembly.conversation > message:
        yield HISTORY_PART, assembly.conversation - message
    for block in assembly.prompt.blocks:
        if block.placement is Placement.TAIL:
            yield from ((span.id, span.tokens) for span in block.spans)
    yield MESSAGE_PART, message


def scale_parts(parts: list[tuple[str, int]], total: int) -> Iterable[tuple[str, int]]:
    """Scale the parts to the provider's count. The last part takes a surplus; a deficit shrinks all parts."""
    counted = sum(tokens for _, tokens in parts)
    if counted <= total:
        name, last = parts[-1]
        return [*parts[:-1], (name, last + total - counted)]
    scaled, before, after = [], 0, 0
    for name, tokens in parts:
        before += tokens
        end = before * total // counted  # cumulative, so that rounding errors do not add up
        scaled.append((name, end - after))
        after = end
    return scaled
