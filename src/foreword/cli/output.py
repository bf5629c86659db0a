"""Output of commands: results, tables and JSON on stdout, warnings and errors on stderr.

Rich is imported only when a table is printed, because its import is slow.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

from foreword.errors import find_nearest

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

PACE_STYLES = {"static": "cyan", "session": "green", "turn": "yellow"}
BAR_EIGHTHS = " ▏▎▍▌▋▊▉"
NARROW_COLUMNS = 100  # columns; narrower terminals get compact tables
MIN_NOTE_COLUMNS = 36  # minimum columns for notes
UNLIMITED_COLUMNS = 10_000  # columns; piped output has one line per row
NOTE_INDENT = " " * 5

Cell = str | tuple[str, str]  # the text of a table cell, or a text and its style


def clean_text(text: str) -> str:
    """Replace control and reordering characters with a visible one. Chunks of a text can be cleaned one by one."""
    return text.translate(CLEAN_TABLE)


def clean_line(text: str) -> str:
    """Join a text into one line and clean it."""
    return " ".join(clean_text(text).split())


def print_json(value: Any) -> None:
    """Print a value as indented JSON, in its own order and without escapes."""
    print(json.dumps(to_plain(value), indent=2, ensure_ascii=False))


def print_text(text: str) -> None:
    """Print a text, with a final newline."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def warn(message: str) -> None:
    """Print a warning on stderr."""
    print(f"foreword: warning: {message}", file=sys.stderr)


def warn_about_names(warnings: Iterable[str], config: "Config", user: str, situation: str = "") -> None:
    """Warn about unknown names in a turn, and suggest the user and the situation probably meant."""
    for warning in warnings:
        warn(warning)
    for kind, name, known in (("user", user, config.users), ("situation", situation, config.situations)):
        if name and name not in known and (near := find_nearest(name, known)):
            warn(f"did you mean the {kind} {near!r}?")


def print_error(message: str) -> None:
    """Print an error on stderr."""
    print(f"foreword: {message}", file=sys.stderr)


@contextmanager
def show_progress() -> Iterator[Callable[[str], None]]:
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


def pick(value: object, *names: str) -> dict[str, Any]:
    """Return some attributes of a value by name."""
    return {name: getattr(value, name) for name in names}


def to_plain(value: Any) -> Any:
    """Convert frozen values to JSON-ready mappings, lists and strings."""
    if is_dataclass(value):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, datetime):
        from foreword.events.event import format_timestamp

        return format_timestamp(value)
    if isinstance(value, Enum):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    return [to_plain(item) for item in value] if isinstance(value, tuple | list) else value


def find_width() -> int:
    """Return the width: COLUMNS if set, the terminal's width, or unlimited."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    if not sys.stdout.isatty():
        return UNLIMITED_COLUMNS
    from rich.console import Console

    return Console().width


def print_table(
    heads: Sequence[str], rows: Iterable[Sequence[Cell]], *, right: Sequence[str] = (), notes: Sequence[str] = ()
) -> None:
    """Print a table without borders, in colour on a terminal.

    Cells wrap between words and are never cut. Notes, one for the header and one for each row, are printed after
    their line; long notes wrap in their column, or below the row.
    """
    import textwrap

    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    width = find_width()
    table = Table(box=None, padding=(0, 0, 0, 1) if width < NARROW_COLUMNS else (0, 1), show_edge=False)
    table.header_style = "bold"
    for head in heads:
        table.add_column(head, justify="right" if head in right else "left", overflow="fold", vertical="top")
    for row in rows:
        cells = [(cell, "") if isinstance(cell, str) else cell for cell in row]
        table.add_row(*(Text(clean_cell(text), style) for text, style in cells))
    console = Console(width=UNLIMITED_COLUMNS if notes else width, highlight=False)
    with console.capture() as capture:
        console.print(table)
    lines = capture.get().splitlines()
    if not notes:
        print("\n".join(line.rstrip() for line in lines))
        return
    used = console.measure(table).maximum + 1
    fits_in_column = width - used >= MIN_NOTE_COLUMNS
    indent = " " * used if fits_in_column else NOTE_INDENT
    room = max(MIN_NOTE_COLUMNS, width - len(indent))
    for line, note in zip(lines, map(clean_cell, notes), strict=True):
        fits = used + cell_len(note) <= width
        parts = [note] if fits else textwrap.wrap(note, room, break_long_words=False, break_on_hyphens=False)
        print((f"{line} {parts.pop(0)}" if fits_in_column or fits else line).rstrip())
        for part in parts:
            print((indent + part).rstrip())


def clean_cell(text: str) -> str:
    """Make the control characters of a cell visible."""
    return "".join(char if char.isprintable() else REPLACEMENT_CHAR for char in text)


def print_footer(text: str) -> None:
    """Print the last line below a table, wrapped between its parts."""
    lines, width = [""], find_width()
    for part in text.split(" · "):
        longer = f"{lines[-1]} · {part}" if lines[-1] else part
        if lines[-1] and len(longer) + 1 > width:
            lines.append(part)
        else:
            lines[-1] = longer
    print("\n" + "\n".join(f" {line}" for line in lines))


def draw_bar(value: int, most: int, cells: int) -> str:
    """Draw a number as a bar, to an eighth of a cell; a positive number always shows."""
    if value <= 0 or most <= 0:
        return ""
    whole, part = divmod(max(1, round(value / most * cells * 8)), 8)
    return "█" * whole + (BAR_EIGHTHS[part] if part else "")
