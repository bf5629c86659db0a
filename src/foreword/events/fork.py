"""Forks: a forked process forgets the threads, locks and connections that it has from its parent, in one place."""

import os
import weakref
from typing import Protocol


class Forked(Protocol):
    """What begins anew in a forked process."""

    def reset(self) -> None:
        """Begin without anything that is the parent's."""


_ALL: "weakref.WeakSet[Forked]" = weakref.WeakSet()
_INHERITED: list[object] = []


def follow(one: Forked) -> None:
    """Have something begin anew in every process that is forked from this one."""
    _ALL.add(one)


def leave(connection: object) -> None:
    """Leave a connection of the parent's alone: to close it here would meddle with the parent's file."""
    _INHERITED.append(connection)


def start_anew() -> None:
    """Begin anew in a process that was forked."""
    for one in list(_ALL):
        one.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=start_anew)
