"""The choice between saying a change behind the prefix and moving the prefix, by price or because it must be."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from foreword.frozen import frozen
from foreword.ledger.calibration import PLAIN, Calibration
from foreword.ledger.change import Change, align, find_block, rebuild
from foreword.ledger.cost import Rates, expect_calls, find_rates, measure_equal
from foreword.ledger.line import Base, Channel, Line, Update
from foreword.ledger.notice import notify
from foreword.ledger.standing import Ground
from foreword.ledger.state import ANEW, Frozen, continues, find_idle, is_lost, measure_warm
from foreword.ledger.wanted import Wanted
from foreword.money import Prices, show_usd
from foreword.tokens.caches import CacheFacts
from foreword.words import Policy

CROWDED = 2_000  # tokens of updates that may always stand beside a base
HIDDEN = "what may be seen here has changed, and what may not leaves no trace"  # which section that is, is not said
SHARE = 0.1  # of what is cached: the most that updates may weigh where that is more


@frozen(eq=True)
class Moment:
    """When a comparison is made, and what holds for the provider's cache and its prices then."""

    now: datetime
    facts: CacheFacts
    prices: Prices | None = None
    known: Calibration = PLAIN
    """What was learned of the model's tokens: it corrects what is told of a decision, and never the decision."""


@frozen(eq=True)
class Outlook:
    """What is left of the cache, why not more, and what tokens cost."""

    warm: int
    """Tokens of the last request that could be read again."""
    ground: Ground | None
    """Why that is not all of it, if it is not."""
    reason: str
    rates: Rates
    further: int
    most: int
    """Tokens that updates may weigh together."""
    known: Calibration = PLAIN

    @property
    def lasting(self) -> float:
        """What a token costs that is written once and read in every further call."""
        return self.rates.write + self.further * self.rates.read


def look(frozen: Frozen, wanted: Wanted, moment: Moment) -> Outlook:
    """Look at what is left of the cache."""
    warm, ground, reason = find_warm(frozen, wanted, moment)
    return Outlook(
        warm=warm,
        ground=ground,
        reason=reason,
        rates=find_rates(moment.facts, moment.prices),
        further=expect_calls(frozen),
        most=max(CROWDED, int(frozen.last.tokens * SHARE)),
        known=moment.known,
    )


def find_warm(frozen: Frozen, wanted: Wanted, moment: Moment) -> tuple[int, Ground | None, str]:
    """Find how much of the last request could be read again, and why not all of it."""
    facts, last = moment.facts, frozen.last
    warm = measure_warm(frozen, moment.now, facts)
    was, now = frozen.identity, wanted.identity
    if was.model != now.model:
        return 0, Ground.MODEL, f"the model is {now.model} instead of {was.model}, and each has a cache of its own"
    system = last.measure("system")
    if was.tools != now.tools:
        before = 0 if facts.order[0] == "tools" else min(warm, system)
        return before, Ground.TOOLS, "the tools are others, and they stand before everything that was said"
    if wanted.folded or not continues(frozen.heard, wanted.said) or not all(map(wanted.heard_of, frozen.updates)):
        stays = min(warm, system + last.measure("tools"))
        return stays, Ground.COMPACTED, "what was said before is not what was sent, so it is sent anew"
    if not last.pieces:
        return 0, Ground.COLD, "the ledger was emptied, since something was forgotten"
    if not warm:
        minutes = find_idle(frozen, moment.now).total_seconds() / 60
        short = last.tokens < facts.minimum
        why = f"nothing was sent for {minutes:,.0f} min" if frozen.alive else "nothing that was sent is kept"
        why = ANEW if is_lost(frozen) else why
        why = f"{last.tokens:,} tokens are too few to be cached" if short else why
        return 0, Ground.COLD, f"the cache is cold: {why}"
    return warm, None, ""


@frozen(eq=True)
class Choice:
    """From which block on the base is built anew, and what becomes of each change."""

    start: int
    base: Base
    lost: int
    """Tokens that are billed again because of it."""
    cost: float
    held: frozenset[str]
    appended: tuple[Update, ...]
    kept: tuple[Update, ...]
    """Earlier updates that still count."""
    settled: tuple[Update, ...]
    """Earlier updates that the base holds now."""

    @property
    def weight(self) -> int:
        """What updates weigh together after it."""
        return sum(update.tokens for update in (*self.kept, *self.appended))


@frozen
class Case:
    """All that a choice is made of."""

    frozen: Frozen
    wanted: Wanted
    told: Mapping[str, Line]
    changes: Sequence[Change]
    outlook: Outlook
    facts: CacheFacts

    @property
    def gone(self) -> frozenset[str]:
        """The sections of which no trace may stay."""
        return self.wanted.withheld | {change.id for change in self.changes if change.private}

    @property
    def none(self) -> int:
        """The start of a choice that leaves the whole base as it is."""
        return max(align(self.frozen.base, self.wanted.base), len(self.frozen.base.blocks)) + 1

    def locate(self, update: Update) -> int:
        """Find the block of the section that an update is about."""
        lines = {line.id: line for line in (*self.wanted.base.lines, *self.frozen.base.lines)}
        line = lines.get(update.id) or update.line
        return find_block(line, self.frozen.base, self.wanted.base) if line else 0


def force(case: Case) -> Iterator[tuple[int, Ground, str]]:
    """List from where the base must be built anew, whatever that costs, and why."""
    for change in case.changes:
        if change.private:
            yield change.block, Ground.PRIVATE, HIDDEN
        elif change.policy in (Policy.COLD, Policy.NEXT_SESSION):
            continue
        elif change.policy is Policy.NOW:
            yield change.block, Ground.ORDERED, f"an edit of {change.id} is to apply now"
        elif change.governs and not case.facts.system_messages:
            yield change.block, Ground.GOVERNING, f"{change.id} governs safety, and never travels in a user's message"
    if case.outlook.ground is Ground.COMPACTED:
        for update in case.frozen.updates:
            yield case.locate(update), Ground.COMPACTED, case.outlook.reason
    for update in case.frozen.updates:
        if update.id in case.gone:
            yield case.locate(update), Ground.PRIVATE, HIDDEN


def choose(case: Case) -> tuple[Choice, Ground | None, str]:
    """Choose the cheapest of what is allowed; of two that cost the same, the one that leaves fewer updates."""
    forced = sorted(force(case), key=lambda one: (one[0], list(Ground).index(one[1])))
    latest = min((start for start, _, _ in forced), default=case.none)
    starts = {latest, case.none, 0, *(change.block for change in case.changes)}
    weighed = [weigh(case, start) for start in sorted(starts) if start <= latest]
    # What costs nothing is done, so that the base is up to date and what waited for it waits no longer.
    free = next(at for at, one in enumerate(weighed, 1) if not one.lost or one is weighed[-1])
    weighed = weighed[:free]
    auto = {change.block for change in case.changes if change.policy is Policy.AUTO}
    allowed = [
        one
        for one in weighed
        if (one.start in (latest, case.none) or not one.lost or one.start in auto) and one.weight <= case.outlook.most
    ]
    best = min(allowed or weighed[:1], key=lambda one: (one.cost, one.start))
    return (best, *explain(case, best, weighed, forced))


def weigh(case: Case, start: int) -> Choice:
    """Weigh what it costs to build the base anew from a block on and to say the rest behind it."""
    held = frozenset(
        change.id
        for change in case.changes
        if change.policy is Policy.NEXT_SESSION or (change.policy is Policy.COLD and change.block < start)
        if not change.private
    )
    base, outlook = case.frozen.base, case.outlook
    here = {change.id: case.told[change.id] for change in case.changes if change.id in held and change.before
            if change.block >= start}  # fmt: skip
    away = frozenset(held - set(here))
    built = base if start >= case.none else rebuild(base, case.wanted.base, start, here, away)
    appended = tuple(
        notify(case.wanted.layout, change.before, change.after, find_channel(change, case.facts))
        for change in case.changes
        if change.block < start and change.id not in held and not change.private
    )
    kept = tuple(update for update in case.frozen.updates if case.locate(update) < start)
    before = case.frozen.last.measure("tools") if case.facts.order[0] == "tools" else 0
    same = built.text == base.text
    lost = 0 if same else max(0, outlook.warm - before - measure_equal(base, built, case.facts))
    lasting = built.tokens - base.tokens + sum(update.tokens for update in appended)
    return Choice(
        start=start,
        base=built,
        lost=lost,
        cost=lost * (outlook.rates.write - outlook.rates.read) + lasting * outlook.lasting,
        held=held,
        appended=appended,
        kept=kept,
        settled=tuple(update for update in case.frozen.updates if update not in kept),
    )


def find_channel(change: Change, facts: CacheFacts) -> Channel:
    """Find how an update travels: what governs safety goes as a system message, everything else with the message."""
    return Channel.SYSTEM if change.governs and facts.system_messages else Channel.TAIL


def explain(
    case: Case, best: Choice, weighed: Sequence[Choice], forced: Sequence[tuple[int, Ground, str]]
) -> tuple[Ground | None, str]:
    """Say why this was chosen: the ground of a rebase, or the price at which there was none."""
    outlook = case.outlook
    private = next((one for one in forced if one[1] is Ground.PRIVATE), None)
    if private:
        return private[1], private[2]
    if best.start >= case.none:
        other = min((one for one in weighed if one.start < case.none), key=lambda one: one.cost, default=None)
        return None, f"{show(best, outlook)}, moving the prefix would cost {show_cost(other, outlook)}" if other else ""
    if not best.lost:
        return outlook.ground or Ground.COLD, outlook.reason or "what follows is not in the cache any more"
    if forced and forced[0][0] == best.start:
        return forced[0][1], forced[0][2]
    behind = next(one for one in weighed if one.start == max(one.start for one in weighed))
    if behind.weight > outlook.most:
        return (
            Ground.CROWDED,
            f"updates would weigh {behind.weight:,} tokens by our count, more than {outlook.most:,}",
        )
    return Ground.CHEAPER, f"{show(best, outlook)}, updates would cost {show_cost(behind, outlook)}"


def show(choice: Choice, outlook: Outlook) -> str:
    """Show what a choice costs, over how many calls."""
    return f"{show_cost(choice, outlook)} with {outlook.further} further calls"


def show_cost(choice: Choice, outlook: Outlook) -> str:
    """Show what a choice costs, in money or in tokens of input, as the provider bills them."""
    cost = choice.cost * outlook.known.factor
    return show_usd(max(0.0, cost)) if outlook.rates.usd else f"{cost:,.0f} tokens of input"
