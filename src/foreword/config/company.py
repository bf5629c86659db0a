"""Checks who is who and which place is what: no identity and no place may belong to two."""

import re
from collections.abc import Iterator

from foreword.config.finding import Finding, Places, find, find_texts, list_names
from foreword.config.pattern import judge_pattern
from foreword.config.people import Room
from foreword.errors import suggest

OWN = ("terminal", "web", "scheduled")  # channels that prove who somebody is by their name in this configuration
LONGEST = 200  # characters of an identity or a place
_WRITTEN = re.compile(r"[a-z][a-z0-9-]*:[^\s\x00-\x1f]+")
ONE_FOLDER = "on some disks the two would share the folder users/NAME/; rename one of them"
WRITE = "must be a channel, a colon and the channel's own id, such as telegram:1001"


def check_company(places: Places) -> Iterator[Finding]:
    """Check names, identities, places, members, triggers and how often strangers are answered."""
    yield from _check_case(places)
    yield from _check_identities(places)
    yield from _check_places(places)
    yield from _check_members(places)
    yield from _check_triggers(places)
    for keys, place in find(places, "strangers", "*"):
        if isinstance(place.value, int) and place.value < 0:
            yield keys, place.line, f"must not be below 0, not {place.value}"


def _check_case(places: Places) -> Iterator[Finding]:
    seen: dict[str, tuple[str, int]] = {}
    for keys, place in find(places, "users", "*"):
        name = str(keys[-1])
        other, line = seen.setdefault(name.casefold(), (name, place.line))
        if other != name:
            yield keys, place.line, f"differs from {other!r} on line {line} only in case; {ONE_FOLDER}"


def _check_identities(places: Places) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    for keys, line, identity in find_texts(places, "users", "*", "identities", "*"):
        family, _, name = identity.partition(":")
        if not is_written(identity):
            yield keys, line, f"{WRITE}, not {_show(identity)}"
        elif family in OWN and name != keys[1]:
            yield keys, line, f"is another's: on {family} everybody is known by their own name"
        elif identity in seen:
            yield keys, line, f"is {identity!r}, which belongs to somebody already on line {seen[identity]}"
        seen.setdefault(identity, line)


def _check_places(places: Places) -> Iterator[Finding]:
    # A room that is named like a place is that place.
    seen = {str(keys[-1]): place.line for keys, place in find(places, "rooms", "*") if ":" in str(keys[-1])}
    for keys, line, written in find_texts(places, "rooms", "*", "places", "*"):
        if not is_written(written):
            yield keys, line, f"{WRITE}, not {_show(written)}"
        elif written in seen and written != keys[1]:
            yield keys, line, f"is {written!r}, which is a room already on line {seen[written]}"
        seen.setdefault(written, line)


def _check_members(places: Places) -> Iterator[Finding]:
    known = list_names(places, "users")
    for keys, line, name in find_texts(places, "rooms", "*", "members", "*"):
        if name not in known:
            yield keys, line, f"is {_show(name)}, who is not listed under users{suggest(name, known)}"


def _check_triggers(places: Places) -> Iterator[Finding]:
    for keys, place in find(places, "rooms", "*"):
        room = place.value
        if not isinstance(room, Room):
            continue
        line = places[*keys, "pattern"].line if (*keys, "pattern") in places else place.line
        if room.pattern and room.trigger != "regex":
            yield (*keys, "pattern"), line, "is used with trigger: regex alone"
        elif room.trigger == "regex" and (problem := judge_pattern(room.pattern)):
            yield (*keys, "pattern"), line, problem


def is_written(name: str) -> bool:
    """Whether an identity or a place is written as one."""
    return len(name) <= LONGEST and name.isprintable() and bool(_WRITTEN.fullmatch(name))


def _show(name: str) -> str:
    return repr(name if len(name) <= LONGEST else f"{name[:LONGEST]}…")
