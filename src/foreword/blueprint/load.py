"""Loading a blueprint from YAML, with every fault at once."""

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Protocol

from foreword.blueprint.condition import CONDITIONS, find_pace
from foreword.blueprint.slot import LISTED, Blueprint, Room, Slot
from foreword.config.structure import settle, structure
from foreword.errors import Fault, suggest
from foreword.words import Pace, Placement

MARKER_FIELDS = {"kept": "1", "total": "2", "first": "1", "last": "2", "lines": "3", "call": "memory_get()"}
NOTICE_FIELDS = {**MARKER_FIELDS, "limit": "8,000", "size": "9,000", "name": "AGENTS.md"}
ID = re.compile(r"[A-Za-z0-9_.-]+")
VARIABLE = re.compile(r"[A-Za-z_]\w*")
Finding = tuple[tuple[str | int, ...], str]


Judge = Callable[[Slot], Iterable[str]]


def find_nothing(_: Slot) -> Iterable[str]:
    """Find no fault in the words of a slot."""
    return ()


class Ability(Protocol):
    """What a blueprint needs to know of a source."""

    @property
    def pace(self) -> Pace:
        """The pace of what it depends on."""
        ...

    @property
    def fields(self) -> AbstractSet[str]:
        """The fields of a form that it fills in by itself."""
        ...


def load(text: str, file: str, sources: Mapping[str, Ability], judge: Judge = find_nothing) -> Blueprint:
    """Read a blueprint and check what its types cannot say: what sources can do, and what `judge` knows of words."""
    from foreword.config.composer import compose

    structured = structure(compose(text, file), Blueprint, file)
    findings = [] if structured.value is None else [*find_faults(structured.value, sources, judge)]
    lines = {keys: place.line for keys, place in structured.places.items()}
    return settle(structured, [Fault(file=file, line=lines.get(keys), message=message) for keys, message in findings])


def find_faults(blueprint: Blueprint, sources: Mapping[str, Ability], judge: Judge) -> Iterator[Finding]:
    """Name what is inconsistent in a blueprint, and where."""
    seen: set[str] = set()
    for at, slot in enumerate(blueprint.slots):
        if slot.id in seen:
            yield ("slots", at), f"slot {slot.id!r} stands twice"
        seen.add(slot.id)
        for message in (*judge_slot(slot, blueprint, sources), *(judge(slot) if slot.source in sources else ())):
            yield ("slots", at), f"slot {slot.id!r} {message}"
    yield from judge_budget(blueprint)
    yield from judge_markers(blueprint)


def judge_budget(blueprint: Blueprint) -> Iterator[Finding]:
    """Say what is wrong with the numbers."""
    budget = blueprint.budget
    for key, tiers in (("tiers", budget.tiers), ("turn_tiers", budget.turn_tiers)):
        for name, share in tiers.items():
            if not 0 <= share <= 1:
                yield ("budget", key, name), f"tier {name!r} takes a share from 0 to 1, not {share}"
    for key in ("window_share", "turn_share"):
        if not 0 <= (share := getattr(budget, key)) <= 1:
            yield ("budget",), f"{key} is a share from 0 to 1, not {share}"
    if min(budget.system, budget.turn, budget.reserve, budget.least, budget.window, budget.texts) < 0:
        yield ("budget",), "a budget has no negative numbers"


def judge_markers(blueprint: Blueprint) -> Iterator[Finding]:
    """Say what is wrong with the texts that stand where something is missing."""
    if blueprint.strict and not (blueprint.stub and blueprint.stub_without_call):
        yield (), "a strict blueprint tells the model what was left out; write stub and stub_without_call"
    for key in ("marker", "marker_without_call", "notice", "stub", "stub_without_call"):
        known = NOTICE_FIELDS if key == "notice" else MARKER_FIELDS
        try:
            getattr(blueprint, key).format(**known)
        except (KeyError, IndexError, ValueError, AttributeError, TypeError) as error:
            yield (key,), f"{key} has an unknown field: {error}; there is {', '.join(known)}"


def judge_slot(slot: Slot, blueprint: Blueprint, sources: Mapping[str, Ability]) -> Iterator[str]:
    """Say what is wrong with one slot."""
    yield from judge_source(slot, sources)
    yield from judge_place(slot, blueprint)
    yield from judge_conditions(slot)
    yield from judge_paths(slot)
    if min(slot.floor, slot.room, slot.limit, slot.limit_all) < 0:
        yield "has a negative floor, room or limit"
    if slot.room and (slot.pace is not Pace.TURN or blueprint.budget.turn_room is Room.REST):
        yield "has a room of its own, which only a turn slot beside a fixed turn has"
    if slot.source == "recall" and not slot.room:
        yield "recalls passages and needs a room of its own for them"


def judge_source(slot: Slot, sources: Mapping[str, Ability]) -> Iterator[str]:
    """Say what is wrong with the name of a slot and with what fills it."""
    if not ID.fullmatch(slot.id):
        yield "needs a plain name: letters, digits, _ . and -"
    if slot.source not in sources:
        yield f"has the unknown source {slot.source!r}{suggest(slot.source, sorted(sources))}"
        return
    if slot.source in ("template", LISTED) and slot.pace is Pace.TURN:
        yield "may hold a template, which is filled in once for many turns; make its pace static or session"
    fast = sources[slot.source].pace
    if fast > slot.pace:
        yield f"is {slot.pace}, but its source {slot.source!r} depends on what changes with the {fast}; make it {fast}"
    if sources[slot.source].fields and not slot.form:
        yield f"needs a form for the source {slot.source!r} to fill in"


def judge_place(slot: Slot, blueprint: Blueprint) -> Iterator[str]:
    """Say what is wrong with where a slot stands."""
    tiers = list(blueprint.budget.turn_tiers if slot.pace is Pace.TURN else ()) or list(blueprint.budget.tiers)
    if slot.tier not in tiers:
        yield f"has the unknown tier {slot.tier!r}{suggest(slot.tier, tiers)}"
    if slot.placement is Placement.TAIL and slot.pace is not Pace.TURN:
        yield "travels in the tail, which holds turn slots only"
    if (slot.variable or slot.placement is Placement.NESTED) and not VARIABLE.fullmatch(slot.variable):
        yield "needs a plain variable for templates to name it by"
    if slot.variable and slot.pace is Pace.TURN:
        yield "changes with the turn, and would move everything behind it in a template; give it no variable"


def judge_conditions(slot: Slot) -> Iterator[str]:
    """Say which conditions of a slot do not exist, or are known too late for it."""
    for condition in slot.when:
        pace = find_pace(condition)
        if pace is None:
            known = [*CONDITIONS, "tool:NAME", "kind:NAME"]
            yield f"has the unknown condition {condition!r}; there is {', '.join(known)}, each with `not` before it"
        elif pace > slot.pace:
            yield f"is {slot.pace}, but {condition!r} is only known with the {pace}; make it {pace}"


def judge_paths(slot: Slot) -> Iterator[str]:
    """Say which paths of a slot cannot be."""
    if slot.pace is Pace.STATIC and (slot.per_user or slot.situations or "{" in slot.file + slot.folder + slot.text):
        yield "is static, but depends on who is speaking or where; make its pace session"
    for path in filter(None, (slot.file, slot.folder, slot.text)):
        if path.startswith(("/", "~")) or posixpath.normpath(path).startswith(".."):
            yield f"names {path!r}, which is not below the workspace"
