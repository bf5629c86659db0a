"""Fill the slots of a plan: each source gets a view of its pace, and its answer goes into its slot.

Evaluate the conditions of a slot in a view. Check the texts of a slot: whether its form, its built-in text and its
placeholders exist.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import lru_cache

from foreword.config.schema import Agent, Config, Identity
from foreword.engine.blueprint import NOT_PREFIX, TOOL_PREFIX, Budget, Plan, PlannedSlot, Slot, SlotRun, TurnRoomKind
from foreword.engine.context import STORED_IDENTITY_TRUST, AssemblyContext, ResultCache, StoredCharacter
from foreword.engine.selection import PATH_PLACEHOLDER, PATH_PLACEHOLDERS
from foreword.engine.sources import project, texts  # noqa: F401 - importing registers their sources
from foreword.engine.sources.documents import is_unicode
from foreword.engine.sources.files import Files, TextFiles
from foreword.engine.sources.forms import FORM_NAME, TEXT_FIELD, read_form, split_form
from foreword.engine.sources.memory_sections import list_recallable
from foreword.engine.sources.sections import (
    SOURCES,
    FilledRun,
    Item,
    Missing,
    Passage,
    Section,
    Source,
    add_hint,
    make_absent,
)
from foreword.engine.sources.templates import expand_templates, parse_section_template
from foreword.engine.sources.toolkit import NO_TOOLKIT, Toolkit
from foreword.engine.sources.turn_facts import TOOL_FIELD_PREFIX, find_shell_tool, get_field_values
from foreword.engine.sources.views import FilledEntry, RunCache, SessionView, SourceReader, StaticView, TurnView, View
from foreword.engine.trust import Audience, find_audience, has_other_readers
from foreword.errors import UnusableRules, suggest_name
from foreword.resources import list_prompts
from foreword.turn import Client, Turn
from foreword.types import Mode, Pace, Placement, Trust, Verdict

UNMET_REASONS = {
    "tools": "the turn has no tools",
    "not tools": "the turn has tools",
    "native_tools": "the model has no native tool schemas",
    "not native_tools": "the model has native tool schemas",
    "shell": "the turn has no tool that runs commands",
    "not shell": "the turn has a tool that runs commands",
    "identity": "the agent has no identity",
    "not identity": "the agent has an identity",
    "sandbox": "no sandbox is known",
    "not sandbox": "there is a sandbox",
    "plan": "plan mode is off",
    "not plan": "plan mode is on",
}


def find_unmet(conditions: tuple[str, ...], view: View) -> str:
    """Return why the first unmet condition is not met, or an empty string."""
    static = view if isinstance(view, StaticView) else view.static
    for one in conditions:
        if evaluate_condition(one.removeprefix(NOT_PREFIX), static, view) == one.startswith(NOT_PREFIX):
            return UNMET_REASONS.get(one) or describe_tool_condition(one)
    return ""


def describe_tool_condition(condition: str) -> str:
    """Return the reason of an unmet tool condition."""
    name = condition.removeprefix(NOT_PREFIX)
    there = "a" if condition.startswith(NOT_PREFIX) else "no"
    wanted = name.partition(":")[2]
    return (
        f"the turn has {there} tool {wanted}" if name.startswith(TOOL_PREFIX) else f"the turn has {there} {wanted} tool"
    )


def evaluate_condition(name: str, static: StaticView, view: View) -> bool:
    """Evaluate one condition."""
    kind, colon, wanted = name.partition(":")
    if colon:
        return wanted in (
            static.tools.names if f"{kind}:" == TOOL_PREFIX else {tool.kind for tool in static.tools.tools}
        )
    session = view.session if isinstance(view, TurnView) else view
    known = {
        "tools": bool(static.tools),
        "native_tools": static.meter.facts.native_tools,
        "shell": bool(find_shell_tool(static.tools)),
        "identity": has_identity(static.settings.identity),
        "sandbox": isinstance(session, SessionView) and session.sandbox is not None,
        "plan": isinstance(view, TurnView) and view.plan,
    }
    return known[name]


def has_identity(identity: Identity | str | None) -> bool:
    """Return whether an identity has any content."""
    if identity is None or isinstance(identity, str):
        return bool(identity and identity.strip())
    return any(getattr(identity, field.name).strip() for field in fields(identity))


UNKNOWN_TIME = datetime(1970, 1, 1, tzinfo=UTC)


def fill_runs(
    plan: Plan, turn: Turn, ground: AssemblyContext, conversation: int, toolkit: Toolkit = NO_TOOLKIT
) -> tuple[FilledRun, ...]:
    """Fill the runs of a plan; static and session runs are reread only where a file changed."""
    session = make_stable_views(plan, turn, ground, toolkit)
    remaining = count_remaining(plan, session.static, ground) - conversation
    moment = make_turn_view(session, turn, make_recall(plan, session, ground), remaining)
    slower: dict[Pace, StaticView | SessionView] = {Pace.STATIC: session.static, Pace.SESSION: session}
    filled = [
        fill_run(run, moment, ground.scratch)
        if run.pace is Pace.TURN
        else refill_changed(run, slower[run.pace], ground)
        for run in plan.runs
    ]
    woven = ground.scratch.once(expand_templates, *[None if run.pace is Pace.TURN else run for run in filled])
    passing = iter([run for run in filled if run.pace is Pace.TURN])
    return tuple([run or next(passing) for run in woven])


def fill_run(run: SlotRun, view: View, scratch: ResultCache) -> FilledRun:
    """Call the source of every entry of a run; equal items return the same run, so that later stages can cache it."""
    found: list[Item] = []
    for entry in run.entries:
        found += call_source(entry, view)
    items = tuple(found)
    return scratch.recall((run, items), lambda: FilledRun(pace=run.pace, placement=run.placement, items=items))


def refill_changed(run: SlotRun, view: StaticView | SessionView, ground: AssemblyContext) -> FilledRun:
    """Fill a run that was filled before; unchanged parts keep their identity."""
    kept = ground.memo.recall((run, view), RunCache)
    if kept.filled is None or kept.generation != ground.files.generation:
        with ground.lock:
            return refill(kept, run, view, ground.files)
    return kept.filled


def refill(kept: RunCache, run: SlotRun, view: StaticView | SessionView, files: Files | TextFiles) -> FilledRun:
    """Call the sources of all parts whose files changed."""
    generation = files.generation  # read first: a sweep in between must not make old parts look new
    reader = view.files if isinstance(view, StaticView) else view.static.files
    before = kept.parts or (None,) * len(run.entries)
    reader.take_traces()
    parts = tuple(
        part if part and part.holds() else FilledEntry(call_source(entry, view), reader.take_traces())
        for entry, part in zip(run.entries, before, strict=True)
    )
    reader.stop()
    filled = kept.filled
    if filled is None or any(new is not old for new, old in zip(parts, before, strict=True)):
        items = tuple(item for part in parts for item in part.items)
        filled = FilledRun(pace=run.pace, placement=run.placement, items=items)
    kept.parts, kept.filled, kept.generation = parts, filled, generation
    return filled


def call_source(entry: PlannedSlot, view: View) -> tuple[Item, ...]:
    """Call the source of one entry, or return the plan's refusal."""
    if entry.verdict is not None:
        return report_refusal(entry)
    slot = entry.slot
    if slot.when and (unmet := find_unmet(slot.when, view)):
        return (make_absent(entry, unmet),)
    source = SOURCES[slot.source]
    narrowed = narrow_view(view, source.pace)
    try:
        answer = source.fill(narrowed, entry)
    except Exception as error:  # noqa: BLE001 - a custom source may raise anything; the turn continues
        reason = f"source {entry.slot.source!r} failed: {type(error).__name__}: {error}"
        answer = Missing(entry=entry, reason=reason, verdict=Verdict.DROPPED)
    if entry.template and isinstance(answer, Section) and answer.pattern is None and answer.path:
        answer = parse_section_template(answer, get_static_view(view))
    if slot.governs and (reason := find_loss(answer)):
        raise UnusableRules(reason)
    if slot.form and not source.fields:
        answer = wrap_in_form(answer, entry, narrowed)
    if type(answer) is Missing:
        return (answer,)
    answers = answer if isinstance(answer, tuple) else (answer,)
    if not all(map(is_valid_item, answers)):
        return (reject_items(entry, answers),)
    return tuple(map(add_hint, answers)) if slot.hint and slot.placement is not Placement.NESTED else answers


def find_loss(answer: tuple[Item, ...] | Item) -> str:
    """Return why an existing text cannot be used, or an empty string."""
    for one in answer if isinstance(answer, tuple) else (answer,):
        if isinstance(one, Section) and one.lost:
            return one.note
        if isinstance(one, Missing) and one.verdict is Verdict.DROPPED:
            return one.reason
    return ""


def find_default_reason(answer: tuple[Item, ...] | Item) -> str | None:
    """Return why there is no text and the form's default applies, or None."""
    if isinstance(answer, Missing):
        return answer.reason if answer.verdict is Verdict.ABSENT else None
    return answer.note if isinstance(answer, Section) and answer.lost else None


def get_static_view(view: View) -> StaticView:
    """Return the static part of a view."""
    return view if isinstance(view, StaticView) else view.static


def wrap_in_form(answer: tuple[Item, ...] | Item, entry: PlannedSlot, view: View) -> tuple[Item, ...] | Item:
    """Put a text into its slot's form; without a text, the form's default is used."""
    form = read_form(entry.slot.form)
    reason = find_default_reason(answer) if form.default else None
    if reason is not None:
        answer = Section(entry=entry, text=form.default, origin="built-in default", note=reason)
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


def reject_items(entry: PlannedSlot, answers: tuple[object, ...]) -> Missing:
    """Build the result of a source that returned invalid items; the turn continues."""
    kinds = ", ".join(sorted({type(one).__name__ for one in answers}))
    reason = f"source {entry.slot.source!r} must return sections with valid Unicode, not {kinds}"
    return Missing(entry=entry, reason=reason, verdict=Verdict.DROPPED)


def narrow_view(view: View, pace: Pace) -> View:
    """Return the part of a view that a source of this pace may depend on, even in a faster slot."""
    if pace is Pace.TURN or isinstance(view, StaticView):
        return view
    if pace is Pace.STATIC:
        return view.static
    return view.session if isinstance(view, TurnView) else view


@lru_cache(maxsize=4_096)
def report_refusal(entry: PlannedSlot) -> tuple[Item, ...]:
    """Return the plan's refusal as an item."""
    return (Missing(entry=entry, reason=entry.reason, verdict=entry.verdict or Verdict.ABSENT),)


def make_stable_views(plan: Plan, turn: Turn, ground: AssemblyContext, toolkit: Toolkit) -> SessionView:
    """Build the static and session views of a turn; they are the same objects until something in them changes."""
    level = plan.clearance.level
    kept = ground.characters(turn.agent)
    offered = (toolkit.tools, toolkit.left_out_names)
    base = (turn.agent, turn.model, level, plan.mode, *offered, turn.extensions, plan.blueprint, kept)
    place = (turn.user, turn.channel, turn.room, turn.situation, turn.session, turn.project, turn.project_root)
    known = (turn.directories, turn.instructions, turn.client, turn.host, turn.sandbox)
    return ground.memo.recall(
        (base, place, known),
        lambda: make_session_view(
            ground.memo.recall(base, lambda: make_static_view(plan, turn, ground, toolkit, kept)), turn, ground.config
        ),
    )


def make_static_view(
    plan: Plan, turn: Turn, ground: AssemblyContext, toolkit: Toolkit, kept: StoredCharacter
) -> StaticView:
    """Build the view of a static source."""
    meter = ground.measure(turn.model)
    budget = plan.blueprint.budget
    return StaticView(
        agent=turn.agent,
        settings=apply_stored_identity(ground.config.agents[turn.agent], kept, plan),
        kept=kept,
        clearance=plan.clearance.level,
        mode=plan.mode,
        tools=toolkit.tools,
        left_out=toolkit.left_out_names,
        extensions=tuple(one for one in turn.extensions if one.trust <= plan.clearance.level),
        files=SourceReader(ground.files, ground.guard(plan.blueprint), plan.clearance.level),
        stores=ground.config.stores,
        meter=meter,
        beyond=count_free_window(budget, meter.facts.window),
    )


def apply_stored_identity(settings: Agent, kept: StoredCharacter, plan: Plan) -> Agent:
    """Replace the configured identity by the stored one, if the clearance may see it."""
    if kept.identity is None or plan.clearance.level < STORED_IDENTITY_TRUST:
        return settings
    return replace(settings, identity=kept.identity)


def count_free_window(budget: Budget, window: int) -> int:
    """Return the tokens of a window beyond the answer and a fixed system budget."""
    taken = budget.limit(window) if budget.turn_room is TurnRoomKind.FIXED else 0
    return budget.bound(window) - budget.get_answer_reserve(window) - taken


def make_session_view(static: StaticView, turn: Turn, config: Config) -> SessionView:
    """Build the view of a session source."""
    person, room = config.users.get(turn.user), config.rooms.get(turn.room)
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
        server_zone=config.host.timezone if static.clearance >= Trust.FAMILIAR else "",
        project=turn.project,
        project_stops=tuple(filter(None, (turn.project_root, config.prompt.project_stop))),
        directories=turn.directories,
        instructions=turn.instructions,
        client=client,
        host=turn.host,
        sandbox=turn.sandbox,
    )


def count_remaining(plan: Plan, view: StaticView, ground: AssemblyContext) -> int:
    """Return the tokens left for a conversation after the turn's slots and recalled passages."""
    window = view.meter.facts.window
    slots = [slot for slot in plan.blueprint.slots if plan.mode in slot.modes] if wants_recall(plan, ground) else []
    recalled = sum([slot.find_room(window) for slot in slots])
    return view.beyond - plan.blueprint.budget.turn_limit(window) - recalled


def wants_recall(plan: Plan, ground: AssemblyContext) -> bool:
    """Return whether a turn recalls passages: as configured, by default in the brief prompt only."""
    wanted = ground.config.memory.recall
    return ground.memories is not None and (plan.mode is Mode.BRIEF if wanted is None else wanted)


def make_recall(plan: Plan, view: SessionView, ground: AssemblyContext) -> Callable[[str], Sequence[Passage]] | None:
    """Return the search for passages, or None if recall is off."""
    memories = ground.memories
    if memories is None or not wants_recall(plan, ground):
        return None
    audience = Audience(clearance=view.static.clearance, person=view.alone)
    return lambda message: memories.recall(message, audience, list_recallable(plan, view.static))


def make_turn_view(
    session: SessionView, turn: Turn, recall: Callable[[str], Sequence[Passage]] | None, remaining: int
) -> TurnView:
    """Build the view of a turn source."""
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


FACT_SOURCES = {Pace.STATIC: "about", Pace.SESSION: "place", Pace.TURN: "moment"}
FOLDER_SOURCES = ("tool_hints",)  # sources whose text is a folder of texts


def check_slot_texts(slot: Slot) -> Iterator[str]:
    """Yield the problems with the texts of a slot whose source is known."""
    source = SOURCES[slot.source]
    for name in (name for place in (slot.file, slot.folder, slot.text) for name in PATH_PLACEHOLDER.findall(place)):
        if name not in PATH_PLACEHOLDERS:
            yield f"has the unknown placeholder {{{name}}}{suggest_name(name, list(PATH_PLACEHOLDERS))}"
    if slot.text and not PATH_PLACEHOLDER.search(slot.text) and not has_built_in_text(slot):
        nearest = suggest_name(slot.text, sorted(list_prompts()))
        yield f"names the built-in text {slot.text!r}, which does not exist{nearest}"
    if slot.form:
        yield from check_form(slot.form, source)


def has_built_in_text(slot: Slot) -> bool:
    """Return whether the built-in text of a slot exists."""
    prompts = list_prompts()
    folder = slot.source in FOLDER_SOURCES and any(name.startswith(f"{slot.text}/") for name in prompts)
    return slot.text in prompts or folder


def check_form(form: str, source: Source) -> Iterator[str]:
    """Check a form: it must exist, and its source must know its fields."""
    if FORM_NAME.fullmatch(form) and form not in list_prompts():
        yield f"names the form {form!r}, which does not exist{suggest_name(form, sorted(list_prompts()))}"
        return
    names = read_form(form).names
    known = source.fields or {*SOURCES[FACT_SOURCES[source.pace]].fields, TEXT_FIELD}
    for name in names:
        if name not in known and not name.startswith(TOOL_FIELD_PREFIX):
            yield f"has the unknown field {{{name}}} in its form{suggest_name(name, sorted(known))}"
    if not source.fields and TEXT_FIELD not in names:
        yield "has a form without {text}, so its own text has no place"
