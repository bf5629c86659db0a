"""The ledger as a stage: compare a turn's prompt with what its session has sent, without changing any state.

Append an update or rebase the prefix, by cost or because a rule requires it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from itertools import takewhile
from typing import Protocol

from foreword.engine.render import Prompt
from foreword.errors import InputError
from foreword.promptcache.changes import (
    HeldEntry,
    PromptDraft,
    SectionChange,
    WantedPrefix,
    append_to_tail,
    count_aligned_blocks,
    find_block,
    hold_entries,
    join_notices,
    list_changes,
    make_wanted_prefix,
    rebuild_prefix,
    write_settled_notice,
    write_update,
)
from foreword.promptcache.ledger import (
    ENGINE_RESTARTED,
    Action,
    ChangeDecision,
    LedgerState,
    Prefix,
    PrefixDecision,
    Reason,
    Rebase,
    SectionSnapshot,
    Update,
    UpdateChannel,
    apply_updates,
    count_warm_tokens,
    hash_history,
    is_lost,
    list_stable_blocks,
    render_blocks,
)
from foreword.promptcache.rules import NO_CALIBRATION, Calibration
from foreword.tokens.models import CacheFacts, Prices, format_usd
from foreword.types import EditPolicy, frozen

MIN_EXPECTED_CALLS = 8  # expected further calls of a new session; later, as many as it has made


@frozen(eq=True)
class TokenRates:
    """Token rates in US dollars, or relative to an input token if no price is known."""

    read: float
    write: float
    input: float
    long: float  # cache write with the provider's longest TTL
    usd: bool


def find_token_rates(facts: CacheFacts, prices: Prices | None) -> TokenRates:
    """Return the token rates: from the prices, or from the provider's factors if prices are unknown."""
    if prices is None or prices.input == 0:
        return TokenRates(read=facts.read, write=facts.usual.write, input=1.0, long=facts.lives[-1].write, usd=False)
    return TokenRates(
        read=prices.cache_read, write=prices.cache_write, input=prices.input, long=prices.cache_write_1h, usd=True
    )


def count_common_tokens(before: Prefix, after: Prefix, facts: CacheFacts) -> int:
    """Count the tokens of the common prefix that a cache can read."""
    equal = 0
    for old, new in zip(before.blocks, after.blocks, strict=False):
        if old == new or "".join(line.piece for line in old) == "".join(line.piece for line in new):
            equal += sum(line.tokens for line in old)
            continue
        pairs = (
            () if facts.marked else takewhile(lambda pair: pair[0].piece == pair[1].piece, zip(old, new, strict=False))
        )
        return equal + sum(was.tokens for was, _ in pairs)
    return equal


def find_difference(before: Prefix, after: Prefix) -> tuple[str, int] | None:
    """Find the first differing section and the first differing byte of the whole text."""
    old, new = (prefix.text.encode("utf-8", "surrogatepass") for prefix in (before, after))
    return None if old == new else (find_changed_section(before, after), find_first_difference(old, new))


def find_first_difference(old: bytes, new: bytes) -> int:
    """Find the first differing byte of two texts, or the end of the shorter one."""
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if old[:middle] == new[:middle] else (low, middle - 1)
    return low


def find_changed_section(before: Prefix, after: Prefix) -> str:
    """Find the section that causes a difference: removed, added, moved or changed."""
    was, now = list(before.lines), list(after.lines)
    stay = {line.id for line in now}
    for old, new in zip(was, now, strict=False):
        if (old.id, old.piece) != (new.id, new.piece):
            return old.id if old.id not in stay else new.id
    return (was[len(now) :] or now[len(was) :])[0].id


MIN_UPDATE_LIMIT_TOKENS = 2_000  # tokens of updates that are always allowed
PRIVATE_REASON = "visibility changed; withheld content leaves no trace"  # does not name the section
MAX_UPDATE_SHARE = 0.1  # of the cached tokens: the limit for updates if it is above the minimum limit


@frozen(eq=True)
class CacheContext:
    """The time of a comparison, with the cache rules and prices that apply."""

    now: datetime
    facts: CacheFacts
    prices: Prices | None = None
    known: Calibration = NO_CALIBRATION  # the model's calibration; it corrects the reported figures, never the decision


@frozen(eq=True)
class CacheStatus:
    """The state of the cache: warm tokens, the reason if not all are warm, and the token rates."""

    warm: int  # tokens of the last request that are still cached
    code: Reason | None  # why not all of it is warm, if so
    reason: str
    rates: TokenRates
    further: int
    most: int  # maximum tokens of all updates
    known: Calibration = NO_CALIBRATION


def assess_cache(state: LedgerState, wanted: WantedPrefix, moment: CacheContext) -> CacheStatus:
    """Assess the state of the cache."""
    warm, code, reason = find_warm_tokens(state, wanted, moment)
    return CacheStatus(
        warm=warm,
        code=code,
        reason=reason,
        rates=find_token_rates(moment.facts, moment.prices),
        further=max(MIN_EXPECTED_CALLS, state.calls),
        most=max(MIN_UPDATE_LIMIT_TOKENS, int(state.last.tokens * MAX_UPDATE_SHARE)),
        known=moment.known,
    )


def find_warm_tokens(state: LedgerState, wanted: WantedPrefix, moment: CacheContext) -> tuple[int, Reason | None, str]:
    """Return how many tokens of the last request are still cached, and why not all."""
    facts, last = moment.facts, state.last
    warm = count_warm_tokens(state, moment.now, facts)
    was, now = state.identity, wanted.identity
    if was.model != now.model:
        return 0, Reason.MODEL, f"the model is {now.model} instead of {was.model}; models do not share a cache"
    system = last.measure("system")
    if was.tools != now.tools:
        before = 0 if facts.order[0] == "tools" else min(warm, system)
        return before, Reason.TOOLS, "the tools changed, and they precede all messages"
    if (
        wanted.compacted
        or not state.history.is_start_of(wanted.said)
        or not all(map(wanted.contains_update, state.updates))
    ):
        stays = min(warm, system + last.measure("tools"))
        return stays, Reason.COMPACTED, "what was said before is not what was sent, so it is sent anew"
    if not last.pieces:
        return 0, Reason.COLD, "the ledger was emptied by an erasure"
    if not warm:
        if last.tokens < facts.minimum:
            why = f"{last.tokens:,} tokens are below the cache minimum"
        elif is_lost(state):
            why = ENGINE_RESTARTED
        elif state.alive:
            why = f"idle for {(moment.now - last.at).total_seconds() / 60:,.0f} min"
        else:
            why = "no sent prefix is cached"
        return 0, Reason.COLD, f"the cache is cold: {why}"
    return warm, None, ""


@frozen(eq=True)
class RebaseChoice:
    """A candidate: the block from which the prefix is rebuilt, and the result for each change."""

    start: int
    prefix: Prefix
    lost: int  # tokens billed again
    cost: float
    held: frozenset[str]
    appended: tuple[Update, ...]
    kept: tuple[Update, ...]  # earlier updates that still apply
    settled: tuple[Update, ...]  # earlier updates that the prefix now contains

    @property
    def weight(self) -> int:
        """Return the tokens of all updates."""
        return sum(update.tokens for update in (*self.kept, *self.appended))


@frozen
class ChoiceInputs:
    """The inputs of a choice."""

    state: LedgerState
    wanted: WantedPrefix
    told: Mapping[str, SectionSnapshot]
    changes: Sequence[SectionChange]
    status: CacheStatus
    facts: CacheFacts

    @property
    def gone(self) -> frozenset[str]:
        """The sections that must leave no trace."""
        return self.wanted.withheld | {change.id for change in self.changes if change.private}

    @property
    def none(self) -> int:
        """The start value that leaves the whole prefix unchanged."""
        return max(count_aligned_blocks(self.state.prefix, self.wanted.prefix), len(self.state.prefix.blocks)) + 1

    def locate(self, update: Update) -> int:
        """Find the block of the section an update is about."""
        lines = {line.id: line for line in (*self.wanted.prefix.lines, *self.state.prefix.lines)}
        line = lines.get(update.id) or update.line
        return find_block(line, self.state.prefix, self.wanted.prefix) if line else 0


def list_forced_rebases(case: ChoiceInputs) -> Iterator[tuple[int, Reason, str]]:
    """List the blocks from which the prefix must be rebuilt regardless of cost, with reasons."""
    for change in case.changes:
        if change.private:
            yield change.block, Reason.PRIVATE, PRIVATE_REASON
        elif change.policy in (EditPolicy.COLD, EditPolicy.NEXT_SESSION):
            continue
        elif change.policy is EditPolicy.NOW:
            yield change.block, Reason.ORDERED, f"the edit of {change.id} applies now"
        elif change.governs and not case.facts.system_messages:
            yield change.block, Reason.GOVERNING, f"{change.id} governs safety and may not be sent in a user message"
    if case.status.code is Reason.COMPACTED:
        for update in case.state.updates:
            yield case.locate(update), Reason.COMPACTED, case.status.reason
    for update in case.state.updates:
        if update.id in case.gone:
            yield case.locate(update), Reason.PRIVATE, PRIVATE_REASON


def choose_rebase(case: ChoiceInputs) -> tuple[RebaseChoice, Reason | None, str]:
    """Choose the cheapest allowed candidate; at equal cost the one with fewer updates."""
    forced = sorted(list_forced_rebases(case), key=lambda one: (one[0], list(Reason).index(one[1])))
    latest = min((start for start, _, _ in forced), default=case.none)
    starts = {latest, case.none, 0, *(change.block for change in case.changes)}
    weighed = [cost_rebase(case, start) for start in sorted(starts) if start <= latest]
    # Free rebases are always made: they bring the prefix up to date and apply held changes.
    free = next(at for at, one in enumerate(weighed, 1) if not one.lost or one is weighed[-1])
    weighed = weighed[:free]
    auto = {change.block for change in case.changes if change.policy is EditPolicy.AUTO}
    allowed = [
        one
        for one in weighed
        if (one.start in (latest, case.none) or not one.lost or one.start in auto) and one.weight <= case.status.most
    ]
    best = min(allowed or weighed[:1], key=lambda one: (one.cost, one.start))
    return (best, *explain_choice(case, best, weighed, forced))


def cost_rebase(case: ChoiceInputs, start: int) -> RebaseChoice:
    """Compute the cost of rebuilding the prefix from a block on and appending the other changes."""
    held = frozenset(
        change.id
        for change in case.changes
        if change.policy is EditPolicy.NEXT_SESSION or (change.policy is EditPolicy.COLD and change.block < start)
        if not change.private
    )
    prefix, status = case.state.prefix, case.status
    here = {change.id: case.told[change.id] for change in case.changes if change.id in held and change.before
            if change.block >= start}  # fmt: skip
    away = frozenset(held - set(here))
    built = prefix if start >= case.none else rebuild_prefix(prefix, case.wanted.prefix, start, here, away)
    inserts = case.facts.system_messages  # for sections that govern safety
    appended = tuple(
        write_update(
            case.wanted.layout,
            change.before,
            change.after,
            UpdateChannel.SYSTEM if change.governs and inserts else UpdateChannel.TAIL,
        )
        for change in case.changes
        if change.block < start and change.id not in held and not change.private
    )
    kept = tuple(update for update in case.state.updates if case.locate(update) < start)
    before = case.state.last.measure("tools") if case.facts.order[0] == "tools" else 0
    same = built.text == prefix.text
    lost = 0 if same else max(0, status.warm - before - count_common_tokens(prefix, built, case.facts))
    lasting = built.tokens - prefix.tokens + sum(update.tokens for update in appended)
    rates = status.rates  # lasting tokens are written once and read in every further call
    return RebaseChoice(
        start=start,
        prefix=built,
        lost=lost,
        cost=lost * (rates.write - rates.read) + lasting * (rates.write + status.further * rates.read),
        held=held,
        appended=appended,
        kept=kept,
        settled=tuple(update for update in case.state.updates if update not in kept),
    )


def explain_choice(
    case: ChoiceInputs, best: RebaseChoice, weighed: Sequence[RebaseChoice], forced: Sequence[tuple[int, Reason, str]]
) -> tuple[Reason | None, str]:
    """Explain the choice: the reason for a rebase, or the cost comparison without one."""
    status = case.status
    private = next((one for one in forced if one[1] is Reason.PRIVATE), None)
    if private:
        return private[1], private[2]
    ours = f"{format_cost(best, status)} with {status.further} further calls"
    if best.start >= case.none:
        other = min((one for one in weighed if one.start < case.none), key=lambda one: one.cost, default=None)
        return None, f"{ours}, moving the prefix would cost {format_cost(other, status)}" if other else ""
    if not best.lost:
        return status.code or Reason.COLD, status.reason or "the rest is no longer cached"
    if forced and forced[0][0] == best.start:
        return forced[0][1], forced[0][2]
    behind = next(one for one in weighed if one.start == max(one.start for one in weighed))
    if behind.weight > status.most:
        crowded = f"updates would take {behind.weight:,} tokens by our count, more than {status.most:,}"
        return Reason.CROWDED, crowded
    return Reason.CHEAPER, f"{ours}, updates would cost {format_cost(behind, status)}"


def format_cost(choice: RebaseChoice, status: CacheStatus) -> str:
    """Format the cost of a choice as billed, in US dollars or input tokens."""
    cost = choice.cost * status.known.factor
    return format_usd(max(0.0, cost)) if status.rates.usd else f"{cost:,.0f} input tokens"


MAX_SETTLED_UPDATES = 500  # superseded updates that the history may still contain
RESUMED_REASON = "waits for the next turn: this one resumes after an interruption"
BROKEN_REASON = "its file is broken, so the session keeps the earlier text"
DAMAGED_REASON = (
    "the session's ledger could not be read: history rewritten without earlier updates, everything sent again"
)
UNCHANGED_REASON = "the prefix is identical, byte for byte"
# These invalidate the cache even if the prefix is unchanged.
INVALIDATING_REASONS = (Reason.MODEL, Reason.TOOLS, Reason.COMPACTED)


def decide_prefix(state: LedgerState | None, wanted: WantedPrefix, moment: CacheContext) -> PrefixDecision:
    """Decide what to do about each section that differs from what the session has sent."""
    if state is None:
        return PrefixDecision(
            prompt=wanted.prompt, prefix=wanted.prefix, identity=wanted.identity, history=hash_history(wanted.said)
        )
    if state.identity.clearance != wanted.identity.clearance:
        was, now = state.identity.clearance, wanted.identity.clearance
        raise InputError(f"a session's clearance cannot change: the session has {was}, the turn {now}")
    told, status = apply_updates(state.prefix, state.updates), assess_cache(state, wanted, moment)
    wanted, waiting = hold_entries(told, wanted, warm=status.warm > 0)
    changes = tuple(list_changes(told, state.prefix, wanted))
    case = ChoiceInputs(state=state, wanted=wanted, told=told, changes=changes, status=status, facts=moment.facts)
    choice, code, reason = choose_rebase(case)
    if list_withheld_updates(case):  # the history is rewritten in any case
        code, reason = Reason.PRIVATE, PRIVATE_REASON
    decision = make_decision(case, choice, find_rebase(case, choice, code, reason), reason)
    return add_held_entries(decision, waiting) if waiting else decision


def add_held_entries(decision: PrefixDecision, waiting: Sequence[HeldEntry]) -> PrefixDecision:
    """Add a decision for each menu entry that is held."""
    whys = [f"{one.path} {describe_hold(one.policy)}" for one in waiting]
    held = tuple(
        ChangeDecision(section=one.section, what=one.what, action=Action.HOLD, reason=why, policy=one.policy)
        for one, why in zip(waiting, whys, strict=True)
    )
    reason = decision.reason if decision.decisions or decision.rebase else held[0].reason
    return replace(decision, decisions=(*decision.decisions, *held), reason=reason)


def find_rebase(case: ChoiceInputs, choice: RebaseChoice, code: Reason | None, reason: str) -> Rebase | None:
    """Find where the prefix changes, if it does, and what that costs."""
    moved, status = find_difference(case.state.prefix, choice.prefix), case.status
    if moved is None and code is not Reason.PRIVATE:
        code, reason = (status.code, status.reason) if status.code in INVALIDATING_REASONS else (None, "")
    if code is None:
        return None
    section, byte = moved or ("", len(case.state.prefix.text.encode("utf-8", "surrogatepass")))
    known, rates = status.known, status.rates
    usd = choice.lost * known.factor * (rates.write - rates.read) if rates.usd else None
    tokens = known.correct(choice.lost)
    return Rebase(code=code, reason=reason, section=section, byte=byte, tokens=tokens, usd=usd)


def make_decision(case: ChoiceInputs, choice: RebaseChoice, rebase: Rebase | None, reason: str) -> PrefixDecision:
    """Build the prefix decision for a choice."""
    wanted, state, layout = case.wanted, case.state, case.wanted.layout
    gone = list_withheld_updates(case)
    settled = tuple(update for update in choice.settled if update not in gone)
    notice = write_settled_notice(layout, filter(wanted.contains_update, settled))
    decisions = tuple(list_decisions(case, choice, rebase, reason))
    kept = decisions[0].reason if decisions else UNCHANGED_REASON
    if any(one.action is Action.APPEND for one in decisions):
        kept = reason
    tail, inserted = (
        [update for update in choice.appended if update.channel is channel]
        for channel in (UpdateChannel.TAIL, UpdateChannel.SYSTEM)
    )
    rest = wanted.prompt.blocks[len(list_stable_blocks(wanted.prompt.blocks)) :]
    prompt = Prompt(blocks=(*render_blocks(choice.prefix), *rest))
    return PrefixDecision(
        prompt=append_to_tail(prompt, layout, join_notices(layout, tail, notice)),
        prefix=choice.prefix,
        identity=wanted.identity,
        reason=rebase.reason if rebase else kept,
        decisions=decisions,
        rebase=rebase,
        new=choice.appended,
        updates=(*choice.kept, *choice.appended),
        settled=tuple(one for one in (*state.settled, *settled) if one not in gone)[-MAX_SETTLED_UPDATES:],
        notice=notice,
        scrub=tuple(sorted((update.said for update in gone), key=len, reverse=True)),
        history=hash_history(wanted.said),
        inserted=join_notices(layout, inserted, ""),
    )


def list_withheld_updates(case: ChoiceInputs) -> tuple[Update, ...]:
    """List the updates that must leave no trace."""
    return tuple(update for update in (*case.state.settled, *case.state.updates) if update.id in case.gone)


def list_decisions(
    case: ChoiceInputs, choice: RebaseChoice, rebase: Rebase | None, reason: str
) -> Iterator[ChangeDecision]:
    """Return the decision for each change."""
    said = {update.id: update for update in choice.appended}
    for change in case.changes:
        if change.id in choice.held:
            broken = BROKEN_REASON if change.broken else describe_hold(change.policy)
            action, why = Action.HOLD, RESUMED_REASON if case.wanted.waits else broken
        elif change.id in said:
            action, why = Action.APPEND, f"its block is unchanged, although {rebase.reason}" if rebase else reason
        else:
            action, why = Action.REBASE, rebase.reason if rebase else UNCHANGED_REASON
        tokens = case.status.known.correct(said[change.id].tokens) if change.id in said else 0
        yield ChangeDecision(
            section=change.id, what=change.what, action=action, reason=why, policy=change.policy, tokens=tokens
        )


def describe_hold(policy: EditPolicy) -> str:
    """Describe how long a change is held."""
    until = "for the next session" if policy is EditPolicy.NEXT_SESSION else "until the cache is cold"
    return f"waits {until} (policy)"


class Ledger(Protocol):
    """Compares a prompt with what its session has sent, without side effects."""

    def compare(self, draft: PromptDraft) -> PrefixDecision:
        """Return the prefix decision for a draft."""
        ...


class NoLedger:
    """The ledger of a turn without a session."""

    def compare(self, draft: PromptDraft) -> PrefixDecision:
        """Return the draft unchanged."""
        return PrefixDecision(prompt=draft.prompt)


@frozen
class SessionLedger:
    """The ledger of one session, opened for one turn."""

    state: LedgerState | None  # the ledger state; None before the first turn
    moment: CacheContext
    edits: Mapping[tuple[str, str], EditPolicy] = field(default_factory=dict)  # by file path and SHA-256 of the text
    compacted: bool = False  # whether the history was compacted since the last turn
    damaged: bool = False  # whether the stored ledger could not be read
    taken: tuple[str, ...] = ()  # texts this turn has sent before an interruption; then no updates can be added

    def compare(self, draft: PromptDraft) -> PrefixDecision:
        """Compare a prompt with the ledger."""
        wanted = make_wanted_prefix(draft, self.edits, compacted=self.compacted)
        if self.taken:
            wanted = replace(wanted, said=(*wanted.said, *self.taken), waits=True)
        made = decide_prefix(None if self.damaged else self.state, wanted, self.moment)
        if not self.damaged:
            return made
        rebase = Rebase(code=Reason.DAMAGED, reason=DAMAGED_REASON, section="", byte=0, tokens=0)
        return replace(made, reason=DAMAGED_REASON, rebase=rebase)


NO_LEDGER: Ledger = NoLedger()
