"""Tables in the terminal. Import this module late: importing Rich is slow."""

import os
import sys
from collections.abc import Sequence
from textwrap import wrap

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

PACE_STYLES = {"static": "cyan", "session": "green", "turn": "yellow"}
VERDICT_STYLES = {"shortened": "yellow", "indexed": "blue", "dropped": "red", "withheld": "magenta"}
BAR_EIGHTHS = " ▏▎▍▌▋▊▉"
INDENT = " " * 5
NARROW_COLUMNS = 100  # columns; narrower terminals get compact tables
MIN_NOTE_COLUMNS = 36  # minimum columns for notes
UNLIMITED_COLUMNS = 10_000  # columns; piped output has one line per row


def find_width() -> int:
    """Return the width: COLUMNS if set, the terminal's width, or unlimited."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said) > 0:
        return int(said)
    return Console().width if sys.stdout.isatty() else UNLIMITED_COLUMNS


def make_table(*heads: str, right: tuple[str, ...] = (), narrow: bool = False) -> Table:
    """Make a table without borders; cells wrap between words and are never cut."""
    table = Table(box=None, padding=(0, 0, 0, 1) if narrow else (0, 1), header_style="bold", show_edge=False)
    for head in heads:
        table.add_column(head, justify="right" if head in right else "left", overflow="fold", vertical="top")
    return table


def print_table(table: Table, width: int) -> None:
    """Print a table, in colour on a terminal."""
    for line in render_table(table, width):
        print(line.rstrip())


def print_table_with_notes(table: Table, notes: Sequence[str], width: int) -> None:
    """Print a table with a note after each line, header included; long notes wrap in their column, or below the row."""
    used = Console(width=UNLIMITED_COLUMNS).measure(table).maximum + 1
    beside = width - used >= MIN_NOTE_COLUMNS
    indent = " " * used if beside else INDENT
    for line, note in zip(render_table(table, UNLIMITED_COLUMNS), notes, strict=True):
        said = str(make_cell(note))
        fits = used + cell_len(said) <= width
        room = width - len(indent)
        parts = (
            [said] if fits else wrap(said, max(MIN_NOTE_COLUMNS, room), break_long_words=False, break_on_hyphens=False)
        )
        print(f"{line} {parts.pop(0)}".rstrip() if beside or fits else line.rstrip())
        for part in parts:
            print(indent + part)


def render_table(table: Table, width: int) -> list[str]:
    """Render a table as lines, with colour codes on a terminal."""
    console = Console(width=width, highlight=False)
    with console.capture() as capture:
        console.print(table)
    return capture.get().splitlines()


def make_cell(value: str, style: str = "") -> Text:
    """Make a cell; control characters become visible."""
    return Text("".join(sign if sign.isprintable() else "�" for sign in value), style=style)


def draw_bar(value: int, most: int, cells: int) -> str:
    """Draw a number as a bar, to an eighth of a cell; a positive number always shows."""
    if value <= 0 or most <= 0:
        return ""
    whole, part = divmod(max(1, round(value / most * cells * 8)), 8)
    return "█" * whole + (BAR_EIGHTHS[part] if part else "")
