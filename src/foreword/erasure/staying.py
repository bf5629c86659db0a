"""What stays of a person and why: what is not Foreword's to remove, and what nobody can tell apart any more."""

import os
from collections.abc import Iterator

from foreword.config.schema import Config
from foreword.config.structure import spell, structure
from foreword.erasure.blotting import Blotter
from foreword.erasure.holding import Bases
from foreword.erasure.person import Person
from foreword.erasure.remembered import list_additions, list_entries, list_memories, read_whole
from foreword.events.forgetting import ASIDE, list_names
from foreword.memory.notes import remove_added
from foreword.sources.own_memory import find_own_person
from foreword.sources.provenance import find_author

CONFIG = "foreword.yaml"
ELSE = ("agents", "models", "providers")  # what may be called as a person is
ALWAYS = (
    "money that was spent stays in the sums of everybody, without the name",
    "what other people wrote stays theirs, also where it is about this person",
    "copies elsewhere are out of reach: backups, exports, what a model's provider was sent, a channel's own history",
)


def list_staying(text: str, bases: Bases, person: Person) -> Iterator[str]:
    """List what stays, with the place at which an owner can remove it."""
    yield from list_configured(text, person.name)
    yield from list_namesakes(bases, person)
    yield from list_edited(bases, person)
    yield from list_written(bases, person)
    if aside := [name for name in sorted(list_names(bases.folder)) if ASIDE.match(name)]:
        yield f"a damaged log that was put aside may hold their events; remove it by hand: {', '.join(aside)}"
    if bases.config.events.otlp:
        yield f"spans were sent to {bases.config.events.otlp}, which is out of reach; remove them there"
    yield from ALWAYS


def list_configured(text: str, name: str) -> Iterator[str]:
    """List where the configuration names them; it is the owner's to edit."""
    from foreword.config.composer import compose

    if not text:
        return
    places = structure(compose(text, CONFIG), Config, CONFIG).places
    named = {
        (place.line, spell(keys))
        for keys, place in places.items()
        if (keys[-1:] == (name,) and "users" in keys) or (place.value == name and keys[0] not in ELSE)
    }
    for line, keys in sorted(named):
        yield f"{CONFIG}:{line}: {keys} names them; the configuration is the owner's to edit"


def list_namesakes(bases: Bases, person: Person) -> Iterator[str]:
    """List other names under which the same identity was known, as after a renaming."""
    if bases.state is None:
        return
    asked = "SELECT DISTINCT user_id FROM identities WHERE identity = ? AND user_id != ?"
    names = {name for one in person.names for (name,) in bases.state.execute(asked, (one, person.name))}
    for name, user in bases.config.users.items():
        if name != person.name and set(user.identities) & person.names:
            names.add(name)
    for name in sorted(names):
        yield f"{name} has an identity of theirs; if both are one person: foreword forget {name}"


def list_edited(bases: Bases, person: Person) -> Iterator[str]:
    """List the notes with a promoted text of theirs that was edited since, so that it is the owner's by now."""
    edited = [path for path, text in list_additions(bases.root, person.names) if not text]
    for path in dict.fromkeys(edited):
        yield f"{path}: a text of theirs was edited since and stays"


def list_written(bases: Bases, person: Person) -> Iterator[str]:
    """List what people wrote by hand and that repeats words of theirs."""
    blotter, own = Blotter(person, memories=False), frozenset(list_entries(bases.root, person.names))
    paths = [path for path in list_memories(bases.root) if path not in own and not find_author(path)]
    if os.path.isfile(os.path.join(bases.root, "MEMORY.md")):
        paths.append("MEMORY.md")
    others: set[str] = set()
    for path in paths:
        text = remove_added(read_whole(os.path.join(bases.root, path)), person.names)
        if blotter.wipe(text) == text:
            continue
        if other := find_own_person(path):  # names of files are private as well
            others.add(other)
        else:
            yield f"{path} was written by hand and repeats words of theirs; edit it there"
    for other in sorted(others):
        yield f"the own memory of {other} repeats words of theirs; ask {other} to edit it"
