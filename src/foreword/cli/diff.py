"""`foreword diff`: what changed between two assemblies, and what that does to the cache."""

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from foreword.cli.command import Command
from foreword.cli.output import count, make_plain, print_json
from foreword.cli.place import find_overrides
from foreword.errors import InputError

if TYPE_CHECKING:
    from foreword.cli.comparison import Change, Comparison, Move
    from foreword.cli.recorded import Recorded

CAUSES = {"model": "another model was used", "tools": "the tool schemas changed, and they stand before the system text"}
STYLES = {"added": "green", "removed": "red", "changed": "yellow"}


def add_options(parser: ArgumentParser) -> None:
    """Add the two files."""
    parser.add_argument("before", metavar="A", help="the earlier assembly: a file made by build --json, or - for stdin")
    parser.add_argument("after", metavar="B", help="the later one, or - for stdin")


def run(args: Namespace) -> int:
    """Print what changed."""
    from foreword.cli.comparison import compare
    from foreword.cli.recorded import read_recorded

    if args.before == args.after == "-":
        raise InputError("only one of the two can be read from stdin")
    before, after = read_recorded(args.before), read_recorded(args.after)
    comparison = compare(before, after, find_overrides(args))
    if args.json:
        tokens = {"before": before.used, "after": after.used}
        print_json({"tokens": tokens, "tools_changed": before.tools != after.tools, **make_plain(comparison)})
    else:
        print_comparison(before, after, comparison)
    return 0


def print_comparison(before: "Recorded", after: "Recorded", comparison: "Comparison") -> None:
    """Print a comparison for people."""
    more = after.used - before.used
    print(
        f"{before.used:,} tokens before, {after.used:,} after ({more:+,})" if more else f"{after.used:,} tokens in both"
    )
    moved = [change for change in comparison.changes if change.what != "same"]
    if moved:
        print()
        print_changes(moved)
    same = sum(change.what == "same" and change.after > 0 for change in comparison.changes)
    print(f"\n{count(same, 'section')} {'is' if same == 1 else 'are'} the same")
    if before.tools != after.tools and (comparison.move is None or comparison.move.cause != "tools"):
        print("the tool schemas changed")
    print(show_move(comparison.move) if comparison.move else comparison.reason)


def print_changes(changes: "list[Change]") -> None:
    """Print the sections that differ as a table."""
    from foreword.cli.table import cell, draw, find_width, make_table

    table = make_table("section", "what", "before", "after", right=("before", "after"))
    for change in changes:
        style = STYLES[change.what]
        before = "–" if change.what == "added" else f"{change.before:,}"
        after = "–" if change.what == "removed" else f"{change.after:,}"
        table.add_row(cell(change.id, style), cell(change.what, style), cell(before), cell(after))
    draw(table, find_width())


def show_move(move: "Move") -> str:
    """Say where the cached prefix moved first, and what that costs."""
    from foreword.money import show_usd

    if move.cause == "section":
        first = (
            f"the cached prefix moved first in {move.section} ({move.what}), at byte {move.byte:,} of the system text"
        )
    else:
        first = f"nothing of the cached prefix holds: {CAUSES[move.cause]}"
    price = ""
    if move.write_usd is not None and move.read_usd is not None:
        price = f": {show_usd(move.write_usd)} instead of {show_usd(move.read_usd)} from the cache"
    return f"{first}\n{count(move.tokens, 'token')} must be billed anew{price}"


COMMAND = Command(
    name="diff",
    arguments="A B",
    summary="show what changed between two prompts, and what that does to the cache",
    description="Compare two assemblies that `foreword build --json` wrote: which sections changed, where the cached "
    "prefix moved first, and what must be billed anew.",
    examples=(
        "foreword build --json > before.json",
        "foreword build --json | foreword diff before.json -",
    ),
    add_options=add_options,
    run=run,
)
