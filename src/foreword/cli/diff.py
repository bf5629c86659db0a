"""`foreword diff`: what changed between two assemblies or two recorded turns, and what that does to the cache."""

import os
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from foreword.cli.command import Command
from foreword.cli.events import Desk, add_reader_options, sit_down
from foreword.cli.output import count, make_plain, print_json, print_text, warn
from foreword.cli.place import find_folder, find_overrides
from foreword.errors import InputError
from foreword.frozen import frozen

if TYPE_CHECKING:
    from foreword.cli.comparison import Change, Comparison, Move
    from foreword.cli.recorded import Recorded
    from foreword.events.recalled import Recalled

CAUSES = {"model": "another model was used", "tools": "the tool schemas changed, and they stand before the system text"}
STYLES = {"added": "green", "removed": "red", "changed": "yellow"}


@frozen
class Side:
    """One of the two that are compared."""

    recorded: "Recorded"
    recalled: "Recalled | None" = None
    """The turn, where it is one that was recorded."""


def add_options(parser: ArgumentParser) -> None:
    """Add the two, and whose eyes recorded turns are seen with."""
    parser.add_argument(
        "before", metavar="A", help="the earlier one: a file made by build --json, - for stdin, or the id of a turn"
    )
    parser.add_argument("after", metavar="B", help="the later one, or - for stdin")
    add_reader_options(parser)


def run(args: Namespace) -> int:
    """Print what changed."""
    from foreword.cli.comparison import compare

    if args.before == args.after == "-":
        raise InputError("only one of the two can be read from stdin")
    sides = find_sides(args)
    before, after = (side.recorded for side in sides)
    comparison = compare(before, after, find_overrides(args))
    later = sides[1].recalled
    if args.json:
        tokens = {"before": before.used, "after": after.used}
        told = {"turns": {name: side.recalled and side.recalled.turn for name, side in zip(tokens, sides, strict=True)}}
        told |= tell_later(later) if later else {}
        print_json({"tokens": tokens, "tools_changed": before.tools != after.tools, **make_plain(comparison), **told})
        return 0
    print_comparison(before, after, comparison)
    if later:
        print_later(later)
    return 0


def find_sides(args: Namespace) -> list[Side]:
    """Find what is compared: files, or turns of the log as far as who asks may see them."""
    from foreword.cli.recorded import read_recorded

    names = (args.before, args.after)
    turns = [name for name in names if names_turn(name)] if find_folder(args) is not None else []
    known: dict[str, Side] = {}
    if turns:
        workspace, desk = sit_down(args)
        workspace.close()
        known = {name: recall_turn(desk, name) for name in turns}
    return [known.get(name) or Side(recorded=read_recorded(name)) for name in names]


def names_turn(name: str) -> bool:
    """Whether something names a turn or a prompt; a file of that name wins."""
    from foreword.events.recalled import is_recorded_name

    return is_recorded_name(name) and not os.path.lexists(name)


def recall_turn(desk: Desk, name: str) -> Side:
    """Recall a turn, or refuse one that is not there in the same words as one that is another's."""
    from foreword.cli.recorded import convert_sent
    from foreword.events.line import SHORT
    from foreword.events.recalled import recall

    recalled = desk.ask(lambda log: recall(log, desk.reader, name))
    if recalled is None:
        raise InputError(f"{name} is no file, and there is no such turn or prompt; foreword logs shows turns")
    if recalled.sent is None:
        raise InputError(f"no prompt of turn {recalled.turn[:SHORT]} is recorded; prompts go with their events")
    if recalled.sent.forgotten:
        warn(f"something in turn {recalled.turn[:SHORT]} was forgotten since; a word stands in its place")
    return Side(recorded=convert_sent(f"turn {recalled.turn[:SHORT]}", recalled.sent), recalled=recalled)


def tell_later(later: "Recalled") -> dict[str, Any]:
    """Tell what the ledger decided in the later turn, and which breaks it had."""
    from foreword.events.blamed import read_break, read_moved, tell_value

    moves, breaks = ([tell_value(one) for one in map(read, later.records) if one] for read in (read_moved, read_break))
    return {"moves": moves, "breaks": breaks}


def print_later(later: "Recalled") -> None:
    """Print what the ledger decided in the later turn, and what became of its calls."""
    from foreword.cli.chat.clean import clean
    from foreword.events.line import SHORT
    from foreword.events.why import explain_cache

    lines = [f"  {line}" for line in explain_cache(later.records)]
    if lines:
        print_text(clean("\n".join(["", f"in turn {later.turn[:SHORT]}", *lines])))


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
    description="Compare two assemblies that `foreword build --json` wrote, or two recorded turns by their ids or the "
    "hashes of their prompts: which sections changed, where the cached prefix moved first, and what must be billed "
    "anew. Of a recorded turn it is also said what the ledger decided and what its calls read from the cache. "
    "Another's turn is like one that does not exist.",
    examples=(
        "foreword build --json > before.json",
        "foreword build --json | foreword diff before.json -",
        "foreword diff 3f2a9c01 a1d5e2cc",
    ),
    add_options=add_options,
    run=run,
)
