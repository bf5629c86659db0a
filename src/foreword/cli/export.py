"""`foreword export`: recorded events as JSON Lines, and what is exported deleted if one wants that."""

import os
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from foreword.cli.command import Command
from foreword.cli.events import Desk, add_period_options, add_reader_options, sit_down
from foreword.cli.output import count, print_json
from foreword.errors import InputError

if TYPE_CHECKING:
    import sqlite3

    from foreword.events.export import Exported
    from foreword.events.moment import Period


def add_options(parser: ArgumentParser) -> None:
    """Add the file, the time, and whose eyes it is seen with."""
    parser.add_argument("file", metavar="FILE", nargs="?", default="-", help="the file to make; else the output")
    parser.add_argument("--prune", action="store_true", help="delete what was exported; needs FILE and --until")
    add_period_options(parser)
    add_reader_options(parser)


def run(args: Namespace) -> int:
    """Write the events, and say how many they are."""
    from foreword.events.moment import read_period

    workspace, desk = sit_down(args)
    workspace.close()
    period = read_period(args.since, args.until, desk.now, desk.reader.timezone)
    done = prune(args, desk, period) if args.prune else export(args.file, desk, period)
    if args.file == "-":
        return 0
    if args.json:
        print_json({"file": args.file, "events": done.rows, "pruned": done.pruned})
    else:
        print(f"exported: {count(done.rows, 'event')}" + (f", deleted: {done.pruned:,}" if args.prune else ""))
    return 0


def export(path: str, desk: Desk, period: "Period") -> "Exported":
    """Write what the reader may see to the output, or to a file that appears whole or not at all."""
    from foreword.events.export import write_lines

    ends = (period.since, period.until)

    def write(log: "sqlite3.Connection") -> "Exported":
        log.execute("COMMIT")  # a long export must not hold on to one moment of the log
        if path == "-":
            return write_lines(log, desk.reader, sys.stdout, ends)
        with open(part, "w", encoding="utf-8") as file:
            return write_lines(log, desk.reader, file, ends, show_progress)

    part = f"{path}.part"
    if path == "-":
        return desk.ask(write)
    refuse_taken(path)
    try:
        done = desk.ask(write)
        os.link(part, path)  # unlike a rename, this fails where the name is taken
    finally:
        if os.path.lexists(part):
            os.unlink(part)
    end_progress()
    return done


def prune(args: Namespace, desk: Desk, period: "Period") -> "Exported":
    """Export everything before a day and delete it once it is safe; for who may see everything."""
    from foreword.events.export import export_and_prune
    from foreword.events.retention import find_cutoff
    from foreword.words import Trust

    if args.file == "-" or period.until is None or period.since is not None:
        raise InputError("--prune needs a FILE and --until, and takes no --since: what is deleted has to be kept whole")
    if desk.reader.clearance is not Trust.FULL or desk.reader.room:
        raise InputError("--prune deletes everybody's events, so it needs full trust and no room")
    refuse_taken(args.file)
    # Whole days of UTC, as retention deletes them, so that the sums of each day that stays are complete.
    done = export_and_prune(desk.folder, args.file, find_cutoff(period.until, 0), show_progress)
    end_progress()
    return done


def refuse_taken(path: str) -> None:
    """Refuse a name that is taken before any work is done."""
    if os.path.lexists(path):
        raise InputError(f"{path} exists already; name a new file")


def show_progress(done: int, whole: int) -> None:
    """Show on stderr how far the work is, where somebody watches."""
    if sys.stderr.isatty():
        print(f"\r{done:,} of {whole:,} rows", end="", file=sys.stderr, flush=True)


def end_progress() -> None:
    """End the line of the progress."""
    if sys.stderr.isatty():
        print(file=sys.stderr)


COMMAND = Command(
    name="export",
    arguments="[FILE]",
    summary="write recorded events as JSON Lines",
    description="Write recorded events as JSON Lines, in the order in which they were written, each with every column. "
    "A FILE appears whole or not at all, and none is written over. With --prune, everything before the day of --until "
    "is exported and then deleted; days are those of UTC.",
    examples=(
        "foreword export > events.jsonl",
        "foreword export november.jsonl --since 2026-11-01 --until 2026-11-30",
        "foreword export old.jsonl --until 30d --prune",
    ),
    add_options=add_options,
    run=run,
)
