"""Fitting: the slower paces first, so that what is cached never depends on what is not."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from foreword.blueprint.slot import Listing
from foreword.budget.menu import can_list, fit_menu, index, index_always, write
from foreword.budget.share import Wish, share
from foreword.budget.verdict import Fitted, Terms, keep
from foreword.errors import BudgetError
from foreword.sources import Filled, Missing, Section
from foreword.sources.section import write_line
from foreword.words import Pace, Placement, Verdict

MENU = "menu"  # the source whose section the budget writes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FittedRun:
    """A run whose every item has its verdict."""

    pace: Pace
    placement: Placement
    items: tuple[Fitted | Missing, ...]

    @property
    def tokens(self) -> int:
        """What the run weighs."""
        return sum([one.tokens for one in self.items if isinstance(one, Fitted)])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fit:
    """The whole prompt, fitted, and the limits it was fitted to."""

    runs: tuple[FittedRun, ...]
    limit: int
    tool_tokens: int


def fit(filled: Sequence[Filled], terms: Terms, conversation: int) -> Fit:
    """Give every item its verdict; static and session runs are fitted once for as long as they are the same."""
    limit = terms.blueprint.budget.limit(terms.meter.facts.window)
    stable = terms.memo.once(fit_stable, terms, *(run for run in filled if run.pace is not Pace.TURN))
    passing = fit_turn([run for run in filled if run.pace is Pace.TURN], terms)
    runs = tuple(passing[id(run)] if run.pace is Pace.TURN else stable[id(run)] for run in filled)
    check_window(terms, limit, conversation)
    return Fit(runs=runs, limit=limit, tool_tokens=terms.tool_tokens)


def check_window(terms: Terms, limit: int, conversation: int) -> None:
    """Fail with the arithmetic when prompt, conversation and answer cannot share the window."""
    budget, window = terms.blueprint.budget, terms.meter.facts.window
    needed = limit + budget.turn + conversation + budget.reserve
    if needed > window:
        raise BudgetError(
            f"the conversation does not fit: system {limit:,} + turn {budget.turn:,} + conversation {conversation:,} "
            f"+ reserve {budget.reserve:,} = {needed:,} tokens, and the window has {window:,}; "
            f"{needed - window:,} are missing. Compact the conversation, or use a model with a larger window."
        )


def fit_turn(runs: Sequence[Filled], terms: Terms) -> dict[int, FittedRun]:
    """Fit what changes with the turn into its own room, so that it presses on nothing else."""
    room = terms.blueprint.budget.turn
    whole = {id(run): keep_run(run, terms) for run in runs}
    if sum([run.tokens for run in whole.values()]) <= room:
        return whole
    wishes = wish([section for run in runs for section in run.sections], terms)
    must = [one for one in wishes if one.section.slot.required]
    left = demand(must, room, f"{room:,} for the slots of a turn")
    rest = [one for one in wishes if not one.section.slot.required]
    why = f"the slots of a turn have {room:,} tokens together"
    fitted = collect([*(keep(one.section, one.wanted) for one in must), *share(rest, left, why, terms)])
    return {id(run): close(run, fitted) for run in runs}


def keep_run(run: Filled, terms: Terms) -> FittedRun:
    """Keep a run as it is."""
    weigh = terms.scale.weigh
    items = [keep(item, weigh(item, item.text)) if isinstance(item, Section) else item for item in run.items]
    return FittedRun(pace=run.pace, placement=run.placement, items=tuple(items))


def fit_stable(terms: Terms, *runs: Filled) -> dict[int, FittedRun]:
    """Fit static slots, then session slots into what is left, then the menu with what did not fit."""
    stage = Stage(terms, runs)
    for pace in (Pace.STATIC, Pace.SESSION):
        stage.fit_pace(pace)
    stage.finish_menu()
    return {id(run): close(run, stage.fitted) for run in runs}


class Stage:
    """The running account of one fit: what is left, what each tier has used, who got what."""

    def __init__(self, terms: Terms, runs: Sequence[Filled]) -> None:
        self.terms = terms
        self.budget = terms.blueprint.budget
        self.limit = self.budget.limit(terms.meter.facts.window)
        self.fitted: dict[int, Fitted] = {}
        self.sections = [(run.pace, section) for run in runs for section in run.sections]
        self.menu = next((section for _, section in self.sections if section.slot.source == MENU), None)
        self.reserved = self.reserve_menu()
        self.left = self.limit - terms.tool_tokens
        self.used_by_tier = dict.fromkeys(self.budget.tiers, 0)

    def reserve_menu(self) -> int:
        """Set aside what the menu could need at most, within its share."""
        if self.menu is None:
            return 0
        weigh, once = self.terms.scale.weigh, self.terms.memo.once
        files = [section for _, section in self.sections if can_list(section)]
        # A file weighs no less in the prompt than its price on the menu, and that weight is known already.
        lines = [write_line(file.path, once(weigh, file, file.text), file.description) for file in files]
        wanted = weigh_lines(self.terms, lines) + once(weigh_lines, self.terms, self.menu.lines)
        return min(int(self.limit * self.budget.menu_share), wanted + once(weigh, self.menu, self.menu.text))

    def fit_pace(self, pace: Pace) -> None:
        """Fit the slots of one pace: the required ones, then tier after tier."""
        sections = [section for its, section in self.sections if its is pace and section is not self.menu]
        wishes = wish(sections, self.terms)
        always = [one for one in wishes if one.section.slot.listed is Listing.ALWAYS]
        self.note(index_always(one.section, one.wanted, self.menu) for one in always)
        must = [one for one in wishes if one.section.slot.required]
        room = self.find_room(pace)
        left = demand(must, room if pace is Pace.SESSION else max(room, self.left - self.reserved), self.spell_out())
        self.note(keep(one.section, one.wanted) for one in must)
        left = min(left, room - sum(one.wanted for one in must))
        rest = [one for one in wishes if one not in always and one not in must]
        order = {tier: at for at, tier in enumerate(self.budget.tiers)}
        for tier, cap in self.budget.tiers.items():
            mine = [one for one in rest if one.section.slot.tier == tier]
            floors = sum(one.floor for one in rest if order[one.section.slot.tier] > order[tier])
            left -= self.fit_tier(tier, cap, mine, left - floors)

    def fit_tier(self, tier: str, cap: float, wishes: Sequence[Wish], room: int) -> int:
        """Fit one tier and return what it used."""
        ceiling = int(cap * self.limit) - self.used_by_tier[tier]
        if ceiling < room:
            why = f"tier {tier} ends at {cap:.0%} of {self.limit:,}".replace("%", " %")
        else:
            why = f"only {max(room, 0):,} of {self.limit:,} tokens are left"
        fitted = [index(one, self.menu) for one in share(wishes, min(ceiling, room), why, self.terms)]
        self.note(fitted)
        used = sum(one.tokens for one in fitted)
        self.used_by_tier[tier] += used
        return used

    def find_room(self, pace: Pace) -> int:
        """Return what the slots of a pace may use; static ones leave a share to the session."""
        if pace is Pace.SESSION or all(its is Pace.STATIC for its, _ in self.sections):
            return self.left - self.reserved
        return self.left - max(int(self.limit * self.budget.session_share), self.reserved)

    def note(self, fitted: Iterable[Fitted]) -> None:
        """Enter verdicts into the account."""
        for one in fitted:
            self.fitted[id(one.item)] = one
            self.left -= one.tokens

    def finish_menu(self) -> None:
        """Write the menu, now that it is known what did not fit."""
        if self.menu is None:
            return
        indexed = [one.item for one in self.fitted.values() if one.verdict is Verdict.INDEXED]
        menu = write(self.menu, indexed, self.terms)
        one = fit_menu(menu, self.reserved, self.terms)
        self.fitted[id(self.menu)] = one
        self.left -= one.tokens

    def spell_out(self) -> str:
        """Show how many tokens there are."""
        window = self.terms.meter.facts.window
        share = f"{self.budget.window_share:.0%}".replace("%", " %")
        return (
            f"{self.limit:,} (the smaller of {self.budget.system:,} and {share} of a window of {window:,}) "
            f"less {self.terms.tool_tokens:,} for tool schemas"
        )


def weigh_lines(terms: Terms, lines: Sequence[str]) -> int:
    """Count lines one by one, which is no less than counting them together."""
    return sum([terms.meter.count(f"{line}\n") for line in lines])


def wish(sections: Sequence[Section], terms: Terms) -> list[Wish]:
    """Weigh what sections would like to have."""
    weigh, once = terms.scale.weigh, terms.memo.once
    return [Wish(section=section, wanted=once(weigh, section, section.text)) for section in sections]


def demand(must: Sequence[Wish], room: int, terms: str) -> int:
    """Take what the required slots need and return the rest, or fail with the arithmetic."""
    needed = sum(one.wanted for one in must)
    if needed > room or room < 0:
        parts = " + ".join(f"{one.section.id} {one.wanted:,}" for one in must) or "nothing"
        raise BudgetError(
            f"the prompt does not fit: the required slots need {needed:,} tokens ({parts}), and {max(room, 0):,} "
            f"are left of {terms}; {needed - room:,} are missing. "
            "Use a model with a larger window, fewer tools, or shorter texts."
        )
    return room - needed


def collect(fitted: Iterable[Fitted]) -> dict[int, Fitted]:
    """Find verdicts again by the item they are about."""
    return {id(one.item): one for one in fitted}


def close(run: Filled, fitted: dict[int, Fitted]) -> FittedRun:
    """Put the verdicts of a run in its order."""
    items = tuple(fitted[id(item)] if isinstance(item, Section) else item for item in run.items)
    return FittedRun(pace=run.pace, placement=run.placement, items=items)
