"""Loading a blueprint from YAML, with every fault at once."""

from collections.abc import Iterator, Mapping

from foreword.blueprint.slot import Blueprint
from foreword.config.structure import parse
from foreword.errors import ConfigError, Fault, suggest
from foreword.words import Pace, Placement

MARKER_FIELDS = {"kept": "1", "total": "2", "first": "1", "last": "2", "lines": "3", "call": "memory_get()"}


def load(text: str, file: str, sources: Mapping[str, Pace]) -> Blueprint:
    """Read a blueprint and check what its types cannot say; `sources` names each source with its pace."""
    blueprint = parse(text, Blueprint, file)
    if faults := [Fault(file=file, line=None, message=message) for message in find_faults(blueprint, sources)]:
        raise ConfigError(faults)
    return blueprint


def find_faults(blueprint: Blueprint, sources: Mapping[str, Pace]) -> Iterator[str]:
    """Name what is inconsistent in a blueprint."""
    seen: set[str] = set()
    for slot in blueprint.slots:
        if slot.id in seen:
            yield f"slot {slot.id!r} stands twice"
        seen.add(slot.id)
        if slot.source not in sources:
            yield f"slot {slot.id!r} has the unknown source {slot.source!r}{suggest(slot.source, sorted(sources))}"
        elif sources[slot.source] > slot.pace:
            yield (
                f"slot {slot.id!r} is {slot.pace}, but its source {slot.source!r} depends on what changes with "
                f"the {sources[slot.source]}; make its pace {sources[slot.source]}"
            )
        if slot.tier not in blueprint.budget.tiers:
            near = suggest(slot.tier, list(blueprint.budget.tiers))
            yield f"slot {slot.id!r} has the unknown tier {slot.tier!r}{near}"
        if slot.placement is Placement.TAIL and slot.pace is not Pace.TURN:
            yield f"slot {slot.id!r} travels in the tail, which holds turn slots only"
    if blueprint.strict and not (blueprint.stub and blueprint.stub_without_call):
        yield "a strict blueprint tells the model what was left out; write stub and stub_without_call"
    for marker in (blueprint.marker, blueprint.marker_without_call, blueprint.stub, blueprint.stub_without_call):
        try:
            marker.format(**MARKER_FIELDS)
        except (KeyError, IndexError, ValueError, AttributeError, TypeError) as error:
            yield f"the marker {marker!r} has an unknown field: {error}; there is {', '.join(MARKER_FIELDS)}"
