"""Simulation of sessions: each design's requests against a provider's cache rules and prices.

The oracle is our design with knowledge of the future: a beam search over whole sessions, in which each edit left to the
ledger may be appended or rebased, and each request may be cached with any TTL or not at all. It obeys the owner's
policies.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product

from foreword.config.schema import ModelOverride
from foreword.engine.render import Prompt
from foreword.promptcache.cache_usage import (
    AnsweredRequest,
    Blame,
    CacheAccount,
    Cause,
    account_for_call,
    place_breakpoints,
)
from foreword.promptcache.decision import find_first_difference, find_token_rates
from foreword.promptcache.designs import (
    Design,
    LedgerDesign,
    OneStringDesign,
    ScenarioStage,
    SessionCall,
    SimulatedModel,
    SplitDesign,
    list_calls,
    make_simulated_model,
    make_stage,
)
from foreword.promptcache.ledger import (
    CacheIdentity,
    LedgerState,
    Prefix,
    PrefixDecision,
    SentRequest,
    advance_ledger,
    find_part,
    make_sent_blocks,
)
from foreword.promptcache.rules import CacheBlock, CacheUsage, PrefixCache
from foreword.promptcache.scenario import Scenario
from foreword.tokens.models import CacheFacts, Prices, find_model, find_prices
from foreword.types import EditPolicy, frozen

CAUSE_PARTS = {Cause.SECTION: "system", Cause.TOOLS: "tools", Cause.HISTORY: "messages"}
EMPTY_PROMPT = Prompt(blocks=())
MAX_HEADING_CHARS = 60  # characters of a displayed heading
SYSTEM_CHANGED_REASON = "the system part changed, and it precedes the messages"


@frozen
class SimulatedRequest:
    """A request with the cache rules and prices that apply to it."""

    at: datetime
    model: str
    blocks: tuple[CacheBlock, ...]
    facts: CacheFacts
    prices: Prices | None
    count: Callable[[str], int]
    prefix: Prefix | None = None  # the sections of its system part, if known


def account_for_session(asked: Sequence[SimulatedRequest], used: Sequence[CacheUsage]) -> list[CacheAccount]:
    """Account for the requests of one session, each compared with the previous one."""
    accounts: list[CacheAccount] = []
    state: LedgerState | None = None
    for at, (one, counted) in enumerate(zip(asked, used, strict=True)):
        sent = SentRequest(model=one.model, pieces=make_sent_blocks(one.blocks, one.facts, one.count), at=one.at)
        prefix = one.prefix or Prefix()
        found = account_for_call(
            state, AnsweredRequest(prefix=prefix, sent=sent, reported=counted), one.facts, one.prices
        )
        if found.blame and one.prefix is None:
            found = replace(found, blame=locate_difference(found.blame, asked[at - 1].blocks, one.blocks))
        accounts.append(found)
        state = advance_without_ledger(state, sent, one.facts, prefix)
    return accounts


def advance_without_ledger(
    state: LedgerState | None,
    sent: SentRequest,
    facts: CacheFacts,
    prefix: Prefix = Prefix(),  # noqa: B008 - frozen
) -> LedgerState:
    """Return the state after a request that no ledger decided."""
    decision = PrefixDecision(prompt=EMPTY_PROMPT, prefix=prefix, identity=CacheIdentity(model=sent.model))
    return advance_ledger(state, decision, sent, facts)


def locate_difference(blame: Blame, before: Sequence[CacheBlock], after: Sequence[CacheBlock]) -> Blame:
    """Find the exact byte and the heading above it when only texts are known, not sections."""
    part = CAUSE_PARTS.get(blame.cause)
    if part is None:
        return blame
    old, new = ([block for block in blocks if find_part(block.name) == part] for blocks in (before, after))
    start = 0
    for at, was in enumerate(old):
        now = new[at] if at < len(new) else None
        if now and now.key == was.key:
            start += len(was.text.encode())
            continue
        inside = find_first_difference(was.text.encode(), now.text.encode()) if now else 0
        heading = find_heading(was.text.encode(), inside) if part == "system" else ""
        reason = SYSTEM_CHANGED_REASON if part == "system" else blame.reason
        return replace(blame, byte=start + inside, where=heading or blame.where, reason=reason)
    return blame


def find_heading(text: bytes, byte: int) -> str:
    """Find the heading at or above a byte of a text."""
    end = text.find(b"\n", byte)
    lines = text[: end if end >= 0 else len(text)].decode(errors="ignore").split("\n")
    headings = (line.lstrip("#").strip() for line in reversed(lines) if line.startswith("#"))
    return next((heading[:MAX_HEADING_CHARS] for heading in headings if heading), "")


@frozen(eq=True)
class SimulationResult:
    """The tokens and the cost of a session's requests."""

    calls: tuple[CacheUsage, ...]
    usd: float | None
    weight: float  # the cost in input tokens, by the provider's factors; for free models, the evaluated tokens

    @property
    def cost(self) -> float:
        """Return the cost in US dollars, or in input tokens without prices."""
        return self.usd or self.weight

    @property
    def total(self) -> int:
        """All input tokens."""
        return sum(call.total for call in self.calls)

    @property
    def share(self) -> float:
        """Return the share of the input read from the cache."""
        return sum(call.read for call in self.calls) / self.total if self.total else 0.0


class SimulatedClock:
    """A clock that is set manually."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        """Return the time."""
        return self.now


def list_requests(design: Design, calls: Sequence[SessionCall], service: SimulatedModel) -> list[SimulatedRequest]:
    """Write the requests of all calls of a session."""
    return [
        SimulatedRequest(
            at=call.at,
            model=service.model.name,
            blocks=tuple(design.write(call)),
            facts=service.cache,
            prices=service.prices,
            count=service.meter.count,
            prefix=design.decision.prefix if isinstance(design, LedgerDesign) and design.decision else None,
        )
        for call in calls
    ]


def count_requests(asked: Sequence[SimulatedRequest]) -> list[CacheUsage]:
    """Send requests to the simulated caches of their models, in order."""
    clock = SimulatedClock(datetime.min.replace(tzinfo=UTC))
    caches: dict[str, PrefixCache] = {}
    counted = []
    for one in asked:
        clock.now = one.at
        cache = caches.setdefault(one.model, PrefixCache(clock, one.count))
        counted.append(cache.use(one.model, one.blocks, one.facts))
    return counted


def run_design(design: Design, calls: Sequence[SessionCall], service: SimulatedModel) -> SimulationResult:
    """Send all calls of a session to a provider's cache."""
    return compute_cost(count_requests(list_requests(design, calls, service)), service)


def compute_cost(counted: Sequence[CacheUsage], service: SimulatedModel) -> SimulationResult:
    """Compute the cost of token counts."""
    prices = service.prices
    usd = None if prices is None else sum(price_usage(each, prices) for each in counted)
    return SimulationResult(
        calls=tuple(counted), usd=usd, weight=sum(weigh_usage(each, service.cache) for each in counted)
    )


def price_usage(counted: CacheUsage, prices: Prices) -> float:
    """Return the price of the input of one call."""
    return (
        counted.read * prices.cache_read
        + (counted.write - counted.hour) * prices.cache_write
        + counted.hour * prices.cache_write_1h
        + counted.fresh * prices.input
    )


def weigh_usage(counted: CacheUsage, facts: CacheFacts) -> float:
    """Return the input of one call in input tokens, by the provider's factors."""
    short, long = facts.usual.write, facts.lives[-1].write
    return counted.read * facts.read + (counted.write - counted.hour) * short + counted.hour * long + counted.fresh


BEAM_WIDTH = 6  # beam width; brute force over small sessions finds nothing cheaper


@frozen
class OracleBranch:
    """One candidate session, up to the current call."""

    kept: LedgerDesign
    cost: float = 0.0
    outlook: float = 0.0  # its cost, with the expected cost of the rest


def find_optimal_session(
    stage: ScenarioStage, service: SimulatedModel, calls: Sequence[SessionCall]
) -> SimulationResult:
    """Find the cheapest session, given all edits and pauses in advance."""
    threads = [OracleBranch(kept=LedgerDesign(stage, service))]
    for call, following in zip(calls, (*calls[1:], None), strict=True):
        further: dict[object, OracleBranch] = {}
        for thread in threads:
            for edits in list_edit_choices(stage, call):
                for one in extend_branch(thread, call, edits, service):
                    left = len(calls) - call.number - 1
                    known = replace(one, outlook=one.cost + estimate_remaining_cost(one.kept, following, left, service))
                    key = get_branch_key(one.kept, following)
                    if key not in further or known.outlook < further[key].outlook:
                        further[key] = known
        threads = sorted(further.values(), key=lambda one: one.outlook)[:BEAM_WIDTH]
    best = min(threads, key=lambda one: one.cost)
    return compute_cost(best.kept.predicted, service)


def extend_branch(
    thread: OracleBranch, call: SessionCall, edits: Mapping[str, EditPolicy], service: SimulatedModel
) -> Iterator[OracleBranch]:
    """Extend a candidate by one call, with every TTL and without a cache write."""
    prepared = thread.kept.fork()
    request = prepared.prepare(call, edits)
    for life in (*service.cache.lives, None) if service.cache.marked else (None,):
        kept = prepared.fork()
        kept.send(request, place_breakpoints(kept.state, request.sent, service.cache, request.stable, life))
        counted, prices = kept.predicted[-1], service.prices
        paid = price_usage(counted, prices) if prices and prices.input else weigh_usage(counted, service.cache)
        yield OracleBranch(kept=kept, cost=thread.cost + paid)


def list_edit_choices(stage: ScenarioStage, call: SessionCall) -> Iterator[Mapping[str, EditPolicy]]:
    """List the possible decisions about the edits before a call."""
    edits = [edit for edit in stage.scenario.edits if edit.turn == call.turn and edit.policy is EditPolicy.AUTO]
    sections = [edit.section for edit in edits] if call.first else []
    for chosen in product((EditPolicy.APPEND, EditPolicy.NOW), repeat=len(sections)):
        yield dict(zip(sections, chosen, strict=True))


def estimate_remaining_cost(
    kept: LedgerDesign, following: SessionCall | None, left: int, service: SimulatedModel
) -> float:
    """Estimate the remaining cost: reading the sent tokens in each further call, and rewriting lost ones."""
    if following is None or kept.state is None:
        return 0.0
    rates, last = find_token_rates(service.cache, service.prices), kept.state.last
    ends = last.ends
    warm = max((ends[one.at] for one in kept.state.alive if one.until > following.at), default=0)
    return left * rates.read * last.tokens + (last.tokens - warm) * (rates.write - rates.read)


def get_branch_key(kept: LedgerDesign, following: SessionCall | None) -> object:
    """Return the state that the rest of a session depends on: its prompt and its cached prefixes."""
    state = kept.state
    if state is None or following is None:
        return None
    said = tuple((update.id, update.said) for update in state.updates)
    alive = [(one.at, one.seconds) for one in state.alive if one.until > following.at]
    return state.prefix.text, said, tuple(alive)


OURS, NO_CACHE, STRING, SPLIT, ORACLE = "ours", "no cache", "one string with a clock", "static/dynamic split", "oracle"
ORDER = (OURS, NO_CACHE, STRING, SPLIT, ORACLE)
TOKENS_PER_PRICE = 1_000_000


@frozen
class DesignComparison:
    """One session at one provider, in all designs."""

    model: str
    service: SimulatedModel
    calls: tuple[SessionCall, ...]
    results: Mapping[str, SimulationResult]
    decisions: tuple[PrefixDecision, ...]  # the ledger's decisions, per turn
    asked: Mapping[str, Sequence[SimulatedRequest]]  # the requests of each design that writes requests

    @property
    def free(self) -> bool:
        """Whether the model is free or its price unknown, so that results are in tokens."""
        return not self.results[NO_CACHE].usd

    def weigh(self, design: str) -> float:
        """Return the cost of a design in US dollars, or in input tokens without prices."""
        return self.results[design].cost

    def divide_costs(self, design: str, other: str) -> float:
        """Return the cost of a design as a multiple of another's."""
        return self.weigh(design) / self.weigh(other)

    def account(self, design: str) -> list[CacheAccount]:
        """Account for every call of a design: cache losses and their causes."""
        return account_for_session(self.asked[design], self.results[design].calls)


def compare_designs(
    scenario: Scenario, model: str, overrides: Mapping[str, ModelOverride], *, oracle: bool = True
) -> DesignComparison:
    """Play a scenario at one provider in all designs; the oracle takes longer than the others together."""
    facts = find_model(model, overrides)
    service = make_simulated_model(facts, find_prices(model, overrides))
    stage, calls = make_stage(scenario), list_calls(scenario)
    kept = LedgerDesign(stage, service)
    designs: Mapping[str, Design] = {OURS: kept, STRING: OneStringDesign(stage=stage), SPLIT: SplitDesign(stage=stage)}
    asked = {name: list_requests(design, calls, service) for name, design in designs.items()}
    results = {name: compute_cost(count_requests(requests), service) for name, requests in asked.items()}
    results[NO_CACHE] = compute_cost([CacheUsage(fresh=call.total) for call in results[OURS].calls], service)
    if oracle:
        results[ORACLE] = find_optimal_session(stage, service, calls)
    return DesignComparison(
        model=model,
        service=service,
        calls=tuple(calls),
        results={name: results[name] for name in ORDER if name in results},
        decisions=tuple(kept.decisions),
        asked=asked,
    )


def format_comparison(comparison: DesignComparison) -> str:
    """Format a comparison as a plain-text table, with its rules and prices."""
    rows = [("design", "read", "tokens" if comparison.free else "USD", "of the oracle", "of no cache")]
    for design, result in comparison.results.items():
        amount = f"{comparison.weigh(design):,.{0 if comparison.free else 4}f}"
        oracle = f"{comparison.divide_costs(design, ORACLE):.3f} ×" if ORACLE in comparison.results else ""
        rows.append(
            (design, f"{result.share:.1%}", amount, oracle, f"{comparison.divide_costs(design, NO_CACHE):.3f} ×")
        )
    first, *widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [f"{comparison.model}: {describe_model(comparison.service)}"]
    for name, *cells in rows:
        figures = "  ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        lines.append(f" {name:{first}}  {figures}".rstrip())
    return "\n".join(lines)


def describe_model(service: SimulatedModel) -> str:
    """Describe a model's cache rules and prices."""
    facts, prices = service.cache, service.prices
    parts = [f"rules of {name_rules(service)}", f"from {facts.minimum:,} tokens"]
    if prices is not None and prices.input:
        amounts = [("input", prices.input), ("read", prices.cache_read)]
        amounts += [("written", prices.cache_write)] if facts.marked else []
        listed = ", ".join(f"${amount * TOKENS_PER_PRICE:.4g} {name}" for name, amount in amounts)
        parts.append(f"a million: {listed}")
    return ", ".join(parts)


def name_rules(service: SimulatedModel) -> str:
    """Name the cache rules, with the date they were checked."""
    return f"{service.cache.provider or 'other providers'} ({service.cache.checked})"
