"""`foreword blueprints`: the blueprints there are, or one of them as a table."""

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from foreword.cli.command import Command
from foreword.cli.output import count, make_plain, print_foot, print_json
from foreword.cli.place import find_folder, open_here, see_from_here
from foreword.errors import ConfigError, UnknownName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table

    from foreword.blueprint import Blueprint, Slot
    from foreword.blueprint.slot import Budget
    from foreword.workspace import Workspace

HEADS = ("order", "slot", "source", "pace", "trust", "tier", "placement", "modes")
SHORT_HEADS = ("", "slot", "pace", "trust", "tier", "place", "modes")


def add_options(parser: ArgumentParser) -> None:
    """Add the name of one blueprint."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="the blueprint to print; all are listed if left out")


def run(args: Namespace) -> int:
    """List the blueprints, or print one."""
    workspace = open_here(args) if find_folder(args) is not None else None
    if args.name is not None:
        print_blueprint(read(workspace, args.name), as_json=args.json)
        return 0
    listed = {name: describe(workspace, name) for name in list_names(workspace)}
    if args.json:
        print_json([{"name": name, "description": description} for name, description in listed.items()])
        return 0
    width = max(map(len, listed))
    for name, description in listed.items():
        print(f"{name:{width}}  {description}")
    return 0


def list_names(workspace: "Workspace | None") -> tuple[str, ...]:
    """Name the blueprints that ship with Foreword, and those of the workspace."""
    from foreword.shipped import list_blueprints

    return workspace.blueprint_names() if workspace else list_blueprints()


def read(workspace: "Workspace | None", name: str) -> "Blueprint":
    """Read a blueprint; without a workspace, one that ships with Foreword."""
    if workspace:
        try:
            return workspace.blueprint(name)
        except ConfigError as error:
            raise see_from_here(error, workspace.files.root) from None
    from foreword.blueprint import load
    from foreword.shipped import list_blueprints, read_blueprint
    from foreword.sources import SOURCES
    from foreword.sources.wording import judge_wording

    text = read_blueprint(name)
    if text is None:
        raise UnknownName("blueprint", name, list_blueprints())
    return load(text, f"blueprints/{name}.yaml", SOURCES, judge_wording)


def describe(workspace: "Workspace | None", name: str) -> str:
    """Say what a blueprint is for, or that it cannot be used."""
    try:
        return read(workspace, name).description
    except ConfigError as error:
        return f"(cannot be used: {count(len(error.faults), 'fault')}; see: foreword blueprints {name})"


def print_blueprint(blueprint: "Blueprint", *, as_json: bool) -> None:
    """Print one blueprint with its budget."""
    if as_json:
        print_json(make_plain(blueprint))
        return
    from foreword.cli.table import NARROW, draw_with_notes, find_width

    width = find_width()
    narrow = width < NARROW
    notes = [describe_slot(slot, narrow=narrow) for slot in blueprint.slots]
    print(f"{blueprint.name}: {blueprint.description}\n")
    draw_with_notes(make_rows(blueprint, narrow=narrow), ["source" if narrow else "from, when, at most", *notes], width)
    if narrow:
        print("\n modes: f full, m minimal, n none")
    print_foot(show_budget(blueprint.budget), width)


def make_rows(blueprint: "Blueprint", *, narrow: bool) -> "Table":
    """Make the table of a blueprint: one row per slot, coloured by its pace."""
    from foreword.cli.table import PACES, cell, make_table

    heads = SHORT_HEADS if narrow else HEADS
    table = make_table(*heads, right=heads[:1], narrow=narrow)
    for order, slot in enumerate(blueprint.slots, 1):
        pace = PACES[str(slot.pace)]
        modes = [str(mode) for mode in slot.modes]
        table.add_row(
            cell(str(order)),
            cell(slot.id, pace),
            *([] if narrow else [cell(slot.source)]),
            cell(str(slot.pace), pace),
            cell(str(slot.trust)),
            cell(slot.tier),
            cell(str(slot.placement)),
            cell("".join(mode[0] for mode in modes) if narrow else " ".join(modes)),
        )
    return table


def describe_slot(slot: "Slot", *, narrow: bool) -> str:
    """Say where the text of a slot comes from, what must hold for it, and how long it may be."""
    origin = " ".join(filter(None, (slot.source if narrow else "", find_origin(slot))))
    variable = f"{{{{ {slot.variable} }}}}" if slot.variable else ""
    when = f"when {' and '.join(slot.when)}" if slot.when else ""
    where = f"only in {' or '.join(slot.situations)}" if slot.situations else ""
    whose = "per user" if slot.per_user else ""
    return " · ".join(filter(None, (origin, variable, whose, when, where, show_limit(slot))))


def find_origin(slot: "Slot") -> str:
    """Name where the text of a slot comes from, if it is a file, a folder, or a text or form that is built in."""
    if slot.file or slot.folder:
        return slot.file or f"{slot.folder}/"
    from foreword.shipped import list_prompts

    built_in = slot.text or (slot.form if slot.form in list_prompts() else "")
    return f"built-in {built_in}" if built_in else ""


def show_limit(slot: "Slot") -> str:
    """Show how many characters a slot may have, where it has a limit."""
    if slot.limit_all:
        return f"≤ {slot.limit_all:,} characters together"
    return f"≤ {slot.limit:,} characters" if slot.limit else ""


def show_budget(budget: "Budget") -> str:
    """Show the rules of a budget in one line."""
    from foreword.blueprint.slot import Room

    share = show_share(budget.window_share)
    fixed = budget.turn_room is Room.FIXED
    larger = f" or {show_share(budget.turn_share)} of the window" if budget.turn_share else ""
    turn = f"{budget.turn:,}{larger}" if fixed else f"what is left, and {budget.turn:,} at least for the whole prompt"
    turns = f" · {budget.fitting} tiers of a turn: {show_tiers(budget.turn_tiers)}" if budget.turn_tiers else ""
    return (
        f"system {budget.system:,} tokens or {share} of the window · turn {turn} · reserve {budget.reserve:,}"
        f" · {budget.fitting} tiers: {show_tiers(budget.tiers)}{turns}"
    )


def show_tiers(tiers: "Mapping[str, float]") -> str:
    """Show tiers in order, each with its share."""
    return ", ".join(f"{name} {show_share(share)}" for name, share in tiers.items())


def show_share(share: float) -> str:
    """Show a share as a percentage."""
    return f"{share:.0%}".replace("%", " %")


COMMAND = Command(
    name="blueprints",
    arguments="[NAME]",
    summary="list the blueprints, or print one",
    description="List the blueprints with what they are for, or print the slots of one of them in order.",
    examples=("foreword blueprints", "foreword blueprints default", "foreword blueprints default --json"),
    add_options=add_options,
    run=run,
)
