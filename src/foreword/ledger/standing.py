"""Where a prompt stands against what was sent before it."""

from typing import Protocol

from foreword.frozen import frozen
from foreword.render import Prompt


@frozen(eq=True)
class Standing:
    """What of a prompt is frozen already, and why."""

    frozen: tuple[str, ...] = ()
    reason: str = "nothing is frozen: the session has sent nothing yet"


class Ledger(Protocol):
    """Compares a prompt with what its session has sent; changes nothing."""

    def compare(self, prompt: Prompt) -> Standing:
        """Say which sections are frozen."""


class Unwritten:
    """The ledger of a session that has sent nothing."""

    def compare(self, prompt: Prompt) -> Standing:  # noqa: ARG002 - nothing was sent, so nothing can differ
        """Say that nothing is frozen."""
        return UNWRITTEN


UNWRITTEN = Standing()
NOTHING_FROZEN: Ledger = Unwritten()
