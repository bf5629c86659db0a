"""What the commands print: JSON and answers to stdout, warnings and complaints to stderr."""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foreword.config.schema import Config


def print_json(value: Any) -> None:
    """Print a value as JSON for people and programs alike: indented, in the order it has, nothing escaped."""
    import json

    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_text(text: str) -> None:
    """Print a text and end it with a line break if it has none."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def warn(message: str) -> None:
    """Warn on stderr about something that did not stop the command."""
    print(f"foreword: warning: {message}", file=sys.stderr)


def warn_of_names(warnings: Iterable[str], config: "Config", user: str, situation: str = "") -> None:
    """Warn about the unknown names of a turn, and offer the user and the situation that were probably meant."""
    from foreword.errors import find_nearest

    for warning in warnings:
        warn(warning)
    for kind, name, known in (("user", user, config.users), ("situation", situation, config.situations)):
        if name and name not in known and (near := find_nearest(name, known)):
            warn(f"did you mean the {kind} {near!r}?")


def complain(message: str) -> None:
    """Say on stderr why the command could not do its work."""
    print(f"foreword: {message}", file=sys.stderr)


def count(number: int, noun: str) -> str:
    """Count things in words that fit the number."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def print_foot(text: str, width: int) -> None:
    """Print the last line, broken where one of its parts ends."""
    lines = [""]
    for part in text.split(" · "):
        longer = f"{lines[-1]} · {part}" if lines[-1] else part
        if lines[-1] and len(longer) + 1 > width:
            lines.append(part)
        else:
            lines[-1] = longer
    print("\n" + "\n".join(f" {line}" for line in lines))


def make_plain(value: Any) -> Any:
    """Turn frozen values into what JSON can hold: mappings, lists, and the words of enums."""
    if is_dataclass(value):
        return {field.name: make_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Enum):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): make_plain(item) for key, item in value.items()}
    return [make_plain(item) for item in value] if isinstance(value, tuple | list) else value
