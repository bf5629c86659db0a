"""Fakes for Foreword's own seams, for the tests of those who build on it."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime

from foreword.events.event import Event
from foreword.events.listening import Listeners
from foreword.scripted import MovedClock, OverBudget, Refusal, Reply, ScriptedLoop, ToolFailed
from foreword.standin import Breaks, Called, Garbles, Hangs, Refuses, Says, StandIn, listen
from foreword.standin.telegram import Delays, Drops, Errs, Flood, StandInBot, listen_telegram
from foreword.workspace import Workspace, open_workspace

__all__ = [
    "NOON",
    "Breaks",
    "Called",
    "Delays",
    "Drops",
    "Errs",
    "Flood",
    "FrozenClock",
    "Garbles",
    "Hangs",
    "Heard",
    "Listeners",
    "MovedClock",
    "OverBudget",
    "Refusal",
    "Refuses",
    "Reply",
    "Says",
    "ScriptedLoop",
    "StandIn",
    "StandInBot",
    "ToolFailed",
    "listen",
    "listen_telegram",
    "make_workspace",
    "write_files",
]

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


class FrozenClock:
    """A clock that shows the same moment until it is set."""

    def __init__(self, now: datetime = NOON) -> None:
        self.now = now

    def __call__(self) -> datetime:
        """Return the frozen moment."""
        return self.now


class Heard:
    """A recorder that keeps what it hears."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def record(self, event: Event) -> None:
        """Keep an event."""
        self.events.append(event)

    @property
    def types(self) -> list[str]:
        """The types of what it heard, in order."""
        return [event.type.value for event in self.events]


def write_files(folder: str | os.PathLike[str], files: Mapping[str, str]) -> None:
    """Write texts to paths below a folder, making folders as needed."""
    for path, text in files.items():
        place = os.path.join(folder, path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "w", encoding="utf-8") as file:
            file.write(text)


def make_workspace(folder: str | os.PathLike[str], files: Mapping[str, str]) -> Workspace:
    """Write a workspace and open it at a frozen time in UTC; without a foreword.yaml there is an owner called alice."""
    config = "owner: alice\nusers: {alice: {trust: full}}\n"
    write_files(folder, {"foreword.yaml": config, **files})
    return open_workspace(os.fspath(folder), FrozenClock(), zone="UTC")
