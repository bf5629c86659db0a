"""Figures, and timing of single calls."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from foreword.promptcache.simulation import BenchmarkFigure as Figure

__all__ = ["Figure", "Times", "clock"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Percentiles of single calls, in microseconds."""

    p50: float
    p99: float


def clock(call: Callable[[int], object], count: int) -> Times:
    """Time single calls, each with a different number."""
    times = []
    for number in range(count):
        begin = time.perf_counter_ns()
        call(number)
        times.append((time.perf_counter_ns() - begin) / 1_000)
    return Times(p50=statistics.median(times), p99=statistics.quantiles(times, n=100)[98])
