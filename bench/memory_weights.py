"""Weights: what each part of the ranking should weigh, and what weights reach on a dialogue they have not seen.

Each dialogue in turn is left out: weights are found on the others and measured on it. A dialogue comes twice, with its
days as they are written and as numbers, as the files of a journal have them; only the first form is measured. Weights
are those under which the turns that answer a question are most likely to be picked, if a turn is picked with a chance
that grows with its score: one best set of weights, the same in every run.
"""

import math
import statistics
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.memory_recall import DEPTHS, Talk, find_evidence, read_talk
from foreword.memory.chunk import find_day, split
from foreword.memory.rank import FINALISTS, STOP, TALK, Parts, gather, read_question
from foreword.memory.sqlite_index import SqliteIndex

STORE = "social"
ROUNDS = 12  # of Newton's method; it is there after about eight
ENOUGH = 1e-3  # a step that no weight feels
HELD = 1e-4  # how strongly weights are held near zero

Vector = list[float]


@dataclass(frozen=True, slots=True)
class Case:
    """One question: what speaks for each finalist, and which of them answer it."""

    parts: Sequence[Parts]
    answers: frozenset[int]
    """Places among the finalists."""
    wanted: int
    """How many turns answer it, found or not."""


def read_cases(talk: Talk, *, numbered: bool) -> list[Case]:
    """Ask every question of a dialogue and look at the finalists."""
    with tempfile.TemporaryDirectory() as folder:
        index = SqliteIndex(folder)
        with index.writing():
            for path, body in talk.files.items():
                index.put(STORE, path, ("", ""), split(number_day(body) if numbered else body))
        stop = frozenset(index.stem(STOP))
        cases = [make_case(question, talk, index, stop) for question in talk.questions]
        index.close()
    return cases


def number_day(body: str) -> str:
    """Write the day in the heading of a session as a number."""
    heading, _, rest = body.partition("\n")
    return f"# {find_day(heading)}\n{rest}"


def make_case(question: Mapping[str, str], talk: Talk, index: SqliteIndex, stop: frozenset[str]) -> Case:
    """Look at the finalists of one question."""
    scorer = gather(read_question(question["question"], index, stop), STORE, index)
    finalists = list(scorer.describe(lambda rows: index.rows(STORE, rows), FINALISTS))
    found = index.fetch(STORE, [row for row, _, _ in finalists])
    places = [(found[row].path.removeprefix("memory/"), found[row].first) for row, _, _ in finalists]
    wanted = find_evidence(question)
    answers = frozenset(at for at, place in enumerate(places) if talk.places.get(place) in wanted)
    return Case([parts for _, _, parts in finalists], answers, len(wanted))


def find_weights(cases: Iterable[Case]) -> Parts:
    """Find the weights under which answers are most likely, by Newton's method."""
    cases = [case for case in cases if case.answers]
    weights = [0.0] * len(TALK)
    for _ in range(ROUNDS):
        slope = [-HELD * weight for weight in weights]
        bend = [[HELD * (one == other) for other in range(len(TALK))] for one in range(len(TALK))]
        for case in cases:
            add_case(case, weights, slope, bend, 1 / len(cases))
        step = solve(bend, slope)
        # Far from the best, a whole step is too long.
        size = min(1.0, 2.0 / max(map(abs, step)))
        weights = [weight + size * one for weight, one in zip(weights, step, strict=True)]
        if max(map(abs, step)) < ENOUGH:
            break
    return Parts(*weights)


def add_case(case: Case, weights: Sequence[float], slope: Vector, bend: list[Vector], share: float) -> None:
    """Add what one question says about where better weights are."""
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
    """Weigh what speaks for a turn."""
    return sum([part * weight for part, weight in zip(parts, weights, strict=True)])


def measure(cases: Iterable[Case], weights: Sequence[float]) -> Iterator[tuple[float, ...]]:
    """Measure the share of each question's answers among the first results, at each depth."""
    for case in cases:
        order = sorted(range(len(case.parts)), key=lambda at: -weigh(case.parts[at], weights))
        yield tuple(len(case.answers.intersection(order[:depth])) / case.wanted for depth in DEPTHS)


def show(name: str, shares: Sequence[tuple[float, ...]]) -> None:
    """Print the mean recall at each depth."""
    means = [f"{statistics.fmean(column):.3f}" for column in zip(*shares, strict=True)]
    print(f"{name:28} {len(shares):5} questions  {'  '.join(means)}", flush=True)


def run(paths: Sequence[Path]) -> None:
    """Print what weights reach on each dialogue that they were not found on, and the weights of all."""
    talks = [read_talk(path) for path in paths]
    plain = [read_cases(talk, numbered=False) for talk in talks]
    both = [cases + read_cases(talk, numbered=True) for cases, talk in zip(plain, talks, strict=True)]
    print(f"{'':45}  R@5    R@10   R@20")
    held: list[tuple[float, ...]] = []
    for at, path in enumerate(paths):
        weights = find_weights(case for other, cases in enumerate(both) if other != at for case in cases)
        shares = list(measure(plain[at], weights))
        show(f"{path.stem}, weights of the others", shares)
        held += shares
    show("held out, all questions", held)
    every = [case for cases in plain for case in cases]
    show("the weights that are shipped", list(measure(every, TALK)))
    weights = find_weights(case for cases in both for case in cases)
    show("weights of all dialogues", list(measure(every, weights)))
    for part, weight, shipped in zip(Parts._fields, weights, TALK, strict=True):
        print(f"  {part:10} {weight:6.2f}  shipped {shipped:6.2f}")


def main(arguments: Sequence[str]) -> int:
    """Run over the dialogues of a folder."""
    paths = sorted(Path(arguments[0]).glob("*.json")) if len(arguments) == 1 else []
    if len(paths) <= 1:
        print("usage: python -m bench.memory_weights FOLDER, with LoCoMo dialogues (*.json) in it", file=sys.stderr)
        return 2
    run(paths)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
