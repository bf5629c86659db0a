"""`foreword cache` by itself: what was read from caches, what was lost to breaks, and what the ledger did."""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from foreword.cli.events import Desk, add_period_options, add_reader_options, refuse_stranger, sit_down
from foreword.cli.output import count, print_json, warn
from foreword.errors import InputError

if TYPE_CHECKING:
    from foreword.events.breaks import Breaks
    from foreword.ledger.calibration import Calibration

CHECKED = {True: "confirmed", False: "contradicted", None: "–"}
NEXT = "foreword trace TURN shows all that a turn did, and foreword diff TURN TURN what changed between two"
NOT_YET = (
    "the ledger follows the calls of foreword chat and foreword serve; another time is asked about with --since 7d"
)


def add_break_options(parser: ArgumentParser) -> None:
    """Add which calls are asked about, and whose eyes they are seen with."""
    which = parser.add_argument_group("which", "without an action")
    which.add_argument("--session", metavar="ID", default="", help="one session only, by its id or how that begins")
    which.add_argument("--user", metavar="NAME", default="", help="one person only")
    add_period_options(parser)
    add_reader_options(parser)


def show_breaks(args: Namespace) -> int:
    """Print what became of the caches in a stretch of time."""
    from foreword.events.breaks import find_breaks, read_asked, tell_breaks

    workspace, desk = sit_down(args)
    workspace.close()
    refuse_stranger(desk, args.user, workspace.config)
    asked = {name: getattr(args, name) for name in ("since", "until", "user")}
    asked["session"] = desk.find_session(args.session)
    wanted = read_asked(asked, desk.reader, desk.now)
    found = desk.ask(lambda log: find_breaks(log, desk.reader, wanted))
    learned = find_learned(desk)
    if args.json:
        from foreword.ledger.telling import tell_calibration

        print_json({**tell_breaks(found), "calibrations": [tell_calibration(one) for one in learned]})
    else:
        show(found, learned, desk)
    return 0


def find_learned(desk: Desk) -> "Sequence[Calibration]":
    """Find what is known of models' tokens, for who sees everything: it is learned from everybody's calls."""
    from foreword.events.visible import sees_all
    from foreword.store.ledgers import find_calibrations

    if not sees_all(desk.reader):
        return ()
    try:
        return tuple(find_calibrations(desk.folder).values())
    except InputError as error:
        warn(str(error))
        return ()


def show(found: "Breaks", learned: "Sequence[Calibration]", desk: Desk) -> None:
    """Show the sums, the newest breaks and decisions, and what is known of models' tokens."""
    from foreword.events.breaks import show_breaks
    from foreword.ledger.calibration import show as show_learned

    for line in show_breaks(found, desk.zone):
        print(line)
    if found.losses:
        draw_losses(found)
        draw_breaks(found, desk)
    if found.moves:
        draw_moves(found, desk)
    if learned:
        print("\ntokens of models, as counted here and as billed:")
        for one in learned:
            print(f" {show_learned(one)}")
    if not found.calls:
        print(f"\n {NOT_YET}")
    elif found.breaks or found.moves:
        print(f"\n {NEXT}")


def draw_losses(found: "Breaks") -> None:
    """Draw what each cause has cost."""
    from foreword.cli.table import cell, draw, find_width, make_table
    from foreword.events.line import show_cost

    unpriced = ("unpriced",) if any(loss.unpriced for loss in found.losses) else ()
    heads = ("cause", "breaks", "again", "cost", *unpriced)
    table = make_table(*heads, right=heads[1:])
    for loss in found.losses:
        figures = (
            f"{loss.breaks:,}",
            f"{loss.tokens:,}",
            show_cost(loss.usd),
            *([f"{loss.unpriced:,}"] if unpriced else ()),
        )
        table.add_row(cell(loss.cause), *figures)
    print()
    draw(table, find_width())


def draw_breaks(found: "Breaks", desk: Desk) -> None:
    """Draw the newest breaks, each with its reason behind it."""
    from foreword.cli.table import NARROW, cell, draw_with_notes, find_width, make_table
    from foreword.events.line import SHORT, show_cost, show_time
    from foreword.events.why import show_cause

    width, right = find_width(), ("again", "cost")
    checked = ("checked",) if any(one.confirmed is not None for one in found.breaks) else ()
    heads = ("time", "session", "turn", "cause", *right, *checked)
    table = make_table(*heads, right=right, narrow=width < NARROW)
    for one in found.breaks:
        table.add_row(
            show_time(one.time, desk.zone),
            cell(one.session[:SHORT]),
            cell(one.turn[:SHORT]),
            cell(show_cause(one)),
            f"{one.tokens:,}",
            show_cost(one.usd),
            *([CHECKED[one.confirmed]] if checked else ()),
        )
    print(f"\nthe newest of {count(found.broken, 'break')}:" if found.broken > len(found.breaks) else "\nbreaks:")
    draw_with_notes(table, ["why", *(one.reason for one in found.breaks)], width)


def draw_moves(found: "Breaks", desk: Desk) -> None:
    """Draw the newest decisions of the ledger, each with its reason behind it."""
    from foreword.cli.table import NARROW, cell, draw_with_notes, find_width, make_table
    from foreword.events.line import SHORT, show_time
    from foreword.events.why import show_moved

    width = find_width()
    table = make_table("time", "session", "turn", narrow=width < NARROW)
    for one in found.moves:
        table.add_row(show_time(one.time, desk.zone), cell(one.session[:SHORT]), cell(one.turn[:SHORT]))
    counted = ", ".join(f"{deed} {number:,}" for deed, number in found.deeds.items())
    newest = ", the newest" if sum(found.deeds.values()) > len(found.moves) else ""
    print(f"\ndecisions of the ledger ({counted}){newest}:")
    draw_with_notes(table, ["what", *(show_moved(one) for one in found.moves)], width)
