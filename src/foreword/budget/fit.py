"""Fitting: the slower paces first, so that what is cached never depends on what is not."""

from collections.abc import Iterable, Sequence

from foreword.blueprint.slot import Room
from foreword.budget.account import Account, spell_out
from foreword.budget.limit import find_caps, hold
from foreword.budget.share import Wish, share, wish
from foreword.budget.verdict import Fitted, Terms
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
    continues: bool = False
    """Whether it goes on with a template that began in the run before."""

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
    stable = terms.memo.once(fit_stable, terms, *[run for run in filled if run.pace is not Pace.TURN])
    turns = tuple([run for run in filled if run.pace is Pace.TURN])
    room = find_room(terms, stable.values(), conversation, find_own(turns, terms))
    passing = terms.scratch.recall((terms, room, turns), lambda: fit_turn(terms, room, turns))
    runs = tuple([passing[id(run)] if run.pace is Pace.TURN else stable[id(run)] for run in filled])
    return Fit(runs=runs, limit=terms.limit, tool_tokens=terms.tool_tokens)


@frozen(eq=True)
class TurnRoom:
    """What the slots of a turn may use, and what their tiers are shares of."""

    left: int
    whole: int
    used: int = 0
    """What the slower slots take of the same room, where there is one room for all."""


def find_own(runs: Iterable[Filled], terms: Terms) -> int:
    """Find what slots with a room of their own may use in this turn."""
    window = terms.meter.facts.window
    return sum([section.slot.find_room(window) for run in runs for section in run.sections])


def find_room(terms: Terms, stable: Iterable[FittedRun], conversation: int, own: int = 0) -> TurnRoom:
    """Find what the slots of a turn may use, or fail with the arithmetic when the window cannot hold the rest."""
    budget, window = terms.blueprint.budget, terms.meter.facts.window
    if budget.turn_room is Room.FIXED:
        turn = budget.turn_limit(window)
        check_window(terms, conversation, terms.limit, turn + own)
        return TurnRoom(left=turn, whole=turn)
    used = terms.tool_tokens + sum([run.tokens for run in stable])
    check_window(terms, conversation, used, 0)
    bound = budget.bound(window)
    whole = max(bound - budget.keep_back(bound) - conversation, budget.turn)
    # The least that a prompt may use is no room that the window does not have.
    left = min(whole - used, window - budget.keep_back(window) - conversation - used)
    return TurnRoom(left=left, whole=whole, used=used)


def check_window(terms: Terms, conversation: int, system: int, turn: int) -> None:
    """Fail with the arithmetic when prompt, conversation and answer cannot share the window."""
    budget, window = terms.blueprint.budget, terms.meter.facts.window
    if conversation <= window - system - turn - budget.reserve:
        return
    reserve = budget.keep_back(window)
    fixed = system + turn + reserve
    if fixed + conversation <= window:
        return
    remedy = "Compact the conversation, or use" if fixed < window else "Use"
    raise BudgetError(
        f"the window is too small: {system:,} for the system prompt + {turn:,} for the turn + {reserve:,} "
        f"for the answer + conversation {conversation:,} = {fixed + conversation:,} tokens, and it has {window:,}; "
        f"{fixed + conversation - window:,} are missing. {remedy} a model with a larger window."
    )


def fit_turn(terms: Terms, room: TurnRoom, runs: Sequence[Filled]) -> dict[int, FittedRun]:
    """Fit what changes with the turn into its own room, so that it presses on nothing else."""
    tiers = terms.blueprint.budget.turn_tiers
    whole = {id(run): keep_run(run, terms) for run in runs}
    own = find_own(runs, terms)
    if not tiers and not own and sum([run.tokens for run in whole.values()]) <= room.left:
        return whole
    every = wish([section for run in runs for section in run.sections], terms)
    wishes = [one for one in every if not one.section.slot.room]
    must = [one for one in wishes if one.section.slot.required]
    rest = [one for one in wishes if not one.section.slot.required]
    bases = sum(one.base for one in rest)
    left = room.left - sum(one.wanted for one in must)
    if bases > left and (must or bases):
        pool = "the budget of the whole prompt" if room.used else "the budget of a turn"
        raise BudgetError(spell_out({"the system prompt": room.used}, wishes, pool, room.left + room.used))
    kept = [one.whole for one in must]
    shared = share_tiers(rest, left, room.whole, terms) if tiers else share_turn(rest, left, room.left, terms)
    apart = [fitted for one in every if one.section.slot.room for fitted in share_own(one, terms)]
    fitted = {id(one.item): one for one in (*kept, *shared, *apart)}
    return {id(run): close(run, fitted) for run in runs}


def share_own(one: Wish, terms: Terms) -> list[Fitted]:
    """Fit a section into the room of its own slot."""
    room = one.section.slot.find_room(terms.meter.facts.window)
    return share([one], room, f"its slot has {room:,} tokens of its own", terms)


def share_turn(wishes: Sequence[Wish], left: int, room: int, terms: Terms) -> list[Fitted]:
    """Let all slots of a turn share alike."""
    return share(wishes, left, f"the slots of a turn have {room:,} tokens together", terms)


def share_tiers(wishes: Sequence[Wish], left: int, whole: int, terms: Terms) -> list[Fitted]:
    """Serve the slots of a turn tier after tier, each within its share of what the prompt may use."""
    fitted: list[Fitted] = []
    later = sum(one.base for one in wishes)
    for tier, cap in terms.blueprint.budget.turn_tiers.items():
        mine = [one for one in wishes if one.section.slot.tier == tier]
        bases = sum(one.base for one in mine)
        later -= bases
        most = min(max(int(cap * whole), bases), left - later)
        why = f"tier {tier} has {max(most, 0):,} of {whole:,} tokens"
        served = share(mine, most, why, terms)
        left -= sum(one.tokens for one in served)
        fitted += served
    return fitted


def keep_run(run: Filled, terms: Terms) -> FittedRun:
    """Keep a run as it is, within the limits of its slots."""
    caps = find_caps(run.sections)
    items = [hold(item, caps.get(id(item)), terms) if isinstance(item, Section) else item for item in run.items]
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
    return FittedRun(pace=run.pace, placement=run.placement, items=items, continues=run.continues)
