"""`foreword export`: write recorded events, or all data of a person, as JSON Lines.

`foreword forget`: erase the data of a person everywhere, and report the result. `foreword export --user`: export all
data of a person.
"""

import os
import shlex
import sys
from argparse import ArgumentParser, Namespace
from contextlib import contextmanager
from typing import TYPE_CHECKING

from foreword.cli.inputs import open_named_workspace
from foreword.cli.log_commands import EventQuery, add_period_options, add_reader_options, open_event_query
from foreword.cli.main import CliCommand
from foreword.cli.output import count, print_json, show_progress, to_plain, warn
from foreword.errors import InputError
from foreword.types import Trust

if TYPE_CHECKING:
    from collections.abc import Iterator

    from foreword.events.period import Period
    from foreword.privacy.erasure import ErasureReport
    from foreword.privacy.export import ExportResult, PersonExport, Progress
    from foreword.workspace import Workspace


STDOUT_NAME = "-"
TRUST_LEVELS = tuple(str(level) for level in Trust)


def add_export_options(parser: ArgumentParser) -> None:
    """Add the file, the person, the period and the reader."""
    parser.add_argument("file", metavar="FILE", nargs="?", help="the file to create; - is stdout (default: stdout)")
    parser.add_argument("--prune", action="store_true", help="delete the exported events; needs FILE and --until")
    parser.add_argument("--user", metavar="NAME", help="export all data of this person instead of events")
    parser.add_argument(
        "--trust",
        metavar="LEVEL",
        choices=TRUST_LEVELS,
        help="with --user: include data up to this level (default: the person's current clearance)",
    )
    add_period_options(parser)
    add_reader_options(parser)


def run_export(args: Namespace) -> int:
    """Write the export, and print the number of rows."""
    from foreword.events.period import parse_unpaged_period

    # Not a default of the parser: it would treat a typed - as missing and take the next word as the file.
    args.file = STDOUT_NAME if args.file is None else args.file
    if not args.file:
        raise InputError("the file name is empty; name a file, or leave it out to write to stdout")
    if args.user is not None:
        return export_person(args)
    if args.trust:
        raise InputError("--trust needs --user")
    workspace, desk = open_event_query(args)
    workspace.close()
    period = parse_unpaged_period(args.since, args.until, desk.now, desk.reader.timezone)
    done = export_and_delete(args, desk, period) if args.prune else export_visible(args.file, desk, period)
    if args.file == STDOUT_NAME:
        return 0
    if args.json:
        print_json({"file": args.file, "events": done.rows, "pruned": done.pruned})
    else:
        print(f"exported: {count(done.rows, 'event')}" + (f", deleted: {done.pruned:,}" if args.prune else ""))
    return 0


def export_visible(path: str, desk: EventQuery, period: "Period") -> "ExportResult":
    """Write the visible events to stdout, or to a file that is created completely or not at all."""
    from foreword.privacy.export import export_log, open_draft

    ends = (period.since, period.until)
    if path == STDOUT_NAME:
        return export_log(desk.folder, desk.reader, sys.stdout, ends)
    refuse_existing_file(path)
    with show_row_progress() as progress, open_draft(path) as file:
        return export_log(desk.folder, desk.reader, file, ends, progress)


def export_and_delete(args: Namespace, desk: EventQuery, period: "Period") -> "ExportResult":
    """Export everything before a day, then delete it; needs full trust."""
    from foreword.events.log import find_cutoff
    from foreword.privacy.export import export_and_prune_log

    if args.file == STDOUT_NAME or period.until is None or period.since is not None:
        raise InputError(
            "--prune needs FILE and --until and takes no --since: everything deleted must be in the export"
        )
    if desk.reader.clearance is not Trust.FULL or desk.reader.room:
        raise InputError("--prune deletes the events of all users, so it needs full trust and takes no --room")
    refuse_existing_file(args.file)
    # Retention deletes whole UTC days; do the same, so that the totals of each remaining day are complete.
    with show_row_progress() as progress:
        return export_and_prune_log(desk.folder, args.file, find_cutoff(period.until, 0), progress)


def refuse_existing_file(path: str) -> None:
    """Refuse a path that exists, before any work is done."""
    if os.path.lexists(path):
        raise InputError(f"{path} already exists; name a new file")


@contextmanager
def show_row_progress() -> "Iterator[Progress]":
    """Show the number of exported rows on stderr if it is a terminal."""
    with show_progress() as show:
        yield lambda done, whole: show(f"{done:,}{'' if whole is None else f' of {whole:,}'} rows")


EXPORT_COMMAND = CliCommand(
    name="export",
    arguments="[FILE]",
    summary="export recorded events, or all data of a person, as JSON Lines",
    description="Write recorded events as JSON Lines in recording order, each with every column. FILE must not exist "
    "and is created completely or not at all. With --prune, everything before the day of --until is exported and then "
    "deleted; days are UTC days. With --user, all data of a person is exported instead: a header line, then one line "
    "for each item with its data location and its row.",
    examples=(
        "foreword export > events.jsonl",
        "foreword export november.jsonl --since 2026-11-01 --until 2026-11-30",
        "foreword export old.jsonl --until 30d --prune",
        "foreword export bob.jsonl --user bob",
    ),
    add_options=add_export_options,
    run=run_export,
)


EXIT_UNFINISHED = 1


def add_forget_options(parser: ArgumentParser) -> None:
    """Add the person and the confirmation options."""
    parser.add_argument("user", metavar="USER", help="the person, whether or not still in foreword.yaml")
    parser.add_argument("--dry-run", action="store_true", help="report the data of the person and change nothing")
    parser.add_argument(
        "--yes", action="store_true", help="do not ask for confirmation; required if stdin is not a terminal"
    )
    parser.add_argument(
        "--patience",
        metavar="SECONDS",
        type=float,
        default=30.0,
        help="how long to wait for a running turn (default: 30)",
    )


def run_forget(args: Namespace) -> int:
    """Count the data, ask for confirmation, erase it, verify, and report."""
    from foreword.privacy.erasure import erase_person, preview_erasure

    if not 0 <= args.patience <= 86_400:
        raise InputError("--patience must be from 0 to 86,400 seconds")
    with open_named_workspace(args) as workspace:
        if args.dry_run or not args.yes:
            report = preview_erasure(workspace, args.user)
            if args.dry_run:
                print_report(args, report, dry=True)
                return 0
            if not ask_confirmation(report):
                print("nothing was removed")
                return 0
        report = erase_person(workspace, args.user, args.patience)
    print_report(args, report)
    return 0 if report.done else EXIT_UNFINISHED


def ask_confirmation(report: "ErasureReport") -> bool:
    """Ask for confirmation; only the full name of the person confirms."""
    if not sys.stdin.isatty():
        raise InputError(
            f"this would permanently remove {count(report.found, 'item')} of {report.user}; add --dry-run to see them, "
            f"export them with: foreword export --user {shlex.quote(report.user)}, or confirm with --yes"
        )
    print(f"This permanently removes {count(report.found, 'item')} of {report.user}.", file=sys.stderr)
    print("Type the name to confirm: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip() == report.user


def print_report(args: Namespace, report: "ErasureReport", *, dry: bool = False) -> None:
    """Print the counts, what remains and why, and the result of the verification."""
    if args.json:
        print_json({**to_plain(report), "dry_run": dry})
        return
    from foreword.cli.table import find_width, make_cell, make_table, print_table

    lines = [line for line in report.lines if line.found or line.removed or line.left]
    if lines:
        heads = ("what", "where", "found") if dry else ("what", "where", "found", "removed", "left")
        table = make_table(*heads, right=("found", "removed", "left"))
        for line in lines:
            figures = (line.found,) if dry else (line.found, line.removed, line.left)
            table.add_row(make_cell(line.name), make_cell(line.where), *(f"{figure:,}" for figure in figures))
        print_table(table, find_width())
        print()
    for title, said in (("remains:", report.stays), ("not done:", report.trouble)):
        if said:
            print("\n".join([title, *(f"- {one}" for one in said), ""]))
    print(summarize_report(report, dry=dry))


def summarize_report(report: "ErasureReport", *, dry: bool) -> str:
    """Summarize the result in one line."""
    if dry:
        return f"dry run: {count(report.found, 'item')} of {report.user} would be removed"
    if report.done:
        return f"{report.user} is forgotten: verification found nothing left"
    left = sum(line.left for line in report.lines)
    found = f"verification found {count(left, 'item')}; " if left else ""
    return (
        f"{report.user} is not completely forgotten: {found}"
        "they may still be sending messages; stop the gateway or remove them from foreword.yaml, then run this again"
    )


FORGET_COMMAND = CliCommand(
    name="forget",
    arguments="USER",
    summary="erase all data of a person, with a report",
    description="Erase the data of a person everywhere: conversations, memories, instructions, events, recorded "
    "prompts, their files and the index. Messages of other people remain, with placeholders for text that repeats the "
    "person's. The report counts the items found and removed, and lists what remains and why. The command can be "
    "interrupted and repeated. Exits with 1 while data is left. To export the data first, use: "
    "foreword export --user USER.",
    examples=("foreword forget bob --dry-run", "foreword export bob.jsonl --user bob", "foreword forget bob --yes"),
    add_options=add_forget_options,
    run=run_forget,
)


EVENT_OPTIONS = ("prune", "since", "until", "reader", "room")  # options that apply only to events


def export_person(args: Namespace) -> int:
    """Write all data of a person, and print the number of items."""
    from foreword.privacy.export import export_person as write_person
    from foreword.privacy.export import open_draft

    if given := [f"--{name}" for name in EVENT_OPTIONS if getattr(args, name)]:
        raise InputError(f"--user exports all data of a person and takes no {' and no '.join(given)}")
    with open_named_workspace(args) as workspace:
        level = find_export_level(args, workspace)
    if args.file == "-":
        gift = write_person(workspace, args.user, level, sys.stdout)
    else:
        refuse_existing_file(args.file)
        with open_draft(args.file) as file:
            gift = write_person(workspace, args.user, level, file)
        print_exported(args, gift)
    if gift.above:
        one = gift.above == 1
        what, verb, it = ("item", "is", "it") if one else ("items", "are", "them")
        warn(f"{gift.above:,} {what} above clearance {level} {verb} not included; to include {it}, add --trust full")
    return 0


def find_export_level(args: Namespace, workspace: "Workspace") -> "Trust":
    """Return the clearance of the export: the given one, or what the person may see now."""
    from foreword.engine.trust import resolve_trust
    from foreword.turn import Turn
    from foreword.types import Trust

    if args.trust:
        return Trust[args.trust.upper()]
    return resolve_trust(Turn(user=args.user, situation="dm"), workspace.config).level


def print_exported(args: Namespace, gift: "PersonExport") -> None:
    """Print the number of items."""
    if args.json:
        print_json({"file": args.file, "user": gift.user, "given": gift.given, "above": gift.above})
    else:
        print(f"exported: {count(sum(gift.given.values()), 'item')} of {gift.user}")
