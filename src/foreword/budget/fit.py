"""Fitting: the slower paces first, so that what is cached never depends on what is not."""

from collections.abc import Sequence

from foreword.budget.account import Account, spell_out
from foreword.budget.share import share, wish
from foreword.budget.verdict import Fitted, Terms, keep
from foreword.errors import BudgetError
from foreword.frozen import frozen
from foreword.sources import Filled, Missing, Section
from foreword.words import Pace, Placement


@frozen
class FittedRun:
    """A run whose every item has its verdict."""

    pace: Pace
    placement: Placement
    items: tuple[Fitted | Missing, ...]

    @property
    def tokens(self) -> int:
        """What the run weighs."""
        return sum([one.tokens for one in self.items if isinstance(one, Fitted)])


@frozen
class Fit:
    """The whole prompt, fitted, and the limits it was fitted to."""

    runs: tuple[FittedRun, ...]
    limit: int
    tool_tokens: int


def fit(filled: Sequence[Filled], terms: Terms, conversation: int) -> Fit:
    """Give every item its verdict; what is the same as in another turn is fitted once."""
    check_window(terms, conversation)
    stable = terms.memo.once(fit_stable, terms, *[run for run in filled if run.pace is not Pace.TURN])
    passing = terms.scratch.once(fit_turn, terms, *[run for run in filled if run.pace is Pace.TURN])
    runs = tuple([passing[id(run)] if run.pace is Pace.TURN else stable[id(run)] for run in filled])
    return Fit(runs=runs, limit=terms.limit, tool_tokens=terms.tool_tokens)


def check_window(terms: Terms, conversation: int) -> None:
    """Fail with the arithmetic when prompt, conversation and answer cannot share the window."""
    budget, window, limit = terms.blueprint.budget, terms.meter.facts.window, terms.limit
    if conversation <= window - limit - budget.turn - budget.reserve:
        return
    reserve = budget.keep_back(window)
    fixed = limit + budget.turn + reserve
    if fixed + conversation <= window:
        return
    remedy = "Compact the conversation, or use" if fixed < window else "Use"
    raise BudgetError(
        f"the window is too small: {limit:,} for the system prompt + {budget.turn:,} for the turn + {reserve:,} "
        f"for the answer + conversation {conversation:,} = {fixed + conversation:,} tokens, and it has {window:,}; "
        f"{fixed + conversation - window:,} are missing. {remedy} a model with a larger window."
    )


def fit_turn(terms: Terms, *runs: Filled) -> dict[int, FittedRun]:
    """Fit what changes with the turn into its own room, so that it presses on nothing else."""
    room = terms.blueprint.budget.turn
    whole = {id(run): keep_run(run, terms) for run in runs}
    if sum([run.tokens for run in whole.values()]) <= room:
        return whole
    wishes = wish([section for run in runs for section in run.sections], terms)
    must = [one for one in wishes if one.section.slot.required]
    rest = [one for one in wishes if not one.section.slot.required]
    bases = sum(one.base for one in rest)
    left = room - sum(one.wanted for one in must)
    if bases > left:
        raise BudgetError(spell_out({}, wishes, "the budget of a turn", room))
    why = f"the slots of a turn have {room:,} tokens together"
    kept = [keep(one.section, one.wanted) for one in must]
    fitted = {id(one.item): one for one in (*kept, *share(rest, left, why, terms))}
    return {id(run): close(run, fitted) for run in runs}


def keep_run(run: Filled, terms: Terms) -> FittedRun:
    """Keep a run as it is."""
    weigh = terms.scale.weigh
    items = [keep(item, weigh(item, item.text)) if isinstance(item, Section) else item for item in run.items]
    return FittedRun(pace=run.pace, placement=run.placement, items=tuple(items))


def fit_stable(terms: Terms, *runs: Filled) -> dict[int, FittedRun]:
    """Fit what is cached; room on the menu for files that overflow is set aside only once one does."""
    account = Account(terms, runs, overflow=False)
    if account.overflows:
        account = Account(terms, runs, overflow=True)
    return {id(run): close(run, account.fitted) for run in runs}


def close(run: Filled, fitted: dict[int, Fitted]) -> FittedRun:
    """Put the verdicts of a run in its order."""
    items = tuple(fitted[id(item)] if isinstance(item, Section) else item for item in run.items)
    return FittedRun(pace=run.pace, placement=run.placement, items=items)
