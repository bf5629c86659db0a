"""The command `cache`: show cache reads and breaks of recorded calls, or simulate sessions and replay recordings."""

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

from foreword.cli import log_commands
from foreword.cli.inputs import add_options, find_config, read_text
from foreword.cli.output import count, print_json, print_table, warn
from foreword.config.schema import ModelOverride
from foreword.errors import InputError
from foreword.events import cache_breaks, event, lines
from foreword.promptcache import ledger_json, recordings, rules, scenario, simulation
from foreword.storage.ledgers import find_calibrations
from foreword.tokens.models import CacheFacts, find_model, list_models, split_model_name

CONFIRMATION_TEXTS = {True: "confirmed", False: "contradicted", None: "–"}
NEXT_STEPS = "foreword trace TURN shows a whole turn; foreword diff TURN TURN compares two"
UNKNOWN_PRICE = "the price of {} is unknown; set input_usd under `models` in foreword.yaml"
NO_CALLS = (
    "the ledger covers the calls of foreword chat and foreword serve; for a longer period, add for example --since 7d"
)
BREAK_OPTIONS = ("since", "until", "session", "user", "reader", "room")
SIMULATION_OPTIONS = ("model", "recorded")


def add_cache_options(parser: ArgumentParser) -> None:
    """Add the action and its options."""
    action = (
        "without an action: show cache reads and losses; "
        "simulate [SCENARIO.yaml]: simulate a session under the cache rules and prices of providers"
    )
    parser.add_argument("action", metavar="ACTION", nargs="?", choices=("simulate",), help=action)
    parser.add_argument("file", metavar="FILE", nargs="?", help="the scenario (default: the built-in session)")
    filters = {"--session ID": "only this session, by its id or the start of it", "--user NAME": "only this person"}
    add_options(parser.add_argument_group("filters", "only without an action"), filters, default="")
    log_commands.add_period_options(parser)
    log_commands.add_reader_options(parser)
    group = parser.add_argument_group("simulate")
    add_options(group, {"--model NAME": "a model as provider:name; can be repeated"}, action="append")
    add_options(group, {"--recorded FILE": "replay captured requests from a JSON Lines file; - reads stdin"})


def run_cache(args: Namespace) -> int:
    """Print the share of input tokens read from provider caches, and what cache breaks cost.

    Shows the share that was read and the predicted one; the losses to cache breaks, by cause; the newest breaks, each
    with its section and byte; the ledger's decisions about edits; and the error of token counts. The default period is
    today. `foreword cache simulate` simulates a session under the rules and prices of prompt caches, in five designs:
    Foreword's own, the same without a cache, one string with a clock in it, a static and a dynamic part with one cache
    breakpoint, and an oracle that knows the future. With --recorded it replays captured requests, and compares the
    reported usage with the rules. Models come from --model, else from the scenario, else from the workspace. `models:`
    in foreword.yaml overrides rules and prices. The simulation needs no workspace.

    Examples:
        foreword cache
        foreword cache --since 7d --session 56a92fa4
        foreword cache simulate --recorded session.jsonl --json
    """
    for name in SIMULATION_OPTIONS if args.action is None else BREAK_OPTIONS:
        if getattr(args, name):
            place = "foreword cache simulate" if args.action is None else "foreword cache without an action"
            raise InputError(f"--{name} is an option of {place}\nsee: foreword cache --help")
    if args.action is None:
        print_breaks(args)
    elif args.recorded is None:
        run_simulation(args)
    elif args.file is not None:
        raise InputError("give a scenario or --recorded, not both")
    else:
        run_replay(args)
    return 0


def print_breaks(args: Namespace) -> None:
    """Print the totals, the newest breaks and decisions, and the token calibrations of a period."""
    workspace, events = log_commands.open_event_query(args)
    workspace.close()
    events.refuse_unrecorded_user(args.user, workspace.config)
    values = {name: getattr(args, name) for name in ("since", "until", "user")}
    values["session"] = events.find_session(args.session)
    wanted = cache_breaks.parse_cache_filter(values, events.reader, events.now)
    report = events.run(lambda log: cache_breaks.find_breaks(log, events.reader, wanted))
    calibrations = list_calibrations(events)
    if args.json:
        plain = [ledger_json.to_json(one) for one in calibrations]
        print_json({**cache_breaks.report_to_json(report), "calibrations": plain})
        return
    for line in cache_breaks.show_breaks(report, events.zone):
        print(line)
    if report.losses:
        print_losses(report)
        print_newest_breaks(report, events)
    if report.moves:
        print_decisions(report, events)
    if calibrations:
        print("\ntokens per model, as counted and as billed:")
        for one in calibrations:
            print(f" {rules.format_calibration(one)}")
    if not report.calls:
        print(f"\n {NO_CALLS}")
    elif report.breaks or report.moves:
        print(f"\n {NEXT_STEPS}")


def list_calibrations(events: log_commands.EventQuery) -> Sequence[rules.Calibration]:
    """Return the learned token calibrations; only for a reader who sees everything, since all calls contribute."""
    if not event.sees_all(events.reader):
        return ()
    try:
        return tuple(find_calibrations(events.folder).values())
    except InputError as error:
        warn(str(error))
        return ()


def print_losses(report: cache_breaks.CacheReport) -> None:
    """Print the cost of each cause."""
    shown = 5 if any(loss.unpriced for loss in report.losses) else 4
    heads = ("cause", "breaks", "again", "cost", "unpriced")[:shown]
    rows = (
        (loss.cause, f"{loss.breaks:,}", f"{loss.tokens:,}", lines.show_cost(loss.usd), f"{loss.unpriced:,}")[:shown]
        for loss in report.losses
    )
    print()
    print_table(heads, rows, right=heads[1:])


def print_newest_breaks(report: cache_breaks.CacheReport, events: log_commands.EventQuery) -> None:
    """Print the newest breaks, each with its reason."""
    heads: tuple[str, ...] = ("time", "session", "turn", "cause", "again", "cost", "checked")
    if all(one.confirmed is None for one in report.breaks):
        heads = heads[:-1]
    rows = []
    for one in report.breaks:
        cost = (f"{one.tokens:,}", lines.show_cost(one.usd), CONFIRMATION_TEXTS[one.confirmed])
        rows.append((*show_place(one, events), lines.show_cause(one), *cost)[: len(heads)])
    broken = report.whole.breaks
    print(f"\nthe newest of {count(broken, 'break')}:" if broken > len(report.breaks) else "\nbreaks:")
    reasons = ["why", *(one.reason for one in report.breaks)]
    print_table(heads, rows, right=("again", "cost"), notes=reasons)


def print_decisions(report: cache_breaks.CacheReport, events: log_commands.EventQuery) -> None:
    """Print the newest decisions of the ledger, each with its reason."""
    counted = ", ".join(f"{action} {number:,}" for action, number in report.deeds.items())
    newest = ", the newest" if sum(report.deeds.values()) > len(report.moves) else ""
    print(f"\ndecisions of the ledger ({counted}){newest}:")
    rows = [show_place(one, events) for one in report.moves]
    print_table(("time", "session", "turn"), rows, notes=["what", *map(lines.show_decision, report.moves)])


def show_place(one: lines.CacheBreak | lines.LedgerDecision, events: log_commands.EventQuery) -> tuple[str, str, str]:
    """Show the time, the session and the turn of a break or a decision."""
    digits = lines.SHORT_ID_DIGITS
    return lines.show_time(one.time, events.zone), one.session[:digits], one.turn[:digits]


def run_simulation(args: Namespace) -> None:
    """Simulate a session for each model, and print a table for each."""
    config = find_config(args)
    overrides = config.models if config else {}
    models = [agent.model for agent in config.agents.values() if agent.model] if config else []
    shipped = args.file is None
    played = scenario.load_shipped_scenario() if shipped else scenario.read_scenario(read_text(args.file), args.file)
    own = [played.model] if played.model else []
    names = args.model or ((() if shipped else own) or models or own)
    if not names:
        raise InputError("no model given; use --model NAME, or set `model` in the scenario")
    for name in names:
        refuse_unknown_model(name, overrides)
    results = []
    for model in dict.fromkeys(names):
        compared = simulation.compare_designs(played, model, overrides)
        warn_about_simulation(compared)
        if args.json:
            results.append(simulation_to_dict(compared))
        else:
            print(f"{simulation.format_comparison(compared)}\n")
    if args.json:
        print_json({"scenario": played.name, "turns": played.turns, "models": results})


def refuse_unknown_model(model: str, overrides: Mapping[str, ModelOverride]) -> None:
    """Refuse a model with unknown cache rules."""
    if not model.strip():
        raise InputError("--model is empty; give a name such as anthropic:claude-sonnet-5")
    assumed = find_model(model, overrides).assumed
    if assumed and model not in overrides and split_model_name(model)[1] not in overrides:
        names = fill(", ".join(list_models()), 100, break_on_hyphens=False)
        own = "add its facts under `models` in foreword.yaml"
        raise InputError(f"{assumed.partition(';')[0]}; {own}, or use a model whose name starts with one of:\n{names}")


def warn_about_simulation(compared: simulation.DesignComparison) -> None:
    """Warn about assumptions, missing prices, and sessions larger than the window."""
    facts = compared.service.model
    if facts.assumed:
        named = simulation.name_rules(compared.service)
        warn(f"{facts.assumed.partition(';')[0]}; assuming the cache rules of {named}")
    if compared.service.prices is None:
        warn(UNKNOWN_PRICE.format(facts.name))
    largest = max(call.total for call in compared.results["ours"].calls)
    if largest > facts.window:
        warn(f"the session grows to {largest:,} tokens, but the window of {compared.model} has {facts.window:,}")


def name_lifetime(used: rules.CacheUsage, facts: CacheFacts) -> str:
    """Name the cache lifetime of the tokens that a call wrote; with two lifetimes, each with its tokens."""
    usual, long = facts.usual.name, facts.lives[-1].name
    parts = {long: used.hour, usual: used.write - used.hour} if used.hour else {usual: used.write}
    written = {name: tokens for name, tokens in parts.items() if tokens}
    return " + ".join(name if len(written) == 1 else f"{name} {tokens:,}" for name, tokens in written.items()) or "–"


def simulation_to_dict(compared: simulation.DesignComparison) -> dict[str, Any]:
    """Return a comparison as JSON-ready values."""
    facts = compared.service.cache
    return {
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


def run_replay(args: Namespace) -> None:
    """Replay captured requests under the rules of the recorded models, or of each named one."""
    config = find_config(args)
    overrides = config.models if config else {}
    for name in args.model or ():
        refuse_unknown_model(name, overrides)
    recorded = recordings.parse_recording(read_text(args.recorded).splitlines(), args.recorded)
    results = []
    for model in dict.fromkeys(args.model or [""]):
        played = recordings.replay_recording(recorded, overrides, model)
        if played.unmarked:
            warn("the requests have no cache breakpoints, and their provider caches nothing without one")
        for name in dict.fromkeys(one.model for one in played.asked if one.prices is None):
            warn(UNKNOWN_PRICE.format(name))
        if args.json:
            results.append(replay_to_dict(played, model))
        else:
            print_replay(played, model or ", ".join(dict.fromkeys(one.model for one in recorded)))
    if args.json:
        print_json({"recorded": args.recorded, "plays": results})


def print_replay(played: recordings.ReplayedRecording, title: str) -> None:
    """Print the calls of a recording that broke the cache, each with its cause, and the totals of all calls."""
    reports = any(one is not None for one in played.reported)

    def show(used: rules.CacheUsage, life: str, reported: rules.CacheUsage | None, usd: float | None) -> list[str]:
        counted = f"{reported.read:,} / {reported.write:,} / {reported.fresh:,}" if reported is not None else "–"
        cost = "–" if usd is None else f"{usd:,.4f}"
        return [f"{used.read:,}", f"{used.write:,}", life, f"{used.fresh:,}", *([counted] if reports else []), cost]

    rows, notes = [], [""]
    played_calls = zip(played.asked, played.counted, played.reported, played.accounts, played.usd, strict=True)
    for number, (request, used, reported, account, usd) in enumerate(played_calls, 1):
        if blame := account.blame:
            figures = show(used, name_lifetime(used, request.facts), reported, usd)
            rows.append([f"{number:,}", f"{request.at:%m-%d %H:%M:%S}", *figures])
            where = f" {blame.where}" if blame.where else ""
            byte = f" at byte {blame.byte:,}" if blame.byte is not None else ""
            notes.append(f"break by {blame.cause}{where}{byte}, {blame.tokens:,} tokens billed again: {blame.reason}")
    whole, whole_reported, whole_usd = add_up(played)
    rows.append(["all", "", *show(whole, "", whole_reported, whole_usd)])
    share = whole.read / whole.total if whole.total else 0.0
    print(f"{title}: {count(len(played.asked), 'request')}, {share:.1%} of {whole.total:,} tokens cached by the rules")
    right = ["call", "read", "written", "life", "neither", *(["reported"] if reports else []), "USD"]
    print_table([right[0], "time", *right[1:]], rows, right=right, notes=[*notes, ""])
    print()


def add_up(played: recordings.ReplayedRecording) -> tuple[rules.CacheUsage, rules.CacheUsage, float | None]:
    """Add up the counted and the reported tokens of all calls, and the cost, which is unknown if one of them is."""
    counted, reported = (sum(filter(None, all_), rules.CacheUsage()) for all_ in (played.counted, played.reported))
    return counted, reported, None if None in played.usd else sum(filter(None, played.usd))


def replay_to_dict(played: recordings.ReplayedRecording, model: str) -> dict[str, Any]:
    """Return a replayed recording as JSON-ready values."""
    rows = zip(played.asked, played.counted, played.reported, played.accounts, played.usd, strict=True)
    counted, said, cost = add_up(played)
    return {
        "model": model or None,
        "sum": {"predicted": ledger_json.to_json(counted), "reported": ledger_json.to_json(said), "usd": cost},
        "calls": [
            {
                "at": request.at.isoformat(),
                "model": request.model,
                "predicted": ledger_json.to_json(used),
                "reported": None if reported is None else ledger_json.to_json(reported),
                "usd": usd,
                "blame": ledger_json.account_to_json(account)["blame"],
            }
            for request, used, reported, account, usd in rows
        ],
    }
