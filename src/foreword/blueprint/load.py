"""Loading a blueprint from YAML, with every fault at once."""

import posixpath
import re
from collections.abc import Iterator, Mapping

from foreword.blueprint.slot import Blueprint, Slot
from foreword.config.structure import settle, structure
from foreword.errors import Fault, suggest
from foreword.words import Pace, Placement

MARKER_FIELDS = {"kept": "1", "total": "2", "first": "1", "last": "2", "lines": "3", "call": "memory_get()"}
ID = re.compile(r"[A-Za-z0-9_.-]+")
Finding = tuple[tuple[str | int, ...], str]


def load(text: str, file: str, sources: Mapping[str, Pace]) -> Blueprint:
    """Read a blueprint and check what its types cannot say; `sources` names each source with its pace."""
    from foreword.config.composer import compose

    structured = structure(compose(text, file), Blueprint, file)
    findings = [] if structured.value is None else [*find_faults(structured.value, sources)]
    lines = {keys: place.line for keys, place in structured.places.items()}
    return settle(structured, [Fault(file=file, line=lines.get(keys), message=message) for keys, message in findings])


def find_faults(blueprint: Blueprint, sources: Mapping[str, Pace]) -> Iterator[Finding]:
    """Name what is inconsistent in a blueprint, and where."""
    seen: set[str] = set()
    for at, slot in enumerate(blueprint.slots):
        if slot.id in seen:
            yield ("slots", at), f"slot {slot.id!r} stands twice"
        seen.add(slot.id)
        for message in judge_slot(slot, blueprint, sources):
            yield ("slots", at), f"slot {slot.id!r} {message}"
    for name, share in blueprint.budget.tiers.items():
        if not 0 <= share <= 1:
            yield ("budget", "tiers", name), f"tier {name!r} takes a share from 0 to 1, not {share}"
    if min(blueprint.budget.system, blueprint.budget.turn, blueprint.budget.reserve, blueprint.budget.least) < 0:
        yield ("budget",), "a budget has no negative numbers"
    if blueprint.strict and not (blueprint.stub and blueprint.stub_without_call):
        yield (), "a strict blueprint tells the model what was left out; write stub and stub_without_call"
    for key in ("marker", "marker_without_call", "stub", "stub_without_call"):
        try:
            getattr(blueprint, key).format(**MARKER_FIELDS)
        except (KeyError, IndexError, ValueError, AttributeError, TypeError) as error:
            yield (key,), f"{key} has an unknown field: {error}; there is {', '.join(MARKER_FIELDS)}"


def judge_slot(slot: Slot, blueprint: Blueprint, sources: Mapping[str, Pace]) -> Iterator[str]:
    """Say what is wrong with one slot."""
    if not ID.fullmatch(slot.id):
        yield "needs a plain name: letters, digits, _ . and -"
    if slot.source not in sources:
        yield f"has the unknown source {slot.source!r}{suggest(slot.source, sorted(sources))}"
    elif sources[slot.source] > slot.pace:
        fast = sources[slot.source]
        yield f"is {slot.pace}, but its source {slot.source!r} depends on what changes with the {fast}; make it {fast}"
    if slot.tier not in blueprint.budget.tiers:
        yield f"has the unknown tier {slot.tier!r}{suggest(slot.tier, list(blueprint.budget.tiers))}"
    if slot.placement is Placement.TAIL and slot.pace is not Pace.TURN:
        yield "travels in the tail, which holds turn slots only"
    if slot.pace is Pace.STATIC and (slot.per_user or slot.situations or "{" in slot.file + slot.folder + slot.text):
        yield "is static, but depends on who is speaking or where; make its pace session"
    for path in filter(None, (slot.file, slot.folder, slot.text)):
        if path.startswith(("/", "~")) or posixpath.normpath(path).startswith(".."):
            yield f"names {path!r}, which is not below the workspace"
    if slot.floor < 0:
        yield "has a negative floor"
