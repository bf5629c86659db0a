"""`foreword cache simulate`: sessions, scripted or recorded, against the rules and prices of providers."""

from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from foreword.cli.output import count, print_json, warn
from foreword.cli.place import find_folder, open_here
from foreword.errors import InputError
from foreword.frozen import frozen

if TYPE_CHECKING:
    from rich.table import Table

    from foreword.caching.cache import Counted
    from foreword.config.schema import ModelOverride
    from foreword.ledger import Standing
    from foreword.ledger.blame import Account, Blame
    from foreword.simulate import Comparison, Scenario
    from foreword.simulate.ours import Service
    from foreword.tokens.caches import CacheFacts


@frozen
class Place:
    """What a workspace says about models, if there is one."""

    overrides: "Mapping[str, ModelOverride]"
    models: tuple[str, ...]
    """Those of its agents."""


def add_simulation_options(parser: ArgumentParser) -> None:
    """Add what is played, and against whom."""
    group = parser.add_argument_group("simulate")
    group.add_argument("--model", metavar="NAME", action="append", help="a model as provider:name; may be repeated")
    group.add_argument("--recorded", metavar="FILE", help="play captured requests, JSON lines; - reads them from stdin")
    group.add_argument("--calls", action="store_true", help="list every call, and for a break its cause")


def simulate(args: Namespace) -> int:
    """Play a session against each model, and print a table for each."""
    place = find_place(args)
    if args.recorded is not None:
        if args.file is not None:
            raise InputError("name a scenario or --recorded, not both")
        from foreword.cli.replay import show_recorded

        return show_recorded(args, place.overrides)
    scenario = read(args.file)
    done = []
    for model in choose_models(args, scenario, place):
        compared = play(scenario, model, place)
        if args.json:
            done.append(write(compared, calls=args.calls))
        else:
            show(compared, calls=args.calls)
    if args.json:
        print_json({"scenario": scenario.name, "turns": scenario.turns, "models": done})
    return 0


def find_place(args: Namespace) -> Place:
    """Find what the workspace says, or nothing where there is none."""
    if find_folder(args) is None:
        return Place(overrides={}, models=())
    with open_here(args) as workspace:
        config = workspace.config
        models = dict.fromkeys(agent.model for agent in config.agents.values() if agent.model)
        return Place(overrides=config.models, models=tuple(models))


def read(file: str | None) -> "Scenario":
    """Read a scenario, or the one that ships."""
    from foreword.cli.files import read_text
    from foreword.simulate import find_living, read_scenario

    return find_living() if file is None else read_scenario(read_text(file), file)


def choose_models(args: Namespace, scenario: "Scenario", place: Place) -> Sequence[str]:
    """Choose the models: those that were typed, the scenario's own, or those of the workspace."""
    own = [scenario.model] if scenario.model else []
    named = args.model or ((own if args.file is not None else []) or place.models or own)
    if not named:
        raise InputError("which model? Name one with --model, or as `model` of the scenario")
    for name in named:
        refuse_unknown(name, place.overrides)
    return list(dict.fromkeys(named))


def refuse_unknown(model: str, overrides: "Mapping[str, ModelOverride]") -> None:
    """Refuse a model of which neither we nor the workspace know anything: by whose rules should it be played?"""
    from textwrap import fill

    from foreword.tokens.models import find, list_known, split

    if not model.strip():
        raise InputError("--model needs a name, such as anthropic:claude-sonnet-5")
    assumed = find(model, overrides).assumed
    if assumed and model not in overrides and split(model)[1] not in overrides:
        known = fill(", ".join(list_known()), 100, break_on_hyphens=False)
        own = "what another has is said under models in foreword.yaml"
        raise InputError(f"{assumed.partition(';')[0]}; {own}, and known is what begins with one of:\n{known}")


def play(scenario: "Scenario", model: str, place: Place) -> "Comparison":
    """Play a scenario against one model, and say what is only assumed about it."""
    from foreword.simulate import set_side_by_side

    compared = set_side_by_side(scenario, model, place.overrides)
    note_model(compared.service)
    largest = max(call.total for call in compared.results["ours"].calls)
    if largest > compared.service.model.window:
        warn(f"{model} has a window of {compared.service.model.window:,} tokens, and the session grows to {largest:,}")
    return compared


def note_model(service: "Service") -> None:
    """Warn about what is assumed of a model."""
    from foreword.simulate.side import name_rules

    facts = service.model
    if facts.assumed:
        warn(f"{facts.assumed.partition(';')[0]}; its cache is taken to follow the rules of {name_rules(service)}")
    if service.prices is None:
        warn(f"no price of {facts.name} is known; give input_usd under models in foreword.yaml for money")


def show(compared: "Comparison", *, calls: bool) -> None:
    """Show what each design reads and costs, and on demand every call."""
    from foreword.simulate import draw

    print(draw(compared))
    if calls:
        from foreword.cli.table import draw_with_notes, find_width

        print()
        draw_with_notes(*list_calls(compared), find_width())
        for design in compared.asked:
            print(f" {design}: {sum_up(compared.account(design))}")
    print()


def list_calls(compared: "Comparison") -> "tuple[Table, list[str]]":
    """List the calls of our design, each with what was decided before it and what it lost."""
    from foreword.cli.table import make_table

    heads = ("call", "turn", "after", "read", "written", "life", "neither")
    table, notes = make_table(*heads, right=heads), [""]
    facts = compared.service.cache
    standings, last = iter(compared.standings), compared.calls[0].at
    for call, account in zip(compared.calls, compared.account("ours"), strict=True):
        used, after = account.reported, int((call.at - last).total_seconds())
        figures = (call.number + 1, call.turn, after, used.read, used.write)
        table.add_row(*(f"{figure:,}" for figure in figures), name_life(used, facts), f"{used.fresh:,}")
        notes.append("; ".join(tell(next(standings) if call.first else None, account)))
        last = call.at
    return table, notes


def name_life(used: "Counted", facts: "CacheFacts") -> str:
    """Name for how long it was kept what a call has written; where that is two lives, each with its tokens."""
    usual, long = facts.usual.name, facts.lives[-1].name
    parts = {long: used.hour, usual: used.write - used.hour} if used.hour else {usual: used.write}
    kept = {name: tokens for name, tokens in parts.items() if tokens}
    return " + ".join(name if len(kept) == 1 else f"{name} {tokens:,}" for name, tokens in kept.items()) or "–"


def tell(standing: "Standing | None", account: "Account") -> Iterator[str]:
    """Tell what was decided before a call, and why something was not read."""
    for one in standing.decisions if standing else ():
        yield f"{one.deed} {one.section}: {one.reason}"
    if standing and standing.rebase and not standing.decisions:
        yield f"{standing.deed}: {standing.reason}"
    if account.blame:
        yield show_blame(account.blame)


def show_blame(blame: "Blame") -> str:
    """Show why something was not read."""
    where = f" {blame.where}" if blame.where else ""
    byte = f" at byte {blame.byte:,}" if blame.byte is not None else ""
    return f"break by {blame.cause}{where}{byte}, {blame.tokens:,} tokens again: {blame.reason}"


def sum_up(accounts: "Sequence[Account]") -> str:
    """Sum the breaks of a design up by their causes."""
    blames = [one.blame for one in accounts if one.blame]
    if not blames:
        return "no breaks"
    causes = Counter(" ".join(filter(None, (str(one.cause), one.where))) for one in blames)
    listed = ", ".join(f"{cause} {number}" for cause, number in causes.most_common())
    return f"{count(len(blames), 'break')}, {sum(one.tokens for one in blames):,} tokens again ({listed})"


def write(compared: "Comparison", *, calls: bool) -> dict[str, Any]:
    """Write a comparison as JSON-ready values."""
    from foreword.ledger.telling import tell_standing

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
                "of_oracle": compared.divide(name, "oracle"),
                "of_no_cache": compared.divide(name, "no cache"),
            }
            for name, result in compared.results.items()
        },
    }
    if calls:
        done["turns"] = [tell_standing(standing) for standing in compared.standings]
        done["calls"] = {name: list_accounts(compared.account(name)) for name in compared.asked}
    return done


def list_accounts(accounts: "Sequence[Account]") -> list[dict[str, Any]]:
    """List what each call used, and what is to blame for a miss, as JSON-ready values."""
    from foreword.ledger.telling import tell_account, tell_counted

    return [{"used": tell_counted(one.reported), "blame": tell_account(one)["blame"]} for one in accounts]
