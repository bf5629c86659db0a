"""Conditions: what a slot may ask of a turn, and the pace at which the answer is known."""

from collections.abc import Mapping

from foreword.words import Pace

NOT = "not "
CONDITIONS: Mapping[str, Pace] = {
    "tools": Pace.STATIC,
    "native_tools": Pace.STATIC,
    "shell": Pace.STATIC,
    "identity": Pace.STATIC,
    "sandbox": Pace.SESSION,
    "plan": Pace.TURN,
}
TOOL, KIND = "tool:", "kind:"


def find_pace(condition: str) -> Pace | None:
    """Return the pace at which a condition is known, or None where there is no such condition."""
    name = condition.removeprefix(NOT)
    if name.startswith((TOOL, KIND)):
        return Pace.STATIC if name.partition(":")[2] else None
    return CONDITIONS.get(name)
