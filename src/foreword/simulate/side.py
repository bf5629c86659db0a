"""Designs side by side: one session, one provider, and what each design reads, writes and costs."""

from collections.abc import Mapping, Sequence

from foreword.config.schema import ModelOverride
from foreword.frozen import frozen
from foreword.ledger import Standing
from foreword.prices import find_prices
from foreword.simulate.design import OneString, Split, set_stage
from foreword.simulate.oracle import cost, foresee
from foreword.simulate.ours import Kept, make_service
from foreword.simulate.run import Result, forget, run
from foreword.simulate.scenario import Scenario
from foreword.simulate.session import Call, play
from foreword.tokens import find

OURS, NONE, STRING, SPLIT, ORACLE = "ours", "no cache", "one string with a clock", "static/dynamic split", "oracle"
HEAD = ("design", "read", "cost", "of no cache", "of the oracle")


@frozen
class Comparison:
    """One session at one provider, in every design."""

    model: str
    calls: tuple[Call, ...]
    results: Mapping[str, Result]
    standings: tuple[Standing, ...]
    """What our ledger decided, turn by turn."""

    @property
    def free(self) -> bool:
        """Whether nobody is paid, so that tokens that are evaluated are what counts."""
        return not self.results[NONE].usd

    def weigh(self, design: str) -> float:
        """What a design costs: US dollars, or tokens that are evaluated."""
        return cost(self.results[design])

    def divide(self, design: str, other: str) -> float:
        """What a design costs as a multiple of another."""
        return self.weigh(design) / self.weigh(other)


def set_side_by_side(
    scenario: Scenario, model: str, overrides: Mapping[str, ModelOverride], *, oracle: bool = True
) -> Comparison:
    """Play a scenario against one provider in every design; the oracle takes longer than all others together."""
    facts = find(model, overrides)
    service = make_service(facts, find_prices(model, overrides))
    stage, calls = set_stage(scenario), play(scenario)
    kept = Kept(stage, service)
    ours = run(kept, calls, service)
    results = {
        OURS: ours,
        NONE: forget(ours, service.prices),
        STRING: run(OneString(stage), calls, service),
        SPLIT: run(Split(stage), calls, service),
    }
    if oracle:
        results[ORACLE] = foresee(stage, service, calls)
    return Comparison(model=model, calls=tuple(calls), results=results, standings=tuple(kept.standings))


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
