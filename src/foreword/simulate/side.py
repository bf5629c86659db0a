"""Designs side by side: one session, one provider, and what each design reads, writes and costs."""

from collections.abc import Mapping, Sequence

from foreword.config.schema import ModelOverride
from foreword.frozen import frozen
from foreword.ledger import Standing
from foreword.ledger.blame import Account
from foreword.prices import find_prices
from foreword.simulate.accounting import Asked, account_for
from foreword.simulate.design import Design, OneString, Split, set_stage
from foreword.simulate.oracle import foresee
from foreword.simulate.ours import Kept, Service, make_service
from foreword.simulate.run import Result, forget, run
from foreword.simulate.scenario import Scenario
from foreword.simulate.session import Call, play
from foreword.simulate.watching import Watched
from foreword.tokens import find

OURS, NONE, STRING, SPLIT, ORACLE = "ours", "no cache", "one string with a clock", "static/dynamic split", "oracle"
ORDER = (OURS, NONE, STRING, SPLIT, ORACLE)
MILLION = 1_000_000


@frozen
class Comparison:
    """One session at one provider, in every design."""

    model: str
    service: Service
    calls: tuple[Call, ...]
    results: Mapping[str, Result]
    standings: tuple[Standing, ...]
    """What our ledger decided, turn by turn."""
    asked: Mapping[str, Sequence[Asked]]
    """What each design sent that sends something of its own."""

    @property
    def free(self) -> bool:
        """Whether nobody is paid, or nobody knows how much, so that tokens are what counts."""
        return not self.results[NONE].usd

    def weigh(self, design: str) -> float:
        """What a design costs: US dollars, or tokens of input where there are no prices."""
        return self.results[design].cost

    def divide(self, design: str, other: str) -> float:
        """What a design costs as a multiple of another."""
        return self.weigh(design) / self.weigh(other)

    def account(self, design: str) -> list[Account]:
        """Account for every call of a design: what it lost of its cache, and why."""
        return account_for(self.asked[design], self.results[design].calls)


def set_side_by_side(
    scenario: Scenario, model: str, overrides: Mapping[str, ModelOverride], *, oracle: bool = True
) -> Comparison:
    """Play a scenario against one provider in every design; the oracle takes longer than all others together."""
    facts = find(model, overrides)
    service = make_service(facts, find_prices(model, overrides))
    stage, calls = set_stage(scenario), play(scenario)
    kept = Kept(stage, service)
    designs: Mapping[str, Design] = {OURS: kept, STRING: OneString(stage), SPLIT: Split(stage)}
    watched = {name: Watched(design, service) for name, design in designs.items()}
    results = {name: run(one, calls, service) for name, one in watched.items()}
    results[NONE] = forget(results[OURS], service)
    if oracle:
        results[ORACLE] = foresee(stage, service, calls)
    return Comparison(
        model=model,
        service=service,
        calls=tuple(calls),
        results={name: results[name] for name in ORDER if name in results},
        standings=tuple(kept.standings),
        asked={name: one.asked for name, one in watched.items()},
    )


def draw(comparison: Comparison) -> str:
    """Draw a comparison as a table of plain text, under the rules and prices that it was played by."""
    money = "tokens" if comparison.free else "USD"
    rows = [("design", "read", money, "of the oracle", "of no cache")]
    rows += [draw_row(comparison, design) for design in comparison.results]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [f" {name:{widths[0]}}  {align(cells, widths[1:])}".rstrip() for name, *cells in rows]
    return "\n".join([f"{comparison.model}: {describe(comparison.service)}", *lines])


def align(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Set figures below each other."""
    return "  ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def draw_row(comparison: Comparison, design: str) -> tuple[str, str, str, str, str]:
    """Draw one design."""
    amount = f"{comparison.weigh(design):,.0f}" if comparison.free else f"{comparison.weigh(design):,.4f}"
    oracle = f"{comparison.divide(design, ORACLE):.3f} ×" if ORACLE in comparison.results else ""
    share = f"{comparison.results[design].share:.1%}"
    return design, share, amount, oracle, f"{comparison.divide(design, NONE):.3f} ×"


def describe(service: Service) -> str:
    """Describe the rules and prices that a model is played by."""
    facts, prices = service.cache, service.prices
    parts = [f"rules of {name_rules(service)}", f"from {facts.minimum:,} tokens"]
    if prices is not None and prices.input:
        per = f"a million: ${prices.input * MILLION:.4g} input, ${prices.cache_read * MILLION:.4g} read"
        parts.append(f"{per}, ${prices.cache_write * MILLION:.4g} written" if facts.marked else per)
    return ", ".join(parts)


def name_rules(service: Service) -> str:
    """Name the rules of a cache, and when they were checked."""
    facts = service.cache
    return f"{facts.provider or 'other providers'} ({facts.checked})"
