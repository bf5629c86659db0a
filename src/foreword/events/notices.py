"""Notices: what the owner has to know without having asked, told wherever the owner can be reached."""

from typing import Protocol

from foreword.events.event import Level
from foreword.frozen import frozen


@frozen(eq=True)
class Notice:
    """Something for the owner alone; it names files, lines and settings, and quotes nothing that could be a secret."""

    text: str
    level: Level = Level.ERROR


class Notices(Protocol):
    """A way to the owner: a terminal, a chat of theirs, a page."""

    def notify(self, notice: Notice) -> None:
        """Take a notice, at once and without waiting: whoever sends it on does that later."""


class Board:
    """Hands every notice to everybody who is a way to the owner; one that fails keeps nothing from the others."""

    def __init__(self, *ways: Notices) -> None:
        self.ways: list[Notices] = [*ways]

    def notify(self, notice: Notice) -> None:
        """Hand a notice on."""
        for way in [*self.ways]:
            try:
                way.notify(notice)
            except Exception:  # noqa: BLE001, S112 - it is in the log, too, whoever cannot take it
                continue
