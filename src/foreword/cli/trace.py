"""`foreword trace`: everything that one turn did, as a tree."""

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from foreword.cli.command import Command
from foreword.cli.events import Desk, add_reader_options, sit_down
from foreword.cli.output import print_foot, print_json, print_text, warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from foreword.events.branch import Branch
    from foreword.events.record import Record


def add_options(parser: ArgumentParser) -> None:
    """Add the turn, and whose eyes it is seen with."""
    parser.add_argument("turn", metavar="TURN", help="the id of the turn, or the first 6 digits or more of it")
    what = parser.add_argument_group("what", "instead of the tree")
    what.add_argument("--prompt", action="store_true", help="what the model was told in it, exactly as it was sent")
    what.add_argument("--explain", action="store_true", help="the table of what became of every slot of its prompt")
    add_reader_options(parser)


def run(args: Namespace) -> int:
    """Print the tree of a turn."""
    from foreword.events.branch import lay_out
    from foreword.events.question import find_trace

    workspace, desk = sit_down(args)
    workspace.close()
    if args.prompt or args.explain:
        return show_prompts(args, desk)
    found = desk.ask(lambda log: find_trace(log, desk.reader, args.turn))
    if found.notice:
        warn(found.notice)
    branches = list(lay_out(found.records))
    if args.json:
        print_json([{"depth": branch.depth, **branch.record.to_dict()} for branch in branches])
    elif branches:
        show(branches, found.records, desk)
    else:
        print("there is no such turn")
    return 0


def show_prompts(args: Namespace, desk: Desk) -> int:
    """Print what the model was told, each distinct prompt once."""
    from foreword.events.prompts import find_prompts

    prompts = desk.ask(lambda log: find_prompts(log, desk.reader, args.turn))
    if any(prompt.forgotten for prompt in prompts):
        warn("something in it was forgotten since; a word stands in its place")
    if args.json:
        print_json([prompt.to_dict() for prompt in prompts])
    elif prompts:
        print_text("\n\n".join(prompt.explain() if args.explain else prompt.text for prompt in prompts))
    else:
        print("no prompt of such a turn is recorded")
    return 0


def show(branches: "Sequence[Branch]", records: "Sequence[Record]", desk: Desk) -> None:
    """Show the tree: when, how long, tokens and cost in columns, and the rest behind them."""
    from foreword.cli.table import draw_with_notes, find_width, make_table
    from foreword.events.line import show_duration, show_label, show_usd, sum_up

    start = records[0].time
    table = make_table("at", "took", "in", "out", "cost", right=("at", "took", "in", "out", "cost"), narrow=True)
    for branch in branches:
        one = branch.record
        table.add_row(
            f"+{(one.time - start).total_seconds():.3f}s",
            show_duration(one.duration_ms),
            "" if one.tokens_in is None else f"{one.tokens_in:,}",
            "" if one.tokens_out is None else f"{one.tokens_out:,}",
            "" if one.cost_usd is None else show_usd(one.cost_usd),
        )
    width = find_width()
    draw_with_notes(table, ["what", *("  " * branch.depth + show_label(branch.record) for branch in branches)], width)
    print_foot(sum_up(records, desk.zone), width)


COMMAND = Command(
    name="trace",
    arguments="TURN",
    summary="show everything that one turn did",
    description="Print the tree of a turn: trust, prompt, calls, tools and replies, with times, tokens, cost and "
    "errors. A turn's id is the one that foreword logs shows. Another's turn is like one that does not exist.",
    examples=("foreword trace 3f2a9c01", "foreword trace 3f2a9c01 --json", "foreword trace 3f2a9c01 --prompt"),
    add_options=add_options,
    run=run,
)
