"""Output of commands: results and JSON on stdout, warnings and errors on stderr.

Remove control and reordering characters from text before it is printed to a terminal.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foreword.config.schema import Config


REPLACEMENT_CHAR = "�"
NEWLINE_CHARS = "\u0085\u2028\u2029"
# U+202E reverses the following text, so that a harmful name can look harmless.
REORDERING_CHARS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
SURROGATES = range(0xD800, 0xE000)
CONTROLS = [*range(0x20), 0x7F, *range(0x80, 0xA0)]

CLEAN_TABLE: dict[int, str | None] = {
    **dict.fromkeys([*CONTROLS, *map(ord, REORDERING_CHARS), *SURROGATES], REPLACEMENT_CHAR),
    **dict.fromkeys(map(ord, NEWLINE_CHARS), "\n"),
    ord("\n"): "\n",
    ord("\t"): "\t",
    ord("\r"): None,
}


def clean_text(text: str) -> str:
    """Replace control characters with a visible one. Chunks of a text can be cleaned one by one."""
    return text.translate(CLEAN_TABLE)


def clean_line(text: str) -> str:
    """Join a text into one line and clean it."""
    return " ".join(clean_text(text).split())


def print_json(value: Any) -> None:
    """Print a value as indented JSON, in its own order and without escapes."""
    import json

    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_text(text: str) -> None:
    """Print a text, with a final newline."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def warn(message: str) -> None:
    """Print a warning on stderr."""
    print(f"foreword: warning: {message}", file=sys.stderr)


def warn_about_names(warnings: Iterable[str], config: "Config", user: str, situation: str = "") -> None:
    """Warn about unknown names in a turn, and suggest the user and the situation probably meant."""
    from foreword.errors import find_nearest

    for warning in warnings:
        warn(warning)
    for kind, name, known in (("user", user, config.users), ("situation", situation, config.situations)):
        if name and name not in known and (near := find_nearest(name, known)):
            warn(f"did you mean the {kind} {near!r}?")


def print_error(message: str) -> None:
    """Print an error on stderr."""
    print(f"foreword: {message}", file=sys.stderr)


@contextmanager
def show_progress() -> "Iterator[Callable[[str], None]]":
    """Yield a function that replaces the progress line on stderr, if that is a terminal; end the line afterwards."""
    shown = False

    def show(text: str) -> None:
        nonlocal shown
        if sys.stderr.isatty():
            print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)
            shown = True

    try:
        yield show
    finally:
        if shown:
            print(file=sys.stderr)


def count(number: int, noun: str) -> str:
    """Format a number with its noun, singular or plural."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def print_footer(text: str, width: int) -> None:
    """Print the last line, wrapped between its parts."""
    lines = [""]
    for part in text.split(" · "):
        longer = f"{lines[-1]} · {part}" if lines[-1] else part
        if lines[-1] and len(longer) + 1 > width:
            lines.append(part)
        else:
            lines[-1] = longer
    print("\n" + "\n".join(f" {line}" for line in lines))


def to_plain(value: Any) -> Any:
    """Convert frozen values to JSON-ready mappings, lists and strings."""
    if is_dataclass(value):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Enum):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    return [to_plain(item) for item in value] if isinstance(value, tuple | list) else value
