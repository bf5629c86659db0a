"""`foreword blueprints`: list the blueprints, or print one as a table.

`foreword build`: print the prompt of a turn as text, as an assembly, or as a provider request. `foreword explain`:
show the verdict, the reason and the cost of every slot of a turn.
"""

from argparse import ArgumentParser, Namespace
from contextlib import nullcontext
from typing import TYPE_CHECKING

from foreword.cli.inputs import find_folder, open_named_workspace, relate_faults
from foreword.cli.main import CliCommand
from foreword.cli.output import count, print_footer, print_json, print_text, to_plain
from foreword.cli.turn_options import add_turn_options, assemble_turn
from foreword.errors import ConfigError, InputError, UnknownName
from foreword.types import Trust

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table

    from foreword.assembly import Assembly, ReportRow
    from foreword.engine.blueprint import Blueprint, Budget, Slot
    from foreword.promptcache.calibration import Calibration
    from foreword.promptcache.price import Estimate
    from foreword.workspace import Workspace


BLUEPRINT_HEADS = ("order", "slot", "source", "pace", "trust", "tier", "placement", "modes")
NARROW_BLUEPRINT_HEADS = ("", "slot", "pace", "trust", "tier", "place", "modes")


def add_blueprints_options(parser: ArgumentParser) -> None:
    """Add the name of a blueprint."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="the blueprint to print (default: list all)")


def run_blueprints(args: Namespace) -> int:
    """List the blueprints, or print one."""
    with open_named_workspace(args) if find_folder(args) is not None else nullcontext() as workspace:
        if args.name is not None:
            print_blueprint(load_named_blueprint(workspace, args.name), as_json=args.json)
            return 0
        listed = {name: describe_blueprint(workspace, name) for name in list_blueprint_names(workspace)}
    if args.json:
        print_json([{"name": name, "description": description} for name, description in listed.items()])
        return 0
    width = max(map(len, listed))
    for name, description in listed.items():
        print(f"{name:{width}}  {description}")
    return 0


def list_blueprint_names(workspace: "Workspace | None") -> tuple[str, ...]:
    """List the names of the built-in blueprints and of those in the workspace."""
    from foreword.resources import list_blueprints

    return workspace.blueprint_names() if workspace else list_blueprints()


def load_named_blueprint(workspace: "Workspace | None", name: str) -> "Blueprint":
    """Read a blueprint; without a workspace, a built-in one."""
    if workspace:
        try:
            return workspace.blueprint(name)
        except ConfigError as error:
            raise relate_faults(error, workspace.files.root) from None
    from foreword.engine.blueprint import load_blueprint
    from foreword.engine.sources.fill import check_slot_texts
    from foreword.engine.sources.sections import SOURCES
    from foreword.resources import list_blueprints, read_blueprint

    text = read_blueprint(name)
    if text is None:
        raise UnknownName("blueprint", name, list_blueprints())
    return load_blueprint(text, f"blueprints/{name}.yaml", SOURCES, check_slot_texts)


def describe_blueprint(workspace: "Workspace | None", name: str) -> str:
    """Return the description of a blueprint, or that it cannot be used."""
    try:
        return load_named_blueprint(workspace, name).description
    except ConfigError as error:
        return f"(cannot be used: {count(len(error.faults), 'fault')}; see: foreword blueprints {name})"


def print_blueprint(blueprint: "Blueprint", *, as_json: bool) -> None:
    """Print one blueprint with its budget."""
    if as_json:
        print_json(to_plain(blueprint))
        return
    from foreword.cli.table import NARROW_COLUMNS, find_width, print_table_with_notes

    width = find_width()
    narrow = width < NARROW_COLUMNS
    notes = [describe_slot(slot, narrow=narrow) for slot in blueprint.slots]
    print(f"{blueprint.name}: {blueprint.description}\n")
    print_table_with_notes(
        make_blueprint_rows(blueprint, narrow=narrow), ["source" if narrow else "from, when, at most", *notes], width
    )
    if narrow:
        print("\n modes: f full, m minimal, b brief, n none")
    print_footer(format_budget(blueprint.budget), width)


def make_blueprint_rows(blueprint: "Blueprint", *, narrow: bool) -> "Table":
    """Make the table of a blueprint: one row per slot, coloured by its pace."""
    from foreword.cli.table import PACE_STYLES, make_cell, make_table

    heads = NARROW_BLUEPRINT_HEADS if narrow else BLUEPRINT_HEADS
    table = make_table(*heads, right=heads[:1], narrow=narrow)
    for order, slot in enumerate(blueprint.slots, 1):
        pace = PACE_STYLES[str(slot.pace)]
        modes = [str(mode) for mode in slot.modes]
        table.add_row(
            make_cell(str(order)),
            make_cell(slot.id, pace),
            *([] if narrow else [make_cell(slot.source)]),
            make_cell(str(slot.pace), pace),
            make_cell(str(slot.trust)),
            make_cell(slot.tier),
            make_cell(str(slot.placement)),
            make_cell("".join(mode[0] for mode in modes) if narrow else " ".join(modes)),
        )
    return table


def describe_slot(slot: "Slot", *, narrow: bool) -> str:
    """Describe where the text of a slot comes from, its conditions and its limit."""
    origin = " ".join(filter(None, (slot.source if narrow else "", find_slot_origin(slot))))
    variable = f"{{{{ {slot.variable} }}}}" if slot.variable else ""
    when = f"when {' and '.join(slot.when)}" if slot.when else ""
    where = f"only in {' or '.join(slot.situations)}" if slot.situations else ""
    whose = "per user" if slot.per_user else ""
    return " · ".join(filter(None, (origin, variable, whose, when, where, format_limit(slot))))


def find_slot_origin(slot: "Slot") -> str:
    """Return the file, the folder or the built-in text of a slot, if it has one."""
    if slot.file or slot.folder:
        return slot.file or f"{slot.folder}/"
    from foreword.resources import list_prompts

    built_in = slot.text or (slot.form if slot.form in list_prompts() else "")
    return f"built-in {built_in}" if built_in else ""


def format_limit(slot: "Slot") -> str:
    """Show the character limit of a slot, if it has one."""
    if slot.limit_all:
        return f"≤ {slot.limit_all:,} characters together"
    return f"≤ {slot.limit:,} characters" if slot.limit else ""


def format_budget(budget: "Budget") -> str:
    """Show the rules of a budget in one line."""
    from foreword.engine.blueprint import TurnRoomKind

    share = format_share(budget.window_share)
    fixed = budget.turn_room is TurnRoomKind.FIXED
    larger = f" or {format_share(budget.turn_share)} of the window" if budget.turn_share else ""
    turn = f"{budget.turn:,}{larger}" if fixed else f"the remainder, at least {budget.turn:,} for the whole prompt"
    turns = f" · {budget.fitting} tiers of a turn: {format_tiers(budget.turn_tiers)}" if budget.turn_tiers else ""
    return (
        f"system {budget.system:,} tokens or {share} of the window · turn {turn} · reserve {budget.reserve:,}"
        f" · {budget.fitting} tiers: {format_tiers(budget.tiers)}{turns}"
    )


def format_tiers(tiers: "Mapping[str, float]") -> str:
    """Show tiers in order, each with its share."""
    return ", ".join(f"{name} {format_share(share)}" for name, share in tiers.items())


def format_share(share: float) -> str:
    """Show a share as a percentage."""
    return f"{share:.0%}".replace("%", " %")


BLUEPRINTS_COMMAND = CliCommand(
    name="blueprints",
    arguments="[NAME]",
    summary="list the blueprints, or print one",
    description="List the blueprints with their purpose, or print the slots of one in order.",
    examples=("foreword blueprints", "foreword blueprints default", "foreword blueprints default --json"),
    add_options=add_blueprints_options,
    run=run_blueprints,
)


BUILD_FORMATS = ("text", "json", "anthropic", "openai", "responses", "gemini", "plain")


def add_build_options(parser: ArgumentParser) -> None:
    """Add the options of a turn and the format."""
    add_turn_options(parser)
    parser.add_argument(
        "--format",
        choices=BUILD_FORMATS,
        help="text: only the prompt; json: the whole assembly; others: the request of a provider (default: text)",
    )


def run_build(args: Namespace) -> int:
    """Print the prompt of a turn."""
    shape = choose_format(args)
    _, assembly = assemble_turn(args)
    if shape == "text":
        print_text(assembly.prompt.text)
    elif shape == "json":
        from foreword.types import Trust

        print_json(assembly.to_dict(Trust.FULL))
    else:
        print_json(assembly.envelope(shape).request)
    return 0


def choose_format(args: Namespace) -> str:
    """Choose the format; `--json` is short for `--format json`."""
    if args.json and args.format not in (None, "json"):
        raise InputError(f"--json and --format {args.format} contradict each other; give only one")
    return "json" if args.json else args.format or "text"


BUILD_COMMAND = CliCommand(
    name="build",
    summary="print the prompt of a turn",
    description="Print the prompt of a turn. Without options, the owner speaks in a private chat, and the agent has "
    "the tools of a real turn. To print a prompt that was sent, use: foreword trace TURN --prompt",
    examples=(
        "foreword build",
        "foreword build --user bob --room family --channel telegram",
        'foreword build --message "What is on today?" --format anthropic',
        "foreword build --json > before.json",
    ),
    add_options=add_build_options,
    run=run_build,
)


HIDDEN_VERDICTS = ("absent", "withheld")  # verdicts that the table only counts unless all slots are asked for


def add_explain_options(parser: ArgumentParser) -> None:
    """Add the options of a turn, and one for hidden slots."""
    add_turn_options(parser)
    parser.add_argument("--all", action="store_true", help="show absent and withheld slots too")


def run_explain(args: Namespace) -> int:
    """Explain a turn with the owner's view of every slot."""
    workspace, assembly = assemble_turn(args)
    if args.json:
        price = estimate_price(workspace, assembly, find_calibration(workspace, assembly))
        shown = {"warm_usd": round(price.warm_usd, 8), "cold_usd": round(price.cold_usd, 8)} if price else None
        print_json({**assembly.to_dict(Trust.FULL), "price": shown})
        return 0
    print_explanation(workspace, assembly, list(assembly.rows(Trust.FULL)), "" if args.all else "--all")
    return 0


def print_explanation(workspace: "Workspace", assembly: "Assembly", rows: "list[ReportRow]", show_all: str) -> None:
    """Print the verdict of each slot and the cost of the turn.

    Absent and withheld slots are only counted, with `show_all` as the way to show them; if it is empty, all are shown.
    """
    from foreword.cli.table import NARROW_COLUMNS, find_width, print_table_with_notes
    from foreword.promptcache.calibration import format_correction

    hidden = [str(row.verdict) for row in rows if show_all and str(row.verdict) in HIDDEN_VERDICTS]
    rows = [row for row in rows if str(row.verdict) not in hidden]
    width = find_width()
    print(f"clearance: {assembly.clearance.level}, because {assembly.clearance.reason}\n")
    print_table_with_notes(
        make_slot_rows(rows, narrow=width < NARROW_COLUMNS), ["why", *(row.reason for row in rows)], width
    )
    if width < NARROW_COLUMNS and any(row.cached and row.span for row in rows):
        print("\n • the next turn reads this slot from the provider's cache")
    learned = find_calibration(workspace, assembly)
    price = show_estimate(estimate_price(workspace, assembly, learned))
    parts = (assembly.summary, price, format_correction(learned) if learned.calls else "")
    print_footer(" · ".join(filter(None, parts)), width)
    if hidden:
        print(f" {count_hidden(hidden)}; {show_all} shows {'it' if len(hidden) == 1 else 'them'}")


def count_hidden(verdicts: "list[str]") -> str:
    """Count hidden slots by verdict, as in `12 slots absent, 2 withheld`."""
    counts = [(verdicts.count(name), name) for name in HIDDEN_VERDICTS if name in verdicts]
    return ", ".join(f"{f'{n:,}' if at else count(n, 'slot')} {name}" for at, (n, name) in enumerate(counts))


def estimate_price(workspace: "Workspace", assembly: "Assembly", learned: "Calibration") -> "Estimate | None":
    """Estimate the price of a turn, corrected by the token calibration; None if the model has no price."""
    from foreword.promptcache.price import calibrate_prices, estimate
    from foreword.tokens.prices import PricedRequest, find_prices

    request = PricedRequest(tokens=assembly.used + assembly.conversation, now=assembly.turn.now)
    prices = find_prices(assembly.terms.meter.facts.name, workspace.config.models, request)
    scaled = calibrate_prices(prices, learned)
    return estimate(assembly, scaled) if scaled else None


def find_calibration(workspace: "Workspace", assembly: "Assembly") -> "Calibration":
    """Return the token calibration of the turn's model."""
    from contextlib import closing

    from foreword.storage.state_reader import StateReader

    with closing(StateReader(workspace.state)) as reader:
        return reader.find_calibration(assembly.terms.meter.facts.name)


def show_estimate(price: "Estimate | None") -> str:
    """Show the price of a turn in a few words."""
    from foreword.tokens.prices import format_usd

    if price is None:
        return "price unknown"
    return f"{format_usd(price.warm_usd)} warm, {format_usd(price.cold_usd)} cold"


def make_slot_rows(rows: "list[ReportRow]", *, narrow: bool) -> "Table":
    """Make the table of a turn: one row per slot, coloured by pace."""
    from foreword.assembly import show_tokens
    from foreword.cli.table import PACE_STYLES, VERDICT_STYLES, draw_bar, make_cell, make_table

    head, yes, size = ("", "•", 4) if narrow else ("cached", "yes", 12)
    table = make_table("slot", "pace", "needs", "tokens", "", head, "verdict", right=("tokens",), narrow=narrow)
    most = max((row.tokens for row in rows if row.span), default=0)
    for row in rows:
        pace, verdict = PACE_STYLES[str(row.pace)], str(row.verdict)
        table.add_row(
            make_cell(row.id, pace),
            make_cell(str(row.pace), pace),
            make_cell(str(row.trust)),
            make_cell(show_tokens(row)),
            make_cell(draw_bar(row.tokens, most, size) if row.span else "", pace),
            make_cell(yes if row.cached and row.span else "", "dim"),
            make_cell(verdict, VERDICT_STYLES.get(verdict, "")),
            style="" if row.span else "dim",
        )
    return table


EXPLAIN_COMMAND = CliCommand(
    name="explain",
    summary="show the verdict, the reason and the cost of every slot of a turn",
    description="Explain a turn: each slot with its pace, the clearance it needs, its tokens, its verdict and the "
    "reason. Absent and withheld slots are only counted, unless --all or --json is given. Takes the same options as "
    "build. To explain a prompt that was sent, use: foreword trace TURN --explain.",
    examples=(
        "foreword explain",
        "foreword explain --all",
        "foreword explain --user bob --situation group --channel telegram",
        "foreword explain --model openai:gpt-5.4 --json",
        'foreword explain --state state.yaml --message "How is the release?"',
    ),
    add_options=add_explain_options,
    run=run_explain,
)
