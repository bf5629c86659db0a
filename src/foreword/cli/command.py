"""A command: its name, what it says about itself, the options it takes, and what it does."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable

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
