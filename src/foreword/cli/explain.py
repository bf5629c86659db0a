"""`foreword explain`: what became of every slot of a turn, why, and what it costs."""

from argparse import Namespace
from typing import TYPE_CHECKING

from foreword.cli.command import Command
from foreword.cli.output import count, print_foot, print_json
from foreword.cli.turns import add_turn_options, assemble
from foreword.words import Trust

if TYPE_CHECKING:
    from rich.table import Table

    from foreword.assembly import Assembly
    from foreword.ledger.calibration import Calibration
    from foreword.prices import Estimate
    from foreword.report import Row
    from foreword.workspace import Workspace


def run(args: Namespace) -> int:
    """Explain a turn to the owner, who may know of every slot."""
    workspace, assembly = assemble(args)
    if args.json:
        price = find_estimate(workspace, assembly)
        shown = {"warm_usd": round(price.warm_usd, 8), "cold_usd": round(price.cold_usd, 8)} if price else None
        print_json({**assembly.to_dict(Trust.FULL), "price": shown})
        return 0
    show(workspace, assembly, list(assembly.rows(Trust.FULL)))
    return 0


def show(workspace: "Workspace", assembly: "Assembly", rows: "list[Row]") -> None:
    """Show what became of slots, and what the turn costs; those that the prompt mode leaves out are counted."""
    from foreword.blueprint.select import tell_left_out
    from foreword.cli.table import NARROW, draw_with_notes, find_width
    from foreword.ledger.calibration import show_correction

    price = find_estimate(workspace, assembly)
    width, mode = find_width(), assembly.plan.mode
    count_all, rows = len(rows), [row for row in rows if row.reason != tell_left_out(mode)]
    print(f"clearance: {assembly.clearance.level}, because {assembly.clearance.reason}\n")
    draw_with_notes(make_rows(rows, narrow=width < NARROW), ["why", *(row.reason for row in rows)], width)
    if width < NARROW and any(row.cached and row.span for row in rows):
        print("\n • is read from the provider's cache in the next turn")
    if absent := count_all - len(rows):
        print(f"\n {count(absent, 'slot')} absent: prompt mode {mode} leaves {'it' if absent == 1 else 'them'} out")
    learned = find_learned(workspace, assembly)
    parts = (assembly.summary, show_estimate(price), show_correction(learned) if learned.calls else "")
    print_foot(" · ".join(filter(None, parts)), width)


def find_estimate(workspace: "Workspace", assembly: "Assembly") -> "Estimate | None":
    """Estimate the price of a turn, if its model has one, by what its calls have taught about its tokens."""
    from foreword.ledger.price import scale
    from foreword.prices import Request, estimate, find_prices

    request = Request(tokens=assembly.used + assembly.conversation, now=assembly.turn.now)
    prices = find_prices(assembly.terms.meter.facts.name, workspace.config.models, request)
    scaled = scale(prices, find_learned(workspace, assembly))
    return estimate(assembly, scaled) if scaled else None


def find_learned(workspace: "Workspace", assembly: "Assembly") -> "Calibration":
    """Find what the calls of the turn's model have taught, as far as the state has it."""
    from contextlib import closing

    from foreword.store.reader import StateReader

    with closing(StateReader(workspace.state)) as reader:
        return reader.find_calibration(assembly.terms.meter.facts.name)


def show_estimate(price: "Estimate | None") -> str:
    """Show the price of a turn in a few words."""
    from foreword.money import show_usd

    if price is None:
        return "price not known"
    return f"{show_usd(price.warm_usd)} warm, {show_usd(price.cold_usd)} cold"


def make_rows(rows: "list[Row]", *, narrow: bool) -> "Table":
    """Make the table of a turn: one row per slot, coloured by its pace."""
    from foreword.cli.table import PACES, VERDICTS, cell, draw_bar, make_table
    from foreword.report import show_tokens

    head, yes, size = ("", "•", 4) if narrow else ("cached", "yes", 12)
    table = make_table("slot", "pace", "needs", "tokens", "", head, "verdict", right=("tokens",), narrow=narrow)
    most = max((row.tokens for row in rows if row.span), default=0)
    for row in rows:
        pace, verdict = PACES[str(row.pace)], str(row.verdict)
        table.add_row(
            cell(row.id, pace),
            cell(str(row.pace), pace),
            cell(str(row.trust)),
            cell(show_tokens(row)),
            cell(draw_bar(row.tokens, most, size) if row.span else "", pace),
            cell(yes if row.cached and row.span else "", "dim"),
            cell(verdict, VERDICTS.get(verdict, "")),
            style="" if row.span else "dim",
        )
    return table


COMMAND = Command(
    name="explain",
    summary="show what became of every slot of a turn, why, and what it costs",
    description="Explain a turn: each slot with its pace, the clearance it needs, its tokens, its verdict and the "
    "reason. Takes the options of build; what was sent in a turn is explained by: "
    "foreword trace TURN --explain.",
    examples=(
        "foreword explain",
        "foreword explain --user bob --situation group --channel telegram",
        "foreword explain --model openai:gpt-5.4 --json",
        'foreword explain --state state.yaml --message "How is the release?"',
    ),
    add_options=add_turn_options,
    run=run,
)
