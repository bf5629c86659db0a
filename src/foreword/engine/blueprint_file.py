"""Load a blueprint from YAML, and check what its types cannot express."""

import posixpath
import re
from collections.abc import Iterator, Mapping

from foreword.config.structure import convert_node, raise_or_return
from foreword.engine.blueprint import KIND_PREFIX, LISTED_SOURCE, NOT_PREFIX, TOOL_PREFIX, Blueprint, Slot, TurnRoomKind
from foreword.engine.selection import PATH_PLACEHOLDER, PATH_PLACEHOLDERS
from foreword.engine.sources import fill  # noqa: F401 - importing it registers the sources
from foreword.engine.sources.forms import FORM_NAME, TEXT_FIELD, TOOL_FIELD_PREFIX, read_form
from foreword.engine.sources.sections import SOURCES, Source
from foreword.errors import ConfigFault, suggest_name
from foreword.resources import list_prompts
from foreword.types import Pace, Placement

CONDITIONS: Mapping[str, Pace] = {
    "tools": Pace.STATIC,
    "native_tools": Pace.STATIC,
    "shell": Pace.STATIC,
    "identity": Pace.STATIC,
    "sandbox": Pace.SESSION,
    "plan": Pace.TURN,
}
MARKER_FIELDS = {"kept": "1", "total": "2", "first": "1", "last": "2", "lines": "3", "call": "memory_get()"}
NOTICE_FIELDS = {**MARKER_FIELDS, "limit": "8,000", "size": "9,000", "name": "AGENTS.md"}
SLOT_ID = re.compile(r"[A-Za-z0-9_.-]+")
VARIABLE_NAME = re.compile(r"[A-Za-z_]\w*")
FACT_SOURCES = {Pace.STATIC: "about", Pace.SESSION: "place", Pace.TURN: "moment"}
FOLDER_SOURCES = ("tool_hints",)  # sources whose text is a folder of texts
LocatedProblem = tuple[tuple[str | int, ...], str]


def load_blueprint(text: str, file: str) -> Blueprint:
    """Load a blueprint from its text; raise ConfigError with all problems."""
    from foreword.config.yaml import parse_nodes

    structured = convert_node(parse_nodes(text, file), Blueprint, file)
    findings = [] if structured.value is None else [*find_blueprint_problems(structured.value)]
    lines = {keys: place.line for keys, place in structured.values.items()}
    return raise_or_return(
        structured, [ConfigFault(file=file, line=lines.get(keys), message=message) for keys, message in findings]
    )


def find_blueprint_problems(blueprint: Blueprint) -> Iterator[LocatedProblem]:
    """Yield each inconsistency of a blueprint with its location."""
    seen: set[str] = set()
    for at, slot in enumerate(blueprint.slots):
        if slot.id in seen:
            yield ("slots", at), f"slot {slot.id!r} is defined twice"
        seen.add(slot.id)
        for message in check_slot(slot, blueprint):
            yield ("slots", at), f"slot {slot.id!r} {message}"
    yield from check_budget(blueprint)
    yield from check_markers(blueprint)


def check_budget(blueprint: Blueprint) -> Iterator[LocatedProblem]:
    """Check the numbers of the budget."""
    budget = blueprint.budget
    for key, tiers in (("tiers", budget.tiers), ("turn_tiers", budget.turn_tiers)):
        for name, share in tiers.items():
            if not 0 <= share <= 1:
                yield ("budget", key, name), f"tier {name!r} needs a share from 0 to 1, not {share}"
    for key in ("window_share", "turn_share"):
        if not 0 <= (share := getattr(budget, key)) <= 1:
            yield ("budget",), f"{key} must be a share from 0 to 1, not {share}"
    if min(budget.system, budget.turn, budget.reserve, budget.least, budget.window, budget.texts) < 0:
        yield ("budget",), "the numbers of a budget must not be negative"


def check_markers(blueprint: Blueprint) -> Iterator[LocatedProblem]:
    """Check the texts that replace omitted text."""
    if blueprint.strict and not (blueprint.stub and blueprint.stub_without_call):
        yield (), "a strict blueprint must name what it left out; set stub and stub_without_call"
    for key in ("marker", "marker_without_call", "notice", "stub", "stub_without_call"):
        known = NOTICE_FIELDS if key == "notice" else MARKER_FIELDS
        try:
            getattr(blueprint, key).format(**known)
        except (KeyError, IndexError, ValueError, AttributeError, TypeError) as error:
            yield (key,), f"{key} has an unknown field: {error}; known fields: {', '.join(known)}"


def check_slot(slot: Slot, blueprint: Blueprint) -> Iterator[str]:
    """Yield the problems of one slot."""
    source = SOURCES.get(slot.source)
    if not SLOT_ID.fullmatch(slot.id):
        yield "needs a plain name: letters, digits, _ . and -"
    if source is None:
        yield f"has the unknown source {slot.source!r}{suggest_name(slot.source, sorted(SOURCES))}"
    else:
        yield from check_source(slot, source)
    yield from check_placement(slot, blueprint)
    yield from check_conditions(slot)
    yield from check_paths(slot)
    if min(slot.floor, slot.room, slot.limit, slot.limit_all) < 0:
        yield "has a negative floor, room or limit"
    if slot.room and (slot.pace is not Pace.TURN or blueprint.budget.turn_room is TurnRoomKind.REST):
        yield "has a room, which only a turn slot can have, in a blueprint with turn_room: fixed"
    if slot.source == "recall" and not slot.room:
        yield "has the source recall and needs a room"
    if source:
        yield from check_texts(slot)
        if slot.form:
            yield from check_form(slot.form, source)


def check_source(slot: Slot, source: Source) -> Iterator[str]:
    """Check that the source of a slot fits its pace and its form."""
    if slot.source in ("template", LISTED_SOURCE) and slot.pace is Pace.TURN:
        yield "may hold a template, which is expanded once for many turns; make its pace static or session"
    if (fast := source.pace) > slot.pace:
        yield f"is {slot.pace}, but its source {slot.source!r} depends on what changes with the {fast}; make it {fast}"
    if source.fields and not slot.form:
        yield f"needs a form for the source {slot.source!r} to fill in"


def check_placement(slot: Slot, blueprint: Blueprint) -> Iterator[str]:
    """Check the tier, the placement and the variable of a slot."""
    tiers = list(blueprint.budget.turn_tiers if slot.pace is Pace.TURN else ()) or list(blueprint.budget.tiers)
    if slot.tier not in tiers:
        yield f"has the unknown tier {slot.tier!r}{suggest_name(slot.tier, tiers)}"
    if slot.placement is Placement.TAIL and slot.pace is not Pace.TURN:
        yield "is in the tail, which holds only turn slots"
    if (slot.variable or slot.placement is Placement.NESTED) and not VARIABLE_NAME.fullmatch(slot.variable):
        yield "needs a variable of letters, digits and _ by which templates place it"
    if slot.variable and slot.pace is Pace.TURN:
        yield "changes with the turn and would change everything after it in a template; remove its variable"


def find_condition_pace(condition: str) -> Pace | None:
    """Return the pace at which a condition is known, or None if the condition does not exist."""
    name = condition.removeprefix(NOT_PREFIX)
    if name.startswith((TOOL_PREFIX, KIND_PREFIX)):
        return Pace.STATIC if name.partition(":")[2] else None
    return CONDITIONS.get(name)


def check_conditions(slot: Slot) -> Iterator[str]:
    """Check that the conditions of a slot exist and are known at its pace."""
    for condition in slot.when:
        pace = find_condition_pace(condition)
        if pace is None:
            known = [*CONDITIONS, "tool:NAME", "kind:NAME"]
            yield f"has the unknown condition {condition!r}; known: {', '.join(known)}, each also with `not` before it"
        elif pace > slot.pace:
            yield f"is {slot.pace}, but {condition!r} is only known with the {pace}; make it {pace}"


def check_paths(slot: Slot) -> Iterator[str]:
    """Check the paths of a slot."""
    if slot.pace is Pace.STATIC and (slot.per_user or slot.situations or "{" in slot.file + slot.folder + slot.text):
        yield "is static, but depends on the user or the situation; make its pace session"
    for path in filter(None, (slot.file, slot.folder, slot.text)):
        if path.startswith(("/", "~")) or posixpath.normpath(path).startswith(".."):
            yield f"names {path!r}, which is outside the workspace"


def check_texts(slot: Slot) -> Iterator[str]:
    """Check the placeholders of a slot's paths, and that its built-in text exists."""
    for name in (name for place in (slot.file, slot.folder, slot.text) for name in PATH_PLACEHOLDER.findall(place)):
        if name not in PATH_PLACEHOLDERS:
            yield f"has the unknown placeholder {{{name}}}{suggest_name(name, list(PATH_PLACEHOLDERS))}"
    if slot.text and not PATH_PLACEHOLDER.search(slot.text):
        prompts = list_prompts()
        is_folder = slot.source in FOLDER_SOURCES and any(name.startswith(f"{slot.text}/") for name in prompts)
        if slot.text not in prompts and not is_folder:
            nearest = suggest_name(slot.text, sorted(prompts))
            yield f"names the built-in text {slot.text!r}, which does not exist{nearest}"


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
