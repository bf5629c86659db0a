"""Weights of the memory ranking: the set under which the messages that answer a question are most likely to be picked.

A message is picked with a chance that grows with its score, so there is one best set of weights, the same in every run.
Each kind of conversation counts the same, however many questions it has.
"""

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from foreword.memory.search import TALK, Parts

ROUNDS = 15  # of Newton's method; about eight are enough
ENOUGH = 1e-2  # a step that moves no result
RIDGE = 1e-4  # how strongly weights are held near zero

Vector = list[float]


@dataclass(frozen=True, slots=True)
class Case:
    """One question: the parts of each finalist's score, and which finalists answer it."""

    parts: Sequence[Parts]
    answers: frozenset[int]
    """Places among the finalists."""
    wanted: int
    """How many messages answer it, found or not."""


def find_weights(worlds: Sequence[Sequence[Case]], start: Sequence[float] | None = None) -> Parts:
    """Find the weights under which answers are most likely, by Newton's method."""
    size = len(TALK)
    weights = list(start or [0.0] * size)
    for _ in range(ROUNDS):
        slope = [-RIDGE * weight for weight in weights]
        bend = [[RIDGE * (one == other) for other in range(size)] for one in range(size)]
        for cases in worlds:
            answered = [case for case in cases if case.answers]
            for case in answered:
                add_case(case, weights, slope, bend, 1 / len(answered))
        step = solve(bend, slope)
        length = max(map(abs, step))
        # Far from the best, a whole step is too long.
        weights = [weight + min(1.0, 2.0 / length) * one for weight, one in zip(weights, step, strict=True)]
        if length < ENOUGH:
            break
    return Parts(*weights)


def add_case(case: Case, weights: Sequence[float], slope: Vector, bend: list[Vector], share: float) -> None:
    """Add the gradient and curvature of one question."""
    scores = [weigh(parts, weights) for parts in case.parts]
    top = max(scores)
    chances = [math.exp(score - top) for score in scores]
    total = sum(chances)
    columns = list(zip(*case.parts, strict=True))
    weighted = [[chance * one for chance, one in zip(chances, column, strict=True)] for column in columns]
    means = [sum(column) / total for column in weighted]
    for at, column in enumerate(columns):
        slope[at] += share * (statistics.fmean([column[answer] for answer in case.answers]) - means[at])
        for other in range(at + 1):
            both = sum([one * two for one, two in zip(weighted[at], columns[other], strict=True)]) / total
            bend[at][other] += share * (both - means[at] * means[other])
            bend[other][at] = bend[at][other]


def solve(rows: Sequence[Sequence[float]], right: Sequence[float]) -> Vector:
    """Solve a system of linear equations that has one solution."""
    table = [[*row, value] for row, value in zip(rows, right, strict=True)]
    for at in range(len(table)):
        best = max(range(at, len(table)), key=lambda row: abs(table[row][at]))
        table[at], table[best] = table[best], table[at]
        table[at] = [value / table[at][at] for value in table[at]]
        for row in range(len(table)):
            if row != at:
                factor = table[row][at]
                table[row] = [one - factor * two for one, two in zip(table[row], table[at], strict=True)]
    return [row[-1] for row in table]


def weigh(parts: Sequence[float], weights: Sequence[float]) -> float:
    """Add up the parts of a score."""
    return sum([part * weight for part, weight in zip(parts, weights, strict=True)])


def measure(cases: Iterable[Case], weights: Sequence[float], depths: Sequence[int]) -> Iterator[tuple[float, ...]]:
    """Measure the share of each question's answers among the first results, at each depth."""
    for case in cases:
        order = sorted(range(len(case.parts)), key=lambda at: -weigh(case.parts[at], weights))
        yield tuple(len(case.answers.intersection(order[:depth])) / case.wanted for depth in depths)
