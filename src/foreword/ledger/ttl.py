"""How long a mark should hold: by what the gaps of a session's calls have been, and where the prices break even."""

from collections.abc import Sequence

from foreword.frozen import frozen
from foreword.tokens.caches import CacheFacts, Life

# What is believed of a session before anything is measured: calls of a loop, a talk, and now and then a pause.
USUAL = (5.0, 20.0, 40.0, 60.0, 90.0, 120.0, 240.0, 900.0)
Chances = Sequence[tuple[float, float]]
"""Gaps in seconds, each with how probable it is."""
WEIGHT = 4.0  # how many measured gaps these are worth together


@frozen(eq=True)
class Exposure:
    """What a mark is about to protect."""

    cached: int
    """Tokens before it that the provider has already."""
    fresh: int
    """Tokens that the mark would write."""
    seconds: int
    """How long what is cached lives from now without it."""


@frozen(eq=True)
class Term:
    """A life for a mark, or none, with what that is expected to cost in tokens of input."""

    life: Life | None
    cost: float


def choose_life(exposure: Exposure, gaps: Sequence[float], facts: CacheFacts) -> Life | None:
    """Choose the life that is expected to cost least until the next call, by the gaps that were measured."""
    return find_cheapest(exposure, find_chances(gaps), facts).life


def find_cheapest(exposure: Exposure, chances: Chances, facts: CacheFacts) -> Term:
    """Find the cheapest of all lives and none; the shorter of two that cost the same."""
    lives: list[Life | None] = [*facts.lives, None]
    terms = [Term(life=life, cost=expect(exposure, life, chances, facts)) for life in lives]
    return min(terms, key=lambda term: term.cost)


def find_chances(gaps: Sequence[float]) -> Chances:
    """Find how probable each gap is, by what was measured and what is usual."""
    whole = len(gaps) + WEIGHT
    usual = [(gap, WEIGHT / len(USUAL) / whole) for gap in USUAL]
    return [*usual, *((gap, 1 / whole) for gap in gaps)]


def expect(exposure: Exposure, life: Life | None, chances: Chances, facts: CacheFacts) -> float:
    """Expect what is paid now for what is fresh, and in the next call for all of it, in tokens of input."""
    cached, fresh, again = exposure.cached, exposure.fresh, facts.usual.write
    now = fresh * (life.write if life else 1.0)
    later = 0.0
    for gap, chance in chances:
        if life and gap < life.seconds:
            later += chance * facts.read * (cached + fresh)
        elif gap < exposure.seconds:
            later += chance * (facts.read * cached + again * fresh)
        else:
            later += chance * again * (cached + fresh)
    return now + later
