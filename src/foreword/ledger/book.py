"""The ledger as a stage of the flow: it says what is sent of a prompt, and changes nothing."""

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Protocol

from foreword.frozen import frozen
from foreword.ledger.choice import Moment
from foreword.ledger.compare import begin_anew, compare
from foreword.ledger.line import Base
from foreword.ledger.standing import Standing
from foreword.ledger.state import Frozen, Identity
from foreword.ledger.wanted import Draft, want
from foreword.words import Policy


class Ledger(Protocol):
    """Compares a prompt with what its session has sent; changes nothing."""

    def compare(self, draft: Draft) -> Standing:
        """Say what is sent."""
        ...


class Unwritten:
    """The ledger of a turn that belongs to no session."""

    def compare(self, draft: Draft) -> Standing:
        """Say that nothing is frozen."""
        return Standing(prompt=draft.prompt, base=NO_BASE, identity=NOBODY)


@frozen
class Book:
    """The ledger of a session, opened for one turn."""

    frozen: Frozen | None
    """What was sent; nothing before the first turn."""
    moment: Moment
    edits: Mapping[tuple[str, str], Policy] = field(default_factory=dict)
    """What was decided about single edits, by file and the hash of its text."""
    folded: bool = False
    """Whether the conversation was folded since the last turn."""
    damaged: bool = False
    """Whether there was a ledger that cannot be read any more."""
    taken: tuple[str, ...] = ()
    """What this very turn has said, where it goes on after an interruption: then nothing new can be said."""

    def compare(self, draft: Draft) -> Standing:
        """Compare a prompt with what was sent."""
        wanted = want(draft, self.edits, folded=self.folded)
        if self.taken:
            wanted = replace(wanted, said=(*wanted.said, *self.taken), waits=True)
        return begin_anew(wanted) if self.damaged else compare(self.frozen, wanted, self.moment)


NO_BASE = Base()
NOBODY = Identity()
NOTHING_FROZEN: Ledger = Unwritten()
