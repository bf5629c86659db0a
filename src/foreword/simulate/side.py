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
HEAD = ("design", "read", "cost", "of no cache", "of the oracle")


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
    designs: dict[str, Design] = {OURS: kept, STRING: OneString(stage), SPLIT: Split(stage)}
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
    """Draw a comparison as a table of plain text."""
    rows = [HEAD, *(draw_row(comparison, design) for design in comparison.results)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(HEAD))]
    lines = ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([comparison.model, *(f"  {line}" for line in lines)])


def draw_row(comparison: Comparison, design: str) -> Sequence[str]:
    """Draw one design."""
    result = comparison.results[design]
    amount = f"{comparison.weigh(design):,.0f} tok" if comparison.free else f"${result.usd or 0:,.4f}"
    oracle = f"{comparison.divide(design, ORACLE):.3f} ×" if ORACLE in comparison.results else ""
    return design, f"{result.share:.1%}", amount, f"{comparison.divide(design, NONE):.3f} ×", oracle
