"""The account of a fit: what there is, who must have some of it, who got what."""

from collections.abc import Iterable, Sequence

from foreword.blueprint.slot import Listing
from foreword.budget.menu import fit_menu, index, index_always, write
from foreword.budget.share import Wish, can_list, share, weigh_stub, wish
from foreword.budget.verdict import Fitted, Terms, leave_out
from foreword.errors import BudgetError
from foreword.sources import Filled, Section
from foreword.sources.tooling import SCHEMAS
from foreword.words import Pace, Verdict

MENU = "menu"  # the source whose section the budget writes


class Account:
    """Fits static slots by themselves, then session slots into what is left, then the menu with what did not fit.

    The tool schemas were chosen for their own part of the budget, and a turn cannot call a tool without its schema. So
    those that are part of the text are paid first, as those beside the prompt are.
    """

    def __init__(self, terms: Terms, runs: Sequence[Filled], *, overflow: bool) -> None:
        self.terms = terms
        self.budget = terms.blueprint.budget
        self.limit = terms.limit
        self.left = self.limit - terms.tool_tokens
        self.fitted: dict[int, Fitted] = {}
        self.used_by_tier = dict.fromkeys(self.budget.tiers, 0)
        every = [(run.pace, section) for run in runs for section in run.sections]
        self.note(one.whole for one in wish([one for _, one in every if one.slot.source == SCHEMAS], terms))
        self.spent = {"tool schemas": self.limit - self.left}
        sections = [(pace, section) for pace, section in every if section.slot.source != SCHEMAS]
        self.menu = next((section for _, section in sections if section.slot.source == MENU), None)
        self.listable: list[Wish] = []
        self.overflows = False
        for pace in (Pace.STATIC, Pace.SESSION):
            mine = [section for its, section in sections if its is pace and section is not self.menu]
            self.fit_pace(pace, wish(mine, terms, menu=self.menu is not None), overflow=overflow)
        self.finish_menu()

    def fit_pace(self, pace: Pace, wishes: Sequence[Wish], *, overflow: bool) -> None:
        """Fit the slots of one pace: the required ones, those for the menu, then tier after tier."""
        self.listable += [one for one in wishes if can_list(one.section)]
        self.reserved = self.reserve_menu(wishes, overflow=overflow) if pace is Pace.SESSION else 0
        rest = self.demand(wishes)
        self.note(index_always(one, self.menu, self.terms) for one in rest if is_always_listed(one))
        rest = [one for one in rest if not is_always_listed(one)]
        room, pool = self.find_room(pace, rest)
        order = {tier: at for at, tier in enumerate(self.budget.tiers)}
        for tier in self.budget.tiers:
            mine = [one for one in rest if one.section.slot.tier == tier]
            later = [one for one in rest if order[one.section.slot.tier] > order[tier]]
            wanted = max(room - sum(one.floor for one in later), sum(one.base for one in mine))
            room -= self.fit_tier(tier, mine, min(wanted, room - sum(one.base for one in later)), pool)
        self.spent |= {one.section.id: one.wanted for one in wishes if one.section.slot.required}
        names = ", ".join(one.section.id for one in rest)
        self.spent[f"{pace} slots ({names})"] = self.limit - self.left - sum(self.spent.values())

    def demand(self, wishes: Sequence[Wish]) -> list[Wish]:
        """Give the required slots what they need and return the others, or fail with the arithmetic."""
        must = [one for one in wishes if one.section.slot.required]
        rest = [one for one in wishes if not one.section.slot.required]
        bases = sum(one.base for one in rest)
        if sum(one.wanted for one in must) + bases > self.left - self.reserved:
            source = self.budget.spell_limit(self.terms.meter.facts.window)
            spent = {**self.spent, "menu": self.reserved}
            raise BudgetError(spell_out(spent, wishes, f"the system budget, {source},", self.limit))
        self.note(one.whole for one in must)
        return rest

    def reserve_menu(self, wishes: Sequence[Wish], *, overflow: bool) -> int:
        """Set aside what the menu could need, within its share and what is left, but no less than its stub."""
        files = [one for one in self.listable if overflow or is_always_listed(one)]
        menu = self.menu
        if menu is None or not (files or menu.lines):
            return 0
        sections = tuple(one.section for one in files)
        wanted, stub = self.terms.scratch.recall(
            ("longest", self.terms, menu, sections), lambda: weigh_menu(menu, sections, self.terms)
        )
        needed = sum(one.wanted if one.section.slot.required else one.base for one in wishes)
        most = min(int(self.limit * self.budget.menu_share), self.left - needed)
        return min(wanted, max(most, stub))

    def fit_tier(self, tier: str, wishes: Sequence[Wish], room: int, pool: str) -> int:
        """Fit one tier and return what it used."""
        cap = self.budget.tiers[tier]
        ceiling = max(int(cap * self.limit) - self.used_by_tier[tier], sum(one.base for one in wishes))
        why = f"tier {tier} ends at {cap:.0%} of {self.limit:,}".replace("%", " %") if ceiling < room else pool
        fitted = [index(one, self.menu) for one in share(wishes, min(ceiling, room), why, self.terms)]
        self.overflows |= any(one.verdict is Verdict.INDEXED for one in fitted)
        self.note(fitted)
        used = sum(one.tokens for one in fitted)
        self.used_by_tier[tier] += used
        return used

    def find_room(self, pace: Pace, wishes: Sequence[Wish]) -> tuple[int, str]:
        """Return what the optional slots of a pace may use, and in words why it is so much."""
        left = self.left - self.reserved
        if pace is Pace.SESSION:
            return left, f"session slots have {left:,} of {self.limit:,} tokens"
        # What static slots leave follows from the blueprint, so that their bytes never depend on who is speaking.
        slots = [slot for slot in self.terms.blueprint.slots if slot.pace is Pace.SESSION]
        if any(self.terms.mode in slot.modes for slot in slots):
            left = max(left - int(self.limit * self.budget.session_share), sum(one.base for one in wishes))
        return left, f"static slots have {left:,} of {self.limit:,} tokens"

    def note(self, fitted: Iterable[Fitted]) -> None:
        """Enter verdicts into the account."""
        for one in fitted:
            self.fitted[id(one.item)] = one
            self.left -= one.tokens

    def finish_menu(self) -> None:
        """Write the menu, now that it is known what did not fit; a loss stays a loss if the menu is one itself."""
        if self.menu is None:
            return
        indexed = [one for one in self.fitted.values() if one.verdict is Verdict.INDEXED]
        menu, listed = self.menu, tuple(one.item for one in indexed)
        fitted = self.terms.scratch.recall(
            ("menu", self.terms, menu, listed, self.reserved),
            lambda: fit_menu(write(menu, listed, self.terms), menu.text, self.reserved, self.terms),
        )
        self.fitted[id(self.menu)] = fitted
        if fitted.body is None and fitted.verdict is Verdict.DROPPED:
            for one in indexed:
                reason = f"{one.reason}, which does not fit either"
                self.fitted[id(one.item)] = leave_out(one.item, one.wanted, Verdict.DROPPED, reason)


def is_always_listed(one: Wish) -> bool:
    """Whether a section belongs on the menu and nowhere else."""
    return one.section.slot.listed is Listing.ALWAYS


def spell_out(spent: dict[str, int], wishes: Sequence[Wish], pool: str, limit: int) -> str:
    """Write the arithmetic of a prompt that does not fit."""
    must = {one.section.id: one.wanted for one in wishes if one.section.slot.required}
    rest = [one for one in wishes if not one.section.slot.required and one.base]
    naming = f"naming what is left out ({', '.join(one.section.id for one in rest)})"
    sums = {**spent, **must, naming: sum(one.base for one in rest)}
    needed = sum(sums.values())
    parts = " + ".join(f"{name} {tokens:,}" for name, tokens in sums.items() if tokens)
    return (
        f"the prompt does not fit: {parts} = {needed:,} tokens, and {pool} has {limit:,}; "
        f"{needed - limit:,} are missing. Use a model with a larger window, fewer tools, or shorter texts."
    )


def weigh_menu(menu: Section, sections: Sequence[Section], terms: Terms) -> tuple[int, int]:
    """Weigh the menu with these sections on it, and the line that would stand where it was left out."""
    longest = write(menu, sections, terms)
    return terms.scale.weigh(longest, longest.text), weigh_stub(longest, terms)
