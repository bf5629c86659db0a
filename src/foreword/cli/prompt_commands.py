"""The commands that show prompts: `build` prints one, `explain` gives the reasons, `blueprints` lists the orders."""

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING

from foreword import resources
from foreword.cli import output
from foreword.cli.inputs import add_turn_options, assemble_turn, find_folder, open_named_workspace, relate_faults
from foreword.cli.output import PACE_STYLES, count, draw_bar, is_narrow, print_json, print_table
from foreword.engine.blueprint import Blueprint, Budget, Slot, TurnRoomKind
from foreword.engine.blueprint_file import load_blueprint
from foreword.errors import ConfigError, InputError, UnknownName
from foreword.types import Trust
from foreword.workspace import Workspace

if TYPE_CHECKING:
    from foreword.assembly import Assembly, ReportRow
    from foreword.promptcache.price import Estimate
    from foreword.promptcache.rules import Calibration

BUILD_FORMATS = ("text", "json", "anthropic", "openai", "responses", "gemini", "plain")
VERDICT_STYLES = {"shortened": "yellow", "indexed": "blue", "dropped": "red", "withheld": "magenta"}
HIDDEN_VERDICTS = ("absent", "withheld")  # verdicts that the table only counts, unless all slots are requested


def add_build_options(parser: ArgumentParser) -> None:
    """Add the options of a turn and the format."""
    add_turn_options(parser)
    parser.add_argument(
        "--format",
        choices=BUILD_FORMATS,
        help="text: only the prompt; json: the whole assembly; others: the request of a provider (default: text)",
    )


def run_build(args: Namespace) -> int:
    """Print the prompt of a turn.

    Without options, the owner speaks in a private chat, and the agent has the tools of a real turn. To print a prompt
    that was sent, use: foreword trace TURN --prompt

    Examples:
        foreword build
        foreword build --user bob --room family --channel telegram
        foreword build --message "What is on today?" --format anthropic
        foreword build --json > before.json
    """
    if args.json and args.format not in (None, "json"):
        raise InputError(f"--json and --format {args.format} contradict each other; give only one")
    shape = "json" if args.json else args.format or "text"
    _, assembly = assemble_turn(args)
    if shape == "text":
        output.print_text(assembly.prompt.text)
    elif shape == "json":
        print_json(assembly.to_dict(Trust.FULL))
    else:
        print_json(assembly.envelope(shape).request)
    return 0


def add_explain_options(parser: ArgumentParser) -> None:
    """Add the options of a turn, and one for hidden slots."""
    add_turn_options(parser)
    parser.add_argument("--all", action="store_true", help="show absent and withheld slots too")


def run_explain(args: Namespace) -> int:
    """Explain a turn: each slot with its pace, the clearance it needs, its tokens, its verdict and the reason.

    Absent and withheld slots are only counted, unless --all or --json is given. Takes the same options as build. To
    explain a prompt that was sent, use: foreword trace TURN --explain.

    Examples:
        foreword explain
        foreword explain --all
        foreword explain --user bob --situation group --channel telegram
        foreword explain --model openai:gpt-5.4 --json
        foreword explain --state state.yaml --message "How is the release?"
    """
    workspace, assembly = assemble_turn(args)
    if args.json:
        price = estimate_price(workspace, assembly, find_calibration(workspace, assembly))
        shown = {"warm_usd": round(price.warm_usd, 8), "cold_usd": round(price.cold_usd, 8)} if price else None
        print_json({**assembly.to_dict(Trust.FULL), "price": shown})
    else:
        print_explanation(workspace, assembly, list(assembly.rows(Trust.FULL)), "" if args.all else "--all")
    return 0


def print_explanation(workspace: Workspace, assembly: "Assembly", rows: "list[ReportRow]", show_all: str) -> None:
    """Print the verdict of each slot and the cost of the turn.

    Absent and withheld slots are only counted, with `show_all` as the way to show them; if it is empty, all are shown.
    """
    from foreword.promptcache.rules import format_correction
    from foreword.tokens.prices import format_usd

    hidden = [str(row.verdict) for row in rows if show_all and str(row.verdict) in HIDDEN_VERDICTS]
    rows = [row for row in rows if str(row.verdict) not in hidden]
    print(f"clearance: {assembly.clearance.level}, because {assembly.clearance.reason}\n")
    print_slots(rows)
    if is_narrow() and any(row.cached and row.span for row in rows):
        print("\n • the next turn reads this slot from the provider's cache")
    calibration = find_calibration(workspace, assembly)
    estimate = estimate_price(workspace, assembly, calibration)
    price = f"{format_usd(estimate.warm_usd)} warm, {format_usd(estimate.cold_usd)} cold" if estimate else ""
    parts = (assembly.summary, price or "price unknown", format_correction(calibration) if calibration.calls else "")
    output.print_footer(" · ".join(filter(None, parts)))
    if hidden:
        print(f" {count_hidden(hidden)}; {show_all} shows {'it' if len(hidden) == 1 else 'them'}")


def print_slots(rows: "Sequence[ReportRow]") -> None:
    """Print one row per slot, coloured by pace, with the reason of its verdict."""
    from foreword.assembly import show_tokens

    head, cached, size = ("", "•", 4) if is_narrow() else ("cached", "yes", 12)
    most = max((row.tokens for row in rows if row.span), default=0)
    cells = []
    for row in rows:
        dim = "" if row.span else "dim "
        pace, verdict = dim + PACE_STYLES[str(row.pace)], str(row.verdict)
        cells.append(
            (
                (row.id, pace),
                (str(row.pace), pace),
                (str(row.trust), dim),
                (show_tokens(row), dim),
                (draw_bar(row.tokens, most, size) if row.span else "", pace),
                (cached if row.cached and row.span else "", "dim"),
                (verdict, dim + VERDICT_STYLES.get(verdict, "")),
            )
        )
    heads = ("slot", "pace", "needs", "tokens", "", head, "verdict")
    print_table(heads, cells, right=("tokens",), notes=["why", *(row.reason for row in rows)])


def count_hidden(verdicts: Sequence[str]) -> str:
    """Count hidden slots by verdict, as in `12 slots absent, 2 withheld`."""
    counts = [(verdicts.count(name), name) for name in HIDDEN_VERDICTS if name in verdicts]
    return ", ".join(f"{f'{n:,}' if at else count(n, 'slot')} {name}" for at, (n, name) in enumerate(counts))


def estimate_price(workspace: Workspace, assembly: "Assembly", calibration: "Calibration") -> "Estimate | None":
    """Estimate the price of a turn, corrected by the token calibration; None if the model has no price."""
    from foreword.promptcache.price import calibrate_prices, estimate
    from foreword.tokens.prices import PricedRequest, find_prices

    request = PricedRequest(tokens=assembly.used + assembly.conversation, now=assembly.turn.now)
    prices = find_prices(assembly.meter.facts.name, workspace.config.models, request)
    scaled = calibrate_prices(prices, calibration)
    return estimate(assembly, scaled) if scaled else None


def find_calibration(workspace: Workspace, assembly: "Assembly") -> "Calibration":
    """Return the token calibration of the turn's model."""
    from foreword.storage.state_reader import StateReader

    with closing(StateReader(workspace.state)) as reader:
        return reader.find_calibration(assembly.meter.facts.name)


def add_blueprints_options(parser: ArgumentParser) -> None:
    """Add the name of a blueprint."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="the blueprint to print (default: list all)")


def run_blueprints(args: Namespace) -> int:
    """List the blueprints with their purpose, or print the slots of one in order.

    Examples:
        foreword blueprints
        foreword blueprints default
        foreword blueprints default --json
    """
    with open_named_workspace(args) if find_folder(args) is not None else nullcontext() as workspace:
        if args.name is not None:
            blueprint = load_named_blueprint(workspace, args.name)
            print_json(output.to_plain(blueprint)) if args.json else print_blueprint(blueprint)
            return 0
        names = workspace.blueprint_names() if workspace else resources.list_blueprints()
        listed = {name: describe_blueprint(workspace, name) for name in names}
    if args.json:
        print_json([{"name": name, "description": description} for name, description in listed.items()])
        return 0
    width = max(map(len, listed))
    for name, description in listed.items():
        print(f"{name:{width}}  {description}")
    return 0


def load_named_blueprint(workspace: Workspace | None, name: str) -> Blueprint:
    """Read a blueprint; without a workspace, a built-in one."""
    if workspace:
        try:
            return workspace.blueprint(name)
        except ConfigError as error:
            raise relate_faults(error, workspace.files.root) from None

    text = resources.read_blueprint(name)
    if text is None:
        raise UnknownName("blueprint", name, resources.list_blueprints())
    return load_blueprint(text, f"blueprints/{name}.yaml")


def describe_blueprint(workspace: Workspace | None, name: str) -> str:
    """Return the description of a blueprint, or that it cannot be used."""
    try:
        return load_named_blueprint(workspace, name).description
    except ConfigError as error:
        return f"(cannot be used: {count(len(error.faults), 'fault')}; see: foreword blueprints {name})"


def print_blueprint(blueprint: Blueprint) -> None:
    """Print one row per slot, coloured by pace, and the budget."""
    narrow = is_narrow()
    rows: list[Sequence[output.Cell]] = []
    for order, slot in enumerate(blueprint.slots, 1):
        pace, modes = PACE_STYLES[str(slot.pace)], [str(mode) for mode in slot.modes]
        source = [] if narrow else [slot.source]
        end = (slot.tier, str(slot.placement), "".join(mode[0] for mode in modes) if narrow else " ".join(modes))
        rows.append((str(order), (slot.id, pace), *source, (str(slot.pace), pace), str(slot.trust), *end))
    heads = ["order", "slot", "source", "pace", "trust", "tier", "placement", "modes"]
    if narrow:
        heads = ["", "slot", "pace", "trust", "tier", "place", "modes"]
    notes = [describe_slot(slot, narrow=narrow) for slot in blueprint.slots]
    print(f"{blueprint.name}: {blueprint.description}\n")
    print_table(heads, rows, right=heads[:1], notes=["source" if narrow else "from, when, at most", *notes])
    if narrow:
        print("\n modes: f full, m minimal, b brief, n none")
    output.print_footer(format_budget(blueprint.budget))


def describe_slot(slot: Slot, *, narrow: bool) -> str:
    """Describe where the text of a slot comes from, its conditions and its limit."""
    built_in = slot.text or (slot.form if slot.form in resources.list_prompts() else "")
    origin = slot.file or (f"{slot.folder}/" if slot.folder else f"built-in {built_in}" if built_in else "")
    limit = f"≤ {slot.limit_all or slot.limit:,} characters{' together' if slot.limit_all else ''}"
    parts = (
        " ".join(filter(None, (slot.source if narrow else "", origin))),
        f"{{{{ {slot.variable} }}}}" if slot.variable else "",
        "per user" if slot.per_user else "",
        f"when {' and '.join(slot.when)}" if slot.when else "",
        f"only in {' or '.join(slot.situations)}" if slot.situations else "",
        limit if slot.limit_all or slot.limit else "",
    )
    return " · ".join(filter(None, parts))


def format_budget(budget: Budget) -> str:
    """Show the rules of a budget in one line."""
    larger = f" or {format_share(budget.turn_share)} of the window" if budget.turn_share else ""
    fixed = f"{budget.turn:,}{larger}"
    rest = f"the remainder, at least {budget.turn:,} for the whole prompt"
    turns = f" · {budget.fitting} tiers of a turn: {format_tiers(budget.turn_tiers)}" if budget.turn_tiers else ""
    return (
        f"system {budget.system:,} tokens or {format_share(budget.window_share)} of the window"
        f" · turn {fixed if budget.turn_room is TurnRoomKind.FIXED else rest} · reserve {budget.reserve:,}"
        f" · {budget.fitting} tiers: {format_tiers(budget.tiers)}{turns}"
    )


def format_tiers(tiers: Mapping[str, float]) -> str:
    """Show tiers in order, each with its share."""
    return ", ".join(f"{name} {format_share(share)}" for name, share in tiers.items())


def format_share(share: float) -> str:
    """Show a share as a percentage."""
    return f"{share:.0%}".replace("%", " %")
