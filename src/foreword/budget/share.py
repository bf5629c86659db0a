"""Sharing: who gets how much of a tier, fairly or in order."""

from collections.abc import Sequence

from foreword.blueprint.slot import Cut, Fitting, Listing
from foreword.budget.limit import find_caps, hold
from foreword.budget.shorten import shorten_once, write_stub
from foreword.budget.verdict import Fitted, Terms, leave_out
from foreword.frozen import frozen
from foreword.sources import Section
from foreword.words import Verdict


@frozen
class Wish:
    """A section and the tokens it would like to have."""

    whole: Fitted
    """What it would be with all the room there is: itself, or as much as its slot's limit allows."""
    stub: int = 0
    """What it takes to say that it was left out."""
    cap: int | None = None
    """The most characters that its slot's limits allow it, whatever room there is."""

    @property
    def section(self) -> Section:
        """The section itself."""
        return self.whole.item

    @property
    def wanted(self) -> int:
        """The tokens it would like to have."""
        return self.whole.wanted

    @property
    def base(self) -> int:
        """The tokens without which it would be lost in silence."""
        return min(self.stub, self.wanted)

    @property
    def floor(self) -> int:
        """The tokens that no other slot can take from it."""
        return min(max(self.section.slot.floor, self.stub), self.wanted)


def wish(sections: Sequence[Section], terms: Terms, *, menu: bool = False) -> list[Wish]:
    """Weigh what sections would like to have, and what saying their loss would take; a menu line says it by itself."""
    once, caps = terms.scratch.once, find_caps(sections)
    return [
        Wish(
            whole=hold(section, caps[id(section)], terms) if id(section) in caps else once(hold, section, None, terms),
            stub=0 if menu and can_list(section) else once(weigh_stub, section, terms),
            cap=caps.get(id(section)),
        )
        for section in sections
    ]


def can_list(section: Section) -> bool:
    """Whether a section may move to the menu: a file, of a slot that allows it."""
    return bool(section.path) and section.slot.listed is not Listing.NEVER


def weigh_stub(section: Section, terms: Terms) -> int:
    """Weigh the line that stands where a section was left out, or the heading alone where others stand under it."""
    stub = write_stub(section, terms)
    return terms.scale.weigh(section, stub) if stub or section.leads else 0


def share(wishes: Sequence[Wish], room: int, why: str, terms: Terms) -> list[Fitted]:
    """Divide the room of one tier among its sections; what cannot be useful in its part is left out."""
    if sum(one.wanted for one in wishes) <= room:
        return [one.whole for one in wishes]
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
    staying = choose_staying(wishes, room, terms)
    while True:
        kept = {id(one) for one in staying}
        out = [one for one in wishes if id(one) not in kept]
        parts = level(staying, room - sum(one.base for one in out))
        fitted = [settle(one, part, why, terms) for one, part in zip(staying, parts, strict=True)]
        lost = {id(one.item) for one in fitted if one.verdict is Verdict.DROPPED}
        if not lost:
            break
        staying = [one for one in staying if id(one.section) not in lost]
    settled = {id(one.item): one for one in fitted}
    everyone = zip(wishes, level(wishes, room), strict=True)
    shared = [settled.get(id(one.section)) or lose(one, part, why, terms) for one, part in everyone]
    return restore(shared, wishes, room)


def restore(shared: Sequence[Fitted], wishes: Sequence[Wish], room: int) -> list[Fitted]:
    """Put back what was left out and fits whole into the room that is still free."""
    free = room - sum(one.tokens for one in shared)
    restored = []
    for fitted, one in zip(shared, wishes, strict=True):
        fits = fitted.verdict is Verdict.DROPPED and not one.section.lost and one.wanted - fitted.tokens <= free
        free -= one.wanted - fitted.tokens if fits else 0
        restored.append(one.whole if fits else fitted)
    return restored


def choose_staying(wishes: Sequence[Wish], room: int, terms: Terms) -> list[Wish]:
    """Choose as many as can each have a useful part; of those that cannot, the last ones go."""
    parts = level(wishes, room)
    poor = [one for one, part in zip(wishes, parts, strict=True) if not is_useful(one, part, terms)]
    low, high = 0, len(poor)
    while low < high:
        middle = (low + high + 1) // 2
        gone = {id(one) for one in poor[middle:]}
        staying = [one for one in wishes if id(one) not in gone]
        left = room - sum(one.base for one in poor[middle:])
        fits = zip(staying, level(staying, left), strict=True)
        low, high = (middle, high) if all(is_useful(one, part, terms) for one, part in fits) else (low, middle - 1)
    gone = {id(one) for one in poor[low:]}
    return [one for one in wishes if id(one) not in gone]


def is_useful(one: Wish, part: int, terms: Terms) -> bool:
    """Whether a part is enough for a section to be whole, or to be worth shortening."""
    budget, slot = terms.blueprint.budget, one.section.slot
    least = min(budget.least, slot.floor or budget.least)
    return one.wanted <= part or (part >= least and slot.cut is not Cut.NEVER)


def level(wishes: Sequence[Wish], room: int) -> list[int]:
    """Return the largest equal parts that together fit into the room: beyond the floors, or below them if need be.

    A section without a floor then counts like the one with the highest, so that a short one is not the first to go.
    """
    floors = [one.floor for one in wishes]
    if sum(floors) <= room:
        return pour(floors, [one.wanted for one in wishes], room)
    bases = [one.base for one in wishes]
    most = [one.floor or min(one.wanted, max(floors)) for one in wishes]
    return pour(bases if sum(bases) <= room else [0] * len(bases), most, max(room, 0))


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
        return one.whole
    shortened = shorten_once(section, part, terms, one.cap) if is_useful(one, part, terms) else None
    if shortened is None:
        return lose(one, part, why, terms)
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


def lose(one: Wish, part: int, why: str, terms: Terms) -> Fitted:
    """Drop a section because of its part."""
    return drop(one, one.base, f"{why}; wants {one.wanted:,}, and its part is {max(part, 0):,}", terms)


def drop(one: Wish, room: int, reason: str, terms: Terms) -> Fitted:
    """Leave a section out, with a line in its place that tells the model so where the blueprint has one."""
    gone = leave_out(one.section, one.wanted, Verdict.DROPPED, reason)
    if not one.stub or one.stub > room:
        return gone
    return Fitted(
        item=one.section,
        verdict=Verdict.DROPPED,
        reason=gone.reason,
        body=write_stub(one.section, terms),
        wanted=one.wanted,
        tokens=one.stub,
    )
