"""`foreword cache simulate`: simulate sessions under the cache rules and prices of providers.

`foreword cache` without an action: cache reads, losses by cause, and the ledger's decisions. `foreword cache`: show
cache reads and breaks, or simulate a session under a provider's cache rules. `foreword cache simulate --recorded`:
replay captured requests under a provider's cache rules and prices.
"""

from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from foreword.cli.inputs import find_folder, open_named_workspace
from foreword.cli.log_commands import (
    EventQuery,
    add_period_options,
    add_reader_options,
    open_event_query,
    refuse_unrecorded_user,
)
from foreword.cli.main import CliCommand, list_actions
from foreword.cli.output import count, print_json, warn
from foreword.errors import InputError
from foreword.types import frozen

if TYPE_CHECKING:
    from rich.table import Table

    from foreword.config.schema import ModelOverride
    from foreword.events.cache_breaks import CacheReport
    from foreword.promptcache.blame import Blame, CacheAccount
    from foreword.promptcache.calibration import Calibration
    from foreword.promptcache.designs import SimulatedModel
    from foreword.promptcache.ledger import PrefixDecision
    from foreword.promptcache.recordings import ReplayedRecording
    from foreword.promptcache.rules import CacheUsage
    from foreword.promptcache.scenario import Scenario
    from foreword.promptcache.simulation import DesignComparison
    from foreword.tokens.models import CacheFacts


CONFIRMATION_TEXTS = {True: "confirmed", False: "contradicted", None: "–"}
NEXT_STEPS = "foreword trace TURN shows a whole turn; foreword diff TURN TURN compares two"
NO_CALLS = (
    "the ledger covers the calls of foreword chat and foreword serve; for a longer period, add for example --since 7d"
)


def add_break_options(parser: ArgumentParser) -> None:
    """Add the filters, the period and the reader."""
    which = parser.add_argument_group("filters", "only without an action")
    which.add_argument("--session", metavar="ID", default="", help="only this session, by its id or the start of it")
    which.add_argument("--user", metavar="NAME", default="", help="only this person")
    add_period_options(parser)
    add_reader_options(parser)


def run_breaks(args: Namespace) -> int:
    """Print cache reads and breaks in a period."""
    from foreword.events.cache_breaks import find_breaks, parse_cache_filter, report_to_json

    workspace, desk = open_event_query(args)
    workspace.close()
    refuse_unrecorded_user(desk, args.user, workspace.config)
    asked = {name: getattr(args, name) for name in ("since", "until", "user")}
    asked["session"] = desk.find_session(args.session)
    wanted = parse_cache_filter(asked, desk.reader, desk.now)
    found = desk.ask(lambda log: find_breaks(log, desk.reader, wanted))
    learned = list_calibrations(desk)
    if args.json:
        from foreword.promptcache.ledger_json import calibration_to_json

        print_json({**report_to_json(found), "calibrations": [calibration_to_json(one) for one in learned]})
    else:
        print_breaks(found, learned, desk)
    return 0


def list_calibrations(desk: EventQuery) -> "Sequence[Calibration]":
    """Return the learned token calibrations; only for a reader who sees everything, since all calls contribute."""
    from foreword.events.event import sees_all
    from foreword.storage.ledgers import find_calibrations

    if not sees_all(desk.reader):
        return ()
    try:
        return tuple(find_calibrations(desk.folder).values())
    except InputError as error:
        warn(str(error))
        return ()


def print_breaks(found: "CacheReport", learned: "Sequence[Calibration]", desk: EventQuery) -> None:
    """Print the totals, the newest breaks and decisions, and the token calibrations."""
    from foreword.events.cache_breaks import show_breaks
    from foreword.promptcache.calibration import format_calibration as show_learned

    for line in show_breaks(found, desk.zone):
        print(line)
    if found.losses:
        print_losses(found)
        print_newest_breaks(found, desk)
    if found.moves:
        print_decided_moves(found, desk)
    if learned:
        print("\ntokens per model, as counted and as billed:")
        for one in learned:
            print(f" {show_learned(one)}")
    if not found.calls:
        print(f"\n {NO_CALLS}")
    elif found.breaks or found.moves:
        print(f"\n {NEXT_STEPS}")


def print_losses(found: "CacheReport") -> None:
    """Draw the cost of each cause."""
    from foreword.cli.table import find_width, make_cell, make_table, print_table
    from foreword.events.lines import show_cost

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
        table.add_row(make_cell(loss.cause), *figures)
    print()
    print_table(table, find_width())


def print_newest_breaks(found: "CacheReport", desk: EventQuery) -> None:
    """Draw the newest breaks, each with its reason."""
    from foreword.cli.table import NARROW_COLUMNS, find_width, make_cell, make_table, print_table_with_notes
    from foreword.events.lines import SHORT_ID_DIGITS, show_cause, show_cost, show_time

    width, right = find_width(), ("again", "cost")
    checked = ("checked",) if any(one.confirmed is not None for one in found.breaks) else ()
    heads = ("time", "session", "turn", "cause", *right, *checked)
    table = make_table(*heads, right=right, narrow=width < NARROW_COLUMNS)
    for one in found.breaks:
        table.add_row(
            show_time(one.time, desk.zone),
            make_cell(one.session[:SHORT_ID_DIGITS]),
            make_cell(one.turn[:SHORT_ID_DIGITS]),
            make_cell(show_cause(one)),
            f"{one.tokens:,}",
            show_cost(one.usd),
            *([CONFIRMATION_TEXTS[one.confirmed]] if checked else ()),
        )
    print(f"\nthe newest of {count(found.broken, 'break')}:" if found.broken > len(found.breaks) else "\nbreaks:")
    print_table_with_notes(table, ["why", *(one.reason for one in found.breaks)], width)


def print_decided_moves(found: "CacheReport", desk: EventQuery) -> None:
    """Draw the newest decisions of the ledger, each with its reason."""
    from foreword.cli.table import NARROW_COLUMNS, find_width, make_cell, make_table, print_table_with_notes
    from foreword.events.lines import SHORT_ID_DIGITS, show_decision, show_time

    width = find_width()
    table = make_table("time", "session", "turn", narrow=width < NARROW_COLUMNS)
    for one in found.moves:
        table.add_row(
            show_time(one.time, desk.zone),
            make_cell(one.session[:SHORT_ID_DIGITS]),
            make_cell(one.turn[:SHORT_ID_DIGITS]),
        )
    counted = ", ".join(f"{deed} {number:,}" for deed, number in found.deeds.items())
    newest = ", the newest" if sum(found.deeds.values()) > len(found.moves) else ""
    print(f"\ndecisions of the ledger ({counted}){newest}:")
    print_table_with_notes(table, ["what", *(show_decision(one) for one in found.moves)], width)


@frozen
class ModelSettings:
    """The model settings of the workspace, if there is one."""

    overrides: "Mapping[str, ModelOverride]"
    models: tuple[str, ...]
    """The models of its agents."""


def add_simulation_options(parser: ArgumentParser) -> None:
    """Add the options of the simulation."""
    group = parser.add_argument_group("simulate")
    group.add_argument("--model", metavar="NAME", action="append", help="a model as provider:name; can be repeated")
    group.add_argument(
        "--recorded", metavar="FILE", help="replay captured requests from a JSON Lines file; - reads stdin"
    )
    group.add_argument("--calls", action="store_true", help="list every call, with the cause of each cache break")


def run_simulation(args: Namespace) -> int:
    """Simulate a session for each model, and print a table for each."""
    place = find_model_settings(args)
    if args.recorded is not None:
        if args.file is not None:
            raise InputError("give a scenario or --recorded, not both")

        return run_replay(args, place.overrides)
    scenario = read_scenario_file(args.file)
    done = []
    for model in choose_models(args, scenario, place):
        compared = simulate_model(scenario, model, place)
        if args.json:
            done.append(simulation_to_dict(compared, calls=args.calls))
        else:
            print_simulation(compared, calls=args.calls)
    if args.json:
        print_json({"scenario": scenario.name, "turns": scenario.turns, "models": done})
    return 0


def find_model_settings(args: Namespace) -> ModelSettings:
    """Return the model settings of the workspace; empty ones without a workspace."""
    if find_folder(args) is None:
        return ModelSettings(overrides={}, models=())
    with open_named_workspace(args) as workspace:
        config = workspace.config
        models = dict.fromkeys(agent.model for agent in config.agents.values() if agent.model)
        return ModelSettings(overrides=config.models, models=tuple(models))


def read_scenario_file(file: str | None) -> "Scenario":
    """Read a scenario, or the built-in one."""
    from foreword.cli.inputs import read_text
    from foreword.promptcache.scenario import load_shipped_scenario, read_scenario

    return load_shipped_scenario() if file is None else read_scenario(read_text(file), file)


def choose_models(args: Namespace, scenario: "Scenario", place: ModelSettings) -> Sequence[str]:
    """Choose the models: those of the options, of the scenario, or of the workspace."""
    own = [scenario.model] if scenario.model else []
    named = args.model or ((own if args.file is not None else []) or place.models or own)
    if not named:
        raise InputError("no model given; use --model NAME, or set `model` in the scenario")
    for name in named:
        refuse_unknown_model(name, place.overrides)
    return list(dict.fromkeys(named))


def refuse_unknown_model(model: str, overrides: "Mapping[str, ModelOverride]") -> None:
    """Refuse a model with unknown cache rules."""
    from textwrap import fill

    from foreword.tokens.models import find_model, list_models, split_model_name

    if not model.strip():
        raise InputError("--model is empty; give a name such as anthropic:claude-sonnet-5")
    assumed = find_model(model, overrides).assumed
    if assumed and model not in overrides and split_model_name(model)[1] not in overrides:
        known = fill(", ".join(list_models()), 100, break_on_hyphens=False)
        own = "add its facts under `models` in foreword.yaml"
        raise InputError(f"{assumed.partition(';')[0]}; {own}, or use a model whose name starts with one of:\n{known}")


def simulate_model(scenario: "Scenario", model: str, place: ModelSettings) -> "DesignComparison":
    """Simulate a scenario for one model, and warn about assumptions."""
    from foreword.promptcache.simulation import compare_designs

    compared = compare_designs(scenario, model, place.overrides)
    warn_about_model(compared.service)
    largest = max(call.total for call in compared.results["ours"].calls)
    if largest > compared.service.model.window:
        warn(
            f"the session grows to {largest:,} tokens, but the window of {model} has {compared.service.model.window:,}"
        )
    return compared


def warn_about_model(service: "SimulatedModel") -> None:
    """Warn about assumptions and missing prices."""
    from foreword.promptcache.simulation import name_rules

    facts = service.model
    if facts.assumed:
        warn(f"{facts.assumed.partition(';')[0]}; assuming the cache rules of {name_rules(service)}")
    if service.prices is None:
        warn(f"the price of {facts.name} is unknown; set input_usd under `models` in foreword.yaml")


def print_simulation(compared: "DesignComparison", *, calls: bool) -> None:
    """Print the cache reads and the cost of each design, and on request every call."""
    from foreword.promptcache.simulation import format_comparison

    print(format_comparison(compared))
    if calls:
        from foreword.cli.table import find_width, print_table_with_notes

        print()
        print_table_with_notes(*make_call_table(compared), find_width())
        for design in compared.asked:
            print(f" {design}: {summarize_breaks(compared.account(design))}")
    print()


def make_call_table(compared: "DesignComparison") -> "tuple[Table, list[str]]":
    """Make the table of calls of our design, with the decisions before and the breaks of each call as notes."""
    from foreword.cli.table import make_table

    heads = ("call", "turn", "after", "read", "written", "life", "neither")
    table, notes = make_table(*heads, right=heads), [""]
    facts = compared.service.cache
    standings, last = iter(compared.standings), compared.calls[0].at
    for call, account in zip(compared.calls, compared.account("ours"), strict=True):
        used, after = account.reported, int((call.at - last).total_seconds())
        figures = (call.number + 1, call.turn, after, used.read, used.write)
        table.add_row(*(f"{figure:,}" for figure in figures), name_lifetime(used, facts), f"{used.fresh:,}")
        notes.append("; ".join(describe_call(next(standings) if call.first else None, account)))
        last = call.at
    return table, notes


def name_lifetime(used: "CacheUsage", facts: "CacheFacts") -> str:
    """Name the cache lifetime of the tokens that a call wrote; with two lifetimes, each with its tokens."""
    usual, long = facts.usual.name, facts.lives[-1].name
    parts = {long: used.hour, usual: used.write - used.hour} if used.hour else {usual: used.write}
    kept = {name: tokens for name, tokens in parts.items() if tokens}
    return " + ".join(name if len(kept) == 1 else f"{name} {tokens:,}" for name, tokens in kept.items()) or "–"


def describe_call(standing: "PrefixDecision | None", account: "CacheAccount") -> Iterator[str]:
    """Yield the decisions before a call, and the reason of a cache break."""
    for one in standing.decisions if standing else ():
        yield f"{one.deed} {one.section}: {one.reason}"
    if standing and standing.rebase and not standing.decisions:
        yield f"{standing.deed}: {standing.reason}"
    if account.blame:
        yield describe_break(account.blame)


def describe_break(blame: "Blame") -> str:
    """Describe a cache break."""
    where = f" {blame.where}" if blame.where else ""
    byte = f" at byte {blame.byte:,}" if blame.byte is not None else ""
    return f"break by {blame.cause}{where}{byte}, {blame.tokens:,} tokens billed again: {blame.reason}"


def summarize_breaks(accounts: "Sequence[CacheAccount]") -> str:
    """Summarize the breaks of a design by cause."""
    blames = [one.blame for one in accounts if one.blame]
    if not blames:
        return "no breaks"
    causes = Counter(" ".join(filter(None, (str(one.cause), one.where))) for one in blames)
    listed = ", ".join(f"{cause} {number}" for cause, number in causes.most_common())
    return f"{count(len(blames), 'break')}, {sum(one.tokens for one in blames):,} tokens billed again ({listed})"


def simulation_to_dict(compared: "DesignComparison", *, calls: bool) -> dict[str, Any]:
    """Return a comparison as JSON-ready values."""
    from foreword.promptcache.ledger_json import decision_to_json

    facts = compared.service.cache
    done: dict[str, Any] = {
        "model": compared.model,
        "rules": {"provider": facts.provider, "checked": facts.checked, "minimum": facts.minimum},
        "unit": "tokens" if compared.free else "usd",
        "designs": {
            name: {
                "read_share": result.share,
                "input_tokens": result.total,
                "usd": result.usd,
                "cost": compared.weigh(name),
                "of_oracle": compared.divide_costs(name, "oracle"),
                "of_no_cache": compared.divide_costs(name, "no cache"),
            }
            for name, result in compared.results.items()
        },
    }
    if calls:
        done["turns"] = [decision_to_json(standing) for standing in compared.standings]
        done["calls"] = {name: list_accounts(compared.account(name)) for name in compared.asked}
    return done


def list_accounts(accounts: "Sequence[CacheAccount]") -> list[dict[str, Any]]:
    """Return the usage and the break of each call as JSON-ready values."""
    from foreword.promptcache.ledger_json import account_to_json, usage_to_json

    return [{"used": usage_to_json(one.reported), "blame": account_to_json(one)["blame"]} for one in accounts]


CACHE_ACTIONS = {"simulate": "[SCENARIO.yaml]: simulate a session under the cache rules and prices of providers"}
BREAK_OPTIONS = ("since", "until", "session", "user", "reader", "room")
SIMULATION_OPTIONS = ("model", "recorded", "calls")


def add_cache_options(parser: ArgumentParser) -> None:
    """Add the action and its options."""
    listed = list_actions(CACHE_ACTIONS)
    parser.add_argument(
        "action",
        metavar="ACTION",
        nargs="?",
        choices=CACHE_ACTIONS,
        help=f"without an action: show cache reads and losses; {listed}",
    )
    parser.add_argument("file", metavar="FILE", nargs="?", help="the scenario (default: the built-in session)")
    add_break_options(parser)
    add_simulation_options(parser)


def run_cache(args: Namespace) -> int:
    """Run the simulation, or show the cache reads and breaks of recorded calls."""
    strange = SIMULATION_OPTIONS if args.action is None else BREAK_OPTIONS
    for name in strange:
        if getattr(args, name):
            place = "foreword cache simulate" if args.action is None else "foreword cache without an action"
            raise InputError(f"--{name} is an option of {place}\nsee: foreword cache --help")
    return run_breaks(args) if args.action is None else run_simulation(args)


CACHE_COMMAND = CliCommand(
    name="cache",
    arguments="[ACTION] [FILE]",
    summary="show cache reads and the causes of cache breaks, or simulate a session",
    description="Print the share of input tokens read from provider caches and the predicted share; the losses to "
    "cache breaks, by cause; the newest breaks, each with its section and byte; the ledger's decisions about edits; "
    "and the error of token counts. The default period is today. "
    "`foreword cache simulate` simulates a session under the rules and prices of prompt caches, in five designs: "
    "Foreword's own, the same without a cache, one string with a clock in it, a static and a dynamic part with one "
    "cache breakpoint, and an oracle that knows the future. With --recorded it replays captured requests, and "
    "compares the reported usage with the rules. Models come from --model, else from the scenario, else from the "
    "workspace. `models:` in foreword.yaml overrides rules and prices. The simulation needs no workspace.",
    examples=(
        "foreword cache",
        "foreword cache --since 7d --session 56a92fa4",
        "foreword cache simulate",
        "foreword cache simulate plan.yaml --model anthropic:claude-sonnet-5 --model openai:gpt-5.6",
        "foreword cache simulate plan.yaml --calls",
        "foreword cache simulate --recorded session.jsonl --json",
    ),
    add_options=add_cache_options,
    run=run_cache,
)


TOKEN_KINDS = ("read", "write", "fresh")


def run_replay(args: Namespace, overrides: "Mapping[str, ModelOverride]") -> int:
    """Replay a recording under the rules of the recorded models, or of each named one."""
    from foreword.cli.inputs import read_text
    from foreword.promptcache.recordings import parse_recording, replay_recording

    for name in args.model or ():
        refuse_unknown_model(name, overrides)
    recorded = parse_recording(read_text(args.recorded).splitlines(), args.recorded)
    done = []
    for model in dict.fromkeys(args.model or [""]):
        played = replay_recording(recorded, overrides, model)
        warn_about_replay(played)
        if args.json:
            done.append(replay_to_dict(played, model))
        else:
            print_replay(played, model or ", ".join(dict.fromkeys(one.model for one in recorded)), calls=args.calls)
    if args.json:
        print_json({"recorded": args.recorded, "plays": done})
    return 0


def warn_about_replay(played: "ReplayedRecording") -> None:
    """Warn about incomplete figures."""
    if played.unmarked:
        warn("the requests have no cache breakpoints, and their provider caches nothing without one")
    for model in dict.fromkeys(one.model for one in played.asked if one.prices is None):
        warn(f"the price of {model} is unknown; set input_usd under `models` in foreword.yaml")


def print_replay(played: "ReplayedRecording", title: str, *, calls: bool) -> None:
    """Print the calls of a recording and their totals."""
    from foreword.cli.table import find_width, make_table, print_table_with_notes

    told = any(one is not None for one in played.reported)
    right = ("call", "read", "written", "life", "neither", *(("reported",) if told else ()), "USD")
    table, notes = make_table(right[0], "time", *right[1:], right=right), [""]
    rows = zip(played.asked, played.counted, played.reported, played.accounts, played.usd, strict=True)
    for number, (asked, used, said, account, usd) in enumerate(rows, 1):
        if calls or account.blame:
            life = name_lifetime(used, asked.facts)
            figures = [*format_used(used, life), *([" / ".join(format_counted(said))] if told else []), format_usd(usd)]
            table.add_row(f"{number:,}", f"{asked.at:%m-%d %H:%M:%S}", *figures)
            notes.append(describe_break(account.blame) if account.blame else "")
    used, said = add_counted(played.counted), add_counted(played.reported)
    sums = [
        *format_used(used, ""),
        *([" / ".join(format_counted(said))] if told else []),
        format_usd(add_usd(played.usd)),
    ]
    table.add_row("all", "", *sums)
    share = used.read / used.total if used.total else 0.0
    print(f"{title}: {count(len(played.asked), 'request')}, {share:.1%} of {used.total:,} tokens cached by the rules")
    print_table_with_notes(table, [*notes, ""], find_width())
    print()


def format_counted(counted: "CacheUsage | None") -> list[str]:
    """Show the tokens of a call: read, written and neither."""
    return ["–"] if counted is None else [f"{getattr(counted, name):,}" for name in TOKEN_KINDS]


def format_used(used: "CacheUsage", life: str) -> list[str]:
    """Show the tokens of a call by the rules, and the lifetime of the written ones."""
    read, written, fresh = format_counted(used)
    return [read, written, life, fresh]


def format_usd(usd: float | None) -> str:
    """Show an amount, if it is known."""
    return "–" if usd is None else f"{usd:,.4f}"


def add_counted(counted: "Sequence[CacheUsage | None]") -> "CacheUsage":
    """Add up the tokens of calls."""
    from foreword.promptcache.rules import CacheUsage

    return sum(filter(None, counted), CacheUsage())


def add_usd(amounts: Sequence[float | None]) -> float | None:
    """Add up amounts; the sum is unknown if one of them is."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None


def replay_to_dict(played: "ReplayedRecording", model: str) -> dict[str, Any]:
    """Return a replayed recording as JSON-ready values."""
    from foreword.promptcache.ledger_json import account_to_json, usage_to_json

    rows = zip(played.asked, played.counted, played.reported, played.accounts, played.usd, strict=True)
    return {
        "model": model or None,
        "sum": {
            "predicted": usage_to_json(add_counted(played.counted)),
            "reported": usage_to_json(add_counted(played.reported)),
            "usd": add_usd(played.usd),
        },
        "calls": [
            {
                "at": asked.at.isoformat(),
                "model": asked.model,
                "predicted": usage_to_json(used),
                "reported": None if said is None else usage_to_json(said),
                "usd": usd,
                "blame": account_to_json(account)["blame"],
            }
            for asked, used, said, account, usd in rows
        ],
    }
