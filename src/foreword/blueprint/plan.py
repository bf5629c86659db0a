"""The plan of a turn: the slots it may have, decided before anything is read."""

from foreword.blueprint.slot import Blueprint, Slot
from foreword.frozen import frozen
from foreword.trust import Clearance
from foreword.words import Mode, Pace, Placement, Trust, Verdict


@frozen
class Planned:
    """A slot, or one of several in it, with what may be read for it, or why nothing may."""

    slot: Slot
    id: str
    trust: Trust
    paths: tuple[str, ...] = ()
    folder: str = ""
    text: str = ""
    template: bool = False
    """Whether the file is one whose variables are filled in."""
    personal: bool = False
    """Whether the file depends on who is speaking, or where."""
    verdict: Verdict | None = None
    reason: str = ""


@frozen
class Run:
    """Neighbouring slots of one pace and one placement; they are cached, or not, together."""

    pace: Pace
    placement: Placement
    entries: tuple[Planned, ...]


@frozen
class Plan:
    """Every slot of a blueprint, in the order of the text, each with its permission."""

    blueprint: Blueprint
    clearance: Clearance
    mode: Mode
    runs: tuple[Run, ...]
    warnings: tuple[str, ...] = ()
    """What went wrong while it was made, for the owner."""
