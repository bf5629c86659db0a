"""The commands that show prompts: `build` prints one, `explain` gives the reasons, `blueprints` lists the orders."""

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING

from foreword import resources
from foreword.cli import inputs, output
from foreword.cli.output import NARROW_COLUMNS, PACE_STYLES, count, draw_bar, find_width, print_json, print_table
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
    inputs.add_turn_options(parser)
    about = "text: only the prompt; json: the whole assembly; others: the request of a provider (default: text)"
    inputs.add_options(parser, {"--format": about}, choices=BUILD_FORMATS)


def run_build(args: Namespace) -> int:
    """Print the prompt of a turn.

    Without options, the owner speaks in a private chat, and the agent has the tools of a real turn. To print a prompt
    that was sent, use: foreword trace TURN --prompt

    Examples:
        foreword build
        foreword build --user bob --room family --channel telegram
        foreword build --json > before.json
    """
    if args.json and args.format not in (None, "json"):
        raise InputError(f"--json and --format {args.format} contradict each other; give only one")
    shape = "json" if args.json else args.format or "text"
    _, assembly = inputs.assemble_turn(args)
    if shape == "text":
        output.print_text(assembly.prompt.text)
    elif shape == "json":
        print_json(assembly.to_dict(Trust.FULL))
    else:
        print_json(assembly.envelope(shape).request)
    return 0


def add_explain_options(parser: ArgumentParser) -> None:
    """Add the options of a turn, and one for hidden slots."""
    inputs.add_turn_options(parser)
    inputs.add_options(parser, {"--all": "show absent and withheld slots too"})


def run_explain(args: Namespace) -> int:
    """Explain a turn: each slot with its pace, the clearance it needs, its tokens, its verdict and the reason.

    Absent and withheld slots are only counted, unless --all or --json is given. Takes the same options as build. To
    explain a prompt that was sent, use: foreword trace TURN --explain.

    Examples:
        foreword explain
        foreword explain --all
        foreword explain --state state.yaml --message "How is the release?"
    """
    workspace, assembly = inputs.assemble_turn(args)
    if args.json:
        price, _ = estimate_price(workspace, assembly)
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
    from foreword.tokens.models import format_usd

    hidden = [str(row.verdict) for row in rows if show_all and str(row.verdict) in HIDDEN_VERDICTS]
    rows = [row for row in rows if str(row.verdict) not in hidden]
    print(f"clearance: {assembly.clearance.level}, because {assembly.clearance.reason}\n")
    print_slots(rows)
    if find_width() < NARROW_COLUMNS and any(row.cached and row.span for row in rows):
        print("\n • the next turn reads this slot from the provider's cache")
    estimate, calibration = estimate_price(workspace, assembly)
    price = f"{format_usd(estimate.warm_usd)} warm, {format_usd(estimate.cold_usd)} cold" if estimate else ""
    parts = (assembly.summary, price or "price unknown", format_correction(calibration) if calibration.calls else "")
    output.print_footer(" · ".join(filter(None, parts)))
    if hidden:
        print(f" {count_hidden(hidden)}; {show_all} shows {'it' if len(hidden) == 1 else 'them'}")


def print_slots(rows: "Sequence[ReportRow]") -> None:
    """Print one row per slot, coloured by pace, with the reason of its verdict."""
    from foreword.assembly import show_tokens

    head, cached, size = ("", "•", 4) if find_width() < NARROW_COLUMNS else ("cached", "yes", 12)
    most = max((row.tokens for row in rows if row.span), default=0)
    cells = []
    for row in rows:
        dim = "" if row.span else "dim "
        pace, verdict = dim + PACE_STYLES[str(row.pace)], str(row.verdict)
        bar, mark = (draw_bar(row.tokens, most, size), cached if row.cached else "") if row.span else ("", "")
        facts = ((row.id, pace), (str(row.pace), pace), (str(row.trust), dim), (show_tokens(row), dim), (bar, pace))
        cells.append((*facts, (mark, "dim"), (verdict, dim + VERDICT_STYLES.get(verdict, ""))))
    heads = ("slot", "pace", "needs", "tokens", "", head, "verdict")
    print_table(heads, cells, right=("tokens",), notes=["why", *(row.reason for row in rows)])


def count_hidden(verdicts: Sequence[str]) -> str:
    """Count hidden slots by verdict, as in `12 slots absent, 2 withheld`."""
    counts = [(verdicts.count(name), name) for name in HIDDEN_VERDICTS if name in verdicts]
    return ", ".join(f"{f'{n:,}' if at else count(n, 'slot')} {name}" for at, (n, name) in enumerate(counts))


def estimate_price(workspace: Workspace, assembly: "Assembly") -> "tuple[Estimate | None, Calibration]":
    """Estimate the price of a turn with the token calibration of its model; None if the model has no price."""
    from foreword.promptcache.price import calibrate_prices, estimate
    from foreword.storage.state_reader import StateReader
    from foreword.tokens.models import PricedRequest, find_prices

    model = assembly.inputs.meter.facts.name
    with closing(StateReader(workspace.state)) as reader:
        calibration = reader.find_calibration(model)
    request = PricedRequest(tokens=assembly.used + assembly.conversation, now=assembly.turn.now)
    scaled = calibrate_prices(find_prices(model, workspace.config.models, request), calibration)
    return estimate(assembly, scaled) if scaled else None, calibration


def add_blueprints_options(parser: ArgumentParser) -> None:
    """Add the name of a blueprint."""
    inputs.add_options(parser, {"name NAME": "the blueprint to print (default: list all)"}, nargs="?")


def run_blueprints(args: Namespace) -> int:
    """List the blueprints with their purpose, or print the slots of one in order.

    Examples:
        foreword blueprints
        foreword blueprints default
        foreword blueprints default --json
    """
    with inputs.open_named_workspace(args) if inputs.find_folder(args) is not None else nullcontext() as workspace:
        if args.name is not None:
            blueprint = load_named_blueprint(workspace, args.name)
            print_json(blueprint) if args.json else print_blueprint(blueprint)
            return 0
        listed = {}
        for name in workspace.blueprint_names() if workspace else resources.list_blueprints():
            try:
                listed[name] = load_named_blueprint(workspace, name).description
            except ConfigError as error:
                faults = count(len(error.faults), "fault")
                listed[name] = f"(cannot be used: {faults}; see: foreword blueprints {name})"
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
            raise inputs.relate_faults(error, workspace.files.root) from None

    text = resources.read_blueprint(name)
    if text is None:
        raise UnknownName("blueprint", name, resources.list_blueprints())
    return load_blueprint(text, f"blueprints/{name}.yaml")


def print_blueprint(blueprint: Blueprint) -> None:
    """Print one row per slot, coloured by pace, and the budget."""
    narrow = find_width() < NARROW_COLUMNS  # the notes wrap, the columns do not
    rows: list[Sequence[output.Cell]] = []
    notes = ["from, when, at most"]
    for order, slot in enumerate(blueprint.slots, 1):
        pace, more = PACE_STYLES[str(slot.pace)], (slot.source, str(slot.placement), " ".join(map(str, slot.modes)))
        row = (str(order), (slot.id, pace), (str(slot.pace), pace), str(slot.trust), slot.tier)
        rows.append(row if narrow else (*row, *more))
        notes.append(" · ".join(filter(None, (*(more if narrow else ()), *describe_slot(slot)))))
    heads = ["order", "slot", "pace", "trust", "tier", *(() if narrow else ("source", "placement", "modes"))]
    print(f"{blueprint.name}: {blueprint.description}\n")
    print_table(heads, rows, right=heads[:1], notes=notes)
    output.print_footer(format_budget(blueprint.budget))


def describe_slot(slot: Slot) -> tuple[str, ...]:
    """Describe where the text of a slot comes from, its conditions and its limit."""
    built_in = slot.text or (slot.form if slot.form in resources.list_prompts() else "")
    limit = f"≤ {slot.limit_all or slot.limit:,} characters{' together' if slot.limit_all else ''}"
    return (
        slot.file or (f"{slot.folder}/" if slot.folder else f"built-in {built_in}" if built_in else ""),
        f"{{{{ {slot.variable} }}}}" if slot.variable else "",
        "per user" if slot.per_user else "",
        f"when {' and '.join(slot.when)}" if slot.when else "",
        f"only in {' or '.join(slot.situations)}" if slot.situations else "",
        limit if slot.limit_all or slot.limit else "",
    )


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
