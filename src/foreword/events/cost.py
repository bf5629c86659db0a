"""Cost: what one call of a model cost, and which section of its prompt cost how much."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from foreword.assembly import Assembly
from foreword.config.schema import ModelOverride
from foreword.events.event import Usage
from foreword.frozen import frozen
from foreword.prices import Prices, Request, find_prices
from foreword.words import Placement

# What a request holds beside its sections; the brackets keep these names apart from those of slots.
TOOLS, HISTORY, MESSAGE, REPLY = "(tool schemas)", "(history)", "(message)", "(reply)"


@frozen(eq=True)
class Call:
    """One call of a model, as far as its price depends on it."""

    model: str
    usage: Usage
    time: datetime | None = None
    hour: bool = False
    """Whether what it wrote to the cache is kept for an hour."""


@frozen(eq=True)
class Cost:
    """US dollars of one call, or why nobody knows them."""

    usd: float | None
    reason: str = ""
    prices: Prices | None = None


@frozen(eq=True)
class Share:
    """What one section was of a call: its tokens, how many of them were read from the cache, and US dollars."""

    section: str
    tokens: int
    cached: int
    usd: float | None

    @property
    def row(self) -> list[str | int | float | None]:
        """The share as the facts of an event carry it."""
        return [self.section, self.tokens, self.cached, self.usd]


def price_call(call: Call, overrides: Mapping[str, ModelOverride]) -> Cost:
    """Price a call, the user's own prices first; what nobody knows is None and not zero."""
    usage = call.usage
    if problem := judge_usage(usage):
        return Cost(usd=None, reason=problem)
    prices = find_prices(call.model, overrides, Request(tokens=usage.tokens_in, now=call.time))
    if prices is None:
        return Cost(usd=None, reason=f"no price is known for {call.model or 'a call without a model'}; see models")
    if prices.output is None and usage.tokens_out:
        return Cost(usd=None, reason=f"no output price is known for {call.model}; see models", prices=prices)
    fresh = usage.tokens_in - usage.cache_read - usage.cache_write
    read, write = usage.cache_read * prices.cache_read, usage.cache_write * find_write(prices, call)
    return Cost(usd=fresh * prices.input + read + write + usage.tokens_out * (prices.output or 0.0), prices=prices)


def judge_usage(usage: Usage) -> str:
    """Say why a report of usage cannot be priced, or nothing."""
    if min(usage.tokens_in, usage.tokens_out, usage.cache_read, usage.cache_write) < 0:
        return "the reported usage has numbers below zero"
    if usage.cache_read + usage.cache_write > usage.tokens_in:
        return "the reported usage has more tokens in the cache than in the whole input"
    return ""


def find_write(prices: Prices, call: Call) -> float:
    """Find the price of writing one token to the cache."""
    return prices.cache_write_1h if call.hour else prices.cache_write


def foresee(assembly: Assembly, overrides: Mapping[str, ModelOverride], max_tokens: int) -> Cost:
    """Foresee the most that a call can cost: no token is read from the cache, and the reply is as long as allowed."""
    tokens = assembly.used + assembly.conversation
    call = Call(
        model=assembly.terms.meter.facts.name,
        usage=Usage(tokens_in=tokens, tokens_out=max_tokens),
        time=assembly.turn.now,
    )
    plain = price_call(call, overrides)
    if plain.usd is None or plain.prices is None:
        return plain
    dearer = max(0.0, plain.prices.cache_write - plain.prices.input)
    return Cost(usd=plain.usd + tokens * dearer, prices=plain.prices)


def split(assembly: Assembly, call: Call, cost: Cost) -> tuple[Share, ...]:
    """Split a call over what its request was made of, in the order of the wire; the sum is the call's cost.

    A cache holds a prefix, so what was read from it is the beginning of the request, then comes what was written. What
    the provider counted beyond our own count was appended since the prompt was assembled, and belongs to the message.
    """
    usage = call.usage
    if judge_usage(usage):
        return ()
    prices = cost.prices if cost.usd is not None else None
    written = usage.cache_read + usage.cache_write
    shares: dict[str, Share] = {}
    at = 0
    for name, tokens in scale(list(weigh(assembly)), usage.tokens_in):
        read = max(0, min(at + tokens, usage.cache_read) - at)
        wrote = max(0, min(at + tokens, written) - max(at, usage.cache_read))
        usd = None
        if prices:
            plain = (tokens - read - wrote) * prices.input
            usd = plain + read * prices.cache_read + wrote * find_write(prices, call)
        add(shares, Share(section=name, tokens=tokens, cached=read, usd=usd))
        at += tokens
    if usage.tokens_out:
        usd = usage.tokens_out * prices.output if prices and prices.output is not None else None
        add(shares, Share(section=REPLY, tokens=usage.tokens_out, cached=0, usd=usd))
    return tuple(shares.values())


def add(shares: dict[str, Share], share: Share) -> None:
    """Add a share to those of the same section: a template may part one around what it names."""
    known = shares.get(share.section)
    if known:
        usd = None if known.usd is None or share.usd is None else known.usd + share.usd
        tokens, cached = known.tokens + share.tokens, known.cached + share.cached
        share = Share(section=share.section, tokens=tokens, cached=cached, usd=usd)
    shares[share.section] = share


def weigh(assembly: Assembly) -> Iterator[tuple[str, int]]:
    """Tell what the request is made of and what each weighs by our own count, in the order of the wire."""
    message = assembly.terms.meter.count(assembly.message)
    if assembly.fit.tool_tokens:
        yield TOOLS, assembly.fit.tool_tokens
    for block in assembly.prompt.blocks:
        if block.placement is not Placement.TAIL:
            yield from ((span.id, span.tokens) for span in block.spans)
    if assembly.conversation > message:
        yield HISTORY, assembly.conversation - message
    for block in assembly.prompt.blocks:
        if block.placement is Placement.TAIL:
            yield from ((span.id, span.tokens) for span in block.spans)
    yield MESSAGE, message


def scale(parts: list[tuple[str, int]], total: int) -> Iterable[tuple[str, int]]:
    """Make the parts add up to what the provider counted: the last takes what is more, all shrink to what is less."""
    counted = sum(tokens for _, tokens in parts)
    if counted <= total:
        name, last = parts[-1]
        return [*parts[:-1], (name, last + total - counted)]
    scaled, before, after = [], 0, 0
    for name, tokens in parts:
        before += tokens
        end = before * total // counted  # cumulative, so that roundings never add up
        scaled.append((name, end - after))
        after = end
    return scaled
