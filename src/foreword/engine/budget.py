"""Fit the sections of a prompt into its budget: static slots, then session slots and the menu, then the turn's slots.

Slower paces are fitted first, because cached text must not depend on the turn.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from foreword.engine.blueprint import CutStyle, MenuListing, SharingOrder, TurnRoomKind
from foreword.engine.cuts import (
    FitInputs,
    Fitted,
    apply_char_limit,
    find_char_limits,
    omit_section,
    shorten,
    write_stub,
)
from foreword.engine.sources.sections import FilledRun, Missing, Section, join_notes, write_menu_line
from foreword.engine.sources.toolkit import SCHEMAS_SOURCE
from foreword.errors import BudgetError
from foreword.types import Pace, Placement, Verdict, frozen


@frozen
class TokenDemand:
    """A section and the tokens it wants."""

    whole: Fitted
    """The verdict with unlimited room: the whole section, or as much as its slot's character limit allows."""
    stub: int = 0
    """The tokens of the stub that replaces it when it is left out."""
    cap: int | None = None
    """The maximum characters that its slot's limits allow."""

    @property
    def section(self) -> Section:
        """The section."""
        return self.whole.item

    @property
    def wanted(self) -> int:
        """The tokens of the whole section."""
        return self.whole.wanted

    @property
    def base(self) -> int:
        """The tokens it needs at least, so that its loss is not silent."""
        return min(self.stub, self.wanted)

    @property
    def floor(self) -> int:
        """The tokens that no other slot can take from it."""
        return min(max(self.section.slot.floor, self.stub), self.wanted)


def measure_demands(sections: Sequence[Section], inputs: FitInputs, *, menu: bool = False) -> list[TokenDemand]:
    """Count the tokens that sections want, and those of their stubs; a section on the menu needs no stub."""
    caps = find_char_limits(sections)
    demands = []
    for section in sections:
        stub = 0 if menu and can_list(section) else count_stub_tokens(section, inputs)
        cap = caps.get(section)
        demands.append(TokenDemand(whole=apply_char_limit(section, cap, inputs), stub=stub, cap=cap))
    return demands


def can_list(section: Section) -> bool:
    """Return whether a section may move to the menu: it is a file, and its slot allows it."""
    return bool(section.path) and section.slot.listed is not MenuListing.NEVER


def count_stub_tokens(section: Section, inputs: FitInputs) -> int:
    """Count the tokens of a section's stub, or of its heading alone where other sections follow under it."""
    stub = write_stub(section, inputs)
    return inputs.layout.weigh(section, stub) if stub or section.leads else 0


def share_room(wishes: Sequence[TokenDemand], room: int, why: str, inputs: FitInputs) -> list[Fitted]:
    """Share the room of one tier among its sections; a section whose part would be too small is left out."""
    if sum(one.wanted for one in wishes) <= room:
        return [one.whole for one in wishes]
    if inputs.blueprint.budget.fitting is SharingOrder.SEQUENTIAL:
        return share_in_order(wishes, room, why, inputs)
    return share_fairly(wishes, room, why, inputs)


def share_in_order(wishes: Sequence[TokenDemand], room: int, why: str, inputs: FitInputs) -> list[Fitted]:
    """Serve the sections in order, each from what the earlier ones left, minus the bases of the later ones."""
    behind = sum(one.base for one in wishes)
    fitted = []
    for one in wishes:
        behind -= one.base
        settled = fit_section(one, min(room - behind, one.wanted), why, inputs)
        room -= settled.tokens
        fitted.append(settled)
    return fitted


def share_fairly(wishes: Sequence[TokenDemand], room: int, why: str, inputs: FitInputs) -> list[Fitted]:
    """Give every section the same level, and what small sections do not need to the large ones."""
    staying = choose_retained(wishes, room, inputs)
    while True:
        dropped = set(wishes).difference(staying)
        parts = compute_parts(staying, room - sum(one.base for one in dropped))
        fitted = [fit_section(one, part, why, inputs) for one, part in zip(staying, parts, strict=True)]
        lost = {one.item for one in fitted if one.verdict is Verdict.DROPPED}
        if not lost:
            break
        staying = [one for one in staying if one.section not in lost]
    settled = {one.item: one for one in fitted}
    everyone = zip(wishes, compute_parts(wishes, room), strict=True)
    shared = [settled.get(one.section) or drop_for_part(one, part, why, inputs) for one, part in everyone]
    return restore_dropped(shared, wishes, room)


def restore_dropped(shared: Sequence[Fitted], wishes: Sequence[TokenDemand], room: int) -> list[Fitted]:
    """Restore dropped sections that fit whole into the room that is still free."""
    free = room - sum(one.tokens for one in shared)
    restored = []
    for fitted, one in zip(shared, wishes, strict=True):
        fits = fitted.verdict is Verdict.DROPPED and not one.section.lost and one.wanted - fitted.tokens <= free
        free -= one.wanted - fitted.tokens if fits else 0
        restored.append(one.whole if fits else fitted)
    return restored


def choose_retained(wishes: Sequence[TokenDemand], room: int, inputs: FitInputs) -> list[TokenDemand]:
    """Choose as many sections as can each get a useful part; of the others, the last ones are dropped first."""
    parts = compute_parts(wishes, room)
    poor = [one for one, part in zip(wishes, parts, strict=True) if not is_useful(one, part, inputs)]
    low, high = 0, len(poor)
    while low < high:
        middle = (low + high + 1) // 2
        dropped = set(poor[middle:])
        staying = [one for one in wishes if one not in dropped]
        left = room - sum(one.base for one in poor[middle:])
        fits = zip(staying, compute_parts(staying, left), strict=True)
        low, high = (middle, high) if all(is_useful(one, part, inputs) for one, part in fits) else (low, middle - 1)
    dropped = set(poor[low:])
    return [one for one in wishes if one not in dropped]


def is_useful(one: TokenDemand, part: int, inputs: FitInputs) -> bool:
    """Return whether a part is enough to keep a section whole or to make shortening it worthwhile."""
    budget, slot = inputs.blueprint.budget, one.section.slot
    least = min(budget.least, slot.floor or budget.least)
    return one.wanted <= part or (part >= least and slot.cut is not CutStyle.NEVER)


def compute_parts(wishes: Sequence[TokenDemand], room: int) -> list[int]:
    """Return the largest equal parts that fit into the room: above the floors, or below them if necessary.

    Below them, a section without a floor counts like the one with the highest, so that short sections do not go first.
    """
    floors = [one.floor for one in wishes]
    if sum(floors) <= room:
        return raise_to_level(floors, [one.wanted for one in wishes], room)
    bases = [one.base for one in wishes]
    most = [one.floor or min(one.wanted, max(floors)) for one in wishes]
    return raise_to_level(bases if sum(bases) <= room else [0] * len(bases), most, max(room, 0))


def raise_to_level(least: Sequence[int], most: Sequence[int], room: int) -> list[int]:
    """Raise all parts to one level, each within its minimum and maximum."""
    low, high = 0, max(most, default=0)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(max(few, min(many, middle)) for few, many in zip(least, most, strict=True)) <= room:
            low = middle
        else:
            high = middle - 1
    return [max(few, min(many, low)) for few, many in zip(least, most, strict=True)]


def fit_section(one: TokenDemand, part: int, why: str, inputs: FitInputs) -> Fitted:
    """Keep a section whole if it fits its part, otherwise shorten it or drop it."""
    section, wanted = one.section, one.wanted
    if wanted <= part:
        return one.whole
    shortened = shorten(section, part, inputs, one.cap) if is_useful(one, part, inputs) else None
    if shortened is None:
        return drop_for_part(one, part, why, inputs)
    rest = f"; rest: {shortened.call}" if shortened.call else ""
    reason = join_notes(section.note, f"{why}; wants {wanted:,}{rest}")
    body, tokens = shortened.body, shortened.tokens
    return Fitted(item=section, verdict=Verdict.SHORTENED, reason=reason, body=body, wanted=wanted, tokens=tokens)


def drop_for_part(one: TokenDemand, part: int, why: str, inputs: FitInputs) -> Fitted:
    """Drop a section because its part is too small."""
    return drop_section(one, one.base, f"{why}; wants {one.wanted:,}, and its part is {max(part, 0):,}", inputs)


def drop_section(one: TokenDemand, room: int, reason: str, inputs: FitInputs) -> Fitted:
    """Drop a section, and put the blueprint's stub in its place if there is one and it fits."""
    gone = omit_section(one.section, one.wanted, Verdict.DROPPED, reason)
    if not one.stub or one.stub > room:
        return gone
    return replace(gone, body=write_stub(one.section, inputs), tokens=one.stub)


def write_menu(menu: Section, listed: Iterable[Section], inputs: FitInputs) -> Section:
    """Write the menu: workspace files, then stores, then how to load an entry."""
    files = sorted(listed, key=lambda section: section.path)
    priced = [write_menu_line(file.path, inputs.meter.count(file.text), file.description) for file in files]
    lines = [*priced, *menu.lines]
    return replace(menu, text="\n".join([*lines, "", menu.text]) if lines else "", lines=tuple(lines))


def fit_menu(menu: Section, closing: str, room: int, inputs: FitInputs) -> Fitted:
    """Fit the written menu into its reserve; if lines are cut, the loading instructions stay at the end."""
    if not menu.text:
        return omit_section(menu, 0, Verdict.DROPPED if menu.note else Verdict.ABSENT, "there is nothing to list")
    (one,) = measure_demands([menu], inputs)
    if one.wanted <= room:
        return one.whole
    why = "the menu's share is full"
    lines = replace(menu, text="\n".join(menu.lines))
    (part,) = measure_demands([lines], inputs)
    cut = fit_section(part, room - inputs.meter.count(f"\n\n{closing}"), why, inputs)
    if cut.verdict is not Verdict.SHORTENED:
        return drop_section(one, room, f"{why}; wants {one.wanted:,}, and its part is {max(room, 0):,}", inputs)
    body = f"{cut.body}\n\n{closing}"
    return replace(cut, item=menu, body=body, wanted=one.wanted, tokens=inputs.layout.weigh(menu, body))


MENU_SOURCE = "menu"  # the source whose section the budget writes


class StableFit:
    """Fits static slots, then session slots into the rest, then the menu that lists the files that did not fit.

    The tool schemas were already fitted to their share of the budget, and a turn cannot call a tool without its schema.
    So schemas in the text are charged first, like the schemas that are sent as tools.
    """

    def __init__(self, inputs: FitInputs, runs: Sequence[FilledRun], *, overflow: bool) -> None:
        self.inputs, self.budget, self.limit = inputs, inputs.blueprint.budget, inputs.limit
        self.left = self.limit - inputs.tool_tokens
        self.fitted: dict[Section, Fitted] = {}
        self.used_by_tier = dict.fromkeys(self.budget.tiers, 0)
        every = [(run.pace, section) for run in runs for section in run.sections]
        schemas = [section for _, section in every if section.slot.source == SCHEMAS_SOURCE]
        self.note(one.whole for one in measure_demands(schemas, inputs))
        self.spent = {"tool schemas": self.limit - self.left}
        sections = [(pace, section) for pace, section in every if section.slot.source != SCHEMAS_SOURCE]
        self.menu = next((section for _, section in sections if section.slot.source == MENU_SOURCE), None)
        self.listable: list[TokenDemand] = []
        self.overflows = False
        for pace in (Pace.STATIC, Pace.SESSION):
            mine = [section for its, section in sections if its is pace and section is not self.menu]
            self.fit_pace_slots(pace, measure_demands(mine, inputs, menu=self.menu is not None), overflow=overflow)
        self.fit_menu_section()

    def fit_pace_slots(self, pace: Pace, wishes: Sequence[TokenDemand], *, overflow: bool) -> None:
        """Fit the slots of one pace: the required ones, the ones for the menu, then tier by tier."""
        self.listable += [one for one in wishes if can_list(one.section)]
        self.reserved = self.reserve_menu(wishes, overflow=overflow) if pace is Pace.SESSION else 0
        rest = self.demand(wishes)
        self.note(self.index_section(one) for one in rest if is_always_listed(one))
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

    def index_section(self, one: TokenDemand) -> Fitted:
        """List a section that is only ever shown on the menu."""
        if self.menu is not None:
            return omit_section(one.section, one.wanted, Verdict.INDEXED, "on the menu, to be read on demand")
        if one.wanted <= one.stub:
            return one.whole
        return drop_section(one, one.base, "is read on demand, but the turn has no tool for that", self.inputs)

    def demand(self, wishes: Sequence[TokenDemand]) -> list[TokenDemand]:
        """Give the required slots what they need and return the others, or raise with the arithmetic."""
        must = [one for one in wishes if one.section.slot.required]
        rest = [one for one in wishes if not one.section.slot.required]
        bases = sum(one.base for one in rest)
        if sum(one.wanted for one in must) + bases > self.left - self.reserved:
            source = self.budget.describe_limit(self.inputs.meter.facts.window)
            spent = {**self.spent, "menu": self.reserved}
            raise BudgetError(write_arithmetic(spent, wishes, f"the system budget, {source},", self.limit))
        self.note(one.whole for one in must)
        return rest

    def reserve_menu(self, wishes: Sequence[TokenDemand], *, overflow: bool) -> int:
        """Reserve what the menu could need, within its share and the rest, but at least the size of its stub."""
        files = [one for one in self.listable if overflow or is_always_listed(one)]
        menu = self.menu
        if menu is None or not (files or menu.lines):
            return 0
        longest = write_menu(menu, [one.section for one in files], self.inputs)
        wanted, stub = self.inputs.layout.weigh(longest, longest.text), count_stub_tokens(longest, self.inputs)
        needed = sum(one.wanted if one.section.slot.required else one.base for one in wishes)
        most = min(int(self.limit * self.budget.menu_share), self.left - needed)
        return min(wanted, max(most, stub))

    def fit_tier(self, tier: str, wishes: Sequence[TokenDemand], room: int, pool: str) -> int:
        """Fit one tier and return the tokens it used."""
        cap = self.budget.tiers[tier]
        ceiling = max(int(cap * self.limit) - self.used_by_tier[tier], sum(one.base for one in wishes))
        why = f"tier {tier} ends at {cap:.0%} of {self.limit:,}".replace("%", " %") if ceiling < room else pool
        fitted = share_room(wishes, min(ceiling, room), why, self.inputs)
        if self.menu is not None:
            fitted = [
                omit_section(one.item, one.wanted, Verdict.INDEXED, f"{one.reason}; on the menu")
                if one.verdict is Verdict.DROPPED and can_list(one.item)
                else one
                for one in fitted
            ]
        self.overflows |= any(one.verdict is Verdict.INDEXED for one in fitted)
        self.note(fitted)
        used = sum(one.tokens for one in fitted)
        self.used_by_tier[tier] += used
        return used

    def find_room(self, pace: Pace, wishes: Sequence[TokenDemand]) -> tuple[int, str]:
        """Return the tokens that the optional slots of a pace may use, and the reason as text."""
        left = self.left - self.reserved
        if pace is Pace.SESSION:
            return left, f"session slots have {left:,} of {self.limit:,} tokens"
        # The reserve of the session slots depends on the blueprint alone: the bytes of static slots must not depend
        # on the user.
        slots = [slot for slot in self.inputs.blueprint.slots if slot.pace is Pace.SESSION]
        if any(self.inputs.mode in slot.modes for slot in slots):
            left = max(left - int(self.limit * self.budget.session_share), sum(one.base for one in wishes))
        return left, f"static slots have {left:,} of {self.limit:,} tokens"

    def note(self, fitted: Iterable[Fitted]) -> None:
        """Record verdicts and subtract their tokens."""
        for one in fitted:
            self.fitted[one.item] = one
            self.left -= one.tokens

    def fit_menu_section(self) -> None:
        """Write the menu once the dropped files are known; if the menu itself is dropped, they are dropped as well."""
        if self.menu is None:
            return
        indexed = [one for one in self.fitted.values() if one.verdict is Verdict.INDEXED]
        written = write_menu(self.menu, [one.item for one in indexed], self.inputs)
        fitted = self.fitted[self.menu] = fit_menu(written, self.menu.text, self.reserved, self.inputs)
        if fitted.body is None and fitted.verdict is Verdict.DROPPED:
            for one in indexed:
                self.fitted[one.item] = replace(
                    one, verdict=Verdict.DROPPED, reason=f"{one.reason}, which does not fit either"
                )


def is_always_listed(one: TokenDemand) -> bool:
    """Return whether a section is only ever listed on the menu."""
    return one.section.slot.listed is MenuListing.ALWAYS


def write_arithmetic(spent: dict[str, int], wishes: Sequence[TokenDemand], pool: str, limit: int) -> str:
    """Write the arithmetic of a prompt that does not fit."""
    must = {one.section.id: one.wanted for one in wishes if one.section.slot.required}
    rest = [one for one in wishes if not one.section.slot.required and one.base]
    naming = f"naming omitted sections ({', '.join(one.section.id for one in rest)})"
    sums = {**spent, **must, naming: sum(one.base for one in rest)}
    needed = sum(sums.values())
    parts = " + ".join(f"{name} {tokens:,}" for name, tokens in sums.items() if tokens)
    return (
        f"the prompt does not fit: {parts} = {needed:,} tokens, and {pool} has {limit:,}; "
        f"{needed - limit:,} are missing. Use a model with a larger window, fewer tools, or shorter texts."
    )


@frozen
class FittedRun:
    """A run in which every item has its verdict."""

    pace: Pace
    placement: Placement
    items: tuple[Fitted | Missing, ...]
    continued: bool = False
    """Whether its last template continues in the next run."""

    @property
    def tokens(self) -> int:
        """The tokens of the run."""
        return sum([one.tokens for one in self.items if isinstance(one, Fitted)])


@frozen
class Fit:
    """The fitted prompt and its limits."""

    runs: tuple[FittedRun, ...]
    limit: int
    tool_tokens: int


def fit_stable(runs: Sequence[FilledRun | None], inputs: FitInputs) -> tuple[FittedRun | None, ...]:
    """Give every item of the static and session runs its verdict; None is the place of a turn run.

    The menu reserves space for overflowing files only if a file overflows.
    """
    filled = [run for run in runs if run]
    account = StableFit(inputs, filled, overflow=False)
    if account.overflows:
        account = StableFit(inputs, filled, overflow=True)
    return tuple(order_verdicts(run, account.fitted) if run else None for run in runs)


def fit_budget(
    stable: Sequence[FittedRun | None], turns: Sequence[FilledRun], inputs: FitInputs, conversation: int
) -> Fit:
    """Fit the turn runs into the tokens that the stable runs and the conversation leave."""
    fitted = [run for run in stable if run]
    room = find_turn_room(inputs, fitted, conversation, sum_slot_rooms(turns, inputs))
    passing = iter(fit_turn(inputs, room, turns))
    return Fit(runs=tuple([run or next(passing) for run in stable]), limit=inputs.limit, tool_tokens=inputs.tool_tokens)


@frozen(eq=True)
class TurnRoom:
    """The tokens that the slots of a turn may use, and the total that their tiers are shares of."""

    left: int
    whole: int
    used: int = 0
    """Tokens that the slower slots take of the same room, where all slots share one room."""


def sum_slot_rooms(runs: Iterable[FilledRun], inputs: FitInputs) -> int:
    """Return the tokens of the turn slots that have a separate room."""
    window = inputs.meter.facts.window
    return sum([section.slot.find_room(window) for run in runs for section in run.sections])


def find_turn_room(inputs: FitInputs, stable: Iterable[FittedRun], conversation: int, own: int = 0) -> TurnRoom:
    """Return what the slots of a turn may use, or raise with the arithmetic if the window is too small."""
    budget, window = inputs.blueprint.budget, inputs.meter.facts.window
    if budget.turn_room is TurnRoomKind.FIXED:
        turn = budget.turn_limit(window)
        check_window(inputs, conversation, inputs.limit, turn + own)
        return TurnRoom(left=turn, whole=turn)
    used = inputs.tool_tokens + sum([run.tokens for run in stable])
    check_window(inputs, conversation, used, 0)
    bound = budget.bound(window)
    whole = max(bound - budget.get_answer_reserve(bound) - conversation, budget.turn)
    # The minimum of the prompt must not exceed what the window has left.
    left = min(whole - used, window - budget.get_answer_reserve(window) - conversation - used)
    return TurnRoom(left=left, whole=whole, used=used)


def check_window(inputs: FitInputs, conversation: int, system: int, turn: int) -> None:
    """Raise with the arithmetic if prompt, conversation and answer do not fit into the window."""
    budget, window = inputs.blueprint.budget, inputs.meter.facts.window
    if conversation <= window - system - turn - budget.reserve:
        return
    reserve = budget.get_answer_reserve(window)
    fixed = system + turn + reserve
    if fixed + conversation <= window:
        return
    remedy = "Compact the conversation, or use" if fixed < window else "Use"
    raise BudgetError(
        f"the window is too small: {system:,} for the system prompt + {turn:,} for the turn + {reserve:,} "
        f"for the answer + conversation {conversation:,} = {fixed + conversation:,} tokens, and it has {window:,}; "
        f"{fixed + conversation - window:,} are missing. {remedy} a model with a larger window."
    )


def fit_turn(inputs: FitInputs, room: TurnRoom, runs: Sequence[FilledRun]) -> list[FittedRun]:
    """Fit the turn slots into their own room, so that they take nothing from the other slots."""
    tiers, window = inputs.blueprint.budget.turn_tiers, inputs.meter.facts.window
    whole = []
    for run in runs:
        caps = find_char_limits(run.sections)
        kept = {one: apply_char_limit(one, caps.get(one), inputs) for one in run.sections}
        whole.append(order_verdicts(run, kept))
    if not tiers and not sum_slot_rooms(runs, inputs) and sum([run.tokens for run in whole]) <= room.left:
        return whole
    every = measure_demands([section for run in runs for section in run.sections], inputs)
    wishes = [one for one in every if not one.section.slot.room]
    must = [one for one in wishes if one.section.slot.required]
    rest = [one for one in wishes if not one.section.slot.required]
    bases = sum(one.base for one in rest)
    left = room.left - sum(one.wanted for one in must)
    if bases > left and (must or bases):
        pool = "the budget of the whole prompt" if room.used else "the budget of a turn"
        raise BudgetError(write_arithmetic({"the system prompt": room.used}, wishes, pool, room.left + room.used))
    if tiers:
        shared = share_turn_tiers(rest, left, room.whole, inputs)
    else:
        shared = share_room(rest, left, f"the slots of a turn have {room.left:,} tokens together", inputs)
    apart = []
    for one in every:
        if own_room := one.section.slot.find_room(window):
            apart += share_room([one], own_room, f"its slot has a room of {own_room:,} tokens", inputs)
    fitted = {one.item: one for one in (*(one.whole for one in must), *shared, *apart)}
    return [order_verdicts(run, fitted) for run in runs]


def share_turn_tiers(wishes: Sequence[TokenDemand], left: int, whole: int, inputs: FitInputs) -> list[Fitted]:
    """Fit the slots of a turn tier by tier, each tier within its share of the prompt's tokens."""
    fitted: list[Fitted] = []
    later = sum(one.base for one in wishes)
    for tier, cap in inputs.blueprint.budget.turn_tiers.items():
        mine = [one for one in wishes if one.section.slot.tier == tier]
        bases = sum(one.base for one in mine)
        later -= bases
        most = min(max(int(cap * whole), bases), left - later)
        why = f"tier {tier} has {max(most, 0):,} of {whole:,} tokens"
        served = share_room(mine, most, why, inputs)
        left -= sum(one.tokens for one in served)
        fitted += served
    return fitted


def order_verdicts(run: FilledRun, fitted: Mapping[Section, Fitted]) -> FittedRun:
    """Build the fitted run with the verdicts in order."""
    items = tuple(fitted[item] if isinstance(item, Section) else item for item in run.items)
    return FittedRun(pace=run.pace, placement=run.placement, items=items, continued=run.continued)
