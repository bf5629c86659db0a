"""Reading: every source sees a view of its own pace, and every answer stands in its slot."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache

from foreword.blueprint import Plan, Planned, Run
from foreword.blueprint.slot import Budget, Room
from foreword.config.schema import Agent, Config
from foreword.errors import UnusableRules
from foreword.memo import Memo
from foreword.sources.character import KNOWN_FROM, Character
from foreword.sources.condition import find_unmet
from foreword.sources.document import is_unicode
from foreword.sources.facts import find_values
from foreword.sources.files import Files
from foreword.sources.form import read_form, split_form
from foreword.sources.ground import Ground
from foreword.sources.hint import add_hint
from foreword.sources.passage import Passage
from foreword.sources.recall import list_recallable
from foreword.sources.registry import SOURCES
from foreword.sources.section import Filled, Item, Missing, Section, absent
from foreword.sources.template import plait
from foreword.sources.text_files import TextFiles
from foreword.sources.toolkit import NO_TOOLKIT, Toolkit
from foreword.sources.trace import Kept, Part, Reader
from foreword.sources.view import SessionView, StaticView, TurnView, View
from foreword.sources.weave import weave
from foreword.trust import Audience, find_audience, has_company
from foreword.turn import Client, Turn
from foreword.words import Mode, Pace, Placement, Trust, Verdict

UNKNOWN_TIME = datetime(1970, 1, 1, tzinfo=UTC)


def read(
    plan: Plan, turn: Turn, ground: Ground, conversation: int, toolkit: Toolkit = NO_TOOLKIT
) -> tuple[Filled, ...]:
    """Fill the runs of a plan; of static and session runs, only the parts that an edit has touched."""
    session = observe(plan, turn, ground, toolkit)
    remaining = find_remaining(plan, session.static, ground) - conversation
    moment = see_turn(session, turn, find_recall(plan, session, ground), remaining)
    slower: dict[Pace, StaticView | SessionView] = {Pace.STATIC: session.static, Pace.SESSION: session}
    filled = [
        fill(run, moment, ground.scratch) if run.pace is Pace.TURN else fill_again(run, slower[run.pace], ground)
        for run in plan.runs
    ]
    woven = ground.scratch.once(weave, *[None if run.pace is Pace.TURN else run for run in filled])
    passing = iter([run for run in filled if run.pace is Pace.TURN])
    return tuple([run or next(passing) for run in woven])


def fill(run: Run, view: View, scratch: Memo) -> Filled:
    """Ask the source of every entry of a run; the same answers are the same run, so that nobody works on it twice."""
    found: list[Item] = []
    for entry in run.entries:
        found += ask(entry, view)
    items = tuple(found)
    return scratch.recall((run, items), lambda: Filled(pace=run.pace, placement=run.placement, items=items))


def fill_again(run: Run, view: StaticView | SessionView, ground: Ground) -> Filled:
    """Fill a run that was filled before: what still holds stays the very same objects."""
    kept = ground.memo.recall((run, view), Kept)
    if kept.filled is None or kept.generation != ground.files.generation:
        with ground.lock:
            return refill(kept, run, view, ground.files)
    return kept.filled


def refill(kept: Kept, run: Run, view: StaticView | SessionView, files: Files | TextFiles) -> Filled:
    """Ask again for every part whose files have changed."""
    generation = files.generation  # before anything is read: a sweep in between must not make old parts look new
    reader = view.files if isinstance(view, StaticView) else view.static.files
    before = kept.parts or (None,) * len(run.entries)
    reader.take_traces()
    parts = tuple(
        part if part and part.holds() else Part(ask(entry, view), reader.take_traces())
        for entry, part in zip(run.entries, before, strict=True)
    )
    reader.stop()
    filled = kept.filled
    if filled is None or any(new is not old for new, old in zip(parts, before, strict=True)):
        items = tuple(item for part in parts for item in part.items)
        filled = Filled(pace=run.pace, placement=run.placement, items=items)
    kept.parts, kept.filled, kept.generation = parts, filled, generation
    return filled


def ask(entry: Planned, view: View) -> tuple[Item, ...]:
    """Ask the source of one entry, or pass on that the plan refused it."""
    if entry.verdict is not None:
        return refused(entry)
    slot = entry.slot
    if slot.when and (unmet := find_unmet(slot.when, view)):
        return (absent(entry, unmet),)
    source = SOURCES[slot.source]
    narrowed = narrow(view, source.pace)
    try:
        answer = source.fill(narrowed, entry)
    except Exception as error:  # noqa: BLE001 - a source of a user's own may raise anything; the turn goes on
        reason = f"source {entry.slot.source!r} failed: {type(error).__name__}: {error}"
        answer = Missing(entry=entry, reason=reason, verdict=Verdict.DROPPED)
    if entry.template and isinstance(answer, Section) and answer.pattern is None and answer.path:
        answer = plait(answer, narrow_static(view))
    if slot.governs and (reason := find_loss(answer)):
        raise UnusableRules(reason)
    if slot.form and not source.fields:
        answer = surround(answer, entry, narrowed)
    if type(answer) is Missing:
        return (answer,)
    answers = answer if isinstance(answer, tuple) else (answer,)
    if not all(map(is_usable, answers)):
        return (misfit(entry, answers),)
    return tuple(map(add_hint, answers)) if slot.hint and slot.placement is not Placement.NESTED else answers


def find_loss(answer: tuple[Item, ...] | Item) -> str:
    """Say why a text that exists cannot be given, or nothing where it can or there is none."""
    for one in answer if isinstance(answer, tuple) else (answer,):
        if isinstance(one, Section) and one.lost:
            return one.note
        if isinstance(one, Missing) and one.verdict is Verdict.DROPPED:
            return one.reason
    return ""


def find_gap(answer: tuple[Item, ...] | Item) -> str | None:
    """Say why there is no text where a form's default may stand, or None where there is one."""
    if isinstance(answer, Missing):
        return answer.reason if answer.verdict is Verdict.ABSENT else None
    return answer.note if isinstance(answer, Section) and answer.lost else None


def narrow_static(view: View) -> StaticView:
    """Return what a static source may know."""
    return view if isinstance(view, StaticView) else view.static


def surround(answer: tuple[Item, ...] | Item, entry: Planned, view: View) -> tuple[Item, ...] | Item:
    """Put a text into its slot's form; where there is none, the form's own default may stand."""
    form = read_form(entry.slot.form)
    reason = find_gap(answer) if form.default else None
    if reason is not None:
        answer = Section(entry=entry, text=form.default, origin="built-in default", note=reason)
    if not isinstance(answer, Section):
        return answer
    before, after = split_form(entry.slot.form, find_values(form.names, view))
    return replace(answer, before=before, after=after)


def is_usable(answer: object) -> bool:
    """Whether a source gave what a source gives, in whole characters."""
    if not isinstance(answer, Section):
        return isinstance(answer, Missing)
    words: tuple[object, ...] = (answer.text, answer.title)
    return all(isinstance(text, str) and (text.isascii() or is_unicode(text)) for text in words)


def misfit(entry: Planned, answers: tuple[object, ...]) -> Missing:
    """Say that a source gave something else than sections; the turn goes on."""
    kinds = ", ".join(sorted({type(one).__name__ for one in answers}))
    reason = f"source {entry.slot.source!r} must give sections of whole characters, not {kinds}"
    return Missing(entry=entry, reason=reason, verdict=Verdict.DROPPED)


def narrow(view: View, pace: Pace) -> View:
    """Hand a source no more than its own pace may depend on, however fast its slot is."""
    if pace is Pace.TURN or isinstance(view, StaticView):
        return view
    if pace is Pace.STATIC:
        return view.static
    return view.session if isinstance(view, TurnView) else view


@lru_cache(maxsize=4_096)
def refused(entry: Planned) -> tuple[Item, ...]:
    """Pass on what the plan refused."""
    return (Missing(entry=entry, reason=entry.reason, verdict=entry.verdict or Verdict.ABSENT),)


def observe(plan: Plan, turn: Turn, ground: Ground, toolkit: Toolkit) -> SessionView:
    """Make the two slower views of a turn; they are the same objects until something in them changes."""
    level = plan.clearance.level
    kept = ground.characters(turn.agent)
    offered = (toolkit.tools, toolkit.left_out_names)
    base = (turn.agent, turn.model, level, plan.mode, *offered, turn.extensions, plan.blueprint, kept)
    place = (turn.user, turn.channel, turn.room, turn.situation, turn.session, turn.project, turn.project_root)
    known = (turn.directories, turn.instructions, turn.client, turn.host, turn.sandbox)
    return ground.memo.recall(
        (base, place, known),
        lambda: see_session(
            ground.memo.recall(base, lambda: see_static(plan, turn, ground, toolkit, kept)), turn, ground.config
        ),
    )


def see_static(plan: Plan, turn: Turn, ground: Ground, toolkit: Toolkit, kept: Character) -> StaticView:
    """Collect what a static source may know."""
    meter = ground.measure(turn.model)
    budget = plan.blueprint.budget
    return StaticView(
        agent=turn.agent,
        settings=settle(ground.config.agents[turn.agent], kept, plan),
        kept=kept,
        clearance=plan.clearance.level,
        mode=plan.mode,
        tools=toolkit.tools,
        left_out=toolkit.left_out_names,
        extensions=tuple(one for one in turn.extensions if one.trust <= plan.clearance.level),
        files=Reader(ground.files, ground.guard(plan.blueprint), plan.clearance.level),
        stores=ground.config.stores,
        meter=meter,
        beyond=find_beyond(budget, meter.facts.window),
    )


def settle(settings: Agent, kept: Character, plan: Plan) -> Agent:
    """Let what is kept of an agent stand for what the configuration says, for who may know of it."""
    if kept.identity is None or plan.clearance.level < KNOWN_FROM:
        return settings
    return replace(settings, identity=kept.identity)


def find_beyond(budget: Budget, window: int) -> int:
    """Find what neither the answer nor a fixed system budget takes of a window."""
    taken = budget.limit(window) if budget.turn_room is Room.FIXED else 0
    return budget.bound(window) - budget.keep_back(window) - taken


def see_session(static: StaticView, turn: Turn, config: Config) -> SessionView:
    """Collect what a session source may know."""
    person, room = config.users.get(turn.user), config.rooms.get(turn.room)
    # In a room everyone reads the reply: nobody's own zone is used there, nor where their device is.
    client = Client() if has_company(turn) else turn.client
    own = client.zone or (person.timezone if person else "")
    return SessionView(
        static=static,
        user=turn.user,
        alone=find_audience(turn, static.clearance).person,
        channel=turn.channel,
        room=turn.room,
        situation=turn.situation,
        session=turn.session,
        zone=(room.timezone if room else "") if has_company(turn) else own,
        server_zone=config.host.timezone if static.clearance >= Trust.FAMILIAR else "",
        project=turn.project,
        project_stops=tuple(filter(None, (turn.project_root, config.prompt.project_stop))),
        directories=turn.directories,
        instructions=turn.instructions,
        client=client,
        host=turn.host,
        sandbox=turn.sandbox,
    )


def find_remaining(plan: Plan, view: StaticView, ground: Ground) -> int:
    """Find what is left of the window for a conversation, once a turn has its room and what it recalls."""
    window = view.meter.facts.window
    slots = [slot for slot in plan.blueprint.slots if plan.mode in slot.modes] if wants_recall(plan, ground) else []
    recalled = sum([slot.find_room(window) for slot in slots])
    return view.beyond - plan.blueprint.budget.turn_limit(window) - recalled


def wants_recall(plan: Plan, ground: Ground) -> bool:
    """Whether a turn recalls passages: as the configuration says, else in the brief prompt only."""
    wanted = ground.config.memory.recall
    return ground.memories is not None and (plan.mode is Mode.BRIEF if wanted is None else wanted)


def find_recall(plan: Plan, view: SessionView, ground: Ground) -> Callable[[str], Sequence[Passage]] | None:
    """Return what finds the passages for a message; None where recall is off."""
    memories = ground.memories
    if memories is None or not wants_recall(plan, ground):
        return None
    audience = Audience(clearance=view.static.clearance, person=view.alone)
    return lambda message: memories.recall(message, audience, list_recallable(plan, view.static))


def see_turn(
    session: SessionView, turn: Turn, recall: Callable[[str], Sequence[Passage]] | None, remaining: int
) -> TurnView:
    """Collect what only a turn source may know."""
    return TurnView(
        session=session,
        now=turn.now or UNKNOWN_TIME,
        message=turn.message,
        task=turn.task,
        plan=turn.plan,
        background=turn.background,
        signal=turn.signal,
        state=turn.state,
        git=turn.git,
        cwd=turn.cwd,
        remaining=remaining,
        said=tuple([message.text for message in turn.history]),
        recall=recall,
    )
