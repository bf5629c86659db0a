"""The price of an edit before it is made: now, appended, once the cache is cold, or in the next session."""

from collections.abc import Collection
from dataclasses import replace

from foreword.frozen import frozen
from foreword.ledger.calibration import Calibration
from foreword.ledger.change import Change, list_changes, rebuild
from foreword.ledger.choice import Case, Moment, look, weigh
from foreword.ledger.line import replay
from foreword.ledger.state import Frozen
from foreword.ledger.wanted import Wanted
from foreword.money import Prices
from foreword.words import Policy


@frozen(eq=True)
class Offer:
    """What an edit costs under one policy."""

    policy: Policy
    again: int
    """Tokens that are billed again in the next call."""
    more: int
    """Tokens that every further call has more, or fewer."""
    once: float
    """What the next call costs more because of it."""
    each: float
    """What each further call costs more."""
    calls: int
    """The further calls that are expected of this session."""
    usd: bool
    """Whether the costs are US dollars; else tokens of input, where no price is known."""
    allowed: bool = True
    """Whether it may be done: what governs safety does not travel in a message of a user, and what is gone leaves."""

    @property
    def total(self) -> float:
        """What it costs over all that is expected of this session."""
        return self.once + self.calls * self.each


@frozen(eq=True)
class Quote:
    """What an edit costs, under each policy, and what would be done without one."""

    sections: tuple[str, ...]
    offers: tuple[Offer, ...]
    best: Policy | None
    """The cheapest that takes effect in this session; none where nothing differs."""


def quote(frozen: Frozen, wanted: Wanted, moment: Moment) -> Quote:
    """Quote what the differences between what a session knows and what is wanted would cost it."""
    told = replay(frozen.base, frozen.updates)
    changes = tuple(list_changes(told, frozen.base, wanted))
    outlook = look(frozen, wanted, moment)
    case = Case(
        frozen=frozen, wanted=wanted, told=told, changes=tuple(map(free, changes)), outlook=outlook, facts=moment.facts
    )
    if not changes:
        return Quote(sections=(), offers=(), best=None)
    rates = outlook.rates
    moved = weigh(case, min(change.block for change in changes))
    more = moved.base.tokens - frozen.base.tokens
    appended = sum(update.tokens for update in weigh(case, case.none).appended)
    waits = not any(change.private for change in changes)
    able = waits and (moment.facts.system_messages or not any(change.governs for change in changes))
    now = (moved.lost, more, moved.lost * (rates.write - rates.read) + more * rates.write, True)
    said = (0, appended, appended * rates.write, able)
    # What costs nothing is done at once, so where nothing can be lost these three are one act.
    behind, later = (said, (0, more, 0.0, waits)) if moved.lost else (now, now)
    amounts = (
        (Policy.NOW, *now),
        (Policy.APPEND, *behind),
        (Policy.COLD, *later),
        (Policy.NEXT_SESSION, 0, 0, 0.0, waits),
    )
    offers = tuple(
        Offer(
            policy=policy,
            again=again,
            more=more,
            once=once,
            each=more * rates.read,
            calls=outlook.further,
            usd=rates.usd,
            allowed=allowed,
        )
        for policy, again, more, once, allowed in amounts
    )
    best = min((one for one in offers[:2] if one.allowed), key=lambda one: one.total)
    return correct(
        Quote(sections=tuple(change.id for change in changes), offers=offers, best=best.policy), moment.known
    )


def narrow(frozen: Frozen, wanted: Wanted, sections: Collection[str]) -> Wanted:
    """Want only these sections to be otherwise: all others stay as the session was told, with the tools that it had."""
    told = replay(frozen.base, frozen.updates)
    stay = {name: line for name, line in told.items() if name not in sections}
    away = frozenset(line.id for line in wanted.base.lines if line.id not in sections and line.id not in told)
    return replace(
        wanted,
        base=rebuild(frozen.base, wanted.base, 0, stay, away),
        identity=replace(wanted.identity, tools=frozen.identity.tools),
    )


def correct(quote: Quote, known: Calibration) -> Quote:
    """Correct a quote by what the calls of its model have taught: the provider bills its own tokens, not ours."""
    if not known.calls:
        return quote
    offers = (
        replace(
            one,
            again=known.correct(one.again),
            more=known.scale(one.more),
            once=one.once * known.ratio,
            each=one.each * known.ratio,
        )
        for one in quote.offers
    )
    return replace(quote, offers=tuple(offers))


def scale(prices: Prices | None, known: Calibration) -> Prices | None:
    """Scale prices to what a token of ours costs, of which the provider bills more or fewer."""
    if prices is None or not known.calls:
        return prices
    return Prices(
        input=prices.input * known.ratio,
        cache_read=prices.cache_read * known.ratio,
        cache_write=prices.cache_write * known.ratio,
        cache_write_1h=prices.cache_write_1h * known.ratio,
        output=prices.output,
    )


def free(change: Change) -> Change:
    """Take its policy from a change, since all of them are asked for."""
    return Change(
        id=change.id, before=change.before, after=change.after, block=change.block, policy=Policy.AUTO,
        private=change.private,
    )  # fmt: skip
