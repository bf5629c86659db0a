"""Sharing: who gets how much of a tier, fairly or in order."""

from collections.abc import Sequence

from foreword.blueprint.slot import Cut, Fitting
from foreword.budget.shorten import shorten_once, write_stub
from foreword.budget.verdict import Fitted, Terms, keep, leave_out
from foreword.frozen import frozen
from foreword.sources import Section
from foreword.words import Verdict


@frozen
class Wish:
    """A section and the tokens it would like to have."""

    section: Section
    wanted: int
    stub: int = 0
    """What it takes to say that it was left out."""

    @property
    def base(self) -> int:
        """The tokens without which it would be lost in silence."""
        return min(self.stub, self.wanted)

    @property
    def floor(self) -> int:
        """The tokens that no other slot can take from it."""
        return min(max(self.section.slot.floor, self.stub), self.wanted)


def wish(sections: Sequence[Section], terms: Terms) -> list[Wish]:
    """Weigh what sections would like to have, and what saying their loss would take."""
    weigh, once = terms.scale.weigh, terms.memo.once
    return [
        Wish(section=section, wanted=once(weigh, section, section.text), stub=once(weigh_stub, section, terms))
        for section in sections
    ]


def weigh_stub(section: Section, terms: Terms) -> int:
    """Weigh the line that stands where a section was left out."""
    stub = write_stub(section, terms)
    return terms.scale.weigh(section, stub) if stub else 0


def share(wishes: Sequence[Wish], room: int, why: str, terms: Terms) -> list[Fitted]:
    """Divide the room of one tier among its sections; what cannot be useful in its part is left out."""
    if sum(one.wanted for one in wishes) <= room:
        return [keep(one.section, one.wanted) for one in wishes]
    if terms.blueprint.budget.fitting is Fitting.SEQUENTIAL:
        return share_in_order(wishes, room, why, terms)
    return share_fairly(wishes, room, why, terms)


def share_in_order(wishes: Sequence[Wish], room: int, why: str, terms: Terms) -> list[Fitted]:
    """Serve each section from what the ones before it left, the bases of the ones behind it aside."""
    behind = sum(one.base for one in wishes)
    fitted = []
    for one in wishes:
        behind -= one.base
        settled = settle(one, min(room - behind, one.wanted), why, terms)
        room -= settled.tokens
        fitted.append(settled)
    return fitted


def share_fairly(wishes: Sequence[Wish], room: int, why: str, terms: Terms) -> list[Fitted]:
    """Give everybody the same level, and what the small ones do not need to the large ones."""
    staying = list(wishes)
    settled: dict[int, Fitted] = {}
    while staying:
        fitted = [settle(one, part, why, terms) for one, part in zip(staying, level(staying, room), strict=True)]
        lost = [at for at, one in enumerate(fitted) if one.verdict is Verdict.DROPPED]
        if not lost:
            settled |= {id(one.item): one for one in fitted}
            break
        # The last one to get nothing useful goes first: its part may save the others.
        gone = fitted[lost[-1]]
        settled[id(gone.item)] = gone
        room -= gone.tokens
        del staying[lost[-1]]
    return [settled[id(one.section)] for one in wishes]


def level(wishes: Sequence[Wish], room: int) -> list[int]:
    """Return the largest equal parts that together fit into the room: beyond the floors, or below them if need be."""
    floors = [one.floor for one in wishes]
    if sum(floors) <= room:
        return pour(floors, [one.wanted for one in wishes], room)
    bases = [one.base for one in wishes]
    return pour(bases if sum(bases) <= room else [0] * len(bases), floors, max(room, 0))


def pour(least: Sequence[int], most: Sequence[int], room: int) -> list[int]:
    """Raise everybody to one level, nobody below their least or above their most."""
    low, high = 0, max(most, default=0)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(max(few, min(many, middle)) for few, many in zip(least, most, strict=True)) <= room:
            low = middle
        else:
            high = middle - 1
    return [max(few, min(many, low)) for few, many in zip(least, most, strict=True)]


def settle(one: Wish, part: int, why: str, terms: Terms) -> Fitted:
    """Keep a section whole in its part, shorten it to it, or leave it out."""
    section, wanted = one.section, one.wanted
    if wanted <= part:
        return keep(section, wanted)
    least = min(terms.blueprint.budget.least, section.slot.floor or terms.blueprint.budget.least)
    useful = part >= least and section.slot.cut is not Cut.NEVER
    shortened = shorten_once(section, part, terms) if useful else None
    if shortened is None:
        return drop(one, part, f"{why}; wants {wanted:,}, and {max(part, 0):,} are left for it", terms)
    rest = f"; rest: {shortened.call}" if shortened.call else ""
    reason = "; ".join(filter(None, (section.note, f"{why}; wants {wanted:,}{rest}")))
    return Fitted(
        item=section,
        verdict=Verdict.SHORTENED,
        reason=reason,
        body=shortened.body,
        wanted=wanted,
        tokens=shortened.tokens,
    )


def drop(one: Wish, part: int, reason: str, terms: Terms) -> Fitted:
    """Leave a section out, with a line in its place that tells the model so where the blueprint has one."""
    gone = leave_out(one.section, one.wanted, Verdict.DROPPED, reason)
    if not one.stub or one.stub > part:
        return gone
    return Fitted(
        item=one.section,
        verdict=Verdict.DROPPED,
        reason=gone.reason,
        body=write_stub(one.section, terms),
        wanted=one.wanted,
        tokens=one.stub,
    )
