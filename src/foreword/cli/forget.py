"""`foreword forget`: a person's data is removed everywhere, and a report says what, and what stays."""

import shlex
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from foreword.cli.command import Command
from foreword.cli.output import count, make_plain, print_json
from foreword.cli.place import open_here
from foreword.errors import InputError

if TYPE_CHECKING:
    from foreword.erasure.forgetting import Report

UNFINISHED = 1


def add_options(parser: ArgumentParser) -> None:
    """Add who is forgotten, and how sure one is."""
    parser.add_argument("user", metavar="USER", help="the person, in foreword.yaml or not any more")
    parser.add_argument("--dry-run", action="store_true", help="say what there is, and change nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask; needed where nobody can be asked")
    parser.add_argument(
        "--patience",
        metavar="SECONDS",
        type=float,
        default=30.0,
        help="how long a turn under way is waited for; else 30",
    )


def run(args: Namespace) -> int:
    """Look, ask, remove, look again, and report."""
    from foreword.erasure.forgetting import forget, look
    from foreword.erasure.house import find_house

    with open_here(args) as workspace:
        house = find_house(workspace)
    if not 0 <= args.patience <= 86_400:
        raise InputError("--patience is a number of seconds from 0 to 86,400")
    if args.dry_run or not args.yes:
        report = look(house, args.user)
        if args.dry_run:
            show(args, report, dry=True)
            return 0
        if not ask(report):
            print("nothing was removed")
            return 0
    report = forget(house, args.user, args.patience)
    show(args, report)
    return 0 if report.done else UNFINISHED


def ask(report: "Report") -> bool:
    """Ask whether to go on; only the whole name is a yes."""
    if not sys.stdin.isatty():
        raise InputError(
            f"{count(report.found, 'thing')} of {report.user} would be removed for good; look with --dry-run, "
            f"give it to them with: foreword export --user {shlex.quote(report.user)}, and say --yes"
        )
    print(f"{count(report.found, 'thing')} of {report.user} will be removed for good.", file=sys.stderr)
    print("Type the name to go on: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip() == report.user


def show(args: Namespace, report: "Report", *, dry: bool = False) -> None:
    """Show what was found and removed, what stays, and whether a second look found nothing."""
    if args.json:
        print_json({**make_plain(report), "dry_run": dry})
        return
    from foreword.cli.table import cell, draw, find_width, make_table

    lines = [line for line in report.lines if line.found or line.removed or line.left]
    if lines:
        heads = ("what", "where", "found") if dry else ("what", "where", "found", "removed", "left")
        table = make_table(*heads, right=("found", "removed", "left"))
        for line in lines:
            figures = (line.found,) if dry else (line.found, line.removed, line.left)
            table.add_row(cell(line.name), cell(line.where), *(f"{figure:,}" for figure in figures))
        draw(table, find_width())
        print()
    for title, said in (("stays:", report.stays), ("not done:", report.trouble)):
        if said:
            print("\n".join([title, *(f"- {one}" for one in said), ""]))
    print(conclude(report, dry=dry))


def conclude(report: "Report", *, dry: bool) -> str:
    """Say in one line what came of it."""
    if dry:
        return f"{count(report.found, 'thing')} of {report.user} would be removed; nothing was"
    if report.done:
        return f"{report.user} is forgotten: a second look found nothing"
    left = sum(line.left for line in report.lines)
    found = f"a second look found {count(left, 'thing')}; " if left else ""
    return (
        f"{report.user} is not forgotten whole: {found}"
        "they may be writing now: stop the gateway, or take them out of foreword.yaml, and run this again"
    )


COMMAND = Command(
    name="forget",
    arguments="USER",
    summary="remove all that is kept of a person, with a report",
    description="Remove what is kept of a person everywhere: conversations, memories, instructions, events, recorded "
    "prompts, their files and the index. What others said stays, with a word in the place of what repeats theirs. The "
    "report counts what was found and removed, and says what stays and why. It can be interrupted and run again. Exits "
    "with 1 while something is left. To give it to them first: foreword export --user USER.",
    examples=("foreword forget bob --dry-run", "foreword export bob.jsonl --user bob", "foreword forget bob --yes"),
    add_options=add_options,
    run=run,
)
