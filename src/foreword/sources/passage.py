"""Passages: what memory holds for one message, and the seam through which a turn asks for it."""

from collections.abc import Sequence
from typing import Protocol

from foreword.frozen import frozen
from foreword.words import Trust


@frozen(eq=True)
class Passage:
    """A few lines of a memory."""

    path: str
    first: int
    last: int
    heading: str
    text: str
    cut: bool = False
    """Whether it is only a part of its lines."""
    origin: str = ""
    """Whose words they are, where no owner has reviewed them."""


class Recall(Protocol):
    """What can be asked for the passages that a message is about."""

    def recall(self, message: str, clearance: Trust) -> Sequence[Passage]:
        """Return a few passages that the clearance may see, the best first, or none where none is clearly meant."""
