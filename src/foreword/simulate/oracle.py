"""The oracle: our design with the future known, as the measure of what a ledger that does not know it could reach."""

from collections.abc import Mapping, Sequence

from foreword.ledger import Sent
from foreword.ledger.breakpoints import Breakpoint, find_exposure, place
from foreword.ledger.ttl import find_cheapest
from foreword.simulate.design import Stage
from foreword.simulate.ours import Kept, Service
from foreword.simulate.run import Result, run
from foreword.simulate.session import Call
from foreword.words import Policy


class Ordered:
    """Does with every edit what was decided beforehand."""

    def __init__(self, plan: Mapping[tuple[int, str], Policy]) -> None:
        self._plan = plan

    def guide(self, call: Call) -> Mapping[str, Policy]:
        """Say what is to be done about the edits before a call."""
        return {section: policy for (turn, section), policy in self._plan.items() if turn == call.turn}


class Foreseeing(Kept):
    """Marks each request for exactly as long as it will be needed."""

    def mark(self, call: Call, sent: Sent, stable: Sequence[int]) -> tuple[Breakpoint, ...]:
        """Choose the marks by the gap that follows."""
        facts = self._service.cache
        if not facts.marked:
            return ()
        life = find_cheapest(find_exposure(self.frozen, sent), ((call.after, 1.0),), facts).life
        return place(self.frozen, sent, facts, stable, life)


def foresee(stage: Stage, service: Service, calls: Sequence[Call]) -> Result:
    """Find the cheapest session that knows what will be edited, when, and how long each pause is."""
    plan: dict[tuple[int, str], Policy] = {}
    best = attempt(stage, service, calls, plan)
    better = True
    while better:
        better = False
        for edit in stage.scenario.edits:
            for policy in (Policy.NOW, Policy.APPEND):
                other = {**plan, (edit.turn, edit.section): policy}
                result = attempt(stage, service, calls, other) if other != plan else best
                if result.cost < best.cost:
                    plan, best, better = other, result, True
    return best


def attempt(stage: Stage, service: Service, calls: Sequence[Call], plan: Mapping[tuple[int, str], Policy]) -> Result:
    """Run a session with every edit decided."""
    return run(Foreseeing(stage, service, Ordered(plan)), calls, service)
