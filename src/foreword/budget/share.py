"""Sharing: who gets how much of a tier, fairly or in order."""

from collections.abc import Sequence
from dataclasses import dataclass

from foreword.blueprint.slot import Cut, Fitting
from foreword.budget.shorten import shorten_once
from foreword.budget.verdict import Fitted, Terms, keep, leave_out
from foreword.sources import Section
from foreword.words import Verdict


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wish:
    """A section and the tokens it would like to have."""

    section: Section
    wanted: int

    @property
    def floor(self) -> int:
        """The tokens that no other slot can take from it."""
        return min(self.section.slot.floor, self.wanted)


def share(wishes: Sequence[Wish], room: int, why: str, terms: Terms) -> list[Fitted]:
    """Divide the room of one tier among its sections; what cannot be useful in its part is left out."""
    if sum(wish.wanted for wish in wishes) <= room:
        return [keep(wish.section, wish.wanted) for wish in wishes]
    if terms.blueprint.budget.fitting is Fitting.SEQUENTIAL:
        return share_in_order(wishes, room, why, terms)
    return share_fairly(wishes, room, why, terms)


def share_in_order(wishes: Sequence[Wish], room: int, why: str, terms: Terms) -> list[Fitted]:
    """Serve each section from what the ones before it left."""
    fitted = []
    for wish in wishes:
        one = settle(wish, min(room, wish.wanted), why, terms)
        room -= one.tokens
        fitted.append(one)
    return fitted


def share_fairly(wishes: Sequence[Wish], room: int, why: str, terms: Terms) -> list[Fitted]:
    """Give everybody the same level, and what the small ones do not need to the large ones."""
    staying = list(wishes)
    while staying:
        parts = level(staying, room)
        fitted = {id(wish): settle(wish, part, why, terms) for wish, part in zip(staying, parts, strict=True)}
        out = [wish for wish in staying if fitted[id(wish)].body is None]
        if not out:
            break
        # The last one to get nothing useful goes first: its part may save the others.
        staying.remove(out[-1])
    else:
        fitted = {}
    return [fitted[id(wish)] if wish in staying else settle(wish, 0, why, terms) for wish in wishes]


def level(wishes: Sequence[Wish], room: int) -> list[int]:
    """Return the largest equal parts, floors first, that together fit into the room."""
    parts = [wish.floor for wish in wishes]
    left = room - sum(parts)
    if left < 0:
        return [max(0, room) * part // max(sum(parts), 1) for part in parts]
    low, high = 0, max((wish.wanted for wish in wishes), default=0)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(max(part, min(wish.wanted, middle)) for wish, part in zip(wishes, parts, strict=True)) <= room:
            low = middle
        else:
            high = middle - 1
    return [max(part, min(wish.wanted, low)) for wish, part in zip(wishes, parts, strict=True)]


def settle(wish: Wish, part: int, why: str, terms: Terms) -> Fitted:
    """Keep a section whole in its part, shorten it to it, or leave it out."""
    section, wanted = wish.section, wish.wanted
    if wanted <= part:
        return keep(section, wanted)
    least = min(terms.blueprint.budget.least, section.slot.floor or terms.blueprint.budget.least)
    useful = part >= least and section.slot.cut is not Cut.NEVER
    shortened = shorten_once(section, part, terms) if useful else None
    if shortened is None:
        return leave_out(
            section, wanted, Verdict.DROPPED, f"{why}; wants {wanted:,}, and {max(part, 0):,} are left for it"
        )
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
