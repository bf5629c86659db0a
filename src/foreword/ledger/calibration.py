"""Calibration: estimates of tokens, corrected for each model by what its provider reports."""

import math

from foreword.caching.cache import Counted
from foreword.frozen import frozen

MOST = 2.0  # tokens for one of ours; what reports more has counted something else
MEMORY = 50  # calls after which an old one weighs as little as a new one


@frozen(eq=True)
class Calibration:
    """What the calls of a model have taught about its tokens."""

    model: str
    calls: int = 0
    ratio: float = 1.0
    """Tokens that the provider bills for one that we count."""
    raw: float = 0.0
    """How far our counts were off on average, as a share, without the correction."""
    error: float = 0.0
    """The same with the correction that was known before each call."""

    @property
    def factor(self) -> float:
        """What an estimate is multiplied by; nothing changes before the first call."""
        return self.ratio if self.calls else 1.0

    def correct(self, tokens: int) -> int:
        """Correct an estimate."""
        return math.ceil(tokens * self.ratio) if self.calls else tokens

    def correct_all(self, counted: Counted) -> Counted:
        """Correct what was predicted of a call, all of it by the same factor."""
        if not self.calls:
            return counted
        total, read, write = self.correct(counted.total), self.scale(counted.read), self.scale(counted.write)
        return Counted(read=read, write=write, hour=self.scale(counted.hour), fresh=max(0, total - read - write))

    def scale(self, tokens: int) -> int:
        """Correct a part of an estimate, or what is fewer by it."""
        return round(tokens * self.factor)

    @property
    def caution(self) -> float:
        """By how much to think of a window as smaller; one that holds more than we count is not made use of."""
        return min(max(1.0, self.ratio), MOST) if self.calls else 1.0


PLAIN = Calibration(model="")
"""Nothing was learned: counts are taken as they are."""


def learn(known: Calibration, counted: int, reported: int) -> Calibration:
    """Learn from one call; one that reports nothing teaches nothing."""
    if counted <= 0 or reported <= 0:
        return known
    weight = 1 / min(known.calls + 1, MEMORY)
    before = known.ratio if known.calls else 1.0
    return Calibration(
        model=known.model,
        calls=known.calls + 1,
        ratio=before + weight * (reported / counted - before),
        raw=known.raw + weight * (abs(counted - reported) / reported - known.raw),
        error=known.error + weight * (abs(counted * before - reported) / reported - known.error),
    )


def show(known: Calibration) -> str:
    """Show what was learned, in a line."""
    if not known.calls:
        return f"{known.model}: nothing reported yet"
    plural = "" if known.calls == 1 else "s"
    return (
        f"{known.model}: counts × {known.ratio:.3f} by {known.calls} call{plural}, off by {known.error:.1%} on average"
    )


def show_correction(known: Calibration) -> str:
    """Show by what a prediction was corrected, and how far off such predictions have been."""
    plural = "" if known.calls == 1 else "s"
    return f"counts × {known.ratio:.2f}, off by {known.error:.1%} on average ({known.calls:,} call{plural})"
