"""Price an edit in advance: applied now, appended, when the cache is cold, or in the next session."""

from collections.abc import Collection
from dataclasses import replace

from foreword.assembly import Assembly
from foreword.promptcache.changes import WantedPrefix, list_changes, rebuild_prefix
from foreword.promptcache.decision import CacheContext, ChoiceInputs, assess_cache, cost_rebase
from foreword.promptcache.ledger import LedgerState, apply_updates
from foreword.promptcache.rules import Calibration
from foreword.tokens.models import Prices
from foreword.types import EditPolicy, frozen


@frozen(eq=True)
class PolicyCost:
    """The cost of an edit under one policy."""

    policy: EditPolicy
    again: int  # tokens billed again in the next call
    more: int  # tokens added to every further call; may be negative
    once: float  # extra cost of the next call
    each: float  # extra cost of each further call
    calls: int  # expected further calls of this session
    usd: bool  # whether costs are in US dollars; else in input tokens, if no price is known
    allowed: bool = True  # safety sections are not sent in a user message; withheld ones are removed at once

    @property
    def total(self) -> float:
        """Return the cost over all expected calls of this session."""
        return self.once + self.calls * self.each


@frozen(eq=True)
class EditQuote:
    """The cost of an edit under each policy, and the policy that `auto` would choose."""

    sections: tuple[str, ...]
    offers: tuple[PolicyCost, ...]
    best: EditPolicy | None  # the cheapest policy that takes effect in this session; None if nothing differs


def quote_edit(state: LedgerState, wanted: WantedPrefix, moment: CacheContext) -> EditQuote:
    """Price the differences between what a session knows and what the turn wants."""
    told = apply_updates(state.prefix, state.updates)
    changes = tuple(list_changes(told, state.prefix, wanted))
    status = assess_cache(state, wanted, moment)
    case = ChoiceInputs(
        state=state,
        wanted=wanted,
        told=told,
        changes=tuple(replace(change, policy=EditPolicy.AUTO, broken=False) for change in changes),  # all are priced
        status=status,
        facts=moment.facts,
    )
    if not changes:
        return EditQuote(sections=(), offers=(), best=None)
    rates, known = status.rates, moment.known
    moved = cost_rebase(case, min(change.block for change in changes))
    more = moved.prefix.tokens - state.prefix.tokens
    appended = sum(update.tokens for update in cost_rebase(case, case.none).appended)
    waits = not any(change.private for change in changes)
    able = waits and (moment.facts.system_messages or not any(change.governs for change in changes))
    now = (moved.lost, more, moved.lost * (rates.write - rates.read) + more * rates.write, True)
    # A free rebase is made at once, so the first three policies are equal if no cached token can be lost.
    behind = (0, appended, appended * rates.write, able) if moved.lost else now
    later = (0, more, 0.0, waits) if moved.lost else now
    amounts = {
        EditPolicy.NOW: now,
        EditPolicy.APPEND: behind,
        EditPolicy.COLD: later,
        EditPolicy.NEXT_SESSION: (0, 0, 0.0, waits),
    }
    offers = [
        PolicyCost(
            policy=policy,
            again=again,
            more=added,
            once=once,
            each=added * rates.read,
            calls=status.further,
            usd=rates.usd,
            allowed=allowed,
        )
        for policy, (again, added, once, allowed) in amounts.items()
    ]
    best = min((one for one in offers[:2] if one.allowed), key=lambda one: one.total).policy
    if known.calls:  # from our counts to billed tokens
        offers = [
            replace(
                one,
                again=known.correct(one.again),
                more=known.scale(one.more),
                once=one.once * known.ratio,
                each=one.each * known.ratio,
            )
            for one in offers
        ]
    return EditQuote(sections=tuple(change.id for change in changes), offers=tuple(offers), best=best)


def limit_to_sections(state: LedgerState, wanted: WantedPrefix, sections: Collection[str]) -> WantedPrefix:
    """Reduce the differences to these sections; all others, and the tools, stay as sent."""
    told = apply_updates(state.prefix, state.updates)
    stay = {name: line for name, line in told.items() if name not in sections}
    away = frozenset(line.id for line in wanted.prefix.lines if line.id not in sections and line.id not in told)
    return replace(
        wanted,
        prefix=rebuild_prefix(state.prefix, wanted.prefix, 0, stay, away),
        identity=replace(wanted.identity, tools=state.identity.tools),
    )


def calibrate_prices(prices: Prices | None, known: Calibration) -> Prices | None:
    """Scale prices to our token counts."""
    if prices is None or not known.calls:
        return prices
    return Prices(
        input=prices.input * known.ratio,
        cache_read=prices.cache_read * known.ratio,
        cache_write=prices.cache_write * known.ratio,
        cache_write_1h=prices.cache_write_1h * known.ratio,
        output=prices.output,
    )


@frozen(eq=True)
class Estimate:
    """US dollars for the input of one turn."""

    warm_usd: float  # the stable prefix is read from the cache
    cold_usd: float  # the stable prefix is written to the cache


def estimate(assembly: Assembly, prices: Prices) -> Estimate:
    """Estimate the input cost of a turn, with and without its stable prefix in the cache."""
    prefix = assembly.count_cached_tokens()
    message = assembly.meter.count(assembly.message)
    # The history follows the prefix and is cached with it.
    kept = prefix + assembly.conversation - message if prefix else 0
    rest = (assembly.used + assembly.conversation - kept) * prices.input
    return Estimate(warm_usd=kept * prices.cache_read + rest, cold_usd=kept * prices.cache_write + rest)
