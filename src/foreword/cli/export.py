"""`foreword export`: recorded events, or all that is kept of a person, as JSON Lines."""

import os
import sys
from argparse import ArgumentParser, Namespace
from contextlib import contextmanager
from typing import TYPE_CHECKING

from foreword.cli.command import Command
from foreword.cli.events import Desk, add_period_options, add_reader_options, sit_down
from foreword.cli.output import count, print_json
from foreword.errors import InputError
from foreword.words import Trust

if TYPE_CHECKING:
    from collections.abc import Iterator

    from foreword.events.export import Exported, Progress
    from foreword.events.moment import Period

OUTPUT = "-"
LEVELS = tuple(str(level) for level in Trust)


def add_options(parser: ArgumentParser) -> None:
    """Add the file, the time, and whose eyes it is seen with."""
    parser.add_argument("file", metavar="FILE", nargs="?", help="the file to make; else, or with -, the output")
    parser.add_argument("--prune", action="store_true", help="delete what was exported; needs FILE and --until")
    parser.add_argument("--user", metavar="NAME", help="all that is kept of this person, instead of events")
    parser.add_argument(
        "--trust",
        metavar="LEVEL",
        choices=LEVELS,
        help="with --user: give what was learned up to this level; else up to what the person may see now",
    )
    add_period_options(parser)
    add_reader_options(parser)


def run(args: Namespace) -> int:
    """Write the events, and say how many they are."""
    from foreword.events.moment import read_whole

    # No default of the parser: a - that was typed would be taken for none, and a word behind it for the file.
    args.file = OUTPUT if args.file is None else args.file
    if not args.file:
        raise InputError("the name of the file is empty; name one, or none for the output")
    if args.user is not None:
        from foreword.cli.person import hand_over

        return hand_over(args)
    if args.trust:
        raise InputError("--trust says what a person is given, and needs --user")
    workspace, desk = sit_down(args)
    workspace.close()
    period = read_whole(args.since, args.until, desk.now, desk.reader.timezone)
    done = prune(args, desk, period) if args.prune else export(args.file, desk, period)
    if args.file == OUTPUT:
        return 0
    if args.json:
        print_json({"file": args.file, "events": done.rows, "pruned": done.pruned})
    else:
        print(f"exported: {count(done.rows, 'event')}" + (f", deleted: {done.pruned:,}" if args.prune else ""))
    return 0


def export(path: str, desk: Desk, period: "Period") -> "Exported":
    """Write what the reader may see to the output, or to a file that appears whole or not at all."""
    from foreword.events.export import draft, export

    ends = (period.since, period.until)
    if path == OUTPUT:
        return export(desk.folder, desk.reader, sys.stdout, ends)
    refuse_taken(path)
    with progressing() as progress, draft(path) as file:
        return export(desk.folder, desk.reader, file, ends, progress)


def prune(args: Namespace, desk: Desk, period: "Period") -> "Exported":
    """Export everything before a day and delete it once it is safe; for who may see everything."""
    from foreword.events.export import export_and_prune
    from foreword.events.retention import find_cutoff

    if args.file == OUTPUT or period.until is None or period.since is not None:
        raise InputError("--prune needs a FILE and --until, and takes no --since: what is deleted has to be kept whole")
    if desk.reader.clearance is not Trust.FULL or desk.reader.room:
        raise InputError("--prune deletes everybody's events, so it needs full trust and no room")
    refuse_taken(args.file)
    # Whole days of UTC, as retention deletes them, so that the sums of each day that stays are complete.
    with progressing() as progress:
        return export_and_prune(desk.folder, args.file, find_cutoff(period.until, 0), progress)


def refuse_taken(path: str) -> None:
    """Refuse a name that is taken before any work is done."""
    if os.path.lexists(path):
        raise InputError(f"{path} exists already; name a new file")


@contextmanager
def progressing() -> "Iterator[Progress]":
    """Show on stderr how far the work is, where somebody watches, and end that line."""
    watched = sys.stderr.isatty()

    def show(done: int, whole: int | None) -> None:
        if watched:
            of = "" if whole is None else f" of {whole:,}"
            print(f"\r{done:,}{of} rows", end="", file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        if watched:
            print(file=sys.stderr)


COMMAND = Command(
    name="export",
    arguments="[FILE]",
    summary="write recorded events, or all that is kept of a person, as JSON Lines",
    description="Write recorded events as JSON Lines, in the order in which they were written, each with every column. "
    "A FILE appears whole or not at all, and one that exists is refused. With --prune, everything before the day of "
    "--until is exported and then deleted; days are those of UTC. With --user, everything that is kept of a person is "
    "written instead: a line that says what it is, then a line for each thing, with its holding and its row.",
    examples=(
        "foreword export > events.jsonl",
        "foreword export november.jsonl --since 2026-11-01 --until 2026-11-30",
        "foreword export old.jsonl --until 30d --prune",
        "foreword export bob.jsonl --user bob",
    ),
    add_options=add_options,
    run=run,
)
