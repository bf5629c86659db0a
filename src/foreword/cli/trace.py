"""`foreword trace`: everything that one turn did, as a tree."""

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from foreword.cli.command import Command
from foreword.cli.events import Desk, add_reader_options, sit_down
from foreword.cli.output import print_foot, print_json, print_text, warn
from foreword.errors import InputError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from datetime import datetime

    from foreword.events.branch import Branch
    from foreword.events.question import Found
    from foreword.events.record import Record
    from foreword.events.sent import Sent

NO_SUCH, NO_PROMPT = "there is no such turn", "no prompt of such a turn is recorded"
LISTED = "foreword logs shows turns"


def add_options(parser: ArgumentParser) -> None:
    """Add the turn, and whose eyes it is seen with."""
    parser.add_argument(
        "turn", metavar="TURN", nargs="?", default="", help="the id of the turn, or the first 6 digits or more of it"
    )
    parser.add_argument(
        "--at", metavar="TIME", default="", help="instead of TURN: the last one sent by 14:03, 12h or 2026-11-15T08:30"
    )
    what = parser.add_argument_group("what", "instead of the tree")
    what.add_argument("--prompt", action="store_true", help="what the model was told in it, exactly as it was sent")
    what.add_argument("--explain", action="store_true", help="the table of what became of every slot of its prompt")
    add_reader_options(parser)


def run(args: Namespace) -> int:
    """Print the tree of a turn."""
    from foreword.events.branch import lay_out
    from foreword.events.question import NOTHING, find_trace, find_turn_at

    if bool(args.turn) == bool(args.at):
        raise InputError("name one turn: foreword trace TURN, or foreword trace --at TIME")
    workspace, desk = sit_down(args)
    workspace.close()
    if args.prompt or args.explain:
        return show_prompts(args, desk)

    def find(log: "sqlite3.Connection") -> "Found":
        turn = find_turn_at(log, desk.reader, read_at(args, desk)) if args.at else args.turn
        return find_trace(log, desk.reader, turn) if turn else NOTHING

    found = desk.ask(find)
    if not found.records:
        raise InputError(f"{NO_SUCH}; {LISTED}")
    if found.notice:
        warn(found.notice)
    branches = list(lay_out(found.records))
    if args.json:
        print_json([{"depth": branch.depth, **branch.record.to_dict(desk.reader)} for branch in branches])
    else:
        show(branches, found.records, desk)
    return 0


def read_at(args: Namespace, desk: Desk) -> "datetime":
    """Read the moment that is asked about; a minute or a day is meant to its end."""
    from foreword.events.moment import read_instant

    return read_instant(args.at, desk.now, desk.zone)


def show_prompts(args: Namespace, desk: Desk) -> int:
    """Print what the model was told, each distinct prompt of a turn once, or the last one of a moment."""
    from foreword.events.prompts import find_prompt_at, find_prompts

    def find(log: "sqlite3.Connection") -> "Sequence[Sent]":
        if not args.at:
            return find_prompts(log, desk.reader, args.turn)
        sent = find_prompt_at(log, desk.reader, read_at(args, desk))
        return [sent] if sent else []

    prompts = desk.ask(find)
    if not prompts:
        raise InputError(f"{NO_PROMPT}; {LISTED}")
    if any(prompt.forgotten for prompt in prompts):
        warn("something in it was forgotten since; a word stands in its place")
    if args.json:
        print_json([prompt.to_dict() for prompt in prompts])
    else:
        print_text("\n\n".join(prompt.explain() if args.explain else prompt.text for prompt in prompts))
    return 0


def show(branches: "Sequence[Branch]", records: "Sequence[Record]", desk: Desk) -> None:
    """Show the tree: when, how long, tokens and cost in columns, and the rest behind them."""
    from foreword.cli.table import draw_with_notes, find_width, make_table
    from foreword.events.line import show_cost, show_duration, show_label, sum_up

    start = records[0].time
    table = make_table("at", "took", "in", "out", "cost", right=("at", "took", "in", "out", "cost"), narrow=True)
    for branch in branches:
        one = branch.record
        table.add_row(
            f"+{(one.time - start).total_seconds():.3f}s",
            show_duration(one.duration_ms),
            "" if one.tokens_in is None else f"{one.tokens_in:,}",
            "" if one.tokens_out is None else f"{one.tokens_out:,}",
            "" if one.cost_usd is None else show_cost(one.cost_usd),
        )
    width = find_width()
    draw_with_notes(table, ["what", *("  " * branch.depth + show_label(branch.record) for branch in branches)], width)
    print_foot(sum_up(records, desk.zone), width)


COMMAND = Command(
    name="trace",
    arguments="[TURN]",
    summary="show everything that one turn did",
    description="Print the tree of a turn: trust, prompt, calls, tools and replies, with times, tokens, cost and "
    "errors. A turn's id is the one that foreword logs shows; with --at it is the turn that was sent last by then, "
    "where a minute or a day is meant to its end. Another's turn is like one that does not exist. The "
    "prompt of a private turn is shown to its person alone: write --reader NAME.",
    examples=(
        "foreword trace 3f2a9c01",
        "foreword trace 3f2a9c01 --json",
        "foreword trace 3f2a9c01 --prompt",
        "foreword trace --at 14:03 --prompt",
    ),
    add_options=add_options,
    run=run,
)
