"""`foreword cost`: what was spent, by day, session, person and more, with a small chart."""

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from foreword.cli.command import Command
from foreword.cli.events import Desk, add_period_options, add_reader_options, sit_down
from foreword.cli.output import make_plain, print_json
from foreword.events.kinds import KINDS

if TYPE_CHECKING:
    from foreword.events.spending import Spending
    from foreword.events.totals import Total

CELLS = 20  # columns of the longest bar
COLUMNS = {
    "turns": "turns",
    "calls": "calls",
    "unpriced": "unpriced",
    "in": "tokens_in",
    "cached": "cache_read",
    "out": "tokens_out",
}
PARTIAL = ("calls", "unpriced", "in", "cached")


def add_options(parser: ArgumentParser) -> None:
    """Add what to sum by, over which time, and whose eyes it is seen with."""
    parser.add_argument("--by", choices=KINDS, default="day", help="what to sum by; else day")
    add_period_options(parser)
    add_reader_options(parser)


def run(args: Namespace) -> int:
    """Print what was spent."""
    from foreword.events.spending import find_spending

    workspace, desk = sit_down(args)
    workspace.close()
    asked = {"by": args.by, "since": args.since, "until": args.until}
    spending = desk.ask(lambda log: find_spending(log, desk.reader, asked, desk.now))
    if args.json:
        print_json(write(spending))
    else:
        show(spending, desk)
    return 0


def write(spending: "Spending") -> dict[str, object]:
    """Write the sums as JSON-ready values."""
    from foreword.events.moment import stamp

    since, until = spending.period.since, spending.period.until
    return {
        "by": spending.by,
        "since": since and stamp(since),
        "until": until and stamp(until),
        "whole": make_plain(spending.whole),
        "usd_per_turn": spending.usd_per_turn,
        "most_tokens": spending.longest and make_plain(spending.longest),
        "totals": make_plain(spending.totals),
        "left": spending.left,
    }


def show(spending: "Spending", desk: Desk) -> None:
    """Show the answers to the three questions, and the sums with their bars."""
    from foreword.cli.table import NARROW, cell, draw, draw_bar, find_width, make_table
    from foreword.events.line import show_cost
    from foreword.events.spending import show_whole

    for line in show_whole(spending, desk.zone):
        print(line)
    if not spending.totals:
        return
    width = find_width()
    # A section is part of a call and writes nothing, so it has neither turns nor output.
    columns = {head: name for head, name in COLUMNS.items() if spending.by != "section" or head in PARTIAL}
    table = make_table(spending.by, "cost", *columns, "", right=("cost", *columns), narrow=width < NARROW)
    weights = [weigh(total, spending) for total in spending.totals]
    for total, weight in zip(spending.totals, weights, strict=True):
        figures = [f"{getattr(total, name):,}" for name in columns.values()]
        bar = draw_bar(weight, max(weights), CELLS)
        table.add_row(cell(total.name or "–"), show_cost(total.cost_usd), *figures, bar)
    print()
    draw(table, width)
    if spending.left:
        print(f"\n {spending.left:,} more, each smaller or earlier; ask about a shorter time to see them")


def weigh(total: "Total", spending: "Spending") -> int:
    """Weigh a sum for its bar: by cost, or by tokens where that is the order or nothing has a price."""
    if spending.by == "session" or spending.whole.cost_usd is None:
        return total.tokens_in + total.tokens_out
    return round((total.cost_usd or 0) * 1_000_000)


COMMAND = Command(
    name="cost",
    summary="show what was spent, by day, session, person and more",
    description="Print what the calls of models cost: in all, on average for a turn, and which session used the most "
    "tokens; then the sums by day or by what --by says, with a bar for each. Without a time it is about today. A "
    "call of a model without a known price is counted and is not in the cost.",
    examples=(
        "foreword cost",
        "foreword cost --since 7d",
        "foreword cost --by session --since today",
        "foreword cost --by section --since 30d --json",
    ),
    add_options=add_options,
    run=run,
)
