"""Tables in the terminal. Import this late: Rich takes its time."""

import os
import sys
from collections.abc import Sequence
from textwrap import wrap

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

PACES = {"static": "cyan", "session": "green", "turn": "yellow"}
VERDICTS = {"shortened": "yellow", "indexed": "blue", "dropped": "red", "withheld": "magenta"}
EIGHTHS = " ▏▎▍▌▋▊▉"
INDENT = " " * 5
NARROW = 100  # columns; below this a table is made to take as few as it can
COLUMN = 36  # columns that make a column of sentences
ENDLESS = 10_000  # columns; what is piped is read by programs, which want a row on a line


def find_width() -> int:
    """Find how many columns there are: as many as somebody says, as the terminal has, or as it takes."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said) > 0:
        return int(said)
    return Console().width if sys.stdout.isatty() else ENDLESS


def make_table(*heads: str, right: tuple[str, ...] = (), narrow: bool = False) -> Table:
    """Make a table without lines, in which every cell is folded between words and none is cut."""
    table = Table(box=None, padding=(0, 0, 0, 1) if narrow else (0, 1), header_style="bold", show_edge=False)
    for head in heads:
        table.add_column(head, justify="right" if head in right else "left", overflow="fold", vertical="top")
    return table


def draw(table: Table, width: int) -> None:
    """Draw a table, in colour where there is a terminal to show it."""
    for line in render(table, width):
        print(line.rstrip())


def draw_with_notes(table: Table, notes: Sequence[str], width: int) -> None:
    """Draw a table with a note behind each line, its head included; a long one goes on in its column, or below."""
    used = Console(width=ENDLESS).measure(table).maximum + 1
    beside = width - used >= COLUMN
    indent = " " * used if beside else INDENT
    for line, note in zip(render(table, ENDLESS), notes, strict=True):
        said = str(cell(note))
        fits = used + cell_len(said) <= width
        room = width - len(indent)
        parts = [said] if fits else wrap(said, max(COLUMN, room), break_long_words=False, break_on_hyphens=False)
        print(f"{line} {parts.pop(0)}".rstrip() if beside or fits else line.rstrip())
        for part in parts:
            print(indent + part)


def render(table: Table, width: int) -> list[str]:
    """Render a table as lines, with the signs for colour in them where there is a terminal."""
    console = Console(width=width, highlight=False)
    with console.capture() as capture:
        console.print(table)
    return capture.get().splitlines()


def cell(value: str, style: str = "") -> Text:
    """Make a cell of a text; what could steer the terminal is made visible instead."""
    return Text("".join(sign if sign.isprintable() else "�" for sign in value), style=style)


def draw_bar(value: int, most: int, cells: int) -> str:
    """Draw a number as a bar, to an eighth of a cell; what is not nothing is never invisible."""
    if value <= 0 or most <= 0:
        return ""
    whole, part = divmod(max(1, round(value / most * cells * 8)), 8)
    return "█" * whole + (EIGHTHS[part] if part else "")
