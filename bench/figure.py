"""A figure: what was measured, what was aimed at, and what the baseline took in the same run."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured value in its unit; the aim is an upper bound."""

    name: str
    value: float
    unit: str
    aim: float | None = None
    baseline: str = ""

    @property
    def verdict(self) -> str:
        """Whether the aim was met."""
        if self.aim is None:
            return ""
        return "met" if self.value <= self.aim else "missed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Times of single calls, in microseconds."""

    p50: float
    p99: float


def clock(call: Callable[[int], object], count: int) -> Times:
    """Time single calls, each with a number of its own."""
    times = []
    for number in range(count):
        begin = time.perf_counter_ns()
        call(number)
        times.append((time.perf_counter_ns() - begin) / 1_000)
    return Times(p50=statistics.median(times), p99=statistics.quantiles(times, n=100)[98])
