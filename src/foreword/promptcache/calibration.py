"""Calibration: correct token estimates per model by the usage its provider reports."""

import math

from foreword.promptcache.rules import CacheUsage
from foreword.types import frozen

MAX_WINDOW_FACTOR = 2.0  # billed tokens per counted token; a higher ratio means that something else was counted
AVERAGED_CALLS = 50  # calls in the moving average


@frozen(eq=True)
class Calibration:
    """The learned ratio between counted and billed tokens of a model."""

    model: str
    calls: int = 0
    ratio: float = 1.0
    """Billed tokens per counted token."""
    raw: float = 0.0
    """Mean relative error of the uncorrected counts."""
    error: float = 0.0
    """Mean relative error with the correction known before each call."""

    @property
    def factor(self) -> float:
        """Return the factor for estimates; 1.0 before the first call."""
        return self.ratio if self.calls else 1.0

    def correct(self, tokens: int) -> int:
        """Correct an estimate."""
        return math.ceil(tokens * self.ratio) if self.calls else tokens

    def correct_usage(self, counted: CacheUsage) -> CacheUsage:
        """Correct all counts of a predicted call by the same factor."""
        if not self.calls:
            return counted
        total, read, write = self.correct(counted.total), self.scale(counted.read), self.scale(counted.write)
        return CacheUsage(read=read, write=write, hour=self.scale(counted.hour), fresh=max(0, total - read - write))

    def scale(self, tokens: int) -> int:
        """Correct a part of an estimate or a difference; may round down."""
        return round(tokens * self.factor)

    @property
    def window_factor(self) -> float:
        """Return the factor by which to shrink a context window; never below 1.0."""
        return min(max(1.0, self.ratio), MAX_WINDOW_FACTOR) if self.calls else 1.0


NO_CALIBRATION = Calibration(model="")
"""No calibration: counts stay unchanged."""


def update_calibration(known: Calibration, counted: int, reported: int) -> Calibration:
    """Update a calibration with one call; ignore a call without usage."""
    if counted <= 0 or reported <= 0:
        return known
    weight = 1 / min(known.calls + 1, AVERAGED_CALLS)
    before = known.ratio if known.calls else 1.0
    return Calibration(
        model=known.model,
        calls=known.calls + 1,
        ratio=before + weight * (reported / counted - before),
        raw=known.raw + weight * (abs(counted - reported) / reported - known.raw),
        error=known.error + weight * (abs(counted * before - reported) / reported - known.error),
    )


def format_calibration(known: Calibration) -> str:
    """Describe a calibration in one line."""
    if not known.calls:
        return f"{known.model}: nothing reported yet"
    plural = "" if known.calls == 1 else "s"
    return (
        f"{known.model}: counts × {known.ratio:.3f} by {known.calls} call{plural}, off by {known.error:.1%} on average"
    )


def format_correction(known: Calibration) -> str:
    """Describe the correction of a prediction and its mean error."""
    plural = "" if known.calls == 1 else "s"
    return f"counts × {known.ratio:.2f}, off by {known.error:.1%} on average ({known.calls:,} call{plural})"
