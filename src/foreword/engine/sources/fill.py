"""Fill the slots of a plan: each source gets a view of its pace, and its answer goes into its slot."""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime

from foreword.config.schema import Identity
from foreword.engine.blueprint import NOT_PREFIX, TOOL_PREFIX, TurnRoomKind
from foreword.engine.context import (
    STORED_IDENTITY_TRUST,
    AssemblyContext,
    SessionView,
    SourceReader,
    StaticView,
    StoredCharacter,
    TurnView,
    View,
)
from foreword.engine.selection import Plan, PlannedSlot, SlotRun
from foreword.engine.sources import texts  # noqa: F401 - importing registers its sources
from foreword.engine.sources.documents import is_unicode
from foreword.engine.sources.forms import (
    find_shell_tool,
    get_field_values,
    read_form,
    split_form,
)
from foreword.engine.sources.memory_sections import list_recallable
from foreword.engine.sources.sections import SOURCES, FilledRun, Item, Missing, Passage, Section, add_hint
from foreword.engine.sources.templates import expand_templates, parse_section_template
from foreword.engine.sources.toolkit import Toolkit
from foreword.engine.trust import Audience, find_audience, has_other_readers
from foreword.errors import UnusableRules
from foreword.turn import Client, Turn
from foreword.types import Mode, Pace, Placement, Trust, Verdict

# The reasons why a condition, and its opposite, is not met.
UNMET_REASONS = {
    "tools": ("the turn has no tools", "the turn has tools"),
    "native_tools": ("the model has no native tool schemas", "the model has native tool schemas"),
    "shell": ("the turn has no tool that runs commands", "the turn has a tool that runs commands"),
    "identity": ("the agent has no identity", "the agent has an identity"),
    "sandbox": ("no sandbox is known", "there is a sandbox"),
    "plan": ("plan mode is off", "plan mode is on"),
}


def find_unmet(conditions: tuple[str, ...], view: View) -> str:
    """Return why the first unmet condition is not met, or an empty string."""
    static = view if isinstance(view, StaticView) else view.static
    for condition in conditions:
        name, negated = condition.removeprefix(NOT_PREFIX), condition.startswith(NOT_PREFIX)
        _, colon, wanted = name.partition(":")
        if evaluate_condition(name, wanted, static, view) is not negated:
            continue
        if not colon:
            return UNMET_REASONS[name][negated]
        tool = f"tool {wanted}" if name.startswith(TOOL_PREFIX) else f"{wanted} tool"
        return f"the turn has {'a' if negated else 'no'} {tool}"
    return ""


def evaluate_condition(name: str, wanted: str, static: StaticView, view: View) -> bool:
    """Evaluate one condition; `wanted` is the tool or the kind that it names."""
    if wanted:
        return wanted in (
            static.tools.names if name.startswith(TOOL_PREFIX) else {tool.kind for tool in static.tools.tools}
        )
    session = view.session if isinstance(view, TurnView) else view
    identity = static.settings.identity
    if isinstance(identity, Identity):
        identity = "".join(getattr(identity, field.name) for field in fields(identity))
    known = {
        "tools": bool(static.tools),
        "native_tools": static.meter.facts.native_tools,
        "shell": bool(find_shell_tool(static.tools)),
        "identity": bool(identity and identity.strip()),
        "sandbox": isinstance(session, SessionView) and session.sandbox is not None,
        "plan": isinstance(view, TurnView) and view.plan,
    }
    return known[name]


UNKNOWN_TIME = datetime(1970, 1, 1, tzinfo=UTC)


def fill_stable(plan: Plan, view: SessionView) -> tuple[FilledRun | None, ...]:
    """Fill the static and session runs of a plan and expand their templates; None is the place of a turn run."""
    views: dict[Pace, View] = {Pace.STATIC: view.static, Pace.SESSION: view}
    return expand_templates([fill_run(run, views[run.pace]) if run.pace in views else None for run in plan.runs])


def fill_turn(plan: Plan, view: TurnView) -> tuple[FilledRun, ...]:
    """Fill the turn runs of a plan."""
    return tuple([fill_run(run, view) for run in plan.runs if run.pace is Pace.TURN])


def fill_run(run: SlotRun, view: View) -> FilledRun:
    """Call the source of every entry of a run."""
    items = [item for entry in run.entries for item in call_source(entry, view)]
    return FilledRun(pace=run.pace, placement=run.placement, items=tuple(items))


def call_source(entry: PlannedSlot, view: View) -> tuple[Item, ...]:
    """Call the source of one entry, or return the plan's refusal."""
    if entry.verdict is not None:
        return (Missing(entry=entry, reason=entry.reason, verdict=entry.verdict),)
    slot = entry.slot
    if slot.when and (unmet := find_unmet(slot.when, view)):
        return (Missing(entry=entry, reason=unmet),)
    source = SOURCES[slot.source]
    narrowed = narrow_view(view, source.pace)
    try:
        answer = source.fill(narrowed, entry)
    except Exception as error:  # noqa: BLE001 - a custom source may raise anything; the turn continues
        reason = f"source {slot.source!r} failed: {type(error).__name__}: {error}"
        answer = Missing(entry=entry, reason=reason, verdict=Verdict.DROPPED)
    if entry.template and isinstance(answer, Section) and answer.pattern is None and answer.path:
        answer = parse_section_template(answer, view if isinstance(view, StaticView) else view.static)
    if slot.governs:
        check_rules(answer)
    if slot.form and not source.fields:
        answer = wrap_in_form(answer, entry, narrowed)
    if type(answer) is Missing:
        return (answer,)
    answers = answer if isinstance(answer, tuple) else (answer,)
    if not all(map(is_valid_item, answers)):
        kinds = ", ".join(sorted({type(one).__name__ for one in answers}))
        reason = f"source {slot.source!r} must return sections with valid Unicode, not {kinds}"
        return (Missing(entry=entry, reason=reason, verdict=Verdict.DROPPED),)
    return tuple(map(add_hint, answers)) if slot.hint and slot.placement is not Placement.NESTED else answers


def check_rules(answer: tuple[Item, ...] | Item) -> None:
    """Raise UnusableRules if an existing text cannot be used."""
    for one in answer if isinstance(answer, tuple) else (answer,):
        if isinstance(one, Section) and one.lost:
            raise UnusableRules(one.note)
        if isinstance(one, Missing) and one.verdict is Verdict.DROPPED:
            raise UnusableRules(one.reason)


def wrap_in_form(answer: tuple[Item, ...] | Item, entry: PlannedSlot, view: View) -> tuple[Item, ...] | Item:
    """Put a text into its slot's form; without a text, the form's default is used."""
    form = read_form(entry.slot.form)
    if form.default:
        if isinstance(answer, Missing) and answer.verdict is Verdict.ABSENT:
            answer = Section(entry=entry, text=form.default, origin="built-in default", note=answer.reason)
        elif isinstance(answer, Section) and answer.lost:
            answer = Section(entry=entry, text=form.default, origin="built-in default", note=answer.note)
    if not isinstance(answer, Section):
        return answer
    before, after = split_form(entry.slot.form, get_field_values(form.names, view))
    return replace(answer, before=before, after=after)


def is_valid_item(answer: object) -> bool:
    """Return whether a source returned a valid item with valid Unicode."""
    if not isinstance(answer, Section):
        return isinstance(answer, Missing)
    words: tuple[object, ...] = (answer.text, answer.title)
    return all(isinstance(text, str) and (text.isascii() or is_unicode(text)) for text in words)


def narrow_view(view: View, pace: Pace) -> View:
    """Return the part of a view that a source of this pace may depend on, even in a faster slot."""
    if pace is Pace.TURN or isinstance(view, StaticView):
        return view
    if pace is Pace.STATIC:
        return view.static
    return view.session if isinstance(view, TurnView) else view


def make_session_view(plan: Plan, turn: Turn, context: AssemblyContext, toolkit: Toolkit) -> SessionView:
    """Build the view of a session source; the static view in it is shared by all turns of one clearance."""
    character = context.characters(turn.agent)
    values = (turn.agent, turn.model, plan.clearance.level, plan.mode, toolkit, turn.extensions, character)
    key = ("static view", plan.blueprint, *values)
    static = context.cached(key, lambda: make_static_view(plan, turn, context, toolkit, character))
    person, room = context.config.users.get(turn.user), context.config.rooms.get(turn.room)
    # In a room everyone reads the reply, so the user's time zone and device are not used.
    client = Client() if has_other_readers(turn) else turn.client
    own = client.zone or (person.timezone if person else "")
    return SessionView(
        static=static,
        user=turn.user,
        alone=find_audience(turn, static.clearance).person,
        channel=turn.channel,
        room=turn.room,
        situation=turn.situation,
        session=turn.session,
        zone=(room.timezone if room else "") if has_other_readers(turn) else own,
        server_zone=context.config.host.timezone if static.clearance >= Trust.FAMILIAR else "",
        project=turn.project,
        project_stops=tuple(filter(None, (turn.project_root, context.config.prompt.project_stop))),
        directories=turn.directories,
        instructions=turn.instructions,
        client=client,
        host=turn.host,
        sandbox=turn.sandbox,
    )


def make_static_view(
    plan: Plan, turn: Turn, context: AssemblyContext, toolkit: Toolkit, character: StoredCharacter
) -> StaticView:
    """Build the view of a static source."""
    meter, budget, clearance = context.measure(turn.model), plan.blueprint.budget, plan.clearance.level
    window, settings = meter.facts.window, context.config.agents[turn.agent]
    if character.identity is not None and clearance >= STORED_IDENTITY_TRUST:
        settings = replace(settings, identity=character.identity)
    taken = budget.limit(window) if budget.turn_room is TurnRoomKind.FIXED else 0
    return StaticView(
        agent=turn.agent,
        settings=settings,
        character=character,
        clearance=clearance,
        mode=plan.mode,
        tools=toolkit.tools,
        left_out=toolkit.left_out_names,
        extensions=tuple(one for one in turn.extensions if one.trust <= clearance),
        files=SourceReader(context.files, context.guard(plan.blueprint), clearance),
        stores=context.config.stores,
        meter=meter,
        beyond=budget.bound(window) - budget.get_answer_reserve(window) - taken,
    )


def make_turn_view(
    plan: Plan, session: SessionView, turn: Turn, context: AssemblyContext, conversation: int
) -> TurnView:
    """Build the view of a turn source."""
    recall = make_recall(plan, session, context)
    window, blueprint = session.static.meter.facts.window, plan.blueprint
    rooms = [slot.find_room(window) for slot in blueprint.slots if plan.mode in slot.modes] if recall else []
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
        remaining=session.static.beyond - blueprint.budget.turn_limit(window) - sum(rooms) - conversation,
        said=tuple([message.text for message in turn.history]),
        recall=recall,
    )


def make_recall(plan: Plan, view: SessionView, context: AssemblyContext) -> Callable[[str], Sequence[Passage]] | None:
    """Return the search for passages, or None if recall is off; by default it is on in the brief prompt only."""
    memories, enabled = context.memories, context.config.memory.recall
    if memories is None or not (plan.mode is Mode.BRIEF if enabled is None else enabled):
        return None
    audience = Audience(clearance=view.static.clearance, person=view.alone)
    return lambda message: memories.recall(message, audience, list_recallable(plan, view.static))
