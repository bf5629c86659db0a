"""Commands inside the chat: what is typed after a slash, read; the table of them is in `commands`."""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from foreword.errors import InputError, find_nearest
from foreword.frozen import frozen

if TYPE_CHECKING:
    from foreword.cli.chat.talk import Talk

# A path such as /etc/hosts is no command.
TYPED = re.compile(r"/(?P<name>[A-Za-z?][A-Za-z-]*|)(?:\s+(?P<rest>.*))?\s*", re.DOTALL)


@frozen
class Slash:
    """One command inside the chat."""

    name: str
    arguments: str = ""
    about: str
    run: "Callable[[Talk, str], Awaitable[str]]"
    """What it does with the words behind its name; it returns what is to be said to the agent next, if anything."""


@frozen(eq=True)
class Typed:
    """A command as it was typed."""

    name: str
    rest: str = ""


def read_typed(text: str) -> Typed | str:
    """Read what was typed: a command, or a message; two slashes begin a message that begins with one."""
    stripped = text.strip()
    if stripped.startswith("//"):
        return stripped[1:]
    if not (found := TYPED.fullmatch(stripped)):
        return text
    return Typed(name=found["name"].lower(), rest=(found["rest"] or "").strip())


def choose(typed: Typed, commands: Mapping[str, Slash]) -> Slash:
    """Choose the command that was typed, or raise InputError with the nearest name."""
    name = "help" if typed.name in ("", "?") else typed.name
    if name not in commands:
        near = find_nearest(name, commands)
        meant = f"; did you mean /{near}?" if near else "."
        raise InputError(f"there is no command /{name}{meant} /help lists them, and // begins a message with a slash")
    return commands[name]
