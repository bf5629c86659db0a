"""The oracle: our design with the future known, as the measure of what a ledger that does not know it could reach.

A search over whole sessions: each edit that is left to the ledger may be appended or moved into the prefix, and each
request may be written for any life or not at all. What the owner has ordered, the oracle obeys, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from foreword.caching import Block
from foreword.frozen import frozen
from foreword.ledger.breakpoints import Breakpoint, place
from foreword.ledger.cost import find_rates
from foreword.simulate.design import Stage
from foreword.simulate.ours import Kept, Letter, Service
from foreword.simulate.run import Result, price, run, weigh
from foreword.simulate.session import Call
from foreword.tokens.caches import Life
from foreword.words import Policy

WIDTH = 6  # sessions that are followed at once; brute force over small sessions finds nothing cheaper
Path = tuple[tuple[Mapping[str, Policy], Life | None], ...]
"""What was decided before each call, and for how long it was written."""


@frozen
class Thread:
    """One way that a session may go, as far as it has gone."""

    kept: Kept
    path: Path = ()
    cost: float = 0.0
    outlook: float = 0.0
    """What it costs, with what follows from it."""


class Led:
    """Goes one way again, from its beginning."""

    def __init__(self, kept: Kept, service: Service, path: Path) -> None:
        self._kept = kept
        self._service = service
        self._path = path

    def write(self, call: Call) -> Sequence[Block]:
        """Write a request as it was decided."""
        edits, life = self._path[call.number]
        letter = self._kept.prepare(call, edits)
        return self._kept.send(letter, place_marks(self._kept, letter, self._service, life))


def foresee(stage: Stage, service: Service, calls: Sequence[Call]) -> Result:
    """Find the cheapest session that knows what will be edited, when, and how long each pause is."""
    threads = [Thread(kept=Kept(stage, service))]
    for call, following in zip(calls, (*calls[1:], None), strict=True):
        further: dict[object, Thread] = {}
        for thread in threads:
            for edits in list_plans(stage, call):
                for one in go_on(thread, call, edits, service):
                    left = len(calls) - call.number - 1
                    known = replace(one, outlook=one.cost + look_ahead(one.kept, following, left, service))
                    key = identify(one.kept, following)
                    if key not in further or known.outlook < further[key].outlook:
                        further[key] = known
        threads = sorted(further.values(), key=lambda one: one.outlook)[:WIDTH]
    best = min(threads, key=lambda one: one.cost)
    return run(Led(Kept(stage, service), service, best.path), calls, service)


def go_on(thread: Thread, call: Call, edits: Mapping[str, Policy], service: Service) -> Iterator[Thread]:
    """Let a session go on with one call, written for every life that there is, and not at all."""
    prepared = thread.kept.fork()
    letter = prepared.prepare(call, edits)
    for life in (*service.cache.lives, None) if service.cache.marked else (None,):
        kept = prepared.fork()
        kept.send(letter, place_marks(kept, letter, service, life))
        yield Thread(kept=kept, path=(*thread.path, (edits, life)), cost=thread.cost + judge(kept, service))


def list_plans(stage: Stage, call: Call) -> Iterator[Mapping[str, Policy]]:
    """List what may be done about the edits before a call."""
    edits = [edit for edit in stage.scenario.edits if edit.turn == call.turn and edit.policy is Policy.AUTO]
    sections = [edit.section for edit in edits] if call.first else []
    for chosen in product((Policy.APPEND, Policy.NOW), repeat=len(sections)):
        yield dict(zip(sections, chosen, strict=True))


def place_marks(kept: Kept, letter: Letter, service: Service, life: Life | None) -> tuple[Breakpoint, ...]:
    """Place the marks of a request for a life."""
    return place(kept.frozen, letter.sent, service.cache, letter.stable, life)


def judge(kept: Kept, service: Service) -> float:
    """Judge what the newest call costs."""
    counted = kept.predicted[-1]
    return price(counted, service.prices) if service.prices and service.prices.input else weigh(counted, service.cache)


def look_ahead(kept: Kept, following: Call | None, left: int, service: Service) -> float:
    """Look at what will be paid for what was sent: reading it in each further call, and writing what is lost."""
    if following is None or kept.frozen is None:
        return 0.0
    rates, last = find_rates(service.cache, service.prices), kept.frozen.last
    ends = last.ends
    warm = max((ends[one.at] for one in kept.frozen.alive if one.until > following.at), default=0)
    return left * rates.read * last.tokens + (last.tokens - warm) * (rates.write - rates.read)


def identify(kept: Kept, following: Call | None) -> object:
    """Identify what the rest of a session depends on: its prompt, and what is left in the cache."""
    state = kept.frozen
    if state is None or following is None:
        return None
    said = tuple((update.id, update.said) for update in state.updates)
    alive = [(one.at, one.seconds) for one in state.alive if one.until > following.at]
    return state.base.text, said, tuple(alive)
