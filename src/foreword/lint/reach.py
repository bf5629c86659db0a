"""Reach: everything that some turn of this workspace may have, tried out with the engine's own selection."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from foreword.blueprint import Blueprint, select
from foreword.config.schema import Config
from foreword.trust import Clearance, resolve
from foreword.turn import Turn
from foreword.words import Mode


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reach:
    """What can be reached: slots by agent, paths, and the highest clearance there is."""

    slots: frozenset[tuple[str, str]]
    paths: frozenset[str]
    best: Clearance


def explore(config: Config, blueprints: Mapping[str, Blueprint]) -> Reach:
    """Select the slots of every kind of turn that this configuration can have."""
    turns = [(turn, resolve(turn, config)) for turn in imagine(config)]
    slots: set[tuple[str, str]] = set()
    paths: set[str] = set()
    for agent, blueprint in blueprints.items():
        alike = all(Mode.FULL in slot.modes for slot in blueprint.slots)
        for mode in (Mode.FULL,) if alike else Mode:
            for turn, clearance in turns:
                plan = select(at(turn, agent, mode), clearance, config, blueprint)
                for entry in (entry for run in plan.runs for entry in run.entries if entry.verdict is None):
                    slots.add((agent, entry.id))
                    paths.update(entry.paths)
    best = max((clearance for _, clearance in turns), key=lambda clearance: clearance.level)
    return Reach(slots=frozenset(slots), paths=frozenset(paths), best=best)


def imagine(config: Config) -> Iterator[Turn]:
    """Imagine everybody everywhere in private, and one person of each level in each kind of room."""
    for situation in ("", *config.situations):
        yield from (Turn(user=user, situation=situation) for user in ("", *config.users))
    levels = {person.trust: name for name, person in config.users.items()}
    rooms = {(room.situation, room.ceiling): name for name, room in config.rooms.items()}
    for room in rooms.values():
        for situation in config.situations:
            yield from (Turn(user=user, situation=situation, room=room) for user in levels.values())


def at(turn: Turn, agent: str, mode: Mode) -> Turn:
    """Let the same turn go to another agent, in another mode."""
    return Turn(agent=agent, user=turn.user, situation=turn.situation, room=turn.room, mode=mode)
