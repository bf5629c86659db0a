"""Verdicts: what became of an item, what it weighs, and why."""

from typing import Protocol

from foreword.blueprint import Blueprint
from foreword.frozen import frozen
from foreword.memo import Memo
from foreword.sources import Section
from foreword.sources.toolkit import Toolkit
from foreword.tokens import Meter
from foreword.turn import Toolset
from foreword.words import Mode, Verdict


class Scale(Protocol):
    """Weighs a section as it will be rendered, heading and separator included."""

    def weigh(self, section: Section, body: str) -> int:
        """Return the tokens that this body of a section takes in the prompt."""
        ...


@frozen
class Terms:
    """What a fit is made under: the blueprint, the model's meter, the tools, and how things are weighed."""

    blueprint: Blueprint
    mode: Mode
    meter: Meter
    toolkit: Toolkit
    limit: int
    """What static and session slots may use together, tool schemas included."""
    scale: Scale
    memo: Memo
    scratch: Memo
    """What single sections weigh and how they were cut; apart, since there can be many of them."""

    @property
    def tools(self) -> Toolset:
        """The tools that the turn is offered."""
        return self.toolkit.tools

    @property
    def tool_tokens(self) -> int:
        """Tokens of the schemas that are sent as tools, not as text."""
        return self.toolkit.tokens


@frozen
class Fitted:
    """A section with its verdict; the body is what is rendered, or None where nothing is."""

    item: Section
    verdict: Verdict
    reason: str = ""
    body: str | None = None
    wanted: int = 0
    tokens: int = 0


def keep(section: Section, wanted: int) -> Fitted:
    """Keep a section whole; one that only laments a loss is still a loss."""
    verdict = Verdict.DROPPED if section.lost else Verdict.KEPT
    return Fitted(item=section, verdict=verdict, reason=section.note, body=section.text, wanted=wanted, tokens=wanted)


def leave_out(section: Section, wanted: int, verdict: Verdict, reason: str) -> Fitted:
    """Leave a section out of the text, for a reason."""
    said = "; ".join(filter(None, (section.note, reason)))
    return Fitted(item=section, verdict=verdict, reason=said, wanted=wanted)
