"""Running a session against a provider's cache: what is read, what is written, and what that costs."""

from collections.abc import Sequence
from datetime import datetime

from foreword.caching import PrefixCache
from foreword.caching.cache import Counted
from foreword.frozen import frozen
from foreword.money import Prices
from foreword.simulate.design import Design
from foreword.simulate.ours import Service
from foreword.simulate.session import Call
from foreword.tokens.caches import CacheFacts


@frozen(eq=True)
class Result:
    """What the requests of a session used."""

    calls: tuple[Counted, ...]
    usd: float | None
    weight: float
    """The same as tokens of plain input, by the factors of the rules; where nobody is paid, what was evaluated."""

    @property
    def cost(self) -> float:
        """What it is judged by: money, or its weight where there are no prices."""
        return self.usd or self.weight

    @property
    def total(self) -> int:
        """All input tokens."""
        return sum(call.total for call in self.calls)

    @property
    def share(self) -> float:
        """The share of the input that was read from the cache."""
        return sum(call.read for call in self.calls) / self.total if self.total else 0.0


class Hand:
    """A clock that is set by hand."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        """Tell the time."""
        return self.now


def run(design: Design, calls: Sequence[Call], service: Service) -> Result:
    """Send every call of a session to a provider's cache."""
    clock = Hand(calls[0].at)
    cache = PrefixCache(clock, service.meter.count)
    counted = []
    for call in calls:
        clock.now = call.at
        counted.append(cache.use(service.model.name, design.write(call), service.cache))
    return bill(counted, service)


def bill(counted: Sequence[Counted], service: Service) -> Result:
    """Bill what was used."""
    prices = service.prices
    usd = None if prices is None else sum(price(each, prices) for each in counted)
    return Result(calls=tuple(counted), usd=usd, weight=sum(weigh(each, service.cache) for each in counted))


def price(counted: Counted, prices: Prices) -> float:
    """Price the input of one call."""
    return (
        counted.read * prices.cache_read
        + (counted.write - counted.hour) * prices.cache_write
        + counted.hour * prices.cache_write_1h
        + counted.fresh * prices.input
    )


def weigh(counted: Counted, facts: CacheFacts) -> float:
    """Weigh the input of one call by the factors of a provider."""
    short, long = facts.usual.write, facts.lives[-1].write
    return counted.read * facts.read + (counted.write - counted.hour) * short + counted.hour * long + counted.fresh


def forget(result: Result, service: Service) -> Result:
    """Bill the same requests as if nothing were cached."""
    return bill([Counted(fresh=call.total) for call in result.calls], service)
