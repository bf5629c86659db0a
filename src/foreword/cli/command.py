"""A command: its name, what it says about itself, the options it takes, and what it does."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping

from foreword.frozen import frozen


@frozen(eq=True)
class Command:
    """One thing that can be typed after `foreword`."""

    name: str
    arguments: str = ""
    """What stands after the options, as the usage shows it."""
    summary: str
    description: str
    examples: tuple[str, ...]
    add_options: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]


def list_actions(actions: Mapping[str, str]) -> str:
    """List what a command does, each action with what it takes, in capitals or brackets, and what it is for."""
    takes = {name: about.startswith("[") or about[:2].isupper() for name, about in actions.items()}
    return "; ".join(f"{name} {about}" if takes[name] else f"{name}: {about}" for name, about in actions.items())
