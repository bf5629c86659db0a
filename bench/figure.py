"""Figures, and timing of single calls."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured value with its unit; the goal is an upper bound."""

    name: str
    value: float
    unit: str
    aim: float | None = None
    baseline: str = ""

    @property
    def verdict(self) -> str:
        """Whether the goal was met."""
        if self.aim is None:
            return ""
        return "met" if self.value <= self.aim else "missed"

    def show(self) -> str:
        """Return the figure on one line, and its baseline below."""
        aim = f"aim ≤ {self.aim:g} {self.unit}: {self.verdict}" if self.aim is not None else ""
        value = f"{self.value:,}" if isinstance(self.value, int) else f"{self.value:,.2f}"
        line = f"{self.name:44} {value:>9} {self.unit:3} {aim}".rstrip()
        return f"{line}\n{'':44} beside {self.baseline}" if self.baseline else line


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
